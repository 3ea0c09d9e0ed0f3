//! What a person wants to stay: lines that summaries repeat, and items that no compaction touches. One
//! place for every command that compacts.

use std::cell::Cell;
use std::ops::Range;

use foldback_core::{Item, KeepLines, KeptLines, LineFates, Transcript, View};
use regex::{Regex, RegexSet};
use serde::Serialize;

use crate::args::Ways;
use crate::failure::Failure;
use crate::picture;
use crate::terminal::{self, counted};

/// What the flags and the configuration say of it.
#[derive(Clone, Debug)]
pub(crate) struct Staying {
    keep: Option<KeepLines>,
    pin: RegexSet,
    range: Option<Range<usize>>,
    has_pinned: Cell<bool>,
}

impl Staying {
    pub(crate) fn new(ways: &Ways) -> Result<Self, Failure> {
        let wrong = |flag: &str, error: regex::Error| {
            Failure::usage(format!("{flag}: {error}"), "give a regular expression")
        };
        let keep: Result<Vec<Regex>, _> = ways.keep.iter().map(|pattern| Regex::new(pattern)).collect();
        let keep = keep.map_err(|error| wrong("--keep", error))?;
        let pin = RegexSet::new(&ways.pin).map_err(|error| wrong("--pin", error))?;
        let find = |patterns: Vec<Regex>| {
            KeepLines::new(move |line| {
                patterns.iter().find_map(|pattern| pattern.find(line)).map(|at| at.range())
            })
        };
        let keep = Some(keep).filter(|patterns| !patterns.is_empty()).map(find);
        Ok(Self { keep, pin, range: ways.range.clone(), has_pinned: Cell::new(false) })
    }

    /// Which lines summaries repeat.
    pub(crate) fn lines(&self) -> Option<&KeepLines> {
        self.keep.as_ref()
    }

    /// Whether items are to stay as they are.
    pub(crate) fn pins(&self) -> bool {
        !self.pin.is_empty() || self.range.is_some()
    }

    /// Whether the item at this position of the view stays as it is.
    pub(crate) fn is_pinned(&self, position: usize, item: &Item) -> bool {
        let is_outside = self.range.as_ref().is_some_and(|range| !range.contains(&position));
        let is_pinned = picture::matches(&self.pin, item);
        self.has_pinned.set(self.has_pinned.get() || is_pinned);
        is_outside || is_pinned
    }

    /// An error where the range begins behind the view.
    pub(crate) fn check(&self, name: &str, item_count: usize, counted_by: &str) -> Result<(), Failure> {
        match &self.range {
            Some(range) if range.start >= item_count => {
                let what =
                    format!("{name}: --range begins at item {}, but there are {item_count}", range.start);
                Err(Failure::usage(what, format!("`{counted_by}` counts the items")))
            }
            _ => Ok(()),
        }
    }

    /// The lines of a record that summaries repeat.
    pub(crate) fn lines_of(&self, transcript: &Transcript) -> KeptLines {
        let items = transcript.items().enumerate().map(|(index, item)| (index, &**item));
        self.keep.as_ref().map_or_else(KeptLines::default, |keep| keep.in_items(items))
    }

    /// What became of those lines in a view.
    pub(crate) fn fates(&self, view: &View) -> Option<KeptReport> {
        self.keep.as_ref()?;
        let fates = LineFates::in_view(view, &self.lines_of(view.transcript()));
        Some(KeptReport { visible: fates.visible, in_summary: fates.told, no_room: fates.lost })
    }

    /// Says which patterns had no effect.
    pub(crate) fn tell_unmatched(&self, name: &str, kept: Option<&KeptReport>) {
        if kept.is_some_and(|kept| kept.is_empty()) {
            terminal::warning(&format!("{name}: nothing matches --keep"));
        }
        if !self.pin.is_empty() && !self.has_pinned.get() {
            terminal::warning(&format!("{name}: nothing matches --pin"));
        }
        if let Some(no_room) = kept.map(|kept| kept.no_room).filter(|&no_room| no_room > 0) {
            let lines = counted(no_room, "line");
            terminal::warning(&format!(
                "{name}: {lines} of those that match --keep had no room in a summary"
            ));
            terminal::hint("raise the target, match fewer lines, or keep whole messages with --pin");
        }
    }
}

/// What became of the lines that match `--keep`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct KeptReport {
    /// They still stand in their messages.
    visible: usize,
    /// A summary repeats them.
    in_summary: usize,
    /// They are in neither.
    no_room: usize,
}

impl KeptReport {
    fn is_empty(&self) -> bool {
        self.visible + self.in_summary + self.no_room == 0
    }

    /// The same for several conversations.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            visible: self.visible + other.visible,
            in_summary: self.in_summary + other.in_summary,
            no_room: self.no_room + other.no_room,
        }
    }

    /// In words; none where no summary repeats a line.
    pub(crate) fn told(&self) -> Option<String> {
        let lines = counted(self.in_summary, "line");
        (self.in_summary > 0).then(|| format!("{lines} that match --keep stand word for word in the summary"))
    }
}
