//! What must stand in a summary: the user's rules, the files that were changed, and the newest failure that
//! nothing has solved, as far as nothing that stays visible tells them.

use foldback_core::ledger::{Detail, ErrorState, Operation};
use foldback_core::{ChosenLines, Fact, FactKind, ItemKind, KeptLine, Ledger, Meter, Speaker, Text, Tokens};

/// Shares of a summary that rules and files may take.
const RULES_FRACTION: f64 = 0.3;
const FILES_FRACTION: f64 = 0.15;

/// Rules and files that are looked at, the newest first.
const LOOKED_AT_MAX: usize = 500;

/// How many items back a failure is still the newest.
const FAILURE_ITEMS_MAX: usize = 100;

/// A longer line of an error is not demanded word for word.
const FAILURE_FRACTION: f64 = 0.1;

/// A shorter folder is said with every file.
const FOLDER_BYTES_MIN: usize = 8;

/// What a line costs beside its words: its mark and its end.
const LINE_TOKENS: u64 = 2;

/// What must stand in a summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Demands {
    /// Sentences of the user, word for word, in order.
    pub(super) rules: Vec<Text>,
    /// Files that were changed, in order of their last change.
    pub(super) files: Vec<ChangedFile>,
    /// The newest failure that is still open.
    pub(super) failure: Option<Failure>,
    /// Lines of others that a person asked to keep. As with the failure, no model is told to repeat them.
    pub(super) kept: Vec<KeptLine>,
}

/// Something that went wrong and was not solved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    /// The line that says what went wrong.
    pub(super) error: Text,
    /// The command that failed, where it was one.
    pub(super) command: Option<Text>,
}

impl Failure {
    /// The newest one in a ledger, unless it is long ago.
    fn newest(ledger: &Ledger) -> Option<Self> {
        let open = |fact: &Fact| match &fact.detail {
            Detail::Error(ErrorState { raised_by, fixed_by: None, .. }) => {
                Some((*raised_by, fact.text.clone()))
            }
            _ => None,
        };
        let (raised_by, error) =
            ledger.of_kind(FactKind::Error).filter_map(open).max_by_key(|open| open.0)?;
        let ran = |fact: &&Fact| match &fact.detail {
            Detail::Command(history) => history.runs.iter().any(|run| run.item_index == raised_by),
            _ => false,
        };
        let command = ledger.of_kind(FactKind::Command).find(ran).map(|fact| fact.text.clone());
        (raised_by + FAILURE_ITEMS_MAX >= ledger.item_count()).then_some(Self { error, command })
    }

    /// In a line.
    pub(super) fn line(&self) -> String {
        match &self.command {
            Some(command) => format!("`{command}` failed: {}", self.error),
            None => self.error.to_string(),
        }
    }
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChangedFile {
    pub(super) path: Text,
    /// What is written of it.
    pub(super) line: Text,
}

impl Demands {
    /// What the ledger of the folded items demands of a summary of `tokens_max`.
    pub(super) fn of(ledger: &Ledger, kept: &[Text], tokens_max: Tokens, meter: &Meter) -> Self {
        let is_visible = |words: &str| kept.iter().any(|text| text.contains(words));
        let rules =
            ledger.of_kind(FactKind::Constraint).rev().filter(|fact| is_users(fact)).take(LOOKED_AT_MAX);
        let rules = rules.filter(|fact| !is_visible(&fact.text)).map(|fact| fact.text.clone());
        let mut changes: Vec<(usize, ChangedFile)> =
            ledger.of_kind(FactKind::Path).filter_map(change).collect();
        changes.sort_by_key(|(item_index, _)| std::cmp::Reverse(*item_index));
        let files = changes.into_iter().take(LOOKED_AT_MAX).map(|(_, file)| file);
        let files = files.filter(|file| !is_visible(&file.path));
        Self {
            rules: within(rules, tokens_max.scaled_down(RULES_FRACTION), |rule| meter.text(rule)),
            files: within(files, tokens_max.scaled_down(FILES_FRACTION), |file| meter.text(&file.line)),
            failure: Failure::newest(ledger).filter(|failure| {
                let tokens = Tokens(meter.text(&failure.line()));
                !is_visible(&failure.error) && tokens <= tokens_max.scaled_down(FAILURE_FRACTION)
            }),
            kept: Vec::new(),
        }
    }

