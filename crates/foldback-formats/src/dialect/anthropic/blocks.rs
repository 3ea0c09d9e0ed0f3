//! Content blocks of Anthropic messages, to parts and back. Session files and recordings that hold
//! such messages use these functions, too.

mod write;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use foldback_core::{
    Blob, CallId, File, Json, Media, Opaque, Part, Reasoning, ResultPart, Text, ToolCall, ToolInput,
    ToolResult,
};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub(crate) use write::{WrittenBlock, json_text, write_block};

/// Text that is borrowed from the file where it has no escapes, also inside an `Option`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Str<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl std::ops::Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Str<'_>> for Text {
    fn from(text: Str<'_>) -> Self {
        Self::from(text.0)
    }
}

/// The content of a message.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// Its blocks in order.
    pub(crate) parts: Vec<Part>,
    /// The last `cache_control` among them.
    pub(crate) cache_control: Option<Json>,
}

impl Content {
    fn of_text(text: Text) -> Self {
        let parts = if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] };
        Self { parts, cache_control: None }
    }

    fn mark(&mut self, cache_control: Option<&RawValue>) {
        self.cache_control = cache_control.map(Json::from).or(self.cache_control.take());
    }
}

/// One block, whatever its type. Which fields are there depends on it.
#[derive(Deserialize)]
struct Block<'a, C> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    text: Option<Text>,
    thinking: Option<Text>,
    signature: Option<Text>,
    data: Option<Text>,
    id: Option<CallId>,
    name: Option<Text>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    tool_use_id: Option<CallId>,
    content: Option<C>,
    is_error: Option<bool>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    title: Option<Text>,
    path: Option<Text>,
    #[serde(borrow)]
    context: Option<&'a RawValue>,
    #[serde(borrow)]
    citations: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_control: Option<&'a RawValue>,
}

/// What stands within a block: read already, or JSON still.
trait Within {
    /// As the content of a result.
    fn result_parts(self) -> Vec<ResultPart>;
    /// As a string.
    fn text(self) -> Option<Text>;
}

impl Within for &RawValue {
    fn result_parts(self) -> Vec<ResultPart> {
        read_result_content(self)
    }

    fn text(self) -> Option<Text> {
        serde_json::from_str(self.get()).ok()
    }
}

/// Content read in one pass, without a look at its JSON. Only possible where every block is
/// understood; where one is not, this fails and [`read_blocks`] reads what there is.
#[derive(Debug)]
pub(crate) struct Streamed(pub(crate) Content);

impl<'de> Deserialize<'de> for Streamed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor).map(Self)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of blocks")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::of_text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Content, A::Error> {
        // Agents record one block at a time, mostly, and a list that grows by itself begins with four.
        let mut read = Content { parts: Vec::with_capacity(1), cache_control: None };
        while let Some(block) = blocks.next_element::<Block<'de, StreamedResult>>()? {
            let cache_control = block.cache_control;
            read.parts.push(part_of(block).ok_or_else(not_understood)?);
            read.mark(cache_control);
        }
        Ok(read)
    }
}

fn not_understood<E: serde::de::Error>() -> E {
    E::custom("a block is not understood")
}

/// As [`Streamed`], for the content of a result.
enum StreamedResult {
    Text(Text),
    Parts(Vec<ResultPart>),
}

impl Within for StreamedResult {
    fn result_parts(self) -> Vec<ResultPart> {
        match self {
            Self::Text(text) => result_text(text),
            Self::Parts(parts) => parts,
        }
    }

    fn text(self) -> Option<Text> {
        match self {
            Self::Text(text) => Some(text),
            Self::Parts(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for StreamedResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ResultVisitor)
    }
}

struct ResultVisitor;

impl<'de> Visitor<'de> for ResultVisitor {
    type Value = StreamedResult;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of blocks")
    }

