//! Reads what is folded on all cores, before a digest of it is written on one.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use foldback_core::{Fold, FoldRequest, Holds, ItemKind, Tokens, Transcript};

/// A digest of fewer tokens is written before threads would have helped: most are.
const TOGETHER_TOKENS_MIN: Tokens = Tokens(500_000);

/// Everything is read up to about this much, the newest first, and before that what the agent wrote
/// up to so much more; a digest reads no more.
const READ_TOKENS_MAX: u64 = 300_000;
const OWN_TOKENS_MAX: u64 = 150_000;

/// At most this many threads read together.
const THREADS_MAX: usize = 8;

/// An item that a digest asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Whole(usize),
    /// It is of long ago: only what the user said, or which files were changed.
    Old(usize),
}

impl Reading {
    fn index(self) -> usize {
        match self {
            Self::Whole(index) | Self::Old(index) => index,
        }
    }
}

/// Reads what the digest of a fold will ask for, where that takes long enough.
pub(crate) fn read_ahead(request: &FoldRequest<'_>) {
    let (fold, transcript) = (request.fold(), request.view().transcript());
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    if fold.tokens_before < TOGETHER_TOKENS_MIN || threads < 2 {
        return;
    }
    let mut unread = to_read(fold, transcript);
    unread.retain(|reading| !transcript.is_read(reading.index()));
    read_on_threads(threads, transcript, &unread);
}

/// The items that a digest of the fold looks into, the newest first.
fn to_read(fold: &Fold, transcript: &Transcript) -> Vec<Reading> {
    let (mut left, mut left_of_own) = (READ_TOKENS_MAX, OWN_TOKENS_MAX);
    let folded = fold.range.clone().rev().filter(|&index| fold.hides(index));
    let reading = |index: usize| {
        let entry = transcript.get(index)?;
        let (kind, tokens) = (entry.kind(), entry.tokens().total.0);
        let left = match kind {
            // What the user said is read with what stands beside it.
            ItemKind::User => left.max(left_of_own),
            ItemKind::Assistant if left == 0 => take(&mut left_of_own, tokens),
            _ => take(&mut left, tokens),
        };
        if left > 0 {
            return Some(Reading::Whole(index));
        }
        let is_told = kind == ItemKind::User || entry.holds().contains(Holds::CHANGE);
        is_told.then_some(Reading::Old(index))
    };
    folded.filter_map(reading).collect()
}

/// Takes from what is left, and returns how much that was.
fn take(left: &mut u64, tokens: u64) -> u64 {
    let before = *left;
    *left = before.saturating_sub(tokens);
    before
}

fn read_on_threads(threads: usize, transcript: &Transcript, readings: &[Reading]) {
    let next = AtomicUsize::new(0);
    let read = || {
        while let Some(&reading) = readings.get(next.fetch_add(1, Ordering::Relaxed)) {
            match reading {
                Reading::Whole(index) => transcript.read_ahead(index),
                Reading::Old(index) => transcript.read_old_ahead(index),
            }
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(read)).collect();
        read();
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
    });
}

#[cfg(test)]
mod tests {
    use foldback_core::{Budget, Item, LadderStrategy, Part, Plan, ToolResult, View, plan};
    use serde_json::json;

    use super::*;

    /// Tool rounds of about `tokens`, each of a remark, a call and its answer.
    fn rounds(tokens: u64, remark: &str) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("task", "Make src/parser.rs faster. Never touch src/lexer.rs."));
        transcript.push(Item::assistant("plan", vec![Part::text("First src/scan.rs, then the rest.")]));
        transcript.push(Item::user("aside", "The weather is fine today, by the way."));
        transcript.push(Item::user("newest", "Go on."));
        let mut number = 0;
        while transcript.tokens().0 < tokens {
            number += 1;
            let (call, path) = (format!("c{number}"), format!("src/module_{}.rs", number % 97));
            let asked = Part::call(call.clone(), "write", &json!({"path": path}));
            transcript.push(Item::assistant(format!("a{number}"), vec![Part::text(remark), asked]));
            let answer = format!("fn scan_{number}() in {path} took {number} ms\n").repeat(60);
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, answer)));
        }
        transcript
    }

    fn planned(transcript: &Transcript) -> Plan {
        let budget = Budget::for_target(Tokens(20_000)).unwrap();
        plan(&View::of(transcript), &LadderStrategy::new(), Some(&budget)).unwrap()
    }

    #[test]
    fn a_digest_says_the_same_whether_or_not_its_items_were_read_ahead() {
        let tokens = TOGETHER_TOKENS_MIN.0 + 100_000;
        let (alone, together) = (planned(&rounds(tokens, "Next.")), planned(&rounds(tokens, "Next.")));
        together.requests().for_each(|request| read_ahead(&request));
        let (alone, together) = (alone.apply_digest(), together.apply_digest());
        assert!(alone.block.summaries.iter().flatten().next().is_some(), "something is folded");
        assert_eq!(alone.block.summaries, together.block.summaries);
    }

    #[test]
    fn of_what_happened_long_ago_only_words_and_calls_are_read() {
        let transcript = rounds(READ_TOKENS_MAX * 2, &"Next is the rest of it. ".repeat(320));
        let plan = planned(&transcript);
        let fold = plan.folds().next().unwrap();
        let readings = to_read(fold, &transcript);
        assert!(
            readings.windows(2).all(|two| two[1].index() < two[0].index()),
            "the newest first, each once"
        );
        let has = |index: usize, reading: fn(usize) -> Reading| readings.contains(&reading(index));
        let newest = readings[0].index();
        assert!(has(newest, Reading::Whole) && has(newest - 1, Reading::Whole), "an answer and its call");
        let is_answer = |index: &usize| transcript.get(*index).unwrap().kind() == ItemKind::Tool;
        let indices = readings.iter().map(|reading| reading.index());
        let oldest_answer = indices.rev().find(is_answer).unwrap();
        assert!(oldest_answer > newest / 4, "{oldest_answer} of {newest}");
        assert!(has(oldest_answer - 3, Reading::Whole), "before that, what the agent wrote");
        assert!(has(4, Reading::Old), "long ago, calls that may have changed something");
        assert!(has(2, Reading::Old), "and the aside; the task and the newest message stay visible");
        assert!(readings.last().unwrap().index() == 2, "what the agent said before it is not read");
    }
}
