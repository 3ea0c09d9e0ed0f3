//! One message of a Gemini CLI session as items.

use std::collections::HashSet;

use foldback_core::{
    CallId, FinishReason, Item, ItemKind, Part, ResultPart, Text, Tokens, ToolCall, ToolResult, Usage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::FilePlace;
use crate::dialect::gemini::content::{Messages, Role};
use crate::dialect::gemini::part::{Piece, input_of};
use crate::dialect::gemini::{read_pieces, response};
use crate::error::{Fault, Problem};
use crate::rfc3339;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message<'a> {
    pub(super) id: Option<String>,
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    thoughts: Option<Vec<Thought>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
    tokens: Option<Counted>,
    pub(super) model: Option<Text>,
}

#[derive(Debug, Deserialize)]
struct Thought {
    #[serde(default)]
    subject: String,
    #[serde(default)]
    description: String,
}

#[derive(Debug, Deserialize)]
struct Call<'a> {
    id: Option<CallId>,
    #[serde(default)]
    name: Text,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    status: Option<String>,
}

/// What the provider counted: `input` includes what was cached, `output` leaves thoughts out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Counted {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
    tool: Option<u64>,
}

impl Counted {
    fn usage(&self) -> Usage {
        let [input, output, cached, thoughts, tool] =
            [self.input, self.output, self.cached, self.thoughts, self.tool].map(Option::unwrap_or_default);
        Usage {
            input_tokens: Tokens(input.saturating_sub(cached).saturating_add(tool)),
            cached_tokens: Tokens(cached),
            cache_write_tokens: Tokens::ZERO,
            output_tokens: Tokens(output.saturating_add(thoughts)),
            reasoning_tokens: Tokens(thoughts),
        }
    }
}

/// A thought as the model wrote it: its subject in bold, then the rest.
pub(super) fn thought_text(subject: &str, description: &str) -> String {
    if subject.is_empty() { description.to_owned() } else { format!("**{subject}**\n{description}") }
}

/// Subject and description of a thought, so that [`thought_text`] gives the text again.
pub(super) fn thought_of(text: &str) -> (&str, &str) {
    let split = text.strip_prefix("**").and_then(|rest| rest.split_once("**\n"));
    split.filter(|(subject, _)| !subject.is_empty()).unwrap_or(("", text))
}

/// A message that is not understood, at its place.
pub(super) fn problem(error: &serde_json::Error, place: FilePlace) -> Problem {
    Problem { line: place.line, column: None, fault: Fault::NotUnderstood { reason: error.to_string() } }
}

/// Reads the messages of one list in order.
#[derive(Debug, Default)]
pub(super) struct Reader {
    messages: Messages,
    /// Calls whose results stand with them; the same results may follow as a message of the user.
    answered: HashSet<CallId>,
}

impl Reader {
    /// The items of a message; none where it is only shown to the person.
    pub(super) fn items(
        &mut self,
        message: &Message<'_>,
        index: usize,
    ) -> Result<Vec<Item>, serde_json::Error> {
        let id = message.id.clone().unwrap_or_else(|| format!("m{index}"));
        let pieces = || message.content.map_or_else(|| Ok(Vec::new()), read_pieces);
        let mut items = match message.kind.as_deref() {
            Some("user") => {
                let mut pieces = pieces()?;
                pieces.retain(|piece| !self.is_repeated(piece));
                if pieces.is_empty() { Vec::new() } else { self.messages.items(Role::User, &id, pieces) }
            }
            Some("gemini") => self.answer(&id, message, pieces()?)?,
            _ => Vec::new(),
        };
        let created_at = message.timestamp.as_deref().and_then(rfc3339::parse);
        items.iter_mut().for_each(|item| item.created_at = created_at);
        Ok(items)
    }

    fn is_repeated(&mut self, piece: &Piece) -> bool {
        let Piece::Response(response) = piece else { return false };
        response.id.as_ref().is_some_and(|id| self.answered.remove(id))
    }

    fn answer(
        &mut self,
        id: &str,
        message: &Message<'_>,
        pieces: Vec<Piece>,
    ) -> Result<Vec<Item>, serde_json::Error> {
        // An empty text is how a message without text is written.
        let has_text = message.content.is_some_and(|content| content.get() != "\"\"");
        let pieces = if has_text { pieces } else { Vec::new() };
        let mut said = self.messages.items(Role::Model, id, pieces);
        let said = said.pop().map_or_else(Vec::new, |item| item.parts);
        let thoughts = message.thoughts.iter().flatten();
        let mut parts: Vec<Part> = thoughts
            .map(|thought| Part::reasoning(thought_text(&thought.subject, &thought.description)))
            .collect();
        parts.extend(said);
        let mut results = Vec::new();
        for (index, call) in message.tool_calls.iter().flatten().enumerate() {
            let call_id = call.id.clone().unwrap_or_else(|| format!("{id}-call-{index}").into());
            let is_said = parts.iter().any(|part| matches!(part, Part::ToolCall(said) if said.id == call_id));
            if !is_said {
                parts.push(Part::ToolCall(call.call(call_id.clone())?));
                self.messages.called(call_id.clone(), call.name.clone(), true);
            }
            if let Some(result) = self.result(call, call_id)? {
                self.answered.insert(result.call_id.clone());
                results.push(Part::ToolResult(result));
            }
        }
        let mut item = Item::assistant(id, parts);
        item.usage = message.tokens.as_ref().map(Counted::usage);
        item.finish_reason =
            message.tool_calls.as_ref().filter(|calls| !calls.is_empty()).map(|_| FinishReason::ToolCalls);
        let tool = (!results.is_empty()).then(|| Item::new(format!("{id}-results"), ItemKind::Tool, results));
        Ok([item].into_iter().chain(tool).collect())
    }

    /// What the tool answered: its own response, and what else stands beside it.
    fn result(&mut self, call: &Call<'_>, call_id: CallId) -> Result<Option<ToolResult>, serde_json::Error> {
        let pieces = call.result.map_or_else(|| Ok(Vec::new()), read_pieces)?;
        if pieces.is_empty() {
            return Ok(None);
        }
        let mut is_error = call.status.as_deref().is_some_and(|status| status != "success");
        let mut content: Vec<ResultPart> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Response(response) if response.id.as_ref().is_none_or(|id| *id == call_id) => {
                    content.extend(response.content);
                    is_error |= response.is_error;
                }
                Piece::Content(parts) => content.extend(parts.into_iter().filter_map(response::as_result)),
                // The results of calls made together may all be listed with each of them.
                Piece::Response(_) | Piece::Call { .. } => {}
            }
        }
        let own = response::Response { id: Some(call_id), name: call.name.clone(), content, is_error };
        Ok(Some(self.messages.answered(own, "")))
    }
}

impl Call<'_> {
    fn call(&self, id: CallId) -> Result<ToolCall, serde_json::Error> {
        let input = self.args.map_or("{}", RawValue::get);
        Ok(ToolCall { id, name: self.name.clone(), input: input_of(input)?, signature: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_is_split_so_that_it_can_be_joined_again() {
        for text in ["", "plain", "**Subject**\nand more", "****\nno subject", "**bold** only", "**a**\n"] {
            let (subject, description) = thought_of(text);
            assert_eq!(thought_text(subject, description), text);
        }
        assert_eq!(thought_of("**Subject**\nand more"), ("Subject", "and more"));
    }
}
