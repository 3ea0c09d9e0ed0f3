//! What was written where, for scripts and for people.

use foldback_formats::{Contents, Format, Written, WrittenAs};
use serde::Serialize;

use crate::agents::resume_command;
use crate::input::Opened;
use crate::output::OutputPlace;
use crate::terminal::{STRONG, counted, say, styled};

/// Losses and repairs that are told one by one; the rest are counted.
const TOLD_MAX: usize = 5;

#[derive(Serialize)]
pub(crate) struct WrittenReport {
    /// None where nothing is written, and only said how it would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<String>,
    format: &'static str,
    how: How,
    losses: Vec<String>,
    /// Conversations of sub-agents, which a fresh file of the main one does not have.
    conversations_left_out: usize,
    /// How the agent is told to go on with what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<String>,
    #[serde(skip)]
    is_in_place: bool,
    #[serde(skip)]
    why_fresh: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum How {
    Unchanged,
    Appended,
    Fresh,
}

/// Whether a fresh file was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fresh {
    AskedFor,
    WhereNeeded,
}

impl WrittenReport {
    pub(crate) fn new(
        place: Option<&OutputPlace>,
        opened: &Opened,
        written: Option<&Written<'_>>,
        losses: Vec<String>,
        fresh: Fresh,
    ) -> Self {
        let session = &opened.session;
        let (format, how) = match written.map(|written| written.written_as) {
            None => (session.format(), How::Unchanged),
            Some(WrittenAs::Appended(format)) => (format, How::Appended),
            Some(WrittenAs::Fresh(format)) => (format, How::Fresh),
        };
        let is_of_one = how == How::Fresh && !session.format().holds_many();
        let others = session.conversations().len().saturating_sub(1);
        let why_fresh = (how == How::Fresh && fresh == Fresh::WhereNeeded).then(|| why_fresh(session));
        Self {
            path: place.map(|place| place.path.display().to_string()),
            backup: place.and_then(|place| place.backup.as_ref()).map(|backup| backup.display().to_string()),
            format: format.as_str(),
            how,
            losses,
            conversations_left_out: if is_of_one { others } else { 0 },
            resume: place
                .filter(|place| how != How::Unchanged && format == session.format() && place.path.is_file())
                .and_then(|place| resume_command(&place.path, session)),
            is_in_place: place.is_some_and(|place| place.path == opened.path),
            why_fresh,
        }
    }

    /// `what` was written: a compaction, a repair.
    pub(crate) fn tell(&self, what: &str) {
        let why = self.why_fresh.map_or_else(String::new, |why| format!(": {why}"));
        let fresh = format!("a fresh file in {} form{why}", self.format);
        match (self.path.as_ref().map(|path| styled(STRONG, path)), self.how) {
            (Some(path), How::Unchanged) if self.is_in_place => say(&format!("  left {path} as it is")),
            (Some(path), How::Unchanged) => say(&format!("  copied to {path} unchanged")),
            (Some(path), How::Appended) => {
                say(&format!("  wrote {path}: the {what} was added after the original records"));
            }
            (Some(path), How::Fresh) => say(&format!("  wrote {path}: {fresh}")),
            (None, How::Unchanged) => say("  nothing was written, and nothing would change"),
            (None, How::Appended) => {
                say(&format!("  nothing was written; the {what} would be added after the original records"));
            }
            (None, How::Fresh) => say(&format!("  nothing was written; it would be {fresh}")),
        }
        if self.conversations_left_out > 0 {
            let others = counted(self.conversations_left_out, "other conversation");
            say(&format!("  without {others} of the file"));
        }
        if let Some(backup) = &self.backup {
            say(&format!("  the file as it was: {backup}"));
        }
        tell_some("could not be written", &self.losses);
        if let Some(resume) = &self.resume {
            say(&format!("  go on with: {}", styled(STRONG, resume)));
        }
    }
}

fn why_fresh(session: &Contents) -> &'static str {
    match session.format() {
        format if format.holds_many() && session.conversations().len() > 1 => {
            "the file holds several conversations"
        }
        Format::ClaudeCode => "nothing can be added after its last record",
        _ => "the format has no compaction record",
    }
}

/// The first few of many.
pub(crate) fn tell_some(what: &str, all: &[String]) {
    for one in all.iter().take(TOLD_MAX) {
        say(&format!("  {what}: {one}"));
    }
    if all.len() > TOLD_MAX {
        say(&format!("  {what}: {} more", all.len() - TOLD_MAX));
    }
}
