//! agentkit's chapter on compaction: when, how and with what; prompt caching; the loop.

use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use foldback::agent::{
    Agent, AgentBuilder, AgentBuilderCompactorExt, AgentCompactor, AgentEvent, AgentSession,
    CompactorMutator, LoopError, LoopMutator, Mutation, MutationContext, MutationFault, MutatorError, Staged,
    Tool, ToolContext, ToolError, ToolOutput,
};
use foldback::edit::{Drop, Edit};
use foldback::engine::{
    CompactionContext, CompactionError, CompactionEvent, CompactionEventKind, CompactionPipeline,
    CompactionReport, CompactionRequest, CompactionResult, CompactionStrategy, Compactor, StrategyCompactor,
};
use foldback::trigger::TriggerFn;
use foldback::{
    CompactionBlock, CompactionReason, DropFailedToolResultsStrategy, DropReasoningStrategy, Item, ItemKind,
    KeepRecentStrategy, MutationPoint, Part, Reason, Recalled, SessionId, SummarizeOlderStrategy, Tokens,
    ToolResult, TriggerContext, TurnId, Usage, View, context_window_trigger, item_count_trigger,
};
use serde_json::{Value, json};

use super::{Counting, Scripted, Told, ids, says, thinks};

/// A tool that says where the loop is.
#[derive(Debug)]
struct Look;

#[async_trait]
impl Tool for Look {
    fn name(&self) -> &str {
        "look"
    }

