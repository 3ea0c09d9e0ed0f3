//! phi-core's compaction: loops with blocks beside the messages, and lists compacted in memory.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use foldback::engine::session::{
    BlockCompactionStrategy, CompactedSection, CompactionBlock, CompactionConfig, CompactionScope,
    DefaultBlockCompaction, LoopPlace, LoopRecord, LoopTurns, RecordedCompaction, Session, SessionError,
    SessionRecorder, build_context_from_session, compact_session_loops, resolve_scope,
};
use foldback::engine::{
    CompactionError, CompactionEvent, CompactionEventKind, CompactionHook, CompactionHooks,
    CompactionRequest, CompactionResult,
};
use foldback::ids::LoopId;
use foldback::{
    Budget, CompactionReason, ContextTracker, DefaultCompaction, Item, ItemKind, Part, Strategy, Timestamp,
    Tokens, ToolResult, Transcript, TurnMap, TurnRange, Usage, View, compact_messages, plan,
};
use serde_json::json;

use super::{Counting, says};

const WINDOW: Tokens = Tokens(60_000);

/// A question, a look at a long list, an answer.
fn turn(number: usize, lines: usize) -> [Item; 4] {
    let list = (0..lines).map(|line| format!("{number}: entry {line} of the list\n")).collect::<String>();
    let call = format!("call{number}");
    let question = format!("Who lives at number {number}? {}", "Tell me all you know of them. ".repeat(4));
    [
        Item::user(format!("ask{number}"), question),
        Item::assistant(format!("look{number}"), vec![Part::call(&*call, "list", &json!({"n": number}))]),
        Item::tool(format!("list{number}"), ToolResult::text(call, list)),
        Item::assistant(format!("say{number}"), vec![Part::text(format!("Nobody lives at {number}."))]),
    ]
}

fn record(session: &mut Session, turns: std::ops::Range<usize>, lines: usize) {
    turns.flat_map(|number| turn(number, lines)).for_each(|item| session.push(item).unwrap());
}

/// A session of so many loops of thirty turns each, and its newest loop.
fn street(loops: usize) -> (Session, LoopId) {
    let mut session = Session::new("street");
    for number in 0..loops {
        session.begin_loop();
        record(&mut session, number * 30..number * 30 + 30, 60);
    }
    let current = session.current().cloned().unwrap();
    (session, current)
}

async fn compacted(
    session: &mut Session,
    current: &LoopId,
    config: &CompactionConfig,
) -> Result<(), SessionError> {
    let strategy = Arc::clone(&config.block_strategy);
    compact_session_loops(session, current, &*strategy, config, WINDOW).await.map(|_| ())
}

fn loaded(session: &Session, current: &LoopId) -> Vec<Arc<Item>> {
    build_context_from_session(session, current, &CompactionConfig::default(), WINDOW).unwrap().items
}

fn block(record: &LoopRecord, place: LoopPlace) -> Option<CompactionBlock> {
    record.compaction_block(place).unwrap()
}

#[test]
fn the_configuration_begins_with_the_documents_seven_values() {
    let config = CompactionConfig::default();
    assert_eq!(config.compact_at_pct, 0.90);
    assert_eq!(config.compact_budget_threshold_pct, 0.05);
    assert_eq!(config.compaction_scope, CompactionScope::FixedCount(3));
    assert_eq!(config.keep_first_turns, 2);
    assert_eq!(config.keep_recent_turns, 10);
    assert_eq!(config.max_summary_tokens, Tokens(2_000));
    assert_eq!(config.tool_output_max_lines, 50);
    assert_eq!(CompactionScope::default(), CompactionScope::FixedCount(3));
}

#[test]
fn a_compaction_is_due_when_less_than_the_threshold_is_left_below_the_share_of_the_window() {
    let config = CompactionConfig::default();
    let due = |tokens| config.should_compact(Tokens(tokens), Tokens(100_000)).unwrap();
    assert_eq!(due(85_000), None);
    assert!(matches!(due(85_001), Some(CompactionReason::BudgetReached { .. })));
}

