//! What each dialect demands, as data: one table per dialect, read by `check` and `repair`.

use super::Dialect;
use crate::item::{Item, ItemKind};
use crate::part::Part;

/// Images in one request; Anthropic's vision guide, "limits".
pub const ANTHROPIC_IMAGE_COUNT_MAX: usize = 100;
/// One image, measured as base64: the API counts encoded characters ("image exceeds 5 MB
/// maximum: 6275800 bytes > 5242880 bytes").
pub const ANTHROPIC_IMAGE_BYTES_MAX: usize = 5 * MIB;
/// Everything inline together; the Messages endpoint takes requests of 32 MB.
pub const ANTHROPIC_INLINE_BYTES_MAX: usize = 32 * MIB;
/// Image types; Anthropic's vision guide, "supported formats".
pub const ANTHROPIC_IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];
/// `cache_control` breakpoints in one request; Anthropic's prompt caching guide.
pub const ANTHROPIC_CACHE_MARKER_COUNT_MAX: usize = 4;
/// Images in one request; OpenAI's guide to images and vision, "image input requirements".
pub const OPENAI_IMAGE_COUNT_MAX: usize = 500;
/// Everything inline together; the same guide gives 50 MB as total payload per request.
pub const OPENAI_INLINE_BYTES_MAX: usize = 50 * MIB;
/// Images in one request; Gemini's guide to image understanding.
pub const GEMINI_IMAGE_COUNT_MAX: usize = 3_600;
/// Everything inline together; the same guide gives 20 MB for a request with inline data.
pub const GEMINI_INLINE_BYTES_MAX: usize = 20 * MIB;

const MIB: usize = 1024 * 1024;

/// When two calls may not share an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallIds {
    Unique,
    UniqueWhileOpen,
}

/// Where results may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adjacency {
    /// Anywhere after their call.
    Anywhere,
    /// Before the next user or assistant item; asides are lowered to after the results.
    WithinRound,
    /// With nothing but other results between them and their call.
    Directly,
}

/// Which text parts are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectedText {
    Nothing,
    Empty,
    Blank,
}

/// What a request may hold of media and files.
#[derive(Debug)]
pub(super) struct MediaDemands {
    pub allowed_in_assistant: bool,
    pub allowed_in_results: bool,
    /// Types of inline media; `None` where the dialect takes what it can read.
    pub types: Option<&'static [&'static str]>,
    pub image_count_max: usize,
    pub image_bytes_max: usize,
    pub inline_bytes_max: usize,
}

/// What a dialect demands.
#[derive(Debug)]
pub(super) struct Demands {
    pub call_ids: CallIds,
    pub adjacency: Adjacency,
    pub results_ordered: bool,
    pub user_first: bool,
    pub rejected_text: RejectedText,
    pub reasoning_followed: bool,
    /// System and developer items go to a field of their own.
    pub instructions_apart: bool,
    /// What a tool item holds beside results is sent.
    pub beside_results: bool,
    pub media: MediaDemands,
    pub cache_marker_count_max: usize,
}

/// What an item becomes in a request, as far as the order of messages is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lowered {
    /// Not sent, or nothing of it may be sent.
    Nothing,
    /// Sent in a field of its own.
    Apart,
    /// A system or developer message in place.
    Instruction,
    User,
    Assistant,
    Results,
    /// Context or a notification.
    Aside,
}

static COMMON: Demands = Demands {
    call_ids: CallIds::UniqueWhileOpen,
    adjacency: Adjacency::Anywhere,
    results_ordered: false,
    user_first: false,
    rejected_text: RejectedText::Nothing,
    reasoning_followed: false,
    // Two dialects send them apart: not all four reject what stands around them.
    instructions_apart: true,
    beside_results: false,
    media: MediaDemands {
        allowed_in_assistant: true,
        allowed_in_results: true,
        types: None,
        image_count_max: usize::MAX,
        image_bytes_max: usize::MAX,
        inline_bytes_max: usize::MAX,
    },
    cache_marker_count_max: usize::MAX,
};

static ANTHROPIC: Demands = Demands {
    call_ids: CallIds::Unique,
    adjacency: Adjacency::WithinRound,
    results_ordered: false,
    user_first: true,
    rejected_text: RejectedText::Blank,
    reasoning_followed: true,
    instructions_apart: true,
    beside_results: true,
    media: MediaDemands {
        allowed_in_assistant: false,
        allowed_in_results: true,
        types: Some(ANTHROPIC_IMAGE_TYPES),
        image_count_max: ANTHROPIC_IMAGE_COUNT_MAX,
        image_bytes_max: ANTHROPIC_IMAGE_BYTES_MAX,
        inline_bytes_max: ANTHROPIC_INLINE_BYTES_MAX,
    },
    cache_marker_count_max: ANTHROPIC_CACHE_MARKER_COUNT_MAX,
};

