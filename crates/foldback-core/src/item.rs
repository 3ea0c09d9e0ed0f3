//! One entry of a conversation: [`Item`], its [`ItemKind`] and what is recorded beside it.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::handle::Handle;
use crate::ids::{ItemId, Text, Timestamp, Tokens, TurnId};
use crate::part::{Part, ToolCall, ToolResult};

/// Whatever the host wants to keep beside an item; never sent to a model.
pub type Metadata = Map<String, Value>;

/// Who speaks, with which authority. A new kind is a breaking change: every format and strategy has to say
/// what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// The system prompt.
    System,
    /// Instructions of the application, below the system prompt.
    Developer,
    /// What the person said. Starts a turn.
    User,
    /// What the model said, thought and called.
    Assistant,
    /// Results of tool calls.
    Tool,
    /// Material with a user's authority: files, memories, summaries of folded items.
    Context,
    /// Something that happened meanwhile (a finished job, a changed file).
    Notification,
}

impl ItemKind {
    /// Every kind, in the order of the enum.
    pub const ALL: [Self; 7] = [
        Self::System,
        Self::Developer,
        Self::User,
        Self::Assistant,
        Self::Tool,
        Self::Context,
        Self::Notification,
    ];

    /// The name used in native JSONL, shapes and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Context => "context",
            Self::Notification => "notification",
        }
    }

    /// Whether it carries instructions of the operator rather than conversation.
    pub fn is_instruction(self) -> bool {
        matches!(self, Self::System | Self::Developer)
    }

    /// Whether it lowers to text with a user's authority.
    pub fn has_user_authority(self) -> bool {
        matches!(self, Self::User | Self::Context | Self::Notification)
    }
}

impl std::fmt::Display for ItemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a provider reported for one model call.
///
/// The four input and output counts are disjoint: `input_tokens` is fresh input only. A provider
/// that includes cached tokens in its input count has them subtracted by the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Input tokens neither read from nor written to the cache.
    pub input_tokens: Tokens,
    /// Input tokens read from the prompt cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_tokens: Tokens,
    /// Input tokens written to the prompt cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: Tokens,
    /// Output tokens, reasoning included.
    pub output_tokens: Tokens,
    /// The part of `output_tokens` that was reasoning, where reported.
    #[serde(skip_serializing_if = "is_zero")]
    pub reasoning_tokens: Tokens,
}

impl Usage {
    /// Everything the model read: fresh, cached and cache-written.
    pub fn prompt_tokens(&self) -> Tokens {
        self.input_tokens + self.cached_tokens + self.cache_write_tokens
    }

    /// Everything the context held once the answer was written.
    pub fn context_tokens(&self) -> Tokens {
        self.prompt_tokens() + self.output_tokens
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// It had said what it wanted to say.
    Stop,
    /// It wants tool results.
    ToolCalls,
    /// It ran into the output limit.
    Length,
    /// The provider withheld the answer.
    ContentFilter,
    /// The host or the person stopped it.
    Interrupted,
    /// The call failed.
    Error,
}

/// Where a summary item comes from: what it stands for and who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryOrigin {
    /// Recalls what was folded.
    pub handle: Handle,
    /// How many transcript items it stands for.
    pub item_count: u32,
    /// What those items cost.
    pub tokens_before: Tokens,
    /// Who wrote it: `floor`, `digest`, or the name of a backend.
    pub written_by: Text,
}

/// Whether compaction may hide an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// An item like any other.
    #[default]
    Free,
    /// Never dropped, folded or rewritten.
    Pinned,
}

/// One entry of a conversation, made of parts. It has a name, because edits, pins and handles speak of it;
/// hosts without names number their items. Notes of the host stand on the item, not on its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Unique within its transcript.
    pub id: ItemId,
    /// Who speaks.
    pub kind: ItemKind,
    /// What it says; an item without parts is recorded and never sent.
    pub parts: Vec<Part>,
    /// The turn it belongs to, where the recorder knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// When it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// What the provider reported for the call that produced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// Whether compaction may hide it.
    #[serde(default, skip_serializing_if = "is_free")]
    pub pin: Pin,
    /// A prompt-cache breakpoint stands behind this item (anthropic's `cache_control`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cache_marker: bool,
    /// Set on summaries only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryOrigin>,
    /// What its speaker did not write, in a user item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inserted: Vec<Inserted>,
    /// The host's own notes.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Metadata,
}