    /// The same, with the lines that a person asked to keep: the user's own are told like rules.
    pub(super) fn keeping(mut self, lines: ChosenLines) -> Self {
        let (users, others): (Vec<KeptLine>, Vec<KeptLine>) =
            lines.lines.into_iter().partition(|line| line.by == Speaker::User);
        let users: Vec<Text> = users.into_iter().map(|line| line.text).collect();
        self.rules.retain(|rule| !users.iter().any(|line| says(&one_spaced(line), rule)));
        self.rules.extend(users);
        self.kept = others;
        self
    }

    /// The same without a failure that was solved in what stays visible.
    pub(super) fn without_solved(mut self, later: &Ledger) -> Self {
        let went_well = |failure: &Failure| {
            let command = failure.command.as_ref()?;
            match &later.get(FactKind::Command, command)?.detail {
                Detail::Command(history) => history.runs.last().map(|run| !run.failed),
                _ => None,
            }
        };
        self.failure = self.failure.filter(|failure| went_well(failure) != Some(true));
        self
    }

    /// How many a model is judged by.
    pub(super) fn count(&self) -> usize {
        self.rules.len() + self.files.len() + usize::from(self.failure.is_some())
    }

    /// As a backend is given them: rules word for word, files with what was done to them. The failure is not
    /// among them: it is what a tool said, and no model is told that it must repeat that.
    pub(super) fn texts(&self) -> Vec<Text> {
        let files = self.files.iter().map(|file| file.line.clone());
        self.rules.iter().cloned().chain(files).collect()
    }

    /// The changed files, each in a line; a folder that all of them are in is said once.
    pub(super) fn file_lines(&self) -> Vec<Text> {
        let folder_of = |path: &str| path.rfind('/').map_or(0, |end| end + 1);
        let mut folder = self.files.first().map_or("", |file| &file.path[..folder_of(&file.path)]);
        while !self.files.iter().all(|file| file.path.starts_with(folder)) {
            folder = &folder[..folder_of(folder.trim_end_matches('/'))];
        }
        if self.files.len() < 2 || folder.len() < FOLDER_BYTES_MIN {
            return self.files.iter().map(|file| file.line.clone()).collect();
        }
        let within = self.files.iter().map(|file| Text::from(&file.line[folder.len()..]));
        std::iter::once(Text::from(format!("in {folder}:"))).chain(within).collect()
    }

