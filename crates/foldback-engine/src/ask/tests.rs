//! Whole folds, asked of backends that follow a script, on a clock that stands still.

mod faults;
mod flow;
mod properties;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{
    FinishReason, Item, ItemKind, Metadata, Part, Plan, Prices, SummarizeOlderStrategy, Tokens, ToolResult,
    Transcript, Usage, View, plan,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::backend::{BackendError, SummaryRequest, SummaryResult};
use crate::event::SummaryFault;

/// What a scripted backend does when it is asked.
#[derive(Clone, Debug)]
enum Reply {
    Say(&'static str),
    Long(usize),
    Finish(&'static str, FinishReason),
    Fail(BackendError),
    Hang,
    After(Duration, Box<Reply>),
    Give(SummaryResult),
}

/// Replies in order; the last one again and again.
#[derive(Debug)]
struct Scripted {
    replies: Mutex<VecDeque<Reply>>,
    window: Option<Tokens>,
    prices: Option<&'static Prices>,
    requests: Mutex<Vec<SummaryRequest>>,
    running: AtomicUsize,
    running_most: AtomicUsize,
}

impl Scripted {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Mutex::new(replies.into_iter().collect()),
            window: None,
            prices: None,
            requests: Mutex::default(),
            running: AtomicUsize::new(0),
            running_most: AtomicUsize::new(0),
        }
    }

    fn window(mut self, window: u64) -> Self {
        self.window = Some(Tokens(window));
        self
    }

    fn requests(&self) -> Vec<SummaryRequest> {
        self.requests.lock().unwrap().clone()
    }

    fn next(&self) -> Reply {
        let mut replies = self.replies.lock().unwrap();
        let next = replies.front().expect("there is a reply").clone();
        if replies.len() > 1 {
            replies.pop_front();
        }
        next
    }
}

/// Counts a call for as long as it runs, however it ends.
struct Running<'s>(&'s Scripted);

impl<'s> Running<'s> {
    fn new(scripted: &'s Scripted) -> Self {
        let running = scripted.running.fetch_add(1, Ordering::SeqCst) + 1;
        scripted.running_most.fetch_max(running, Ordering::SeqCst);
        Self(scripted)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn said(text: impl Into<foldback_core::Text>) -> SummaryResult {
    let items = vec![Item::text("answer", ItemKind::Context, text)];
    SummaryResult { items, finish: Some(FinishReason::Stop), ..SummaryResult::default() }
}

#[async_trait]
impl CompactionBackend for Scripted {
    async fn summarize(
        &self,
        request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let _running = Running::new(self);
        self.requests.lock().unwrap().push(request);
        let mut reply = self.next();
        if let Reply::After(wait, then) = reply {
            tokio::time::sleep(wait).await;
            reply = *then;
        }
        match reply {
            Reply::Say(text) => Ok(said(text)),
            Reply::Long(lines) => Ok(said("another line of a summary that goes on and on\n".repeat(lines))),
            Reply::Finish(text, finish) => Ok(SummaryResult { finish: Some(finish), ..said(text) }),
            Reply::Fail(error) => Err(error),
            Reply::Give(result) => Ok(result),
            Reply::Hang | Reply::After(..) => std::future::pending().await,
        }
    }

    fn name(&self) -> &str {
        "scripted"
    }

    fn window(&self) -> Option<Tokens> {
        self.window
    }

    fn prices(&self) -> Option<&'static Prices> {
        self.prices
    }
}

/// A session with two rules, a changed file and many rounds, folded but for its last item.
fn session(rounds: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Make the parser faster. Never touch src/lexer.rs."));
    for number in 0..rounds {
        let (read, write) = (format!("r{number}"), format!("w{number}"));
        let path = format!("src/rule_{number}.rs");
        let input = json!({"file_path": path});
        transcript
            .push(Item::assistant(format!("a{number}"), vec![Part::call(read.clone(), "Read", &input)]));
        let body = format!("fn parse_rule_{number}(input: &str) -> Result<Rule, ParseError>\n").repeat(20);
        transcript.push(Item::tool(format!("x{number}"), ToolResult::text(read, body)));
        let input = json!({"file_path": "src/parser.rs", "content": format!("call {number}")});
        transcript
            .push(Item::assistant(format!("b{number}"), vec![Part::call(write.clone(), "Write", &input)]));
        transcript.push(Item::tool(format!("y{number}"), ToolResult::text(write, "ok")));
    }
    transcript.push(Item::user(
        "later",
        "Use tabs, not spaces. The token is ghp_0123456789abcdefghijklmnopqrstuvwxyzAB.",
    ));
    transcript.push(Item::user("last", "Go on, please."));
    transcript
}

fn fold(transcript: &Transcript, tokens_max: u64) -> Plan {
    let strategy = SummarizeOlderStrategy::new(1).summary_tokens_max(Tokens(tokens_max));
    plan(&View::of(transcript), &strategy, None).unwrap()
}

/// What came of a fold, and how.
struct Run {
    filled: Result<Filled, CompactionError>,
    events: Vec<CompactionEventKind>,
    took: Duration,
}

impl Run {
    fn summary(&self) -> &Item {
        &self.filled.as_ref().expect("it is not cancelled").summaries[0][0]
    }

    fn text(&self) -> &str {
        match &self.summary().parts[0] {
            Part::Text(text) => text,
            part => panic!("{part:?}"),
        }
    }

    fn written_by(&self) -> &str {
        self.summary().summary.as_ref().map_or("", |origin| &origin.written_by)
    }

    fn faults(&self) -> Vec<(SummaryFault, Option<Duration>)> {
        let faults = self.events.iter().filter_map(|event| match event {
            CompactionEventKind::SummaryRefused { why, retry_in, .. } => Some((why.clone(), *retry_in)),
            _ => None,
        });
        faults.collect()
    }
}

async fn run_with(plan: &Plan, backend: &Scripted, limits: &SummaryLimits, guard: &BackendGuard) -> Run {
    run_until(plan, backend, limits, guard, &CancellationToken::new()).await
}

async fn run_until(
    plan: &Plan,
    backend: &Scripted,
    limits: &SummaryLimits,
    guard: &BackendGuard,
    cancellation: &CancellationToken,
) -> Run {
    let events = Mutex::new(Vec::new());
    let start = tokio::time::Instant::now();
    let asking = Asking {
        backend,
        limits,
        guard,
        cancellation,
        session_id: &"session".into(),
        turn_id: None,
        reason: &CompactionReason::Manual,
        metadata: &Metadata::new(),
        emit: &|event| events.lock().unwrap().push(event),
        seed: 7,
        now: Timestamp(0),
    };
    let filled = fill(&Arc::new(plan.clone()), &asking).await;
    let took = start.elapsed();
    Run { filled, events: events.into_inner().unwrap(), took }
}

async fn run(plan: &Plan, backend: &Scripted) -> Run {
    run_with(plan, backend, &SummaryLimits::default(), &BackendGuard::default()).await
}

/// A summary that has everything that must stand in one.
const GOOD: &str = "The parser is made faster in src/parser.rs, and parse_rule_1() is done.\n\
                    Never touch src/lexer.rs. Use tabs, not spaces.";
