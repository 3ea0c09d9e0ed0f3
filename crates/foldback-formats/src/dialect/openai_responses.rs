//! OpenAI Responses: request bodies and bare lists of input items.
//!
//! `instructions` is a system item in front of the input. Input items that a compaction leaves as
//! they were are written back with their own text.

pub(crate) mod items;
pub(crate) mod write;

use std::borrow::Cow;
use std::collections::HashMap;

use foldback_core::{Item, ItemKind, Part, Text};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::conversation::{Conversation, FilePlace, Sent};
use crate::detect::{Fit, Probe};
use crate::dialect::openai_chat::content::{array, array_like, object, quoted};
use crate::dialect::openai_chat::opaque;
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Loss, Reading, SessionFile};
use crate::lowering::Tag;

use items::{ITEM_SOURCE, read_item};
use write::{HasStatus, Style, TakesReasoning, Writer};

pub(crate) struct OpenaiResponses;

/// The id of the item that `instructions` is.
const INSTRUCTIONS: &str = "instructions";

/// Fields that only these requests have, beside `input`.
const OWN_FIELDS: [&str; 5] =
    ["instructions", "previous_response_id", "max_output_tokens", "truncation", "include"];

const STYLE: Style = Style {
    reasoning: TakesReasoning::Any,
    tagged: Tag::around,
    looks_failed: |_| false,
    statuses: HasStatus::OfFunctions,
};

impl Codec for OpenaiResponses {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let has = |name: &str| probe.field(name).is_some();
        // A log of a call holds the request's fields beside its own.
        if has("context_window") || has("latency_sec") {
            return Fit::No;
        }
        let is_own = OWN_FIELDS.iter().any(|name| has(name));
        let input = probe.elements_of("input");
        if !input.is_empty() {
            let has_role = |item: &Value| item["role"].is_string() && item.get("content").is_some();
            let is_input = |item: &Value| has_role(item) || marks(item) || item["type"].is_string();
            return match input.iter().all(is_input) {
                true if is_own || input.iter().any(|item| marks(item) || has_role(item)) => Fit::Sure,
                _ => Fit::No,
            };
        }
        let is_prompt = probe.field("input").is_some_and(|input| input.get().starts_with('"'));
        match (is_prompt, has("model") && !has("messages")) {
            (true, true) if is_own => Fit::Sure,
            (true, true) => Fit::Possible,
            _ if probe.elements().iter().any(marks) => Fit::Sure,
            _ => Fit::No,
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::OpenaiResponses)?;
        let body = Body::of(&document)?;
        let mut conversation = Conversation::new();
        let mut problems = Vec::new();
        for (raw, read) in body.items(&document)? {
            match read {
                Ok(item) => drop(conversation.push(item, FilePlace::line(document.line_of(raw)))),
                Err(problem) => problems.push(problem),
            }
        }
        Ok(Reading { conversations: vec![conversation], problems, model: body.model, ..Reading::default() })
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        let written = like.and_then(|like| write_like(items, like));
        Some(written.unwrap_or_else(|| write_fresh(items)))
    }
}

/// Whether an input item could be of no other format.
fn marks(item: &Value) -> bool {
    let has_id = item["call_id"].is_string();
    let is_content = |part: &Value| {
        let kind = part["type"].as_str().unwrap_or_default();
        ["input_text", "output_text", "input_image", "input_file"].contains(&kind)
    };
    match item["type"].as_str() {
        Some("message") | None => {
            item["role"].is_string()
                && (item["content"].as_array().is_some_and(|parts| parts.iter().any(is_content))
                    || item["type"] == "message" && item["content"].is_string())
        }
        Some("reasoning") => item["summary"].is_array(),
        Some("function_call" | "function_call_output" | "custom_tool_call" | "custom_tool_call_output") => {
            has_id
        }
        Some("compaction") => item["encrypted_content"].is_string(),
        Some(_) => false,
    }
}

/// The parts of a document that are looked at.
struct Body<'a> {
    model: Option<Text>,
    instructions: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
}

/// The text of an input item, and the item it is.
type ReadItem<'a> = (&'a RawValue, Result<Item, Problem>);