    fn visit_str<E>(self, text: &str) -> Result<StreamedResult, E> {
        Ok(StreamedResult::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<StreamedResult, A::Error> {
        let mut parts = Vec::new();
        while let Some(block) = blocks.next_element::<Block<'de, &'de RawValue>>()? {
            parts.push(result_part_of(block).ok_or_else(not_understood)?);
        }
        Ok(StreamedResult::Parts(parts))
    }
}

/// Where the bytes of an image or document are.
#[derive(Deserialize)]
struct Source<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    media_type: Option<Text>,
    data: Option<Text>,
    url: Option<Text>,
}

/// Reads the content of a message: a string or a list of blocks. An empty string and `null` have
/// no parts. Blocks that are not understood are opaque parts.
pub(crate) fn read_blocks(content: &RawValue) -> Result<Content, serde_json::Error> {
    let json = content.get();
    if json.starts_with('"') {
        return serde_json::from_str(json).map(Content::of_text);
    }
    if json == "null" {
        return Ok(Content::default());
    }
    let mut read = Content::default();
    for_each_block(json, |block, opaque| {
        let cache_control = block.as_ref().and_then(|block| block.cache_control);
        let part = block.and_then(part_of);
        if part.is_some() {
            // An opaque part keeps its cache marker within.
            read.mark(cache_control);
        }
        read.parts.extend(part.or_else(|| opaque().map(Part::Opaque)));
    })?;
    Ok(read)
}

/// Reads the content of a tool result: a string or a list of blocks.
fn read_result_content(content: &RawValue) -> Vec<ResultPart> {
    if content.get().starts_with('"') {
        return result_text(serde_json::from_str(content.get()).unwrap_or_default());
    }
    let mut parts = Vec::new();
    let read = for_each_block(content.get(), |block, opaque| {
        parts.extend(block.and_then(result_part_of).or_else(|| opaque().map(ResultPart::Opaque)));
    });
    match read {
        Ok(()) => parts,
        Err(_) => opaque(content.get()).map(ResultPart::Opaque).into_iter().collect(),
    }
}

fn result_text(text: Text) -> Vec<ResultPart> {
    if text.is_empty() { Vec::new() } else { vec![ResultPart::Text(text)] }
}

fn result_part_of(block: Block<'_, &RawValue>) -> Option<ResultPart> {
    match part_of(block)? {
        Part::Text(text) => Some(ResultPart::Text(text)),
        Part::Media(media) => Some(ResultPart::Media(media)),
        Part::File(file) => Some(ResultPart::File(file)),
        _ => None,
    }
}

/// Reads the blocks of a list, each as a part or else with what makes one of its JSON.
fn for_each_block<'a>(
    json: &'a str,
    mut take: impl FnMut(Option<Block<'a, &'a RawValue>>, &dyn Fn() -> Option<Opaque>),
) -> Result<(), serde_json::Error> {
    // The JSON of single blocks is only needed where one is not understood.
    let raw: OnceCell<Vec<&RawValue>> = OnceCell::new();
    let opaque_at = |index: usize| {
        let raw = raw.get_or_init(|| serde_json::from_str(json).unwrap_or_default());
        raw.get(index).and_then(|block| opaque(block.get()))
    };
    if let Ok(blocks) = serde_json::from_str::<Vec<Block<'a, &'a RawValue>>>(json) {
        for (index, block) in blocks.into_iter().enumerate() {
            take(Some(block), &|| opaque_at(index));
        }
        return Ok(());
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(json)?;
    for block in blocks {
        take(serde_json::from_str(block.get()).ok(), &|| opaque(block.get()));
    }
    Ok(())
}

/// A block as a part, where all that is needed is there.
fn part_of<C: Within>(block: Block<'_, C>) -> Option<Part> {
    match &*block.kind {
        "text" => block.text.map(Part::Text),
        "thinking" => Some(Part::Reasoning(Reasoning {
            text: block.thinking?,
            signature: block.signature.filter(|signature| !signature.is_empty()),
            ..Reasoning::default()
        })),
        "redacted_thinking" => {
            Some(Part::Reasoning(Reasoning { encrypted: Some(block.data?), ..Reasoning::default() }))
        }
        "tool_use" => Some(Part::ToolCall(ToolCall {
            id: block.id?,
            name: block.name?,
            input: ToolInput::Json(match block.input {
                Some(input) => input.into(),
                None => Json::parse("{}").ok()?,
            }),
            signature: None,
        })),
        "tool_result" => Some(Part::ToolResult(ToolResult {
            call_id: block.tool_use_id?,
            content: block.content.map_or_else(Vec::new, C::result_parts),
            is_error: block.is_error.unwrap_or(false),
        })),
        "image" => media(block.source?).map(Part::Media),
        "document" if block.context.is_none() && block.citations.is_none() => {
            file(block.source?, block.title).map(Part::File)
        }
        // Not of the API itself: agents that speak it attach files in this form.
        "file" => Some(Part::File(File {
            name: Some(block.path?),
            media_type: "text/plain".into(),
            data: Blob::Text(block.content?.text()?),
        })),
        _ => None,
    }
}

/// What is not understood, named after its type.
fn opaque(json: &str) -> Option<Opaque> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Str<'a>,
    }
    let kind = serde_json::from_str(json).map(|Typed { kind }| kind.0).unwrap_or(Cow::Borrowed("block"));
    Some(Opaque { source: format!("{OPAQUE_SOURCE}{kind}").into(), json: Json::parse(json).ok()? })
}

/// How the source of blocks that are passed through begins.
pub(crate) const OPAQUE_SOURCE: &str = "anthropic/";

/// The type of an image at an address, which does not tell it.
const IMAGE_AT_URL: &str = "image/*";

/// The type of a document at an address: others are not fetched.
const FILE_AT_URL: &str = "application/pdf";

/// An image. One of another type is not understood, and stays as it is (T5).
fn media(source: &RawValue) -> Option<Media> {
    let source: Source<'_> = serde_json::from_str(source.get()).ok()?;
    let (media_type, data) = match &*source.kind {
        "base64" => {
            (source.media_type.filter(|kind| kind.starts_with("image/"))?, Blob::Base64(source.data?))
        }
        "url" => (Text::from(IMAGE_AT_URL), Blob::Url(source.url?)),
        _ => return None,
    };
    Some(Media { media_type, data, pixels: None })
}

