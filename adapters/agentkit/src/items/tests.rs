use std::collections::HashSet;

use agentkit_core::{
    ArtifactId, CostUsage, FinishReason as Finish, Item as Given, MessageId, Part as GivenPart, TokenUsage,
    Usage as GivenUsage,
};
use foldback::engine::messages::{History, MessageCompactor};
use foldback::engine::{CompactionContext, DigestBackend, StrategyCompactor};
use foldback::{Budget, MutationPoint};
use foldback_testkit::strategies;
use proptest::prelude::{
    BoxedStrategy, Just, Strategy as Generator, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::*;

fn words() -> impl Generator<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ -~\n]{1,40}",
        (1usize..60).prop_map(|n| "the file was read; ".repeat(n))
    ]
}

fn value() -> impl Generator<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_filter("JSON has no others", |n| n.is_finite()).prop_map(|n| json!(n)),
        (words(), words()).prop_map(|(key, text)| json!({key: [text, {"deeper": true}]})),
    ]
}

fn metadata() -> impl Generator<Value = MetadataMap> {
    prop_oneof![3 => Just(MetadataMap::new()), 1 => prop::collection::btree_map("[a-z._]{1,12}", value(), 0..3)]
}

fn data() -> impl Generator<Value = DataRef> {
    prop_oneof![
        words().prop_map(DataRef::InlineText),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(DataRef::InlineBytes),
        "https://[a-z]{1,9}".prop_map(DataRef::Uri),
        "[a-z0-9]{1,9}".prop_map(|id| DataRef::Handle(ArtifactId(id))),
    ]
}

fn file_part() -> impl Generator<Value = FilePart> {
    (prop::option::of(words()), prop::option::of(Just("text/csv".to_owned())), data(), metadata())
        .prop_map(|(name, mime_type, data, metadata)| FilePart { name, mime_type, data, metadata })
}

/// Parts that any item may hold, and that a tool may answer with.
fn content_part() -> BoxedStrategy<GivenPart> {
    let modality =
        prop::sample::select(vec![Modality::Audio, Modality::Image, Modality::Video, Modality::Binary]);
    prop_oneof![
        (words(), metadata()).prop_map(|(text, metadata)| GivenPart::Text(TextPart { text, metadata })),
        (modality, data(), metadata()).prop_map(|(modality, data, metadata)| {
            GivenPart::Media(MediaPart { modality, mime_type: "image/png".to_owned(), data, metadata })
        }),
        file_part().prop_map(GivenPart::File),
        (value(), prop::option::of(value()), metadata()).prop_map(|(value, schema, metadata)| {
            GivenPart::Structured(StructuredPart { value, schema, metadata })
        }),
        (words(), prop::option::of(data()), prop::option::of(value()), metadata()).prop_map(
            |(kind, data, value, metadata)| GivenPart::Custom(CustomPart { kind, data, value, metadata })
        ),
    ]
    .boxed()
}

fn reasoning_part() -> BoxedStrategy<GivenPart> {
    (prop::option::of(words()), prop::option::of(data()), any::<bool>(), metadata())
        .prop_map(|(summary, data, redacted, metadata)| {
            GivenPart::Reasoning(ReasoningPart { summary, data, redacted, metadata })
        })
        .boxed()
}

fn output() -> BoxedStrategy<ToolOutput> {
    let nested = prop_oneof![4 => content_part(), 1 => reasoning_part()];
    prop_oneof![
        words().prop_map(ToolOutput::Text),
        value().prop_map(ToolOutput::Structured),
        prop::collection::vec(nested, 0..4).prop_map(ToolOutput::Parts),
        prop::collection::vec(file_part(), 0..3).prop_map(ToolOutput::Files),
    ]
    .boxed()
}