impl<'a> Body<'a> {
    fn of(document: &Document<'a>) -> Result<Self, FormatError> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, default)]
            model: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            instructions: Option<&'a RawValue>,
            #[serde(borrow, default)]
            input: Option<&'a RawValue>,
        }
        let whole: &RawValue = document.parse()?;
        if whole.get().starts_with('[') {
            return Ok(Self { model: None, instructions: None, input: Some(whole) });
        }
        let Fields { model, instructions, input } = document.parse_piece(whole)?;
        let instructions = instructions.filter(|raw| raw.get() != "null");
        Ok(Self { model: model.as_deref().map(Text::from), instructions, input })
    }

    /// Every item with its text in the file.
    fn items(&self, document: &Document<'a>) -> Result<Vec<ReadItem<'a>>, FormatError> {
        let mut items: Vec<ReadItem<'a>> = Vec::new();
        items.extend(self.instructions.map(|raw| (raw, Ok(instructions_item(raw)))));
        match self.input {
            Some(input) if input.get().starts_with('"') => {
                let text: String = document.parse_piece(input)?;
                items.push((input, Ok(Item::user("m0", text))));
            }
            Some(input) => {
                let elements: Vec<&'a RawValue> = document.parse_piece(input)?;
                items.extend(elements.into_iter().enumerate().map(|(index, raw)| {
                    let item = read_item(raw, format!("m{index}"));
                    (raw, item.map_err(|error| Problem::of_json(&error, document.line_of(raw), 0)))
                }));
            }
            None => {}
        }
        Ok(items)
    }
}

fn instructions_item(raw: &RawValue) -> Item {
    let text = serde_json::from_str::<String>(raw.get());
    let part =
        text.map_or_else(|_| Part::Opaque(opaque(&format!("{ITEM_SOURCE}{INSTRUCTIONS}"), raw)), Part::text);
    Item::new(INSTRUCTIONS, ItemKind::System, vec![part])
}

/// The value of `instructions` for an item, if it can be one.
fn instructions_json(item: &Item) -> Option<String> {
    match &item.parts[..] {
        [Part::Text(text)] if item.kind == ItemKind::System => Some(quoted(text)),
        [Part::Opaque(opaque)] if &*item.id == INSTRUCTIONS => Some(opaque.json.as_str().to_owned()),
        _ => None,
    }
}

fn write_fresh(items: &[Sent]) -> (Vec<u8>, Vec<Loss>) {
    let style = Style { reasoning: TakesReasoning::Sealed, ..STYLE };
    let mut writer = Writer::new(style, items, HashMap::new());
    let first = items.first().and_then(|item| instructions_json(item));
    let input = &items[usize::from(first.is_some())..];
    let input: Vec<String> = input.iter().flat_map(|item| writer.lower(item)).collect();
    let mut fields: Vec<(&str, String)> = Vec::new();
    fields.extend(first.map(|text| (INSTRUCTIONS, text)));
    fields.push(("input", array(&input)));
    ((object(&fields) + "\n").into_bytes(), writer.losses)
}

/// The body of `like` with other input; nothing where it has no input to replace.
fn write_like(items: &[Sent], like: &SessionFile) -> Option<(Vec<u8>, Vec<Loss>)> {
    let document = Document::new(like.bytes(), Format::OpenaiResponses).ok()?;
    let body = Body::of(&document).ok()?;
    let input = body.input?;
    let read = body.items(&document).ok()?.into_iter().filter(|(_, item)| item.is_ok());
    let originals = read.enumerate().filter(|(_, (raw, _))| raw.get().starts_with('{'));
    let originals = originals.map(|(index, (raw, _))| (index, raw.get())).collect();
    let mut writer = Writer::new(STYLE, items, originals);
    let is_instructions = |item: &&Sent| body.instructions.is_some() && &*item.id == INSTRUCTIONS;
    let said: Vec<String> =
        items.iter().filter(|item| !is_instructions(item)).flat_map(|item| writer.lower(item)).collect();
    let written = match input.get().starts_with('[') {
        true => array_like(input.get(), &said),
        false => array(&said),
    };
    let mut edits = vec![(document.range_of(input), written)];
    edits.extend(body.instructions.map(|raw| {
        let instructions = items.iter().find(is_instructions).and_then(|item| instructions_json(item));
        let as_it_was = instructions.as_ref().filter(|text| serde_eq(text, raw.get()));
        let text = as_it_was.map(|_| raw.get().to_owned()).or(instructions);
        (document.range_of(raw), text.unwrap_or_else(|| "null".to_owned()))
    }));
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut text = String::from_utf8(like.bytes().to_vec()).ok()?;
    for (range, replacement) in edits {
        text.replace_range(range, &replacement);
    }
    Some((text.into_bytes(), writer.losses))
}