fn file(source: &RawValue, name: Option<Text>) -> Option<File> {
    let source: Source<'_> = serde_json::from_str(source.get()).ok()?;
    let (media_type, data) = match &*source.kind {
        "base64" => (source.media_type?, Blob::Base64(source.data?)),
        "text" => {
            let media_type = source.media_type.unwrap_or_else(|| Text::from("text/plain"));
            (media_type, Blob::Text(source.data?))
        }
        "url" => (Text::from(FILE_AT_URL), Blob::Url(source.url?)),
        _ => return None,
    };
    Some(File { name, media_type, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Content {
        read_blocks(&RawValue::from_string(json.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn every_block_is_written_as_it_was_read() {
        let blocks = [
            r#"{"type":"text","text":"caf\u00e9 \"quoted\""}"#,
            r#"{"type":"thinking","thinking":"so","signature":"c2ln"}"#,
            r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#,
            r#"{"type":"tool_use","id":"t1","name":"ls","input":{"n":1.50,"s":"\u0041"}}"#,
            r#"{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true}"#,
            r#"{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aQ=="}}]}"#,
            r#"{"type":"tool_result","tool_use_id":"t3","content":""}"#,
            r#"{"type":"tool_result","tool_use_id":"t4","content":[{"type":"tool_reference","tool_name":"Grep"}]}"#,
            r#"{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}"#,
            r#"{"type":"image","source":{"type":"base64","media_type":"not an image","data":"aQ=="}}"#,
            r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"},"title":"notes"}"#,
            r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}}"#,
            r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}}"#,
        ];
        let content = read(&format!("[{}]", blocks.join(",")));
        assert_eq!(content.parts.len(), blocks.len());
        for (part, block) in content.parts.iter().zip(blocks) {
            let written = write_block(part);
            assert_eq!(written.lost, None, "{block}");
            let again = read(&format!("[{}]", written.json.unwrap()));
            assert_eq!(&again.parts[..], std::slice::from_ref(part), "{block}");
        }
    }

    #[test]
    fn content_read_in_one_pass_is_what_reading_its_json_gives() {
        let understood = [
            r#""""#,
            r#""a\nb""#,
            "[]",
            r#"[{"type":"text","text":"a\u00e9","cache_control":{"type":"ephemeral"}},{"type":"text","text":""}]"#,
            r#"[{"type":"thinking","thinking":"so","signature":""},{"type":"redacted_thinking","data":"ZA=="}]"#,
            r#"[{"type":"tool_use","id":"t1","name":"ls"},{"type":"tool_use","id":"t1","name":"ls","input":{"n": 1.50}}]"#,
            r#"[{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true},{"type":"tool_result","tool_use_id":"t1","content":""}]"#,
            r#"[{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t1","content":null}]"#,
            r#"[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":""},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aQ=="}}]}]"#,
            r#"[{"type":"file","path":"a.rs","content":"fn"},{"type":"file","path":"b.rs","content":""}]"#,
        ];
        for json in understood {
            let Streamed(streamed) = serde_json::from_str(json).unwrap();
            let read = read(json);
            assert_eq!(streamed.parts, read.parts, "{json}");
            assert_eq!(streamed.cache_control, read.cache_control, "{json}");
        }
        let not_understood = [
            "{}",
            r#"[{"type":"text"}]"#,
            r#"["loose"]"#,
            r#"[{"type":"server_tool_use","id":"s1"}]"#,
            r#"[{"type":"file","path":"a.rs","content":[{"type":"text","text":"a"}]}]"#,
            r#"[{"type":"tool_result","tool_use_id":"t4","content":[{"type":"tool_reference","tool_name":"Grep"}]}]"#,
            r#"[{"type":"tool_result","tool_use_id":"t4","content":{"a":1}}]"#,
        ];
        for json in not_understood {
            assert!(serde_json::from_str::<Streamed>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_block_that_lacks_its_fields_is_passed_through() {
        let json = r#"[{"type":"tool_use","name":"no id"},{"type":"text","text":7},"loose",{"type":"image","source":{"type":"file","file_id":"f"}}]"#;
        let content = read(json);
        assert_eq!(content.parts.len(), 4);
        assert!(content.parts.iter().all(|part| matches!(part, Part::Opaque(_))));
        let back: Vec<String> = content.parts.iter().filter_map(|part| write_block(part).json).collect();
        assert_eq!(format!("[{}]", back.join(",")), json);
    }

    #[test]
    fn content_is_a_string_or_a_list() {
        assert_eq!(read("\"\"").parts, []);
        assert_eq!(read("null").parts, []);
        assert_eq!(read("\"a\\nb\"").parts, [Part::text("a\nb")]);
        assert!(read_blocks(&RawValue::from_string("{}".to_owned()).unwrap()).is_err());
    }
}
