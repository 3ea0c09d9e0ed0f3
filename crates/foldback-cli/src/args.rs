//! The command line.

pub(crate) mod chat;
pub(crate) mod hook;
pub(crate) mod install;
pub(crate) mod lab;
pub(crate) mod sessions;

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use foldback_core::{Dialect, Tokens};
use foldback_formats::{Conversation, Format};

use crate::agents::{Named, Without};
use crate::aim::Target;
use crate::config::Origin;
use crate::values::{count, dialect_named, format_named, range, target, tokens, turn};

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 something was found (check, diff, store verify), nothing was found (search)
or something is below its threshold (eval), 2 the command line or the configuration makes no sense,
3 something could not be read, 4 what must stay is larger than the target, 5 something could not be
written. Of several sessions or conversations those that fail are named on stderr and left as they
were, the others are done, and the highest code is the answer.

Configuration: foldback.toml in the working folder or one above it, then foldback/config.toml in the
user's configuration folder. Flags win over the environment, the environment over the files, a project's
file over the user's. A project's file says where conversations go only after `foldback trust`.";

/// Folds the past of agent sessions so that the next request fits its context window.
#[derive(Debug, Parser)]
#[command(name = "foldback", version = VERSION, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FOLDBACK_COMMIT"), ")");

/// What every command understands. Its own heading puts it behind a command's own options in the help.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Shared {
    /// Print JSON for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The format of the input, where its content leaves that open
    #[arg(long, global = true, value_name = "FORMAT", value_parser = format_named)]
    pub(crate) format: Option<Format>,
    /// Count tokens with this counter [default: o200k] [env: FOLDBACK_COUNTER]
    #[arg(long, global = true, value_enum)]
    pub(crate) counter: Option<CounterName>,
    /// Count by the counter alone, whatever usage the provider reported in the session
    #[arg(long, global = true)]
    pub(crate) uncalibrated: bool,
    /// The model the session is for: its window, its dialect [default: the one in the session] [env:
    /// FOLDBACK_MODEL]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Who named the model
    #[arg(skip)]
    pub(crate) model_from: Origin,
    /// The configuration file [env: FOLDBACK_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Say less on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring a session under a budget
    Compact(Compact),
    /// What a session is made of: tokens by kind, tool, turn and over time
    ///
    /// Turns have their number in the whole history, whatever was compacted; `foldback show --at`
    /// counts them the same way.
    Stats(Stats),
    /// Find what a provider would reject
    Check(Check),
    /// Show what the model sees
    Show(Show),
    /// Write a session in another format
    Convert(Convert),
    /// What a compaction changed
    Diff(Diff),
    /// Take the newest compaction of a session off again
    ///
    /// Nothing is deleted: the file gets one more record, after which the model sees what it saw before.
    /// Without a session, the newest one of this folder is changed where it is, and a backup is kept.
    /// Of a file with several conversations, the first is meant.
    Undo(Undo),
    /// Put the compaction back that was undone last
    Redo(Undo),
    /// The compactions of a session, the newest first
    Log(Log),
    /// How full a session is, what was compacted, and what to do next
    ///
    /// Without a session, the newest one is meant that an agent recorded for this folder.
    Status(Status),
    /// The ways to compact, and when to choose which
    Policies {
        /// The policy to explain in full: a name, or a TOML file
        #[arg(value_name = "NAME|FILE")]
        policy: Option<String>,
        /// Print the policy as a file for --policy FILE.toml, and nothing else
        #[arg(long, requires = "policy", conflicts_with = "json")]
        toml: bool,
    },
    /// Run recorded sessions again under policies: tokens, cost, and what is remembered
    Replay(lab::Replay),
    /// Fail where a policy remembers too little of recorded sessions
    Eval(lab::Eval),
    /// What a model can still answer from compacted sessions
    ///
    /// Each session is cut, and what stands before the cut is compacted in several ways. The model writes
    /// questions that going on from the cut needs answered, answers them from each compacted view alone, and
    /// grades the answers without knowing whose they are. What is sent to it is the session; what it answers
    /// is kept, and nothing is asked twice.
    Probe(lab::Probe),
    /// What a compaction does to every item, why, and what is lost
    Explain(lab::Explain),
    /// Talk to a model that works in this folder and never runs out of context
    ///
    /// The model is --model: openai:BASE_URL#NAME for any server that speaks OpenAI's chat completions,
    /// responses:… and anthropic:… for the others, or the name of a known model. Without a terminal,
    /// every line of stdin is a turn, and the exit code is 1 if one failed. /help lists what can be
    /// typed.
    Chat(chat::Chat),
    /// Sessions in the store: their versions, branches and contexts
    Session(sessions::SessionArgs),
    /// Take session files into the store, and follow them as they grow
    Import(sessions::ImportArgs),
    /// The original content behind a handle
    Recall(sessions::Recall),
    /// Find what was said and done in the store, folded or not
    ///
    /// Exits with 1 where nothing was found.
    Search(sessions::Search),
    /// Look after the store: verify, gc, backup, restore
    Store(sessions::StoreArgs),
    /// Let a project's foldback.toml say where conversations go
    ///
    /// Such a file may name a server and the variable that holds its key (model, backend, backend_*). It
    /// is followed in that only once you have looked at it and allowed it, and no longer when it changes.
    Trust(Trust),
    /// Serve recall and search over the Model Context Protocol, on stdin and stdout
    ///
    /// For agents that look into their own folded past. Secrets are replaced in everything that is
    /// served, unless --show-secrets is given.
    Mcp(sessions::Mcp),
    /// Let an agent compact with foldback: puts a small module where the agent loads it
    Install(install::Install),
    /// Take foldback's module out of an agent again
    Uninstall(install::Install),
    /// Check the modules in agents, and the configuration
    ///
    /// Exits with 1 where something needs attention.
    Doctor(install::Doctor),
    /// Answer a module that lives in an agent: one JSON object on stdin, one on stdout
    Hook(hook::Hook),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual: the program's page and those of all commands
    Man {
        /// Only the page of this command
        command: Option<String>,
        /// Write each page into a file of its own in this folder
        #[arg(long, short, visible_alias = "out", value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
}

