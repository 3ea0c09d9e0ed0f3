//! What the commands of the store understand: session, import, recall, search, store.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use foldback_core::{Dialect, Tokens};
use foldback_formats::Format;

use super::chat::Backend;
use super::{Aim, Extent, Ways};
use crate::values::{bytes, count, dialect_named, format_named, tokens};

/// Where sessions are kept.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct StoreAt {
    /// The store: a file, sqlite:FILE or postgres://USER@HOST/DATABASE [default: foldback/sessions.db in
    /// the user's data folder] [env: FOLDBACK_STORE]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Take session files into the store; what is there already is not stored again
    Import(Import),
    /// The sessions in the store, the one that changed last first
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = count)]
        limit: usize,
    },
    /// What a session is: its loops (runs of an agent, one after the other or as branches), how long they
    /// are, where they come from
    Show {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
    },
    /// The compactions of a session like a version history, the newest first
    Log {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
    },
    /// What the model would see now
    Context {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
        /// As a request in this dialect; without it, one line for each item
        #[arg(long = "for", value_name = "DIALECT", value_parser = dialect_named)]
        dialect: Option<Dialect>,
        /// The context window in tokens
        #[arg(long, value_name = "TOKENS", value_parser = tokens, default_value = "200k")]
        window: Tokens,
    },
    /// Compact what the model would see
    ///
    /// As `foldback compact` would do it with a file, and with the same default for the target. A session may
    /// consist of several loops, the runs of an agent one after the other: older ones give way first, the
    /// oldest before the others, each as far as needed. `foldback session context` counts the items for
    /// --range.
    Compact(SessionCompact),
    /// Do the compactions that `foldback session compact --later` left to be done
    Work(HowToCompact),
    /// Go on from an earlier place in a branch of its own
    Fork {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
        /// How many items the branch begins with
        #[arg(value_name = "ITEMS", value_parser = count)]
        items: usize,
        /// The loop to branch off, as `foldback session show` names it [default: the current one]
        #[arg(long = "loop", value_name = "LOOP")]
        loop_id: Option<String>,
    },
    /// Go back to an earlier place; what came after stays in the loop it was in
    Rewind {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
        /// How many items stay
        #[arg(value_name = "ITEMS", value_parser = count)]
        items: usize,
    },
    /// Take the newest compaction off again
    Undo {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Put the compaction that was undone last in force again
    Redo {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Write a session to a file: the one it was imported from, with the compactions made since, or another format
    Export {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
        /// The format to write [default: the file it was imported from, else native]
        #[arg(long = "as", value_name = "FORMAT", value_parser = format_named)]
        format: Option<Format>,
        /// Everything that was recorded, or what the model would see; for another format
        #[arg(long, value_enum, default_value_t = Extent::History)]
        from: Extent,
        /// Write it here instead of stdout
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take a session away for ever, and all that only it holds
    Delete {
        /// The session
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SessionCompact {
    /// The session
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Leave it to the next `foldback session work`, which says how
    #[arg(long)]
    pub(crate) later: bool,
    /// Report what would be done and store nothing; summaries are those that need no model
    #[arg(long, conflicts_with = "later")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) how: HowToCompact,
}

/// How sessions of the store are compacted.
#[derive(Clone, Debug, Args)]
pub(crate) struct HowToCompact {
    #[command(flatten)]
    pub(crate) aim: Aim,
    #[command(flatten)]
    pub(crate) ways: Ways,
    #[command(flatten)]
    pub(crate) backend: Backend,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Import {
    /// Session files or folders of them
    #[arg(value_name = "SESSION", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// The name of the session [default: the one in the file, else the name of the file]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Stay and follow the files as they grow
    #[arg(long, conflicts_with = "id")]
    pub(crate) watch: bool,
    /// With --watch: look again after so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, requires = "watch")]
    pub(crate) every: u64,
    /// With --watch: stop after looking so many times
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) rounds: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) import: Import,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Recall {
    /// The handle, such as @6hjhb91nxq
    #[arg(value_name = "HANDLE")]
    pub(crate) handle: String,
    /// Session files to look into instead of the store
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print only the passages with these words, and the lines around them
    #[arg(long, value_name = "WORDS", conflicts_with = "json")]
    pub(crate) query: Option<String>,
    /// The session of the store it belongs to [default: all, the one that changed last first]
    #[arg(long, value_name = "ID", conflicts_with = "files")]
    pub(crate) session: Option<String>,
    /// Show keys, tokens and passwords
    #[arg(long)]
    pub(crate) show_secrets: bool,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Search {
    /// Words; what stands in quotes stands together
    #[arg(value_name = "WORDS")]
    pub(crate) words: Vec<String>,
    /// A regular expression
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) regex: Option<String>,
    /// Only facts of this kind, such as path, command, error, url
    #[arg(long, value_name = "KIND", value_parser = crate::values::fact_kind)]
    pub(crate) kind: Option<foldback_core::FactKind>,
    /// The name of a file, or the end of its path
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Recorded at or after, such as 2026-11-15T08:30:00Z
    #[arg(long, value_name = "TIME", value_parser = crate::values::time)]
    pub(crate) since: Option<foldback_core::Timestamp>,
    /// Recorded before
    #[arg(long, value_name = "TIME", value_parser = crate::values::time)]
    pub(crate) until: Option<foldback_core::Timestamp>,
    /// Only in this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Go on where an earlier search stopped, which says this place
    #[arg(long, value_name = "PLACE")]
    pub(crate) before: Option<foldback_engine::store::SearchCursor>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count)]
    pub(crate) limit: usize,
    /// Show keys, tokens and passwords
    #[arg(long)]
    pub(crate) show_secrets: bool,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read everything and say what is wrong
    Verify {
        /// Make anew what can be derived from what is there
        #[arg(long)]
        repair: bool,
    },
    /// Remove what nothing refers to, and with --older-than sessions that were not changed since
    Gc {
        /// Remove sessions that were last changed before so many days
        #[arg(long, value_name = "DAYS")]
        older_than: Option<u32>,
        /// Keep this session however old it is; may be repeated
        #[arg(long, value_name = "ID")]
        keep: Vec<String>,
        /// Name the sessions that would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
        /// Remove them without asking
        #[arg(long, conflicts_with = "dry_run")]
        yes: bool,
    },
    /// Write everything into one file
    Backup {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Add the sessions of a backup: all of them, or none
    Restore {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Unpack up to so many bytes, such as 20G, of a backup that you trust [default: 100 times the
        /// size of the file, 1G at least]
        #[arg(long, value_name = "BYTES", value_parser = bytes, allow_negative_numbers = true)]
        unpacked_max: Option<u64>,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Mcp {
    /// Serve only this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Show keys, tokens and passwords
    #[arg(long)]
    pub(crate) show_secrets: bool,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}