    fn description(&self) -> &str {
        "Looks around."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn call(&self, _input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok("nothing to see".into())
    }
}

/// Looks once, then answers.
fn looking() -> Scripted {
    Scripted::new(|number| match number % 2 {
        0 => vec![Part::call(format!("look-{number}"), "look", &json!({}))],
        _ => vec![Part::text("nothing there")],
    })
}

fn recent() -> KeepRecentStrategy {
    KeepRecentStrategy::new(8).preserve_kind(ItemKind::System).preserve_kind(ItemKind::Context)
}

fn past(turns: usize) -> View {
    let mut items = vec![Item::text("rules", ItemKind::System, "You look after a garden.")];
    for turn in 0..turns {
        items.push(Item::user(format!("ask{turn}"), format!("What about bed {turn}?")));
        items.push(Item::assistant(format!("say{turn}"), vec![Part::text(format!("Bed {turn} is fine."))]));
    }
    View::from(items)
}

fn fires(compactor: &StrategyCompactor, view: &View, point: MutationPoint) -> bool {
    let context = TriggerContext::of_view(view, point);
    compactor.should_compact(&SessionId::new("s"), None, &context).is_some()
}

#[tokio::test]
async fn a_compactor_is_built_and_given_to_an_agent() {
    let build = || -> Result<(Agent, Scripted), Box<dyn std::error::Error>> {
        let adapter = Scripted::saying("fine");
        let strategy = recent();
        let compactor = StrategyCompactor::builder().item_count_trigger(12).strategy(strategy).build()?;
        let agent = Agent::builder().model(adapter.clone()).compactor(compactor).build()?;
        Ok((agent, adapter))
    };
    let (agent, adapter) = build().unwrap();
    let session = agent.session("garden");
    for turn in 0..20 {
        session.send(format!("question {turn}")).await.unwrap();
    }
    let view = session.view();
    assert!(view.len() <= 12, "{}", view.len());
    assert_eq!(view.transcript().len(), 40, "the record keeps everything");
    let sent = adapter.sent();
    assert!(sent.iter().all(|items| items.len() <= 13));
    // The first request after a compaction begins with other items than the one before it; all others go on
    // where the one before them ended, so that the provider's cache can be used again.
    let resets = sent.windows(2).filter(|pair| !pair[1].starts_with(&pair[0])).count();
    assert_eq!(resets, view.overlay().blocks().len());
    assert!(resets <= 7, "{resets}");
}

#[test]
fn triggers_are_closures_over_the_transcript_and_the_point() {
    let built = |trigger: TriggerFn| StrategyCompactor::builder().trigger(trigger).strategy(recent()).build();
    let custom: TriggerFn = Box::new(|transcript, point| {
        (point == MutationPoint::AfterTurnEnded && transcript.len() > 20)
            .then_some(CompactionReason::TranscriptTooLong)
    });
    let custom = built(custom).unwrap();
    assert!(fires(&custom, &past(10), MutationPoint::AfterTurnEnded));
    assert!(!fires(&custom, &past(10), MutationPoint::AfterToolResult));
    assert!(!fires(&custom, &past(9), MutationPoint::AfterTurnEnded));
    let inline = StrategyCompactor::builder()
        .trigger(Box::new(|transcript, _| {
            let asks = transcript.items().any(|item| item.kind == ItemKind::User);
            asks.then(|| CompactionReason::Custom("somebody asked".into()))
        }))
        .strategy(recent())
        .build()
        .unwrap();
    assert!(fires(&inline, &past(1), MutationPoint::AfterToolResult));

    for counting in [
        built(item_count_trigger(12)).unwrap(),
        StrategyCompactor::builder().item_count_trigger(12).strategy(recent()).build().unwrap(),
    ] {
        assert!(!fires(&counting, &past(5), MutationPoint::AfterToolResult), "11 items");
        assert!(fires(&counting, &past(6), MutationPoint::AfterToolResult), "13 items");
    }
}

#[test]
fn a_context_window_trigger_goes_by_what_the_provider_reported() {
    let reporting = |tokens: u64| {
        let mut view = past(1);
        let usage = Usage { input_tokens: Tokens(tokens), ..Usage::default() };
        view.push(Item::assistant("reported", vec![Part::text("fine")]).with_usage(usage));
        view
    };
    for compactor in [
        StrategyCompactor::builder().trigger(context_window_trigger(200_000, 90)),
        StrategyCompactor::builder().context_window_trigger(200_000, 90),
    ] {
        let compactor = compactor.strategy(recent()).build().unwrap();
        assert!(fires(&compactor, &reporting(180_000), MutationPoint::AfterTurnEnded));
        assert!(!fires(&compactor, &reporting(179_999), MutationPoint::AfterTurnEnded));
        assert!(!fires(&compactor, &past(3), MutationPoint::AfterTurnEnded), "nothing was reported");
        assert!(fires(&compactor, &reporting(180_000), MutationPoint::AfterToolResult));
    }
}

/// Sees only what the person said.
struct OnlyQuestions;

#[async_trait]
impl CompactionStrategy for OnlyQuestions {
    async fn compact(
        &self,
        request: CompactionRequest,
        _ctx: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let kept = request.transcript.items().filter(|item| item.kind != ItemKind::Assistant);
        let kept: Vec<Arc<Item>> = kept.cloned().collect();
        Ok(CompactionResult::from_items(&request, &kept)?)
    }
}

#[tokio::test]
async fn a_strategy_is_an_asynchronous_function_from_request_to_result() {
    let request = CompactionRequest::new("s", past(3), CompactionReason::Manual);
    let result = OnlyQuestions.compact(request, &CompactionContext::default()).await.unwrap();
    assert_eq!(ids(result.transcript.items()), ["rules", "ask0", "ask1", "ask2"]);
    assert_eq!(result.replaced_items, 3);
}

#[tokio::test]
async fn preserved_kinds_are_kept_whatever_their_age_and_do_not_count() {
    let mut items: Vec<Item> = past(10).items().map(|item| Item::clone(item)).collect();
    items.insert(1, Item::text("plan", ItemKind::Context, "Bed 3 gets beans."));
    let request = CompactionRequest::new("s", items, CompactionReason::Manual);
    let result = recent().compact(request, &CompactionContext::default()).await.unwrap();
    let kept = ids(result.transcript.items());
    assert_eq!(kept[..2], ["rules", "plan"]);
    assert_eq!(kept[2..], ["ask6", "say6", "ask7", "say7", "ask8", "say8", "ask9", "say9"]);
}

/// Twenty items of the shape that the chapter shows.
fn twenty() -> Vec<Item> {
    let call = |id: &str, tool: &str| Part::call(id, tool, &json!({"bed": id}));
    let asked = |id: &str, tool: &str| Item::assistant(format!("a-{id}"), vec![call(id, tool)]);
    let found = |id: &str, text: &str| Item::tool(format!("t-{id}"), ToolResult::text(id, text));
    let said = |id: &str, text: &str| Item::assistant(id, vec![Part::text(text)]);
    let listing =
        vec![Part::reasoning("which beds are there"), Part::text("Let me see."), call("c1", "list")];
    let again = vec![Part::text("Once more."), call("c4", "plant")];
    let last = vec![Part::reasoning("water or weeds"), Part::text("I begin with bed 1.")];
    vec![
        Item::text("system", ItemKind::System, "You look after a garden."),
        Item::text("context", ItemKind::Context, "The soil is sandy."),
        Item::user("u1", "Which beds are there?"),
        Item::assistant("a-c1", listing),
        found("c1", "1, 2, 3"),
        said("a1", "There are three."),
        Item::user("u2", "How is bed 3?"),
        asked("c2", "look"),
        found("c2", "dry"),
        said("a2", "It is dry."),
        Item::user("u3", "Plant beans in it."),
        asked("c3", "plant"),
        Item::tool("t-c3", ToolResult::error("c3", "no beans left")),
        Item::assistant("a-c4", again),
        found("c4", "planted"),
        asked("c5", "look"),
        found("c5", "beans"),
        said("a3", "There are beans in it now."),
        Item::user("u4", "Now water the beds."),
        Item::assistant("a4", last),
    ]
}

#[tokio::test]
async fn twenty_items_become_ten() {
    let reports: Arc<Mutex<Vec<CompactionReport>>> = Arc::default();
    let log = Arc::clone(&reports);
    let pipeline = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(recent());
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(12)
        .strategy(pipeline)
        .observer(move |event: &CompactionEvent| {
            if let CompactionEventKind::CompactionEnded(report) = &event.kind {
                log.lock().unwrap().push(report.clone());
            }
        })
        .build()
        .unwrap();
    let view = View::from(twenty());
    assert!(fires(&compactor, &view, MutationPoint::AfterTurnEnded));
    let request = CompactionRequest::new("s", view.clone(), CompactionReason::TranscriptTooLong);
    let result = compactor.compact(request, &CompactionContext::default()).await.unwrap();
    let kept = ids(result.transcript.items());
    let expected = ["system", "context", "u3", "a-c4", "t-c4", "a-c5", "t-c5", "a3", "u4", "a4"];
    assert_eq!(kept, expected);
    assert!(result.transcript.items().all(|item| !thinks(item)));
    assert_eq!(result.replaced_items, 11, "ten are gone and one has lost its thought");
    // What the prompt cache keeps: the preserved items before the first change.
    let report = reports.lock().unwrap()[0].clone();
    assert_eq!(report.first_changed, Some(2));
    assert_eq!(report.prefix_tokens_kept, view.tokens_of(0..2));
    assert!(report.tokens_after < report.tokens_before);
}

#[tokio::test]
async fn a_backend_writes_the_summary_and_what_it_stands_for_can_be_recalled() {
    let trigger = item_count_trigger(12);
    let strategy = SummarizeOlderStrategy::new(4).preserve_kind(ItemKind::System);
    let my_backend = Counting::default();
    let compactor =
        StrategyCompactor::builder().trigger(trigger).strategy(strategy).backend(my_backend).build().unwrap();
    let request = CompactionRequest::new("s", past(10), CompactionReason::TranscriptTooLong);
    let result = compactor.compact(request, &CompactionContext::default()).await.unwrap();
    let view = result.transcript;
    assert_eq!(ids(view.items())[2..], ["ask8", "say8", "ask9", "say9"]);
    let summary = view.get(1).unwrap().item();
    assert_eq!(summary.kind, ItemKind::Context);
    assert!(says(summary).contains("a summary of 16 items"), "{}", says(summary));
    let handle = &summary.summary.as_ref().unwrap().handle;
    let Some(Recalled::Items(items)) = view.recall(handle) else { panic!("nothing is lost") };
    assert_eq!(items.len(), 16);
}

/// An agent that compacts in one of the three ways, after six questions.
async fn after_six_questions(compactor: StrategyCompactor) -> View {
    let agent = Agent::builder().model(looking()).tool(Look).compactor(compactor).build().unwrap();
    let session = agent.session("garden");
    for turn in 0..6 {
        session.send(format!("How is bed {turn}? {}", "Please look well. ".repeat(20))).await.unwrap();
    }
    session.view()
}

#[tokio::test]
async fn compaction_is_structural_or_hybrid_or_semantic() {
    let built = || StrategyCompactor::builder().item_count_trigger(12);
    let summaries = |view: &View| -> Vec<Arc<Item>> {
        view.items().filter(|item| item.summary.is_some()).cloned().collect()
    };
    let structural = built().strategy(recent()).build().unwrap();
    let view = after_six_questions(structural).await;
    assert!(view.len() < 13 && summaries(&view).is_empty());

    let older = || SummarizeOlderStrategy::new(8).preserve_kind(ItemKind::System);
    let pipeline = CompactionPipeline::new()
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(older())
        .with_strategy(KeepRecentStrategy::new(10));
    let hybrid = built().strategy(pipeline).backend(Counting::default()).build().unwrap();
    let view = after_six_questions(hybrid).await;
    assert_eq!(summaries(&view).len(), 1);

    let nested = AgentCompactor::builder()
        .model(Scripted::saying("The beds were looked at one after the other."))
        .system("You keep a garden diary.")
        .session_id("diary")
        .build()
        .unwrap();
    let semantic = built().strategy(older()).backend(nested).build().unwrap();
    let view = after_six_questions(semantic).await;
    let written = summaries(&view);
    assert_eq!(written.len(), 1);
    assert_eq!(&*written[0].summary.as_ref().unwrap().written_by, "agent:scripted");
    assert!(says(&written[0]).contains("one after the other"), "{}", says(&written[0]));
}

fn keeping_four() -> StrategyCompactor {
    let trigger: TriggerFn =
        Box::new(|transcript, _| (transcript.len() > 8).then_some(CompactionReason::TranscriptTooLong));
    StrategyCompactor::builder().trigger(trigger).strategy(KeepRecentStrategy::new(4)).build().unwrap()
}

fn gardening(told: &Told) -> AgentBuilder {
    Agent::builder().model(looking()).tool(Look).observer(told.clone())
}

#[tokio::test]
async fn a_compactor_works_between_a_tool_result_and_the_next_request() {
    let (told, model) = (Told::default(), looking());
    let agent = gardening(&told)
        .model(model.clone())
        .mutator(CompactorMutator::new(keeping_four()).with_label("pruning"))
        .build()
        .unwrap();
    let session = agent.resume("garden", past(3));
    session.say("and the hedge?").unwrap();
    session.send("look again").await.unwrap();
    let sent = model.sent();
    assert_eq!(sent[0].len(), 9, "what was said before the turn is part of the request");
    assert!(sent[1].len() < sent[0].len() + 2, "the next request is sent the compacted transcript");
    assert!(!ids(&sent[1]).contains(&"ask0".to_owned()));
    let mut mutations = told.events().into_iter().filter_map(|event| match event {
        AgentEvent::MutationStarted { mutator, point, reason, strategy, .. } => {
            assert_eq!(reason, Some(CompactionReason::TranscriptTooLong));
            assert_eq!(strategy, "keep-recent(4)");
            Some(format!("{mutator} starts {point:?}"))
        }
        AgentEvent::MutationFinished { mutator, point, dirty, metadata, replaced_items, .. } => {
            assert!(metadata.is_empty() && replaced_items > 0);
            Some(format!("{mutator} ends {point:?}, dirty: {dirty}"))
        }
        _ => None,
    });
    assert_eq!(mutations.next().unwrap(), "pruning starts AfterToolResult");
    assert_eq!(mutations.next().unwrap(), "pruning ends AfterToolResult, dirty: true");
    assert_eq!(mutations.next(), None, "where it does not fire it is not heard of");
}

/// Stops the turn it is called in.
#[derive(Debug)]
struct Stop(Arc<OnceLock<AgentSession>>);

#[async_trait]
impl Tool for Stop {
    fn name(&self) -> &str {
        "look"
    }

