//! `foldback undo` and `foldback redo`: the newest compaction of a session file taken off, and put back.
//!
//! Nothing is deleted: the file gets one more record, after which the model sees what it saw before.

use std::sync::Arc;

use foldback_core::{CompactionBlock, View};
use foldback_formats::{Conversation, SessionFile, Written};
use serde::Serialize;

use crate::args::{Shared, Undo};
use crate::counting;
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output::{self, Destination};
use crate::plain;
use crate::scene::Scene;
use crate::terminal::{STRONG, counted, number, say, styled};
use crate::written::{Fresh, WrittenReport};

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Undo,
    Redo,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

#[derive(Serialize)]
struct UndoReport {
    file: String,
    /// Who made what was undone or redone.
    by: String,
    tokens_before: u64,
    tokens_after: u64,
    items: usize,
    written: Option<WrittenReport>,
}

pub(crate) fn run(shared: &Shared, arguments: &Undo, way: Way) -> Result<Exit, Failure> {
    let is_single = input::is_single(&arguments.inputs);
    let destination = Destination::of(shared, arguments.output.as_deref(), arguments.in_place, is_single)?;
    input::for_each(shared, &arguments.inputs, |opened| {
        let session = opened.whole()?;
        let (mut report, written) = changed(shared, opened, &session, way)?;
        let place = destination.write(opened, Some(&written), None)?;
        report.written = place.map(|place| {
            WrittenReport::new(Some(&place), opened, Some(&written), Vec::new(), Fresh::WhereNeeded)
        });
        match shared.json {
            true => output::print_json(&report)?,
            false if shared.quiet => {}
            false => report.tell(way),
        }
        Ok(Exit::Success)
    })
}

impl UndoReport {
    fn tell(&self, way: Way) {
        let (before, after) = (number(self.tokens_before), number(self.tokens_after));
        let items = counted(self.items, "item");
        say(&format!(
            "{}: {} of the compaction by {}",
            styled(STRONG, &self.file),
            way.name(),
            plain::by(&self.by)
        ));
        say(&format!("{before} → {after} tokens, the model sees {items}"));
        if let Some(written) = &self.written {
            written.tell(way.name());
        }
    }
}

/// The session with its newest compaction taken off or put back.
fn changed<'s>(
    shared: &Shared,
    opened: &Opened,
    session: &'s SessionFile,
    way: Way,
) -> Result<(UndoReport, Written<'s>), Failure> {
    let nothing = || {
        let hint = match way {
            Way::Undo => "`foldback log` lists the compactions of a session",
            Way::Redo => "only what was undone last can be redone, as long as nothing was compacted since",
        };
        Failure::usage(format!("{}: there is nothing to {}", opened.path.display(), way.name()), hint)
    };
    let conversation = session.conversations().first().ok_or_else(nothing)?;
    let scene = Scene::counted(conversation, &counting::counter(shared), session.dialect());
    let before = conversation.view_of(&scene.transcript);
    let (after, block) = match way {
        Way::Undo => before.undo().and_then(|(view, taken_off)| Some((view, taken_off.into_iter().next()?))),
        Way::Redo => redone(conversation, &before),
    }
    .ok_or_else(nothing)?;
    let keeps = kept(&before, &after);
    let written = session.compacted(&session.committed(conversation, &after, keeps));
    let report = UndoReport {
        file: opened.path.display().to_string(),
        by: block.strategy.to_string(),
        tokens_before: before.tokens().0,
        tokens_after: after.tokens().0,
        items: after.len(),
        written: None,
    };
    Ok((report, written))
}

fn redone(conversation: &Conversation, now: &View) -> Option<(View, Arc<CompactionBlock>)> {
    let overlay = conversation.redo()?;
    let newest = overlay.blocks().last()?.clone();
    Some((View::through(now.transcript(), &overlay).ok()?, newest))
}

/// How many blocks of a view stay in force in another.
fn kept(before: &View, after: &View) -> usize {
    let both = before.overlay().blocks().iter().zip(after.overlay().blocks());
    both.take_while(|(before, after)| before == after).count()
}
