//! Session files into the store: all at once, or as they grow.
//!
//! What is there already is not stored again. A file that goes on is gone on with; one whose past was
//! changed becomes a branch at the last item that is the same, because nothing recorded is changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foldback_core::{CompactionBlock, EstimatingCounter, Item, LoopId, Metadata, SessionId};
use foldback_engine::session::StoredSession;
use foldback_engine::store::{At, LoopInfo};
use foldback_engine::{Store, StoreError};
use foldback_formats::Conversation;
use serde_json::json;

use crate::args::sessions::Import;
use crate::args::{Inputs, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened, Stamp};
use crate::output;
use crate::scene::recorded;
use crate::terminal::{counted, note};

/// Where a session's notes hold the file it came from.
pub(crate) const SOURCE_NOTE: &str = "source";

/// Where a session's notes hold its title.
pub(crate) const TITLE_NOTE: &str = "title";

/// Where a session's notes hold the model that answered last, and whose rules its requests kept to.
pub(crate) const MODEL_NOTE: &str = "model";
pub(crate) const DIALECT_NOTE: &str = "dialect";

/// Items that are stored in one step.
const BATCH_ITEMS: usize = 1_000;

/// Bytes of a file that are stored in one step.
const BATCH_BYTES: usize = 1 << 20;

pub(crate) async fn run(shared: &Shared, store: &Arc<dyn Store>, import: &Import) -> Result<Exit, Failure> {
    match import.watch {
        true => watch(shared, store, import).await,
        false => once(shared, store, import).await,
    }
}

async fn once(shared: &Shared, store: &Arc<dyn Store>, import: &Import) -> Result<Exit, Failure> {
    let inputs = Inputs { paths: import.paths.clone() };
    let mut worst = Exit::Success;
    let is_single = input::is_single(&inputs);
    if import.id.is_some() && !is_single {
        return Err(Failure::usage("one name for several sessions", "name one file, or leave --id out"));
    }
    for path in input::paths(&inputs)? {
        match one(shared, store, &path, import.id.as_deref()).await {
            Ok(done) => tell(shared, &path, &done)?,
            Err(failure) if is_single => return Err(failure),
            Err(Failure::Format { path, .. }) if is_below_a_folder(&path, import) => {
                note(&format!("{}: no session, passed over", path.display()));
            }
            Err(failure) => {
                failure.report();
                worst = worst.max(failure.exit());
            }
        }
    }
    index(store).await?;
    Ok(worst)
}

/// Looks at the files again and again, and takes in what was added.
async fn watch(shared: &Shared, store: &Arc<dyn Store>, import: &Import) -> Result<Exit, Failure> {
    let mut seen: HashMap<PathBuf, Option<Stamp>> = HashMap::new();
    let mut round = 0;
    while import.rounds.is_none_or(|rounds| round < rounds) {
        let inputs = Inputs { paths: import.paths.clone() };
        for path in input::paths(&inputs).unwrap_or_default() {
            let stamp = Stamp::of(&path);
            if seen.insert(path.clone(), stamp) == Some(stamp) {
                continue;
            }
            // A file that is being written may be half a file: it is read again when it has changed.
            match one(shared, store, &path, None).await {
                Ok(done) if done.iter().any(Imported::is_news) => tell(shared, &path, &done)?,
                Ok(_) | Err(Failure::Format { .. }) => {}
                Err(failure) => failure.report(),
            }
        }
        index(store).await?;
        round += 1;
        tokio::time::sleep(Duration::from_millis(import.every)).await;
    }
    Ok(Exit::Success)
}

/// Whether it is one of many in a folder, which may hold anything, and not named itself.
fn is_below_a_folder(path: &Path, import: &Import) -> bool {
    !import.paths.iter().any(|named| named == path)
}

async fn index(store: &Arc<dyn Store>) -> Result<(), Failure> {
    while store.index(BATCH_ITEMS).await? > 0 {}
    Ok(())
}

/// What was taken in of a conversation.
struct Imported {
    id: SessionId,
    item_count: usize,
    new_items: usize,
    new_blocks: usize,
    branch: Option<LoopId>,
}

impl Imported {
    fn is_news(&self) -> bool {
        self.new_items > 0 || self.new_blocks > 0 || self.branch.is_some()
    }

    fn json(&self, path: &Path) -> serde_json::Value {
        json!({
            "file": path.display().to_string(),
            "session": self.id,
            "items": self.item_count,
            "new_items": self.new_items,
            "new_compactions": self.new_blocks,
            "branch": self.branch,
        })
    }
}

