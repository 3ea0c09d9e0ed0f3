//! foldback and its peers on the same input, in one process.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml -- [--quick] [case-name-filter…]`
//!
//! One line for each case on stdout, notes on stderr:
//!
//! ```text
//! NAME foldback=<median> peer=<median> ratio=<peer/foldback> spread=<min..max ratio> allocs=<foldback/peer> alloc_bytes=<foldback/peer>
//! ```
//!
//! A case without a peer says `peer=none ratio=none`, and its spread is that of the time.
//! Every case runs once before it is sampled. What a digest keeps of the items it has read is part of
//! a transcript: `items=cold` says that each run had a transcript that no digest had read,
//! `items=warm` that the run before had read it.
//!
//! Inputs are made from fixed seeds and converted to each side's types before any clock starts.
//! What one process cannot keep apart: foldback turns on serde_json's `preserve_order`, so the
//! peers' JSON objects are index maps here too. Built alone, with tree maps, agentkit takes the
//! same time.

mod agentkit_side;
mod allocations;
mod conversation;
mod count;
mod engine;
mod foldback_side;
mod growth;
mod measure;
mod pairing;
mod phi_side;
mod push;
mod random;
mod text;
mod worst;

use std::process::ExitCode;

use crate::count::Cores;
use crate::engine::{Past, Preparing};
use crate::growth::Work;
use crate::measure::Effort;
use crate::worst::Made;

#[derive(Clone, Copy, Debug)]
enum Case {
    AgentkitPipeline { item_count: usize },
    PhiThreeLevel { item_count: usize },
    PushTriggerShort,
    PushTriggerLong,
    CountMixed(Cores),
    CountWorst(Made),
    Growth { work: Work, item_count: usize },
    Engine { work: engine::Work, item_count: usize },
}

const CASES: [(&str, Case); 43] = [
    ("agentkit-pipeline-1k", Case::AgentkitPipeline { item_count: 1_000 }),
    ("agentkit-pipeline-10k", Case::AgentkitPipeline { item_count: 10_000 }),
    ("agentkit-pipeline-50k", Case::AgentkitPipeline { item_count: 50_000 }),
    ("phi-three-level-1k", Case::PhiThreeLevel { item_count: 1_000 }),
    ("phi-three-level-10k", Case::PhiThreeLevel { item_count: 10_000 }),
    ("phi-three-level-50k", Case::PhiThreeLevel { item_count: 50_000 }),
    ("push-trigger-1k", Case::PushTriggerShort),
    ("push-trigger-100k", Case::PushTriggerLong),
    ("count-mixed", Case::CountMixed(Cores::One)),
    ("count-mixed-2cores", Case::CountMixed(Cores::Two)),
    ("count-worst-letter", Case::CountWorst(Made::OneLetter)),
    ("count-worst-spaces", Case::CountWorst(Made::Spaces)),
    ("count-worst-random", Case::CountWorst(Made::RandomLetters)),
    ("pipeline-1k", Case::Growth { work: Work::Pipeline, item_count: 1_000 }),
    ("pipeline-10k", Case::Growth { work: Work::Pipeline, item_count: 10_000 }),
    ("pipeline-100k", Case::Growth { work: Work::Pipeline, item_count: 100_000 }),
    ("ladder-1k", Case::Growth { work: Work::Ladder, item_count: 1_000 }),
    ("ladder-10k", Case::Growth { work: Work::Ladder, item_count: 10_000 }),
    ("ladder-100k", Case::Growth { work: Work::Ladder, item_count: 100_000 }),
    ("three-level-1k", Case::Growth { work: Work::ThreeLevel, item_count: 1_000 }),
    ("three-level-10k", Case::Growth { work: Work::ThreeLevel, item_count: 10_000 }),
    ("three-level-100k", Case::Growth { work: Work::ThreeLevel, item_count: 100_000 }),
    ("check-1k", Case::Growth { work: Work::Check, item_count: 1_000 }),
    ("check-10k", Case::Growth { work: Work::Check, item_count: 10_000 }),
    ("check-100k", Case::Growth { work: Work::Check, item_count: 100_000 }),
    ("push-1k", Case::Growth { work: Work::Push, item_count: 1_000 }),
    ("push-10k", Case::Growth { work: Work::Push, item_count: 10_000 }),
    ("push-100k", Case::Growth { work: Work::Push, item_count: 100_000 }),
    ("digest-1k", Case::Growth { work: Work::Digest, item_count: 1_000 }),
    ("digest-10k", Case::Growth { work: Work::Digest, item_count: 10_000 }),
    ("digest-100k", Case::Growth { work: Work::Digest, item_count: 100_000 }),
    ("ledger-1k", Case::Growth { work: Work::Ledger, item_count: 1_000 }),
    ("ledger-10k", Case::Growth { work: Work::Ledger, item_count: 10_000 }),
    ("ledger-100k", Case::Growth { work: Work::Ledger, item_count: 100_000 }),
    ("should-compact-1k", Case::Engine { work: engine::Work::Asking, item_count: 1_000 }),
    ("should-compact-10k", Case::Engine { work: engine::Work::Asking, item_count: 10_000 }),
    ("should-compact-100k", Case::Engine { work: engine::Work::Asking, item_count: 100_000 }),
    ("compact-digest-50k", Case::Engine { work: engine::Work::Digest(Past::Unread), item_count: 50_000 }),
    ("compact-digest-read-50k", Case::Engine { work: engine::Work::Digest(Past::Read), item_count: 50_000 }),
    ("cancel-10k", Case::Engine { work: engine::Work::Cancelling, item_count: 10_000 }),
    ("cancel-digest-50k", Case::Engine { work: engine::Work::CancellingDigest, item_count: 50_000 }),
    ("turn-10k", Case::Engine { work: engine::Work::Turn(Preparing::Never), item_count: 10_000 }),
    ("turn-background-10k", Case::Engine { work: engine::Work::Turn(Preparing::Ahead), item_count: 10_000 }),
];

