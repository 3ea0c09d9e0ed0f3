use foldback::engine::messages::{History, MessageCompactor};
use foldback::engine::{CompactionContext, DigestBackend, StrategyCompactor};
use foldback::{Budget, MutationPoint};
use foldback_testkit::strategies;
use proptest::prelude::{
    BoxedStrategy, Just, Strategy as Generator, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use rig_core::message::{LocalCallId, Origin, ProviderCallId};
use rig_core::transcript::validate_canonical;

use super::*;

fn words() -> BoxedStrategy<String> {
    prop_oneof!["[ -~\n]{1,40}", (1usize..60).prop_map(|n| "the file was read; ".repeat(n))].boxed()
}

fn data() -> BoxedStrategy<DocumentSourceKind> {
    prop_oneof![
        words().prop_map(DocumentSourceKind::String),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(DocumentSourceKind::Raw),
        "https://[a-z]{1,9}".prop_map(DocumentSourceKind::Url),
        "[a-z0-9]{1,9}".prop_map(DocumentSourceKind::FileId),
        Just(DocumentSourceKind::Unknown),
    ]
    .boxed()
}

fn picture() -> BoxedStrategy<message::Image> {
    let media_type = prop::option::of(prop::sample::select(vec![ImageMediaType::PNG, ImageMediaType::SVG]));
    (data(), media_type)
        .prop_map(|(data, media_type)| message::Image { data, media_type, ..message::Image::default() })
        .boxed()
}

fn given_content() -> BoxedStrategy<UserContent> {
    let pdf = prop::option::of(Just(DocumentMediaType::PDF));
    prop_oneof![
        4 => words().prop_map(|text| UserContent::Text(message::Text::new(text))),
        1 => picture().prop_map(UserContent::Image),
        1 => (data(), pdf).prop_map(|(data, media_type)| {
            let additional_params = Some(json!({"title": "report"}));
            UserContent::Document(message::Document { data, media_type, additional_params })
        }),
        1 => data().prop_map(|data| UserContent::Audio(message::Audio { data, media_type: None })),
    ]
    .boxed()
}

/// What the model says beside calls; with the provider's own form of it or without.
fn said_content() -> BoxedStrategy<AssistantContent> {
    let reasoning = (words(), any::<bool>()).prop_map(|(text, redacted)| {
        AssistantContent::Reasoning(message::Reasoning { text, redacted, native: None })
    });
    let opaque = any::<bool>().prop_map(|replay| {
        AssistantContent::Opaque(message::Opaque { item: json!({"type": "web_search_call"}), replay })
    });
    let text = words().prop_map(|text| AssistantContent::Text(message::Text::new(text)));
    let content =
        prop_oneof![4 => text, 2 => reasoning, 1 => opaque, 1 => picture().prop_map(AssistantContent::Image)];
    (content, any::<bool>())
        .prop_map(|(content, is_native)| match is_native {
            true => content.with_native(json!({"id": "item-1", "signature": "sig"})),
            false => content,
        })
        .boxed()
}

fn output() -> BoxedStrategy<Vec<ToolResultContent>> {
    let content = prop_oneof![
        words().prop_map(|text| ToolResultContent::Text(message::Text::new(text))),
        words().prop_map(|text| ToolResultContent::Json { value: json!({ "text": text }) }),
        picture().prop_map(ToolResultContent::Image),
    ];
    prop::collection::vec(content, 1..3).boxed()
}

/// A question, rounds of calls with their results, and an answer: as rig records a run. Some results come
/// with words of the user.
fn run() -> BoxedStrategy<Vec<Message>> {
    let call = (output(), any::<[bool; 3]>());
    let round =
        (prop::option::of(said_content()), prop::collection::vec(call, 1..4), prop::option::of(words()));
    let run = (
        prop::collection::vec(given_content(), 1..3),
        prop::collection::vec(round, 0..5),
        prop::collection::vec(said_content(), 1..3),
    );
    run.prop_map(|(question, rounds, answer)| {
        let mut messages = vec![Message::User { content: question }];
        for (said, calls, words) in rounds {
            let (mut content, mut results) = (Vec::from_iter(said), Vec::new());
            for (output, [is_local, is_error, is_native]) in calls {
                let id = match is_local {
                    true => CallId::Local(LocalCallId::new()),
                    false => ProviderCallId::new(LocalCallId::new().to_string()).unwrap().into(),
                };
                let function = ToolFunction::new(ToolName::new("shell").unwrap(), json!({"command": "ls"}));
                let call = message::ToolCall::new(id, function);
                let result = if is_error { call.error_result(output) } else { call.result(output) };
                results.push(UserContent::ToolResult(result));
                let call = AssistantContent::ToolCall(call);
                let native = json!({"thoughtSignature": "sig"});
                content.push(if is_native { call.with_native(native) } else { call });
            }
            results.extend(words.map(|text| UserContent::Text(message::Text::new(text))));
            let turn = AssistantMessage::new(content).with_stop(StopReason::ToolUse);
            messages.push(Message::Assistant(turn.with_origin(Origin::new("mock.script", "mock", "m"))));
            messages.push(Message::User { content: results });
        }
        messages.push(Message::Assistant(AssistantMessage::new(answer).with_stop(StopReason::Stop)));
        messages
    })
    .boxed()
}

fn conversation() -> BoxedStrategy<Vec<Told>> {
    let system = prop::option::of(words().prop_map(|content| Message::System { content }));
    (system, prop::collection::vec(run(), 0..6))
        .prop_map(|(system, runs)| system.into_iter().chain(runs.concat()).map(Told).collect())
        .boxed()
}

fn messages(told: &[Told]) -> Vec<Message> {
    told.iter().map(|Told(message)| message.clone()).collect()
}

/// How many pieces a message has.
fn piece_count(Told(message): &Told) -> usize {
    match message {
        Message::System { .. } => 1,
        Message::User { content } => content.len(),
        Message::Assistant(turn) => turn.content.len(),
    }
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    /// T5: a conversation that nothing was compacted in comes back as it was, and so does a message of which
    /// every piece is left.
    #[test]
    fn what_no_compaction_touched_is_as_it_was(told in conversation()) {
        prop_assert_eq!(validate_canonical(&messages(&told)), Ok(()), "the generator is sound");
        let keep = foldback::KeepRecentStrategy::new(9);
        let keep = StrategyCompactor::builder().item_count_trigger(9_999).strategy(keep).build().unwrap();
        let compactor = MessageCompactor::new(keep);
        let point = MutationPoint::AfterTurnEnded;
        prop_assert!(compactor.due(&"s".into(), None, History::Whole(&told), point).is_none());
        prop_assert_eq!(&compactor.shown(&"s".into()).unwrap(), &told);
        for told in &told {
            let pieces = (0..piece_count(told)).map(|index| Piece { index, replaced: None });
            prop_assert_eq!(&told.with_pieces(&pieces.collect::<Vec<_>>()), told);
            let items = told.to_items();
            prop_assert_eq!(items.iter().map(|item| item.parts.len()).sum::<usize>(), piece_count(told));
        }
    }

    /// T2, T5: whatever a compaction does, the history is one that rig accepts, and what is no summary is rig's
    /// own but for the pieces that were changed.
    #[test]
    fn whatever_a_compaction_does_rig_accepts_the_history(
        told in conversation(),
        strategy in strategies::strategy(),
        percent in 5u64..100,
    ) {
        let view = foldback::View::from(told.iter().flat_map(HostMessage::to_items).collect::<Vec<_>>());
        let budget = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(1))).unwrap();
        let compactor = StrategyCompactor::builder().item_count_trigger(0).strategy(strategy).budget(budget);
        let compactor = MessageCompactor::new(compactor.backend(DigestBackend).build().unwrap());
        let due = compactor.asked_for(&"s".into(), History::Whole(&told));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let compacted = runtime.block_on(compactor.compact(due, &CompactionContext::default()));
        let Ok(Some(compacted)) = compacted else { return Ok(()) };
        let shown = history(compacted.messages.clone());
        prop_assert_eq!(validate_canonical(&shown), Ok(()));
        prop_assert!(!shown.iter().any(is_empty), "rig sends no empty message");
        let mut given = told.iter();
        for told in &compacted.messages {
            let is_summary = told.to_items()[0].summary.is_some();
            prop_assert!(is_summary || given.any(|given| is_left_of(told, given)), "{told:?} is nobody's");
        }
    }
}

