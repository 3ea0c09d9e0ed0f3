//! The loops of a session go the way of every compaction: they are repaired, and a model may be asked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use foldback_core::{BlockKind, check};
use foldback_engine::session::{BlockCompactionStrategy, CompactedSection, LoopPlace, LoopTurns};
use foldback_engine::{
    BackendError, CompactionError, CompactionEvent, CompactionEventKind, CompactionHooks, PreTrim,
    PreTrimMove, SummaryLimits,
};

use crate::compactor::{Reply, Scripted, guarded};
use crate::session::*;

const SUMMARY: &str = "Requests were made one after the other, and each was answered.";

fn says(item: &Item, text: &str) -> bool {
    item.parts.iter().any(|part| matches!(part, Part::Text(said) if said.contains(text)))
}

fn asking(backend: &Arc<Scripted>) -> CompactionConfig {
    CompactionConfig { backend: Some(guarded(backend)), ..CompactionConfig::default() }
}

/// Two loops, of which the first is an older one.
fn two_loops() -> (Session, LoopId) {
    let (mut session, _) = session(30, 40);
    let current = session.begin_loop();
    (100..130).for_each(|number| push_turn(&mut session, number, 40));
    (session, current)
}

/// A loop with a result that no call asked for, and a call that was never answered.
fn push_broken(session: &mut Session) {
    session.push(Item::tool("stray", ToolResult::text("nobody", "out of nowhere"))).unwrap();
    let call = Part::call("lost", "read", &json!({}));
    session.push(Item::assistant("unanswered", vec![call])).unwrap();
}

#[test]
fn a_model_writes_the_summaries_of_every_loop_within_their_size() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    let (mut session, current) = two_loops();
    let done = compact_for(&mut session, &current, &asking(&backend), WINDOW).unwrap();
    assert_eq!(done.loops.len(), 2);
    assert_eq!(backend.requests.lock().unwrap().len(), 2);
    let after = context(&session, &current);
    let told = after.items.iter().filter(|item| says(item, SUMMARY)).count();
    assert_eq!(told, 2, "{:?}", ids(&after));
    assert_eq!(after.tokens, done.tokens_after);
    let again = compact_for(&mut session, &current, &asking(&backend), WINDOW).unwrap();
    assert!(again.loops.is_empty(), "a second run changes nothing");
    assert_eq!(backend.requests.lock().unwrap().len(), 2, "and asks nobody");
}

#[test]
fn with_a_model_that_fails_it_comes_to_what_it_comes_to_without_one() {
    let backend = Arc::new(Scripted::new(Reply::Fail(BackendError::Unauthorized { status: 401 })));
    let (mut alone, current) = two_loops();
    let mut asked = alone.clone();
    compact(&mut alone, &current);
    compact_for(&mut asked, &current, &asking(&backend), WINDOW).unwrap();
    let (alone, asked) = (context(&alone, &current), context(&asked, &current));
    assert_eq!(ids(&alone), ids(&asked));
    assert!(asked.tokens.0 <= alone.tokens.0 * 2, "{} beside {}", asked.tokens, alone.tokens);
}

#[test]
fn a_model_is_asked_within_the_limits_of_the_configuration() {
    let refused = Arc::new(Scripted::new(Reply::Fail(BackendError::Overflow { limit: None })));
    let (mut session, current) = session(30, 40);
    let pre_trim = PreTrim::new([PreTrimMove::DropOldestAndRetry { retries_max: 2 }]);
    let limits = SummaryLimits { chunks_max: 1, pre_trim, ..SummaryLimits::default() };
    let config = CompactionConfig { limits, ..asking(&refused) };
    compact_for(&mut session, &current, &config, WINDOW).unwrap();
    assert_eq!(refused.requests.lock().unwrap().len(), 3, "once, and two retries");
}

#[test]
fn a_veto_is_heard_before_a_model_is_asked() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    let (mut session, current) = two_loops();
    let hooks = CompactionHooks::default().before_compaction_start(|_| Err("not now".to_owned()));
    let config = CompactionConfig { hooks, ..asking(&backend) };
    assert!(compact_for(&mut session, &current, &config, WINDOW).is_err());
    assert_eq!(backend.requests.lock().unwrap().len(), 0);
}