#[tokio::test]
async fn the_newest_loop_has_three_sections_and_an_older_one_its_summary() {
    let (mut session, current) = street(2);
    let recorded: Vec<usize> = session.loops().map(|record| record.transcript().len()).collect();
    assert!(session.loops().all(|record| block(record, LoopPlace::MostRecent).is_none()));
    compacted(&mut session, &current, &CompactionConfig::default()).await.unwrap();

    let newest = session.record(&current).unwrap();
    let CompactionBlock { keep_first, keep_compacted, keep_recent, created_at } =
        block(newest, LoopPlace::MostRecent).unwrap();
    assert_eq!(keep_first, Some(TurnRange::new(0, 1).unwrap()));
    let CompactedSection { range, messages } = keep_compacted.unwrap();
    assert_eq!((range.start_turn(), range.end_turn()), (2, 19));
    assert_eq!(messages.len(), 1);
    assert!(newest.transcript().meter().item(&messages[0]).total <= Tokens(2_000));
    let CompactedSection { range, messages } = keep_recent.unwrap();
    assert_eq!((range.start_turn(), range.end_turn(), messages.len()), (20, 29, 40));
    assert!(created_at.is_some());

    let older = session.loops().next().unwrap();
    let block = block(older, LoopPlace::Older).unwrap();
    assert_eq!((block.keep_first, &block.keep_recent), (None, &None));
    let section = block.keep_compacted.unwrap();
    assert_eq!((section.range.start_turn(), section.range.end_turn()), (0, 29));

    // The originals stand beside their blocks as they were.
    assert_eq!(session.loops().map(|record| record.transcript().len()).collect::<Vec<_>>(), recorded);
}

#[tokio::test]
async fn a_context_is_loaded_from_blocks_and_from_messages_where_there_are_none() {
    let (mut session, current) = street(2);
    assert_eq!(loaded(&session, &current).len(), 240);
    compacted(&mut session, &current, &CompactionConfig::default()).await.unwrap();
    let items = loaded(&session, &current);
    let ids = super::ids(&items);
    assert_eq!(items.iter().filter(|item| item.summary.is_some()).count(), 2);
    assert!(items[0].summary.is_some(), "the older loop is its summary");
    assert_eq!(ids[1..5], ["ask30", "look30", "list30", "say30"], "first turns are loaded as recorded");
    assert!(ids.contains(&"ask59".to_owned()) && !ids.contains(&"ask40".to_owned()));
    let list = |id: &str| says(items.iter().find(|item| item.id.as_str() == id).unwrap()).lines().count();
    assert_eq!(list("list30"), 60);
    // Fifty at most, some of them set aside for lines that tell of errors.
    assert!((40..=50).contains(&list("list55")), "{}", list("list55"));
    session.begin_loop();
    record(&mut session, 90..91, 3);
    let newest = session.current().cloned().unwrap();
    assert!(super::ids(&loaded(&session, &newest)).contains(&"ask90".to_owned()));
}

#[tokio::test]
async fn the_scope_says_how_many_earlier_loops_are_loaded() {
    let (session, current) = street(6);
    let earlier = |compaction_scope, window| {
        let config = CompactionConfig { compaction_scope, ..CompactionConfig::default() };
        resolve_scope(&session, &current, &config, Tokens(window)).unwrap().len() - 1
    };
    assert_eq!(earlier(CompactionScope::default(), 16_000), 3);
    assert_eq!(earlier(CompactionScope::FixedCount(1), 16_000), 1);
    let own = session.record(&current).unwrap().transcript().tokens().0;
    assert_eq!(earlier(CompactionScope::TokenBudget, own + 4_100), 2, "a summary fits where a loop does not");
    assert_eq!(earlier(CompactionScope::TokenBudget, own), 0);
    let written = serde_json::to_value(CompactionScope::FixedCount(3)).unwrap();
    assert_eq!(written, json!({"fixed_count": 3}));
}

#[test]
fn turns_are_groups_of_messages_with_one_turn_id() {
    let items: Vec<Arc<Item>> = [("u1", Some("t1")), ("a1", Some("t1")), ("note", None), ("u2", Some("t2"))]
        .map(|(id, turn)| {
            let item = Item::user(id, "text");
            Arc::new(match turn {
                Some(turn) => item.with_turn_id(turn),
                None => item,
            })
        })
        .into();
    let turns = TurnMap::from_messages(&items);
    assert_eq!(turns.turn_count(), 3, "a message without a turn is one of its own");
    assert_eq!(turns.turn_msg_range(0), 0..2);
    assert_eq!(turns.turn_msg_range(9), 4..4);
    assert_eq!(items[turns.messages_for_range(TurnRange::new(1, 2).unwrap())].len(), 2);
    let range: TurnRange = serde_json::from_value(json!({"start_turn": 1, "end_turn": 2})).unwrap();
    assert_eq!((range.start_turn(), range.end_turn()), (1, 2));
    assert!(TurnRange::new(2, 1).is_err());
}

