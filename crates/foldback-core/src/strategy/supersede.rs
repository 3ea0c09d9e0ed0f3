//! Replaces what something newer made worthless by a pointer to what is newer.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use xxhash_rust::xxh3::Xxh3;

use super::Strategy;
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::handle::Handle;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::part::{Part, ResultPart, ToolCall, ToolResult};
use crate::placeholder::{input_of, is_placeholder, superseded};
use crate::tools::{Action, Outcome, is_check};

const ID: &str = "supersede";

/// What costs less is not worth a pointer.
const SUPERSEDED_TOKENS_MIN: u32 = 100;

/// Reads of one file that are remembered; what a newer one covers is not among them.
const READS_PER_FILE_MAX: usize = 16;

/// Replaces by a line with a handle and a pointer to what is newer: a read of a file that was read
/// again or changed later, a result that came again, a test or build that was run again, a failed
/// call that succeeded later, a todo list that was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SupersedeStrategy {}

impl SupersedeStrategy {
    /// Supersedes wherever something newer is in the view.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Strategy for SupersedeStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let scope = Scope { results: 0..draft.len(), outdated_end: draft.len(), target: None };
        supersede(draft, &scope, ID);
    }
}

/// What may be superseded.
pub(super) struct Scope {
    /// The positions that are looked at.
    pub(super) results: Range<usize>,
    /// Reads before this are worthless once their file was changed; later ones are still of use.
    pub(super) outdated_end: usize,
    /// The size at which to stop.
    pub(super) target: Option<Tokens>,
}

/// Supersedes, oldest first, until the target is reached. Costs no more than a look at each result
/// in scope and its call.
pub(super) fn supersede(draft: &mut Draft<'_>, scope: &Scope, strategy: &'static str) {
    let found = find(draft, scope);
    for old in found.iter().rev() {
        if scope.target.is_some_and(|target| draft.tokens() <= target) {
            return;
        }
        let Some((_, part)) = draft.parts(old.position).find(|&(index, _)| index == old.part_index) else {
            continue;
        };
        let handle = draft.part_handle(old.position, old.part_index);
        let line = superseded(&handle, &old.what, old.cause.words(), &newer_handle(draft, old.newer));
        let part = match part {
            Part::ToolResult(result) => Part::ToolResult(ToolResult {
                content: vec![ResultPart::Text(line.into())],
                ..result.clone()
            }),
            Part::ToolCall(call) => Part::ToolCall(ToolCall { input: input_of(&line), ..call.clone() }),
            Part::Text(_)
            | Part::Reasoning(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => continue,
        };
        draft.rewrite(old.position, old.part_index, part, Reason::new(strategy, old.cause.words()));
    }
}

/// Names the round that is newer, whether or not it is still visible when somebody asks.
fn newer_handle(draft: &Draft<'_>, position: usize) -> Handle {
    let entry = draft.view().get(position).expect("it was found in the view");
    Handle::of_item(entry.anchor(), &entry.item().id)
}

/// Why something is worthless.
#[derive(Clone, Copy)]
enum Cause {
    CameAgain,
    ReadAgain,
    RunAgain,
    Succeeded,
    Replaced,
    Changed,
}

impl Cause {
    fn words(self) -> &'static str {
        match self {
            Self::CameAgain => "the same answer came again",
            Self::ReadAgain => "read again",
            Self::RunAgain => "run again",
            Self::Succeeded => "the same call succeeded",
            Self::Replaced => "replaced",
            Self::Changed => "the file was changed",
        }
    }
}

/// A part that something newer made worthless.
struct Superseded {
    position: usize,
    part_index: usize,
    what: String,
    cause: Cause,
    newer: usize,
}

/// A read of a file that succeeded.
struct Read {
    lines: Option<Range<u32>>,
    /// How much the answer shows: a tool may have cut it off.
    line_count: usize,
    position: usize,
}

/// One result and the call that it answers.
struct Round<'d> {
    call: &'d ToolCall,
    actions: Vec<Action>,
    position: usize,
    failed: bool,
    /// A hash of tool and answer, for answers that are worth a pointer.
    answer: Option<u64>,
    line_count: usize,
}

/// Something by the hash of what it is about. Nothing iterates it, so its order never shows.
type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Hashed>>;

