//! Mutations are transactions: committed whole, with what arrived meanwhile, or not at all.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::edit::{Drop, Edit};
use foldback_core::{
    CompactionBlock, CompactionReason, Item, ItemKind, KeepRecentStrategy, LastCompaction, MutationPoint,
    Overlay, Part, Policy, Reason, Room, SessionId, StructuralEvent, Tokens, Transcript, TriggerContext,
    TruncateToolOutputsStrategy, TurnId, View,
};
use foldback_engine::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, Compactor, StrategyCompactor,
};
use foldback_loop::{
    Agent, AgentBuildError, AgentBuilderCompactorExt, AgentEvent, CompactorMutator, LoopError, LoopMutator,
    Mutation, MutationContext, MutationFault, MutatorError, Staged,
};
use tokio::sync::{mpsc, oneshot};

use crate::agent::support::*;

/// Does what a test says.
struct Doing<F>(&'static str, F);

impl<F> std::fmt::Debug for Doing<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

#[async_trait]
impl<F> LoopMutator for Doing<F>
where
    F: Fn(&mut Staged, &MutationContext<'_>) -> Result<Mutation, MutatorError> + Send + Sync,
{
    fn label(&self) -> &str {
        self.0
    }

    async fn mutate(
        &self,
        staged: &mut Staged,
        context: &MutationContext<'_>,
    ) -> Result<Mutation, MutatorError> {
        (self.1)(staged, context)
    }
}

/// The view without the items at these transcript indices.
fn without(view: &View, range: std::ops::Range<usize>) -> View {
    let block = CompactionBlock {
        edits: vec![Edit::Drop(Drop { range, reason: Reason::new("test", "because") })],
        strategy: "test".into(),
        tokens_before: view.tokens(),
        tokens_after: view.tokens(),
        ..CompactionBlock::default()
    };
    View::through(view.transcript(), &view.overlay().with(block)).unwrap()
}

fn one_call() -> Script {
    Script::new(|index, _| match index {
        0 => Reply::Parts(vec![call("c1", "ls")]),
        _ => Reply::Say("done"),
    })
}

#[tokio::test]
async fn a_mutation_that_breaks_a_pair_is_refused_and_the_transcript_stays() {
    for (dropped, point) in [(1..2, MutationPoint::AfterToolResult), (2..3, MutationPoint::AfterTurnEnded)] {
        let range = dropped.clone();
        let breaking = Doing("breaking", move |staged: &mut Staged, context: &MutationContext<'_>| {
            if context.point == point {
                staged.install(without(staged.view(), range.clone()));
            }
            Ok(Mutation::done())
        });
        let (model, events) = (one_call(), Events::default());
        let agent = Agent::builder()
            .model(model.clone())
            .tool(Shell::saying("x"))
            .mutator(breaking)
            .observer(events.observer())
            .build()
            .unwrap();
        let session = agent.session("s");
        let error = session.send("go").await.unwrap_err();
        let LoopError::Mutator { mutator, why: MutationFault::Invalid { violations }, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((mutator.as_str(), violations.is_empty()), ("breaking", false));
        assert!(session.view().overlay().blocks().is_empty(), "the view is what it was");
        assert_eq!(session.view().pending_calls().count(), 0);
        assert!(events.mutations().iter().all(|(_, dirty, _)| !dirty));
    }
}

#[tokio::test]
async fn a_mutation_that_changes_the_record_is_refused() {
    let forging = Doing("forging", |staged: &mut Staged, _: &MutationContext<'_>| {
        let mut forged = staged.view().transcript().clone_empty();
        let items = staged.view().items().skip(1).cloned();
        forged.push(Item::user("u", "something the person never said"));
        forged.extend(items);
        staged.install(View::of(&forged));
        Ok(Mutation::done())
    });
    let agent = Agent::builder().model(one_call()).tool(Shell::saying("x")).mutator(forging).build().unwrap();
    let session = agent.session("s");
    let error = session.send("the real thing").await.unwrap_err();
    assert!(matches!(error, LoopError::Mutator { why: MutationFault::RecordChanged, .. }), "{error}");
    let view = session.view();
    assert!(text(&view.items().cloned().collect::<Vec<_>>()).contains("the real thing"));
}

#[tokio::test]
async fn a_mutator_that_fails_or_panics_ends_the_turn_with_the_view_as_it_was() {
    for is_panic in [false, true] {
        let failing = Doing("failing", move |staged: &mut Staged, _: &MutationContext<'_>| {
            staged.push(Item::text("note", ItemKind::Notification, "half a change"));
            assert!(!is_panic, "on purpose");
            Err(MutatorError::new("no disk"))
        });
        let agent =
            Agent::builder().model(one_call()).tool(Shell::saying("x")).mutator(failing).build().unwrap();
        let session = agent.session("s");
        let error = session.send("go").await.unwrap_err();
        assert!(matches!(error, LoopError::Mutator { .. }), "{error}");
        assert!(session.view().items().all(|item| item.kind != ItemKind::Notification));
    }
}