#[tokio::test]
async fn the_default_block_strategy_answers_section_by_section() {
    let (session, current) = street(1);
    let record = session.record(&current).unwrap();
    let turns = record.turns();
    let messages = LoopTurns { transcript: record.transcript(), turns: &turns };
    let (strategy, config) = (DefaultBlockCompaction, CompactionConfig::default());
    assert_eq!(strategy.keep_first(messages, &config), TurnRange::new(0, 1).ok());
    let recent = strategy.keep_recent(messages, &config).unwrap();
    assert_eq!((recent.range.start_turn(), recent.range.end_turn()), (20, 29));
    let middle = strategy.keep_compacted(messages, &config, LoopPlace::MostRecent).await.unwrap().unwrap();
    assert_eq!((middle.range.start_turn(), middle.range.end_turn()), (2, 19));
    let whole = strategy.keep_compacted(messages, &config, LoopPlace::Older).await.unwrap().unwrap();
    assert_eq!((whole.range.start_turn(), whole.range.end_turn()), (0, 29));
    let at = Some(Timestamp(1_700_000_000_000));
    let block = strategy.compact(messages, &config, LoopPlace::MostRecent, at).await.unwrap();
    assert_eq!((block.keep_first, block.created_at), (TurnRange::new(0, 1).ok(), at));
    assert_eq!((block.keep_compacted, block.keep_recent), (Some(middle), Some(recent)));
}

