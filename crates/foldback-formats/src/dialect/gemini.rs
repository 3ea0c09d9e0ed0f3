//! Gemini generateContent requests: `{contents, systemInstruction, tools, …}` in either case of
//! names, saved histories (`{history}`), and bare lists of messages.
//!
//! Gemini knows two roles. Results come from the user, in one message directly after the calls and
//! in their order; instructions have a field of their own.

pub(crate) mod content;
pub(crate) mod part;
pub(crate) mod response;

use std::collections::HashMap;

use foldback_core::{Item, ItemKind, Json, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::conversation::{Conversation, FilePlace, Sent};
use crate::detect::{Fit, Probe};
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Loss, Reading, SessionFile};

use content::{Messages, Role};
use part::Piece;

pub(crate) struct Gemini;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, alias = "history")]
    contents: &'a RawValue,
    #[serde(borrow, alias = "systemInstruction")]
    system_instruction: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    role: Option<String>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

/// Where the conversation stands in a request.
struct Layout<'a> {
    contents: &'a RawValue,
    system: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
}

impl<'a> Layout<'a> {
    fn of(document: &Document<'a>) -> Result<Self, FormatError> {
        let whole: &RawValue = document.parse()?;
        if whole.get().starts_with('[') {
            return Ok(Self { contents: whole, system: None, model: None });
        }
        let Body { contents, system_instruction: system, model } = document.parse_piece(whole)?;
        Ok(Self { contents, system, model })
    }
}

impl Codec for Gemini {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_part = |part: &Value| part.is_object() && part.get("type").is_none();
        let is_message = |element: &Value| {
            let parts = element["parts"].as_array();
            parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_part))
        };
        let has_role =
            |element: &Value| matches!(element["role"].as_str(), Some("user" | "model" | "function"));
        let is_other = |element: &Value| ["content", "info"].iter().any(|name| element.get(name).is_some());
        let fits = |elements: &[Value]| elements.iter().any(is_message) && !elements.iter().any(is_other);
        let of_body = ["contents", "history"].iter().any(|name| fits(&probe.elements_of(name)));
        let of_list = fits(probe.elements()) && probe.elements().iter().any(has_role);
        if of_body || of_list { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::Gemini)?;
        let layout = Layout::of(&document)?;
        let (mut conversation, mut problems) = (Conversation::new(), Vec::new());
        let mut messages = Messages::default();
        if let Some(system) = layout.system {
            match read_system(&document, system) {
                Ok(parts) => {
                    let place = FilePlace::line(document.line_of(system));
                    conversation.push(Item::new("system", ItemKind::System, parts), place);
                }
                Err(problem) => problems.push(problem),
            }
        }
        let elements: Vec<&RawValue> = document.parse_piece(layout.contents)?;
        for (index, element) in elements.into_iter().enumerate() {
            let place = FilePlace::line(document.line_of(element));
            let read = document.read_piece::<Content<'_>>(element).and_then(|content| {
                Ok((Role::named(content.role.as_deref()), pieces(&document, content.parts)?))
            });
            match read {
                Ok((role, pieces)) => {
                    for item in messages.items(role, &format!("m{index}"), pieces) {
                        conversation.push(item, place);
                    }
                }
                Err(problem) => problems.push(problem),
            }
        }
        let model = layout.model.and_then(|model| serde_json::from_str::<String>(model.get()).ok());
        let model = model.map(|model| model.trim_start_matches("models/").into());
        Ok(Reading { conversations: vec![conversation], problems, model, ..Reading::default() })
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        let items = arrange(items.to_vec());
        let mut losses = Vec::new();
        let messages = write_messages(&items, &mut losses);
        let instructions = || items.iter().filter(|item| item.kind.is_instruction());
        let system = write_system(instructions(), &mut losses);
        let written = like.and_then(|like| {
            let was = like.conversations().first()?.recorded().iter().map(|recorded| &recorded.item);
            let was = was.filter(|item| item.kind.is_instruction()).flat_map(|item| &item.parts);
            let is_same = instructions().flat_map(|item| &item.parts).eq(was);
            let system = if is_same { Instructions::Same } else { Instructions::New(system.as_deref()) };
            written_into(like.bytes(), &messages, system)
        });
        let bytes = written.unwrap_or_else(|| {
            let system = system.map_or_else(String::new, |system| format!("\"systemInstruction\":{system},"));
            format!("{{{system}\"contents\":{messages}}}").into_bytes()
        });
        Some((bytes, losses))
    }

    fn arrange(&self, items: Vec<Sent>) -> Vec<Sent> {
        arrange(items)
    }
}

