//! What must stand in a summary: the user's rules and the files that were changed, as far as nothing
//! that stays visible tells them.

use foldback_core::ledger::{Detail, Operation};
use foldback_core::{Fact, FactKind, ItemKind, Ledger, Meter, Text, Tokens};

/// Shares of a summary that rules and files may take.
const RULES_FRACTION: f64 = 0.3;
const FILES_FRACTION: f64 = 0.15;

/// Rules and files that are looked at, the newest first.
const LOOKED_AT_MAX: usize = 500;

/// What a line costs beside its words: its mark and its end.
const LINE_TOKENS: u64 = 2;

/// What must stand in a summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Demands {
    /// Sentences of the user, word for word, in order.
    pub(super) rules: Vec<Text>,
    /// Files that were changed, in order of their last change.
    pub(super) files: Vec<ChangedFile>,
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
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.rules.len() + self.files.len()
    }

    /// Word for word, as a backend is given them.
    pub(super) fn texts(&self) -> Vec<Text> {
        self.rules.iter().cloned().chain(self.files.iter().map(|file| file.path.clone())).collect()
    }

    /// Those that a text does not have.
    pub(super) fn missing_in(&self, text: &str) -> Self {
        let text = one_spaced(text);
        Self {
            rules: self.rules.iter().filter(|rule| !says(&text, rule)).cloned().collect(),
            files: self.files.iter().filter(|file| !names(&text, &file.path)).cloned().collect(),
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
    let line = match operation {
        Operation::Deleted => format!("{path} (deleted)").into(),
        Operation::Read | Operation::Written | Operation::Edited | Operation::Searched => path.clone(),
    };
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
            ["Never touch src/lexer.rs.", "Use tabs, not spaces.", "src/parser.rs", "src/old.rs"]
        );
        let kept = ["Use tabs, not spaces. And src/old.rs is gone."];
        let rest: Vec<String> = demands(&kept, 1_000).texts().iter().map(ToString::to_string).collect();
        assert_eq!(rest, ["Never touch src/lexer.rs.", "src/parser.rs"]);
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
    fn a_demand_is_met_by_its_words_in_any_line_breaks_and_not_by_similar_ones() {
        let demands = demands(&[], 1_000);
        let met = "never mind.\n- Never touch\n  src/lexer.rs!\n- Use tabs, not spaces\n`src/parser.rs`, src/old.rs.";
        assert_eq!(demands.missing_in(met), Demands::default());
        let similar = "Do not touch src/lexer.rs. Use tabs. my/src/parser.rs, src/old.rs.bak";
        assert_eq!(demands.missing_in(similar).count(), demands.count());
    }
}