/// Which configuration files are trusted.
#[derive(Clone, Debug, Args)]
pub(crate) struct Trust {
    /// The file [default: the foldback.toml of this folder or one above it]
    #[arg(value_name = "FILE", conflicts_with = "list")]
    pub(crate) file: Option<PathBuf>,
    /// List the files that were allowed, and whether they have changed since
    #[arg(long)]
    pub(crate) list: bool,
    /// Trust the file no more
    #[arg(long, conflicts_with = "list")]
    pub(crate) revoke: bool,
}

/// Where sessions come from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Inputs {
    /// Session files or folders of them, or ids of sessions that agents recorded; - for stdin. Without one:
    /// stdin where that is a pipe, else the newest session of this folder
    #[arg(value_name = "SESSION")]
    pub(crate) paths: Vec<PathBuf>,
}

/// Which of a session's contents is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Extent {
    /// Everything the file holds
    History,
    /// What the model saw last
    #[default]
    View,
}

impl Extent {
    /// How many of a conversation's blocks stay in force where this is compacted.
    pub(crate) fn keeps(self, conversation: &Conversation) -> usize {
        match self {
            Self::History => 0,
            Self::View => conversation.block_count(),
        }
    }
}

/// What counts tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CounterName {
    /// Exact, OpenAI's o200k_base
    O200k,
    /// Exact, OpenAI's cl100k_base
    Cl100k,
    /// An estimate by script, much faster
    Estimate,
}

/// How far to compact, and how.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Aim {
    /// The context window in tokens [default: the model's] [env: FOLDBACK_WINDOW]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    pub(crate) window: Option<Tokens>,
    /// What to come down to: tokens (8000, 8k), a share of what the window leaves for the conversation (40%),
    /// of the window ("40% of window") or of the session ("40% of session") [default: the policy's] [env:
    /// FOLDBACK_TARGET]
    #[arg(long, value_name = "TOKENS|SHARE", value_parser = target, allow_negative_numbers = true)]
    pub(crate) target: Option<Target>,
    /// How to go about it: a name that `foldback policies` lists, or a TOML file [default: ladder] [env:
    /// FOLDBACK_POLICY]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,
    /// Who said how large the window is
    #[arg(skip)]
    pub(crate) window_from: Origin,
    /// Who said what the target is
    #[arg(skip)]
    pub(crate) target_from: Origin,
    /// Who chose the policy
    #[arg(skip)]
    pub(crate) policy_from: Origin,
}

