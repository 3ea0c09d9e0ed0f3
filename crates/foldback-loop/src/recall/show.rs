//! What was folded, as text for a model.

use std::fmt::Write;

use foldback_core::reading::text_of;
use foldback_core::{Item, Part, Recalled, ResultPart};

/// Everything behind a handle.
pub(super) fn recalled(recalled: &Recalled) -> String {
    match recalled {
        Recalled::Part(part) => text(part),
        Recalled::Items(items) => items.iter().map(|item| shown(item)).collect::<Vec<_>>().join("\n"),
    }
}

fn shown(item: &Item) -> String {
    let mut shown = format!("[{}]", item.kind);
    for part in &item.parts {
        let _ = write!(shown, "\n{}", text(part));
    }
    shown
}

/// One part. Thinking is as it was, because what follows may build on it.
pub(super) fn text(part: &Part) -> String {
    match part {
        Part::Text(_) | Part::Structured(_) => text_of(part).into_owned(),
        Part::Reasoning(reasoning) => format!("(thinking) {}", reasoning.text),
        Part::ToolCall(call) => format!("(calls {}) {}", call.name, call.input.as_str()),
        Part::ToolResult(result) => {
            let label = if result.is_error { "(failed)" } else { "(result)" };
            let content: Vec<String> = result.content.iter().map(piece).collect();
            format!("{label} {}", content.join("\n"))
        }
        Part::Media(media) => format!("({})", media.media_type),
        Part::File(file) => format!("({}) {}", file.label(), text_of(part)),
        Part::Opaque(opaque) => format!("({})", opaque.source),
    }
}

fn piece(piece: &ResultPart) -> String {
    match piece {
        ResultPart::Text(text) => text.to_string(),
        ResultPart::Structured(json) => json.as_str().to_owned(),
        ResultPart::Media(media) => format!("({})", media.media_type),
        ResultPart::File(file) => format!("({})", file.label()),
        ResultPart::Opaque(opaque) => format!("({})", opaque.source),
    }
}