/// The instructions: a message without a role, a single part, or text.
fn read_system(document: &Document<'_>, system: &RawValue) -> Result<Vec<Part>, Problem> {
    let broken = |error: serde_json::Error| Problem::of_json(&error, document.line_of(system), 0);
    let parts = match system.get().starts_with('{') {
        true => serde_json::from_str::<Content<'_>>(system.get()).map_err(broken)?.parts,
        false => None,
    };
    let pieces = read_pieces(parts.unwrap_or(system)).map_err(broken)?;
    let parts = pieces.into_iter().flat_map(|piece| match piece {
        Piece::Content(parts) => parts,
        Piece::Call { .. } | Piece::Response(_) => Vec::new(),
    });
    Ok(parts.collect())
}

fn pieces(document: &Document<'_>, parts: Option<&RawValue>) -> Result<Vec<Piece>, Problem> {
    let Some(parts) = parts else { return Ok(Vec::new()) };
    let broken = |entry: &RawValue| {
        let line = document.line_of(entry);
        move |error: serde_json::Error| Problem::of_json(&error, line, 0)
    };
    if !parts.get().starts_with('[') {
        return read_pieces(parts).map_err(broken(parts));
    }
    let entries: Vec<&RawValue> = serde_json::from_str(parts.get()).map_err(broken(parts))?;
    entries.into_iter().map(|entry| part::read(entry).map_err(broken(entry))).collect()
}

/// A list of parts, or a single one.
pub(crate) fn read_pieces(parts: &RawValue) -> Result<Vec<Piece>, serde_json::Error> {
    match parts.get().starts_with('[') {
        true => {
            let entries: Vec<&RawValue> = serde_json::from_str(parts.get())?;
            entries.into_iter().map(part::read).collect()
        }
        false if parts.get() == "null" => Ok(Vec::new()),
        false => part::read(parts).map(|piece| vec![piece]),
    }
}

/// Instructions first, because they have a field of their own, and what happened during a round
/// after its results, because they directly follow the calls.
pub(crate) fn arrange(items: Vec<Sent>) -> Vec<Sent> {
    let (mut arranged, rest): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| item.kind.is_instruction());
    let mut is_round_open = false;
    let mut last = None;
    let mut held: Vec<Sent> = Vec::new();
    for item in rest {
        match item.kind {
            ItemKind::Context | ItemKind::Notification if is_round_open => held.push(item),
            ItemKind::Tool => {
                last = item.results().next().map_or(last, |_| Some(ItemKind::Tool));
                arranged.push(item);
            }
            // It is not sent, so it ends nothing.
            _ if item.parts.is_empty() => arranged.push(item),
            kind => {
                // Neighbouring answers become one message.
                let is_same_message = kind == ItemKind::Assistant && last == Some(kind) && held.is_empty();
                arranged.append(&mut held);
                is_round_open = item.calls().next().is_some() || (is_round_open && is_same_message);
                last = Some(kind);
                arranged.push(item);
            }
        }
    }
    arranged.append(&mut held);
    arranged
}

#[derive(Serialize)]
struct WrittenContent<'a> {
    role: &'a str,
    parts: Vec<Json>,
}

/// The `contents`. Neighbouring answers become one message, and so do neighbouring results: calls
/// and responses are matched message by message.
fn write_messages(items: &[Sent], losses: &mut Vec<Loss>) -> String {
    let mut contents: Vec<(ItemKind, Vec<String>)> = Vec::new();
    let mut names: HashMap<&str, &str> = HashMap::new();
    for item in items.iter().filter(|item| !item.kind.is_instruction()) {
        names.extend(item.calls().map(|(_, call)| (&*call.id, &*call.name)));
        let (entries, lost) = match item.kind {
            ItemKind::Tool => (write_results(item, &names), lost_beside_results(item)),
            _ => content::write_user_parts(item),
        };
        losses.extend(lost.into_iter().map(|what| Loss { item_id: item.id.clone(), what }));
        let is_joined = matches!(item.kind, ItemKind::Assistant | ItemKind::Tool);
        match contents.last_mut() {
            _ if entries.is_empty() => {}
            Some((kind, before)) if is_joined && *kind == item.kind => before.extend(entries),
            _ => contents.push((item.kind, entries)),
        }
    }
    let contents: Vec<WrittenContent<'_>> = contents
        .into_iter()
        .map(|(kind, entries)| WrittenContent {
            role: if kind == ItemKind::Assistant { "model" } else { "user" },
            parts: entries.into_iter().filter_map(|entry| Json::parse(entry).ok()).collect(),
        })
        .collect();
    part::json(&contents)
}