#[tokio::test]
async fn mutators_run_in_order_each_on_what_the_one_before_left() {
    let noting = |label: &'static str, seen: &'static str| {
        Doing(label, move |staged: &mut Staged, _: &MutationContext<'_>| {
            let is_there = staged.view().items().any(|item| item.id.as_str() == seen);
            assert!(seen.is_empty() || is_there);
            staged.push(Item::text(label, ItemKind::Notification, "note"));
            Ok(Mutation::done())
        })
    };
    let events = Events::default();
    let agent = Agent::builder()
        .model(Script::new(|_, _| Reply::Say("done")))
        .mutator(noting("first", ""))
        .mutator(noting("second", "first"))
        .observer(events.observer())
        .build()
        .unwrap();
    let session = agent.session("s");
    session.send("go").await.unwrap();
    let ids: Vec<String> = session.view().items().skip(2).map(|item| item.id.to_string()).collect();
    assert_eq!(ids, ["first", "second"]);
    let order: Vec<String> = events
        .all()
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::MutationStarted { mutator, point: MutationPoint::AfterTurnEnded, .. } => {
                Some(format!("{mutator} starts"))
            }
            AgentEvent::MutationFinished { mutator, dirty, .. } => Some(format!("{mutator} {dirty}")),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["first starts", "first true", "second starts", "second true"]);
}

/// What events say of mutations, in order.
fn told(events: &Events) -> Vec<String> {
    let told = |event| match event {
        AgentEvent::MutationStarted { mutator, reason, strategy, .. } => Some(format!(
            "{mutator} starts {strategy}, {}",
            reason.map_or("unsaid".into(), |why| why.to_string())
        )),
        AgentEvent::MutationFinished {
            mutator, dirty, replaced_items, tokens_before, tokens_after, ..
        } => {
            assert!(tokens_after <= tokens_before);
            Some(format!("{mutator} ends, dirty {dirty}, replaced {replaced_items}"))
        }
        _ => None,
    };
    events.all().into_iter().filter_map(told).collect()
}

