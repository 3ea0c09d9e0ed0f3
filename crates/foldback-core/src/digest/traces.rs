//! What commands leave behind that others can see: commits, branches, pull requests, releases.

use super::text::in_one_line;

/// As much is told of one trace.
const TRACE_BYTES_MAX: usize = 160;

/// Traces that one command leaves at most.
const TRACES_MAX: usize = 8;

/// What a command that succeeded left behind, each in a few words.
pub(super) fn traces(command: &str, answer: &str) -> Vec<String> {
    let mut traces = Vec::new();
    if let Some(branch) = word_after(command, &["git checkout -b ", "git switch -c ", "git branch -m "]) {
        traces.push(format!("branch {branch}"));
    }
    if command.contains("git ") {
        traces.extend(answer.lines().filter_map(commit_in));
    }
    // A quiet commit, and the log behind it, newest first.
    if traces.is_empty() && command.contains("git commit") {
        let logged: Vec<String> = answer.lines().filter_map(logged_commit).collect();
        traces.extend(logged.into_iter().rev());
    }
    for (opening, what) in [("gh pr create", "pull request"), ("gh issue create", "issue")] {
        if command.contains(opening)
            && let Some(number) = number_in_address(answer)
        {
            let title = option(command, "--title").or_else(|| option(command, "-t")).unwrap_or_default();
            traces.push(format!("opened {what} #{number} {title}"));
        }
    }
    for (opening, what) in [
        ("gh pr merge ", "merged pull request #"),
        ("gh pr close ", "closed pull request #"),
        ("gh issue close ", "closed issue #"),
        ("gh release create ", "released "),
        ("git tag -a ", "tag "),
    ] {
        if let Some(name) = word_after(command, &[opening]).filter(|name| !name.starts_with('-')) {
            traces.push(format!("{what}{}", name.trim_start_matches('#')));
        }
    }
    if command.contains("git push")
        && let Some(line) = answer.lines().find(|line| line.contains(" -> ") && !line.contains("rejected"))
        && let Some((_, target)) = line.split_once(" -> ")
    {
        traces.push(format!("pushed {}", target.trim()));
    }
    if command.contains("npm publish") || command.contains("cargo publish") {
        traces.extend(answer.lines().rev().find(|line| line.starts_with("+ ")).map(str::to_owned));
    }
    traces.truncate(TRACES_MAX);
    traces.iter().map(|trace| in_one_line(trace, TRACE_BYTES_MAX)).collect()
}

/// `[branch 1a2b3c4] subject`, as git tells a commit.
fn commit_in(line: &str) -> Option<String> {
    let (place, subject) = line.strip_prefix('[')?.split_once("] ")?;
    let sha = place.rsplit(' ').next()?;
    let is_sha = sha.len() >= 7 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sha.then(|| format!("commit {sha} {subject}"))
}

/// `1a2b3c4 subject`, as a short log tells a commit.
fn logged_commit(line: &str) -> Option<String> {
    let (sha, subject) = line.split_once(' ')?;
    let is_sha = (7..=12).contains(&sha.len()) && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_sha && !subject.trim().is_empty()).then(|| format!("commit {sha} {subject}"))
}

/// The number at the end of an address such as `https://host/owner/name/pull/7`.
fn number_in_address(answer: &str) -> Option<&str> {
    let line = answer.lines().rev().find(|line| line.contains("/pull/") || line.contains("/issues/"))?;
    let number = line.trim().rsplit('/').next()?;
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then_some(&number[..digits])
}

/// The word that stands behind one of these.
fn word_after<'c>(command: &'c str, openings: &[&str]) -> Option<&'c str> {
    let start = openings.iter().find_map(|opening| Some(command.find(opening)? + opening.len()))?;
    let word = command[start..].split(|c: char| c.is_whitespace() || c == ';' || c == '&').next()?;
    let word = word.trim_matches(['"', '\'']);
    (!word.is_empty()).then_some(word)
}

/// The value of an option of a command.
fn option(command: &str, name: &str) -> Option<String> {
    let start = command.find(&format!("{name} "))? + name.len() + 1;
    let rest = command[start..].trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let end = rest[1..].find(quote)?;
    Some(rest[1..=end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_branches_and_pull_requests_are_found() {
        let commit = "git add -A && git commit -m \"$(cat <<'EOF'\nFix it\nEOF\n)\" && git push";
        let answer = "[fix/lexer 1a2b3c4d] Fix it\n 1 file changed\nTo host\n   a..b  fix/lexer -> fix/lexer";
        assert_eq!(traces(commit, answer), ["commit 1a2b3c4d Fix it", "pushed fix/lexer"]);
        assert_eq!(traces("git checkout -b fix/lexer", "Switched"), ["branch fix/lexer"]);
        let opened = traces("gh pr create --title \"Fix it\" --body x", "https://host/o/n/pull/17\n");
        assert_eq!(opened, ["opened pull request #17 Fix it"]);
        assert_eq!(traces("gh pr merge 17 --squash", "✓ Merged"), ["merged pull request #17"]);
        let quiet =
            traces("git commit -qm x && git log --oneline -2", "2b3c4d5e Fix more\n1a2b3c4d Fix it\n");
        assert_eq!(quiet, ["commit 1a2b3c4d Fix it", "commit 2b3c4d5e Fix more"]);
        assert!(traces("ls", "[a] b").is_empty());
    }
}