/// The results of a tool item as entries of `parts`.
pub(crate) fn write_results(item: &Item, names: &HashMap<&str, &str>) -> Vec<String> {
    let results = item.results().map(|(_, result)| {
        let name = names.get(&*result.call_id).copied().unwrap_or("unknown");
        let response = response::write(&result.call_id, name, &result.content, result.is_error);
        format!("{{\"functionResponse\":{response}}}")
    });
    results.collect()
}

/// What a tool item holds that is no result, which Gemini has no place for, and what is lost of the
/// results themselves.
pub(crate) fn lost_beside_results(item: &Item) -> Vec<String> {
    let lost = item.parts.iter().flat_map(|part| match part {
        Part::ToolResult(result) => response::lost(&result.content),
        other => vec![format!("its {} part, beside tool results", other.kind_name())],
    });
    lost.collect()
}

fn write_system<'a>(items: impl Iterator<Item = &'a Sent>, losses: &mut Vec<Loss>) -> Option<String> {
    let mut entries = Vec::new();
    for item in items {
        for part in &item.parts {
            let written = part::write(part, None);
            entries.extend(written.json);
            losses.extend(written.lost.map(|what| Loss { item_id: item.id.clone(), what }));
        }
    }
    (!entries.is_empty()).then(|| format!("{{\"parts\":[{}]}}", entries.join(",")))
}

#[derive(Clone, Copy)]
enum Instructions<'a> {
    Same,
    New(Option<&'a str>),
}