#[tokio::test]
async fn events_come_only_from_mutators_that_decided_to_work() {
    let events = Events::default();
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(KeepRecentStrategy::new(2))
        .build()
        .unwrap();
    let looking = Doing("looking", |_: &mut Staged, _: &MutationContext<'_>| Ok(Mutation::done()));
    let agent = Agent::builder()
        .model(Script::new(|_, _| Reply::Say("yes")))
        .mutator(looking)
        .compactor(compactor)
        .observer(events.observer())
        .build()
        .unwrap();
    let session = agent.session("s");
    session.send("one").await.unwrap();
    session.send("two").await.unwrap();
    assert_eq!(told(&events), [""; 0], "nothing was to be done yet");
    session.send("three").await.unwrap();
    let expected =
        ["compactor starts keep-recent(2), transcript too long", "compactor ends, dirty true, replaced 4"];
    assert_eq!(told(&events), expected);
}

#[tokio::test]
async fn a_mutator_that_fails_before_it_said_that_it_works_is_heard_of() {
    let events = Events::default();
    let failing = Doing("failing", |_: &mut Staged, _: &MutationContext<'_>| Ok(Mutation::failed("no disk")));
    let agent = Agent::builder()
        .model(Script::new(|_, _| Reply::Say("yes")))
        .mutator(failing)
        .observer(events.observer())
        .build()
        .unwrap();
    agent.session("s").send("one").await.unwrap();
    assert_eq!(told(&events), ["failing starts failing, unsaid", "failing ends, dirty false, replaced 0"]);
}

/// Says that it began, then waits to be told to end; the view it hands back was made before.
#[derive(Debug)]
struct Slow {
    began: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

#[async_trait]
impl LoopMutator for Slow {
    fn label(&self) -> &str {
        "slow"
    }

    async fn mutate(
        &self,
        staged: &mut Staged,
        context: &MutationContext<'_>,
    ) -> Result<Mutation, MutatorError> {
        if context.point == MutationPoint::AfterToolResult {
            let (go_on, wait) = oneshot::channel();
            self.began.send(go_on).unwrap();
            wait.await.unwrap();
            staged.install(without(staged.view(), 0..2));
        }
        Ok(Mutation::done())
    }
}

#[tokio::test]
async fn what_is_pushed_while_a_compaction_is_made_is_all_there_afterwards_in_order() {
    let model = Script::new(|index, _| match index {
        0 => Reply::Parts(vec![call("c1", "ls")]),
        _ => Reply::Say("done"),
    });
    let (began, mut begun) = mpsc::unbounded_channel();
    let agent = Agent::builder()
        .model(model.clone())
        .tool(Shell::saying("x"))
        .mutator(Slow { began })
        .build()
        .unwrap();
    let mut transcript = Transcript::default();
    transcript.push(Item::user("old", "old news"));
    transcript.push(Item::assistant("a", vec![Part::text("noted")]));
    transcript.push(Item::user("kept", "still here"));
    let session = agent.resume("s", View::of(&transcript));
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.send("go").await }
    });
    let go_on = begun.recv().await.unwrap();
    for n in 0..20 {
        session.say(format!("meanwhile {n}")).unwrap();
    }
    go_on.send(()).unwrap();
    turn.await.unwrap().unwrap();
    let sent = text(&model.requests()[1]);
    assert!(!sent.contains("old news"), "the mutation was committed");
    let places: Vec<usize> = (0..20).map(|n| sent.find(&format!("meanwhile {n}")).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(sent.find("still here").unwrap() < places[0]);
}

#[tokio::test]
async fn triggers_are_told_what_happened_where_and_what_is_to_come() {
    type Seen = (MutationPoint, Vec<StructuralEvent>, bool, Option<LastCompaction>, u64);
    let seen: Arc<std::sync::Mutex<Vec<Seen>>> = Arc::default();
    let log = Arc::clone(&seen);
    let compactor = Strategic::new(KeepRecentStrategy::new(2), move |_, context| {
        log.lock().unwrap().push((
            context.point,
            context.events.to_vec(),
            context.needs_follow_up,
            context.last_compaction,
            context.tokens.upper.0,
        ));
        (context.point == MutationPoint::AfterTurnEnded).then_some(CompactionReason::TranscriptTooLong)
    });
    let model = Script::new(|index, _| match index {
        0 => Reply::Reported(vec![call("c1", "ls")], usage(400, 90_000, 10)),
        _ => Reply::Say("done"),
    });
    let agent = Agent::builder().model(model).tool(Shell::saying("x")).compactor(compactor).build().unwrap();
    let session = agent.session("s");
    session.send("go").await.unwrap();
    session.send("again").await.unwrap();
    session.send("and again").await.unwrap();
    let seen = seen.lock().unwrap().clone();
    let (point, events, needs_follow_up, last, tokens) = &seen[0];
    assert_eq!((*point, *needs_follow_up, *last), (MutationPoint::AfterToolResult, true, None));
    assert_eq!(*events, [StructuralEvent::NewItem, StructuralEvent::ToolOutput]);
    assert!(*tokens > 90_000, "cached tokens count: {tokens}");
    let (point, events, needs_follow_up, ..) = &seen[1];
    assert_eq!((*point, *needs_follow_up), (MutationPoint::AfterTurnEnded, false));
    assert_eq!(*events, [StructuralEvent::NewItem]);
    let completed = |seen: &&Seen| seen.1.contains(&StructuralEvent::CompactionCompleted);
    let (_, _, _, last, tokens) = seen.iter().find(completed).expect("a compaction was committed");
    assert!(last.is_some() && *tokens < 1_000, "{last:?} {tokens}");
}

#[tokio::test]
async fn a_person_can_compact_and_undo() {
    let compactor = Strategic::new(KeepRecentStrategy::new(2), |_, _| None);
    let agent =
        Agent::builder().model(Script::new(|_, _| Reply::Say("yes"))).compactor(compactor).build().unwrap();
    let session = agent.session("s");
    for n in 0..5 {
        session.send(format!("question {n}")).await.unwrap();
    }
    assert_eq!(session.view().len(), 10);
    let round = session.compact(None).await.unwrap();
    assert_eq!(round.dirty, ["compactor"]);
    assert!(session.view().len() < 10);
    let block = session.undo().await.unwrap().unwrap();
    assert_eq!(block.cause, Some(CompactionReason::Manual));
    assert_eq!(session.view().len(), 10);
    assert_eq!(session.view().overlay(), &Overlay::default());
    assert!(session.undo().await.unwrap().is_none());
}

/// Keeps the requests it gets.
#[derive(Clone, Debug, Default)]
struct Keeping(Arc<std::sync::Mutex<Vec<CompactionRequest>>>);

#[async_trait]
impl Compactor for Keeping {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        _context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        None
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        self.0.lock().unwrap().push(request.clone());
        Ok(CompactionResult::unchanged(request.transcript))
    }
}