/// Summarises all turns in words of its own.
#[derive(Debug)]
struct OwnWords;

#[async_trait]
impl BlockCompactionStrategy for OwnWords {
    async fn keep_compacted(
        &self,
        messages: LoopTurns<'_>,
        _: &CompactionConfig,
        _: LoopPlace,
    ) -> Result<Option<CompactedSection>, CompactionError> {
        let range = foldback_core::TurnRange::new(0, messages.turns.turn_count() - 2).unwrap();
        let summary = Item::text("mine", ItemKind::Context, "In my own words: much was read.");
        Ok(Some(CompactedSection { range, messages: vec![summary.into()] }))
    }
}

#[test]
fn what_a_strategy_wrote_itself_stands_though_there_is_a_model() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    let (mut session, current) = session(30, 20);
    let config = asking(&backend);
    now(compact_session_loops(&mut session, &current, &OwnWords, &config, WINDOW)).unwrap();
    let after = context(&session, &current);
    assert!(after.items.iter().any(|item| says(item, "In my own words")));
    assert_eq!(backend.requests.lock().unwrap().len(), 0);
}

/// Asks a service of the host's, which takes its time and may be down.
struct Service {
    asked: AtomicUsize,
    is_down: bool,
}

impl Service {
    fn new(is_down: bool) -> Self {
        Self { asked: AtomicUsize::new(0), is_down }
    }
}

#[async_trait]
impl BlockCompactionStrategy for Service {
    async fn keep_compacted(
        &self,
        messages: LoopTurns<'_>,
        _: &CompactionConfig,
        place: LoopPlace,
    ) -> Result<Option<CompactedSection>, CompactionError> {
        tokio::task::yield_now().await;
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_down && place == LoopPlace::MostRecent {
            return Err(CompactionError::Failed("the service is down".to_owned()));
        }
        let kept = if place == LoopPlace::Older { 0 } else { 4 };
        let range = foldback_core::TurnRange::new(0, messages.turns.turn_count() - 1 - kept).unwrap();
        let summary = Item::text("told", ItemKind::Context, format!("{place:?}: the service has read it."));
        Ok(Some(CompactedSection { range, messages: vec![summary.into()] }))
    }
}

/// What observers are told, in a word each.
fn told(hooks: CompactionHooks) -> (CompactionHooks, Arc<Mutex<Vec<&'static str>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let hooks = hooks.observer(move |event: &CompactionEvent| {
        tells.lock().unwrap().push(match event.kind {
            CompactionEventKind::CompactionStarted { .. } => "started",
            CompactionEventKind::CompactionEnded(_) => "ended",
            CompactionEventKind::CompactionFailed { .. } => "failed",
            _ => "summary",
        });
    });
    (hooks, told)
}

#[test]
fn a_strategy_that_takes_its_time_is_asked_once_for_every_loop_older_ones_too() {
    let (hooks, told) = told(CompactionHooks::default());
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    let (mut session, current) = two_loops();
    let service = Service::new(false);
    let done = now(compact_session_loops(&mut session, &current, &service, &config, WINDOW)).unwrap();
    assert_eq!((done.loops.len(), service.asked.load(Ordering::Relaxed)), (2, 2));
    let after = context(&session, &current);
    for place in ["Older", "MostRecent"] {
        assert!(after.items.iter().any(|item| says(item, &format!("{place}: the service"))), "{place}");
    }
    assert_eq!(*told.lock().unwrap(), ["started", "summary", "started", "summary", "ended", "ended"]);
    let again = now(compact_session_loops(&mut session, &current, &service, &config, WINDOW)).unwrap();
    assert!(again.loops.is_empty(), "a second run changes nothing");
    assert_eq!(service.asked.load(Ordering::Relaxed), 2, "and asks nobody");
}

#[test]
fn a_strategy_that_fails_leaves_every_loop_as_it_was_and_observers_hear_of_it() {
    let (hooks, told) = told(CompactionHooks::default());
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    let (mut session, current) = two_loops();
    let before = context(&session, &current);
    let service = Service::new(true);
    let failed = now(compact_session_loops(&mut session, &current, &service, &config, WINDOW));
    assert!(failed.unwrap_err().to_string().contains("the service is down"));
    assert_eq!(context(&session, &current).items, before.items, "the older loop too");
    assert_eq!(*told.lock().unwrap(), ["started", "summary", "started", "failed", "failed"]);
}

