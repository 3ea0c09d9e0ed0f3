//! Any conversation, however broken: `check` and `repair` never panic, nothing is left to repair
//! afterwards, and what was valid stays as it was.
//!
//! Bytes are decoded into items by hand, a few bits each, with so few ids that calls and results
//! meet, repeat and miss each other.
#![no_main]

use std::sync::Arc;

use foldback_core::dialect::{check, repair};
use foldback_core::{
    Blob, Dialect, File, Item, ItemKind, Json, Media, Opaque, Part, Reasoning, ResultPart, Text, ToolCall,
    ToolInput, ToolResult,
};
use libfuzzer_sys::fuzz_target;

const ITEM_COUNT_MAX: usize = 48;
const PART_COUNT_MAX: usize = 4;
const CALL_IDS: [&str; 4] = ["c1", "c2", "c3", ""];
const TEXTS: [&str; 4] = ["hello", "", " \n", "{}"];

fuzz_target!(|bytes: &[u8]| {
    let items = Decoder(bytes).items();
    for dialect in [None].into_iter().chain(Dialect::ALL.map(Some)) {
        let violations = check(&items, dialect);
        let repaired = repair(&items, dialect);
        let left = check(&repaired.items, dialect);
        assert!(left.is_empty(), "{dialect:?} left {left:?}\nof {violations:?}\nin {items:?}");
        if violations.is_empty() {
            assert_eq!(repaired.items, items, "{dialect:?} changed a valid conversation");
        }
    }
});

/// Reads choices off the front of the bytes; where they end, everything is the first choice.
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn below(&mut self, count: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % count
    }

    fn one_of(&mut self, texts: &[&str]) -> Text {
        texts[self.below(texts.len())].into()
    }

    fn optional(&mut self) -> Option<Text> {
        [None, Some("s1".into()), Some("".into())][self.below(3)].clone()
    }

    fn items(&mut self) -> Vec<Arc<Item>> {
        let mut items = Vec::new();
        while !self.0.is_empty() && items.len() < ITEM_COUNT_MAX {
            let item = self.item(items.len());
            items.push(Arc::new(item));
        }
        items
    }

    fn item(&mut self, item_index: usize) -> Item {
        let kind = ItemKind::ALL[self.below(ItemKind::ALL.len())];
        let part_count = self.below(PART_COUNT_MAX + 1);
        let parts = (0..part_count).map(|_| self.part()).collect();
        let mut item = Item::new(format!("i{item_index}"), kind, parts);
        match self.below(4) {
            1 => item.cache_marker = true,
            2 => item = item.pinned(),
            _ => {}
        }
        item
    }

    fn part(&mut self) -> Part {
        match self.below(10) {
            0 => Part::Text(self.one_of(&TEXTS)),
            1 => Part::Reasoning(Reasoning {
                text: self.one_of(&TEXTS),
                id: self.optional(),
                signature: self.optional(),
                encrypted: self.optional(),
            }),
            2 | 3 => Part::ToolCall(self.call()),
            4 | 5 => Part::ToolResult(self.result()),
            6 => Part::Media(self.media()),
            7 => Part::Opaque(self.opaque()),
            8 => Part::File(self.file()),
            _ => Part::Structured(an_object()),
        }
    }

    fn call(&mut self) -> ToolCall {
        let id = self.one_of(&CALL_IDS);
        let text = self.one_of(&TEXTS);
        let input = match Json::parse(text.as_str()) {
            Ok(json) => ToolInput::Json(json),
            Err(_) => ToolInput::Text(text),
        };
        let name = self.one_of(&["read", "write", ""]);
        ToolCall { id: id.as_str().into(), name, input, signature: self.optional() }
    }

    fn result(&mut self) -> ToolResult {
        let call_id = self.one_of(&CALL_IDS);
        let content = (0..self.below(3)).map(|_| self.result_part()).collect();
        ToolResult { call_id: call_id.as_str().into(), content, is_error: self.below(2) == 1 }
    }

    fn result_part(&mut self) -> ResultPart {
        match self.below(6) {
            0 | 1 => ResultPart::Text(self.one_of(&TEXTS)),
            2 => ResultPart::Media(self.media()),
            3 => ResultPart::Opaque(self.opaque()),
            4 => ResultPart::File(self.file()),
            _ => ResultPart::Structured(an_object()),
        }
    }

    fn media(&mut self) -> Media {
        let media_type = self.one_of(&["image/png", "audio/wav", "video/mp4", ""]);
        let pixels = [None, Some((640, 480)), Some((u32::MAX, 0))][self.below(3)];
        Media { media_type, data: self.blob(), pixels }
    }

    fn file(&mut self) -> File {
        let media_type = self.one_of(&["application/pdf", "text/plain", ""]);
        File { name: self.optional(), media_type, data: self.blob() }
    }

    fn blob(&mut self) -> Blob {
        match self.below(3) {
            0 => Blob::Base64(self.one_of(&["iVBORw0KGgo=", "", "!"])),
            1 => Blob::Url(self.one_of(&["https://example.com/a.png", ""])),
            _ => Blob::Text(self.one_of(&TEXTS)),
        }
    }

    fn opaque(&mut self) -> Opaque {
        let source = self.one_of(&["anthropic:server_tool_use", "openai-responses:web_search_call", ""]);
        Opaque { source, json: an_object() }
    }
}

fn an_object() -> Json {
    Json::parse(r#"{"type":"other"}"#).expect("the literal is JSON")
}