impl Item {
    /// An item of `kind` with these parts and nothing else recorded.
    pub fn new(id: impl Into<ItemId>, kind: ItemKind, parts: Vec<Part>) -> Self {
        Self {
            id: id.into(),
            kind,
            parts,
            turn_id: None,
            created_at: None,
            usage: None,
            finish_reason: None,
            pin: Pin::Free,
            cache_marker: false,
            summary: None,
            inserted: Vec::new(),
            metadata: Metadata::new(),
        }
    }

    /// An item of `kind` with one text part.
    pub fn text(id: impl Into<ItemId>, kind: ItemKind, text: impl Into<Text>) -> Self {
        Self::new(id, kind, vec![Part::Text(text.into())])
    }

    /// A user item.
    pub fn user(id: impl Into<ItemId>, text: impl Into<Text>) -> Self {
        Self::text(id, ItemKind::User, text)
    }

    /// An assistant item.
    pub fn assistant(id: impl Into<ItemId>, parts: Vec<Part>) -> Self {
        Self::new(id, ItemKind::Assistant, parts)
    }

    /// A tool item holding one result.
    pub fn tool(id: impl Into<ItemId>, result: ToolResult) -> Self {
        Self::new(id, ItemKind::Tool, vec![Part::ToolResult(result)])
    }

    /// The same item, never hidden by compaction.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.pin = Pin::Pinned;
        self
    }

    /// The same item, in the given turn.
    #[must_use]
    pub fn with_turn_id(mut self, turn_id: impl Into<TurnId>) -> Self {
        self.turn_id = Some(turn_id.into());
        self
    }

    /// The same item, with reported usage.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Whether compaction must leave it alone.
    pub fn is_pinned(&self) -> bool {
        self.pin == Pin::Pinned
    }

    /// The tool calls it makes, with their part index.
    pub fn calls(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        self.parts.iter().enumerate().filter_map(|(part_index, part)| match part {
            Part::ToolCall(call) => Some((part_index, call)),
            _ => None,
        })
    }

    /// The tool results it holds, with their part index.
    pub fn results(&self) -> impl Iterator<Item = (usize, &ToolResult)> {
        self.parts.iter().enumerate().filter_map(|(part_index, part)| match part {
            Part::ToolResult(result) => Some((part_index, result)),
            _ => None,
        })
    }
}

/// A stretch of a user's text that a host put there: a reminder, the content of a file, a wrapper around
/// a command.
///
/// Whoever reads a format records it, because only formats know what hosts write. Nothing decides it
/// later: what is not recorded here, the user typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inserted {
    /// The part.
    pub part_index: usize,
    /// Bytes of the part's text.
    pub span: Range<usize>,
}

impl Item {
    /// What the user typed in a part, as spans of its text, in order: text of a user item without what was
    /// inserted. Nothing else is the user's words, no file and no structured value either.
    pub fn typed_spans(&self, part_index: usize) -> Vec<Range<usize>> {
        let is_spoken = self.kind == ItemKind::User && self.summary.is_none();
        let Some(Part::Text(text)) = self.parts.get(part_index).filter(|_| is_spoken) else {
            return Vec::new();
        };
        // Records of others may name any bytes.
        let of_part = self.inserted.iter().filter(|inserted| inserted.part_index == part_index);
        let mut inserted: Vec<Range<usize>> = of_part
            .map(|Inserted { span, .. }| {
                text.floor_char_boundary(span.start)..text.ceil_char_boundary(span.end)
            })
            .collect();
        inserted.sort_by_key(|span| span.start);
        let (mut typed, mut start) = (Vec::with_capacity(inserted.len() + 1), 0);
        for span in inserted {
            if start < span.start {
                typed.push(start..span.start);
            }
            start = start.max(span.end);
        }
        if start < text.len() {
            typed.push(start..text.len());
        }
        typed
    }