#[tokio::test]
async fn what_the_person_asks_a_summary_to_attend_to_reaches_the_compactor() {
    let keeping = Keeping::default();
    let agent = Agent::builder()
        .model(Script::new(|_, _| Reply::Say("yes")))
        .compactor(keeping.clone())
        .build()
        .unwrap();
    let session = agent.session("s");
    session.send("go").await.unwrap();
    let round = session.compact(Some("the parser".into())).await.unwrap();
    assert!(round.dirty.is_empty());
    let requests = keeping.0.lock().unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].focus.as_deref(), Some("the parser"));
    assert_eq!(requests[0].reason, CompactionReason::Manual);
}

#[tokio::test]
async fn a_list_of_items_is_installed_as_edits_that_can_be_undone() {
    let forgetting = Doing("forgetting", |staged: &mut Staged, context: &MutationContext<'_>| {
        if context.is_asked_for() {
            let kept: Vec<Arc<Item>> = staged.view().items().skip(2).cloned().collect();
            staged.set_items(&kept).map_err(|error| MutatorError::new(error.to_string()))?;
        }
        Ok(Mutation::done())
    });
    let agent =
        Agent::builder().model(Script::new(|_, _| Reply::Say("yes"))).mutator(forgetting).build().unwrap();
    let session = agent.session("s");
    session.send("one").await.unwrap();
    session.send("two").await.unwrap();
    session.compact(None).await.unwrap();
    assert_eq!(kinds(session.view().items()), ["user", "assistant"]);
    assert!(session.undo().await.unwrap().is_some());
    assert_eq!(session.view().len(), 4);
}

#[test]
fn compactors_have_labels_of_their_own() {
    let compactor = || Strategic::new(KeepRecentStrategy::new(2), |_, _| None);
    let model = || Script::new(|_, _| Reply::Say(""));
    let two = Agent::builder().model(model()).compactor(compactor()).compactor(compactor()).build().unwrap();
    assert!(format!("{two:?}").contains("[\"compactor\", \"compactor-2\"]"), "{two:?}");
    let same = Agent::builder()
        .model(model())
        .mutator(CompactorMutator::new(compactor()).with_label("x"))
        .mutator(CompactorMutator::new(compactor()).with_label("x"))
        .build();
    assert_eq!(same.unwrap_err(), AgentBuildError::DuplicateMutator { label: "x".to_owned() });
}

