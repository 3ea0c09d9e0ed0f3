//! The command line.

pub(crate) mod lab;

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use foldback_core::{Dialect, Level, Tokens};
use foldback_formats::Format;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 something was found (check, diff) or is below its threshold (eval), 2 the command line or the configuration
makes no sense, 3 something could not be read, 4 what must stay is larger than the target,
5 something could not be written.

Configuration: foldback.toml in the working folder or one above it, else foldback/config.toml in
the user's configuration folder. Flags win over the environment, the environment over the file.";

/// Folds the past of agent sessions so that the next request fits its context window.
#[derive(Debug, Parser)]
#[command(name = "foldback", version = VERSION, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FOLDBACK_COMMIT"), ")");

/// What every command understands.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Shared {
    /// Print JSON for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The format of the input, where its content leaves that open
    #[arg(long, global = true, value_name = "FORMAT", value_parser = format_named)]
    pub(crate) format: Option<Format>,
    /// Count tokens with this counter [default: o200k]
    #[arg(long, global = true, value_enum, env = "FOLDBACK_COUNTER")]
    pub(crate) counter: Option<CounterName>,
    /// The model the session is for: its window, its dialect [default: the one in the session]
    #[arg(long, global = true, value_name = "NAME", env = "FOLDBACK_MODEL")]
    pub(crate) model: Option<String>,
    /// The configuration file
    #[arg(long, global = true, value_name = "FILE", env = "FOLDBACK_CONFIG")]
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
    Stats(Stats),
    /// Find what a provider would reject
    Check(Check),
    /// Show what the model sees
    Show(Show),
    /// Write a session in another format
    Convert(Convert),
    /// What a compaction changed
    Diff(Diff),
    /// The ways to compact, and when to choose which
    Policies {
        /// The policy to explain in full: a name, or a TOML file
        #[arg(value_name = "NAME|FILE")]
        policy: Option<String>,
    },
    /// Run recorded sessions again under policies: tokens, cost, and what is remembered
    Replay(lab::Replay),
    /// Fail where a policy remembers too little of recorded sessions
    Eval(lab::Eval),
    /// What a compaction does to every item, why, and what is lost
    Explain(lab::Explain),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man {
        /// The command to print it for
        command: Option<String>,
    },
}

/// Where sessions come from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Inputs {
    /// Session files or folders of them; - or nothing for stdin
    #[arg(value_name = "SESSION")]
    pub(crate) paths: Vec<PathBuf>,
}

/// Which of a session's contents is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum From {
    /// Everything the file holds
    History,
    /// What the model saw last
    #[default]
    View,
}

/// What counts tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CounterName {
    /// Exact, OpenAI's o200k_base
    O200k,
    /// Exact, OpenAI's cl100k_base
    Cl100k,
    /// An estimate by script, much faster
    Estimate,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// The context window in tokens [default: the model's]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, env = "FOLDBACK_WINDOW")]
    pub(crate) window: Option<Tokens>,
    /// What to come down to: tokens, or a share of what is usable such as 40% [default: 50%]
    #[arg(long, value_name = "TOKENS", value_parser = level, env = "FOLDBACK_TARGET")]
    pub(crate) target: Option<Level>,
    /// Start from what the model saw last, or from everything the file holds [default: view]
    #[arg(long, value_enum)]
    pub(crate) from: Option<From>,
    /// How to go about it: a name that `foldback policies` lists, or a TOML file [default: ladder]
    #[arg(long, value_name = "NAME|FILE", env = "FOLDBACK_POLICY")]
    pub(crate) policy: Option<String>,
    /// Keep to the rules of this provider [default: the session's own]
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialect_named)]
    pub(crate) dialect: Option<Dialect>,
    /// Write the result here: a file, - for stdout, or a folder for several sessions
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file, in one step, and keep the old one as a backup
    #[arg(long, conflicts_with = "output")]
    pub(crate) in_place: bool,
    /// Write a fresh file of what the model sees instead of adding to the session
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Plan only, write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What a summary that a model writes should attend to
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) focus: Option<String>,
    /// Keep items whose text matches this regular expression as they are; may be repeated
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) keep: Vec<String>,
    /// Touch only these items of the view, counted as `foldback show --shape` counts them
    #[arg(long, value_name = "A..B", value_parser = range)]
    pub(crate) range: Option<Range<usize>>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Look at everything the file holds instead of what the model saw last
    #[arg(long, value_enum, default_value_t = From::View)]
    pub(crate) from: From,
    /// Draw the session as a picture into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// How many of the largest items to list
    #[arg(long, value_name = "N", default_value_t = 10)]
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
    #[arg(long, value_enum, default_value_t = From::View)]
    pub(crate) from: From,
    /// Write a repaired session
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the repaired session here
    #[arg(long, short, value_name = "PATH", requires = "fix")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file by the repaired one and keep the old one as a backup
    #[arg(long, requires = "fix", conflicts_with = "output")]
    pub(crate) in_place: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Show everything the file holds instead of what the model saw last
    #[arg(long, value_enum, default_value_t = From::View)]
    pub(crate) from: From,
    /// What the model saw at the end of this turn, counted from 1
    #[arg(long, value_name = "TURN")]
    pub(crate) at: Option<usize>,
    /// One line for each item
    #[arg(long, conflicts_with = "plain")]
    pub(crate) shape: bool,
    /// The text and nothing else
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
    #[arg(long, value_enum, default_value_t = From::View)]
    pub(crate) from: From,
    /// Write the result here: a file, - for stdout, or a folder for several sessions
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Refuse where something would be lost
    #[arg(long)]
    pub(crate) strict: bool,
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

