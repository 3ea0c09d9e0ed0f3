//! Reading back what was hidden: as text, in pages, with excerpts, and by search.
//!
//! Everyone who shows the past uses this: the agent loop's tool, the server's tools, stores and commands.

mod passages;
mod search;

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::reading::text_of;
use foldback_core::{Handle, Item, Part, Recalled, ResultPart, Text, redact_item, redact_part};

pub use passages::passages;
pub use search::{ViewHit, relevance, search_view};

/// Bytes on either side of a place, in an excerpt.
const CONTEXT_BYTES: usize = 160;

/// What was hidden, without its secrets: what a model may read.
pub fn redacted(recalled: &Recalled) -> Recalled {
    match recalled {
        Recalled::Part(part) => Recalled::Part(redact_part(part).into_owned()),
        Recalled::Items(items) => Recalled::Items(items.iter().map(redacted_item).collect()),
    }
}

/// The same for an item.
pub(crate) fn redacted_item(item: &Arc<Item>) -> Arc<Item> {
    match redact_item(item) {
        Cow::Borrowed(_) => Arc::clone(item),
        Cow::Owned(redacted) => Arc::new(redacted),
    }
}

/// What was hidden, to be read: who speaks, then what was said, called and answered.
pub fn shown(recalled: &Recalled) -> String {
    match recalled {
        Recalled::Part(part) => shown_part(part),
        Recalled::Items(items) => items.iter().map(|item| shown_item(item)).collect::<Vec<_>>().join("\n"),
    }
}

fn shown_item(item: &Item) -> String {
    let mut shown = format!("[{} {}]", item.kind, item.id);
    for part in &item.parts {
        let _ = write!(shown, "\n{}", shown_part(part));
    }
    shown
}

/// One part. Thinking is as it was, because what follows may build on it.
pub(crate) fn shown_part(part: &Part) -> String {
    match part {
        Part::Text(_) | Part::Structured(_) => text_of(part).into_owned(),
        Part::Reasoning(reasoning) => format!("(thinking) {}", reasoning.text),
        Part::ToolCall(call) => format!("(calls {}) {}", call.name, call.input.as_str()),
        Part::ToolResult(result) => {
            let label = if result.is_error { "(failed)" } else { "(result)" };
            let content: Vec<String> = result.content.iter().map(shown_result).collect();
            format!("{label} {}", content.join("\n"))
        }
        Part::Media(media) => format!("({})", media.media_type),
        Part::File(file) => format!("({}) {}", file.label(), text_of(part)),
        Part::Opaque(opaque) => format!("({})", opaque.source),
    }
}

fn shown_result(part: &ResultPart) -> String {
    match part {
        ResultPart::Text(text) => text.to_string(),
        ResultPart::Structured(json) => json.as_str().to_owned(),
        ResultPart::Media(media) => format!("({})", media.media_type),
        ResultPart::File(file) => format!("({})", file.label()),
        ResultPart::Opaque(opaque) => format!("({})", opaque.source),
    }
}

/// Every handle in a text, however it is quoted.
pub fn handles_in(text: &str) -> Vec<Handle> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '@');
    words
        .flat_map(|word| word.split_inclusive('@'))
        .filter_map(|word| Handle::parse(word.trim_matches('@')))
        .collect()
}

/// A page that begins behind the end of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the offset is behind the end: there are {length} bytes")]
pub struct PageError {
    /// Bytes of the text.
    pub length: usize,
}

/// As much of a long text as fits, from `offset` on, and how to get the rest.
pub fn page(text: &str, offset: usize, bytes_max: usize) -> Result<String, PageError> {
    if offset > 0 && offset >= text.len() {
        return Err(PageError { length: text.len() });
    }
    let start = text.floor_char_boundary(offset);
    let rest = &text[start..];
    if rest.len() <= bytes_max {
        return Ok(rest.to_owned());
    }
    let end = rest.floor_char_boundary(bytes_max);
    let next = start + end;
    Ok(format!("{}\n[{} more bytes: call again with offset {next}]", &rest[..end], text.len() - next))
}

/// Words, and what stands between quotes.
pub fn words_in(query: &str) -> Vec<String> {
    let pieces = query.split('"').enumerate();
    pieces
        .flat_map(|(number, piece)| match number % 2 {
            0 => piece.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![piece.trim().to_owned()],
        })
        .filter(|word| !word.is_empty())
        .collect()
}

/// The first place in a text where one of the words stands, in upper or lower case. `lower` is the text in
/// lower case.
pub fn first_place<'w>(
    text: &str,
    lower: &str,
    words: impl IntoIterator<Item = &'w str>,
) -> Option<Range<usize>> {
    let places = words.into_iter().filter_map(|word| {
        let word = word.to_lowercase();
        lower.find(&word).map(|start| start..start + word.len())
    });
    let place = places.min_by_key(|place| place.start)?;
    // Lower case may be longer or shorter: the place is then as good as the number of letters before it.
    if lower.len() == text.len() && text.is_char_boundary(place.start) && text.is_char_boundary(place.end) {
        return Some(place);
    }
    let letters = lower[..place.start].chars().count();
    let start = text.char_indices().nth(letters).map_or(text.len(), |(start, _)| start);
    Some(start..start)
}

/// The text around a place, on one line.
pub fn excerpt(text: &str, place: &Range<usize>) -> Text {
    let start = text.floor_char_boundary(place.start.saturating_sub(CONTEXT_BYTES));
    let end = text.floor_char_boundary(place.end.min(place.start + CONTEXT_BYTES) + CONTEXT_BYTES);
    text[start..end].split_whitespace().collect::<Vec<_>>().join(" ").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_anywhere_and_quoted_ones_together() {
        assert_eq!(words_in("one \"two  three\" four\""), ["one", "two  three", "four"]);
    }

    #[test]
    fn a_long_text_comes_in_pages_that_join_to_the_whole() {
        let text = "äb".repeat(5_000);
        let (mut read, mut offset) = (String::new(), 0);
        for _ in 0..100 {
            let piece = page(&text, offset, 1_000).unwrap();
            let Some((piece, note)) = piece.rsplit_once("\n[") else {
                read.push_str(&piece);
                break;
            };
            read.push_str(piece);
            offset = note.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
        }
        assert_eq!(read, text);
        assert_eq!(page("short", 0, 10), Ok("short".to_owned()));
        assert_eq!(page("short", 5, 10), Err(PageError { length: 5 }));
    }

    #[test]
    fn an_excerpt_shows_what_stands_around_the_words() {
        let text = format!("{} the Needle\nlies here {}", "hay ".repeat(200), "straw ".repeat(200));
        let lower = text.to_lowercase();
        let place = first_place(&text, &lower, ["absent", "needle"]).unwrap();
        let found = excerpt(&text, &place);
        assert!(found.contains("Needle lies here") && found.len() <= 3 * CONTEXT_BYTES, "{found}");
        assert_eq!(first_place(&text, &lower, ["absent"]), None);
        let longer = format!("{}needle", "İ".repeat(300));
        let place = first_place(&longer, &longer.to_lowercase(), ["NEEDLE"]).unwrap();
        assert!(!excerpt(&longer, &place).is_empty());
    }

    #[test]
    fn an_excerpt_never_splits_a_character() {
        let text = "对话越来越长直到放不下".repeat(40);
        for start in 0..200 {
            assert!(!excerpt(&text, &(start..start + 3)).is_empty());
        }
    }
}
