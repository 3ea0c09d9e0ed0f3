//! What was done, in the words of a list: which files were changed, what was run and how it ended.

use super::json::fields_of_json;
use super::state::{plain_command, verdict};
use super::story::{Did, Story, What};
use super::text::{LEFT_OUT, beginning, decisive, in_one_line, set_back};
use super::traces::traces;
use crate::ledger::{is_constraint, is_decision, own_words};
use crate::reading::{clipped, fields};
use crate::tools::{Action, is_check};

/// Names of one kind that a line tells.
const NAMES_MAX: usize = 4;

/// Bytes of what a failed call said, and of what another one did.
const FAILURE_BYTES_MAX: usize = 280;
const OUTPUT_BYTES_MAX: usize = 420;
const OUTPUT_LINES_MAX: usize = 12;
const OUTPUT_BYTES_MIN: usize = 40;

/// Bytes of a command in a list of them.
const COMMAND_BYTES_MAX: usize = 140;
const CHAIN_BYTES_MAX: usize = 70;
const ID_BYTES_MAX: usize = 24;

/// Signatures told of one change, and their length.
const SIGNATURES_MAX: usize = 6;
const SIGNATURE_BYTES: std::ops::Range<usize> = 12..170;

/// Fields told of a type.
const FIELDS_MAX: usize = 12;
const TYPE_BYTES_MAX: usize = 320;

/// Remarks with a reason told of one change, and their length.
const REMARKS_MAX: usize = 3;
const REMARK_BYTES: std::ops::Range<usize> = 40..260;

/// Calls between two things that were said, in one line.
pub(super) struct Stretch {
    /// The number of its first event.
    pub(super) start: usize,
    pub(super) text: String,
}

/// The stretches of what was done and is not seen, in order.
pub(super) fn stretches(story: &Story<'_>) -> Vec<Stretch> {
    let mut all = Vec::new();
    let mut open: Option<(usize, Vec<&Did<'_>>)> = None;
    for (number, event) in story.events.iter().enumerate() {
        match &event.what {
            What::Did(did) if !event.is_visible => {
                open.get_or_insert_with(|| (number, Vec::new())).1.push(did);
            }
            What::Thought(_) => {}
            _ => all.extend(open.take().and_then(|(start, deeds)| stretch(start, &deeds))),
        }
    }
    all.extend(open.take().and_then(|(start, deeds)| stretch(start, &deeds)));
    all
}

/// What was done of one kind, each with how often.
#[derive(Default)]
struct Names(Vec<(String, usize)>);

impl Names {
    fn add(&mut self, name: String) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.0.push((name, 1)),
        }
    }

    fn clause(&self, verb: &str) -> Option<String> {
        let times = |(name, count): &(String, usize)| match count {
            1 => name.clone(),
            _ => format!("{name} ×{count}"),
        };
        let told: Vec<String> = self.0.iter().take(NAMES_MAX).map(times).collect();
        let more = match self.0.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!told.is_empty()).then(|| format!("{verb} {}{more}", told.join(", ")))
    }
}