fn format_named(name: &str) -> Result<Format, String> {
    let names = Format::ALL.iter().map(|format| format.as_str());
    name.parse().map_err(|_| no_such("format", name, names))
}

fn dialect_named(name: &str) -> Result<Dialect, String> {
    let found = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name);
    found.ok_or_else(|| no_such("dialect", name, Dialect::ALL.iter().map(|dialect| dialect.as_str())))
}

/// Names closer than this are suggested.
const SIMILARITY_MIN: f64 = 0.75;

/// The one of `names` that was probably meant.
pub(crate) fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}

pub(crate) fn no_such<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let meant =
        similar(name, names.clone()).map_or_else(String::new, |known| format!("did you mean {known}? "));
    let all: Vec<&str> = names.collect();
    format!("no such {what}; {meant}there are {}", all.join(", "))
}

fn tokens(text: &str) -> Result<Tokens, String> {
    let plain = text.replace(['_', ','], "");
    let (number, factor) = match plain.to_ascii_lowercase().strip_suffix(['k', 'm']) {
        Some(number) if plain.ends_with(['k', 'K']) => (number.to_owned(), 1_000.0),
        Some(number) => (number.to_owned(), 1_000_000.0),
        None => (plain, 1.0),
    };
    let parsed: f64 =
        number.parse().map_err(|_| "give a number of tokens, such as 128000 or 128k".to_owned())?;
    let tokens = parsed * factor;
    match tokens.fract() == 0.0 && (1.0..1e15).contains(&tokens) {
        true => Ok(Tokens(tokens as u64)),
        false => Err("give a whole number of tokens above zero, such as 128000 or 128k".to_owned()),
    }
}

fn level(text: &str) -> Result<Level, String> {
    match text.contains('%') {
        true => text.parse().map_err(|error: foldback_core::BudgetError| error.to_string()),
        false => tokens(text).map(Level::Tokens),
    }
}

fn range(text: &str) -> Result<Range<usize>, String> {
    let wrong = || "give a range of items such as 10..40, 10.. or ..40".to_owned();
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let bound = |text: &str, open: usize| match text.trim() {
        "" => Ok(open),
        number => number.parse().map_err(|_| wrong()),
    };
    let range = bound(start, 0)?..bound(end, usize::MAX)?;
    if range.is_empty() { Err(wrong()) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn token_counts_may_be_written_short() {
        assert_eq!(tokens("128k"), Ok(Tokens(128_000)));
        assert_eq!(tokens("1.5M"), Ok(Tokens(1_500_000)));
        assert_eq!(tokens("32_000"), Ok(Tokens(32_000)));
        for wrong in ["0", "-5", "many", "1.5", "k", "1e300", "nan"] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
        assert_eq!(level("40%"), Ok(Level::PercentOfUsable(40.0)));
    }

    #[test]
    fn ranges_may_be_open() {
        assert_eq!(range("3..9"), Ok(3..9));
        assert_eq!(range("..9"), Ok(0..9));
        assert_eq!(range("3.."), Ok(3..usize::MAX));
        assert!(range("9..3").is_err() && range("3").is_err());
    }

    #[test]
    fn a_mistyped_name_gets_a_suggestion() {
        assert!(format_named("claude").unwrap_err().contains("did you mean claude-code?"));
        assert!(dialect_named("openai").unwrap_err().contains("openai-chat"));
    }
}