    fn description(&self) -> &str {
        "Looks, and does not come back."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn call(&self, _input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.get().unwrap().interrupt();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_compactor_works_after_an_answer_and_after_an_interrupt() {
    let ended = |told: &Told| {
        let at = |event: &AgentEvent| {
            let ended = MutationPoint::AfterTurnEnded;
            matches!(event, AgentEvent::MutationFinished { point, dirty: true, .. } if *point == ended)
        };
        told.events().iter().filter(|event| at(event)).count()
    };
    let told = Told::default();
    let answering = gardening(&told).model(Scripted::saying("fine")).compactor(keeping_four());
    answering.build().unwrap().resume("s", past(4)).send("and now?").await.unwrap();
    assert_eq!(ended(&told), 1);

    let (told, handle) = (Told::default(), Arc::new(OnceLock::new()));
    let agent = Agent::builder()
        .model(looking())
        .tool(Stop(Arc::clone(&handle)))
        .compactor(keeping_four())
        .observer(told.clone())
        .build()
        .unwrap();
    let session = agent.resume("s", past(4));
    handle.set(session.clone()).unwrap();
    let stopped = session.send("look once more").await;
    assert!(matches!(stopped, Err(LoopError::Interrupted)), "{stopped:?}");
    assert_eq!(ended(&told), 1);
    assert!(session.view().len() < 11);
}

/// Hides a result and leaves its call.
#[derive(Debug)]
struct Breaking;

#[async_trait]
impl Compactor for Breaking {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        (context.point == MutationPoint::AfterTurnEnded).then_some(CompactionReason::Manual)
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let view = request.transcript;
        let result = view.items().position(|item| item.kind == ItemKind::Tool).unwrap();
        let reason = Reason::new("breaking", "to see what happens");
        let block = CompactionBlock {
            strategy: "breaking".into(),
            item_count: view.transcript().len(),
            edits: vec![Edit::Drop(Drop { range: result..result + 1, reason })],
            ..CompactionBlock::default()
        };
        let broken = View::through(view.transcript(), &view.overlay().with(block));
        Ok(CompactionResult::new(broken.map_err(|error| CompactionError::Failed(error.to_string()))?, 1))
    }
}

#[tokio::test]
async fn a_broken_pair_of_call_and_result_fails_hard() {
    let told = Told::default();
    let agent = gardening(&told).compactor(Breaking).build().unwrap();
    let session = agent.session("s");
    let refused = session.send("look").await;
    let Err(LoopError::Mutator { mutator, point, why }) = refused else { panic!("{refused:?}") };
    assert_eq!((mutator.as_str(), point), ("compactor", MutationPoint::AfterTurnEnded));
    assert!(matches!(why, MutationFault::Invalid { .. }), "{why}");
    assert_eq!(session.view().len(), 4, "the transcript is what it was");
}

/// Reminds the model of the season, once.
#[derive(Debug)]
struct Season;

#[async_trait]
impl LoopMutator for Season {
    fn label(&self) -> &str {
        "season"
    }

    async fn mutate(
        &self,
        staged: &mut Staged,
        context: &MutationContext<'_>,
    ) -> Result<Mutation, MutatorError> {
        let is_told = staged.view().items().any(|item| item.kind == ItemKind::Notification);
        if context.point == MutationPoint::AfterToolResult && !is_told {
            staged.push(Item::text("season", ItemKind::Notification, "It is spring."));
        }
        Ok(Mutation::done())
    }
}

#[tokio::test]
async fn a_mutator_of_ones_own_changes_what_is_sent_next() {
    let (told, model) = (Told::default(), looking());
    let agent = gardening(&told).model(model.clone()).mutator(Season).build().unwrap();
    agent.session("s").send("look").await.unwrap();
    let sent = model.sent();
    assert!(ids(&sent[1]).contains(&"season".to_owned()));
}