#[test]
fn a_veto_is_heard_before_a_strategy_that_takes_its_time_begins() {
    let (hooks, told) =
        told(CompactionHooks::default().before_compaction_start(|_| Err("not now".to_owned())));
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    let (mut session, current) = two_loops();
    let service = Service::new(false);
    assert!(now(compact_session_loops(&mut session, &current, &service, &config, WINDOW)).is_err());
    assert_eq!(service.asked.load(Ordering::Relaxed), 0);
    assert_eq!(*told.lock().unwrap(), ["started", "failed"]);
}

#[test]
fn repairs_of_the_most_recent_loop_are_recorded_and_undone_with_it() {
    let (mut session, current) = session(20, 40);
    push_broken(&mut session);
    (20..40).for_each(|number| push_turn(&mut session, number, 40));
    let seen = session.record(&current).unwrap().view(LoopPlace::MostRecent).unwrap();
    let recorded = seen.transcript().len();

    let done = compact(&mut session, &current);
    assert!(!done.loops[0].repaired.is_empty());
    let kinds: Vec<BlockKind> = done.loops[0].blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [BlockKind::Repair, BlockKind::Compaction]);
    let view = session.record(&current).unwrap().view(LoopPlace::MostRecent).unwrap();
    assert_eq!(check(view.items(), None), [], "what is seen needs no repair any more");
    assert!(context(&session, &current).repairs.is_empty());
    assert!(compact(&mut session, &current).loops.is_empty(), "a second run changes nothing");

    assert!(session.undo());
    let record = session.record(&current).unwrap();
    assert!(record.transcript().len() > recorded, "the record is append-only");
    let undone = record.view(LoopPlace::MostRecent).unwrap();
    assert!(undone.items().eq(seen.items()), "{:?}", undone.shape());
    assert!(session.redo());
    let redone = session.record(&current).unwrap().view(LoopPlace::MostRecent).unwrap();
    assert!(redone.items().eq(view.items()));
    assert!(session.undo());
    let done = compact(&mut session, &current);
    assert!(done.tokens_after <= CompactionConfig::default().budget(WINDOW).unwrap().target());
    assert_eq!(check(context(&session, &current).items.iter(), None), []);
}

#[test]
fn repairs_of_an_older_loop_are_recorded_and_seen_only_in_its_place() {
    let (mut session, first) = session(10, 20);
    push_broken(&mut session);
    let mut pinned = Item::tool("pinned", ToolResult::text("nobody-either", "kept as it is"));
    pinned = pinned.pinned();
    session.push(pinned).unwrap();
    (10..20).for_each(|number| push_turn(&mut session, number, 20));
    let seen = session.record(&first).unwrap().view(LoopPlace::MostRecent).unwrap();
    let second = session.begin_loop();
    push_turn(&mut session, 100, 5);

    let done = compact(&mut session, &second);
    let older = done.loops.iter().find(|done| done.loop_id == first).unwrap();
    assert!(!older.repaired.is_empty() && older.tokens_after < older.tokens_before);
    let record = session.record(&first).unwrap();
    let shown = record.view(LoopPlace::Older).unwrap();
    assert_eq!(check(shown.items(), None), []);
    assert_eq!(shown.tokens(), older.tokens_after);
    let resumed = record.view(LoopPlace::MostRecent).unwrap();
    assert!(resumed.items().eq(seen.items()), "a loop that is resumed is seen as it was left");
    let branch = session.fork(&first, record.transcript().len() - 1).unwrap();
    let branched = session.record(&branch).unwrap().view(LoopPlace::MostRecent).unwrap();
    assert!(branched.items().eq(seen.items()), "and so is a branch of it");
    session.resume(&second).unwrap();
    assert!(compact(&mut session, &second).loops.is_empty(), "a second run changes nothing");
    assert!(session.undo());
    let undone = session.record(&first).unwrap().view(LoopPlace::Older).unwrap();
    assert!(undone.items().eq(seen.items()));
}
