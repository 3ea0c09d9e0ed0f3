//! One fact: what it is, where it stands, and what has happened to it since.

use std::ops::Range;

use super::FactKind;
use crate::ids::Text;
use crate::item::ItemKind;
use crate::tools::{TestRun, TodoState};

/// Places that are kept of a fact: the first ones and the newest.
const MENTIONS_MAX: usize = 8;

/// Runs that are kept of a command: the newest ones.
const RUNS_MAX: usize = 16;

/// Where a fact stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The item's transcript index.
    pub item_index: usize,
    /// The part's index in the item.
    pub part_index: usize,
    /// The bytes of the part as it is read ([`crate::reading::text_of`]); all of them where the
    /// fact is written there in other words.
    pub span: Range<usize>,
}

/// Something worth remembering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub kind: FactKind,
    /// The fact itself, as it was written; of long ones the beginning. For a test result it is the
    /// command that ran the tests.
    pub text: Text,
    /// Where it stands, at most one place in each part: the first ones and the newest.
    pub mentions: Vec<Mention>,
    /// In how many parts it stands.
    pub mention_count: usize,
    /// What is known beyond the text.
    pub detail: Detail,
}

impl Fact {
    pub(super) fn new(kind: FactKind, text: Text, detail: Detail) -> Self {
        Self { kind, text, mentions: Vec::new(), mention_count: 0, detail }
    }

    /// Takes a place in. False where the fact was found in this part before.
    pub(super) fn mention(&mut self, place: Mention) -> bool {
        let is_known = self
            .mentions
            .last()
            .is_some_and(|last| (last.item_index, last.part_index) == (place.item_index, place.part_index));
        if is_known {
            return false;
        }
        self.mention_count += 1;
        self.mentions.truncate(MENTIONS_MAX - 1);
        self.mentions.push(place);
        true
    }

    /// Whether it still holds: a question that nobody answered, a job that has not ended. Other
    /// facts hold for good.
    pub fn is_current(&self) -> bool {
        match &self.detail {
            Detail::Question { answered_by, .. } => answered_by.is_none(),
            Detail::Job { ended_by, .. } => ended_by.is_none(),
            Detail::Name
            | Detail::Path(_)
            | Detail::Command(_)
            | Detail::TestResult(_)
            | Detail::Error(_)
            | Detail::Constraint { .. }
            | Detail::Decision { .. }
            | Detail::Todo(_) => true,
        }
    }

    /// Whether only its newest place tells it: an older one tells how it once was.
    pub(crate) fn is_a_state(&self) -> bool {
        matches!(self.detail, Detail::TestResult(_) | Detail::Todo(_))
    }
}

/// What is known of a fact beyond its text, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// Nothing: an identifier, a number with its unit, an address, a hash.
    Name,
    /// What was done to a path.
    Path(PathHistory),
    /// How a command went.
    Command(CommandHistory),
    /// How the tests went.
    TestResult(TestHistory),
    /// Where an error was raised, and what fixed it.
    Error(ErrorState),
    /// A rule.
    Constraint {
        /// Who gave it: a user, or the system or developer prompt.
        given_by: ItemKind,
    },
    /// A decision of the agent.
    Decision {
        /// Why, in the agent's words, where it says so.
        reason: Option<Text>,
    },
    /// Something to do, and how far it is.
    Todo(TodoState),
    /// A question.
    Question {
        /// Who asked it: the user or the agent.
        asked_by: ItemKind,
        /// The item after which it is open no longer.
        answered_by: Option<usize>,
    },
    /// A command in the background, or another agent.
    Job {
        /// What it goes by, where its start said so.
        name: Option<Text>,
        /// The item that says it has ended.
        ended_by: Option<usize>,
    },
}

/// What is done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// It was read.
    Read,
    /// It was written as a whole.
    Written,
    /// It was changed in places.
    Edited,
    /// It was deleted.
    Deleted,
    /// Something was looked for in it, or it was listed.
    Searched,
}

/// What was done to a path by calls that did not fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathHistory {
    /// How often it was read.
    pub read_count: usize,
    /// How often it was written as a whole.
    pub written_count: usize,
    /// How often it was changed in places.
    pub edited_count: usize,
    /// How often it was deleted.
    pub deleted_count: usize,
    /// How often it was searched or listed.
    pub searched_count: usize,
    /// What was done to it last, and the item with the call that did it.
    pub last: Option<(Operation, usize)>,
    /// The last thing that changed it, likewise: its state.
    pub last_change: Option<(Operation, usize)>,
}

impl PathHistory {
    pub(super) fn add(&mut self, operation: Operation, item_index: usize) {
        let count = match operation {
            Operation::Read => &mut self.read_count,
            Operation::Written => &mut self.written_count,
            Operation::Edited => &mut self.edited_count,
            Operation::Deleted => &mut self.deleted_count,
            Operation::Searched => &mut self.searched_count,
        };
        *count += 1;
        self.last = Some((operation, item_index));
        match operation {
            Operation::Written | Operation::Edited | Operation::Deleted => self.last_change = self.last,
            Operation::Read | Operation::Searched => {}
        }
    }
}

/// How a command went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandHistory {
    /// Its newest runs that ended, oldest first.
    pub runs: Vec<CommandRun>,
    /// How many there were.
    pub run_count: usize,
}

impl CommandHistory {
    pub(super) fn add(&mut self, run: CommandRun) {
        self.run_count += 1;
        if self.runs.len() == RUNS_MAX {
            self.runs.remove(0);
        }
        self.runs.push(run);
    }
}

/// One run of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRun {
    /// The item that says how it ended.
    pub item_index: usize,
    /// Its exit code, where the answer says so.
    pub exit_code: Option<i32>,
    /// Whether it failed.
    pub failed: bool,
}

/// How the tests of one command went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestHistory {
    /// The newest result.
    pub newest: TestRun,
    /// How often they were run.
    pub run_count: usize,
}

impl TestHistory {
    /// The newest result in words, as summaries write it.
    pub fn clause(&self) -> String {
        test_clause(&self.newest)
    }
}

/// A test run in words.
pub(crate) fn test_clause(run: &TestRun) -> String {
    format!("{} passed, {} failed", run.passed, run.failed)
}

/// Where an error was raised, and what fixed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorState {
    /// The item with the newest result that reports it.
    pub raised_by: usize,
    /// The item with the call that led to it; none where that is not known.
    pub call: Option<usize>,
    /// The item that reports that the same call went well later.
    pub fixed_by: Option<usize>,
}
