//! Search over what a model no longer sees of its own conversation, and how well a text fits.

use std::ops::Range;

use foldback_core::{CallId, Entry, Fate, Handle, Item, ItemKind, Part, Text, View, redact_part};

use super::{excerpt, first_place, shown_part, words_in};

/// Units that are given.
const HITS_MAX: usize = 8;

/// Words of a query that are looked for.
const WORDS_MAX: usize = 16;

/// What the words say together counts for more than each of them.
const PHRASE_WEIGHT: f64 = 4.0;

/// Text that is searched, newest first.
const SEARCHED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How soon a word that occurs often stops counting more, and how much long texts count less: the
/// usual values of BM25.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;
const LENGTH_USUAL: f64 = 2_000.0;

/// How much a phrase counts in a text, both in lower case: by how often it occurs and how long the text is.
pub fn relevance(lower: &str, phrase: &str) -> f64 {
    // An index may have found the words in another spelling, so there is one at least.
    let count = lower.matches(phrase).count().max(1) as f64;
    let length = lower.len() as f64 / LENGTH_USUAL;
    count * (SATURATION + 1.0) / (count + SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length))
}

/// A unit that mentions what was looked for: what a tool was given and what it answered belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewHit {
    /// Recalls the unit.
    pub handle: Handle,
    /// Who speaks first.
    pub kind: ItemKind,
    /// The text around the first place, without its secrets.
    pub excerpt: Text,
}

/// How well a unit fits, by the transcript index of its first item.
struct Match {
    unit: usize,
    word_count: usize,
    score: f64,
}

/// What is looked for, in lower case.
struct Sought {
    words: Vec<String>,
    phrase: String,
}

/// What mentions words of the query among the items that the model does not see as they were recorded; the
/// best first. Calls of the tool `recall_tool` and their results are left out: what they hold is elsewhere.
pub fn search_view(view: &View, query: &str, recall_tool: &str) -> Vec<ViewHit> {
    let words: Vec<String> = words_in(&query.to_lowercase()).into_iter().take(WORDS_MAX).collect();
    let sought = Sought { phrase: words.join(" "), words };
    let transcript = view.transcript();
    let fates = view.fates();
    let hidden = |unit: usize| {
        let members = transcript.unit_members(unit);
        let hidden = members.filter(|&index| !matches!(fates[index], Fate::Visible));
        let items = hidden.filter_map(|index| transcript.get(index)).map(Entry::item);
        items.filter(|item| !is_recall(view, item, recall_tool)).flat_map(|item| &item.parts)
    };
    let mut searched_bytes = 0;
    let mut matches = Vec::new();
    for unit in (0..transcript.len()).rev().filter(|&index| transcript.unit_start(index) == index) {
        let text = joined(hidden(unit).map(shown_part));
        searched_bytes += text.len();
        if searched_bytes > SEARCHED_BYTES_MAX {
            break;
        }
        matches.extend(sought.in_text(unit, &text));
    }
    // Newest first so far, and the sort leaves that order among equals.
    matches.sort_by(|one, other| {
        other.word_count.cmp(&one.word_count).then_with(|| other.score.total_cmp(&one.score))
    });
    let hit = |found: &Match| {
        let first = transcript.get(found.unit)?.item();
        // Half a secret is none that could be found: they go before the text is cut.
        let text = joined(hidden(found.unit).map(|part| shown_part(&redact_part(part))));
        let place = sought.place_in(&text, &text.to_lowercase()).unwrap_or_default();
        let handle = Handle::of_item(found.unit, &first.id);
        Some(ViewHit { handle, kind: first.kind, excerpt: excerpt(&text, &place) })
    };
    matches.iter().take(HITS_MAX).filter_map(hit).collect()
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

impl Sought {
    fn in_text(&self, unit: usize, text: &str) -> Option<Match> {
        let lower = text.to_lowercase();
        let found = self.words.iter().filter(|word| lower.contains(word.as_str()));
        let scores: Vec<f64> = found.map(|word| relevance(&lower, word)).collect();
        let of_phrase =
            if lower.contains(&self.phrase) { PHRASE_WEIGHT * relevance(&lower, &self.phrase) } else { 0.0 };
        let score = scores.iter().sum::<f64>() + of_phrase;
        (!scores.is_empty()).then_some(Match { unit, word_count: scores.len(), score })
    }

    /// Where the words stand together, or else the first of them.
    fn place_in(&self, text: &str, lower: &str) -> Option<Range<usize>> {
        let together = first_place(text, lower, [self.phrase.as_str()]);
        together.or_else(|| first_place(text, lower, self.words.iter().map(String::as_str)))
    }
}

/// Whether an item is a recall or its answer.
fn is_recall(view: &View, item: &Item, recall_tool: &str) -> bool {
    let named =
        |call_id: &CallId| view.transcript().call(call_id).is_some_and(|call| &*call.name == recall_tool);
    let is_recall = |part: &Part| match part {
        Part::ToolCall(call) => &*call.name == recall_tool,
        Part::ToolResult(result) => named(&result.call_id),
        Part::Text(_)
        | Part::Reasoning(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => false,
    };
    !item.parts.is_empty() && item.parts.iter().all(is_recall)
}
