//! Backup and restore, of any store into any store: one line of JSON for each thing that is kept.
//!
//! An archive is compressed and ends with a line that says how much it holds, so that one that was
//! cut off is recognised. Restoring adds sessions; one that is there already is an error, and those
//! before it have been restored.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;

use foldback_core::{CompactionBlock, Item, LoopId, Metadata, SessionId};
use foldback_engine::store::{
    At, BlockNumber, LoopInfo, NewLoop, NewSession, Origin, Page, StackPoint, Version,
};
use foldback_engine::{Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::body::{corrupt, failed};

/// The version of the archive's form.
const FORM: u32 = 2;

/// Items that are read or written at a time.
const BATCH_ITEMS: usize = 500;

/// Sessions that are listed at a time.
const BATCH_SESSIONS: usize = 100;

/// Bytes of one line: a batch of the largest items.
const LINE_BYTES_MAX: u64 = 4 << 30;

/// How hard an archive is compressed.
const LEVEL: i32 = 9;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Archive { form: u32 },
    Session { id: SessionId, current_loop: LoopId, metadata: Metadata },
    Loop { id: LoopId, origin: Origin, metadata: Metadata },
    Items { loop_id: LoopId, items: Vec<Item> },
    Original { loop_id: LoopId, bytes: String },
    Block { loop_id: LoopId, number: BlockNumber, parent: Option<BlockNumber>, block: Box<CompactionBlock> },
    Stack { loop_id: LoopId, point: StackPoint },
    End { session_count: usize },
}

/// Writes everything that is in a store. Answers how many sessions that is.
pub async fn backup(store: &dyn Store, target: impl Write + Send) -> Result<usize, StoreError> {
    let encoder = zstd::Encoder::new(target, LEVEL).map_err(|error| failed("writing the backup", &error))?;
    let mut lines = Lines { encoder };
    lines.write(&Line::Archive { form: FORM })?;
    let mut sessions: Vec<SessionId> = Vec::new();
    loop {
        let page = Page { skip: sessions.len(), limit: BATCH_SESSIONS };
        let batch = store.sessions(&page).await?;
        let is_last = batch.len() < BATCH_SESSIONS;
        sessions.extend(batch.into_iter().map(|session| session.id));
        if is_last {
            break;
        }
    }
    sessions.sort();
    sessions.dedup();
    for session in &sessions {
        write_session(store, session, &mut lines).await?;
    }
    lines.write(&Line::End { session_count: sessions.len() })?;
    let mut target = lines.encoder.finish().map_err(|error| failed("writing the backup", &error))?;
    target.flush().map_err(|error| failed("writing the backup", &error))?;
    Ok(sessions.len())
}

struct Lines<W: Write> {
    encoder: zstd::Encoder<'static, W>,
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &Line) -> Result<(), StoreError> {
        serde_json::to_writer(&mut self.encoder, line)
            .map_err(|error| failed("writing the backup", &error))?;
        self.encoder.write_all(b"\n").map_err(|error| failed("writing the backup", &error))
    }
}

async fn write_session<W: Write>(
    store: &dyn Store,
    session: &SessionId,
    lines: &mut Lines<W>,
) -> Result<(), StoreError> {
    let info = store.session(session).await?;
    lines.write(&Line::Session {
        id: session.clone(),
        current_loop: info.current_loop,
        metadata: info.metadata,
    })?;
    let loops = store.loops(session).await?;
    for info in &loops {
        write_loop(store, session, info, lines).await?;
    }
    let mut blocks = Vec::new();
    for info in &loops {
        let own = store.blocks(session, &info.id).await?;
        blocks.extend(own.into_iter().filter(|block| block.loop_id == info.id));
    }
    blocks.sort_by_key(|block| block.number);
    for block in blocks {
        lines.write(&Line::Block {
            loop_id: block.loop_id,
            number: block.number,
            parent: block.parent,
            block: Box::new(CompactionBlock::clone(&block.block)),
        })?;
    }
    for info in loops {
        lines.write(&Line::Stack { loop_id: info.id, point: info.stack })?;
    }
    Ok(())
}

async fn write_loop<W: Write>(
    store: &dyn Store,
    session: &SessionId,
    info: &LoopInfo,
    lines: &mut Lines<W>,
) -> Result<(), StoreError> {
    let (id, origin, metadata) = (info.id.clone(), info.origin.clone(), info.metadata.clone());
    lines.write(&Line::Loop { id, origin, metadata })?;
    let mut start = match &info.origin {
        Origin::Root | Origin::After(_) => 0,
        Origin::Branch { item_count, .. } => *item_count,
    };
    while start < info.item_count {
        let end = info.item_count.min(start + BATCH_ITEMS);
        let items = store.items(session, &info.id, start..end).await?;
        let items = items.iter().map(|item| Item::clone(item)).collect();
        lines.write(&Line::Items { loop_id: info.id.clone(), items })?;
        start = end;
    }
    let mut offset = 0;
    loop {
        let bytes = store.original(session, &info.id, offset).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        offset += bytes.len() as u64;
        lines.write(&Line::Original { loop_id: info.id.clone(), bytes: escape(&bytes) })?;
    }
}