/// Keys are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| hash.rotate_left(8) ^ u64::from(byte));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// What is known of everything newer than the result at hand.
#[derive(Default)]
struct Newer<'d> {
    answers: ByHash<usize>,
    reads: ByHash<SmallVec<[Read; 1]>>,
    changes: ByHash<usize>,
    checks: ByHash<usize>,
    successes: ByHash<usize>,
    /// Calls that succeeded and are not among the successes yet: only a failure asks for them.
    succeeded: Vec<(&'d ToolCall, usize)>,
    todo: Option<usize>,
}

/// Everything that is superseded, newest first.
fn find(draft: &Draft<'_>, scope: &Scope) -> Vec<Superseded> {
    let view = draft.view();
    let positions: Vec<usize> = view.holding(scope.results.clone(), Holds::RESULT).collect();
    let mut newer = Newer::default();
    let mut found = Vec::new();
    for &position in positions.iter().rev().filter(|&&position| draft.is_live(position)) {
        let results: SmallVec<[(usize, &ToolResult); 1]> = draft.parts(position).filter_map(result).collect();
        for &(part_index, result) in results.iter().rev() {
            let Some((caller, call_index)) = view.call_answered_by(position, part_index) else { continue };
            let caller_parts = view.get(caller).map(|entry| &entry.item().parts[..]);
            let Some(Part::ToolCall(call)) = caller_parts.and_then(|parts| parts.get(call_index)) else {
                continue;
            };
            if !draft.is_live(caller) || is_cleared(result) {
                continue;
            }
            let is_worth_it = |position: usize, part_index: usize| {
                draft.part_tokens(position, part_index) >= SUPERSEDED_TOKENS_MIN
                    && !draft.is_protected(position)
            };
            let is_large = draft.part_tokens(position, part_index) >= SUPERSEDED_TOKENS_MIN;
            let round = Round::of(call, result, position, is_large);
            if is_worth_it(position, part_index)
                && let Some((cause, newer)) = newer.cause(&round, scope)
            {
                found.push(Superseded { position, part_index, what: round.what(), cause, newer });
            }
            if let (Some(newer), true) = (newer.replaced(&round), is_worth_it(caller, call_index)) {
                let (position, part_index, what) = (caller, call_index, "todo list".to_owned());
                found.push(Superseded { position, part_index, what, cause: Cause::Replaced, newer });
            }
            newer.learn(&round);
        }
    }
    found
}

