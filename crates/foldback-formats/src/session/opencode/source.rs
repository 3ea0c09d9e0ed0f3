//! What an export has, for messages that are added to it; and which items make one message.

use std::collections::HashMap;

use foldback_core::{Item, ItemKind, ToolCall, ToolResult};
use serde_json::value::RawValue;

use super::part::{Said, of_assistant, of_user, record};
use super::{Export, Items, Message, Time, lenient};
use crate::conversation::Sent;
use crate::document::Document;
use crate::fields::Fields;

/// What an export has, for messages that are added to it.
#[derive(Default)]
pub(super) struct Source<'a> {
    pub(super) messages: Vec<Original<'a>>,
    /// The message that an item was read from, by the item's id.
    by_item: HashMap<String, usize>,
    last_user: Option<usize>,
    last_assistant: Option<usize>,
    pub(super) session_id: String,
    pub(super) last_time: i64,
    pub(super) id_counter: u64,
}

/// A message of the export, and what its parts were read as.
pub(super) struct Original<'a> {
    pub(super) info: Fields<'a>,
    parts: Vec<&'a RawValue>,
    asked: Vec<Option<Item>>,
    said: Vec<Said>,
}

impl<'a> Original<'a> {
    fn new(message: Message<'a>, info: Fields<'a>) -> Self {
        let is_said = message.info.role == "assistant";
        let (said_parts, asked_parts) = match is_said {
            true => (&message.parts[..], &[][..]),
            false => (&[][..], &message.parts[..]),
        };
        let asked = asked_parts.iter().map(|piece| of_user(piece)).collect();
        let said = said_parts.iter().map(|piece| of_assistant(piece)).collect();
        Self { info, parts: message.parts, asked, said }
    }

    /// The part of what was asked that passes the test.
    pub(super) fn asked(&self, test: impl Fn(&Item) -> bool) -> Option<&'a RawValue> {
        let index = self.asked.iter().position(|item| item.as_ref().is_some_and(&test))?;
        self.parts.get(index).copied()
    }

    /// The part of an answer that passes the test.
    pub(super) fn said(&self, test: impl Fn(&Said) -> bool) -> Option<&'a RawValue> {
        self.parts.get(self.said.iter().position(test)?).copied()
    }
}

impl<'a> Source<'a> {
    pub(super) fn of(document: &Document<'a>, export: &Export<'a>) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            info: &'a RawValue,
        }
        let mut source = Self::default();
        let info: serde_json::Value = lenient(export.info).unwrap_or_default();
        source.session_id = info["id"].as_str().unwrap_or_default().to_owned();
        let pieces: Vec<&'a RawValue> = document.parse_piece(export.messages).ok()?;
        for piece in pieces {
            let Ok(message) = document.read_piece::<Message<'a>>(piece) else { continue };
            let Ok(raw) = document.read_piece::<Raw<'a>>(piece) else { continue };
            let index = source.messages.len();
            for item in Items::of(&message).items {
                source.by_item.insert(item.id.to_string(), index);
            }
            match (&*message.info.role, message.info.is_summary()) {
                ("user", _) => source.last_user = Some(index),
                ("assistant", false) => source.last_assistant = Some(index),
                _ => {}
            }
            let time: Time = lenient(message.info.time).unwrap_or_default();
            source.last_time =
                source.last_time.max(time.created.unwrap_or(0)).max(time.completed.unwrap_or(0));
            source.see_id(&message.info.id);
            for part in message.parts.iter().filter_map(|piece| record(piece)) {
                source.see_id(&part.id);
            }
            source.messages.push(Original::new(message, Fields::of(raw.info)?));
        }
        Some(source)
    }

    fn see_id(&mut self, id: &str) {
        let digits = id.split_once('_').and_then(|(_, rest)| rest.get(..12));
        let counter = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        self.id_counter = self.id_counter.max(counter.unwrap_or(0));
    }

    /// The message that an item was read from, whatever became of the item since.
    pub(super) fn original_of(&self, item: &Item) -> Option<&Original<'a>> {
        self.by_item.get(&*item.id).and_then(|&index| self.messages.get(index))
    }

    pub(super) fn last_user(&self) -> Option<&Fields<'a>> {
        self.last_user.and_then(|index| self.messages.get(index)).map(|original| &original.info)
    }

    pub(super) fn last_assistant(&self) -> Option<&Fields<'a>> {
        self.last_assistant.and_then(|index| self.messages.get(index)).map(|original| &original.info)
    }
}

/// Items that become one message.
pub(super) struct Group<'a> {
    pub(super) first: &'a Sent,
    /// Results that follow an assistant item.
    results: Vec<&'a Sent>,
}

pub(super) fn groups(items: &[Sent]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for item in items.iter().filter(|item| !item.parts.is_empty()) {
        match groups.last_mut() {
            Some(group) if item.kind == ItemKind::Tool && group.first.kind == ItemKind::Assistant => {
                group.results.push(item);
            }
            _ => groups.push(Group { first: item, results: Vec::new() }),
        }
    }
    groups
}

impl Group<'_> {
    pub(super) fn items(&self) -> impl Iterator<Item = &Sent> {
        std::iter::once(self.first).chain(self.results.iter().copied())
    }

    pub(super) fn result_of(&self, call: &ToolCall) -> Option<&ToolResult> {
        let results = self.items().flat_map(|item| item.results());
        results.map(|(_, result)| result).find(|result| result.call_id == call.id)
    }
}
