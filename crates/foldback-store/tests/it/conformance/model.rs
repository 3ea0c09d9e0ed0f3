//! The model: sessions as lists in memory, and random steps on both.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldback_core::{
    CompactionBlock, Item, LoopId, Metadata, Overlay, SessionId, StrategyConfig, Transcript, View, plan,
};
use foldback_engine::store::{At, NewLoop, NewSession, Origin, Repairs, Retention, Version, redo, undo};
use foldback_engine::{Store, StoreError};
use foldback_testkit::{recipe, strategies};
use proptest::prelude::{Strategy as Generator, any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::test_runner::TestCaseError;

/// One thing that happens to a session.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Append(recipe::Recipe),
    Again,
    Compact(Box<StrategyConfig>),
    Branch(u8),
    After,
    Switch(u8),
    Undo,
    Redo,
    Stale,
    Reload,
    Gc,
}

pub(crate) fn step() -> impl Generator<Value = Step> {
    prop_oneof![
        5 => recipe::orderly().prop_map(Step::Append),
        1 => proptest::prelude::Just(Step::Again),
        5 => strategies::strategy().prop_map(|strategy| Step::Compact(Box::new(strategy))),
        2 => any::<u8>().prop_map(Step::Branch),
        1 => proptest::prelude::Just(Step::After),
        1 => any::<u8>().prop_map(Step::Switch),
        3 => proptest::prelude::Just(Step::Undo),
        2 => proptest::prelude::Just(Step::Redo),
        1 => proptest::prelude::Just(Step::Stale),
        1 => proptest::prelude::Just(Step::Reload),
        1 => proptest::prelude::Just(Step::Gc),
    ]
}

/// A loop in memory: its items, the blocks in force, those that can be redone.
#[derive(Clone, Debug, Default)]
struct ModelLoop {
    items: Vec<Arc<Item>>,
    in_force: Vec<Arc<CompactionBlock>>,
    undone: Vec<Arc<CompactionBlock>>,
}

impl ModelLoop {
    fn view(&self) -> View {
        let transcript: Transcript = self.items.iter().cloned().collect();
        let overlay =
            self.in_force.iter().fold(Overlay::default(), |overlay, block| overlay.with(Arc::clone(block)));
        View::through(&transcript, &overlay).expect("the blocks were made for it")
    }
}

struct Run<R> {
    reopen: R,
    store: Box<dyn Store>,
    session: SessionId,
    version: Version,
    current: LoopId,
    loops: BTreeMap<LoopId, ModelLoop>,
}

/// Does the steps on a store and in memory, and compares after each.
pub(crate) async fn run<R, F>(steps: &[Step], reopen: R) -> Result<(), TestCaseError>
where
    R: Fn() -> F,
    F: Future<Output = Box<dyn Store>>,
{
    let store = reopen().await;
    let (session, first): (SessionId, LoopId) = ("session".into(), "loop-0".into());
    let version = store.create(&NewSession::new(session.clone(), first.clone())).await.unwrap();
    let loops = BTreeMap::from([(first.clone(), ModelLoop::default())]);
    let mut run = Run { reopen, store, session, version, current: first, loops };
    for step in steps {
        run.take(step).await?;
        run.compare(&run.current.clone()).await?;
    }
    for id in run.loops.keys().cloned().collect::<Vec<_>>() {
        run.compare(&id).await?;
    }
    let report = run.store.verify(Repairs::None).await.unwrap();
    prop_assert!(report.is_clean(), "{:?}", report.problems);
    Ok(())
}

