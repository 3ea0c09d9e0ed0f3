//! Search over what the model no longer sees.

use std::cmp::Reverse;
use std::fmt::Write;

use foldback_core::{CallId, Entry, Fate, Handle, Item, ItemKind, Part, View};

use super::{RECALL_TOOL_NAME, show};

/// Units that are listed.
const HITS_MAX: usize = 8;

/// Words of a query that are looked for.
const WORDS_MAX: usize = 16;

/// Occurrences of one word that count in one unit: a log that repeats itself is not more about it.
const OCCURRENCES_MAX: usize = 16;

/// What the words say together counts for more than each of them.
const PHRASE_WEIGHT: usize = 4;

/// Text that is searched, newest first.
const SEARCHED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Characters of a snippet before and after what was found.
const CONTEXT_CHARACTERS: usize = 120;

/// A unit that mentions what was looked for: what a tool was given and what it answered belong together.
#[derive(Debug)]
pub(super) struct Hit {
    handle: Handle,
    kind: ItemKind,
    snippet: String,
    /// Different words found, then how often, then how new.
    rank: (usize, usize, usize),
}

/// What mentions the words of the query among the items that the model does not see as they were
/// recorded; the best first.
pub(super) fn search(view: &View, query: &str) -> Vec<Hit> {
    let phrase = query.to_lowercase();
    let words: Vec<&str> = phrase.split_whitespace().take(WORDS_MAX).collect();
    let transcript = view.transcript();
    let fates = view.fates();
    let mut searched_bytes = 0;
    let mut hits = Vec::new();
    for start in (0..transcript.len()).rev().filter(|&index| transcript.unit_start(index) == index) {
        let hidden = transcript.unit_members(start).filter(|&index| !matches!(fates[index], Fate::Visible));
        let items = hidden.filter_map(|index| transcript.get(index)).map(Entry::item);
        let items = items.filter(|item| !is_recall(view, item));
        let texts: Vec<String> = items.flat_map(|item| &item.parts).map(show::text).collect();
        let text = texts.join("\n");
        searched_bytes += text.len();
        if searched_bytes > SEARCHED_BYTES_MAX {
            break;
        }
        let Some(first) = transcript.get(start).map(Entry::item) else { continue };
        hits.extend(hit(start, first, &text, &words, &phrase));
    }
    hits.sort_by_key(|hit| Reverse(hit.rank));
    hits.truncate(HITS_MAX);
    hits
}

/// Hits as lines: handle, who spoke, what it says around the place.
pub(super) fn listed(hits: &[Hit]) -> String {
    let mut listed = String::new();
    for Hit { handle, kind, snippet, .. } in hits {
        let _ = writeln!(listed, "{handle} {kind}: {snippet}");
    }
    listed
}

fn hit(index: usize, item: &Item, text: &str, words: &[&str], phrase: &str) -> Option<Hit> {
    let lower = text.to_lowercase();
    let count = |word: &str| lower.matches(word).take(OCCURRENCES_MAX).count();
    let counts: Vec<usize> = words.iter().map(|word| count(word)).collect();
    let word_count = counts.iter().filter(|count| **count > 0).count();
    if word_count == 0 {
        return None;
    }
    let weight = counts.iter().sum::<usize>() + PHRASE_WEIGHT * count(phrase);
    let place = lower.find(phrase).or_else(|| words.iter().find_map(|word| lower.find(word)))?;
    Some(Hit {
        handle: Handle::of_item(index, &item.id),
        kind: item.kind,
        snippet: snippet(text, lower[..place].chars().count()),
        rank: (word_count, weight, index),
    })
}

/// The characters around a place, on one line. Lower case has as many characters, almost always; where
/// it has not, the snippet begins a little off.
fn snippet(text: &str, place: usize) -> String {
    let start = place.saturating_sub(CONTEXT_CHARACTERS);
    let around: String = text.chars().skip(start).take(place - start + CONTEXT_CHARACTERS).collect();
    around.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether an item is a recall or its answer: what it holds is elsewhere in the transcript.
fn is_recall(view: &View, item: &Item) -> bool {
    let named = |call_id: &CallId| {
        view.transcript().call(call_id).is_some_and(|call| &*call.name == RECALL_TOOL_NAME)
    };
    let is_recall = |part: &Part| match part {
        Part::ToolCall(call) => &*call.name == RECALL_TOOL_NAME,
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
