//! Items as a reader sees them: one heading for each, then everything it says.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::reading::fields;
use foldback_core::{Blob, File, Item, ItemKind, Media, Part, ResultPart, ToolCall, ToolResult};

use super::seal::Seal;

/// What is told of the model's thinking: what came of it stands in what it said and did.
const REASONING_CHARACTERS_MAX: usize = 600;

/// The heading over what stands in a user's message and the user did not write.
const INSERTED: &str = "put in by the agent's program, not said by the user";

/// All items in order, each under a heading that the seal makes ours: what a tool returned cannot
/// pass for something that the person said.
pub(super) fn items(items: &[Arc<Item>], seal: &Seal) -> String {
    let mut rendering = Rendering { out: String::new(), seal };
    // Results are told with the name of the tool; where ids repeat, the newest call is meant.
    let mut called: HashMap<&str, &str> = HashMap::new();
    for item in items {
        for (_, call) in item.calls() {
            called.insert(&call.id, &call.name);
        }
        // Results have headings of their own.
        if item.kind != ItemKind::Tool && !item.parts.is_empty() {
            match &item.summary {
                Some(origin) => rendering.heading(&format!("summary of {} items", origin.item_count)),
                None => rendering.heading(item.kind.as_str()),
            }
        }
        for (part_index, part) in item.parts.iter().enumerate() {
            match (part, item.kind) {
                (Part::Text(text), ItemKind::User) => rendering.said(text, &item.typed_spans(part_index)),
                _ => rendering.part(part, &called),
            }
        }
    }
    rendering.out.trim().to_owned()
}

struct Rendering<'s> {
    out: String,
    seal: &'s Seal,
}

impl Rendering<'_> {
    fn heading(&mut self, what: &str) {
        self.out.push_str("\n[");
        self.out.push_str(&self.seal.kept_out_of(what));
        self.out.push_str(&self.seal.heading_end);
        self.out.push('\n');
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.out.push_str(&self.seal.kept_out_of(text));
            self.out.push('\n');
        }
    }

    /// What a user typed, and under a heading of its own what a host put beside it.
    fn said(&mut self, text: &str, typed: &[Range<usize>]) {
        let mut end = 0;
        for span in typed.iter().cloned().chain(std::iter::once(text.len()..text.len())) {
            let inserted = text[end..span.start].trim();
            if !inserted.is_empty() {
                self.heading(INSERTED);
                self.text(inserted);
            }
            let said = &text[span.clone()];
            if !inserted.is_empty() && !said.trim().is_empty() {
                self.heading(ItemKind::User.as_str());
            }
            self.text(said);
            end = span.end;
        }
    }

    fn part(&mut self, part: &Part, called: &HashMap<&str, &str>) {
        match part {
            Part::Text(text) => self.text(text),
            Part::Reasoning(reasoning) => self.reasoning(reasoning.text.trim()),
            Part::ToolCall(call) => self.call(call),
            Part::ToolResult(answer) => self.result(answer, called),
            Part::Media(media) => self.media(media),
            Part::File(file) => self.file(file),
            Part::Structured(json) => self.text(json.as_str()),
            Part::Opaque(opaque) => self.text(&format!("({} left out)", opaque.source)),
        }
    }

    fn reasoning(&mut self, text: &str) {
        match text.char_indices().nth(REASONING_CHARACTERS_MAX) {
            Some((end, _)) => self.text(&format!("(thinking) {}…", &text[..end])),
            None if text.is_empty() => {}
            None => self.text(&format!("(thinking) {text}")),
        }
    }

    /// What a tool is given, decoded: escaped JSON costs tokens and hides line breaks.
    fn call(&mut self, call: &ToolCall) {
        self.heading(&format!("calls {}", call.name));
        for field in fields(call) {
            match field.key.is_empty() {
                true => self.text(&field.value),
                false => self.text(&format!("{}: {}", field.key, field.value)),
            }
        }
    }

    fn result(&mut self, answer: &ToolResult, called: &HashMap<&str, &str>) {
        let name = called.get(&*answer.call_id).copied().unwrap_or("a tool");
        let failed = if answer.is_error { ", which failed" } else { "" };
        self.heading(&format!("result of {name}{failed}"));
        for piece in &answer.content {
            match piece {
                ResultPart::Text(text) => self.text(text),
                ResultPart::Structured(json) => self.text(json.as_str()),
                ResultPart::Media(media) => self.media(media),
                ResultPart::File(file) => self.file(file),
                ResultPart::Opaque(opaque) => self.text(&format!("({} left out)", opaque.source)),
            }
        }
    }

    fn media(&mut self, media: &Media) {
        let pixels = media.dimensions().map(|(width, height)| format!(" of {width} × {height} pixels"));
        self.text(&format!("({}{} left out)", media.media_type, pixels.unwrap_or_default()));
    }

    fn file(&mut self, file: &File) {
        match &file.data {
            Blob::Text(text) => {
                self.text(&format!("(file {})", file.label()));
                self.text(text);
            }
            Blob::Base64(_) | Blob::Url(_) => self.text(&format!("(file {} left out)", file.label())),
        }
    }
}
