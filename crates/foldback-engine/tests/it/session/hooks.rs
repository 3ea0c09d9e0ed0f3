//! What a host is asked and told when the loops of a session are compacted.

use std::sync::Mutex;

use foldback_engine::session::LOOP_KEY;
use foldback_engine::{
    CompactionError, CompactionEvent, CompactionEventKind, CompactionHooks, CompactionObserver,
};

use super::*;

/// What happened, a line each.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl CompactionObserver for Log {
    fn on_event(&self, event: &CompactionEvent) {
        match &event.kind {
            CompactionEventKind::CompactionStarted { tokens_before, .. } => {
                self.push(format!("started at {tokens_before}"));
            }
            CompactionEventKind::CompactionEnded(report) => {
                self.push(format!("ended from {} at {}", report.tokens_before, report.tokens_after));
            }
            CompactionEventKind::CompactionFailed { why, .. } => self.push(format!("failed: {why}")),
            CompactionEventKind::SummaryTaken { written_by, .. } => {
                self.push(format!("taken from {written_by}"))
            }
            other => self.push(format!("{other:?}")),
        }
    }
}

/// Two loops, of which the first is an older one.
fn two_loops() -> (Session, LoopId) {
    let (mut session, _) = session(30, 40);
    let current = session.begin_loop();
    (100..130).for_each(|number| push_turn(&mut session, number, 40));
    (session, current)
}

#[test]
fn hooks_run_and_events_are_told_for_every_loop_that_changes() {
    let (mut session, current) = two_loops();
    let log = Log::default();
    let (before, after) = (log.clone(), log.clone());
    let hooks = CompactionHooks::default()
        .observer(log.clone())
        .before_compaction_start(move |request| {
            before.push(format!("may {}?", request.metadata[LOOP_KEY]));
            Ok(())
        })
        .after_compaction_end(move |request, result| {
            let (was, is) = (request.transcript.tokens(), result.transcript.tokens());
            after.push(format!("{} went from {was} to {is}", request.metadata[LOOP_KEY]));
        });
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    let done = compact_for(&mut session, &current, &config, WINDOW).unwrap();
    let [older, recent] = &done.loops[..] else { panic!("{done:?}") };
    let expected = [
        format!("started at {}", older.tokens_before),
        "may \"s-0\"?".to_owned(),
        "taken from digest".to_owned(),
        format!("started at {}", recent.tokens_before),
        "may \"s-1\"?".to_owned(),
        "taken from digest".to_owned(),
        format!("ended from {} at {}", older.tokens_before, older.tokens_after),
        format!("\"s-0\" went from {} to {}", older.tokens_before, older.tokens_after),
        format!("ended from {} at {}", recent.tokens_before, recent.tokens_after),
        format!("\"s-1\" went from {} to {}", recent.tokens_before, recent.tokens_after),
    ];
    assert_eq!(log.lines(), expected);
    let again = compact_for(&mut session, &current, &config, WINDOW).unwrap();
    assert!(again.loops.is_empty());
    assert_eq!(log.lines().len(), expected.len(), "nothing changed, so nothing is told");
}

#[test]
fn a_veto_for_one_loop_leaves_the_session_as_it_was() {
    let (mut session, current) = two_loops();
    let shown = context(&session, &current).items;
    let log = Log::default();
    let hooks = CompactionHooks::default().observer(log.clone()).before_compaction_start(|request| {
        match request.metadata[LOOP_KEY] == "s-1" {
            true => Err("not now".to_owned()),
            false => Ok(()),
        }
    });
    let config = CompactionConfig { hooks, ..CompactionConfig::default() };
    let refused = compact_for(&mut session, &current, &config, WINDOW);
    assert!(
        matches!(&refused, Err(SessionError::Compaction(CompactionError::Vetoed { why })) if why == "not now"),
        "{refused:?}"
    );
    assert_eq!(context(&session, &current).items, shown);
    let failed = log.lines().iter().filter(|line| line.starts_with("failed")).count();
    assert_eq!(failed, 2, "what began is said to end: {:?}", log.lines());
}
