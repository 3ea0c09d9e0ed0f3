//! Compactors as a host has them: built, asked, run, cancelled.

mod agentkit;
mod background;
mod custom;
mod deciding;
mod interrupted;
mod pre_trim;
mod recorded;
mod shared;
mod worked_example;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::*;
use foldback_engine::*;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const SESSION: &str = "session";

/// What a backend answers with.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Say(&'static str),
    Fail(BackendError),
}

/// A summary that tells what the conversation of [`session`] was about.
const SUMMARY: &str = "The parser in src/parser.rs was read and rewritten; cargo test passes.";

/// Answers the same whenever it is asked, after so long and after it was let through.
#[derive(Debug)]
pub(crate) struct Scripted {
    reply: Reply,
    takes: Duration,
    /// Closed if it waits to be let through.
    gate: Semaphore,
    /// One permit for each time it was asked.
    asked: Semaphore,
    window: Option<Tokens>,
    pub(crate) requests: Mutex<Vec<SummaryRequest>>,
}

impl Scripted {
    pub(crate) fn new(reply: Reply) -> Self {
        Self {
            reply,
            takes: Duration::ZERO,
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            asked: Semaphore::new(0),
            window: None,
            requests: Mutex::default(),
        }
    }

    fn taking(mut self, takes: Duration) -> Self {
        self.takes = takes;
        self
    }

    fn with_window(mut self, window: u64) -> Self {
        self.window = Some(Tokens(window));
        self
    }

    fn waiting(mut self) -> Self {
        self.gate = Semaphore::new(0);
        self
    }
}

#[async_trait]
impl CompactionBackend for Scripted {
    async fn summarize(
        &self,
        request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        self.requests.lock().expect("nobody panics in here").push(request);
        self.asked.add_permits(1);
        self.gate.acquire().await.expect("the gate is never removed").forget();
        tokio::time::sleep(self.takes).await;
        match &self.reply {
            Reply::Fail(error) => Err(error.clone()),
            Reply::Say(text) => {
                let items = vec![Item::text("answer", ItemKind::Context, *text)];
                Ok(SummaryResult { items, finish: Some(FinishReason::Stop), ..SummaryResult::default() })
            }
        }
    }

    fn name(&self) -> &str {
        "scripted"
    }

    fn window(&self) -> Option<Tokens> {
        self.window
    }
}

/// Keeps every event.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Vec<CompactionEventKind>>>);

impl CompactionObserver for Recorder {
    fn on_event(&self, event: &CompactionEvent) {
        assert_eq!(event.session_id.as_str(), SESSION);
        self.0.lock().expect("nobody panics in here").push(event.kind.clone());
    }
}

impl Recorder {
    fn names(&self) -> Vec<&'static str> {
        let name = |kind: &CompactionEventKind| match kind {
            CompactionEventKind::CompactionStarted { .. } => "started",
            CompactionEventKind::SummaryAsked { .. } => "asked",
            CompactionEventKind::SummaryRefused { .. } => "refused",
            CompactionEventKind::SummaryTaken { .. } => "taken",
            CompactionEventKind::CompactionEnded(_) => "ended",
            CompactionEventKind::CompactionFailed { .. } => "failed",
            _ => "an event without a name here",
        };
        self.0.lock().expect("nobody panics in here").iter().map(name).collect()
    }

    fn report(&self) -> CompactionReport {
        let events = self.0.lock().expect("nobody panics in here");
        let report = events.iter().rev().find_map(|kind| match kind {
            CompactionEventKind::CompactionEnded(report) => Some(report.clone()),
            _ => None,
        });
        report.expect("a compaction has ended")
    }
}

/// Turns of one tool round each, and an answer to each.
fn session(turns: usize) -> View {
    let mut transcript = Transcript::default();
    transcript.push(Item::text("system", ItemKind::System, "You are a careful engineer."));
    for turn in 0..turns {
        let id = |kind: &str| format!("{kind}{turn}");
        transcript.push(Item::user(id("u"), format!("Look at src/parser.rs again, round {turn}.")));
        let input = json!({"path": "src/parser.rs"});
        let parts = vec![Part::reasoning("where was it"), Part::call(id("c"), "read_file", &input)];
        transcript.push(Item::assistant(id("a"), parts));
        let output = "fn parse(input: &str) -> Result<Ast, ParseError> { todo(input) }\n".repeat(12);
        transcript.push(Item::tool(id("t"), ToolResult::text(id("c"), output)));
        transcript.push(Item::assistant(id("e"), vec![Part::text("It parses what it can.")]));
    }
    View::of(&transcript)
}

fn request(view: &View) -> CompactionRequest {
    CompactionRequest::new(SESSION, view.clone(), CompactionReason::TranscriptTooLong)
}

fn asks(compactor: &StrategyCompactor, view: &View, point: MutationPoint) -> Option<CompactionReason> {
    compactor.should_compact(&SESSION.into(), None, &TriggerContext::of_view(view, point))
}

/// A budget in which `view` is at this share of the window, in percent.
fn budget_at(view: &View, percent: u64) -> Budget {
    Budget::builder(Tokens(view.tokens().0 * 100 / percent)).build().expect("there is a window")
}

async fn compact(compactor: &StrategyCompactor, view: &View) -> CompactionResult {
    compactor.compact(request(view), &CompactionContext::default()).await.expect("it compacts")
}

fn summaries(view: &View) -> Vec<&Arc<Item>> {
    view.items().filter(|item| item.summary.is_some()).collect()
}

/// A backend that the test looks into, for compactors.
pub(crate) fn guarded(backend: &Arc<Scripted>) -> GuardedBackend {
    GuardedBackend::new(Arc::clone(backend) as Arc<dyn CompactionBackend>)
}
