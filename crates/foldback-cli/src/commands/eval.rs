//! `foldback eval`: fails where a policy remembers too little of a folder of sessions, so that a
//! change of policy can be held back.

use serde::Serialize;

use crate::args::Shared;
use crate::args::lab::Eval;
use crate::failure::{Exit, Failure};
use crate::lab::cuts::{self, Asked, Cut, Mean, Shown};
use crate::lab::policies::Chosen;
use crate::{output, terminal};

#[derive(Serialize)]
struct EvalReport {
    passed: bool,
    min_retention: f64,
    mean: Option<Mean>,
    sessions: Vec<Cut>,
}

pub(crate) fn run(shared: &Shared, arguments: &Eval) -> Result<Exit, Failure> {
    let chosen = Chosen::one(arguments.policy.as_deref(), &arguments.policy_from)?;
    let asked = Asked {
        inputs: &arguments.inputs,
        window: arguments.window,
        tokens_min: arguments.min_tokens,
        chosen: &chosen,
        budget_percents: &[arguments.budget],
    };
    let (sessions, exit) = cuts::measured(shared, &asked)?;
    let mean = cuts::means(&sessions).into_iter().next();
    let below = mean.as_ref().map_or_else(Vec::new, |mean| shortfalls(mean, arguments));
    let passed = below.is_empty();
    if mean.as_ref().is_none_or(|mean| mean.all.retention.is_none()) && !shared.quiet {
        terminal::note("retention is not measurable: nothing in these sessions was needed again after a cut");
    }
    if shared.json {
        let min_retention = arguments.min_retention;
        output::print_json(&EvalReport { passed, min_retention, mean, sessions })?;
    } else {
        output::print(&cuts::table(&sessions, mean.as_slice()))?;
        below.iter().for_each(|what| terminal::error(what));
    }
    Ok(if passed { exit } else { exit.max(Exit::Negative) })
}

/// What is below its threshold. What cannot be measured is below nothing, unless it cannot be because
/// no session has a view of the size.
fn shortfalls(mean: &Mean, arguments: &Eval) -> Vec<String> {
    let mut below = Vec::new();
    let mut compare = |shown: Option<Shown>, least: f64| {
        if let Some(shown) = shown.filter(|shown| shown.mean < least) {
            below.push(format!("retention is {:.3}, below {least}", shown.mean));
        }
    };
    compare(mean.all.retention, arguments.min_retention);
    if mean.all.retention.is_none() && mean.failed > 0 {
        below.push(format!("no session can be brought to {}% of its tokens", mean.budget_percent));
    }
    if mean.over > 0 {
        below.push(format!("{} views are over their budget", mean.over));
    }
    below
}