/// An item with everything that agentkit keeps beside the parts.
fn item(kind: Kind, parts: Vec<GivenPart>) -> BoxedStrategy<Given> {
    let usage = (any::<u32>(), any::<u32>(), prop::option::of(any::<u32>()), metadata()).prop_map(
        |(input, output, cached, metadata)| {
            let tokens = TokenUsage::new(input.into(), output.into());
            let tokens = TokenUsage { cached_input_tokens: cached.map(u64::from), ..tokens };
            GivenUsage { tokens: Some(tokens), cost: Some(CostUsage::new(0.25, "USD")), metadata }
        },
    );
    let finish =
        prop::sample::select(vec![Finish::Completed, Finish::Blocked, Finish::Other("odd".to_owned())]);
    let beside = (
        prop::option::of("[a-c]{1,2}".prop_map(MessageId)),
        metadata(),
        prop::option::of(usage),
        prop::option::of(finish),
        prop::option::of(any::<u64>().prop_map(agentkit::Timestamp)),
    );
    beside
        .prop_map(move |(id, metadata, usage, finish_reason, created_at)| Given {
            id,
            kind,
            parts: parts.clone(),
            metadata,
            usage,
            finish_reason,
            created_at,
        })
        .boxed()
}

/// An item of some kind, or an answer with calls and their results, ids left open.
fn step() -> BoxedStrategy<Vec<Given>> {
    let kinds = vec![
        Kind::System,
        Kind::Developer,
        Kind::User,
        Kind::User,
        Kind::Assistant,
        Kind::Context,
        Kind::Notification,
    ];
    let spoken = (prop::sample::select(kinds), prop::collection::vec(content_part(), 0..3))
        .prop_flat_map(|(kind, parts)| item(kind, parts).prop_map(|item| vec![item]));
    let called = (value(), metadata(), output(), any::<bool>(), metadata());
    let round =
        (prop::option::of(reasoning_part()), prop::option::of(words()), prop::collection::vec(called, 1..4));
    let round = round.prop_flat_map(|(reasoning, text, called)| {
        let (mut parts, mut results) = (Vec::from_iter(reasoning), Vec::new());
        parts.extend(text.map(GivenPart::text));
        for (input, call_metadata, output, is_error, metadata) in called {
            let call = ToolCallPart::new("", "shell", input).with_metadata(call_metadata);
            parts.push(GivenPart::ToolCall(call));
            results.push(ToolResultPart { call_id: "".into(), output, is_error, metadata });
        }
        let results: Vec<_> =
            results.into_iter().map(|result| item(Kind::Tool, vec![GivenPart::ToolResult(result)])).collect();
        (item(Kind::Assistant, parts), results).prop_map(|(calls, results)| [vec![calls], results].concat())
    });
    prop_oneof![spoken, round].boxed()
}

/// A transcript in which every call has its result.
fn transcript() -> impl Generator<Value = Vec<Message>> {
    prop::collection::vec(step(), 0..14).prop_map(|steps| {
        let mut items = steps.concat();
        let (mut called, mut answered) = (0, 0);
        for part in items.iter_mut().flat_map(|item| &mut item.parts) {
            match part {
                GivenPart::ToolCall(call) => (call.id, called) = (format!("c{called}").into(), called + 1),
                GivenPart::ToolResult(result) => {
                    (result.call_id, answered) = (format!("c{answered}").into(), answered + 1);
                }
                _ => {}
            }
        }
        items.into_iter().map(Message).collect()
    })
}

/// The ids of calls and results, as often as they occur.
fn halves(messages: &[Message]) -> (Vec<&str>, Vec<&str>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for part in messages.iter().flat_map(|message| &message.0.parts) {
        match part {
            GivenPart::ToolCall(call) => calls.push(call.id.0.as_str()),
            GivenPart::ToolResult(result) => results.push(result.call_id.0.as_str()),
            _ => {}
        }
    }
    (calls, results)
}

