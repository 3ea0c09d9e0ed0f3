//! Requests and recorded sessions of agents, to and from foldback's transcripts.
//!
//! A [`SessionFile`] keeps the bytes it was read from. What is not changed is written back by writing
//! those bytes; a compaction is written as records added to them, in the agent's own form. So
//! nothing that a reader did not understand can be lost on the way.
//!
//! ```
//! use foldback_formats::{Format, SessionFile};
//!
//! let body = br#"[{"role":"user","content":"hi"},{"role":"assistant","content":null,
//!   "tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}]"#;
//! let session = SessionFile::read(body.to_vec())?;
//! assert_eq!(session.format(), Format::OpenaiChat);
//! assert_eq!(session.conversations()[0].len(), 2);
//! assert_eq!(session.bytes(), body);
//! # Ok::<(), foldback_formats::FormatError>(())
//! ```
//!
//! Everything here works on bytes in memory, or on a [`Source`] that somebody else reads, and reads no
//! clock: the same input gives the same output (T6). A format is one file: the dialects of providers in `dialect/`, the session files of
//! agents that foldback also writes in `session/`, files that it only reads in `recording/`.

pub mod answer;
mod attribution;
mod conversation;
mod detect;
mod dialect;
mod document;
mod error;
mod fields;
mod file_end;
mod format;
mod inline;
mod json;
mod jsonl;
mod lowering;
mod new_ids;
mod pieces;
mod recording;
mod rfc3339;
mod session;

pub use conversation::{
    Conversation, FilePlace, MeteredStep, MeteredSteps, Recorded, ReportsOnView, Sent, Step, StepAction,
};
pub use detect::detect;
pub use error::{Fault, FormatError, Problem};
pub use format::{
    Committed, Contents, Format, Loss, SessionFile, SubAgentOf, Written, WrittenAs, messages, write,
};
pub use pieces::Source;
pub use session::native::native_file;
