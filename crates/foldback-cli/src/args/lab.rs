//! What the commands of the lab understand: replay, eval, explain.

use std::path::PathBuf;

use clap::Args;
use foldback_core::Tokens;

use super::{Aim, Inputs};
use crate::config::Origin;
use crate::values::tokens;

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
    /// The prices that calls are counted at: the name of a model
    #[arg(long, value_name = "NAME", default_value = "claude-sonnet-4.5")]
    pub(crate) prices: String,
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
    /// Fail where the mean retention in context is below this, from 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) min_in_context: Option<f64>,
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
pub(crate) struct Explain {
    /// The session; - for stdin
    #[arg(value_name = "SESSION")]
    pub(crate) path: PathBuf,
    /// Explain a compaction that the file records, counted from 1, instead of the one that foldback
    /// would make
    #[arg(long, value_name = "N", conflicts_with_all = ["window", "policy"])]
    pub(crate) made: Option<usize>,
    #[command(flatten)]
    pub(crate) aim: Aim,
    /// What summaries attend to, from the configuration file.
    #[arg(skip)]
    pub(crate) focus: Option<String>,
    /// What is kept, from the configuration file.
    #[arg(skip)]
    pub(crate) keep: Vec<String>,
}

fn share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "give a share from 0 to 1, such as 0.9".to_owned())
}