/// Lets a service of the host's tell all turns of a loop in one sentence.
struct Told(&'static str);

#[async_trait]
impl BlockCompactionStrategy for Told {
    fn keep_first(&self, _messages: LoopTurns<'_>, _config: &CompactionConfig) -> Option<TurnRange> {
        TurnRange::new(0, 0).ok()
    }

    async fn keep_compacted(
        &self,
        messages: LoopTurns<'_>,
        config: &CompactionConfig,
        place: LoopPlace,
    ) -> Result<Option<CompactedSection>, CompactionError> {
        tokio::task::yield_now().await;
        let turn_count = messages.turns.turn_count();
        let (first, end) = match place {
            LoopPlace::MostRecent => (1, turn_count.saturating_sub(config.keep_recent_turns)),
            LoopPlace::Older => (0, turn_count),
        };
        let range =
            TurnRange::new(first, end - 1).map_err(|error| CompactionError::Failed(error.to_string()))?;
        let summary = Item::text("told", ItemKind::Context, format!("{}: {range}", self.0));
        Ok(Some(CompactedSection { range, messages: vec![summary.into()] }))
    }
}

#[tokio::test]
async fn a_strategy_of_ones_own_asks_whom_it_likes_for_every_loop() {
    let (mut session, current) = street(2);
    let config = CompactionConfig { block_strategy: Arc::new(Told("turns")), ..CompactionConfig::default() };
    compacted(&mut session, &current, &config).await.unwrap();
    let told: Vec<String> = loaded(&session, &current)
        .iter()
        .filter(|item| item.summary.is_some())
        .map(|item| says(item))
        .collect();
    assert_eq!(told.len(), 2);
    assert!(told[0].contains("turns: 0 to 29") && told[1].contains("turns: 1 to 19"), "{told:?}");
}

#[tokio::test]
async fn a_backend_writes_the_summaries_of_all_loops() {
    let (mut session, current) = street(2);
    let backend = Counting::default();
    let config = CompactionConfig { backend: Some(backend.clone().into()), ..CompactionConfig::default() };
    compacted(&mut session, &current, &config).await.unwrap();
    let asked: Vec<usize> = backend.asked.lock().unwrap().iter().map(|request| request.items.len()).collect();
    assert_eq!(asked, [30 * 4, 18 * 4], "every turn of both is in what is summarised");
}

/// Counts what it is called for.
#[derive(Clone, Default)]
struct Watching(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl CompactionHook for Watching {
    async fn before_compaction_start(&self, request: &CompactionRequest) -> Result<(), String> {
        self.0.lock().unwrap().push(format!("before {} items", request.transcript.len()));
        Ok(())
    }

    async fn after_compaction_end(&self, request: &CompactionRequest, result: &CompactionResult) {
        assert!(result.transcript.tokens() < request.transcript.tokens());
        self.0.lock().unwrap().push(format!("after {} items", request.transcript.len()));
    }
}

#[tokio::test]
async fn callbacks_run_around_the_compaction_of_a_session_and_events_bracket_it() {
    let (mut session, current) = street(1);
    let (watching, recorder) = (Watching::default(), SessionRecorder::new(session.clone()));
    let hooks = CompactionHooks::default().hook(watching.clone()).observer(recorder.clone());
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    compacted(&mut session, &current, &config).await.unwrap();
    assert_eq!(*watching.0.lock().unwrap(), ["before 120 items", "after 120 items"]);
    let [RecordedCompaction::Ended(report)] = &recorder.compactions()[..] else { panic!("it ended once") };
    assert!(report.tokens_after < report.tokens_before);
    let view = session.record(&current).unwrap().view(LoopPlace::MostRecent).unwrap();
    assert!(recorder.take_over(&view).unwrap());
    assert_eq!(super::ids(&loaded(&recorder.session(), &current)), super::ids(&loaded(&session, &current)));
}

#[tokio::test]
async fn estimates_come_with_the_beginning_and_the_end_and_closures_do_as_callbacks() {
    let (mut session, current) = street(1);
    let before = loaded(&session, &current).len();
    let told: Arc<Mutex<Vec<Tokens>>> = Arc::default();
    let log = Arc::clone(&told);
    let hooks = CompactionHooks::default()
        .before_compaction_start(|_| Ok(()))
        .after_compaction_end(|_, result| assert!(!result.transcript.is_empty()))
        .observer(move |event: &CompactionEvent| match &event.kind {
            CompactionEventKind::CompactionStarted { tokens_before, .. } => {
                log.lock().unwrap().push(*tokens_before)
            }
            CompactionEventKind::CompactionEnded(report) => log.lock().unwrap().push(report.tokens_after),
            _ => {}
        });
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    compacted(&mut session, &current, &config).await.unwrap();
    let told = told.lock().unwrap().clone();
    assert!(told.len() == 2 && told[1] < told[0], "{told:?}");

    let mut session = street(1).0;
    let hooks = CompactionHooks::default().before_compaction_start(|_| Err("the index is not ready".into()));
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    let refused = compacted(&mut session, &current, &config).await;
    assert!(matches!(refused, Err(SessionError::Compaction(CompactionError::Vetoed { .. }))), "{refused:?}");
    assert_eq!(loaded(&session, &current).len(), before);
}

#[test]
fn messages_are_compacted_in_memory_in_three_levels() {
    let items = || (0..40).flat_map(|number| turn(number, 200)).map(Arc::new);
    let compacted = |tokens: u64| {
        let config = CompactionConfig::default().default_compaction().unwrap();
        let budget = Budget::for_target(Tokens(tokens)).unwrap();
        compact_messages(items(), &config, &budget).unwrap()
    };
    let whole: Transcript = items().collect();
    assert_eq!(compacted(whole.tokens().0).len(), 160, "what fits stays as it is");
    let shortened = compacted(whole.tokens().0 / 2);
    assert_eq!(shortened.len(), 160, "level 1 shortens outputs");
    assert!(says(&shortened[2]).lines().count() < 60);
    let folded = compacted(12_000);
    assert!(folded.iter().any(|item| item.summary.is_some()), "level 2 summarises turns");
    assert!(
        super::ids(&folded).contains(&"ask0".to_owned()) && super::ids(&folded).contains(&"ask30".to_owned())
    );
    let dropped = compacted(3_000);
    assert!(!super::ids(&dropped).contains(&"ask30".to_owned()), "level 3 takes more of the middle");
    assert!(super::ids(&dropped).contains(&"say39".to_owned()));
    assert_eq!(CompactionConfig::default().default_compaction().unwrap(), DefaultCompaction::new());
}

#[test]
fn both_strategies_are_fields_of_the_configuration() {
    let config = CompactionConfig {
        in_memory_strategy: Arc::new(DefaultCompaction::new()),
        block_strategy: Arc::new(DefaultBlockCompaction),
        ..CompactionConfig::default()
    };
    assert_eq!(Strategy::describe(&config.in_memory_strategy), "three-level");
    assert_eq!(config.block_strategy.describe(), "block-compaction");
    let items: Vec<Item> = (0..40).flat_map(|number| turn(number, 60)).collect();
    let (view, budget) = (View::from(items), config.budget(Tokens(16_000)).unwrap());
    assert!(view.tokens() > budget.target());
    let planned = plan(&view, &config.in_memory_strategy, Some(&budget)).unwrap();
    assert!(planned.apply_floor().view.tokens() <= budget.target());
}

#[test]
fn a_tracker_adds_estimates_to_what_was_reported() {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("ask", "Who lives here?"));
    let usage = Usage { input_tokens: Tokens(900), output_tokens: Tokens(100), ..Usage::default() };
    transcript.push(Item::assistant("say", vec![Part::text("Nobody.")]).with_usage(usage));
    let mut tracker = ContextTracker::new(transcript.meter().counter().precision());
    tracker.observe(&transcript);
    assert_eq!(tracker.bounds(&transcript).estimate, Tokens(1_000));
    transcript.push(Item::user("more", "And next door? ".repeat(50)));
    tracker.observe(&transcript);
    assert!(tracker.bounds(&transcript).estimate > Tokens(1_050));
    assert_eq!(tracker.reported(), Some(usage));
}
