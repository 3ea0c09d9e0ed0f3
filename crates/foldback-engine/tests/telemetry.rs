//! What a compaction tells `tracing`: names, sizes and times in the fields of its spans, no contents.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use foldback_core::{
    CompactionReason, Item, ItemKind, SummarizeOlderStrategy, Tokens, Transcript, Usage, View,
};
use foldback_engine::{
    BackendError, CompactionBackend, CompactionContext, CompactionRequest, Compactor, StrategyCompactor,
    SummaryRequest, SummaryResult,
};
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const SECRET: &str = "the colour of the parser is mauve";

type FieldValues = BTreeMap<String, String>;

/// Spans by name, with the fields that were recorded last.
#[derive(Clone, Debug, Default)]
struct Spans(Arc<Mutex<Vec<(String, FieldValues)>>>);

impl Spans {
    fn named(&self, name: &str) -> FieldValues {
        let spans = self.0.lock().unwrap();
        spans.iter().find(|(of, _)| of == name).unwrap_or_else(|| panic!("no {name} in {spans:?}")).1.clone()
    }
}

struct Fields<'f>(&'f mut FieldValues);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        let mut spans = self.0.lock().unwrap();
        spans.push((span.metadata().name().to_owned(), fields));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let index = span.into_u64() as usize - 1;
        values.record(&mut Fields(&mut self.0.lock().unwrap()[index].1));
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().push(("event".to_owned(), fields));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[derive(Debug)]
struct Model;

#[async_trait]
impl CompactionBackend for Model {
    async fn summarize(
        &self,
        _request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
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

async fn compacted() -> (Spans, Tokens, Tokens) {
    let question =
        |n: usize| Item::user(format!("u{n}"), format!("What does src/parser.rs do, {n}? {SECRET}"));
    let view = View::of(&(0..40).map(question).collect::<Transcript>());
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(Model)
        .build()
        .unwrap();
    let spans = Spans::default();
    let request = CompactionRequest::for_turn("session-7", "turn-3", view.clone(), CompactionReason::Manual);
    let context = CompactionContext::default();
    let result = compactor.compact(request, &context).with_subscriber(spans.clone()).await.unwrap();
    assert_eq!(result.written_by, ["openai:gpt-x"]);
    (spans, view.tokens(), result.transcript.tokens())
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
    let (input, output) = match cfg!(feature = "otel") {
        true => ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        false => ("input_tokens", "output_tokens"),
    };
    assert_eq!((span["backend"].as_str(), span["attempt"].as_str()), ("openai:gpt-x", "1"));
    assert_eq!((span[input].as_str(), span[output].as_str()), ("150", "17"), "{span:?}");
    if cfg!(feature = "otel") {
        let model = (span["gen_ai.operation.name"].as_str(), span["gen_ai.request.model"].as_str());
        assert_eq!(model, ("chat", "gpt-x"));
    }
}

#[tokio::test]
async fn nothing_that_was_said_is_in_a_span_or_an_event() {
    let (spans, ..) = compacted().await;
    let all = format!("{:?}", spans.0.lock().unwrap());
    assert!(all.contains("event") && !all.contains(SECRET), "{all}");
}