/// What of a session is compacted, and what to attend to.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Ways {
    /// Start from what the model saw last, or from everything the file holds [default: view]
    #[arg(long, value_enum)]
    pub(crate) from: Option<Extent>,
    /// Keep to the rules for requests to this provider [default: the session's own]
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialect_named)]
    pub(crate) dialect: Option<Dialect>,
    /// What summaries should attend to most
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) focus: Option<String>,
    /// Repeat lines that match this regular expression word for word in the summary, whoever wrote them;
    /// may be repeated
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) keep: Vec<String>,
    /// Leave whole messages, calls and results whose text matches this regular expression as they are; may
    /// be repeated
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) pin: Vec<String>,
    /// Touch only these items of the view, counted as `foldback show --shape` counts them
    #[arg(long, value_name = "A..B", value_parser = range)]
    pub(crate) range: Option<Range<usize>>,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) aim: Aim,
    /// Write the result here: a file, - for stdout, or a folder for several sessions. A new file is
    /// readable by its owner alone. Does not wait until it is on the disk
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Change the session where it is, and keep a backup of what it was. A session that its agent has
    /// open or writes to meanwhile is left alone
    #[arg(long, conflicts_with = "output")]
    pub(crate) in_place: bool,
    /// Write a fresh file of what the model sees instead of adding to the session
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Report what would be done and write nothing; summaries are those that need no model
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) ways: Ways,
    #[command(flatten)]
    pub(crate) backend: chat::Backend,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Look at everything the file holds instead of what the model saw last
    #[arg(long, value_enum, default_value_t = Extent::View)]
    pub(crate) from: Extent,
    /// Draw the session as a picture into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// How many of the largest items to list
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count, allow_negative_numbers = true)]
    pub(crate) top: usize,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Whose rules [default: the session's own; all four where it has none]
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialect_named)]
    pub(crate) dialect: Option<Dialect>,
    /// Check everything the file holds instead of what the model saw last
    #[arg(long, value_enum, default_value_t = Extent::View)]
    pub(crate) from: Extent,
    /// Write a repaired session
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the repaired session here
    #[arg(long, short, value_name = "PATH", requires = "fix")]
    pub(crate) output: Option<PathBuf>,
    /// Repair the session where it is, and keep a backup of what it was
    #[arg(long, requires = "fix", conflicts_with = "output")]
    pub(crate) in_place: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Show everything the file holds instead of what the model saw last
    #[arg(long, value_enum, default_value_t = Extent::View)]
    pub(crate) from: Extent,
    /// What the model saw at the end of this turn, counted from 1 over the whole history, as
    /// `foldback stats` counts
    #[arg(long, value_name = "TURN", value_parser = turn, allow_negative_numbers = true)]
    pub(crate) at: Option<usize>,
    /// One line for each item
    #[arg(long, conflicts_with = "plain")]
    pub(crate) shape: bool,
    /// Who said it, and the text, and nothing else
    #[arg(long)]
    pub(crate) plain: bool,
    /// Only items whose text matches this regular expression
    #[arg(long, short, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) grep: Option<String>,
    /// Do not page, even on a terminal
    #[arg(long)]
    pub(crate) no_pager: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = format_named)]
    pub(crate) to: Format,
    /// Convert everything the file holds or what the model saw last
    #[arg(long, value_enum, default_value_t = Extent::View)]
    pub(crate) from: Extent,
    /// Write the result here: a file, - for stdout, or a folder for several sessions
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Refuse where something would be lost
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Undo {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Write the result here: a file, - for stdout, or a folder for several sessions
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Change the session where it is, and keep a backup of what it was
    #[arg(long, conflicts_with = "output")]
    pub(crate) in_place: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Log {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// List the sessions that agents recorded for this folder, the newest first
    #[arg(long, conflicts_with = "paths")]
    pub(crate) all: bool,
    /// The context window in tokens [default: the model's] [env: FOLDBACK_WINDOW]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    pub(crate) window: Option<Tokens>,
}

impl Command {
    /// The sessions that it names, and what it means without one; none where it works on no such sessions.
    pub(crate) fn sessions(&mut self) -> Option<Named<'_>> {
        let (paths, without) = match self {
            Self::Compact(Compact { inputs, .. })
            | Self::Stats(Stats { inputs, .. })
            | Self::Check(Check { inputs, .. })
            | Self::Show(Show { inputs, .. })
            | Self::Convert(Convert { inputs, .. })
            | Self::Undo(Undo { inputs, .. })
            | Self::Redo(Undo { inputs, .. })
            | Self::Log(Log { inputs })
            | Self::Replay(lab::Replay { inputs, .. })
            | Self::Eval(lab::Eval { inputs, .. })
            | Self::Probe(lab::Probe { inputs, .. }) => (&mut inputs.paths, Without::StdinOrNewest),
            Self::Explain(explain) => (&mut explain.paths, Without::StdinOrNewest),
            Self::Status(Status { inputs, all: false, .. }) => (&mut inputs.paths, Without::Newest),
            // The store is asked as well.
            Self::Recall(recall) => (&mut recall.files, Without::Nothing),
            _ => return None,
        };
        Some(Named { paths, without })
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Diff {
    /// The session before
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The session after; without it, A's history against what the model saw last
    #[arg(value_name = "B")]
    pub(crate) after: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