static OPENAI_CHAT: Demands = Demands {
    call_ids: CallIds::UniqueWhileOpen,
    adjacency: Adjacency::Directly,
    results_ordered: false,
    user_first: false,
    rejected_text: RejectedText::Nothing,
    reasoning_followed: false,
    instructions_apart: false,
    beside_results: false,
    media: MediaDemands {
        allowed_in_assistant: false,
        allowed_in_results: false,
        types: None,
        image_count_max: OPENAI_IMAGE_COUNT_MAX,
        image_bytes_max: usize::MAX,
        inline_bytes_max: OPENAI_INLINE_BYTES_MAX,
    },
    cache_marker_count_max: usize::MAX,
};

static OPENAI_RESPONSES: Demands = Demands {
    call_ids: CallIds::Unique,
    adjacency: Adjacency::Anywhere,
    results_ordered: false,
    user_first: false,
    rejected_text: RejectedText::Nothing,
    reasoning_followed: true,
    instructions_apart: false,
    beside_results: false,
    media: MediaDemands {
        allowed_in_assistant: false,
        allowed_in_results: true,
        types: None,
        image_count_max: OPENAI_IMAGE_COUNT_MAX,
        image_bytes_max: usize::MAX,
        inline_bytes_max: OPENAI_INLINE_BYTES_MAX,
    },
    cache_marker_count_max: usize::MAX,
};

static GEMINI: Demands = Demands {
    call_ids: CallIds::UniqueWhileOpen,
    adjacency: Adjacency::WithinRound,
    results_ordered: true,
    user_first: true,
    rejected_text: RejectedText::Empty,
    reasoning_followed: false,
    instructions_apart: true,
    beside_results: false,
    media: MediaDemands {
        allowed_in_assistant: true,
        allowed_in_results: true,
        types: None,
        image_count_max: GEMINI_IMAGE_COUNT_MAX,
        image_bytes_max: usize::MAX,
        inline_bytes_max: GEMINI_INLINE_BYTES_MAX,
    },
    cache_marker_count_max: usize::MAX,
};

impl Demands {
    /// The demands of `dialect`, or those common to all four.
    pub(super) fn of(dialect: Option<Dialect>) -> &'static Self {
        match dialect {
            None => &COMMON,
            Some(Dialect::Anthropic) => &ANTHROPIC,
            Some(Dialect::OpenaiChat) => &OPENAI_CHAT,
            Some(Dialect::OpenaiResponses) => &OPENAI_RESPONSES,
            Some(Dialect::Gemini) => &GEMINI,
        }
    }

    /// Whether a text part with this text is rejected.
    pub(super) fn rejects_text(&self, text: &str) -> bool {
        match self.rejected_text {
            RejectedText::Nothing => false,
            RejectedText::Empty => text.is_empty(),
            RejectedText::Blank => text.trim_start().is_empty(),
        }
    }

    /// What `item` becomes. Parts that are rejected without a replacement count as absent, so
    /// that removing them moves no boundary between messages.
    pub(super) fn lower(&self, item: &Item) -> Lowered {
        let is_sent = |part: &Part| match part {
            Part::ToolResult(_) => true,
            _ if item.kind == ItemKind::Tool && !self.beside_results => false,
            Part::Text(text) => !text.is_empty() && !self.rejects_text(text),
            Part::Reasoning(_) => item.kind == ItemKind::Assistant,
            Part::ToolCall(_) | Part::Media(_) | Part::File(_) | Part::Structured(_) | Part::Opaque(_) => {
                true
            }
        };
        if !item.parts.iter().any(is_sent) {
            return Lowered::Nothing;
        }
        match item.kind {
            ItemKind::System | ItemKind::Developer if self.instructions_apart => Lowered::Apart,
            ItemKind::System | ItemKind::Developer => Lowered::Instruction,
            ItemKind::User => Lowered::User,
            ItemKind::Assistant => Lowered::Assistant,
            ItemKind::Tool => Lowered::Results,
            ItemKind::Context | ItemKind::Notification => Lowered::Aside,
        }
    }
}
