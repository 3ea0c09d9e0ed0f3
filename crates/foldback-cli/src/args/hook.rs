//! What `foldback hook` understands.

use clap::{Args, Subcommand};

use super::chat::Backend;
use super::{Aim, Ways};

#[derive(Clone, Debug, Args)]
pub(crate) struct Hook {
    #[command(subcommand)]
    pub(crate) command: HookCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Compact a conversation that an agent is having
    Compact(Box<HookCompact>),
    /// Look into what was folded, by handle or by a question in words
    Recall,
    /// Shorten a long tool output as it arrives
    Shorten,
    /// Print the JSON Schema of requests and answers
    Schema,
}

/// What a person may set for every agent, on the command line of a module or in `foldback.toml`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct HookCompact {
    #[command(flatten)]
    pub(crate) aim: Aim,
    #[command(flatten)]
    pub(crate) backend: Backend,
    /// What the configuration says of lines, items and summaries
    #[arg(skip)]
    pub(crate) ways: Ways,
}
