//! `foldback session export`: a session of the store as a file.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Item, Tokens, View, repair};
use foldback_engine::Store;
use foldback_engine::session::{CompactionConfig, StoredSession};
use foldback_formats::{Format, Sent, SessionFile, native_file, write};

use super::counting_session;
use crate::args::{Extent, Shared};
use crate::failure::Failure;
use crate::requests::{spoken, tell_waiting, unanswered_calls};

/// The current loop as a file. In no other format than it came in, that is the file that it was imported
/// from, with the compactions that were made since; where items were added, foldback's own form.
pub(super) async fn run(
    shared: &Shared,
    store: &Arc<dyn Store>,
    id: &str,
    format: Option<Format>,
    from: Extent,
) -> Result<Vec<u8>, Failure> {
    let session = counting_session(shared, store, id).await?;
    let view = session.view().await?;
    let Some(format) = format else {
        let original = original(store, &session).await?;
        return Ok(exported(original, &view).unwrap_or_else(|| native_file(&view)));
    };
    if format == Format::Native && from == Extent::View {
        return Ok(native_file(&view));
    }
    // What a provider would reject is no export.
    let dialect = spoken(format);
    let items = match from {
        Extent::View => {
            let config = CompactionConfig { dialect, ..CompactionConfig::default() };
            session.context(&config, Tokens(u64::MAX)).await?.items
        }
        Extent::History => {
            // What was recorded for compactions was not said.
            let blocks = store.blocks(session.id(), session.current()).await?;
            let copies: Vec<Range<usize>> =
                blocks.iter().filter_map(|stored| stored.block.copies.clone()).collect();
            let is_said = |index: usize| !copies.iter().any(|copies| copies.contains(&index));
            let items = view.transcript().items().enumerate().filter(|(index, _)| is_said(*index));
            let items: Vec<Arc<Item>> = items.map(|(_, item)| Arc::clone(item)).collect();
            if format == Format::Native { items } else { repair(&items, dialect).items }
        }
    };
    if !shared.quiet {
        tell_waiting(id, unanswered_calls(items.iter(), format.dialect()), format);
    }
    let written = write(format, &Sent::new(items), None);
    let written = written.map_err(|error| Failure::Format { path: id.into(), error })?;
    Ok(written.to_bytes())
}

/// The file that the current loop was imported from; nothing where it was not.
pub(super) async fn original(store: &Arc<dyn Store>, session: &StoredSession) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    loop {
        let piece = store.original(session.id(), session.current(), bytes.len() as u64).await?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(piece);
    }
}

/// A file with what the store has beyond it: compactions, and what was recorded for them. None where
/// something was said since, which no agent's file is written for.
fn exported(original: Vec<u8>, view: &View) -> Option<Vec<u8>> {
    let file = SessionFile::read(original).ok()?;
    let conversation = file.conversations().first()?;
    let beginning = conversation.recorded().iter().map(|recorded| &recorded.item);
    if !beginning.eq(view.transcript().items().take(conversation.len())) {
        return None;
    }
    let of_file = conversation.view_of(&view.transcript().first(conversation.len()));
    let (now, then) = (view.overlay().blocks(), of_file.overlay().blocks());
    let keeps = now.iter().zip(then).take_while(|(now, then)| now.changes_as(then)).count();
    let repaired: usize = now[keeps..].iter().filter_map(|block| block.copies.as_ref()).map(Range::len).sum();
    if conversation.len() + repaired < view.transcript().len() {
        return None;
    }
    if keeps == now.len() && keeps == then.len() {
        return Some(file.bytes().to_vec());
    }
    Some(file.compacted(&file.committed(conversation, view, keeps)).to_bytes())
}
