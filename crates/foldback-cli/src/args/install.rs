//! What `install`, `uninstall` and `doctor` understand.

use clap::{Args, ValueEnum};

/// An agent that foldback puts a module into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentName {
    /// Anthropic's Claude Code, 2.1.287 or later
    ClaudeCode,
    /// opencode, 1.18 or later
    Opencode,
    /// pi, 1.5 or later
    Pi,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Install {
    /// The agent
    #[arg(value_name = "AGENT", value_enum)]
    pub(crate) agent: AgentName,
    /// Only for the project in this folder, instead of for the user
    #[arg(long)]
    pub(crate) project: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Doctor {
    /// The agent [default: all]
    #[arg(value_name = "AGENT", value_enum)]
    pub(crate) agent: Option<AgentName>,
}
