//! Pieces that several recordings write alike: arguments, reports of usage, times, places.

use foldback_core::{
    Item, ItemKind, Json, Opaque, Part, Reasoning, ResultPart, Text, Timestamp, Tokens, ToolCall, ToolInput,
    Usage,
};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::attribution::attributed;
use crate::conversation::FilePlace;
use crate::dialect::openai_chat::read_arguments;
use crate::document::Document;
use crate::rfc3339;

/// The lines of pieces that are asked for in the order of the file, each byte counted once.
pub(crate) struct Places<'a> {
    bytes: &'a [u8],
    document: Document<'a>,
    offset: usize,
    line: usize,
}

impl<'a> Places<'a> {
    pub(crate) fn new(bytes: &'a [u8], document: Document<'a>) -> Self {
        Self { bytes, document, offset: 0, line: 1 }
    }

    /// Where a piece begins.
    pub(crate) fn of(&mut self, piece: &RawValue) -> FilePlace {
        let start = self.document.range_of(piece).start.min(self.bytes.len());
        if start < self.offset {
            return FilePlace::line(self.document.line_of(piece));
        }
        self.line += memchr::memchr_iter(b'\n', &self.bytes[self.offset..start]).count();
        self.offset = start;
        FilePlace::line(self.line)
    }
}

/// A field beside the content, such as a time or a count: where it is not what it should be, the
/// record is read without it.
pub(crate) fn if_understood<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// A part for text that says something.
pub(crate) fn text_part(text: Option<Text>) -> Option<Part> {
    text.filter(|text| !text.is_empty()).map(Part::Text)
}

/// Arguments as they stand in the file: a string, or JSON of any other kind.
pub(crate) fn input_of(arguments: Option<&RawValue>) -> ToolInput {
    arguments.map_or(ToolInput::Text(Text::default()), read_arguments)
}

/// A piece of the file as it is.
pub(crate) fn json_of(raw: &RawValue) -> Json {
    Json::parse(raw.get()).expect("a piece of JSON is JSON")
}

/// Usage as OpenAI's dialects and LiteLLM report it: the prompt includes what the cache gave.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReportedUsage {
    #[serde(alias = "input_tokens")]
    prompt_tokens: Option<u64>,
    #[serde(alias = "output_tokens")]
    completion_tokens: Option<u64>,
    #[serde(alias = "input_tokens_details")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(alias = "output_tokens_details")]
    completion_tokens_details: Option<CompletionDetails>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl ReportedUsage {
    /// The same in disjoint counts.
    pub(crate) fn disjoint(self) -> Usage {
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let cached = cached.or(self.cache_read_input_tokens).unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let prompt = self.prompt_tokens.unwrap_or(0);
        let reasoning = self.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        Usage {
            input_tokens: Tokens(prompt.saturating_sub(cached).saturating_sub(written)),
            cached_tokens: Tokens(cached),
            cache_write_tokens: Tokens(written),
            output_tokens: Tokens(self.completion_tokens.unwrap_or(0)),
            reasoning_tokens: Tokens(reasoning.unwrap_or(0)),
        }
    }
}

/// A block of signed thinking, as LiteLLM passes it on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ThinkingBlock {
    thinking: Option<Text>,
    signature: Option<Text>,
    data: Option<Text>,
}

impl From<ThinkingBlock> for Part {
    fn from(block: ThinkingBlock) -> Self {
        let text = block.thinking.unwrap_or_default();
        Self::Reasoning(Reasoning { text, id: None, signature: block.signature, encrypted: block.data })
    }
}

/// A time with or without a zone. Without one it is taken as UTC: what matters is the time between
/// two records, and a file keeps to one zone.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    rfc3339::parse(text).or_else(|| rfc3339::parse(&format!("{text}Z")))
}

/// Seconds since the epoch, with a fraction.
pub(crate) fn time_of_seconds(seconds: f64) -> Timestamp {
    time_of_millis(seconds * 1000.0)
}

/// Milliseconds since the epoch, however the number is written.
pub(crate) fn time_of_millis(milliseconds: f64) -> Timestamp {
    Timestamp(milliseconds as i64)
}

/// A message of blocks as items: the results it holds first, as a tool item, then the rest.
pub(crate) fn items_of_blocks(id: &str, kind: ItemKind, parts: Vec<Part>) -> Vec<Item> {
    let (results, others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| matches!(part, Part::ToolResult(_)));
    let mut items = Vec::new();
    if !results.is_empty() {
        items.push(Item::new(id, ItemKind::Tool, results));
    }
    if !others.is_empty() {
        let own_id = if items.is_empty() { id.to_owned() } else { format!("{id}-1") };
        items.push(Item::new(own_id, kind, others));
    }
    items
}

/// The item with each piece of JSON on one line.
///
/// A recording that is compacted becomes a file of foldback's own form, which has one item on a
/// line. Line breaks in JSON stand between tokens only, so nothing is lost by taking them out when
/// the document is read, and what is read from the written file is then the same.
///
/// What hosts put into a user's message is marked as theirs.
pub(crate) fn of_recording(item: Item) -> Item {
    let mut item = attributed(item);
    for part in &mut item.parts {
        match part {
            Part::ToolCall(ToolCall { input: ToolInput::Json(json), .. })
            | Part::Structured(json)
            | Part::Opaque(Opaque { json, .. }) => flatten(json),
            Part::ToolResult(result) => result.content.iter_mut().for_each(|piece| match piece {
                ResultPart::Structured(json) | ResultPart::Opaque(Opaque { json, .. }) => flatten(json),
                ResultPart::Text(_) | ResultPart::Media(_) | ResultPart::File(_) => {}
            }),
            Part::ToolCall(_) | Part::Text(_) | Part::Reasoning(_) | Part::Media(_) | Part::File(_) => {}
        }
    }
    item
}

fn flatten(json: &mut Json) {
    if json.as_str().contains(['\n', '\r']) {
        let text = json.as_str().replace(['\n', '\r'], " ");
        *json = Json::parse(text).expect("line breaks in JSON are white space");
    }
}
