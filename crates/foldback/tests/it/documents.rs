//! Programs as readers of other systems' documents would write them: each form that those documents show, with
//! what it promises. What has another shape here is listed in `docs/coming-from-agentkit.md` and
//! `docs/coming-from-phi.md`.

mod agentkit_api;
mod agentkit_chapter;
mod agentkit_source;
mod phi;
mod survey;

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use foldback::agent::{AgentEvent, AgentObserver, Model, ModelAnswer, ModelRequest, OnDelta};
use foldback::engine::{BackendError, CompactionBackend, SummaryRequest, SummaryResult};
use foldback::{FinishReason, Item, ItemKind, Part, SessionId, Usage};
use tokio_util::sync::CancellationToken;

type Answers = dyn Fn(usize) -> Vec<Part> + Send + Sync;

/// A model that answers by the number of the request, and keeps what it was sent.
#[derive(Clone)]
struct Scripted {
    answers: Arc<Answers>,
    reports: Option<Usage>,
    sent: Arc<Mutex<Vec<Vec<Arc<Item>>>>>,
}

impl Scripted {
    fn new(answers: impl Fn(usize) -> Vec<Part> + Send + Sync + 'static) -> Self {
        Self { answers: Arc::new(answers), reports: None, sent: Arc::default() }
    }

    /// One that always says this.
    fn saying(text: &'static str) -> Self {
        Self::new(move |_| vec![Part::text(text)])
    }

    fn reporting(mut self, usage: Usage) -> Self {
        self.reports = Some(usage);
        self
    }

    fn sent(&self) -> Vec<Vec<Arc<Item>>> {
        self.sent.lock().unwrap().clone()
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl Model for Scripted {
    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        _on_delta: &mut OnDelta<'_>,
        _cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            sent.push(request.items.to_vec());
            sent.len() - 1
        };
        let parts = (self.answers)(number);
        let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let finish = Some(if calls { FinishReason::ToolCalls } else { FinishReason::Stop });
        Ok(ModelAnswer { item: Item::assistant("answer", parts), usage: self.reports, finish, model: None })
    }

    fn name(&self) -> &str {
        "scripted"
    }
}

/// A service of the host's that says how many items it was given, and keeps what it was asked.
#[derive(Clone, Default)]
struct Counting {
    asked: Arc<Mutex<Vec<SummaryRequest>>>,
}

#[async_trait]
impl CompactionBackend for Counting {
    async fn summarize(
        &self,
        request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let told = format!("a summary of {} items", request.items.len());
        self.asked.lock().unwrap().push(request);
        Ok(SummaryResult::new(vec![Item::text("told", ItemKind::Context, told)]))
    }
}

/// Every event of an agent.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<AgentEvent>>>);

impl Told {
    fn events(&self) -> Vec<AgentEvent> {
        self.0.lock().unwrap().clone()
    }
}

impl AgentObserver for Told {
    fn on_event(&self, _session_id: &SessionId, event: &AgentEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn ids<'i>(items: impl IntoIterator<Item = &'i Arc<Item>>) -> Vec<String> {
    items.into_iter().map(|item| item.id.to_string()).collect()
}

fn says(item: &Item) -> String {
    item.parts.iter().map(foldback::reading::text_of).collect::<Vec<_>>().join("\n")
}

fn thinks(item: &Item) -> bool {
    item.parts.iter().any(|part| matches!(part, Part::Reasoning(_)))
}