    /// Those that a text does not have.
    pub(super) fn missing_in(&self, text: &str) -> Self {
        let (verbatim, text) = (text, one_spaced(text));
        Self {
            rules: self.rules.iter().filter(|rule| !says(&text, rule)).cloned().collect(),
            files: self.files.iter().filter(|file| !names_file(&text, &file.path)).cloned().collect(),
            failure: self.failure.clone().filter(|failure| !says(&text, &failure.error)),
            kept: self.kept.iter().filter(|line| !verbatim.contains(&*line.text)).cloned().collect(),
        }
    }
}

/// The newest of them within `tokens_max`, in order.
fn within<T>(
    newest_first: impl Iterator<Item = T>,
    tokens_max: Tokens,
    tokens: impl Fn(&T) -> u64,
) -> Vec<T> {
    let mut left = tokens_max.0;
    let fits = |one: &T| {
        let cost = tokens(one) + LINE_TOKENS;
        let fits = cost <= left;
        left -= if fits { cost } else { 0 };
        fits
    };
    let mut chosen: Vec<T> = newest_first.filter(fits).collect();
    chosen.reverse();
    chosen
}

fn is_users(fact: &Fact) -> bool {
    matches!(fact.detail, Detail::Constraint { given_by: ItemKind::User })
}

fn change(fact: &Fact) -> Option<(usize, ChangedFile)> {
    let Detail::Path(history) = &fact.detail else { return None };
    let (operation, item_index) = history.last_change?;
    let path = fact.text.clone();
    let line = match (operation, history.written_count + history.edited_count) {
        (Operation::Deleted, _) => format!("{path} (deleted)"),
        (_, 1) => format!("{path} (changed once)"),
        (_, count) => format!("{path} (changed ×{count})"),
    };
    let line = line.into();
    Some((item_index, ChangedFile { path, line }))
}

fn one_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a text has a sentence in it; how it ends makes no difference.
fn says(text: &str, sentence: &str) -> bool {
    let sentence = one_spaced(sentence);
    text.contains(sentence.trim_end_matches(['.', '!', ';']))
}

/// Whether a text names a file: by its path, or by the rest of it where the folder is said as well.
fn names_file(text: &str, path: &str) -> bool {
    let below = |(at, _)| text.contains(&path[..at]) && names(text, &path[at + 1..]);
    names(text, path) || path.match_indices('/').filter(|(at, _)| *at > 0).any(below)
}

/// Whether a text names a path as a whole, not as the beginning or the end of another.
fn names(text: &str, path: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/');
    text.match_indices(path).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + path.len()..]);
        let goes_on = after.strip_prefix('.').unwrap_or(after).starts_with(is_inside);
        !before.ends_with(is_inside) && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{Item, Part, ToolResult, Transcript};
    use serde_json::json;

    fn ledger() -> Ledger {
        let mut ledger = Ledger::new();
        ledger.push(0, &Item::user("u", "Fix the parser. Never touch src/lexer.rs. Use tabs, not spaces."));
        for (number, path) in ["src/parser.rs", "src/old.rs"].into_iter().enumerate() {
            let input = json!({"file_path": path, "content": "x"});
            let call = Part::call(format!("c{number}"), "Write", &input);
            ledger.push(1 + 2 * number, &Item::assistant(format!("a{number}"), vec![call]));
            let result = ToolResult::text(format!("c{number}"), "ok");
            ledger.push(2 + 2 * number, &Item::tool(format!("t{number}"), result));
        }
        ledger
    }

    fn demands(kept: &[&str], tokens_max: u64) -> Demands {
        let kept: Vec<Text> = kept.iter().map(|&text| Text::from(text)).collect();
        let transcript = Transcript::default();
        Demands::of(&ledger(), &kept, Tokens(tokens_max), transcript.meter())
    }

    #[test]
    fn rules_and_changed_files_are_demanded_unless_they_stay_visible() {
        let all: Vec<String> = demands(&[], 1_000).texts().iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                "Never touch src/lexer.rs.",
                "Use tabs, not spaces.",
                "src/parser.rs (changed once)",
                "src/old.rs (changed once)"
            ]
        );
        let kept = ["Use tabs, not spaces. And src/old.rs is gone."];
        let rest: Vec<String> = demands(&kept, 1_000).texts().iter().map(ToString::to_string).collect();
        assert_eq!(rest, ["Never touch src/lexer.rs.", "src/parser.rs (changed once)"]);
    }

    #[test]
    fn demands_take_no_more_than_their_share_of_a_summary() {
        let transcript = Transcript::default();
        for tokens_max in [0, 20, 40, 60, 200] {
            let texts = demands(&[], tokens_max).texts();
            let tokens: u64 = texts.iter().map(|text| transcript.meter().text(text)).sum();
            assert!(tokens * 2 <= tokens_max, "{texts:?}");
        }
    }

    #[test]
    fn changed_files_are_listed_under_the_folder_that_all_of_them_are_in() {
        let listed = |paths: &[&str]| {
            let file = |&path: &&str| ChangedFile {
                path: path.into(),
                line: format!("{path} (changed once)").into(),
            };
            let files = paths.iter().map(file).collect();
            Demands { files, ..Demands::default() }.file_lines().join("\n")
        };
        let both = listed(&["/home/me/parser/src/a.rs", "/home/me/parser/docs/b.md"]);
        assert_eq!(both, "in /home/me/parser/:\nsrc/a.rs (changed once)\ndocs/b.md (changed once)");
        assert!(names_file(&both, "/home/me/parser/docs/b.md"), "and are found there");
        assert_eq!(listed(&["/home/me/parser/src/a.rs"]), "/home/me/parser/src/a.rs (changed once)");
        assert_eq!(listed(&["/etc/a", "src/b"]), "/etc/a (changed once)\nsrc/b (changed once)");
        assert_eq!(listed(&[]), "");
    }

    #[test]
    fn a_file_is_named_where_its_folder_is_said_once() {
        let path = "/home/me/parser/src/rules.rs";
        assert!(names_file("In /home/me/parser: src/rules.rs (changed ×3)", path));
        assert!(!names_file("In /home/me/lexer: src/rules.rs (changed ×3)", path));
        assert!(!names_file("In /home/me/parser: docs/src/rules.rs, and mod_rules.rs", path));
        assert!(!names_file("/home/me/parser/src", path));
    }

    #[test]
    fn a_demand_is_met_by_its_words_in_any_line_breaks_and_not_by_similar_ones() {
        let demands = demands(&[], 1_000);
        let met = "never mind.\n- Never touch\n  src/lexer.rs!\n- Use tabs, not spaces\n`src/parser.rs`, src/old.rs.";
        assert_eq!(demands.missing_in(met), Demands::default());
        let similar = "Do not touch src/lexer.rs. Use tabs. my/src/parser.rs, src/old.rs.bak";
        assert_eq!(demands.missing_in(similar).count(), demands.count());
    }
}