/// Whether an item may be what is left of another: what agentkit keeps beside the parts is the same.
fn is_left_of(message: &Message, given: &Message) -> bool {
    let beside = |message: &Message| Given { parts: Vec::new(), ..message.0.clone() };
    beside(given) == beside(message) && given.0.parts.len() >= message.0.parts.len()
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    /// T5: a transcript that nothing was compacted in comes back as it was, and so does a message of which
    /// every piece is left.
    #[test]
    fn what_no_compaction_touched_is_as_it_was(messages in transcript()) {
        let keep = foldback::KeepRecentStrategy::new(9);
        let keep = StrategyCompactor::builder().item_count_trigger(9_999).strategy(keep).build().unwrap();
        let compactor = MessageCompactor::new(keep);
        let point = MutationPoint::AfterTurnEnded;
        prop_assert!(compactor.due(&"s".into(), None, History::Shown(&messages), point).is_none());
        prop_assert_eq!(&compactor.shown(&"s".into()).unwrap(), &messages);
        for message in &messages {
            let count = message.0.parts.len();
            let pieces: Vec<Piece<'_>> = (0..count).map(|index| Piece { index, replaced: None }).collect();
            prop_assert_eq!(&message.with_pieces(&pieces), message);
        }
    }

    /// What is made of foldback's part reads as that part.
    #[test]
    fn what_is_made_of_a_part_reads_as_that_part(messages in transcript()) {
        for given in messages.iter().flat_map(|message| &message.0.parts) {
            let read = part(given);
            prop_assert_eq!(&part(&replaced(given, &read)), &read);
        }
    }

    /// T2, T5: whatever a compaction does, pairs stay pairs, items are agentkit's own but for the parts that
    /// were changed, and what is new says so.
    #[test]
    fn whatever_a_compaction_does_the_rest_is_agentkits_own(
        messages in transcript(),
        strategy in strategies::strategy(),
        percent in 5u64..100,
    ) {
        let view = foldback::View::from(messages.iter().flat_map(HostMessage::to_items).collect::<Vec<_>>());
        let budget = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(1))).unwrap();
        let compactor = StrategyCompactor::builder().item_count_trigger(0).strategy(strategy).budget(budget);
        let compactor = MessageCompactor::new(compactor.backend(DigestBackend).build().unwrap());
        let due = compactor.asked_for(&"s".into(), History::Shown(&messages));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let compacted = runtime.block_on(compactor.compact(due, &CompactionContext::default()));
        let Ok(Some(compacted)) = compacted else { return Ok(()) };
        let (calls, results) = halves(&compacted.messages);
        prop_assert_eq!(calls.iter().collect::<HashSet<_>>(), results.iter().collect::<HashSet<_>>());
        prop_assert_eq!(calls.len(), results.len());
        let mut given = messages.iter();
        for message in &compacted.messages {
            if message.0.metadata.contains_key(SUMMARY_METADATA_KEY) {
                prop_assert_eq!(message.0.kind, Kind::Context);
                prop_assert!(message.to_items()[0].summary.is_some(), "it is known again");
                continue;
            }
            prop_assert!(given.any(|given| is_left_of(message, given)), "{message:?} is nobody's");
        }
    }
}

#[test]
fn cached_tokens_are_counted_once_whoever_reports_them() {
    let tokens = |input, cached| {
        usage(&TokenUsage { cached_input_tokens: Some(cached), ..TokenUsage::new(input, 7) }).prompt_tokens()
    };
    assert_eq!(tokens(1_500, 1_000), Tokens(1_500), "inside the input tokens");
    assert_eq!(tokens(10, 1_000), Tokens(1_010), "beside them");
}

#[test]
fn what_a_provider_signed_is_known_as_signed() {
    let metadata = MetadataMap::from([("anthropic.thinking_signature".to_owned(), json!("sig"))]);
    let thinking = ReasoningPart::summary("hm").with_metadata(metadata.clone());
    assert_eq!(reasoning(&thinking).signature.as_deref(), Some("sig"));
    let call = GivenPart::ToolCall(ToolCallPart::new("c", "ls", json!({})).with_metadata(metadata));
    assert!(matches!(part(&call), Part::ToolCall(ToolCall { signature: Some(_), .. })));
    assert!(reasoning(&ReasoningPart::redacted_summary("")).is_sealed());
}

#[test]
fn a_shortened_result_keeps_what_stands_beside_its_text() {
    let metadata = MetadataMap::from([("exit_code".to_owned(), json!(1))]);
    let picture = GivenPart::media(Modality::Image, "image/png", DataRef::handle("artifact"));
    let output = ToolOutput::Parts(vec![GivenPart::text("long"), picture.clone()]);
    let given = GivenPart::ToolResult(ToolResultPart::error("c", output).with_metadata(metadata.clone()));
    let Part::ToolResult(mut result) = part(&given) else { panic!("{given:?}") };
    result.content[0] = ResultPart::Text("short".into());
    let GivenPart::ToolResult(made) = replaced(&given, &Part::ToolResult(result)) else {
        panic!("{given:?}")
    };
    assert!(made.is_error && made.metadata == metadata);
    assert_eq!(made.output, ToolOutput::Parts(vec![GivenPart::text("short"), picture]));
}