/// Tells scripts of each session, people of each file.
fn tell(shared: &Shared, path: &Path, done: &[Imported]) -> Result<(), Failure> {
    if shared.json {
        return done.iter().try_for_each(|imported| output::print_json(&imported.json(path)));
    }
    let items = counted(done.iter().map(|imported| imported.new_items).sum(), "new item");
    let compactions = counted(done.iter().map(|imported| imported.new_blocks).sum(), "new compaction");
    let names = match done {
        [] => String::new(),
        [only] => only.id.to_string(),
        [first, .., last] => format!("{} sessions, {} to {}", done.len(), first.id, last.id),
    };
    output::print(&format!("{names}  {items}, {compactions}  {}\n", path.display()))
}

/// Takes a file in: each of its conversations is a session of its own. The first one keeps the file.
async fn one(
    shared: &Shared,
    store: &Arc<dyn Store>,
    path: &Path,
    id: Option<&str>,
) -> Result<Vec<Imported>, Failure> {
    let opened = input::one(shared, path)?;
    if opened.session.conversations().is_empty() {
        return Err(Failure::NoSessions { path: path.to_owned() });
    }
    let first = match id {
        Some(id) => SessionId::from(id),
        None => name(store, &opened).await?,
    };
    let mut done = Vec::new();
    for (index, conversation) in opened.session.conversations().iter().enumerate() {
        match index {
            0 => done.push(take_in(store, &opened, conversation, first.clone(), Keeping::File).await?),
            _ if conversation.is_empty() => {}
            _ => {
                let id = SessionId::from(format!("{first}#{}", index + 1));
                done.push(take_in(store, &opened, conversation, id, Keeping::Items).await?);
            }
        }
    }
    Ok(done)
}

/// What a session keeps of the file it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// All its bytes: it is exported as the file was.
    File,
    /// The items of one of its conversations.
    Items,
}

async fn take_in(
    store: &Arc<dyn Store>,
    opened: &Opened,
    conversation: &Conversation,
    id: SessionId,
    keeping: Keeping,
) -> Result<Imported, Failure> {
    let session = &opened.session;
    let bytes = if keeping == Keeping::File { &opened.bytes()?[..] } else { &[] };
    let items = recorded(conversation);
    let transcript = conversation.transcript(Arc::new(EstimatingCounter), session.dialect());
    let overlay = conversation.view_of(&transcript).overlay().clone();
    let (mut stored, is_new) = open_or_create(store, &id, opened, conversation).await?;
    let branch = match is_new {
        true => None,
        false => follow(&mut stored, &items, bytes).await?,
    };
    let new_items = append(&mut stored, &items).await?;
    let new_blocks = commit(&mut stored, overlay.blocks()).await?;
    if keeping == Keeping::File {
        keep_original(&mut stored, bytes).await?;
        keep_title(&mut stored, session.title()).await?;
    }
    Ok(Imported { id, item_count: items.len(), new_items, new_blocks, branch })
}

/// The name of a file's session. Several files may have the same name in them, as copies and compacted
/// versions of a session do: where it is in use by another file that this one does not go on from, the
/// name of the file is added.
async fn name(store: &Arc<dyn Store>, opened: &Opened) -> Result<SessionId, Failure> {
    let stem = opened.path.file_stem().map_or_else(|| "session".into(), |stem| stem.to_string_lossy());
    let id = match (opened.session.sub_agent_of(), opened.session.session_id()) {
        (Some(agent), _) => SessionId::from(format!("{}#{}", agent.session_id, agent.agent_id)),
        (None, Some(id)) => SessionId::from(id),
        (None, None) => SessionId::from(&*stem),
    };
    let there = match store.session(&id).await {
        Ok(there) => there,
        Err(StoreError::NotFound { .. }) => return Ok(id),
        Err(error) => return Err(error.into()),
    };
    let source = there.metadata.get(SOURCE_NOTE).and_then(|source| source.as_str());
    if source == Some(&*opened.path.display().to_string()) {
        return Ok(id);
    }
    let stored = StoredSession::open(Arc::clone(store), &id).await?;
    let items = opened.session.conversations().first().map(recorded).unwrap_or_default();
    let info = info(&stored).await?;
    let goes_on = shared_count(&stored, &info, &items).await? == info.item_count
        && is_beginning(&stored, &info, opened.bytes()?).await?;
    Ok(if goes_on { id } else { SessionId::from(format!("{id}#{stem}")) })
}