/// Whether two JSON texts mean the same.
fn serde_eq(one: &str, other: &str) -> bool {
    let value = |json: &str| serde_json::from_str::<Value>(json).ok();
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::testing::sent;
    use crate::format::write;
    use std::sync::Arc;

    fn read(body: &str) -> SessionFile {
        SessionFile::read_as(Format::OpenaiResponses, body.as_bytes().to_vec()).unwrap()
    }

    fn items_of(session: &SessionFile) -> Vec<Arc<Item>> {
        session.conversations()[0].recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect()
    }

    #[test]
    fn only_the_input_of_a_body_changes() {
        let body = "{\"input\": [\n {\"type\":\"mystery\",\"n\":1.50},\n {\"role\":\"user\",\"content\":\"b\"}\n],\n \"instructions\" : \"caf\\u00e9\", \"x\": 1e2}";
        let session = read(body);
        let items = items_of(&session);
        assert_eq!(items[0].kind, ItemKind::System);
        let kept = write(Format::OpenaiResponses, &sent(&items, Some(&session)), Some(&session)).unwrap();
        assert_eq!(String::from_utf8(kept.to_bytes()).unwrap(), body);
        let cut = write(Format::OpenaiResponses, &sent(&items[..2], Some(&session)), Some(&session)).unwrap();
        assert_eq!(
            String::from_utf8(cut.to_bytes()).unwrap(),
            body.replace(",\n {\"role\":\"user\",\"content\":\"b\"}", "")
        );
    }

    #[test]
    fn the_type_of_an_output_follows_its_call() {
        let call = |id: &str, input: &str| {
            let line = format!(
                "{{\"type\":\"custom_tool_call\",\"call_id\":\"{id}\",\"name\":\"exec\",\"input\":\"{input}\"}}"
            );
            let raw = RawValue::from_string(line).unwrap();
            Arc::new(read_item(&raw, "x").unwrap())
        };
        let result = Arc::new(Item::tool("r", foldback_core::ToolResult::error("c1", "failed")));
        let written = write(Format::OpenaiResponses, &sent(&[call("c1", "1"), result], None), None).unwrap();
        let value: Value = serde_json::from_slice(&written.to_bytes()).unwrap();
        assert_eq!(value["input"][0]["type"], "custom_tool_call");
        assert_eq!(value["input"][1]["type"], "custom_tool_call_output");
        assert_eq!(written.losses.len(), 1, "custom outputs have no status to say that it failed");
    }

    #[test]
    fn a_failed_function_is_marked_and_read_again() {
        let items = [
            Arc::new(Item::assistant("a", vec![Part::call("c", "ls", &serde_json::json!({}))])),
            Arc::new(Item::tool("r", foldback_core::ToolResult::error("c", "no such folder"))),
        ];
        let written = write(Format::OpenaiResponses, &sent(&items, None), None).unwrap();
        assert_eq!(written.losses, []);
        let again = SessionFile::read(written.to_bytes()).unwrap();
        assert_eq!(items_of(&again)[1].parts, items[1].parts);
    }

    #[test]
    fn reasoning_of_other_providers_is_not_sent() {
        let items = [Arc::new(Item::assistant("a", vec![Part::reasoning("hm"), Part::text("so")]))];
        let written = write(Format::OpenaiResponses, &sent(&items, None), None).unwrap();
        assert_eq!(written.losses.len(), 1);
    }

    #[test]
    fn a_prompt_that_is_a_string_is_one_user_item() {
        let session = read("{\"model\":\"gpt-5\",\"input\":\"hello\"}");
        assert_eq!(items_of(&session)[0].parts, [Part::text("hello")]);
        let written =
            write(Format::OpenaiResponses, &sent(&items_of(&session), Some(&session)), Some(&session))
                .unwrap();
        assert_eq!(items_of(&SessionFile::read(written.to_bytes()).unwrap())[0].parts, [Part::text("hello")]);
    }

    #[test]
    fn input_that_is_none_is_a_problem_on_its_line() {
        let session = read(
            "[\n{\"type\":\"message\",\"role\":\"user\",\"content\":\"a\"},\n7,\n{\"type\":\"function_call\",\"call_id\":3}]",
        );
        assert_eq!(session.problems()[0].line, 3);
        assert_eq!(session.problems().len(), 1);
        assert!(matches!(items_of(&session)[1].parts[..], [Part::Opaque(_)]));
    }
}
