//! Writing items of the Responses API, for requests and for Codex rollouts.

use std::collections::HashMap;

use foldback_core::{
    Blob, CallId, File, Item, ItemKind, Media, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult,
};

use super::items::{CONTENT_SOURCE, FAILED, ITEM_SOURCE, LOCAL_SHELL, LOCAL_SHELL_CALL, OUTPUT_SOURCE};
use crate::conversation::Sent;
use crate::dialect::openai_chat::content::{address_of, array, lost_of_file, lost_of_image, object, quoted};
use crate::format::Loss;
use crate::lowering::Tag;

/// What differs between those who take such items.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// Which reasoning is taken back.
    pub(crate) reasoning: TakesReasoning,
    /// The text of an item that no role fits.
    pub(crate) tagged: fn(Tag, &str) -> String,
    /// Whether a reader takes a result without a status for a failure.
    pub(crate) looks_failed: fn(&ToolResult) -> bool,
    /// Which outputs can have a status.
    pub(crate) statuses: HasStatus,
}

/// Which reasoning is taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakesReasoning {
    /// Only what the provider can check.
    Sealed,
    /// What the file had.
    Any,
}

/// Which outputs can have a status.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HasStatus {
    /// The outputs of functions.
    OfFunctions,
    /// All of them.
    OfAll,
}

/// Writes items, each as one or more input items.
pub(crate) struct Writer<'a> {
    style: Style,
    originals: HashMap<usize, &'a str>,
    /// The type of the output that answers a call.
    output_types: HashMap<CallId, String>,
    /// What could not be written.
    pub(crate) losses: Vec<Loss>,
}

/// What is lost where there is no place for JSON.
const STRUCTURED_AS_TEXT: &str = "that structured content is not text";

/// The type of outputs of functions.
const FUNCTION_OUTPUT: &str = "function_call_output";

impl<'a> Writer<'a> {
    /// A writer for `items`, some of which stand in a file as `originals` say.
    pub(crate) fn new(style: Style, items: &[Sent], originals: HashMap<usize, &'a str>) -> Self {
        let mut output_types = HashMap::new();
        for item in items {
            let original = item.recorded.and_then(|index| originals.get(&index)).copied();
            for (_, call) in item.calls() {
                output_types.insert(call.id.clone(), output_type(call, original));
            }
        }
        Self { style, originals, output_types, losses: Vec::new() }
    }

    /// The input items that an item becomes; its own text where it is as it was read.
    pub(crate) fn lower(&mut self, item: &Sent) -> Vec<String> {
        if let Some(original) = item.recorded.and_then(|index| self.originals.get(&index)) {
            return vec![(*original).to_owned()];
        }
        match item.kind {
            ItemKind::System => self.message(item, "system"),
            ItemKind::Developer => self.message(item, "developer"),
            ItemKind::User | ItemKind::Context | ItemKind::Notification => self.message(item, "user"),
            ItemKind::Assistant => self.answer(item),
            ItemKind::Tool => self.outputs(item),
        }
    }

    fn lose(&mut self, item: &Item, what: impl Into<String>) {
        self.losses.push(Loss { item_id: item.id.clone(), what: what.into() });
    }

    /// A message, and what of the item is an input item of its own.
    fn message(&mut self, item: &Item, role: &str) -> Vec<String> {
        let tag = Tag::of(item);
        let tagged = self.style.tagged;
        let text =
            |text: &str| text_part("input_text", &tag.map_or(text.to_owned(), |tag| tagged(tag, text)));
        let (mut content, mut others) = (Vec::new(), Vec::new());
        let mut has_text = false;
        for part in &item.parts {
            match part {
                Part::Text(said) if said.is_empty() => {}
                Part::Text(said) => content.push(text(said)),
                Part::Structured(json) => {
                    self.lose(item, STRUCTURED_AS_TEXT);
                    content.push(text(json.as_str()));
                }
                Part::Media(media) => content.push(self.image(item, media)),
                Part::File(file) => content.push(self.file(item, file)),
                Part::Opaque(opaque) if opaque.source.starts_with(CONTENT_SOURCE) => {
                    content.push(opaque.json.as_str().to_owned());
                }
                Part::Opaque(opaque) if opaque.source.starts_with(ITEM_SOURCE) => {
                    others.push(opaque.json.as_str().to_owned());
                }
                Part::Opaque(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                    self.lose(item, format!("its {} part", part.kind_name()));
                }
            }
            has_text |= matches!(part, Part::Text(_) | Part::Structured(_));
        }
        if !has_text && !content.is_empty() && tag.is_some() {
            content.insert(0, text(""));
        }
        if !content.is_empty() {
            others.insert(0, message(role, &content));
        }
        others
    }

