//! Messages for opencode: a compaction after which the model sees given items, and whole exports.
//!
//! Every message is read again before it is written. Where opencode's form does not give back the
//! same items, a fresh export reports what is lost; a compaction has foldback's note beside it.

use foldback_core::{
    Blob, FinishReason, Item, ItemKind, Media, Part, Reasoning, ResultPart, Text, ToolCall, ToolInput,
    ToolResult,
};
use serde_json::value::RawValue;

use super::part::{Said, record};
use super::source::{Group, Original, Source, groups};
use super::{Export, Items, Message};
use crate::conversation::{Extension, Sent};
use crate::document::Document;
use crate::fields::{Fields, Object, array, quoted};
use crate::format::{Committed, Format, Loss, SessionFile};
use crate::lowering::{Tag, merged_rounds};
use crate::new_ids::NewIds;

/// Nothing used: what copies cost was counted where they stood first, and opencode compacts again
/// at once where the last answer says that the context was full.
const NO_TOKENS: &str = r#"{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}"#;

/// The part of an id that grows.
const ID_COUNTER_BITS: u32 = 48;

struct Writer<'a> {
    source: &'a Source<'a>,
    new_ids: NewIds,
    id_counter: u64,
    session_id: String,
    time: i64,
    /// The user message that the next answers belong to.
    parent_id: String,
    messages: Vec<String>,
    copies: Vec<(Text, usize)>,
    losses: Vec<Loss>,
}

pub(super) fn append(session: &SessionFile, committed: &Committed<'_>) -> Option<Vec<u8>> {
    let items = &committed.sent[..];
    let document = Document::new(session.bytes(), Format::Opencode).ok()?;
    let export: Export<'_> = document.parse().ok()?;
    let source = Source::of(&document, &export)?;
    let mut writer = Writer::new(&source, session.new_ids(), source.session_id.clone());
    let (summary, copied) = match items.split_first() {
        Some((first, rest)) if first.summary.is_some() => (Some(first), rest),
        _ => (None, items),
    };
    let marker_id = writer.new_id("msg");
    writer.parent_id = marker_id.clone();
    let (marker_part, note_part) = (writer.new_id("prt"), writer.new_id("prt"));
    let summary_message = writer.summary(summary.map(|summary| &***summary));
    groups(copied).iter().for_each(|group| writer.group(group));
    let own = Extension::new(&committed.note, std::mem::take(&mut writer.copies));
    let marker = writer.marker(&marker_id, &marker_part, &note_part, &own);
    let added: Vec<String> = [marker, summary_message].into_iter().chain(writer.messages).collect();
    Some(document.with_elements(export.messages, &added))
}

pub(super) fn fresh(items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
    let seed: String = items.iter().map(|item| format!("{} {}\n", item.kind, item.id)).collect();
    let mut new_ids = NewIds::for_file(seed.as_bytes());
    // Other formats may record each call of a round apart; here a message holds them with results.
    let items = &Sent::new(merged_rounds(items));
    let Some(like) = like else {
        let source = Source::default();
        let session_id = format!("ses_{}", new_ids.hex(26));
        let mut writer = Writer::new(&source, new_ids, session_id);
        groups(items).iter().for_each(|group| writer.group(group));
        let body = writer.export(items);
        return Some((body.into_bytes(), writer.losses));
    };
    let document = Document::new(like.bytes(), Format::Opencode).ok()?;
    let export: Export<'_> = document.parse().ok()?;
    let source = Source::of(&document, &export)?;
    let mut writer = Writer::new(&source, new_ids, source.session_id.clone());
    groups(items).iter().for_each(|group| writer.group(group));
    Some((document.with_replaced(export.messages, &array(writer.messages)), writer.losses))
}

impl<'a> Writer<'a> {
    fn new(source: &'a Source<'a>, new_ids: NewIds, session_id: String) -> Self {
        let (id_counter, time) = (source.id_counter, source.last_time);
        let (messages, copies, losses) = (Vec::new(), Vec::new(), Vec::new());
        let parent_id = String::new();
        Self { source, new_ids, id_counter, session_id, time, parent_id, messages, copies, losses }
    }

    /// Ids grow, and opencode sorts by them: a new one follows all that the file has.
    fn new_id(&mut self, prefix: &str) -> String {
        self.id_counter = (self.id_counter + 1) & ((1 << ID_COUNTER_BITS) - 1);
        format!("{prefix}_{:012x}{}", self.id_counter, self.new_ids.hex(14))
    }