fn main() -> ExitCode {
    let (flags, filters): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| *flag != "--quick") {
        eprintln!("error: unknown option {unknown}");
        eprintln!("hint: [--quick] [case-name-filter…]; a filter is a case's name or a part of it");
        return ExitCode::from(2);
    }
    let effort = if flags.is_empty() { Effort::Full } else { Effort::Quick };
    let selected: Vec<(&str, Case)> =
        CASES.into_iter().filter(|(name, _)| is_selected(name, &filters)).collect();
    if selected.is_empty() {
        eprintln!("error: no case is named like {}", filters.join(" or "));
        eprintln!("hint: there are {}", CASES.map(|(name, _)| name).join(", "));
        return ExitCode::from(2);
    }
    allocations::self_check();
    run(&selected, effort);
    ExitCode::SUCCESS
}

/// A filter selects the case of that name, or else every case whose name contains it: `count-mixed`
/// must not run `count-mixed-2cores` too.
fn is_selected(name: &str, filters: &[String]) -> bool {
    let matches = |filter: &String| {
        let is_whole_name = CASES.iter().any(|(name, _)| name == filter);
        if is_whole_name { name == filter } else { name.contains(filter) }
    };
    filters.is_empty() || filters.iter().any(matches)
}

fn run(cases: &[(&str, Case)], effort: Effort) {
    // Both push cases come from one measurement, since one is reported relative to the other.
    let mut push_cost = None;
    for &(name, case) in cases {
        let line = match case {
            Case::AgentkitPipeline { item_count } => agentkit_side::run(name, item_count, effort),
            Case::PhiThreeLevel { item_count } => phi_side::run(name, item_count, effort),
            Case::PushTriggerShort => push_cost.get_or_insert_with(|| push::measure(effort)).short_line(name),
            Case::PushTriggerLong => push_cost.get_or_insert_with(|| push::measure(effort)).long_line(name),
            Case::CountMixed(cores) => count::run(name, cores, effort),
            Case::CountWorst(made) => worst::run(name, made, effort),
            Case::Growth { work, item_count } => growth::run(name, work, item_count, effort),
            Case::Engine { work, item_count } => engine::run(name, work, item_count, effort),
        };
        println!("{line}");
    }
}