    fn answer(&mut self, item: &Item) -> Vec<String> {
        let mut written = Vec::new();
        let mut content: Vec<String> = Vec::new();
        for part in &item.parts {
            let own = match part {
                Part::Text(said) if said.is_empty() => continue,
                Part::Text(said) => {
                    content.push(text_part("output_text", said));
                    continue;
                }
                Part::Structured(json) => {
                    self.lose(item, STRUCTURED_AS_TEXT);
                    content.push(text_part("output_text", json.as_str()));
                    continue;
                }
                Part::Opaque(opaque) if opaque.source.starts_with(CONTENT_SOURCE) => {
                    content.push(opaque.json.as_str().to_owned());
                    continue;
                }
                Part::Opaque(opaque) if opaque.source.starts_with(ITEM_SOURCE) => {
                    Some(opaque.json.as_str().to_owned())
                }
                Part::Reasoning(reasoning) => self.reasoning(item, reasoning),
                Part::ToolCall(call) => Some(self.call(item, call)),
                Part::Media(_) | Part::File(_) | Part::ToolResult(_) | Part::Opaque(_) => None,
            };
            if !content.is_empty() {
                written.push(message("assistant", &std::mem::take(&mut content)));
            }
            match own {
                Some(own) => written.push(own),
                None if matches!(part, Part::Reasoning(_)) => {
                    self.lose(item, "reasoning, which is taken back only as the provider sealed it");
                }
                None => self.lose(item, format!("its {} part", part.kind_name())),
            }
        }
        if !content.is_empty() {
            written.push(message("assistant", &content));
        }
        written
    }

    fn call(&mut self, item: &Item, call: &ToolCall) -> String {
        if call.signature.is_some() {
            self.lose(item, format!("the signature of its call of {}", call.name));
        }
        call_json(call)
    }

    fn reasoning(&mut self, item: &Item, reasoning: &Reasoning) -> Option<String> {
        let is_own = reasoning.id.is_some() || reasoning.encrypted.is_some();
        if !is_own && self.style.reasoning == TakesReasoning::Sealed {
            return None;
        }
        if reasoning.signature.is_some() {
            self.lose(item, "the signature of its reasoning, which another provider made");
        }
        let mut fields = vec![("type", quoted("reasoning"))];
        fields.extend(reasoning.id.as_ref().map(|id| ("id", quoted(id))));
        let summary = Some(&reasoning.text).filter(|text| !text.is_empty());
        let summary: Vec<String> = summary.into_iter().map(|text| text_part("summary_text", text)).collect();
        fields.push(("summary", array(&summary)));
        fields.extend(reasoning.encrypted.as_ref().map(|sealed| ("encrypted_content", quoted(sealed))));
        Some(object(&fields))
    }

    fn outputs(&mut self, item: &Item) -> Vec<String> {
        let mut written = Vec::new();
        for part in &item.parts {
            match part {
                Part::ToolResult(result) => written.push(self.output(item, result)),
                _ => self.lose(item, format!("its {} part, beside tool results", part.kind_name())),
            }
        }
        written
    }

    fn output(&mut self, item: &Item, result: &ToolResult) -> String {
        if let [ResultPart::Opaque(opaque)] = &result.content[..]
            && opaque.source.starts_with(OUTPUT_SOURCE)
        {
            return opaque.json.as_str().to_owned();
        }
        let kind = self.output_types.get(&result.call_id).cloned().unwrap_or(FUNCTION_OUTPUT.to_owned());
        let mut fields = vec![("type", quoted(&kind)), ("call_id", quoted(&result.call_id))];
        fields.push(("output", self.output_content(item, result)));
        let can_have_status = kind == FUNCTION_OUTPUT || self.style.statuses == HasStatus::OfAll;
        match (result.is_error, (self.style.looks_failed)(result)) {
            (true, false) if can_have_status => fields.push(("status", quoted(FAILED))),
            (false, true) if can_have_status => fields.push(("status", quoted("completed"))),
            (true, false) => self.lose(item, "that the tool failed, which only the text says"),
            _ => {}
        }
        object(&fields)
    }

