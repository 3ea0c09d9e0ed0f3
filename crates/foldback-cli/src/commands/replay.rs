//! `foldback replay`: recorded sessions run again under policies, to compare them.

use foldback_engine::replay::measure::{BUDGET_PERCENTS, CUT_PERCENTS};
use serde::Serialize;

use crate::args::Shared;
use crate::args::lab::Replay;
use crate::failure::{Exit, Failure};
use crate::lab::cuts::{Cut, Mean, Plan, means, table};
use crate::lab::{policies, recordings, window};
use crate::{counting, input, output};

pub(crate) fn run(shared: &Shared, arguments: &Replay) -> Result<Exit, Failure> {
    run_cuts(shared, arguments)
}

#[derive(Serialize)]
struct CutsReport<'a> {
    counter: &'a str,
    cut_percents: &'a [u64],
    means: Vec<Mean>,
    sessions: Vec<Cut>,
}

/// Every policy on the same cuts at equal tokens.
fn run_cuts(shared: &Shared, arguments: &Replay) -> Result<Exit, Failure> {
    let counter = counting::counter(shared);
    let again = counting::counter(shared);
    let plan = Plan { cut_percents: &CUT_PERCENTS, budget_percents: &BUDGET_PERCENTS, counter: &*again };
    let (sessions, exit) = input::in_parallel(shared, &arguments.inputs, |opened| {
        let policies = policies::named(&arguments.policy, window(shared, arguments.window, opened))?;
        let large = recordings(opened, &counter)
            .filter(|recording| recording.history.tokens() >= arguments.min_tokens);
        Ok(large.map(|recording| Cut::of(&recording, &policies, &plan)).collect::<Vec<_>>())
    })?;
    let sessions: Vec<Cut> = sessions.into_iter().flatten().collect();
    let means = means(&sessions);
    match shared.json {
        true => output::print_json(&CutsReport {
            counter: counter.name(),
            cut_percents: &CUT_PERCENTS,
            means,
            sessions,
        })?,
        false => output::print(&table(&sessions, &means))?,
    }
    Ok(exit)
}
