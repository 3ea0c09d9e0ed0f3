//! One turn: ask, call, ask again, until there is an answer.

use std::sync::Arc;
use std::time::Duration;

use foldback_core::{
    CallId, FinishReason, Item, ItemKind, MutationPoint, Part, ToolCall, TurnId, Usage, check_request,
};
use foldback_engine::{BackendError, Backoff};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::error::{LoopError, Recovery};
use crate::event::{AgentEvent, Emitter};
use crate::model::{Delta, ModelAnswer, ModelRequest};
use crate::mutating::{Mutating, MutationRound};
use crate::session::{Shared, TurnResult};
use crate::telemetry;

/// What is kept of an answer that was interrupted.
const PARTIAL_BYTES_MAX: usize = 1024 * 1024;

pub(crate) struct Turn<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) turn_id: TurnId,
    pub(crate) token: CancellationToken,
    pub(crate) emitter: Emitter,
}

impl<'s> Turn<'s> {
    pub(crate) fn new(shared: &'s Shared, emitter: Emitter) -> Self {
        let turn_id = shared.state().next_turn();
        Self { shared, turn_id, token: shared.begin(), emitter }
    }

    pub(crate) async fn run(&self, input: Vec<Part>) -> Result<TurnResult, LoopError> {
        let span = telemetry::turn_span(&self.shared.id, &self.turn_id, &*self.shared.parts.model);
        let result = self.run_in_span(input).instrument(span.clone()).await;
        telemetry::turn_ended(&span, &result);
        result
    }

    async fn run_in_span(&self, input: Vec<Part>) -> Result<TurnResult, LoopError> {
        self.emitter.emit(AgentEvent::TurnStarted { turn_id: self.turn_id.clone() });
        {
            let mut state = self.shared.state();
            let id = state.next_id(ItemKind::User);
            let mut item = Item::new(id, ItemKind::User, input).with_turn_id(self.turn_id.clone());
            item.created_at = Some(self.shared.parts.clock.now());
            state.record(item);
        }
        let answered = self.rounds().await;
        // Whatever ended the turn, the conversation is compacted before the next one; an interrupt
        // from here on stops that.
        let token = self.shared.begin();
        let mutated = self.mutate(MutationPoint::AfterTurnEnded, &token).await;
        let saved = self.shared.save().await;
        let result = answered.and_then(|answer| mutated.and(saved).map(|()| answer));
        self.emitter.emit(AgentEvent::TurnEnded {
            turn_id: self.turn_id.clone(),
            failure: result.as_ref().err().map(ToString::to_string),
            context: self.shared.state().context(),
        });
        result
    }

    async fn rounds(&self) -> Result<TurnResult, LoopError> {
        let rounds_max = self.shared.parts.limits.rounds_max;
        let (mut usage, mut call_count) = (Usage::default(), 0);
        for round in 0..rounds_max {
            let answer = self.ask_recovering(round).await?;
            usage = sum(usage, answer.usage.unwrap_or_default());
            let (item, calls) = self.record(answer);
            if calls.is_empty() {
                self.reopen();
                if self.shared.state().has_pending_input() {
                    continue;
                }
                let text = text_of(&item);
                let turn_id = self.turn_id.clone();
                return Ok(TurnResult { turn_id, text, item, round_count: round + 1, call_count, usage });
            }
            call_count += calls.len();
            self.shared.save().await?;
            self.run_calls(&calls).await;
            self.shared.state().close_calls();
            self.stop_if_cancelled()?;
            self.mutate(MutationPoint::AfterToolResult, &self.token).await?;
            self.stop_if_cancelled()?;
        }
        Err(LoopError::RoundLimit { rounds_max })
    }

    fn stop_if_cancelled(&self) -> Result<(), LoopError> {
        match self.token.is_cancelled() {
            true => Err(self.shared.interruption()),
            false => Ok(()),
        }
    }