fn result((part_index, part): (usize, &Part)) -> Option<(usize, &ToolResult)> {
    match part {
        Part::ToolResult(result) => Some((part_index, result)),
        Part::Text(_)
        | Part::Reasoning(_)
        | Part::ToolCall(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => None,
    }
}

/// Whether nothing is left of an answer but a placeholder.
fn is_cleared(result: &ToolResult) -> bool {
    matches!(result.content.as_slice(), [ResultPart::Text(text)] if is_placeholder(text))
}

/// With 64 bits, two of a million keys are the same once in tens of millions of sessions.
fn hash<'t>(texts: impl IntoIterator<Item = &'t str>) -> u64 {
    let mut hash = Xxh3::new();
    for text in texts {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.digest()
}

impl<'d> Round<'d> {
    fn of(call: &'d ToolCall, result: &ToolResult, position: usize, is_large: bool) -> Self {
        let actions = Action::of(call);
        let texts = || result.content.iter().filter_map(ResultPart::as_text);
        // What is no text has no bytes to compare here.
        let is_text = texts().count() == result.content.len();
        let count = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
        Self {
            failed: Outcome::has_failed(result, &actions),
            answer: (is_large && is_text).then(|| hash(std::iter::once(call.name.as_str()).chain(texts()))),
            line_count: if is_large { texts().map(count).sum() } else { 0 },
            call,
            actions,
            position,
        }
    }

    /// The command, if all that the call does is to test or build with it.
    fn check(&self) -> Option<u64> {
        match self.actions.first()? {
            Action::Run { command, folder } if is_check(command) => {
                Some(hash([self.call.name.as_str(), command, folder.as_deref().unwrap_or("")]))
            }
            _ => None,
        }
    }

    /// The files it reads, if it does nothing else.
    fn reads(&self) -> impl Iterator<Item = (&str, Option<&Range<u32>>)> {
        let is_look = |action: &Action| matches!(action, Action::Read { .. } | Action::Run { .. });
        let only_looks = self.actions.iter().all(is_look);
        self.actions.iter().filter(move |_| only_looks).filter_map(|action| match action {
            Action::Read { path, lines } => Some((path.as_str(), lines.as_ref())),
            _ => None,
        })
    }

    /// What a person would call it.
    fn what(&self) -> String {
        let read = self.actions.iter().find_map(|action| match action {
            Action::Read { path, lines } => Some((path, lines)),
            _ => None,
        });
        match (read, self.actions.first()) {
            (Some((path, Some(lines))), _) if lines.end == u32::MAX => {
                format!("read of {path} from line {}", lines.start)
            }
            (Some((path, Some(lines))), _) => {
                format!("read of {path} lines {}-{}", lines.start, lines.end.saturating_sub(1))
            }
            (Some((path, None)), _) => format!("read of {path}"),
            (None, Some(Action::Run { command, .. })) => format!("{}: {command}", self.call.name),
            (None, _) => self.call.name.as_str().to_owned(),
        }
    }
}

impl<'d> Newer<'d> {
    /// Why the result of a round is worthless, and what is newer.
    fn cause(&mut self, round: &Round<'d>, scope: &Scope) -> Option<(Cause, usize)> {
        let known = |map: &ByHash<usize>, key: Option<u64>| map.get(&key?).copied();
        if let Some(newer) = known(&self.answers, round.answer) {
            return Some((Cause::CameAgain, newer));
        }
        if let Some(newer) = known(&self.checks, round.check()) {
            return Some((Cause::RunAgain, newer));
        }
        if round.failed
            && let Some(newer) = self.success(round.call)
        {
            return Some((Cause::Succeeded, newer));
        }
        self.replaced(round).map(|newer| (Cause::Replaced, newer)).or_else(|| self.outdated(round, scope))
    }

    /// The newest success of the same tool with the same input.
    fn success(&mut self, call: &ToolCall) -> Option<usize> {
        let key = |call: &ToolCall| hash([call.name.as_str(), call.input.as_str()]);
        for (succeeded, position) in self.succeeded.drain(..) {
            self.successes.entry(key(succeeded)).or_insert(position);
        }
        self.successes.get(&key(call)).copied()
    }

    /// The todo list that replaced that of a round.
    fn replaced(&self, round: &Round<'_>) -> Option<usize> {
        self.todo.filter(|_| matches!(round.actions[..], [Action::Todo(_)]))
    }

    /// Whether each of the files that a round read was read again or changed.
    fn outdated(&self, round: &Round<'_>, scope: &Scope) -> Option<(Cause, usize)> {
        let mut found = None;
        for (path, lines) in round.reads() {
            let file = hash([path]);
            let change = self.changes.get(&file);
            let covers = |read: &&Read| {
                covers(read.lines.as_ref(), lines)
                    && (change.is_some() || read.line_count >= round.line_count)
            };
            let again = self.reads.get(&file).and_then(|reads| reads.iter().find(covers));
            found = match (again, change) {
                (Some(read), _) => Some((Cause::ReadAgain, read.position)),
                (None, Some(&change)) if round.position < scope.outdated_end => {
                    Some((Cause::Changed, change))
                }
                (None, _) => return None,
            };
        }
        found
    }

    /// Takes note of what a round says about older ones.
    fn learn(&mut self, round: &Round<'d>) {
        let position = round.position;
        if let Some(answer) = round.answer {
            self.answers.entry(answer).or_insert(position);
        }
        if let Some(check) = round.check() {
            self.checks.entry(check).or_insert(position);
        }
        if round.failed {
            return;
        }
        self.succeeded.push((round.call, position));
        for action in &round.actions {
            match action {
                Action::Read { path, lines } => {
                    let reads = self.reads.entry(hash([path.as_str()])).or_default();
                    if reads.len() < READS_PER_FILE_MAX {
                        reads.push(Read { lines: lines.clone(), line_count: round.line_count, position });
                    }
                }
                Action::Write { path } | Action::Edit { path } | Action::Delete { path } => {
                    self.changes.entry(hash([path.as_str()])).or_insert(position);
                }
                Action::Todo(_) => self.todo = self.todo.or(Some(position)),
                Action::Search { .. }
                | Action::List { .. }
                | Action::Run { .. }
                | Action::Agent { .. }
                | Action::Fetch { .. }
                | Action::Wait { .. } => {}
            }
        }
    }
}

/// Whether a read of `newer` lines shows all of `older` ones. Some tools count from 0.
fn covers(newer: Option<&Range<u32>>, older: Option<&Range<u32>>) -> bool {
    match (newer, older) {
        (None, _) => true,
        (Some(newer), None) => newer.start <= 1 && newer.end == u32::MAX,
        (Some(newer), Some(older)) => {
            (newer.start <= 1 || newer.start <= older.start) && newer.end >= older.end
        }
    }
}

#[cfg(test)]
mod tests;
