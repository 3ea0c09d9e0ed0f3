//! Pictures of sessions in characters: what became of each item, on a line of time.

use foldback_core::{Edit, Item, Part, ResultPart, ToolInput, View, secrets};
use regex::RegexSet;

use crate::terminal::{BLUE, FAINT, GREEN, RED, YELLOW, styled};

/// What a compaction does to an item of its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Kept,
    Rewritten,
    Folded,
    Dropped,
}

/// How many items share each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) kept: usize,
    pub(crate) rewritten: usize,
    pub(crate) folded: usize,
    pub(crate) dropped: usize,
}

impl Fates {
    /// What edits do to the view that they were made on.
    pub(crate) fn of<'e>(view: &View, edits: impl IntoIterator<Item = &'e Edit>) -> Self {
        let mut fates = Self::default();
        for mark in marks(view, edits) {
            match mark {
                Mark::Kept => fates.kept += 1,
                Mark::Rewritten => fates.rewritten += 1,
                Mark::Folded => fates.folded += 1,
                Mark::Dropped => fates.dropped += 1,
            }
        }
        fates
    }
}

/// What becomes of every item of the view that was planned on, by position.
fn marks<'e>(view: &View, edits: impl IntoIterator<Item = &'e Edit>) -> Vec<Mark> {
    let mut by_index = vec![Mark::Kept; view.transcript().len()];
    for edit in edits {
        match edit {
            Edit::Drop(drop) => by_index[drop.range.clone()].fill(Mark::Dropped),
            Edit::Fold(fold) => fold.folded().for_each(|range| by_index[range].fill(Mark::Folded)),
            Edit::Rewrite(rewrite) => {
                if by_index[rewrite.item_index] == Mark::Kept {
                    by_index[rewrite.item_index] = Mark::Rewritten;
                }
            }
        }
    }
    view.iter().map(|entry| by_index.get(entry.anchor()).copied().unwrap_or(Mark::Kept)).collect()
}

/// The items from left to right, each as wide as its share of the tokens; a legend below.
pub(crate) fn timeline<'e>(
    view: &View,
    edits: impl IntoIterator<Item = &'e Edit>,
    width: usize,
) -> Vec<String> {
    let marks = marks(view, edits);
    let total = view.tokens().0.max(1);
    let mut columns: Vec<[u64; 4]> = vec![[0; 4]; width.max(1)];
    let mut seen = 0;
    for (entry, mark) in view.iter().zip(&marks) {
        let tokens = entry.tokens().total.0;
        // An item is spread over the columns that its tokens reach.
        let (mut from, end) = (seen, seen + tokens);
        while from < end {
            let column =
                ((from as u128 * columns.len() as u128 / u128::from(total)) as usize).min(columns.len() - 1);
            let boundary = (column as u128 + 1) * u128::from(total) / columns.len() as u128;
            let to = end.min((boundary as u64).max(from + 1));
            columns[column][*mark as usize] += to - from;
            from = to;
        }
        seen = end;
    }
    let cell = |column: &[u64; 4]| {
        let most = (0..4).max_by_key(|&mark| (column[mark], 4 - mark)).unwrap_or(0);
        match most {
            0 => styled(GREEN, "█"),
            1 => styled(YELLOW, "▒"),
            2 => styled(BLUE, "░"),
            _ => styled(RED, "·"),
        }
    };
    let bar: String = columns.iter().map(cell).collect();
    let legend = format!(
        "{} kept  {} shortened or cleared  {} folded  {} dropped  {}",
        styled(GREEN, "█"),
        styled(YELLOW, "▒"),
        styled(BLUE, "░"),
        styled(RED, "·"),
        styled(FAINT, "(width = tokens before)"),
    );
    vec![bar, legend]
}

/// Characters of the first line that are worth looking at.
const HEADLINE_MAX: usize = 160;

/// An item in a line: kind, tools, and the first thing it says.
pub(crate) fn headline(item: &Item) -> String {
    let what = match &item.summary {
        Some(summary) => format!("summary of {} items", summary.item_count),
        None => item.kind.to_string(),
    };
    let tools: Vec<&str> = item.calls().map(|(_, call)| call.name.as_str()).collect();
    let tools = if tools.is_empty() { String::new() } else { format!(" → {}", tools.join(", ")) };
    let failed = if item.results().any(|(_, result)| result.is_error) { " (failed)" } else { "" };
    format!("{what}{tools}{failed}: {}", first_line(item))
}

/// Whether any text of an item matches one of these; nothing matches none.
pub(crate) fn matches(patterns: &RegexSet, item: &Item) -> bool {
    !patterns.is_empty() && item.parts.iter().any(|part| texts(part).any(|text| patterns.is_match(text)))
}

/// The first line of an item that is not blank, shortened, without secrets; of the user's the first that was typed.
pub(crate) fn first_line(item: &Item) -> String {
    let typed: Vec<_> = (0..item.parts.len()).filter_map(|part_index| item.typed(part_index)).collect();
    let texts = item.parts.iter().flat_map(texts);
    let texts = typed.iter().map(|text| &**text).chain(texts);
    let first = texts.map(secrets::first_line).find(|line| !line.is_empty());
    let label = || match item.parts.first() {
        Some(Part::Media(media)) => format!("[{}]", media.media_type),
        Some(Part::File(file)) => format!("[{}]", file.label()),
        _ => String::new(),
    };
    first.map_or_else(label, |line| line.chars().take(HEADLINE_MAX).collect())
}

/// Everything in a part that can be read as text.
pub(crate) fn texts(part: &Part) -> impl Iterator<Item = &str> {
    let (own, result) = match part {
        Part::Text(text) => (Some(text.as_str()), None),
        Part::Reasoning(reasoning) => (Some(reasoning.text.as_str()), None),
        Part::ToolCall(call) => match &call.input {
            ToolInput::Json(json) => (Some(json.as_str()), None),
            ToolInput::Text(text) => (Some(text.as_str()), None),
        },
        Part::ToolResult(result) => (None, Some(result)),
        Part::Structured(json) => (Some(json.as_str()), None),
        Part::Opaque(opaque) => (Some(opaque.json.as_str()), None),
        Part::Media(_) | Part::File(_) => (None, None),
    };
    let of_result =
        result.into_iter().flat_map(|result| result.content.iter().filter_map(ResultPart::as_text));
    own.into_iter().chain(of_result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{SummarizeOlderStrategy, Transcript, plan};

    #[test]
    fn the_timeline_is_as_wide_as_it_should_be_and_shows_what_was_folded() {
        let transcript: Transcript =
            (0..40).map(|n| Item::user(format!("u{n}"), "word ".repeat(60))).collect();
        let view = View::of(&transcript);
        let plan = plan(&view, &SummarizeOlderStrategy::new(10), None).unwrap();
        let lines = timeline(&view, plan.edits(), 40);
        let plain = anstream::adapter::strip_str(&lines[0]).to_string();
        assert_eq!(plain, format!("{}{}", "░".repeat(30), "█".repeat(10)));
        let fates = Fates::of(&view, plan.edits());
        assert_eq!((fates.kept, fates.folded), (10, 30));
    }
}