/// Whether a message may be what is left of another: what rig keeps beside the pieces is the same.
fn is_left_of(told: &Told, given: &Told) -> bool {
    let is_alike = match (&given.0, &told.0) {
        (Message::Assistant(given), Message::Assistant(told)) => {
            (&given.origin, &given.stop) == (&told.origin, &told.stop)
        }
        (Message::User { .. }, Message::User { .. }) | (Message::System { .. }, Message::System { .. }) => {
            true
        }
        _ => false,
    };
    is_alike && piece_count(given) >= piece_count(told)
}

#[test]
fn rigs_own_call_ids_are_told_from_those_of_providers() {
    let local = CallId::Local(LocalCallId::new());
    let provider = CallId::from(ProviderCallId::new(local.to_string()).unwrap());
    assert_ne!(call_id(&local), call_id(&provider));
    assert_eq!((made_call_id(&call_id(&local)), made_call_id(&call_id(&provider))), (local, provider));
}

#[test]
fn results_and_words_in_one_message_are_two_items() {
    let call = message::ToolCall::from_wire("c", ToolFunction::new(ToolName::new("ls").unwrap(), json!({})));
    let result = call.result(vec![ToolResultContent::Text(message::Text::new("a.rs"))]);
    let words = UserContent::Text(message::Text::new("go on"));
    let told = Told(Message::User { content: vec![UserContent::ToolResult(result), words] });
    let kinds: Vec<ItemKind> = told.to_items().iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [ItemKind::Tool, ItemKind::User]);
}

#[test]
fn a_shortened_result_keeps_its_call_and_tool() {
    let call = message::ToolCall::from_wire("c", ToolFunction::new(ToolName::new("ls").unwrap(), json!({})));
    let long = call.error_result(vec![ToolResultContent::Text(message::Text::new("long"))]);
    let told = Told(Message::User { content: vec![UserContent::ToolResult(long.clone())] });
    let short = Part::ToolResult(ToolResult::error("c", "short"));
    let Told(Message::User { content }) = told.with_pieces(&[Piece { index: 0, replaced: Some(&short) }])
    else {
        panic!("{told:?}")
    };
    let content_made = vec![ToolResultContent::Text(message::Text::new("short"))];
    assert_eq!(content, [UserContent::ToolResult(message::ToolResult { content: content_made, ..long })]);
}
