//! Parts as content blocks.

use foldback_core::{
    Blob, File, Json, Media, Opaque, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{FILE_AT_URL, IMAGE_AT_URL, OPAQUE_SOURCE};

/// A part as a block.
#[derive(Debug, Default)]
pub(crate) struct WrittenBlock {
    /// The block's JSON; none where it cannot be one.
    pub(crate) json: Option<String>,
    /// What is lost of the part.
    pub(crate) lost: Option<&'static str>,
}

impl WrittenBlock {
    fn of(block: &BlockOut<'_>) -> Self {
        Self { json: Some(json_text(block)), lost: None }
    }

    fn lost(what: &'static str) -> Self {
        Self { json: None, lost: Some(what) }
    }

    fn but(self, lost: &'static str) -> Self {
        Self { lost: Some(lost), ..self }
    }

    /// Whether it can carry a cache marker.
    pub(crate) fn is_cacheable(json: &str) -> bool {
        ["{\"type\":\"thinking\"", "{\"type\":\"redacted_thinking\""]
            .iter()
            .all(|start| !json.starts_with(start))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockOut<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Json,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a RawValue,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: SourceOut<'a>,
    },
    Document {
        source: SourceOut<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SourceOut<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

/// JSON on one line: line breaks in what serde writes stand between the tokens of raw JSON.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("blocks have only string keys and finite numbers");
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

/// Writes a part as a block.
pub(crate) fn write_block(part: &Part) -> WrittenBlock {
    match part {
        Part::Text(text) => WrittenBlock::of(&BlockOut::Text { text }),
        Part::Reasoning(Reasoning { encrypted: Some(data), text, id: None, signature: None })
            if text.is_empty() =>
        {
            WrittenBlock::of(&BlockOut::RedactedThinking { data })
        }
        Part::Reasoning(Reasoning { encrypted: Some(_), .. }) => {
            WrittenBlock::lost("reasoning that another provider encrypted")
        }
        Part::Reasoning(Reasoning { text, signature, id, .. }) => {
            let signature = signature.as_deref().unwrap_or("");
            let lost = id.as_ref().map(|_| "the id of its reasoning, which another provider gave");
            WrittenBlock { lost, ..WrittenBlock::of(&BlockOut::Thinking { thinking: text, signature }) }
        }
        Part::ToolCall(ToolCall { id, name, input: ToolInput::Json(input), signature }) => {
            let lost = signature.as_ref().map(|_| "the signature of its call");
            WrittenBlock { lost, ..WrittenBlock::of(&BlockOut::ToolUse { id, name, input }) }
        }
        Part::ToolCall(ToolCall { id, name, input: ToolInput::Text(text), .. }) => {
            let input = &Json::from_value(&serde_json::json!({ "text": text }));
            WrittenBlock::of(&BlockOut::ToolUse { id, name, input })
                .but("the call's input is text and becomes the field `text` of an object")
        }
        Part::ToolResult(result) => write_result(result),
        Part::Media(media) => write_media(media),
        Part::File(file) => write_file(file),
        Part::Structured(json) => {
            WrittenBlock::of(&BlockOut::Text { text: json.as_str() }).but("structured content becomes text")
        }
        Part::Opaque(opaque) => write_opaque(opaque),
    }
}

fn write_opaque(opaque: &Opaque) -> WrittenBlock {
    match opaque.source.starts_with(OPAQUE_SOURCE) {
        true => WrittenBlock { json: Some(json_text(&opaque.json)), lost: None },
        false => WrittenBlock::lost("content that only the format it comes from knows"),
    }
}

fn write_media(media: &Media) -> WrittenBlock {
    if !media.media_type.starts_with("image/") {
        return WrittenBlock::lost("sound or video, which Anthropic messages cannot hold");
    }
    let source = match &media.data {
        Blob::Base64(data) => SourceOut::Base64 { media_type: &media.media_type, data },
        Blob::Url(url) => SourceOut::Url { url },
        Blob::Text(_) => return WrittenBlock::lost("an image that is given as text"),
    };
    let is_type_lost = matches!(media.data, Blob::Url(_)) && &*media.media_type != IMAGE_AT_URL;
    let lost = is_type_lost.then_some("the type of an image at an address");
    WrittenBlock { lost, ..WrittenBlock::of(&BlockOut::Image { source }) }
}

fn write_file(file: &File) -> WrittenBlock {
    let media_type = &file.media_type;
    let source = match &file.data {
        Blob::Base64(data) => SourceOut::Base64 { media_type, data },
        Blob::Text(data) => SourceOut::Text { media_type, data },
        Blob::Url(url) => SourceOut::Url { url },
    };
    let is_type_lost = matches!(file.data, Blob::Url(_)) && &**media_type != FILE_AT_URL;
    let lost = is_type_lost.then_some("the type of a document at an address");
    WrittenBlock { lost, ..WrittenBlock::of(&BlockOut::Document { source, title: file.name.as_deref() }) }
}

fn write_result(result: &ToolResult) -> WrittenBlock {
    let mut lost = None;
    let content = match &result.content[..] {
        [] => "\"\"".to_owned(),
        [ResultPart::Text(text)] if !text.is_empty() => json_text(text),
        parts => {
            let mut blocks = Vec::with_capacity(parts.len());
            for part in parts {
                let written = match part {
                    ResultPart::Text(text) => WrittenBlock::of(&BlockOut::Text { text }),
                    ResultPart::Media(media) => write_media(media),
                    ResultPart::File(file) => write_file(file),
                    ResultPart::Structured(json) => WrittenBlock::of(&BlockOut::Text { text: json.as_str() })
                        .but("structured content of a result becomes text"),
                    ResultPart::Opaque(opaque) => write_opaque(opaque),
                };
                lost = lost.or(written.lost);
                blocks.extend(written.json);
            }
            format!("[{}]", blocks.join(","))
        }
    };
    let content = RawValue::from_string(content).expect("a list of blocks is JSON");
    let block =
        BlockOut::ToolResult { tool_use_id: &result.call_id, content: &content, is_error: result.is_error };
    WrittenBlock { lost, ..WrittenBlock::of(&block) }
}
