//! Clears old tool results: a one-line placeholder stands in for each.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Strategy, tool_name};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::holds::Holds;
use crate::ids::{Text, Tokens};
use crate::part::{Part, ResultPart, ToolCall, ToolResult};
use crate::placeholder::{hidden_input, is_hidden_input, is_placeholder, placeholder_text};
use crate::secrets::first_line_of;

const ID: &str = "clear-tool-results";

/// Clears all tool results but the newest few, if that frees enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClearToolResultsStrategy {
    keep: usize,
    clear_at_least: Tokens,
    excluded_tools: BTreeSet<Text>,
    inputs: Inputs,
}

/// What becomes of the inputs of cleared calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Inputs {
    #[default]
    Keep,
    Clear,
}

impl Default for ClearToolResultsStrategy {
    fn default() -> Self {
        Self { keep: 3, clear_at_least: Tokens::ZERO, excluded_tools: BTreeSet::new(), inputs: Inputs::Keep }
    }
}

impl ClearToolResultsStrategy {
    /// Keeps the newest `keep` results.
    pub fn new(keep: usize) -> Self {
        Self { keep, ..Self::default() }
    }

    /// Does nothing unless it frees this many tokens: clearing less is not worth a cold cache.
    #[must_use]
    pub fn clear_at_least(mut self, tokens: Tokens) -> Self {
        self.clear_at_least = tokens;
        self
    }

    /// Never clears results of this tool; they do not count as kept ones either.
    #[must_use]
    pub fn exclude_tool(mut self, tool: impl Into<Text>) -> Self {
        self.excluded_tools.insert(tool.into());
        self
    }

    /// Clears the inputs of cleared calls too.
    #[must_use]
    pub fn clear_inputs(mut self) -> Self {
        self.inputs = Inputs::Clear;
        self
    }

    /// The results older than the kept ones, oldest first.
    fn candidates(&self, draft: &Draft<'_>) -> Vec<(usize, usize)> {
        let holding = draft.live_rev().filter(|(_, entry)| entry.holds().contains(Holds::RESULT));
        let results = holding.flat_map(|(position, _)| {
            let mut results: Vec<_> = draft
                .parts(position)
                .filter(
                    |(_, part)| matches!(part, Part::ToolResult(result) if self.applies_to(draft, result)),
                )
                .map(|(part_index, _)| (position, part_index))
                .collect();
            results.reverse();
            results
        });
        let mut older: Vec<_> = results.skip(self.keep).collect();
        older.reverse();
        older
    }

    fn applies_to(&self, draft: &Draft<'_>, result: &ToolResult) -> bool {
        !self.excluded_tools.contains(tool_name(draft, &result.call_id))
    }
}

impl Strategy for ClearToolResultsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let reason = Reason::new(ID, format!("older than the newest {} results", self.keep));
        let mut rewrites: Vec<(usize, usize, Part)> = Vec::new();
        for (position, part_index) in self.candidates(draft) {
            rewrites
                .extend(cleared_result(draft, position, part_index).map(|part| (position, part_index, part)));
            if self.inputs == Inputs::Clear {
                rewrites.extend(cleared_input(draft, position, part_index));
            }
        }
        let freed: u64 = rewrites
            .iter()
            .filter(|&&(position, _, _)| !draft.is_protected(position))
            .map(|(position, part_index, part)| {
                u64::from(draft.part_tokens(*position, *part_index).saturating_sub(draft.meter().part(part)))
            })
            .sum();
        if freed < self.clear_at_least.0 {
            return;
        }
        for (position, part_index, part) in rewrites {
            draft.rewrite(position, part_index, part, reason.clone());
        }
    }

    fn describe(&self) -> String {
        format!("{ID}(keep {})", self.keep)
    }
}

/// A result with nothing but a placeholder in it; none if it has been cleared before.
pub(super) fn cleared_result(draft: &Draft<'_>, position: usize, part_index: usize) -> Option<Part> {
    let (_, part) = draft.parts(position).find(|&(index, _)| index == part_index)?;
    let Part::ToolResult(result) = part else { return None };
    if matches!(result.content.as_slice(), [ResultPart::Text(text)] if is_placeholder(text)) {
        return None;
    }
    let handle = draft.part_handle(position, part_index);
    let tool = tool_name(draft, &result.call_id);
    let tokens = draft.part_tokens(position, part_index);
    let line = placeholder_text(&handle, tool, tokens, &first_line_of(result));
    Some(Part::ToolResult(ToolResult { content: vec![ResultPart::Text(line)], ..result.clone() }))
}

/// The call of a result with its input hidden, and where it stands.
fn cleared_input(draft: &Draft<'_>, position: usize, part_index: usize) -> Option<(usize, usize, Part)> {
    let (caller, call_index) = draft.view().call_answered_by(position, part_index)?;
    let (_, part) = draft.parts(caller).find(|&(index, _)| index == call_index)?;
    let Part::ToolCall(call) = part else { return None };
    if is_hidden_input(&call.input) {
        return None;
    }
    let handle = draft.part_handle(caller, call_index);
    let tokens = Tokens(u64::from(draft.part_tokens(caller, call_index)));
    let input = hidden_input(&call.input, &handle, tokens);
    Some((caller, call_index, Part::ToolCall(ToolCall { input, ..call.clone() })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    fn rounds(count: usize) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("u", "go"));
        for number in 0..count {
            let call = format!("c{number}");
            let tool = if number % 2 == 0 { "read" } else { "todo" };
            let input = json!({"text": "something long ".repeat(40)});
            transcript
                .push(Item::assistant(format!("a{number}"), vec![Part::call(call.clone(), tool, &input)]));
            let output = format!("first line {number}\n{}", "more\n".repeat(200));
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, output)));
        }
        transcript.push(Item::assistant("end", vec![Part::text("done")]));
        transcript
    }

    fn cleared(transcript: &Transcript, strategy: &ClearToolResultsStrategy) -> usize {
        plan(&View::of(transcript), strategy, None).unwrap().edits().len()
    }

    #[test]
    fn all_but_the_newest_are_cleared() {
        let transcript = rounds(10);
        assert_eq!(cleared(&transcript, &ClearToolResultsStrategy::default()), 7);
        assert_eq!(cleared(&transcript, &ClearToolResultsStrategy::new(3).exclude_tool("todo")), 2);
        assert_eq!(cleared(&transcript, &ClearToolResultsStrategy::new(3).clear_inputs()), 14);
    }

    #[test]
    fn nothing_is_cleared_unless_it_frees_enough() {
        let transcript = rounds(10);
        let strategy = ClearToolResultsStrategy::default().clear_at_least(Tokens(1_000_000));
        assert_eq!(cleared(&transcript, &strategy), 0);
    }

    /// The defect of opencode: cleared outputs carry no handle.
    #[test]
    fn a_placeholder_says_how_to_get_the_original_back() {
        let transcript = rounds(5);
        let compacted =
            plan(&View::of(&transcript), &ClearToolResultsStrategy::default(), None).unwrap().apply_floor();
        let item = compacted.view.get(2).unwrap().item();
        let Part::ToolResult(result) = &item.parts[0] else { panic!("{item:?}") };
        let line = result.first_line();
        assert!(line.contains("read") && line.contains("first line 0"), "{line}");
        let handle = crate::placeholder::handle_in(line).unwrap();
        let recalled = compacted.view.recall(&handle).unwrap();
        assert_eq!(recalled, crate::view::Recalled::Part(transcript.get(2).unwrap().item().parts[0].clone()));
    }
}
