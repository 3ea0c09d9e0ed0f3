//! `foldback replay`: recorded sessions run again under policies, to compare them.

use foldback_core::Prices;
use foldback_engine::replay::measure::{BUDGET_PERCENTS, CUT_PERCENTS};
use serde::Serialize;

use crate::args::Shared;
use crate::args::lab::Replay;
use crate::failure::{Exit, Failure};
use crate::lab::cuts::{self, Asked, Cut, Mean};
use crate::lab::policies::{ALL, Chosen};
use crate::lab::pricing::Pricing;
use crate::lab::runs::{self, ReplayedSession, Total};
use crate::lab::{page, recordings, room, window};
use crate::output::{self, Readers};
use crate::values::no_such;
use crate::{counting, input};

pub(crate) fn run(shared: &Shared, arguments: &Replay) -> Result<Exit, Failure> {
    match arguments.cuts {
        true => run_cuts(shared, arguments),
        false => run_calls(shared, arguments),
    }
}

/// The policies that were asked for, or all.
fn chosen(arguments: &Replay) -> Result<Chosen, Failure> {
    match &arguments.policy[..] {
        [] => Chosen::of(&[ALL.to_owned()], &arguments.policy_from),
        names => Chosen::of(names, &arguments.policy_from),
    }
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
    let chosen = chosen(arguments)?;
    let asked = Asked {
        inputs: &arguments.inputs,
        window: arguments.window,
        tokens_min: arguments.min_tokens,
        chosen: &chosen,
        budget_percents: &BUDGET_PERCENTS,
    };
    let (sessions, exit) = cuts::measured(shared, &asked)?;
    let means = cuts::means(&sessions);
    match shared.json {
        true => output::print_json(&CutsReport {
            counter: counting::counter(shared).name(),
            cut_percents: &CUT_PERCENTS,
            means,
            sessions,
        })?,
        false => output::print(&cuts::table(&sessions, &means))?,
    }
    Ok(exit)
}

#[derive(Serialize)]
struct ReplayReport<'a> {
    counter: &'a str,
    totals: Vec<Total>,
    sessions: Vec<ReplayedSession>,
}

/// The price list that was asked for by name.
fn prices_named(name: &str) -> Result<&'static Prices, Failure> {
    Prices::named(name).ok_or_else(|| {
        let what = format!("{name}: {}", no_such("price list", name, Prices::ALL.iter().map(|one| one.name)));
        Failure::usage(what, "give one of these to --prices")
    })
}

/// Every session call by call under every policy.
fn run_calls(shared: &Shared, arguments: &Replay) -> Result<Exit, Failure> {
    let named = arguments.prices.as_deref().map(prices_named).transpose()?;
    let chosen = chosen(arguments)?;
    let counter = counting::counter(shared);
    let (sessions, exit) = input::in_parallel(shared, &arguments.inputs, |opened| {
        let window = window(shared, arguments.window, opened)?;
        let pricing = Pricing::of(named, shared, opened);
        let policies = chosen.at(room(shared, window, opened).prices(pricing.prices))?;
        let all = recordings(opened, &counter);
        Ok(all
            .map(|recording| ReplayedSession::of(&recording, &policies, pricing, window))
            .collect::<Vec<_>>())
    })?;
    let sessions: Vec<ReplayedSession> = sessions.into_iter().flatten().collect();
    let totals = runs::totals(&sessions);
    if let Some(path) = &arguments.html {
        output::to_file(path, page::draw(&sessions, &totals).as_bytes(), Readers::Owner)?;
    }
    match shared.json {
        true => output::print_json(&ReplayReport { counter: counter.name(), totals, sessions })?,
        false => output::print(&runs::table(&sessions, &totals))?,
    }
    Ok(exit)
}
