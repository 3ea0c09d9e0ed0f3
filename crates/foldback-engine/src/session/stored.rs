//! A session in a store: opened, appended to, compacted and taken back by any number of processes.
//!
//! What a loop shows where it is the most recent one are the blocks that the store has in force. Its
//! block as an older loop is kept in the loop's notes, under [`OLDER_NOTE`]: it is read with the loop
//! and not with its history.

mod compact;
mod live;
mod seen;

use std::sync::Arc;

use foldback_core::{
    CompactionBlock, Handle, Item, LoopId, Metadata, Overlay, OverlayError, Recalled, SessionId, Splice,
    Tokens, Transcript, View,
};
use serde::{Deserialize, Serialize};

pub use live::LiveSession;

use seen::{Pinning, Seen, SeenExtent};

use super::config::CompactionConfig;
use super::context::{Loading, SessionContext, build_context_from_session};
use super::orchestrate::SessionCompaction;
use super::record::{InForce, LoopPlace, LoopRecord};
use super::scope::CompactionScope;
use super::{Session, SessionError};
use crate::store::{
    At, LoopInfo, NewLoop, NewSession, Origin, Revision, SessionInfo, Store, StoreError, Version, loop_info,
    redo, undo,
};

/// Where a loop's notes hold its block as an older loop.
pub const OLDER_NOTE: &str = "foldback.older";

/// How often a change is tried again because another process was faster.
const CONFLICTS_MAX: usize = 64;

/// Why a stored session did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredSessionError {
    /// The store did not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session did not.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Another process wrote to the loop that an agent is in.
    #[error("session {session} was changed by another process; open it again to see what is new")]
    ChangedElsewhere {
        /// The session.
        session: SessionId,
    },
}

impl From<OverlayError> for StoredSessionError {
    fn from(error: OverlayError) -> Self {
        Self::Session(error.into())
    }
}

/// What hides the items of a loop as an older one, as its notes hold it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OlderNote {
    item_count: usize,
    blocks: Vec<CompactionBlock>,
}

impl OlderNote {
    fn of(info: &LoopInfo) -> Option<Self> {
        // Notes that cannot be read are a host's own: the loop is then loaded as it was left.
        serde_json::from_value(info.metadata.get(OLDER_NOTE)?.clone()).ok()
    }
}

/// A session in a store.
#[derive(Clone, Debug)]
pub struct StoredSession {
    store: Arc<dyn Store>,
    id: SessionId,
    version: Version,
    current: LoopId,
    empty: Transcript,
    seen: Seen,
}

