//! A scripted model, and compactors over the engine's road.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use foldback_core::{
    CompactionReason, Dialect, FinishReason, Item, Part, SessionId, Strategy, Tokens, TriggerContext, TurnId,
    Usage, View, check_request,
};
use foldback_engine::{
    BackendError, CompactionContext, CompactionError, CompactionRequest, CompactionResult, Compactor, compact,
};
use foldback_loop::{AgentEvent, Delta, Model, ModelAnswer, ModelRequest, OnDelta};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use crate::shell::Shell;

/// What the script does with a request.
pub(crate) enum Reply {
    Say(&'static str),
    Parts(Vec<Part>),
    Reported(Vec<Part>, Usage),
    Fail(BackendError),
    /// Streams this and never ends.
    Hang(&'static str),
}

type Requests = Arc<Mutex<Vec<Vec<Arc<Item>>>>>;
type Writes = dyn Fn(usize, &[Arc<Item>]) -> Reply + Send + Sync;

/// Answers by a function of the number of the request and its items, and keeps every request.
#[derive(Clone)]
pub(crate) struct Script {
    writes: Arc<Writes>,
    requests: Requests,
}

impl Script {
    pub(crate) fn new(writes: impl Fn(usize, &[Arc<Item>]) -> Reply + Send + Sync + 'static) -> Self {
        Self { writes: Arc::new(writes), requests: Requests::default() }
    }

    pub(crate) fn requests(&self) -> Vec<Vec<Arc<Item>>> {
        self.requests.lock().unwrap().clone()
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

#[async_trait]
impl Model for Script {
    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        on_delta: &mut OnDelta<'_>,
        _cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        let violations = check_request(request.items, Some(Dialect::Anthropic));
        assert!(violations.is_empty(), "{violations:?}");
        let index = {
            let mut requests = self.requests.lock().unwrap();
            requests.push(request.items.to_vec());
            requests.len() - 1
        };
        let (parts, usage) = match (self.writes)(index, request.items) {
            Reply::Fail(error) => return Err(error),
            Reply::Hang(text) => {
                on_delta(Delta::Text(text));
                std::future::pending().await
            }
            Reply::Say(text) => (vec![Part::text(text)], None),
            Reply::Parts(parts) => (parts, None),
            Reply::Reported(parts, usage) => (parts, Some(usage)),
        };
        for part in &parts {
            match part {
                Part::Text(text) => on_delta(Delta::Text(text)),
                Part::Reasoning(reasoning) => on_delta(Delta::Reasoning(&reasoning.text)),
                Part::ToolCall(call) => on_delta(Delta::Call { name: &call.name }),
                Part::ToolResult(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Structured(_)
                | Part::Opaque(_) => {}
            }
        }
        let is_call = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let finish = if is_call { FinishReason::ToolCalls } else { FinishReason::Stop };
        let item = Item::assistant("from-the-model", parts);
        Ok(ModelAnswer { item, usage, finish: Some(finish), model: None })
    }

    fn name(&self) -> &str {
        "script"
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Anthropic)
    }
}

/// One call of `shell`.
pub(crate) fn call(id: &str, command: &str) -> Part {
    Part::call(id, "shell", &json!({ "command": command }))
}

type When = dyn Fn(&View, &TriggerContext<'_, View>) -> Option<CompactionReason> + Send + Sync;

/// A pure strategy as a compactor, with a trigger that is a function.
pub(crate) struct Strategic {
    strategy: Arc<dyn Strategy>,
    when: Box<When>,
}

impl Strategic {
    pub(crate) fn new(
        strategy: impl Strategy + 'static,
        when: impl Fn(&View, &TriggerContext<'_, View>) -> Option<CompactionReason> + Send + Sync + 'static,
    ) -> Self {
        Self { strategy: Arc::new(strategy), when: Box::new(when) }
    }
}

impl fmt::Debug for Strategic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.strategy.describe())
    }
}

#[async_trait]
impl Compactor for Strategic {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        (self.when)(context, context)
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let outcome = compact(request.execution(&*self.strategy))?;
        let replaced_items = outcome.change().replaced_items;
        Ok(CompactionResult::new(outcome.view, replaced_items))
    }
}

/// Keeps events for tests to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<AgentEvent>>>);

impl Events {
    pub(crate) fn observer(&self) -> impl Fn(&SessionId, &AgentEvent) + Send + Sync + 'static {
        let events = Arc::clone(&self.0);
        move |_: &SessionId, event: &AgentEvent| events.lock().unwrap().push(event.clone())
    }

    pub(crate) fn all(&self) -> Vec<AgentEvent> {
        self.0.lock().unwrap().clone()
    }

    /// The mutations that ran: mutator, whether it changed anything, what it failed with.
    pub(crate) fn mutations(&self) -> Vec<(String, bool, Option<String>)> {
        let finished = |event| match event {
            AgentEvent::MutationFinished { mutator, dirty, failure, .. } => Some((mutator, dirty, failure)),
            _ => None,
        };
        self.all().into_iter().filter_map(finished).collect()
    }
}

pub(crate) fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: Tokens(input),
        cached_tokens: Tokens(cached),
        output_tokens: Tokens(output),
        ..Usage::default()
    }
}

/// All text of the items, tool results included.
pub(crate) fn text(items: &[Arc<Item>]) -> String {
    let parts = items.iter().flat_map(|item| &item.parts);
    parts.map(foldback_core::reading::text_of).collect::<Vec<_>>().join("\n")
}

/// Kind of each item, for shapes.
pub(crate) fn kinds<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>) -> Vec<&'static str> {
    items.into_iter().map(|item| item.kind.as_str()).collect()
}
