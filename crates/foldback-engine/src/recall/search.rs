//! Search over what a model no longer sees of its own conversation, and how well a text fits.

use foldback_core::{CallId, Entry, Fate, Handle, Item, ItemKind, Part, Text, View};

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
#[derive(Clone, Debug, PartialEq)]
pub struct ViewHit {
    /// Recalls the unit.
    pub handle: Handle,
    /// Who speaks first.
    pub kind: ItemKind,
    /// The text around the first place: secrets are still in it.
    pub excerpt: Text,
    word_count: usize,
    score: f64,
}

/// What mentions words of the query among the items that the model does not see as they were recorded; the
/// best first. Calls of the tool `recall_tool` and their results are left out: what they hold is elsewhere.
pub fn search_view(view: &View, query: &str, recall_tool: &str) -> Vec<ViewHit> {
    let words: Vec<String> = words_in(&query.to_lowercase()).into_iter().take(WORDS_MAX).collect();
    let phrase = words.join(" ");
    let transcript = view.transcript();
    let fates = view.fates();
    let mut searched_bytes = 0;
    let mut hits = Vec::new();
    for start in (0..transcript.len()).rev().filter(|&index| transcript.unit_start(index) == index) {
        let hidden = transcript.unit_members(start).filter(|&index| !matches!(fates[index], Fate::Visible));
        let items = hidden.filter_map(|index| transcript.get(index)).map(Entry::item);
        let items = items.filter(|item| !is_recall(view, item, recall_tool));
        let texts: Vec<String> = items.flat_map(|item| &item.parts).map(shown_part).collect();
        let text = texts.join("\n");
        searched_bytes += text.len();
        if searched_bytes > SEARCHED_BYTES_MAX {
            break;
        }
        let Some(first) = transcript.get(start).map(Entry::item) else { continue };
        hits.extend(hit(start, first, &text, &words, &phrase));
    }
    // Newest first so far, and the sort leaves that order among equals.
    hits.sort_by(|one, other| {
        other.word_count.cmp(&one.word_count).then_with(|| other.score.total_cmp(&one.score))
    });
    hits.truncate(HITS_MAX);
    hits
}

fn hit(index: usize, item: &Item, text: &str, words: &[String], phrase: &str) -> Option<ViewHit> {
    let lower = text.to_lowercase();
    let found: Vec<&str> = words.iter().map(String::as_str).filter(|word| lower.contains(word)).collect();
    let place = first_place(text, &lower, found.iter().copied())?;
    let mut score: f64 = found.iter().map(|word| relevance(&lower, word)).sum();
    let place = match lower.contains(phrase) {
        true => {
            score += PHRASE_WEIGHT * relevance(&lower, phrase);
            first_place(text, &lower, [phrase]).unwrap_or(place)
        }
        false => place,
    };
    Some(ViewHit {
        handle: Handle::of_item(index, &item.id),
        kind: item.kind,
        excerpt: excerpt(text, &place),
        word_count: found.len(),
        score,
    })
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