/// A change that holds whatever others did meanwhile: it adds, and says where.
enum Change<'a> {
    Append(&'a LoopId, &'a [Arc<Item>]),
    Commit(&'a LoopId, &'a [Arc<CompactionBlock>]),
    Revise(&'a LoopId, &'a Revision<'a>),
    Begin(&'a NewLoop),
    Switch(&'a LoopId),
    Note(&'a LoopId, &'a Metadata),
}

/// What a change goes by, looked at before every attempt: the loop is still so.
type Provided<'a> = (&'a LoopId, &'a (dyn Fn(&LoopInfo) -> bool + Sync));

impl StoredSession {
    /// Begins a session with one empty loop.
    pub async fn create(
        store: Arc<dyn Store>,
        id: impl Into<SessionId>,
        metadata: Metadata,
    ) -> Result<Self, StoreError> {
        let id = id.into();
        let current: LoopId = format!("{id}-0").into();
        let new = NewSession { metadata, ..NewSession::new(id.clone(), current.clone()) };
        let version = store.create(&new).await?;
        Ok(Self { store, id, version, current, empty: Transcript::default(), seen: Seen::default() })
    }

    /// Opens a session. Costs nothing of its history.
    pub async fn open(store: Arc<dyn Store>, id: &SessionId) -> Result<Self, StoreError> {
        let info = store.session(id).await?;
        let (id, version, current) = (info.id, info.version, info.current_loop);
        Ok(Self { store, id, version, current, empty: Transcript::default(), seen: Seen::default() })
    }

    /// Opens a session, or begins it where the store has none of this name.
    pub async fn open_or_create(store: Arc<dyn Store>, id: impl Into<SessionId>) -> Result<Self, StoreError> {
        let id = id.into();
        match Self::open(Arc::clone(&store), &id).await {
            Err(StoreError::NotFound { .. }) => {}
            opened => return opened,
        }
        match Self::create(Arc::clone(&store), id.clone(), Metadata::new()).await {
            // Another process began it first.
            Err(StoreError::Exists { .. }) => Self::open(store, &id).await,
            created => created,
        }
    }

    /// The same, counting as this transcript does.
    #[must_use]
    pub fn counting_as(mut self, transcript: &Transcript) -> Self {
        self.empty = transcript.clone_empty();
        self
    }

    /// The same, with pins on what this says of the items that the model sees, for compactions by this
    /// value alone: nothing of it is stored.
    #[must_use]
    pub fn pinning(mut self, is_pinned: impl Fn(&Item) -> bool + Send + Sync + 'static) -> Self {
        self.seen.is_pinned = Some(Pinning(Arc::new(is_pinned)));
        self
    }

    /// The same, compacted from everything that was recorded: what this value commits to the current loop
    /// takes the place of the compactions before.
    #[must_use]
    pub fn from_history(mut self) -> Self {
        self.seen.extent = SeenExtent::History;
        self
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The loop that is appended to.
    pub fn current(&self) -> &LoopId {
        &self.current
    }

    /// Where it is kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Sees what others did since. Returns what is known about the session now.
    pub async fn refresh(&mut self) -> Result<SessionInfo, StoreError> {
        let info = self.store.session(&self.id).await?;
        self.version = info.version;
        self.current = info.current_loop.clone();
        Ok(info)
    }

    /// Appends items to the current loop, behind whatever others appended meanwhile.
    pub async fn append(&mut self, items: &[Arc<Item>]) -> Result<(), StoreError> {
        let current = self.current.clone();
        self.change(&Change::Append(&current, items)).await
    }

    /// Begins a loop after the current one, and goes on with it.
    pub async fn begin_loop(&mut self) -> Result<LoopId, StoreError> {
        self.begin(Origin::After(self.current.clone())).await
    }

    /// A branch that has the first items of a loop, seen as they were then, and goes on with it.
    pub async fn fork(&mut self, loop_id: &LoopId, item_count: usize) -> Result<LoopId, StoreError> {
        self.begin(Origin::Branch { parent: loop_id.clone(), item_count }).await
    }

    /// Takes the current loop back to its first items; what came after stays in the loop it was.
    pub async fn rewind(&mut self, item_count: usize) -> Result<LoopId, StoreError> {
        self.fork(&self.current.clone(), item_count).await
    }

    /// Goes on with another loop.
    pub async fn resume(&mut self, loop_id: &LoopId) -> Result<(), StoreError> {
        self.change(&Change::Switch(loop_id)).await?;
        self.current = loop_id.clone();
        Ok(())
    }

    /// What the model sees: reads what is visible of the loops in scope, and nothing else.
    pub async fn context(
        &self,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
    ) -> Result<SessionContext, StoredSessionError> {
        let loops = self.store.loops(&self.id).await?;
        let chain = chain(&loops, &self.current);
        let mut loading = Loading::new(self.empty.meter());
        let Some((current, older)) = chain.split_first() else { return Ok(loading.finish(config.dialect)) };
        let items = self.load_loop(current, LoopPlace::MostRecent).await?;
        let left = max_context_tokens.saturating_sub(self.cost(&items));
        self.load_older(older, config, left, &mut loading).await?;
        loading.add(current.id.clone(), LoopPlace::MostRecent, &items);
        Ok(loading.finish(config.dialect))
    }

    /// The items that a compaction by this value starts from, as [`context`](Self::context) shows them.
    pub async fn context_items(
        &self,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
    ) -> Result<Vec<Arc<Item>>, StoredSessionError> {
        let session = self.load().await?;
        Ok(build_context_from_session(&session, &self.current, config, max_context_tokens)?.items)
    }

    /// What is seen of each loop after a compaction by this value, stored or not.
    pub async fn views_after(&self, done: &SessionCompaction) -> Result<Vec<View>, StoredSessionError> {
        let session = Self { seen: Seen::default(), ..self.clone() }.load().await?;
        let mut views = Vec::new();
        for record in session.chain(&self.current)? {
            let place = if *record.id() == self.current { LoopPlace::MostRecent } else { LoopPlace::Older };
            views.push(match done.loops.iter().find(|done| done.loop_id == *record.id()) {
                Some(done) => done.view.clone(),
                None => record.view(place)?,
            });
        }
        Ok(views)
    }

    /// What the model sees of the loops before the current one, which takes so many tokens.
    async fn context_before(
        &self,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
        current_tokens: Tokens,
    ) -> Result<SessionContext, StoredSessionError> {
        let loops = self.store.loops(&self.id).await?;
        let chain = chain(&loops, &self.current);
        let mut loading = Loading::new(self.empty.meter());
        let left = max_context_tokens.saturating_sub(current_tokens);
        self.load_older(chain.get(1..).unwrap_or_default(), config, left, &mut loading).await?;
        Ok(loading.finish(config.dialect))
    }

    /// Loads the earlier loops in scope; `loops` are given newest first.
    async fn load_older(
        &self,
        loops: &[&LoopInfo],
        config: &CompactionConfig,
        mut left: Tokens,
        loading: &mut Loading<'_>,
    ) -> Result<(), StoredSessionError> {
        let count = match config.compaction_scope {
            CompactionScope::FixedCount(count) => count,
            CompactionScope::TokenBudget => usize::MAX,
        };
        let mut loaded = Vec::new();
        for info in loops.iter().take(count) {
            let items = self.load_loop(info, LoopPlace::Older).await?;
            let cost = match OlderNote::of(info) {
                None => self.cost(&items).min(config.max_summary_tokens),
                Some(_) => self.cost(&items),
            };
            if config.compaction_scope == CompactionScope::TokenBudget && cost > left {
                break;
            }
            left = left.saturating_sub(cost);
            loaded.push((info.id.clone(), items));
        }
        let oldest_first = loaded.into_iter().rev();
        oldest_first.for_each(|(loop_id, items)| loading.add(loop_id, LoopPlace::Older, &items));
        Ok(())
    }

    fn cost(&self, items: &[Arc<Item>]) -> Tokens {
        items.iter().map(|item| self.empty.meter().item(item).total).sum()
    }

    async fn load_loop(&self, info: &LoopInfo, place: LoopPlace) -> Result<Vec<Arc<Item>>, StoreError> {
        let note = OlderNote::of(info)
            .filter(|note| place == LoopPlace::Older && note.item_count <= info.item_count);
        let Some(note) = note else { return Ok(self.store.head(&self.id, &info.id).await?.context()) };
        let splice = note.blocks.iter().fold(Splice::default(), |splice, block| splice.with(block));
        let mut visible = Vec::new();
        for range in splice.visible(info.item_count) {
            visible.extend(self.store.items(&self.id, &info.id, range).await?);
        }
        Ok(splice.context(info.item_count, visible))
    }

    /// The current loop as recorded and as the model sees it: all of its history.
    pub async fn view(&self) -> Result<View, StoredSessionError> {
        let info = loop_info(&*self.store, &self.id, &self.current).await?;
        let (transcript, overlay) = self.load_record(&info).await?;
        Ok(View::through(&transcript, &overlay)?)
    }

    async fn load_record(&self, info: &LoopInfo) -> Result<(Transcript, Overlay), StoreError> {
        let mut transcript = self.empty.clone_empty();
        transcript.extend(self.store.items(&self.id, &info.id, 0..info.item_count).await?);
        let blocks = self.store.blocks(&self.id, &info.id).await?;
        let in_force = blocks.into_iter().filter(|stored| stored.is_in_force);
        Ok((transcript, in_force.map(|stored| stored.block).collect()))
    }

    /// What a handle hides in the summary that a loop has as an older one.
    pub(super) async fn recall_as_older(
        &self,
        info: &LoopInfo,
        handle: &Handle,
    ) -> Result<Option<Recalled>, StoreError> {
        let Some(note) = OlderNote::of(info).filter(|note| note.item_count <= info.item_count) else {
            return Ok(None);
        };
        let mut transcript = self.empty.clone_empty();
        transcript.extend(self.store.items(&self.id, &info.id, 0..note.item_count).await?);
        let overlay = note.blocks.into_iter().map(Arc::new).collect();
        // Blocks that do not fit the items are a host's own notes.
        Ok(View::through(&transcript, &overlay).ok().and_then(|view| view.recall(handle)))
    }

    /// The chain of the current loop in memory, with what is in force: all of its history.
    pub async fn load(&self) -> Result<Session, StoredSessionError> {
        let loops = self.store.loops(&self.id).await?;
        let mut session = Session::new(self.id.clone()).counting_as(&self.empty);
        let mut parent = None;
        for info in chain(&loops, &self.current).into_iter().rev() {
            let (transcript, overlay) = self.load_record(info).await?;
            let transcript = self.seen.pinned(transcript);
            let mut record = LoopRecord::new(info.id.clone(), parent.take(), transcript);
            let blocks = self.seen.pinned_blocks(overlay.blocks());
            record.commit_at(LoopPlace::MostRecent, &blocks, info.item_count);
            if let Some(note) = OlderNote::of(info) {
                let blocks: Vec<_> = note.blocks.into_iter().map(Arc::new).collect();
                record.commit_at(LoopPlace::Older, &self.seen.pinned_blocks(&blocks), note.item_count);
            }
            if self.seen.extent == SeenExtent::History {
                record.put_in_force(InForce::default());
            }
            parent = Some(info.id.clone());
            session.add(record);
        }
        Ok(session)
    }

    /// Takes the newest compaction of the current loop off again. Refused where the session was
    /// changed meanwhile: what would be undone could be somebody else's.
    ///
    /// Items that were repaired for it stay recorded, and a block hides them from then on.
    pub async fn undo(&mut self) -> Result<(), StoreError> {
        self.version = undo(&*self.store, &self.at(&self.current), &self.empty).await?;
        Ok(())
    }

    /// Puts the compaction that was undone last in force again. Refused where the session was changed
    /// meanwhile.
    pub async fn redo(&mut self) -> Result<(), StoreError> {
        self.version = redo(&*self.store, &self.at(&self.current)).await?;
        Ok(())
    }

    fn outrun(&self) -> StoreError {
        let session = self.id.clone();
        StoreError::Conflict { session, expected: self.version, actual: self.version }
    }

    fn at<'a>(&'a self, loop_id: &'a LoopId) -> At<'a> {
        At { session: &self.id, loop_id, version: self.version }
    }

    async fn begin(&mut self, origin: Origin) -> Result<LoopId, StoreError> {
        for _ in 0..CONFLICTS_MAX {
            let number = self.store.loops(&self.id).await?.len();
            let id: LoopId = format!("{}-{number}", self.id).into();
            let begun = NewLoop { id: id.clone(), origin: origin.clone(), metadata: Metadata::new() };
            match self.change(&Change::Begin(&begun)).await {
                // Another process began a loop of this name first.
                Err(StoreError::Exists { .. }) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.current = id.clone();
                    return Ok(id);
                }
            }
        }
        Err(self.outrun())
    }

    /// Makes a change at whatever version the session has by then.
    async fn change(&mut self, change: &Change<'_>) -> Result<(), StoreError> {
        self.change_if(change, None).await.map(|_| ())
    }

    /// The same, as long as what it goes by holds. Returns whether it was made.
    async fn change_if(
        &mut self,
        change: &Change<'_>,
        provided: Option<Provided<'_>>,
    ) -> Result<bool, StoreError> {
        for _ in 0..CONFLICTS_MAX {
            if let Some((loop_id, is_so)) = provided
                && !is_so(&loop_info(&*self.store, &self.id, loop_id).await?)
            {
                return Ok(false);
            }
            match self.attempt(change).await {
                Err(StoreError::Conflict { actual, .. }) => self.version = actual,
                Err(error) => return Err(error),
                Ok(version) => {
                    self.version = version;
                    return Ok(true);
                }
            }
        }
        Err(self.outrun())
    }

    async fn attempt(&self, change: &Change<'_>) -> Result<Version, StoreError> {
        match change {
            Change::Append(loop_id, items) => self.store.append(&self.at(loop_id), items).await,
            Change::Commit(loop_id, blocks) => self.store.commit(&self.at(loop_id), blocks).await,
            Change::Revise(loop_id, revision) => self.store.revise(&self.at(loop_id), revision).await,
            Change::Begin(begun) => self.store.begin_loop(&self.id, self.version, begun).await,
            Change::Switch(loop_id) => self.store.switch_loop(&self.at(loop_id)).await,
            Change::Note(loop_id, metadata) => self.store.annotate_loop(&self.at(loop_id), metadata).await,
        }
    }
}

/// The loops from this one back to the first. A branch stands beside the loop whose items it shares.
fn chain<'l>(loops: &'l [LoopInfo], loop_id: &LoopId) -> Vec<&'l LoopInfo> {
    let mut chain = Vec::new();
    let mut next = Some(loop_id);
    // Each loop comes after the one it goes on from: no more steps than loops.
    for _ in 0..loops.len() {
        let Some(info) = next.and_then(|id| loops.iter().find(|info| info.id == *id)) else { break };
        chain.push(info);
        let mut origin = &info.origin;
        for _ in 0..loops.len() {
            let Origin::Branch { parent, .. } = origin else { break };
            let Some(shared) = loops.iter().find(|info| info.id == *parent) else { break };
            origin = &shared.origin;
        }
        next = match origin {
            Origin::After(parent) => Some(parent),
            Origin::Root | Origin::Branch { .. } => None,
        };
    }
    chain
}
