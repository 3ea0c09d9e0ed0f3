//! The commands, one file each.

pub(crate) mod chat;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod policies;
pub(crate) mod probe;
pub(crate) mod recall;
pub(crate) mod replay;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod trust;
pub(crate) mod undo;