    fn output_content(&mut self, item: &Item, result: &ToolResult) -> String {
        if result.content.iter().any(|piece| matches!(piece, ResultPart::Structured(_))) {
            self.lose(item, STRUCTURED_AS_TEXT);
        }
        let mut list = Vec::new();
        for piece in &result.content {
            match piece {
                ResultPart::Text(text) if result.content.len() == 1 => return quoted(text),
                ResultPart::Text(text) => list.push(text_part("input_text", text)),
                ResultPart::Structured(json) if result.content.len() == 1 => return quoted(json.as_str()),
                ResultPart::Structured(json) => list.push(text_part("input_text", json.as_str())),
                ResultPart::Media(media) => list.push(self.image(item, media)),
                ResultPart::File(file) => list.push(self.file(item, file)),
                ResultPart::Opaque(opaque) if opaque.source.starts_with(CONTENT_SOURCE) => {
                    list.push(opaque.json.as_str().to_owned());
                }
                ResultPart::Opaque(opaque) => {
                    list.push(text_part("input_text", &format!("[{} left out]", opaque.source)));
                    self.lose(item, format!("{} in a tool result", opaque.source));
                }
            }
        }
        if list.is_empty() { quoted("") } else { array(&list) }
    }

    fn image(&mut self, item: &Item, media: &Media) -> String {
        let is_image = media.media_type.starts_with("image/");
        if !is_image {
            self.lose(item, format!("{}, which this dialect does not take", media.media_type));
            return text_part("input_text", &format!("[{} left out]", media.media_type));
        }
        if let Some(what) = lost_of_image(media) {
            self.lose(item, what);
        }
        let url = address_of(&media.media_type, &media.data);
        object(&[("type", quoted("input_image")), ("image_url", quoted(&url))])
    }

    fn file(&mut self, item: &Item, file: &File) -> String {
        if let Some(what) = lost_of_file(file) {
            self.lose(item, what);
        }
        let mut fields = vec![("type", quoted("input_file"))];
        fields.extend(file.name.as_ref().map(|name| ("filename", quoted(name))));
        let field = if matches!(file.data, Blob::Url(_)) { "file_url" } else { "file_data" };
        fields.push((field, quoted(&address_of(&file.media_type, &file.data))));
        object(&fields)
    }
}

/// The type of the output that answers a call. A call that is copied says its type itself.
fn output_type(call: &ToolCall, original: Option<&str>) -> String {
    #[derive(serde::Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: String,
    }
    let recorded = original.and_then(|json| serde_json::from_str::<Typed>(json).ok()).map(|typed| typed.kind);
    let kind = recorded.unwrap_or_else(|| call_type(call).to_owned());
    match &*kind {
        LOCAL_SHELL_CALL => FUNCTION_OUTPUT.to_owned(),
        "tool_search_call" => "tool_search_output".to_owned(),
        kind => format!("{kind}_output"),
    }
}

fn call_type(call: &ToolCall) -> &str {
    match &call.input {
        ToolInput::Text(_) => "custom_tool_call",
        ToolInput::Json(_) if &*call.name == LOCAL_SHELL => LOCAL_SHELL_CALL,
        ToolInput::Json(json) if call.name.ends_with("_call") && is_typed(json.as_str(), &call.name) => {
            &call.name
        }
        ToolInput::Json(_) => "function_call",
    }
}

/// Whether JSON is an input item of this type.
fn is_typed(json: &str, kind: &str) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
    value.is_some_and(|value| value["type"] == kind && value["call_id"].is_string())
}

fn call_json(call: &ToolCall) -> String {
    let kind = call_type(call);
    let mut fields = vec![("type", quoted(kind)), ("call_id", quoted(&call.id))];
    match (kind, &call.input) {
        (LOCAL_SHELL_CALL, input) => {
            fields.extend([("status", quoted("completed")), ("action", input.as_str().to_owned())]);
        }
        (_, ToolInput::Text(text)) => fields.extend([("name", quoted(&call.name)), ("input", quoted(text))]),
        ("function_call", ToolInput::Json(json)) => {
            fields.extend([("name", quoted(&call.name)), ("arguments", quoted(json.as_str()))]);
        }
        (_, ToolInput::Json(json)) => return json.as_str().to_owned(),
    }
    object(&fields)
}

fn message(role: &str, content: &[String]) -> String {
    object(&[("type", quoted("message")), ("role", quoted(role)), ("content", array(content))])
}

fn text_part(kind: &str, text: &str) -> String {
    object(&[("type", quoted(kind)), ("text", quoted(text))])
}