    fn reopen(&self) {
        let delivered = self.shared.state().reopen();
        for item in delivered {
            self.emitter.emit(AgentEvent::InputDelivered { item });
        }
    }

    async fn mutate(
        &self,
        point: MutationPoint,
        token: &CancellationToken,
    ) -> Result<MutationRound, LoopError> {
        let mutating = Mutating {
            shared: self.shared,
            emitter: &self.emitter,
            turn_id: Some(&self.turn_id),
            point,
            focus: None,
            token,
        };
        mutating.run().await
    }

    /// Asks until the provider takes the request: where it is too long, the mutators make it shorter.
    async fn ask_recovering(&self, round: usize) -> Result<ModelAnswer, LoopError> {
        let mut tried: Vec<Recovery> = Vec::new();
        loop {
            let limit = match self.ask_retrying(round).await {
                Err(LoopError::Model(BackendError::Overflow { limit })) => limit,
                Ok(answer) => {
                    self.shared.state().on_accepted();
                    return Ok(answer);
                }
                Err(error) => return Err(error),
            };
            self.emitter.emit(AgentEvent::RequestRejected {
                limit,
                tokens: self.shared.state().context(),
                recovery_count: tried.len(),
            });
            // A mutator that finds nothing to do aims lower the next time.
            loop {
                if tried.len() >= self.shared.parts.limits.recoveries_max {
                    return Err(LoopError::ContextOverflow { limit, tried });
                }
                self.shared.state().on_rejected(limit);
                let round = self.mutate(MutationPoint::AfterRequestRejected, &self.token).await?;
                self.stop_if_cancelled()?;
                let is_shorter = round.tokens_after < round.tokens_before;
                tried.push(Recovery {
                    tokens_before: round.tokens_before,
                    tokens_after: round.tokens_after,
                    mutators: round.dirty,
                    failures: round.failures,
                });
                if is_shorter {
                    break;
                }
            }
        }
    }

