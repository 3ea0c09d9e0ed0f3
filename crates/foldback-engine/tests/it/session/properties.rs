//! What holds for every session, whatever was said in it and however it was compacted.

use std::collections::BTreeMap;

use foldback_core::{Edit, Fate, TurnMap, View, check};
use foldback_engine::session::{LoopPlace, LoopRecord, LoopTurns};
use foldback_testkit::recipe;
use proptest::prelude::{
    Just, Strategy as Generator, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use crate::session::*;

#[derive(Clone, Debug)]
enum Step {
    Say(recipe::Recipe),
    Compact { window: u64, first: usize, recent: usize },
    Begin,
    Fork { permille: usize },
    Resume { permille: usize },
    Undo,
    Redo,
}

fn step(recipes: impl Generator<Value = recipe::Recipe> + 'static) -> impl Generator<Value = Step> {
    prop_oneof![
        6 => recipes.prop_map(Step::Say),
        4 => (500u64..20_000, 0usize..4, 0usize..4)
            .prop_map(|(window, first, recent)| Step::Compact { window, first, recent }),
        2 => Just(Step::Begin),
        1 => (0usize..1_000).prop_map(|permille| Step::Fork { permille }),
        1 => (0usize..1_000).prop_map(|permille| Step::Resume { permille }),
        1 => Just(Step::Undo),
        1 => Just(Step::Redo),
    ]
}

/// A session that steps are taken in, and a counter that keeps its ids apart.
struct Walk {
    session: Session,
    said: usize,
}

impl Walk {
    fn new() -> Self {
        let mut session = Session::new("s");
        session.begin_loop();
        Self { session, said: 0 }
    }

    fn current(&self) -> LoopId {
        self.session.current().cloned().unwrap()
    }

    fn say(&mut self, recipe: &recipe::Recipe) {
        self.said += 1;
        for mut item in recipe.items() {
            item.id = format!("{}-{}", self.said, item.id).into();
            for part in &mut item.parts {
                match part {
                    Part::ToolCall(call) => call.id = format!("{}-{}", self.said, call.id).into(),
                    Part::ToolResult(result) => {
                        result.call_id = format!("{}-{}", self.said, result.call_id).into();
                    }
                    _ => {}
                }
            }
            self.session.push(item).unwrap();
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Say(recipe) => self.say(recipe),
            Step::Compact { window, first, recent } => {
                drop(self.compact(*window, *first, *recent));
            }
            Step::Begin => drop(self.session.begin_loop()),
            Step::Fork { permille } => {
                let current = self.current();
                let len = self.session.record(&current).unwrap().transcript().len();
                self.session.fork(&current, len * permille / 1_000).unwrap();
            }
            Step::Resume { permille } => {
                let loops: Vec<LoopId> = self.session.loops().map(|record| record.id().clone()).collect();
                self.session.resume(&loops[loops.len() * permille / 1_000]).unwrap();
            }
            Step::Undo => drop(self.session.undo()),
            Step::Redo => drop(self.session.redo()),
        }
    }

    fn compact(
        &mut self,
        window: u64,
        first: usize,
        recent: usize,
    ) -> Result<SessionCompaction, SessionError> {
        let config = CompactionConfig {
            keep_first_turns: first,
            keep_recent_turns: recent,
            max_summary_tokens: Tokens(400),
            ..CompactionConfig::default()
        };
        let current = self.current();
        let done = compact_for(&mut self.session, &current, &config, Tokens(window));
        let is_expected = matches!(done, Ok(_) | Err(infeasible!(_)));
        assert!(is_expected, "{done:?}");
        done
    }

    fn context(&self) -> SessionContext {
        context(&self.session, &self.current())
    }
}

fn walk(steps: &[Step]) -> Walk {
    let mut walk = Walk::new();
    steps.iter().for_each(|step| walk.take(step));
    walk
}

/// Every item of a loop is shown once or hidden with a reason; what is folded has its summary, unless
/// there was no room for one beside what must stay.
fn assert_complete(record: &LoopRecord, place: LoopPlace, shown: &[&str]) -> View {
    let view = record.view(place).unwrap();
    // What was repaired was recorded again under the same id.
    let mut visible: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for (item, fate) in record.transcript().items().zip(view.fates()) {
        let (count, _) = visible.entry(&item.id).or_insert((0, item.kind.is_instruction()));
        *count += usize::from(fate.is_visible());
    }
    for (id, (count, is_instruction)) in visible {
        let times = shown.iter().filter(|shown| **shown == id).count();
        // An instruction that was given before is loaded once; loading may repair anew what was undone.
        let is_once = times == count || (times == 0 && is_instruction) || id.contains(".repair-");
        assert!(count <= 1 && is_once, "{id}: {times} of {count}");
    }
    let folds = record.overlay(place).blocks().iter().flat_map(|block| &block.summaries).count();
    let has_summary = view.items().any(|item| item.summary.is_some());
    let has_folded = view.fates().iter().any(|fate| matches!(fate, Fate::Folded(_)));
    let overlay = record.overlay(place);
    let mut edits = overlay.blocks().iter().flat_map(|block| &block.edits);
    let has_dropped = edits.any(|edit| matches!(edit, Edit::Drop(_)));
    assert!(!has_folded || has_summary || folds == 0 || has_dropped, "folded items without a summary");
    view
}

/// No section begins or ends inside a unit.
fn assert_snapped(record: &LoopRecord) {
    let (transcript, turns): (_, TurnMap) = (record.transcript(), record.turns());
    for turn in 0..turns.turn_count() {
        let start = turns.turn_msg_range(turn).start;
        assert_eq!(transcript.cut_at_or_before(start), start);
    }
}

proptest! {
    #![proptest_config(foldback_testkit::costly(25))]

    /// T1, T2, T5 for sessions: nothing is loaded twice, nothing vanishes, everything is valid, and
    /// the sections tell the same as the view.
    #[test]
    fn every_context_is_whole_and_valid(steps in prop::collection::vec(step(recipe::orderly()), 1..12)) {
        let walk = walk(&steps);
        let context = walk.context();
        prop_assert_eq!(check(&context.items, None), []);
        let shown: Vec<&str> = ids(&context);
        for loaded in &context.loops {
            let record = walk.session.record(&loaded.loop_id).unwrap();
            assert_snapped(record);
            let view = assert_complete(record, loaded.place, &shown);
            let turns = record.turns();
            if let Some(block) = record.compaction_block(loaded.place).unwrap() {
                let messages = LoopTurns { transcript: record.transcript(), turns: &turns };
                let loaded = block.load(messages);
                prop_assert!(loaded.iter().eq(view.items()), "{:?}", block);
            }
        }
    }

    /// Whatever was recorded, even what no provider would take.
    #[test]
    fn odd_sessions_lead_to_valid_contexts(steps in prop::collection::vec(step(recipe::recipe()), 1..8)) {
        let walk = walk(&steps);
        prop_assert_eq!(check(&walk.context().items, None), []);
    }

    /// A compaction reaches its target where what must stay allows it; a second one changes nothing.
    #[test]
    fn a_compaction_fits_and_is_done_once(
        steps in prop::collection::vec(step(recipe::orderly()), 1..10),
        (window, first, recent) in (2_000u64..30_000, 0usize..4, 0usize..4),
    ) {
        let mut walk = walk(&steps);
        match walk.compact(window, first, recent) {
            Ok(done) => {
                prop_assert!(done.tokens_after <= done.tokens_before.max(Tokens(window)));
                prop_assert!(done.tokens_after <= Tokens(window), "{} in {window}", done.tokens_after);
                let again = walk.compact(window, first, recent).unwrap();
                prop_assert!(again.loops.is_empty(), "{:?}", again.loops);
            }
            Err(infeasible!(error)) => prop_assert!(error.kernel_tokens > error.target),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    /// Undo after undo restores earlier views exactly, whatever was said since; redo brings them back.
    #[test]
    fn undo_restores_exactly_and_redo_brings_back(
        before in prop::collection::vec(step(recipe::orderly()), 1..8),
        compactions in prop::collection::vec((500u64..8_000, 0usize..3, 0usize..3), 1..4),
        said in recipe::orderly(),
        is_continued in any::<bool>(),
    ) {
        let mut walk = walk(&before);
        let mut states = vec![walk.context().items];
        let mut done = 0;
        for (window, first, recent) in compactions {
            let counts = |done: SessionCompaction| usize::from(!done.loops.is_empty());
            let changed = walk.compact(window, first, recent).map_or(0, counts);
            done += changed;
            if changed > 0 {
                states.push(walk.context().items);
            }
        }
        let tail: Vec<Arc<Item>> = match is_continued {
            true => {
                let known = states[done].len();
                walk.say(&said);
                walk.context().items.split_off(known.min(walk.context().items.len()))
            }
            false => Vec::new(),
        };
        let is_clean = walk.context().repairs.is_empty();
        for state in states.iter().rev().skip(1) {
            prop_assert!(walk.session.undo());
            let expected: Vec<&Arc<Item>> = state.iter().chain(&tail).collect();
            let now = walk.context();
            // Where a round was interrupted, repairs depend on what follows it.
            if is_clean && now.repairs.is_empty() && tail.iter().all(|item| !item.kind.is_instruction()) {
                prop_assert_eq!(now.items.iter().collect::<Vec<_>>(), expected);
            }
        }
        for _ in 0..done {
            prop_assert!(walk.session.redo());
        }
        if is_clean && tail.is_empty() {
            prop_assert_eq!(walk.context().items, states.pop().unwrap_or_default());
        }
    }
}
