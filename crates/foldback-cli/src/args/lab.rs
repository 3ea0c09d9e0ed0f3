//! What the commands of the lab understand: replay, eval, probe, explain.

use std::path::PathBuf;

use clap::Args;
use foldback_core::{Level, Tokens};

use super::chat::Backend;
use super::{Aim, Inputs, Ways};
use crate::config::Origin;
use crate::lab::probe::questions::COUNT_MAX;
use crate::values::{level, tokens};

#[derive(Clone, Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// The context window in tokens [default: the model's] [env: FOLDBACK_WINDOW]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    pub(crate) window: Option<Tokens>,
    /// The policies to compare, separated by commas: names that `foldback policies` lists, TOML files,
    /// or `all` for every name [default: all] [env: FOLDBACK_POLICY]
    #[arg(long, value_name = "NAMES|FILES", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Who set it.
    #[arg(skip)]
    pub(crate) policy_from: Origin,
    /// The prices that calls are counted at: the name of a model [default: those of the session's model, or
    /// of claude-sonnet-4.5 where they are not known]
    #[arg(long, value_name = "NAME")]
    pub(crate) prices: Option<String>,
    /// Write the comparison as a page into this file
    #[arg(long, value_name = "FILE", conflicts_with = "cuts")]
    pub(crate) html: Option<PathBuf>,
    /// Cut every session at fixed places and compare the policies at equal tokens instead
    #[arg(long)]
    pub(crate) cuts: bool,
    /// With --cuts: sessions with fewer tokens are left out
    #[arg(long, value_name = "TOKENS", value_parser = tokens, default_value = "50k", requires = "cuts")]
    pub(crate) min_tokens: Tokens,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Eval {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Fail where the mean retention is below this, from 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) min_retention: f64,
    /// The policy to evaluate: a name that `foldback policies` lists, or a TOML file [default: ladder]
    /// [env: FOLDBACK_POLICY]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,
    /// Who set it.
    #[arg(skip)]
    pub(crate) policy_from: Origin,
    /// How much of a session's past the policy may keep, in percent of its tokens
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) budget: u64,
    /// Sessions with fewer tokens are left out
    #[arg(long, value_name = "TOKENS", value_parser = tokens, default_value = "1")]
    pub(crate) min_tokens: Tokens,
    /// The context window at which a policy decides what it keeps [default: the model's] [env:
    /// FOLDBACK_WINDOW]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    pub(crate) window: Option<Tokens>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Probe {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Where to cut each session, in percent of its tokens: at the next place that parts no call
    /// from its result
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "60")]
    pub(crate) at: u64,
    /// How many questions the model writes for each session
    #[arg(long, value_name = "N", value_parser = question_count, default_value = "16")]
    pub(crate) count: usize,
    /// Ask these questions instead: a JSON list of objects with id, category, question and answer. For one
    /// session
    #[arg(long, value_name = "FILE", conflicts_with = "count")]
    pub(crate) questions: Option<PathBuf>,
    /// The policies to compare, separated by commas: names that `foldback policies` lists, TOML files, or
    /// `all` for every name [default: ladder, or the one that is set, and truncate] [env: FOLDBACK_POLICY]
    #[arg(long, value_name = "NAMES|FILES", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Who set it.
    #[arg(skip)]
    pub(crate) policy_from: Origin,
    /// What each policy comes down to, separated by commas: tokens, or shares of what stands before the cut
    #[arg(long, value_name = "TOKENS", value_parser = level, value_delimiter = ',', default_value = "10%,5%")]
    pub(crate) target: Vec<Level>,
    /// Let the model write summaries, too: compared beside those that need no model
    #[arg(long)]
    pub(crate) with_summary: bool,
    /// The context window at which a policy decides what it keeps [default: the model's] [env:
    /// FOLDBACK_WINDOW]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    pub(crate) window: Option<Tokens>,
    /// Decides in which order answers are graded
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep what the model answers in this folder, and ask nothing twice [default: foldback/probe in the
    /// user's data folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache: Option<PathBuf>,
    /// Write the comparison as a page into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) backend: Backend,
}

impl Probe {
    /// Whether nobody named the policies to compare.
    pub(crate) fn is_compared(&self) -> bool {
        self.policy.is_empty() || self.policy_from != Origin::CommandLine
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Explain {
    /// The session, as a file or by its id; - for stdin [default: the newest of this folder]
    #[arg(value_name = "SESSION", num_args = 0..=1)]
    pub(crate) paths: Vec<PathBuf>,
    /// Explain a compaction that the file records, counted from 1, instead of the one that foldback
    /// would make
    #[arg(long, value_name = "N", conflicts_with_all = ["window", "target", "policy", "from", "focus", "keep", "pin", "range"])]
    pub(crate) made: Option<usize>,
    #[command(flatten)]
    pub(crate) aim: Aim,
    #[command(flatten)]
    pub(crate) ways: Ways,
}

/// A share in whole percent with something on either side.
fn percent(text: &str) -> Result<u64, String> {
    let percent = text.trim_end_matches('%').parse().ok().filter(|percent| (1..100).contains(percent));
    percent.ok_or_else(|| "give a share from 1% to 99%, such as 60%".to_owned())
}

fn question_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    count.ok_or_else(|| format!("give a whole number from 1 to {COUNT_MAX}"))
}

fn share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "give a share from 0 to 1, such as 0.9".to_owned())
}