impl<R, F> Run<R>
where
    R: Fn() -> F,
    F: Future<Output = Box<dyn Store>>,
{
    fn at(&self) -> At<'_> {
        At { session: &self.session, loop_id: &self.current, version: self.version }
    }

    fn model(&mut self) -> &mut ModelLoop {
        self.loops.get_mut(&self.current).expect("the current loop is one of them")
    }

    async fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Append(recipe) => self.append(recipe.items().into_iter().map(Arc::new).collect()).await,
            Step::Again => {
                let items = self.model().items.clone();
                self.append(items.into_iter().rev().take(3).collect()).await;
            }
            Step::Compact(strategy) => self.compact(strategy).await,
            Step::Branch(place) => self.branch(usize::from(*place)).await,
            Step::After => self.begin(Origin::After(self.current.clone()), ModelLoop::default()).await,
            Step::Switch(number) => {
                let ids: Vec<LoopId> = self.loops.keys().cloned().collect();
                self.current = ids[usize::from(*number) % ids.len()].clone();
                self.version = self.store.switch_loop(&self.at()).await.unwrap();
            }
            Step::Undo => self.undo().await?,
            Step::Redo => self.redo().await?,
            Step::Stale => {
                let stale = At { version: Version(self.version.0 - 1), ..self.at() };
                let refused = self.store.append(&stale, &[Arc::new(Item::user("x", "lost"))]).await;
                let expected = StoreError::Conflict {
                    session: self.session.clone(),
                    expected: stale.version,
                    actual: self.version,
                };
                prop_assert_eq!(refused, Err(expected));
            }
            Step::Reload => self.store = (self.reopen)().await,
            Step::Gc => drop(self.store.gc(&Retention::default()).await.unwrap()),
        }
        Ok(())
    }

    async fn append(&mut self, items: Vec<Arc<Item>>) {
        self.version = self.store.append(&self.at(), &items).await.unwrap();
        self.model().items.extend(items);
    }

    async fn compact(&mut self, strategy: &StrategyConfig) {
        let Ok(planned) = plan(&self.model().view(), strategy, None) else { return };
        let block = planned.apply_floor().block;
        self.version = self.store.commit(&self.at(), &[Arc::clone(&block)]).await.unwrap();
        let model = self.model();
        model.in_force.push(block);
        model.undone.clear();
    }

    async fn branch(&mut self, place: usize) {
        let parent = self.model().clone();
        let item_count = place % (parent.items.len() + 1);
        let fits = |block: &&Arc<CompactionBlock>| block.reach() <= item_count;
        let branch = ModelLoop {
            items: parent.items[..item_count].to_vec(),
            in_force: parent.in_force.iter().take_while(fits).cloned().collect(),
            undone: Vec::new(),
        };
        self.begin(Origin::Branch { parent: self.current.clone(), item_count }, branch).await;
    }

    async fn begin(&mut self, origin: Origin, model: ModelLoop) {
        let id = LoopId::from(format!("loop-{}", self.loops.len()));
        let begun = NewLoop { id: id.clone(), origin, metadata: Metadata::new() };
        self.version = self.store.begin_loop(&self.session, self.version, &begun).await.unwrap();
        self.loops.insert(id.clone(), model);
        self.current = id;
    }

    async fn undo(&mut self) -> Result<(), TestCaseError> {
        let undone = undo(&*self.store, &self.at(), &Transcript::default()).await;
        let model = self.model();
        match model.in_force.pop() {
            Some(block) => model.undone.push(block),
            None => {
                prop_assert_eq!(undone, Err(StoreError::NothingTo { action: "undo" }));
                return Ok(());
            }
        }
        self.version = undone.unwrap();
        Ok(())
    }

    async fn redo(&mut self) -> Result<(), TestCaseError> {
        let redone = redo(&*self.store, &self.at()).await;
        let model = self.model();
        match model.undone.pop() {
            Some(block) => model.in_force.push(block),
            None => {
                prop_assert_eq!(redone, Err(StoreError::NothingTo { action: "redo" }));
                return Ok(());
            }
        }
        self.version = redone.unwrap();
        Ok(())
    }

    async fn compare(&self, id: &LoopId) -> Result<(), TestCaseError> {
        let model = &self.loops[id];
        let head = self.store.head(&self.session, id).await.unwrap();
        prop_assert_eq!(head.version, self.version);
        prop_assert_eq!(head.item_count, model.items.len());
        prop_assert!(head.context().iter().eq(model.view().items()), "the view of {}", id);
        let items = self.store.items(&self.session, id, 0..usize::MAX).await.unwrap();
        prop_assert!(items == model.items, "the items of {}", id);
        let blocks = self.store.blocks(&self.session, id).await.unwrap();
        let in_force = blocks.iter().filter(|block| block.is_in_force).map(|block| &block.block);
        prop_assert!(in_force.eq(&model.in_force), "the blocks of {}", id);
        Ok(())
    }
}