    /// Asks again where a failure may pass.
    async fn ask_retrying(&self, round: usize) -> Result<ModelAnswer, LoopError> {
        let limits = &self.shared.parts.limits;
        let (first, max) = (limits.backoff_first, limits.backoff_max);
        let mut backoff = Backoff::new(limits.retries_max, first, max, limits.backoff_seed);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match self.ask_once(round).await {
                Err(LoopError::Model(error)) => error,
                answer => return answer,
            };
            // Somebody waits for the answer: not longer than that, whatever the server asks for.
            let Some(wait) = backoff.after(&error).map(|wait| wait.min(max)) else {
                return Err(LoopError::Model(error));
            };
            self.emitter.emit(AgentEvent::ModelRetried { attempt, why: error.to_string(), wait });
            self.wait(wait).await?;
        }
    }

    async fn wait(&self, duration: Duration) -> Result<(), LoopError> {
        tokio::select! {
            () = tokio::time::sleep(duration) => Ok(()),
            () = self.token.cancelled() => Err(self.shared.interruption()),
        }
    }

    async fn ask_once(&self, round: usize) -> Result<ModelAnswer, LoopError> {
        self.stop_if_cancelled()?;
        let items = self.next_request()?;
        self.shared.save().await?;
        let parts = &self.shared.parts;
        let request =
            ModelRequest::new(&items).tools(&parts.specs).tokens_max(parts.limits.answer_tokens_max);
        let tokens = self.shared.state().context();
        self.emitter.emit(AgentEvent::ModelAsked { round, item_count: items.len(), tokens });
        let mut partial = String::new();
        let mut on_delta = |delta: Delta<'_>| self.on_delta(delta, &mut partial);
        let answer = tokio::select! {
            biased;
            answer = parts.model.ask(&request, &mut on_delta, &self.token) => answer,
            () = self.token.cancelled() => Err(BackendError::Cancelled),
        };
        match answer {
            Err(_) if self.token.is_cancelled() => {
                self.record_partial(&partial);
                Err(self.shared.interruption())
            }
            answer => answer.map_err(LoopError::Model),
        }
    }

    /// What is sent: the view, and nothing else.
    fn next_request(&self) -> Result<Vec<Arc<Item>>, LoopError> {
        let dialect = self.shared.parts.model.dialect();
        let mut state = self.shared.state();
        let items = state.request(dialect);
        let violations = check_request(&items, dialect);
        if !violations.is_empty() {
            return Err(LoopError::InvalidRequest { violations });
        }
        state.close();
        state.mark_sent();
        Ok(items)
    }

    fn on_delta(&self, delta: Delta<'_>, partial: &mut String) {
        self.emitter.emit(match delta {
            Delta::Text(text) => {
                if partial.len() + text.len() <= PARTIAL_BYTES_MAX {
                    partial.push_str(text);
                }
                AgentEvent::TextDelta { text: text.into() }
            }
            Delta::Reasoning(text) => AgentEvent::ReasoningDelta { text: text.into() },
            Delta::Call { name } => AgentEvent::CallDelta { name: name.into() },
            _ => return,
        });
    }

    /// What an interrupted answer said so far was read by the person, so it was said.
    fn record_partial(&self, partial: &str) {
        if partial.trim().is_empty() {
            return;
        }
        let mut state = self.shared.state();
        let parts = vec![Part::text(partial)];
        let mut item = Item::assistant(state.next_id(ItemKind::Assistant), parts);
        item.turn_id = Some(self.turn_id.clone());
        item.created_at = Some(self.shared.parts.clock.now());
        item.finish_reason = Some(FinishReason::Interrupted);
        state.record(item);
    }

    /// Appends an answer, and remembers its calls as open before anything can go wrong with them.
    fn record(&self, answer: ModelAnswer) -> (Arc<Item>, Vec<ToolCall>) {
        let mut state = self.shared.state();
        let mut item = answer.item;
        item.id = state.next_id(ItemKind::Assistant);
        item.kind = ItemKind::Assistant;
        item.turn_id = Some(self.turn_id.clone());
        item.created_at = Some(self.shared.parts.clock.now());
        item.usage = answer.usage.or(item.usage);
        item.finish_reason = answer.finish.or(item.finish_reason);
        let is_taken = |call_id: &CallId| state.has_call(call_id);
        name_calls(&mut item, is_taken);
        // Beside calls many servers send a text with nothing in it, which other providers reject.
        item.parts.retain(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
        let calls: Vec<ToolCall> = item.calls().map(|(_, call)| call.clone()).collect();
        let item = state.record(item);
        state.open_calls(&calls);
        let context = state.context();
        drop(state);
        self.emitter.emit(AgentEvent::ModelAnswered {
            item: Arc::clone(&item),
            usage: item.usage,
            finish: item.finish_reason,
            context,
        });
        (item, calls)
    }
}

/// Gives calls without a name of their own one: some servers number the calls of every answer from
/// zero, and no provider takes the same id twice.
fn name_calls(item: &mut Item, is_taken: impl Fn(&CallId) -> bool) {
    let mut used: Vec<CallId> = Vec::new();
    let item_id = item.id.clone();
    for (part_index, part) in item.parts.iter_mut().enumerate() {
        let Part::ToolCall(call) = part else { continue };
        if call.id.is_empty() || used.contains(&call.id) || is_taken(&call.id) {
            call.id = format!("call-{item_id}-{part_index}").into();
        }
        used.push(call.id.clone());
    }
}

fn text_of(item: &Item) -> String {
    let texts: Vec<&str> = item
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => None,
        })
        .collect();
    texts.join("\n")
}

fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input_tokens: one.input_tokens + other.input_tokens,
        cached_tokens: one.cached_tokens + other.cached_tokens,
        cache_write_tokens: one.cache_write_tokens + other.cache_write_tokens,
        output_tokens: one.output_tokens + other.output_tokens,
        reasoning_tokens: one.reasoning_tokens + other.reasoning_tokens,
    }
}
