//! How foldback's cost grows with the conversation: the same target at every length, so what
//! grows is what is folded, not what is kept.

use std::sync::Arc;

use foldback_core::{Item, Ledger, Transcript};

use crate::conversation::conversation;
use crate::foldback_side;
use crate::measure::{Effort, alone, side};

const MAX_TOKENS: u64 = 100_000;
const SEED: u64 = 0x6A0;

/// A digest is measured at this share of the tokens.
const DIGEST_SHARE: u64 = 10;

/// What is measured at every length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Drop reasoning, drop failures, keep the recent eight: plan, apply, check, the finished list.
    Pipeline,
    /// The same for the default policy.
    Ladder,
    /// The same for the three-level strategy.
    ThreeLevel,
    /// Anthropic's rules over the whole conversation.
    Check,
    /// Counting and indexing every item.
    Push,
    /// The default policy down to a tenth of the tokens, its digest included.
    Digest,
    /// Finding every fact.
    Ledger,
}

/// Runs the case and returns its line.
pub(crate) fn run(name: &str, work: Work, item_count: usize, effort: Effort) -> String {
    let items = foldback_side::items(&conversation("g", SEED, item_count));
    let transcript: Transcript = items.iter().map(Arc::clone).collect();
    let tokens = transcript.tokens();
    let measured = match work {
        Work::Pipeline => alone(effort, &mut side(&transcript, foldback_side::pipeline)),
        Work::Ladder => alone(effort, &mut side(&transcript, |it| foldback_side::ladder(it, MAX_TOKENS))),
        Work::ThreeLevel => {
            alone(effort, &mut side(&transcript, |it| foldback_side::three_level(it, MAX_TOKENS)))
        }
        Work::Check => alone(effort, &mut side(&items, foldback_side::check)),
        Work::Push => alone(effort, &mut side(&items, |items| push(items))),
        Work::Digest => {
            alone(effort, &mut side(&transcript, |it| foldback_side::digest(it, tokens.0 / DIGEST_SHARE)))
        }
        Work::Ledger => alone(effort, &mut side(&transcript, |it| Ledger::of(it))),
    };
    eprintln!("{name}: {item_count} items, {tokens} tokens{}", kept(work, &transcript));
    format!("{} per_item={:.0}ns", measured.line(name), measured.foldback / item_count as f64)
}

fn push(items: &[Arc<Item>]) -> Transcript {
    items.iter().map(Arc::clone).collect()
}

fn kept(work: Work, transcript: &Transcript) -> String {
    let kept = match work {
        Work::Pipeline => foldback_side::pipeline(transcript),
        Work::Ladder => foldback_side::ladder(transcript, MAX_TOKENS),
        Work::ThreeLevel => foldback_side::three_level(transcript, MAX_TOKENS),
        Work::Digest => foldback_side::digest(transcript, transcript.tokens().0 / DIGEST_SHARE),
        Work::Check | Work::Push | Work::Ledger => return String::new(),
    };
    format!(", {} items and {} tokens kept", kept.len(), foldback_side::tokens(transcript, &kept))
}
