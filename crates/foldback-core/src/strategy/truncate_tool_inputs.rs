//! Shortens large tool inputs, such as whole files that were written.

use serde::{Deserialize, Serialize};

use super::Strategy;
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::part::{Part, ToolCall};
use crate::placeholder::{is_hidden_input, shorten_input};

const ID: &str = "truncate-tool-inputs";

/// Shortens tool inputs over a number of tokens. Long strings inside JSON are cut first, so that
/// the input keeps its shape. The unit in flight is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TruncateToolInputsStrategy {
    tokens_max: Tokens,
}

impl Default for TruncateToolInputsStrategy {
    fn default() -> Self {
        Self { tokens_max: Tokens(500) }
    }
}

impl TruncateToolInputsStrategy {
    /// Shortens inputs of more than this many tokens.
    pub fn new(tokens_max: Tokens) -> Self {
        Self { tokens_max }
    }
}

impl Strategy for TruncateToolInputsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        for (position, entry) in draft.view().iter().enumerate() {
            if entry.holds().contains(Holds::CALL) && entry.tokens().total > self.tokens_max {
                shorten_inputs(draft, position, self.tokens_max, ID);
            }
        }
    }

    fn describe(&self) -> String {
        format!("{ID}({})", self.tokens_max)
    }
}

/// Shortens every input at `position` that costs more than `tokens_max`.
pub(super) fn shorten_inputs(
    draft: &mut Draft<'_>,
    position: usize,
    tokens_max: Tokens,
    strategy: &'static str,
) {
    let shorten = |(part_index, part): (usize, &Part)| match part {
        Part::ToolCall(call) if !is_hidden_input(&call.input) => {
            let handle = draft.part_handle(position, part_index);
            let input = shorten_input(&call.input, tokens_max, &handle, draft.meter())?;
            Some((part_index, Part::ToolCall(ToolCall { input, ..call.clone() })))
        }
        _ => None,
    };
    let shortened: Vec<_> = draft.parts(position).filter_map(shorten).collect();
    for (part_index, part) in shortened {
        draft.rewrite(position, part_index, part, Reason::new(strategy, "a large tool input"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::part::ToolResult;
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    #[test]
    fn a_written_file_is_cut_and_its_path_stays() {
        let input = json!({"path": "src/parser.rs", "content": "fn parse() {}\n".repeat(2_000)});
        let transcript: Transcript = [
            Item::user("u", "write it"),
            Item::assistant("a", vec![Part::call("c", "write", &input)]),
            Item::tool("t", ToolResult::text("c", "ok")),
            Item::assistant("end", vec![Part::text("written")]),
        ]
        .into_iter()
        .collect();
        let compacted =
            plan(&View::of(&transcript), &TruncateToolInputsStrategy::default(), None).unwrap().apply_floor();
        let item = compacted.view.get(1).unwrap().item();
        let (_, call) = item.calls().next().unwrap();
        assert!(call.input.as_str().contains("src/parser.rs"));
        assert!(compacted.view.tokens() < Tokens(600), "{}", compacted.view.tokens());
    }
}