    /// The same as text: what stood on both sides of something inserted does not share a line. `None`
    /// where there is nothing to read.
    pub fn typed(&self, part_index: usize) -> Option<Cow<'_, str>> {
        let Some(Part::Text(text)) = self.parts.get(part_index) else { return None };
        let spans = self.typed_spans(part_index);
        let typed = match &spans[..] {
            [span] => Cow::Borrowed(&text[span.clone()]),
            _ => {
                let pieces: Vec<&str> = spans.into_iter().map(|span| &text[span]).collect();
                Cow::Owned(pieces.join("\n"))
            }
        };
        Some(typed).filter(|typed| !typed.trim().is_empty())
    }

    /// The same item with other parts, each with the index of the part whose place it takes. What was
    /// inserted stays so, and what stands in the place of text was not typed.
    #[must_use]
    pub fn with_parts(&self, parts: impl IntoIterator<Item = (usize, Part)>) -> Self {
        let (mut shown, mut inserted) = (Vec::with_capacity(self.parts.len()), Vec::new());
        for (recorded_index, part) in parts {
            if let (Part::Text(after), ItemKind::User) = (&part, self.kind) {
                let before = match self.parts.get(recorded_index) {
                    Some(Part::Text(before)) => before,
                    _ => "",
                };
                let of_part = self.inserted.iter().filter(|inserted| inserted.part_index == recorded_index);
                let spans = spans_after(before, after, of_part.map(|inserted| inserted.span.clone()));
                inserted.extend(spans.map(|span| Inserted { part_index: shown.len(), span }));
            }
            shown.push(part);
        }
        Self { parts: shown, inserted, ..self.clone() }
    }
}

/// Where spans of a text stand in another text that has its beginning and its end; and what stands
/// between the two.
fn spans_after(
    before: &str,
    after: &str,
    spans: impl Iterator<Item = Range<usize>>,
) -> impl Iterator<Item = Range<usize>> {
    let both = || before.bytes().zip(after.bytes());
    let head = after.floor_char_boundary(both().take_while(|(one, other)| one == other).count());
    let ends = before[head..].bytes().rev().zip(after[head..].bytes().rev());
    let tail = ends.take_while(|(one, other)| one == other).count();
    let (tail_before, tail_after) = (before.len() - tail, after.ceil_char_boundary(after.len() - tail));
    let moved = spans.flat_map(move |span| {
        let in_head = span.start..span.end.min(head);
        let in_tail = span.start.max(tail_before)..span.end;
        let in_tail = (in_tail.start + tail_after).saturating_sub(tail_before)
            ..(in_tail.end + tail_after).saturating_sub(tail_before);
        [in_head, in_tail]
    });
    moved.chain(std::iter::once(head..tail_after)).filter(|span| span.start < span.end)
}

fn is_zero(tokens: &Tokens) -> bool {
    *tokens == Tokens::ZERO
}

fn is_free(pin: &Pin) -> bool {
    *pin == Pin::Free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Blob, File};

    fn inserted(part_index: usize, span: Range<usize>) -> Inserted {
        Inserted { part_index, span }
    }

    #[test]
    fn only_text_that_no_host_inserted_is_typed() {
        let file = File { name: None, media_type: "text/plain".into(), data: Blob::Text("Always".into()) };
        let parts = vec![Part::text("<r>no</r>Fix it.<r>no</r>Now."), Part::File(file), Part::text("new")];
        let mut item = Item::new("u", ItemKind::User, parts);
        item.inserted = vec![inserted(0, 16..25), inserted(0, 0..9), inserted(2, 0..3)];
        let typed: Vec<_> = (0..4).map(|part_index| item.typed(part_index)).collect();
        assert_eq!(typed, [Some("Fix it.\nNow.".into()), None, None, None]);
        item.kind = ItemKind::Context;
        assert_eq!(item.typed(0), None);
    }

    #[test]
    fn a_record_of_others_may_name_any_bytes() {
        let mut item = Item::user("u", "größe");
        item.inserted = vec![inserted(0, 3..900), inserted(7, 0..1), inserted(0, 3..3)];
        assert_eq!(item.typed(0).as_deref(), Some("gr"));
    }

    #[test]
    fn what_was_inserted_stays_so_in_a_shortened_text() {
        let mut item = Item::new(
            "u",
            ItemKind::User,
            vec![Part::text("gone"), Part::text("<r>Fix the long thing now.</r>")],
        );
        item.inserted = vec![inserted(1, 0..3), inserted(1, 26..30)];
        let shown = item.with_parts([(1, Part::text("<r>Fix [folded] now.</r>"))]);
        assert_eq!(shown.typed(0).as_deref(), Some("Fix \n now."));
        assert_eq!(item.with_parts([(1, item.parts[1].clone())]).typed(0), item.typed(1));
    }
}
