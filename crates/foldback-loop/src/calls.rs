//! Runs the calls of one answer: at the same time, each within its time, each with a result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use foldback_core::{Item, ItemKind, ResultPart, ToolCall, ToolInput, ToolResult};
use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Instrument;

use crate::event::AgentEvent;
use crate::state::INTERRUPTED;
use crate::stopping::or_stopped;
use crate::telemetry;
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::turn::Turn;

/// The longest text that is recorded of one piece of a tool's answer. Far more than any window
/// holds; compaction shortens what is merely large.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Names of tools that a model is reminded of when it calls one that does not exist.
const NAMED_TOOLS_MAX: usize = 32;

impl Turn<'_> {
    /// Runs all of them and leaves each result with the session. Ends soon after an interrupt.
    pub(crate) async fn run_calls(&self, calls: &[ToolCall]) {
        let slots = Semaphore::new(self.shared.parts.limits.calls_parallel_max);
        let run = |(call_index, call)| self.run_call(call_index, call, &slots);
        join_all(calls.iter().enumerate().map(run)).await;
    }

    async fn run_call(&self, call_index: usize, call: &ToolCall, slots: &Semaphore) {
        let _slot = slots.acquire().await.expect("nobody closes the semaphore");
        let started = Instant::now();
        self.emitter.emit(AgentEvent::ToolStarted {
            call_id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.as_str().into(),
        });
        let span = telemetry::tool_span(call);
        let answer = self.answer(call).instrument(span.clone()).await;
        if answer.is_err() {
            telemetry::tool_failed(&span);
        }
        let result = match answer {
            Ok(output) => ToolResult { call_id: call.id.clone(), content: capped(output), is_error: false },
            Err(why) => ToolResult::error(call.id.clone(), clipped(&why)),
        };
        let item = {
            let mut state = self.shared.state();
            let id = format!("{}-{call_index}", state.next_id(ItemKind::Tool));
            let mut item = Item::tool(id, result).with_turn_id(self.turn_id.clone());
            item.created_at = Some(self.shared.parts.clock.now());
            let item = Arc::new(item);
            state.set_result(call_index, Arc::clone(&item));
            item
        };
        self.emitter.emit(AgentEvent::ToolFinished {
            call_id: call.id.clone(),
            name: call.name.clone(),
            item,
            duration: started.elapsed(),
        });
    }

    async fn answer(&self, call: &ToolCall) -> Result<ToolOutput, String> {
        if self.token.is_cancelled() {
            return Err(INTERRUPTED.to_owned());
        }
        let tool = self.shared.parts.tools.get(&*call.name).ok_or_else(|| self.unknown(&call.name))?;
        let input = input(call)?;
        let context = ToolContext {
            session_id: self.shared.id.clone(),
            turn_id: self.turn_id.clone(),
            call_id: call.id.clone(),
            view: self.shared.state().view().clone(),
            stored: self.shared.stored.as_ref().map(|stored| stored.session()),
            cancellation: self.token.clone(),
        };
        self.call(&**tool, input, context).await
    }

    async fn call(&self, tool: &dyn Tool, input: Value, context: ToolContext) -> Result<ToolOutput, String> {
        let limits = &self.shared.parts.limits;
        let timeout = tool.timeout().unwrap_or(limits.tool_timeout);
        let call = AssertUnwindSafe(tool.call(input, context)).catch_unwind();
        let call = tokio::time::timeout(timeout, call);
        match or_stopped(call, &self.token, limits.grace).await {
            None => Err(INTERRUPTED.to_owned()),
            Some(Err(_elapsed)) => {
                Err(format!("the tool did not answer within {} ms and was stopped", timeout.as_millis()))
            }
            Some(Ok(Err(_panic))) => Err("the tool failed: it panicked".to_owned()),
            Some(Ok(Ok(answer))) => answer.map_err(|error| error.why),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> =
            self.shared.parts.tools.keys().take(NAMED_TOOLS_MAX).map(String::as_str).collect();
        match names.is_empty() {
            true => format!("there is no tool called {name:?}; there are no tools"),
            false => format!("there is no tool called {name:?}; there are: {}", names.join(", ")),
        }
    }
}

/// What the tool is given; a model that means "nothing" often writes nothing.
fn input(call: &ToolCall) -> Result<Value, String> {
    let text = call.input.as_str().trim();
    if text.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value = match &call.input {
        ToolInput::Json(json) => json.value(),
        ToolInput::Text(_) => serde_json::from_str(text).ok(),
    };
    value.ok_or_else(|| "the arguments are not JSON; call the tool again with a JSON object".to_owned())
}

fn capped(output: ToolOutput) -> Vec<ResultPart> {
    let is_blank = |part: &ResultPart| part.as_text().is_some_and(|text| text.trim().is_empty());
    if output.content.iter().all(is_blank) {
        return vec![ResultPart::Text("(no output)".into())];
    }
    let cap = |part| match part {
        ResultPart::Text(text) if text.len() > OUTPUT_BYTES_MAX => ResultPart::Text(clipped(&text).into()),
        part => part,
    };
    output.content.into_iter().filter(|part| !is_blank(part)).map(cap).collect()
}

fn clipped(text: &str) -> String {
    if text.len() <= OUTPUT_BYTES_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(OUTPUT_BYTES_MAX);
    format!("{}\n[{} more bytes were not recorded]", &text[..end], text.len() - end)
}