    fn export(&self, items: &[Sent]) -> String {
        let created = items.iter().find_map(|item| item.created_at).map_or(0, |time| time.0);
        let mut info = Object::new();
        info.text("id", &self.session_id).text("projectID", "global").text("directory", "");
        info.text("title", "Written by foldback").text("version", "1.0.0");
        info.json("time", &format!("{{\"created\":{created},\"updated\":{}}}", self.time.max(created)));
        let mut export = Object::new();
        export.json("info", &info.finish()).json("messages", &array(self.messages.iter().cloned()));
        export.finish()
    }

    /// A part that is written anew.
    fn part(&mut self, kind: &str, message_id: &str) -> Object {
        let id = self.new_id("prt");
        self.part_named(kind, &id, message_id)
    }

    fn part_named(&self, kind: &str, id: &str, message_id: &str) -> Object {
        let mut part = Object::typed(kind);
        part.text("id", id).text("sessionID", &self.session_id).text("messageID", message_id);
        part
    }

    fn user_info(&self, id: &str) -> String {
        let like = self.source.last_user();
        let or = |name: &str, otherwise: &str| {
            like.and_then(|like| like.get(name)).map_or(otherwise, RawValue::get).to_owned()
        };
        let mut info = Object::new();
        info.text("role", "user").json("time", &format!("{{\"created\":{}}}", self.time));
        info.json("agent", &or("agent", "\"build\""));
        info.json("model", &or("model", r#"{"providerID":"","modelID":""}"#));
        info.text("id", id).text("sessionID", &self.session_id);
        info.finish()
    }

    /// As the model that answered then, or else the last one.
    fn assistant_info(&self, id: &str, original: Option<&Original<'_>>, finish: &str) -> Object {
        let like = original.map(|original| &original.info).or_else(|| self.source.last_assistant());
        let or = |name: &str, otherwise: &str| {
            like.and_then(|like| like.get(name)).map_or(otherwise, RawValue::get).to_owned()
        };
        let mut info = Object::new();
        info.text("role", "assistant").text("parentID", &self.parent_id);
        for (name, otherwise) in [
            ("mode", "\"build\""),
            ("agent", "\"build\""),
            ("path", r#"{"cwd":"","root":""}"#),
            ("modelID", "\"\""),
            ("providerID", "\"\""),
        ] {
            info.json(name, &or(name, otherwise));
        }
        info.json("cost", "0").json("tokens", NO_TOKENS);
        info.json("time", &format!("{{\"created\":{0},\"completed\":{0}}}", self.time));
        info.text("finish", finish).text("id", id).text("sessionID", &self.session_id);
        info
    }

    fn summary(&mut self, summary: Option<&Item>) -> String {
        let id = self.new_id("msg");
        let mut parts = Vec::new();
        for part in summary.into_iter().flat_map(|item| &item.parts) {
            if let Part::Text(text) = part {
                let mut part = self.part("text", &id);
                part.text("text", text);
                parts.push(part.finish());
            }
        }
        let mut info = self.assistant_info(&id, None, "stop");
        info.json("summary", "true");
        message(&info.finish(), parts)
    }

    /// The user message that asks for the compaction, and holds foldback's note on it.
    fn marker(&self, id: &str, marker_part: &str, note_part: &str, own: &Extension) -> String {
        let mut marker = self.part_named("compaction", marker_part, id);
        marker.json("auto", "false");
        let mut text = self.part_named("text", note_part, id);
        text.text("text", "").json("synthetic", "true").json("ignored", "true");
        text.json("metadata", &format!("{{\"foldback\":{}}}", own.json()));
        message(&self.user_info(id), vec![marker.finish(), text.finish()])
    }

    fn group(&mut self, group: &Group<'_>) {
        self.time = match self.source.messages.is_empty() {
            true => group.first.created_at.map_or(self.time, |time| time.0),
            false => self.time,
        };
        let id = self.new_id("msg");
        let original = self.source.original_of(group.first);
        let text = match group.first.kind {
            ItemKind::Assistant | ItemKind::Tool => self.answer(&id, group, original),
            ItemKind::User
            | ItemKind::Context
            | ItemKind::Notification
            | ItemKind::System
            | ItemKind::Developer => {
                let parts = self.user_parts(&id, group.first, original);
                self.parent_id = id.clone();
                message(&self.user_info(&id), parts)
            }
        };
        let is_told = reads_as(&text, group);
        if !is_told {
            let what = "some of its parts have no form in opencode".to_owned();
            self.losses.push(Loss { item_id: group.first.id.clone(), what });
        }
        self.copies.extend(group.items().map(|item| (id.as_str().into(), item.position)));
        self.messages.push(text);
    }

    /// A part of the original message with other ids.
    fn copied(&mut self, id: &str, piece: Option<&RawValue>) -> Option<String> {
        let fields = Fields::of(piece?)?;
        let part_id = quoted(&self.new_id("prt"));
        let session_id = quoted(&self.session_id);
        let changes = [("id", &*part_id), ("messageID", &quoted(id)), ("sessionID", &session_id)];
        Some(fields.with(&changes).finish())
    }

    fn user_parts(&mut self, id: &str, item: &Item, original: Option<&Original<'_>>) -> Vec<String> {
        let mut parts = Vec::new();
        for part in &item.parts {
            let is_same = |read: &Item| read.kind == item.kind && read.parts.iter().eq([part]);
            let piece = original.and_then(|original| original.asked(is_same));
            if let Some(copy) = self.copied(id, piece) {
                parts.push(copy);
                continue;
            }
            let text = match part {
                Part::Text(text) => text.to_string(),
                Part::Structured(json) => json.as_str().to_owned(),
                Part::Media(Media { media_type, data, .. }) => {
                    parts.push(self.file(id, media_type, None, data));
                    continue;
                }
                Part::File(file) => {
                    parts.push(self.file(id, &file.media_type, file.name.as_deref(), &file.data));
                    continue;
                }
                Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Opaque(_) => continue,
            };
            let mut written = self.part("text", id);
            match Tag::of(item) {
                Some(Tag::Context) => written.text("text", &text).json("synthetic", "true"),
                Some(tag) => written.text("text", &tag.around(&text)).json("synthetic", "true"),
                None if item.kind == ItemKind::User => written.text("text", &text),
                None => written.text("text", &text).json("synthetic", "true"),
            };
            parts.push(written.finish());
        }
        parts
    }

    fn file(&mut self, id: &str, media_type: &str, name: Option<&str>, data: &Blob) -> String {
        let mut part = self.part("file", id);
        part.text("mime", media_type);
        if let Some(name) = name {
            part.text("filename", name);
        }
        part.text("url", &address(media_type, data));
        part.finish()
    }

    /// A step: what was said and called, each call with what came of it.
    fn answer(&mut self, id: &str, group: &Group<'_>, original: Option<&Original<'_>>) -> String {
        let start = self.part("step-start", id);
        let mut parts = vec![start.finish()];
        for part in &group.first.parts {
            match part {
                Part::ToolCall(call) => parts.push(self.tool(id, call, group.result_of(call), original)),
                Part::ToolResult(result) => {
                    let input = ToolInput::Json(foldback_core::Json::from_value(&serde_json::json!({})));
                    let call = ToolCall {
                        id: result.call_id.clone(),
                        name: "unknown".into(),
                        input,
                        signature: None,
                    };
                    parts.push(self.tool(id, &call, Some(result), None));
                }
                Part::Text(_) | Part::Reasoning(_) => {
                    let is_same = |said: &Said| matches!(said, Said::Part(read) if read == part);
                    let copy = self.copied(id, original.and_then(|original| original.said(is_same)));
                    parts.push(copy.unwrap_or_else(|| self.said(id, part)));
                }
                Part::Structured(json) => parts.push(self.said(id, &Part::text(json.as_str()))),
                Part::Media(_) | Part::File(_) | Part::Opaque(_) => {}
            }
        }
        let has_calls = group.first.calls().next().is_some();
        let finish = match group.first.finish_reason {
            Some(FinishReason::Length) => "length",
            Some(FinishReason::ContentFilter) => "content-filter",
            _ if has_calls => "tool-calls",
            _ => "stop",
        };
        let mut end = self.part("step-finish", id);
        end.text("reason", finish).json("cost", "0").json("tokens", NO_TOKENS);
        parts.push(end.finish());
        message(&self.assistant_info(id, original, finish).finish(), parts)
    }

    fn said(&mut self, id: &str, part: &Part) -> String {
        let time = format!("{{\"start\":{0},\"end\":{0}}}", self.time);
        let mut written;
        match part {
            Part::Reasoning(reasoning) => {
                written = self.part("reasoning", id);
                written.text("text", &reasoning.text).json("time", &time);
                if reasoning.is_sealed() {
                    written.json("metadata", &provider_notes(reasoning));
                }
            }
            Part::Text(text) => {
                written = self.part("text", id);
                written.text("text", text).json("time", &time);
            }
            _ => written = self.part("snapshot", id),
        }
        written.finish()
    }

    fn tool(
        &mut self,
        id: &str,
        call: &ToolCall,
        result: Option<&ToolResult>,
        original: Option<&Original<'_>>,
    ) -> String {
        let is_call = |said: &Said| matches!(said, Said::Called(read) if read.call == *call);
        let is_same = |said: &Said| match said {
            Said::Called(read) => {
                read.call == *call && read.result.as_ref() == result && read.cleared_at.is_none()
            }
            Said::StepStart | Said::Part(_) | Said::Nothing => false,
        };
        if let Some(copy) = self.copied(id, original.and_then(|original| original.said(is_same))) {
            return copy;
        }
        let state = self.state(id, call, result);
        let mut part = self.part("tool", id);
        part.text("callID", &call.id).text("tool", &call.name).json("state", &state);
        let piece = original.and_then(|original| original.said(is_call));
        if let Some(metadata) = piece.and_then(record).and_then(|part| part.metadata) {
            part.json("metadata", metadata.get());
        } else if let Some(signature) = &call.signature {
            part.json("metadata", &format!("{{\"google\":{{\"thoughtSignature\":{}}}}}", quoted(signature)));
        }
        part.finish()
    }

    fn state(&mut self, id: &str, call: &ToolCall, result: Option<&ToolResult>) -> String {
        let mut state = Object::new();
        let status = match result {
            None => "running",
            Some(result) if result.is_error => "error",
            Some(_) => "completed",
        };
        state.text("status", status);
        match &call.input {
            ToolInput::Json(json) => state.json("input", json.as_str()),
            ToolInput::Text(text) => state.json("input", &format!("{{\"input\":{}}}", quoted(text))),
        };
        let Some(result) = result else {
            state.json("time", &format!("{{\"start\":{}}}", self.time));
            return state.finish();
        };
        let texts: Vec<&str> = result.content.iter().filter_map(ResultPart::as_text).collect();
        let text = texts.join("\n\n");
        match result.is_error {
            true => state.text("error", &text),
            false => state.text("output", &text).text("title", "").json("metadata", "{}"),
        };
        state.json("time", &format!("{{\"start\":{0},\"end\":{0}}}", self.time));
        let mut attachments = Vec::new();
        for part in &result.content {
            match part {
                ResultPart::Media(media) => {
                    attachments.push(self.file(id, &media.media_type, None, &media.data))
                }
                ResultPart::File(file) => {
                    attachments.push(self.file(id, &file.media_type, file.name.as_deref(), &file.data));
                }
                ResultPart::Text(_) | ResultPart::Structured(_) | ResultPart::Opaque(_) => {}
            }
        }
        if !attachments.is_empty() {
            state.json("attachments", &array(attachments));
        }
        state.finish()
    }
}

fn message(info: &str, parts: Vec<String>) -> String {
    let mut message = Object::new();
    message.json("info", info).json("parts", &array(parts));
    message.finish()
}

fn address(media_type: &str, data: &Blob) -> String {
    match data {
        Blob::Base64(data) => format!("data:{media_type};base64,{data}"),
        Blob::Url(address) => address.to_string(),
        Blob::Text(text) => format!("data:{media_type},{text}"),
    }
}

/// Where providers look for what they signed or hid.
fn provider_notes(reasoning: &Reasoning) -> String {
    let mut notes = Object::new();
    if let Some(signature) = &reasoning.signature {
        notes.json("anthropic", &format!("{{\"signature\":{}}}", quoted(signature)));
    }
    if reasoning.id.is_some() || reasoning.encrypted.is_some() {
        let mut openai = Object::new();
        if let Some(id) = &reasoning.id {
            openai.text("itemId", id);
        }
        if let Some(encrypted) = &reasoning.encrypted {
            openai.text("reasoningEncryptedContent", encrypted);
        }
        notes.json("openai", &openai.finish());
    }
    notes.finish()
}

fn reads_as(text: &str, group: &Group<'_>) -> bool {
    let Ok(message) = serde_json::from_str::<Message<'_>>(text) else { return false };
    let read = Items::of(&message).items;
    let read = read.iter().flat_map(|item| item.parts.iter().map(|part| (item.kind, part)));
    let meant = group.items().flat_map(|item| item.parts.iter().map(|part| (item.kind, part)));
    read.eq(meant)
}
