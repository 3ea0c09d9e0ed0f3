//! What a compaction tells `tracing`: names, sizes and times in the fields of its spans, no contents.

use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{
    CompactionReason, Item, ItemKind, SummarizeOlderStrategy, Tokens, Transcript, Usage, View,
};
use foldback_engine::{
    BackendError, CompactionBackend, CompactionContext, CompactionRequest, CompactionResult, Compactor,
    StrategyCompactor, SummaryRequest, SummaryResult,
};
use foldback_testkit::spans::Spans;
use tokio_util::sync::CancellationToken;
use tracing::instrument::WithSubscriber;

const SECRET: &str = "the colour of the parser is mauve";

/// Writes a summary, or fails.
#[derive(Debug)]
struct Model(Option<BackendError>);

#[async_trait]
impl CompactionBackend for Model {
    async fn summarize(
        &self,
        _request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        if let Some(error) = &self.0 {
            return Err(error.clone());
        }
        let text = format!("Twenty questions about src/parser.rs were asked: {SECRET}.");
        let usage = Usage {
            input_tokens: Tokens(120),
            cached_tokens: Tokens(30),
            output_tokens: Tokens(17),
            ..Usage::default()
        };
        let items = vec![Item::text("answer", ItemKind::Context, text)];
        Ok(SummaryResult { items, usage: Some(usage), ..SummaryResult::default() })
    }

    fn name(&self) -> &str {
        "openai:gpt-x"
    }
}

fn conversation() -> View {
    let question =
        |n: usize| Item::user(format!("u{n}"), format!("What does src/parser.rs do, {n}? {SECRET}"));
    View::of(&(0..40).map(question).collect::<Transcript>())
}

async fn compacted_by(model: Model) -> (Spans, CompactionResult) {
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(model)
        .build()
        .unwrap();
    let spans = Spans::default();
    let reason = CompactionReason::Manual;
    let request = CompactionRequest::for_turn("session-7", "turn-3", conversation(), reason);
    let context = CompactionContext::default();
    let result = compactor.compact(request, &context).with_subscriber(spans.clone()).await.unwrap();
    (spans, result)
}

async fn compacted() -> (Spans, Tokens, Tokens) {
    let (spans, result) = compacted_by(Model(None)).await;
    assert_eq!(result.written_by, ["openai:gpt-x"]);
    (spans, conversation().tokens(), result.transcript.tokens())
}

#[tokio::test]
async fn the_span_of_a_compaction_says_whose_it_is_why_and_what_it_saved() {
    let (spans, before, after) = compacted().await;
    let span = spans.named("foldback.compaction");
    for (name, value) in [
        ("session_id", "session-7".to_owned()),
        ("turn_id", "turn-3".to_owned()),
        ("reason", CompactionReason::Manual.to_string()),
        ("tokens_before", before.0.to_string()),
        ("tokens_after", after.0.to_string()),
        ("first_changed", "0".to_owned()),
        ("prefix_tokens_kept", "0".to_owned()),
    ] {
        assert_eq!(span.get(name), Some(&value), "{name} in {span:?}");
    }
    assert!(span["strategy"].starts_with("summarize-older"), "{span:?}");
    assert!(span["replaced_items"].parse::<usize>().unwrap() > 30, "{span:?}");
}

#[tokio::test]
async fn the_span_of_a_call_says_who_was_asked_and_what_was_used() {
    let (spans, ..) = compacted().await;
    let span = spans.named("foldback.summary_call");
    assert_eq!((span["backend"].as_str(), span["attempt"].as_str()), ("openai:gpt-x", "1"));
    assert_eq!((span["input_tokens"].as_str(), span["output_tokens"].as_str()), ("150", "17"), "{span:?}");
    let conventions = |name: &String| name.starts_with("gen_ai.");
    assert!(
        !span.keys().any(conventions),
        "only who asks a model speaks of it, or it counts twice: {span:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_call_that_came_to_nothing_says_what_kind_of_failure_it_was() {
    for (error, kind) in [
        (BackendError::Unauthorized { status: 403 }, "403"),
        (BackendError::Rejected { status: 422, message: SECRET.to_owned() }, "422"),
        (BackendError::Unavailable { why: SECRET.to_owned() }, "unavailable"),
        (BackendError::Connection { why: SECRET.to_owned() }, "connection"),
        (BackendError::Malformed { why: SECRET.to_owned() }, "malformed"),
        (BackendError::Timeout { after: Duration::from_secs(1) }, "timeout"),
        (BackendError::Overflow { limit: None }, "context_overflow"),
        (BackendError::RateLimited { retry_after: None }, "429"),
        (BackendError::Server { status: 529, retry_after: None }, "529"),
    ] {
        let (spans, result) = compacted_by(Model(Some(error))).await;
        let span = spans.named("foldback.summary_call");
        assert_eq!((span["error.type"].as_str(), span["otel.status_code"].as_str()), (kind, "ERROR"));
        assert_eq!(result.written_by, ["digest"]);
        assert!(!format!("{span:?}").contains(SECRET), "{span:?}");
    }
}

#[tokio::test]
async fn nothing_that_was_said_is_in_a_span_or_an_event() {
    let (spans, ..) = compacted().await;
    let all = format!("{spans:?}");
    assert!(all.contains("event") && !all.contains(SECRET), "{all}");
}
