//! Parts with their texts cut to a head and a tail.

use crate::handle::Handle;
use crate::ids::Tokens;
use crate::part::{Part, ResultPart, ToolResult};
use crate::placeholder::{HeadPercent, is_placeholder, shorten_counted};
use crate::tokens::Meter;

/// The part with each of its texts at most `tokens_max` long. `None` where nothing can be cut out of it.
pub(super) fn shortened(
    part: &Part,
    tokens: Tokens,
    tokens_max: Tokens,
    handle: &Handle,
    meter: &Meter,
) -> Option<Part> {
    let shorten = |text: &str, tokens: Tokens| match is_placeholder(text) {
        true => None,
        false => shorten_counted(text, tokens, tokens_max, HeadPercent::HALF, handle, meter),
    };
    match part {
        Part::Text(text) => Some(Part::text(shorten(text, tokens)?)),
        Part::ToolResult(result) => {
            let longest = longest_text(result);
            let shorter = |(index, part): (usize, &ResultPart)| match part {
                ResultPart::Text(text) => {
                    // A long text is not counted again: it costs what the rest does not.
                    let tokens = match longest == Some(index) {
                        true => tokens.saturating_sub(tokens_without(result, index, meter)),
                        false => Tokens(meter.text(text)),
                    };
                    shorten(text, tokens).map(|text| ResultPart::Text(text.into()))
                }
                ResultPart::Media(_)
                | ResultPart::File(_)
                | ResultPart::Structured(_)
                | ResultPart::Opaque(_) => None,
            };
            let content: Vec<Option<ResultPart>> = result.content.iter().enumerate().map(shorter).collect();
            // What nothing can be cut out of stays.
            content.iter().any(Option::is_some).then(|| {
                let parts = content.into_iter().zip(&result.content);
                let content = parts.map(|(shorter, part)| shorter.unwrap_or_else(|| part.clone())).collect();
                Part::ToolResult(ToolResult { content, ..result.clone() })
            })
        }
        Part::Reasoning(_)
        | Part::ToolCall(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => None,
    }
}

fn longest_text(result: &ToolResult) -> Option<usize> {
    let texts = result.content.iter().enumerate();
    let texts = texts.filter_map(|(index, part)| Some((part.as_text()?.len(), index)));
    texts.max().map(|(_, index)| index)
}

/// What a result costs without one part of its content.
fn tokens_without(result: &ToolResult, index: usize, meter: &Meter) -> Tokens {
    let others = result.content.iter().enumerate().filter(|&(other, _)| other != index);
    let content = others.map(|(_, part)| part.clone()).collect();
    Tokens(u64::from(meter.part(&Part::ToolResult(ToolResult { content, ..result.clone() }))))
}