fn stretch(start: usize, deeds: &[&Did<'_>]) -> Option<Stretch> {
    let (mut wrote, mut edited, mut checked) = (Names::default(), Names::default(), Names::default());
    let (mut ran, mut sent, mut read) = (Names::default(), Names::default(), Names::default());
    for did in deeds.iter().filter(|did| !did.has_todos() && !did.asks()) {
        for action in &did.actions {
            match action {
                Action::Write { path } if !did.outcome.failed => wrote.add(path.clone()),
                Action::Edit { path } if !did.outcome.failed => edited.add(path.clone()),
                Action::Delete { path } if !did.outcome.failed => edited.add(format!("{path} (deleted)")),
                Action::Run { command, .. } if is_check(command) => {
                    let has_counts = did.outcome.tests.is_some();
                    let verdict =
                        if did.outcome.failed && !has_counts { "failed".to_owned() } else { verdict(did) };
                    checked.add(format!("`{}` → {verdict}", plain_command(command)));
                }
                Action::Run { command, .. } if !did.only_looks() && !did.outcome.failed => {
                    let left = traces(command, did.answer.as_deref().unwrap_or(""));
                    match left.is_empty() {
                        true => ran.add(format!("`{}`", without_form(&plain_command(command)))),
                        false => left.into_iter().for_each(|trace| ran.add(trace)),
                    }
                }
                Action::Agent { task } => sent.add(in_one_line(task, 100)),
                Action::Read { path, .. } => read.add(path.clone()),
                _ => {}
            }
        }
    }
    // Which files were looked at says something only where nothing else was done.
    read.0.iter_mut().for_each(|(_, count)| *count = 1);
    let clauses = [
        wrote.clause("wrote"),
        edited.clause("edited"),
        checked.clause("checked"),
        ran.clause("ran"),
        sent.clause("sent an agent to"),
        read.clause("read").filter(|_| [&wrote, &edited, &checked].iter().all(|names| names.0.is_empty())),
    ];
    let clauses: Vec<String> = clauses.into_iter().flatten().collect();
    (!clauses.is_empty()).then(|| Stretch { start, text: clauses.join("; ") })
}

/// A command without how its output was to look; a long one by its program.
fn without_form(command: &str) -> String {
    let is_chain = ["&&", ";", "|", "echo ", "for ", "$("].iter().any(|sign| command.contains(sign));
    if command.len() > if is_chain { CHAIN_BYTES_MAX } else { COMMAND_BYTES_MAX } {
        return program(command);
    }
    let end =
        [" --json", " --jq", " --format", " --pretty"].iter().filter_map(|option| command.find(option)).min();
    in_one_line(end.map_or(command, |end| &command[..end]), COMMAND_BYTES_MAX)
}

/// A command as its program and what it was told to do: `git push`, `gh pr view 12`.
pub(super) fn program(command: &str) -> String {
    let command = plain_command(command);
    let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
    let Some(first) = words.next() else { return command };
    let mut name = first.rsplit('/').next().unwrap_or(first).to_owned();
    let is_verb =
        |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && !word.starts_with('-');
    // What it is done to, where that is a number or a name with one.
    let is_id = |word: &str| {
        word.len() <= ID_BYTES_MAX && word.bytes().any(|b| b.is_ascii_digit()) && !word.contains(['/', '='])
    };
    for (place, word) in words.take(3).enumerate() {
        let is_last = is_id(word);
        if !is_last && (place == 2 || !is_verb(&word)) {
            break;
        }
        name.push(' ');
        name.push_str(word);
        if is_last {
            break;
        }
    }
    name
}

/// What a call that failed said, in one line, unless it only looked for something.
pub(super) fn failed(did: &Did<'_>) -> Option<String> {
    // A search that finds nothing is no failure; a file that is not there is.
    if did.is_refused() {
        return Some("the user did not let it happen".to_owned());
    }
    if !did.outcome.failed || (did.only_looks() && did.command().is_some()) {
        return None;
    }
    let said = decisive(did.answer.as_deref()?, FAILURE_BYTES_MAX);
    Some(in_one_line(&said, FAILURE_BYTES_MAX))
}

/// What a command said that was neither a check nor a look at files.
pub(super) fn said_by_command(did: &Did<'_>) -> Option<String> {
    let command =
        did.command().filter(|command| !is_check(command) && !did.only_looks() && !did.outcome.failed)?;
    let said = did.answer.as_deref().and_then(|answer| fields_of_json(answer, OUTPUT_BYTES_MAX));
    let said = said.map(|said| in_one_line(&said, OUTPUT_BYTES_MAX));
    let said = said.unwrap_or_else(|| {
        let lines: Vec<&str> = did.said_lines().take(OUTPUT_LINES_MAX).collect();
        in_one_line(&lines.join(" "), OUTPUT_BYTES_MAX)
    });
    (said.len() >= OUTPUT_BYTES_MIN)
        .then(|| format!("  `{}` said: {said}", without_form(&plain_command(command))))
}

/// What a change wrote that is worth knowing later: signatures, and remarks that give a reason. With the
/// file that they stand in.
pub(super) fn written_in(did: &Did<'_>) -> Option<(String, String)> {
    if did.outcome.failed {
        return None;
    }
    let path = did.actions.iter().find(|action| action.is_change())?.file()?.to_owned();
    let (mut signatures, mut remarks): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for field in fields(did.call) {
        if field.key.to_ascii_lowercase().starts_with("old") {
            continue;
        }
        let is_added = |line: &&str| !line.starts_with('-');
        let raw: Vec<&str> =
            field.value.lines().filter(is_added).map(|line| line.strip_prefix('+').unwrap_or(line)).collect();
        let all: Vec<&str> = raw.iter().map(|line| line.trim()).collect();
        let is_told = |number: usize| is_signature(all[number]) || is_constant(raw[number]);
        for (number, line) in all.iter().enumerate().filter(|&(number, _)| is_told(number)) {
            let told = signature(line, &all[number + 1..]);
            if signatures.len() < SIGNATURES_MAX && !signatures.contains(&told) {
                signatures.push(told);
            }
        }
        remarks.extend(reasons_in(all.iter().copied()));
    }
    remarks.truncate(REMARKS_MAX);
    let told = match (signatures.is_empty() || path.ends_with(".md"), remarks.is_empty()) {
        (true, true) => return None,
        (false, true) => signatures.join(" ; "),
        (true, false) => format!("“{}”", remarks.join("” “")),
        (false, false) => format!("{} ; with the remarks “{}”", signatures.join(" ; "), remarks.join("” “")),
    };
    let text = format!("  wrote in {path}: {told}");
    Some((path, text))
}

/// The words of a change of a file: what it writes, without what it replaces.
pub(super) fn content_of(did: &Did<'_>, bytes_max: usize) -> Option<String> {
    let path = did.actions.iter().find(|action| action.is_change())?.file()?;
    if did.outcome.failed || did.command().is_some() || did.plan().is_some() {
        return None;
    }
    let is_old =
        |key: &str| key.to_ascii_lowercase().starts_with("old") || key.to_ascii_lowercase().contains("path");
    let new = fields(did.call).into_iter().filter(|field| !is_old(&field.key) && field.value.contains('\n'));
    let added: Vec<String> = new
        .flat_map(|field| {
            let lines =
                field.value.lines().filter(|line| !line.starts_with(['-', '*']) && !line.trim().is_empty());
            lines.map(|line| line.trim_start_matches('+').to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let text = beginning(&added.join("\n"), bytes_max);
    (!text.is_empty()).then(|| format!("  the words of the change of {path}:\n    {}", set_back(&text)))
}

/// Comments that say why, each in one line.
fn reasons_in<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut open = String::new();
    let mut end = |open: &mut String| {
        let remark = std::mem::take(open);
        if REMARK_BYTES.start <= remark.len() && is_decision(&remark) {
            remarks.push(beginning(&remark, REMARK_BYTES.end));
        }
    };
    for line in lines {
        let comment = ["///", "//!", "//", "# ", "* "].iter().find_map(|mark| line.strip_prefix(mark));
        match comment {
            Some(comment) => {
                open.push_str(if open.is_empty() { "" } else { " " });
                open.push_str(comment.trim());
            }
            None => end(&mut open),
        }
    }
    end(&mut open);
    remarks
}

/// A signature; of a type, with what it holds.
fn signature(line: &str, next: &[&str]) -> String {
    let is_type = ["struct ", "interface ", "enum ", "type "].iter().any(|word| line.contains(word));
    if !is_type || !line.ends_with('{') {
        return line.trim_end_matches(['{', ' ']).to_owned();
    }
    let fields = next
        .iter()
        .take_while(|line| !line.starts_with('}'))
        .filter(|line| !line.starts_with(['/', '*', '#']));
    let fields: Vec<&str> = fields.copied().take(FIELDS_MAX).collect();
    format!("{} }}", beginning(&format!("{line} {}", fields.join(" ")), TYPE_BYTES_MAX))
}

/// Whether a line names a value for the whole file.
fn is_constant(line: &str) -> bool {
    let plain = line.trim_start_matches("pub ").trim_start_matches("export ");
    let is_named = ["const ", "static ", "var ", "let "].iter().any(|word| plain.starts_with(word));
    is_named
        && SIGNATURE_BYTES.contains(&line.len())
        && line.contains('=')
        && !line.trim_end().ends_with(['{', '(', '['])
}

fn is_signature(line: &str) -> bool {
    const WORDS: &[&str] = &[
        "fn ",
        "func ",
        "function ",
        "def ",
        "class ",
        "interface ",
        "constructor(",
        "struct ",
        "trait ",
        "impl ",
        "enum ",
        "type ",
    ];
    let is_code =
        !line.starts_with(['/', '*', '#', '<', '-', '"']) && line.ends_with(['{', ':', ')', ';', '(']);
    let start = line.trim_start_matches("pub ").trim_start_matches("export ").trim_start_matches("async ");
    let start =
        start.trim_start_matches("default ").trim_start_matches("private ").trim_start_matches("public ");
    SIGNATURE_BYTES.contains(&line.len()) && is_code && WORDS.iter().any(|word| start.starts_with(word))
}

/// The rules in a guide for agents or contributors that was read, with the path of the guide.
pub(super) fn guide_rules<'d>(did: &'d Did<'_>, bytes_max: usize) -> Option<(&'d str, String)> {
    let path = did.actions.iter().find_map(|action| match action {
        Action::Read { path, .. } => Some(path.as_str()),
        _ => None,
    })?;
    if did.outcome.failed || !is_guide(path) {
        return None;
    }
    let answer = did.answer.as_deref()?;
    let mut rules = String::new();
    for span in own_words(answer) {
        let sentence = answer[span].trim();
        if is_constraint(sentence) && rules.len() + sentence.len() <= bytes_max {
            rules.push_str(if rules.is_empty() { "" } else { " " });
            rules.push_str(clipped(sentence, REMARK_BYTES.end));
        }
    }
    (!rules.is_empty()).then(|| (path, format!("  `{path}` says: {} {LEFT_OUT}", set_back(&rules))))
}

fn is_guide(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_text = name.ends_with(".md") || name.ends_with(".mdc");
    let is_guide = ["AGENTS", "CLAUDE", "GEMINI", "CONTRIBUTING", "CONVENTIONS"]
        .iter()
        .any(|known| name.starts_with(known));
    is_text
        && (is_guide
            || ["/.agents/", "/.claude/", "/.cursor/"]
                .iter()
                .any(|folder| format!("/{path}").contains(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_by_its_program_and_what_it_does() {
        assert_eq!(program("cd /a && gh pr view 12 --json title | head"), "gh pr view 12");
        assert_eq!(program("GIT_EDITOR=true git rebase --continue"), "git rebase");
        assert_eq!(program("/usr/bin/python3 run.py"), "python3");
    }

    #[test]
    fn of_comments_those_are_told_that_give_a_reason() {
        let lines = [
            "// The token stands for the user,",
            "// so it is sent because servers ask for it.",
            "let x = 1;",
            "// counts",
        ];
        let reasons = reasons_in(lines.into_iter());
        assert_eq!(reasons, ["The token stands for the user, so it is sent because servers ask for it."]);
    }

    #[test]
    fn guides_are_known_by_name_or_folder() {
        assert!(is_guide("AGENTS.md") && is_guide("/w/.agents/workflow.md"));
        assert!(!is_guide("README.md") && !is_guide("src/agents.rs"));
    }
}
