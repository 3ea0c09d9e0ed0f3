//! Dialects: what each provider accepts as a valid request (T2).
//!
//! [`check`] is the one judge of it, called before a commit, after a load and before sending.
//! [`repair`] turns what `check` rejects into something it accepts, touches nothing else, and
//! says what it did.
//!
//! Both judge items as the formats lower them. System and developer items go to a field of their
//! own (anthropic, gemini) or stay in place (openai). Context and notifications become text with
//! a user's authority: a block after the tool results of the adjacent user message (anthropic,
//! gemini) or a user message of their own (openai). Consecutive assistant items become one
//! message. Items without parts are not sent, nor are empty texts.
//!
//! A call may wait for its result while nothing that is sent stands behind it but further calls of
//! its round and results. One rule says so (`waiting`), for `check` and for edits of a view, which
//! put nothing behind a call that waits.

mod check;
mod demands;
mod media;
mod pairing;
mod plain;
mod repair;
mod waiting;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::ItemId;
use crate::item::Item;

pub use check::{check, check_request};
pub use demands::{
    ANTHROPIC_CACHE_MARKER_COUNT_MAX, ANTHROPIC_IMAGE_BYTES_MAX, ANTHROPIC_IMAGE_COUNT_MAX,
    ANTHROPIC_IMAGE_TYPES, ANTHROPIC_INLINE_BYTES_MAX, GEMINI_IMAGE_COUNT_MAX, GEMINI_INLINE_BYTES_MAX,
    OPENAI_IMAGE_COUNT_MAX, OPENAI_INLINE_BYTES_MAX,
};
pub(crate) use plain::Plain;
pub use repair::repair;
pub(crate) use waiting::{Behind, WaitingCalls};

/// A provider's rules for a valid request. A new one is a breaking change: formats read and write each, and
/// whoever sends requests must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Gemini generateContent.
    Gemini,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenaiChat, Self::OpenaiResponses, Self::Gemini];

    /// The name used on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }
}

/// What a request must not violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rule {
    /// Every call has a result, unless nothing that is sent follows it.
    UnansweredCall,
    /// Every result has a call before it.
    ResultWithoutCall,
    /// A call has one result.
    DuplicateResult,
    /// No two calls share an id: ever (anthropic, openai-responses), or while both are open.
    DuplicateCallId,
    /// Results directly follow the message that made the calls (all but openai-responses).
    ResultNotAdjacent,
    /// Results come in the order of their calls (gemini).
    ResultOrder,
    /// The conversation begins with a user's authority (anthropic, gemini).
    FirstRole,
    /// No text part is empty (gemini) or blank (anthropic).
    EmptyText,
    /// Calls and reasoning stand in assistant items, results in tool items.
    MisplacedPart,
    /// Sealed reasoning is followed by what it led to (anthropic, openai-responses).
    ReasoningLast,
    /// Media and files stand where they are accepted, and have a type that is.
    MediaNotAllowed,
    /// Media and files stay within the limits on number and size.
    MediaOverLimit,
    /// At most four cache markers (anthropic).
    CacheMarkers,
}

impl Rule {
    /// The name used in messages and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnansweredCall => "unanswered-call",
            Self::ResultWithoutCall => "result-without-call",
            Self::DuplicateResult => "duplicate-result",
            Self::DuplicateCallId => "duplicate-call-id",
            Self::ResultNotAdjacent => "result-not-adjacent",
            Self::ResultOrder => "result-order",
            Self::FirstRole => "first-role",
            Self::EmptyText => "empty-text",
            Self::MisplacedPart => "misplaced-part",
            Self::ReasoningLast => "reasoning-last",
            Self::MediaNotAllowed => "media-not-allowed",
            Self::MediaOverLimit => "media-over-limit",
            Self::CacheMarkers => "cache-markers",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing a provider would reject, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// The item, by its place among the items checked.
    pub item_index: usize,
    /// The item, by name.
    pub item_id: ItemId,
    /// The part of that item, where one is to blame.
    pub part_index: Option<usize>,
    /// The piece of that tool result's content, where one is to blame.
    pub content_index: Option<usize>,
    /// What it violates.
    pub rule: Rule,
    /// What is wrong, in a clause.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (", self.rule, self.detail)?;
        if let Some(part_index) = self.part_index {
            write!(f, "part {part_index} of ")?;
        }
        write!(f, "item {} at index {})", self.item_id, self.item_index)
    }
}

/// What a repair did to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairAction {
    /// It is new.
    Inserted,
    /// It stands elsewhere, unchanged.
    Moved,
    /// Its parts or its cache marker changed.
    Rewritten,
}

/// One thing that [`repair`] did, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// The item, by its place among the repaired items.
    pub item_index: usize,
    /// The item, by name.
    pub item_id: ItemId,
    /// The rule that was violated.
    pub rule: Rule,
    /// What was done to it.
    pub action: RepairAction,
    /// The same in words.
    pub detail: String,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (item {} at index {})", self.rule, self.detail, self.item_id, self.item_index)
    }
}

/// What [`repair`] hands back.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// Items that `check` accepts. No input item is missing; one that had to give away all its
    /// parts is left without any.
    pub items: Vec<Arc<Item>>,
    /// What was done, in the order it was done; empty if there was nothing to do.
    pub repairs: Vec<Repair>,
}