/// The request with other messages; `None` where it has no place for the instructions.
fn written_into(bytes: &[u8], messages: &str, system: Instructions<'_>) -> Option<Vec<u8>> {
    let document = Document::new(bytes, Format::Gemini).ok()?;
    let layout = Layout::of(&document).ok()?;
    let with_messages = match (system, layout.system) {
        (Instructions::Same, _) | (Instructions::New(None), None) => {
            return Some(document.with_replaced(layout.contents, messages));
        }
        (Instructions::New(Some(system)), None) => {
            let is_list =
                document.range_of(layout.contents).start == 0 || bytes.trim_ascii().starts_with(b"[");
            let both = format!("{messages},\"systemInstruction\":{system}");
            return (!is_list).then(|| document.with_replaced(layout.contents, &both));
        }
        (Instructions::New(_), Some(_)) => document.with_replaced(layout.contents, messages),
    };
    let Instructions::New(system) = system else { return None };
    let document = Document::new(&with_messages, Format::Gemini).ok()?;
    let place = Layout::of(&document).ok()?.system?;
    Some(document.with_replaced(place, system.unwrap_or("{\"parts\":[]}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::testing::sent;
    use foldback_core::{EstimatingCounter, ToolInput};
    use std::sync::Arc;

    fn read(body: &str) -> SessionFile {
        SessionFile::read_as(Format::Gemini, body.as_bytes().to_vec()).unwrap()
    }

    fn items(session: &SessionFile) -> Vec<Arc<Item>> {
        session.conversations()[0].recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect()
    }

    #[test]
    fn calls_without_ids_are_answered_by_name_and_order_and_get_ids_that_stay() {
        let session = read(
            r#"{"contents":[{"role":"user","parts":[{"text":"go"}]},
            {"role":"model","parts":[{"function_call":{"name":"a","args":{"n":1.0}}},
             {"functionCall":{"name":"b"}},{"functionCall":{"name":"a","args":{"n":2}}}]},
            {"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"one"}}},
             {"functionResponse":{"name":"b","response":{"error":"no"}}},
             {"functionResponse":{"name":"a","response":{"output":"two"}}},{"text":"and?"}]}]}"#,
        );
        let first = items(&session);
        let calls: Vec<&str> = first[1].calls().map(|(_, call)| &*call.id).collect();
        let results: Vec<&str> = first[2].results().map(|(_, result)| &*result.call_id).collect();
        assert_eq!(calls, results);
        assert_eq!(calls, ["m1-0", "m1-1", "m1-2"]);
        assert_eq!((first[2].kind, first[3].kind), (ItemKind::Tool, ItemKind::User));
        let (written, losses) = Gemini.write(&sent(&first[1..], Some(&session)), Some(&session)).unwrap();
        assert!(losses.is_empty());
        let again = items(&read(std::str::from_utf8(&written).unwrap()));
        assert!(again.iter().zip(&first[1..]).all(|(again, first)| again.parts == first.parts));
    }

    #[test]
    fn a_snapshot_is_a_summary_whose_history_is_absent() {
        let session = read(
            r#"[{"role":"user","parts":[{"text":"<session_context>\nlinux\n</session_context>"}]},
            {"role":"user","parts":[{"text":"<state_snapshot>\n<goal>x</goal>\n</state_snapshot>"}]},
            {"role":"model","parts":[{"text":"Got it."}]}]"#,
        );
        let conversation = &session.conversations()[0];
        let kinds: Vec<ItemKind> = items(&session).iter().map(|item| item.kind).collect();
        assert_eq!(kinds, [ItemKind::Context, ItemKind::Context, ItemKind::Assistant]);
        assert_eq!(conversation.history().count(), 3, "what it stands for is not there");
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), session.dialect());
        assert_eq!(conversation.view_of(&transcript).items().count(), 3);
    }

    #[test]
    fn everything_but_the_conversation_stays_byte_for_byte() {
        let body = "{ \"tools\": [ {\"x\": 1.00} ],\n \"system_instruction\": {\"parts\":[{\"text\":\"Be\\u0020brief.\"}]},\n \"contents\": [{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}],\n \"generationConfig\":{\"temperature\":0.50}}\n";
        let session = read(body);
        let system = Arc::clone(&items(&session)[0]);
        let said = Arc::new(Item::user("u", "bye"));
        let (bytes, _) = Gemini
            .write(&sent(&[Arc::clone(&system), Arc::clone(&said)], Some(&session)), Some(&session))
            .unwrap();
        let hi = "[{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}]";
        let bye = "[{\"role\":\"user\",\"parts\":[{\"text\":\"bye\"}]}]";
        assert_eq!(String::from_utf8(bytes).unwrap(), body.replace(hi, bye));
        let other = Arc::new(Item::text("s", ItemKind::System, "Be long."));
        let (bytes, _) = Gemini.write(&sent(&[other, said], Some(&session)), Some(&session)).unwrap();
        let body = body.replace(hi, bye).replace("Be\\u0020brief.", "Be long.");
        assert_eq!(String::from_utf8(bytes).unwrap(), body);
    }

    #[test]
    fn what_cannot_be_read_is_reported_on_its_line_and_the_rest_is_read() {
        let session = read(
            "{\"contents\":[\n{\"role\":\"user\",\"parts\":[{\"text\":\"a\"}]},\n{\"role\":\"user\",\n\"parts\":[{\"text\":7}]},\n{\"parts\":null}]}",
        );
        assert_eq!(session.problems().iter().map(|problem| problem.line).collect::<Vec<_>>(), [4]);
        assert_eq!(session.conversations()[0].len(), 2);
        let broken = SessionFile::read_as(Format::Gemini, b"{\"contents\":\n7}".to_vec()).unwrap_err();
        assert_eq!(broken.problem().map(|problem| problem.line), Some(2));
    }

    #[test]
    fn signatures_and_input_that_is_no_json_come_back() {
        let session = read(
            r#"[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[
            {"text":"hm","thought":true,"thoughtSignature":"s1"},{"text":"a","thought_signature":"s2"},
            {"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"s3"},
            {"executableCode":{"language":"PYTHON","code":"1"}}]}]"#,
        );
        let mut recorded = items(&session);
        assert_eq!(recorded[1].parts.len(), 5);
        let mut text_input = Item::clone(&recorded[1]);
        if let Some(Part::ToolCall(call)) = text_input.parts.get_mut(3) {
            call.input = ToolInput::Text("*** Begin".into());
        }
        recorded[1] = Arc::new(text_input);
        let (bytes, losses) = Gemini.write(&sent(&recorded, None), None).unwrap();
        assert!(losses.is_empty());
        let again = items(&read(std::str::from_utf8(&bytes).unwrap()));
        assert_eq!(again[1].parts, recorded[1].parts);
    }
}