#[tokio::test]
async fn a_policy_shortens_results_before_the_model_reads_them_and_the_prompt_cache_stays_warm() {
    let long: String = (0..3_000).map(|n| format!("{n}: a line that the command printed\n")).collect();
    let model = Script::new(|index, _| match index {
        0..3 => Reply::Reported(vec![call(&format!("c{index}"), "cat")], usage(400, 90_000, 10)),
        _ => Reply::Say("done"),
    });
    let compactor = StrategyCompactor::builder()
        .policy(&Policy::named("codex").unwrap(), Room::new(Tokens(400_000)))
        .build()
        .unwrap();
    let events = Events::default();
    let agent = Agent::builder()
        .model(model.clone())
        .tool(Shell::saying(long.clone()))
        .compactor(compactor)
        .observer(events.observer())
        .build()
        .unwrap();
    let session = agent.session("s");
    session.send("look at all of it").await.unwrap();
    let requests = model.requests();
    assert_eq!(requests.len(), 4);
    let meter = session.view().transcript().meter().clone();
    for (request, next) in requests.iter().zip(&requests[1..]) {
        assert!(next.starts_with(request), "what was sent is sent again as it was");
        let result = next.last().unwrap();
        assert!(meter.item(result).total <= Tokens(10_010), "{}", meter.item(result).total);
        assert!(text(std::slice::from_ref(result)).contains("[folded @"));
    }
    let blocks = session.view().overlay().blocks().to_vec();
    assert_eq!(blocks.len(), 3, "each result once");
    assert!(blocks.iter().all(|block| block.cause == Some(CompactionReason::ToolOutput)));
    let begun: Vec<(Option<CompactionReason>, String)> = events
        .all()
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::MutationStarted { reason, strategy, .. } => Some((reason, strategy)),
            _ => None,
        })
        .collect();
    let shortening = (Some(CompactionReason::ToolOutput), "truncate-tool-outputs".to_owned());
    assert_eq!(begun, [shortening.clone(), shortening.clone(), shortening]);
    session.undo().await.unwrap();
    let newest = session.view().items().rev().find(|item| item.kind == ItemKind::Tool).unwrap().clone();
    assert_eq!(text(&[newest]), long, "the record has all of it");
    assert_eq!(session.view().overlay().blocks().len(), 2, "the others stay short");
}

#[tokio::test]
async fn what_was_reported_outlives_a_result_that_is_shortened_and_no_compaction_is_told_of() {
    type Seen = (MutationPoint, Vec<StructuralEvent>, Option<LastCompaction>, u64);
    let seen: Arc<std::sync::Mutex<Vec<Seen>>> = Arc::default();
    let log = Arc::clone(&seen);
    let listening = Strategic::new(KeepRecentStrategy::new(2), move |_, context| {
        let tokens = context.tokens.upper.0;
        log.lock().unwrap().push((context.point, context.events.to_vec(), context.last_compaction, tokens));
        None
    });
    let model = Script::new(|index, _| match index {
        0 => Reply::Reported(vec![call("c1", "cat")], usage(400, 90_000, 10)),
        _ => Reply::Say("done"),
    });
    let shorten = TruncateToolOutputsStrategy::by_tokens(Tokens(1_000)).unwrap().shorten_fresh();
    let shortening = StrategyCompactor::builder()
        .item_count_trigger(1_000)
        .strategy(KeepRecentStrategy::new(2))
        .when_recorded(shorten)
        .build()
        .unwrap();
    let agent = Agent::builder()
        .model(model)
        .tool(Shell::saying("word ".repeat(50_000)))
        .compactor(shortening)
        .compactor(listening)
        .build()
        .unwrap();
    agent.session("s").send("look").await.unwrap();
    let seen = seen.lock().unwrap().clone();
    let [(point, _, _, tokens), (_, events, last, _)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(*point, MutationPoint::AfterToolResult);
    assert!((90_400..95_000).contains(tokens), "{tokens}");
    assert!(!events.contains(&StructuralEvent::CompactionCompleted) && last.is_none(), "{events:?}");
}