/// Bytes as text: one character for each, so that text stays text and compresses as such.
fn escape(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn unescape(text: &str) -> Result<Vec<u8>, StoreError> {
    let bytes = text.chars().map(|character| u8::try_from(u32::from(character)));
    bytes.collect::<Result<_, _>>().map_err(|_| corrupt("the backup holds bytes that are none".to_owned()))
}

/// Adds the sessions of an archive to a store. Answers how many.
pub async fn restore(store: &dyn Store, source: impl Read + Send) -> Result<usize, StoreError> {
    let unreadable = |error: &dyn std::error::Error| corrupt(format!("the backup cannot be read ({error})"));
    let decoder = zstd::Decoder::new(source).map_err(|error| unreadable(&error))?;
    let mut reader = BufReader::new(decoder);
    let mut restoring: Option<Restoring> = None;
    let mut session_count = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = reader.by_ref().take(LINE_BYTES_MAX);
        let length = bounded.read_until(b'\n', &mut line).map_err(|error| unreadable(&error))?;
        if length == 0 {
            return Err(corrupt("the backup is cut off".to_owned()));
        }
        match serde_json::from_slice(&line).map_err(|error| unreadable(&error))? {
            Line::Archive { form: FORM } => {}
            Line::Archive { form } => {
                let why = format!("the backup has form {form}, this foldback reads {FORM}");
                return Err(StoreError::Failed { operation: "restoring", why });
            }
            Line::Session { id, current_loop, metadata } => {
                if let Some(done) = restoring.take() {
                    done.finish(store).await?;
                }
                session_count += 1;
                restoring = Some(Restoring::new(id, current_loop, metadata));
            }
            Line::End { session_count: expected } => {
                if let Some(done) = restoring.take() {
                    done.finish(store).await?;
                }
                let is_all = expected == session_count;
                return if is_all {
                    Ok(expected)
                } else {
                    Err(corrupt("the backup lacks sessions".to_owned()))
                };
            }
            line => {
                let session = restoring.as_mut();
                let session =
                    session.ok_or_else(|| corrupt("the backup begins inside a session".to_owned()))?;
                session.take(store, line).await?;
            }
        }
    }
}

/// A session on its way into a store.
struct Restoring {
    id: SessionId,
    current_loop: LoopId,
    metadata: Metadata,
    version: Option<Version>,
    offsets: std::collections::HashMap<LoopId, u64>,
}

impl Restoring {
    fn new(id: SessionId, current_loop: LoopId, metadata: Metadata) -> Self {
        Self { id, current_loop, metadata, version: None, offsets: Default::default() }
    }

    async fn take(&mut self, store: &dyn Store, line: Line) -> Result<(), StoreError> {
        let id = self.id.clone();
        let Some(version) = self.version else {
            let Line::Loop { id: first_loop, metadata, .. } = line else {
                return Err(corrupt(format!("session {id} begins without a loop")));
            };
            let session = NewSession { id: id.clone(), first_loop, metadata: self.metadata.clone() };
            let version = store.create(&session).await?;
            let at = At { session: &id, loop_id: &session.first_loop, version };
            self.version = Some(store.annotate_loop(&at, &metadata).await?);
            return Ok(());
        };
        let at = |loop_id| At { session: &id, loop_id, version };
        let version = match line {
            Line::Loop { id: loop_id, origin, metadata } => {
                store.begin_loop(&id, version, &NewLoop { id: loop_id, origin, metadata }).await?
            }
            Line::Items { loop_id, items } => {
                let items: Vec<Arc<Item>> = items.into_iter().map(Arc::new).collect();
                store.append(&at(&loop_id), &items).await?
            }
            Line::Original { loop_id, bytes } => {
                let bytes = unescape(&bytes)?;
                let offset = self.offsets.entry(loop_id.clone()).or_default();
                let version = store.append_original(&at(&loop_id), *offset, &bytes).await?;
                *offset += bytes.len() as u64;
                version
            }
            Line::Block { loop_id, parent, block, .. } => {
                let below = StackPoint { top: parent, tip: parent };
                let version = store.set_stack(&at(&loop_id), below).await?;
                store.commit(&At { version, ..at(&loop_id) }, &[Arc::from(block)]).await?
            }
            Line::Stack { loop_id, point } => store.set_stack(&at(&loop_id), point).await?,
            Line::Archive { .. } | Line::Session { .. } | Line::End { .. } => version,
        };
        self.version = Some(version);
        Ok(())
    }

    async fn finish(self, store: &dyn Store) -> Result<(), StoreError> {
        let Some(version) = self.version else {
            return Err(corrupt(format!("session {} has no loop", self.id)));
        };
        let at = At { session: &self.id, loop_id: &self.current_loop, version };
        store.switch_loop(&at).await.map(|_| ())
    }
}