async fn open_or_create(
    store: &Arc<dyn Store>,
    id: &SessionId,
    opened: &Opened,
    conversation: &Conversation,
) -> Result<(StoredSession, bool), Failure> {
    match StoredSession::open(Arc::clone(store), id).await {
        Ok(stored) => return Ok((stored, false)),
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let mut metadata = Metadata::new();
    metadata.insert(SOURCE_NOTE.to_owned(), json!(opened.path.display().to_string()));
    metadata.insert("format".to_owned(), json!(opened.session.format().as_str()));
    if let Some(dialect) = opened.session.dialect() {
        metadata.insert(DIALECT_NOTE.to_owned(), json!(dialect.as_str()));
    }
    if let Some(name) = conversation.name() {
        metadata.insert("conversation".to_owned(), json!(name));
    }
    if let Some(model) = opened.session.model() {
        metadata.insert(MODEL_NOTE.to_owned(), json!(model));
    }
    Ok((StoredSession::create(Arc::clone(store), id.clone(), metadata).await?, true))
}

/// Makes sure that the current loop holds a beginning of `items` and of the file: a branch of it does,
/// where the past of the file was changed.
async fn follow(
    stored: &mut StoredSession,
    items: &[Arc<Item>],
    bytes: &[u8],
) -> Result<Option<LoopId>, Failure> {
    let info = info(stored).await?;
    let same = shared_count(stored, &info, items).await?;
    if same == info.item_count && is_beginning(stored, &info, bytes).await? {
        return Ok(None);
    }
    let loop_id = info.id.clone();
    Ok(Some(stored.fork(&loop_id, same).await?))
}

/// How many of a loop's items are the first of these.
async fn shared_count(
    stored: &StoredSession,
    info: &LoopInfo,
    items: &[Arc<Item>],
) -> Result<usize, Failure> {
    let mut same = 0;
    while same < info.item_count.min(items.len()) {
        let end = (same + BATCH_ITEMS).min(info.item_count);
        let there = stored.store().items(stored.id(), &info.id, same..end).await?;
        let equal = there.iter().zip(&items[same..]).take_while(|(there, given)| there == given).count();
        same += equal;
        if equal < there.len() {
            break;
        }
    }
    Ok(same)
}

async fn is_beginning(stored: &StoredSession, info: &LoopInfo, bytes: &[u8]) -> Result<bool, Failure> {
    let mut read: usize = 0;
    loop {
        let piece = stored.store().original(stored.id(), &info.id, read as u64).await?;
        if piece.is_empty() {
            return Ok(true);
        }
        if bytes.get(read..read + piece.len()) != Some(&piece[..]) {
            return Ok(false);
        }
        read += piece.len();
    }
}

async fn append(stored: &mut StoredSession, items: &[Arc<Item>]) -> Result<usize, Failure> {
    let known = info(stored).await?.item_count;
    let new = items.get(known..).unwrap_or_default();
    for batch in new.chunks(BATCH_ITEMS) {
        stored.append(batch).await?;
    }
    Ok(new.len())
}

/// The compactions that the file records beyond those that are in force. Where the session was
/// compacted in the store, that is what it shows, and the file's own are left to the file.
async fn commit(stored: &mut StoredSession, blocks: &[Arc<CompactionBlock>]) -> Result<usize, Failure> {
    let there = stored.store().blocks(stored.id(), stored.current()).await?;
    let in_force: Vec<_> = there.iter().filter(|stored| stored.is_in_force).collect();
    let is_behind = in_force.len() <= blocks.len()
        && in_force.iter().zip(blocks).all(|(stored, block)| stored.block.changes_as(block));
    if !is_behind {
        return Ok(0);
    }
    let new = &blocks[in_force.len()..];
    // The blocks of one compaction are undone together.
    let compactions: Vec<_> = new.chunk_by(|_, next| next.is_joined).collect();
    for compaction in &compactions {
        let version = stored.refresh().await?.version;
        let current = stored.current().clone();
        let at = At { session: stored.id(), loop_id: &current, version };
        stored.store().commit(&at, compaction).await?;
    }
    stored.refresh().await?;
    Ok(compactions.len())
}

async fn keep_original(stored: &mut StoredSession, bytes: &[u8]) -> Result<(), Failure> {
    let info = info(stored).await?;
    let mut offset = usize::try_from(info.original_bytes).unwrap_or(usize::MAX);
    let mut version = stored.refresh().await?.version;
    let store = Arc::clone(stored.store());
    while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
        let piece = &rest[..rest.len().min(BATCH_BYTES)];
        let at = At { session: stored.id(), loop_id: &info.id, version };
        version = store.append_original(&at, offset as u64, piece).await?;
        offset += piece.len();
    }
    stored.refresh().await?;
    Ok(())
}

/// Agents give a session its title after a while, and people change it.
async fn keep_title(stored: &mut StoredSession, title: Option<&str>) -> Result<(), Failure> {
    let Some(title) = title else { return Ok(()) };
    let info = stored.store().session(stored.id()).await?;
    if info.metadata.get(TITLE_NOTE).and_then(|known| known.as_str()) == Some(title) {
        return Ok(());
    }
    let mut metadata = info.metadata;
    metadata.insert(TITLE_NOTE.to_owned(), json!(title));
    stored.store().annotate(stored.id(), info.version, &metadata).await?;
    stored.refresh().await?;
    Ok(())
}

async fn info(stored: &StoredSession) -> Result<LoopInfo, Failure> {
    let loops = stored.store().loops(stored.id()).await?;
    let missing = || StoreError::NotFound { what: "loop", id: stored.current().to_string() };
    Ok(loops.into_iter().find(|info| info.id == *stored.current()).ok_or_else(missing)?)
}
