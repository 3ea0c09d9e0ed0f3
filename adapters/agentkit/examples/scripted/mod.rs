//! A model whose answers are a script, behind agentkit's own traits. Like a provider it rejects a request that
//! is longer than its window, or in which a call has no result.

use std::sync::{Arc, Mutex};

use agentkit_core::{FinishReason, Item, ItemKind, MetadataMap, Part, TurnCancellation};
use agentkit_loop::{
    LoopError, ModelAdapter, ModelSession, ModelTurn, ModelTurnEvent, ModelTurnResult,
    ProviderClassification, ProviderFailure, ProviderFailureReason, ProviderRoute, RetryAccounting,
    SessionConfig, TurnRequest, UpstreamErrorKind,
};
use async_trait::async_trait;

/// The parts of an answer, given the number of the request and what it holds.
pub(crate) type Script = Arc<dyn Fn(usize, &[Item]) -> Vec<Part> + Send + Sync>;

/// Every request that was sent, rejected ones too.
pub(crate) type Requests = Arc<Mutex<Vec<Vec<Item>>>>;

#[derive(Clone)]
pub(crate) struct ScriptedModel {
    /// The longest request it takes, in tokens.
    pub(crate) window: usize,
    pub(crate) script: Script,
    pub(crate) requests: Requests,
}

/// A request's tokens, counted by none of foldback's counters.
pub(crate) fn tokens(items: &[Item]) -> usize {
    let text = |part: &Part| serde_json::to_string(part).expect("a part is JSON").len();
    items.iter().flat_map(|item| &item.parts).map(text).sum::<usize>() / 4
}

/// The calls that have no result behind them, and the results that have no call before them.
pub(crate) fn unpaired(items: &[Item]) -> Vec<String> {
    let mut unpaired: Vec<String> = Vec::new();
    for part in items.iter().flat_map(|item| &item.parts) {
        let (id, is_call) = match part {
            Part::ToolCall(call) => (&call.id.0, true),
            Part::ToolResult(result) => (&result.call_id.0, false),
            _ => continue,
        };
        match unpaired.iter().position(|open| open == id) {
            Some(open) if !is_call => {
                unpaired.remove(open);
            }
            _ => unpaired.push(id.clone()),
        }
    }
    unpaired
}

fn rejection(code: UpstreamErrorKind) -> LoopError {
    LoopError::ProviderFailure(Box::new(ProviderFailure {
        route: ProviderRoute::Unknown,
        reason: ProviderFailureReason::InvalidRequest,
        last_attempt_reason: None,
        upstream: ProviderClassification { code, ..ProviderClassification::default() },
        accounting: RetryAccounting::default(),
    }))
}

#[async_trait]
impl ModelAdapter for ScriptedModel {
    type Session = Self;

    async fn start_session(&self, _config: SessionConfig) -> Result<Self, LoopError> {
        Ok(self.clone())
    }
}

#[async_trait]
impl ModelSession for ScriptedModel {
    type Turn = Answer;

    async fn begin_turn(
        &mut self,
        request: TurnRequest,
        _cancellation: Option<TurnCancellation>,
    ) -> Result<Answer, LoopError> {
        let number = {
            let mut requests = self.requests.lock().expect("no test panics while it holds it");
            requests.push(request.transcript.clone());
            requests.len() - 1
        };
        if tokens(&request.transcript) > self.window {
            return Err(rejection(UpstreamErrorKind::ContextLengthExceeded));
        }
        if !unpaired(&request.transcript).is_empty() {
            return Err(rejection(UpstreamErrorKind::InvalidRequestError));
        }
        Ok(Answer(events((self.script)(number, &request.transcript))))
    }
}

fn events(parts: Vec<Part>) -> Vec<ModelTurnEvent> {
    let calls: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(ModelTurnEvent::ToolCall(call.clone())),
            _ => None,
        })
        .collect();
    let finish_reason = if calls.is_empty() { FinishReason::Completed } else { FinishReason::ToolCall };
    let finished = ModelTurnEvent::Finished(ModelTurnResult {
        finish_reason,
        output_items: vec![Item::new(ItemKind::Assistant, parts)],
        usage: None,
        metadata: MetadataMap::new(),
        model: None,
        response_id: None,
    });
    // From the end: events are popped.
    std::iter::once(finished).chain(calls.into_iter().rev()).collect()
}

pub(crate) struct Answer(Vec<ModelTurnEvent>);

#[async_trait]
impl ModelTurn for Answer {
    async fn next_event(
        &mut self,
        _cancellation: Option<TurnCancellation>,
    ) -> Result<Option<ModelTurnEvent>, LoopError> {
        Ok(self.0.pop())
    }
}
