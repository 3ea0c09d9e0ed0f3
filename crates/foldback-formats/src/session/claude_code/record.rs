//! One line of a session file, as far as it matters.

use std::sync::Arc;

use foldback_core::{CallId, FinishReason, Item, ItemKind, Json, Opaque, Part, Timestamp, Tokens, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::name::Name;
use super::{attachment, items};
use crate::conversation::Extension;
use crate::dialect::anthropic::blocks::{Content, Str, Streamed, read_blocks};
use crate::{json, rfc3339};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    User,
    Assistant,
    Attachment,
    CompactBoundary,
    MicrocompactBoundary,
    /// The record of a compaction, before the boundary that Claude Code writes for it.
    Foldback,
    /// State of the user interface, progress, notes of the agent: links of the chain, not context.
    Other,
}

/// What a record hangs off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Parent {
    /// The record does not say.
    #[default]
    Absent,
    /// Nothing: it begins something.
    Nothing,
    Uuid(Name),
}

impl<'de> Deserialize<'de> for Parent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let uuid = Option::<Str<'de>>::deserialize(deserializer)?;
        Ok(uuid.map_or(Self::Nothing, |uuid| Self::Uuid(Name::new(&uuid))))
    }
}

/// A record, its content read. It borrows nothing: long files are read piece by piece, and the pieces go.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) uuid: Option<Name>,
    pub(super) parent: Parent,
    pub(super) logical_parent: Option<Name>,
    pub(super) is_sidechain: bool,
    pub(super) agent_id: Option<Box<str>>,
    pub(super) session_id: Option<Name>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) is_meta: bool,
    pub(super) is_summary: bool,
    /// Whether it is what a tool call brought besides its result, such as a skill's text.
    pub(super) is_of_call: bool,
    /// Set by foldback on what it writes.
    pub(super) foldback_kind: Option<ItemKind>,
    /// Set by foldback on summaries behind something that they do not stand for.
    pub(super) is_later_summary: bool,
    /// Whether it begins as foldback's summaries do. Where a module put it in and nothing else tells of it, it
    /// is a summary and no prompt; what it says of itself is not believed.
    pub(super) begins_as_summary: bool,
    /// The id that all records of one message share.
    pub(super) message_id: Option<Box<str>>,
    pub(super) model: Option<Box<str>>,
    /// The title that it gives the session.
    pub(super) title: Option<Box<str>>,
    /// The calls that it answers, in order.
    answered: Vec<CallId>,
    /// What it says.
    pub(super) items: Vec<Arc<Item>>,
    /// What a boundary says; few records are one, so that it is kept apart.
    compact: Option<Box<Compact>>,
}

/// What the message of a user or assistant record says beside its parts.
#[derive(Debug, Default)]
pub(super) struct Message {
    id: Option<Box<str>>,
    model: Option<Box<str>>,
    pub(super) has_cache_marker: bool,
    pub(super) usage: Option<Usage>,
    pub(super) finish_reason: Option<FinishReason>,
}

/// What a boundary says. Lists of uuids and ids.
#[derive(Debug, Default)]
pub(super) struct Compact {
    pub(super) tokens_before: Option<Tokens>,
    /// The uuids of records that stay, as a list.
    pub(super) preserved: Vec<Box<str>>,
    /// The same as the first and the last of a chain.
    pub(super) segment: Option<(Box<str>, Box<str>)>,
    /// What foldback noted, and the records after the boundary that it put in.
    pub(super) foldback: Option<Extension>,
    pub(super) cleared_calls: Vec<Box<str>>,
    pub(super) cleared_attachments: Vec<Box<str>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TypeLine {
    User,
    Assistant,
    Attachment,
    System,
    Foldback,
    #[default]
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordLine<'a, C> {
    #[serde(rename = "type", default)]
    kind: TypeLine,
    #[serde(borrow)]
    subtype: Option<Str<'a>>,
    #[serde(borrow)]
    uuid: Option<Str<'a>>,
    #[serde(default)]
    parent_uuid: Parent,
    #[serde(borrow)]
    logical_parent_uuid: Option<Str<'a>>,
    is_sidechain: Option<bool>,
    #[serde(borrow)]
    agent_id: Option<Str<'a>>,
    #[serde(borrow)]
    session_id: Option<Str<'a>>,
    #[serde(borrow)]
    timestamp: Option<Str<'a>>,
    is_meta: Option<bool>,
    is_compact_summary: Option<bool>,
    #[serde(borrow, rename = "sourceToolUseID")]
    source_tool_use_id: Option<Str<'a>>,
    foldback_kind: Option<ItemKind>,
    foldback_summary: Option<bool>,
    #[serde(borrow)]
    custom_title: Option<Str<'a>>,
    #[serde(borrow)]
    ai_title: Option<Str<'a>>,
    #[serde(borrow)]
    message: Option<MessageLine<'a, C>>,
    #[serde(borrow)]
    attachment: Option<&'a RawValue>,
    #[serde(borrow)]
    compact_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    microcompact_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    foldback: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageLine<'a, C> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    model: Option<Str<'a>>,
    content: Option<C>,
    usage: Option<UsageLine>,
    #[serde(borrow)]
    stop_reason: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct UsageLine {
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompactLine<'a> {
    pre_tokens: Option<u64>,
    #[serde(borrow)]
    preserved_segment: Option<SegmentLine<'a>>,
    #[serde(borrow)]
    preserved_messages: Option<PreservedLine<'a>>,
    foldback: Option<Extension>,
    #[serde(borrow)]
    compacted_tool_ids: Option<Vec<Str<'a>>>,
    #[serde(borrow, rename = "clearedAttachmentUUIDs")]
    cleared_attachment_uuids: Option<Vec<Str<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SegmentLine<'a> {
    #[serde(borrow)]
    head_uuid: Option<Str<'a>>,
    #[serde(borrow)]
    tail_uuid: Option<Str<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreservedLine<'a> {
    #[serde(borrow)]
    uuids: Option<Vec<Str<'a>>>,
    #[serde(borrow)]
    all_uuids: Option<Vec<Str<'a>>>,
}

impl Record {
    /// One line, with its content read: lines are read on all cores.
    pub(super) fn parse(json: &str) -> Result<Self, serde_json::Error> {
        match json::plain::<RecordLine<'_, Streamed>>(json) {
            Some(line) => Self::read(line, |Streamed(content)| Ok(content)),
            None => Self::read(json::from_str(json)?, read_blocks),
        }
    }

    fn read<C>(
        line: RecordLine<'_, C>,
        content: impl FnOnce(C) -> Result<Content, serde_json::Error>,
    ) -> Result<Self, serde_json::Error> {
        let kind = match (line.kind, line.subtype.as_deref()) {
            (TypeLine::User, _) => Kind::User,
            (TypeLine::Assistant, _) => Kind::Assistant,
            (TypeLine::Attachment, _) => Kind::Attachment,
            (TypeLine::System, Some("compact_boundary")) => Kind::CompactBoundary,
            (TypeLine::System, Some("microcompact_boundary")) => Kind::MicrocompactBoundary,
            (TypeLine::Foldback, _) => Kind::Foldback,
            (TypeLine::System | TypeLine::Other, _) => Kind::Other,
        };
        let mut foldback_kind = line.foldback_kind;
        let (mut message, parts) = match kind {
            Kind::User | Kind::Assistant => {
                let missing = || serde::de::Error::missing_field("message");
                let mut line = line.message.ok_or_else(missing)?;
                let content = line.content.take().map_or_else(|| Ok(Content::default()), content)?;
                (Message::of(line, &content), content.parts)
            }
            Kind::Attachment => {
                let missing = || serde::de::Error::missing_field("attachment");
                let (kind, parts) = attachment::read(line.attachment.ok_or_else(missing)?);
                foldback_kind = foldback_kind.or(Some(kind));
                (Message::default(), parts)
            }
            Kind::CompactBoundary | Kind::MicrocompactBoundary | Kind::Foldback | Kind::Other => {
                <_>::default()
            }
        };
        let compact = match line.compact_metadata.or(line.microcompact_metadata) {
            Some(metadata) => Some(Box::new(Compact::read(serde_json::from_str(metadata.get())?))),
            None => line.foldback.filter(|_| kind == Kind::Foldback).and_then(own).map(Box::new),
        };
        let answered = parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result.call_id.clone()),
            _ => None,
        });
        let begins_as_summary = kind == Kind::User
            && matches!(parts.first(), Some(Part::Text(text)) if text.starts_with(SUMMARY_START));
        let mut record = Self {
            kind,
            begins_as_summary,
            uuid: line.uuid.as_deref().map(Name::new),
            parent: line.parent_uuid,
            logical_parent: line.logical_parent_uuid.as_deref().map(Name::new),
            is_sidechain: line.is_sidechain.unwrap_or(false),
            agent_id: line.agent_id.map(text),
            session_id: line.session_id.as_deref().map(Name::new),
            created_at: line.timestamp.as_deref().and_then(rfc3339::parse),
            is_meta: line.is_meta.unwrap_or(false),
            is_summary: line.is_compact_summary.unwrap_or(false) && kind == Kind::User,
            is_of_call: line.source_tool_use_id.is_some(),
            foldback_kind,
            is_later_summary: line.foldback_summary.unwrap_or(false),
            message_id: message.id.take(),
            model: message.model.take(),
            title: line.custom_title.or(line.ai_title).map(text),
            answered: answered.collect(),
            items: Vec::new(),
            compact,
        };
        record.items = items::items_of(&record, &message, line.uuid.as_deref().unwrap_or_default(), parts);
        Ok(record)
    }

    /// Whether it is something that a person or the model said, or that was put in their way.
    pub(super) fn is_said(&self) -> bool {
        matches!(self.kind, Kind::User | Kind::Assistant)
    }

    /// Whether it is another record over again, which has the same name.
    pub(super) fn repeats(&self, other: &Self) -> bool {
        self.created_at.is_some()
            && self.created_at == other.created_at
            && self.kind == other.kind
            && self.parent == other.parent
            && self.message_id == other.message_id
    }

    /// What it says as a boundary; nothing where it is none.
    pub(super) fn compact(&self) -> &Compact {
        static NOTHING: Compact = Compact {
            tokens_before: None,
            preserved: Vec::new(),
            segment: None,
            foldback: None,
            cleared_calls: Vec::new(),
            cleared_attachments: Vec::new(),
        };
        self.compact.as_deref().unwrap_or(&NOTHING)
    }

    /// The ids of the calls that it answers.
    pub(super) fn answered(&self) -> impl Iterator<Item = &str> {
        self.answered.iter().map(CallId::as_str)
    }
}

/// What foldback noted. A note that cannot be read says nothing.
fn own(json: &RawValue) -> Option<Compact> {
    let foldback = serde_json::from_str(json.get()).ok()?;
    Some(Compact { foldback: Some(foldback), ..Compact::default() })
}

fn text(Str(text): Str<'_>) -> Box<str> {
    text.into()
}

fn texts(list: Option<Vec<Str<'_>>>) -> Vec<Box<str>> {
    list.into_iter().flatten().map(text).collect()
}

impl Compact {
    /// Whether it says nothing of what stays: a module answered, and its messages stand behind it.
    pub(super) fn is_bare(&self) -> bool {
        self.foldback.is_none() && self.preserved.is_empty() && self.segment.is_none()
    }

    fn read(line: CompactLine<'_>) -> Self {
        let preserved = line.preserved_messages.and_then(|list| list.all_uuids.or(list.uuids));
        let segment = line
            .preserved_segment
            .and_then(|segment| Some((text(segment.head_uuid?), text(segment.tail_uuid?))));
        Self {
            tokens_before: line.pre_tokens.map(Tokens),
            preserved: texts(preserved),
            segment,
            foldback: line.foldback,
            cleared_calls: texts(line.compacted_tool_ids),
            cleared_attachments: texts(line.cleared_attachment_uuids),
        }
    }
}

impl Message {
    fn of<C>(line: MessageLine<'_, C>, content: &Content) -> Self {
        Self {
            id: line.id.map(text),
            model: line.model.map(text),
            has_cache_marker: content.cache_control.is_some(),
            usage: line.usage.map(UsageLine::read),
            finish_reason: line.stop_reason.and_then(|reason| finish_reason(&reason)),
        }
    }
}

impl UsageLine {
    fn read(self) -> Usage {
        let tokens = |count: Option<u64>| Tokens(count.unwrap_or(0));
        Usage {
            input_tokens: tokens(self.input_tokens),
            cached_tokens: tokens(self.cache_read_input_tokens),
            cache_write_tokens: tokens(self.cache_creation_input_tokens),
            output_tokens: tokens(self.output_tokens),
            reasoning_tokens: Tokens::ZERO,
        }
    }
}

fn finish_reason(reason: &str) -> Option<FinishReason> {
    match reason {
        "end_turn" | "stop_sequence" => Some(FinishReason::Stop),
        "tool_use" => Some(FinishReason::ToolCalls),
        "max_tokens" | "model_context_window_exceeded" => Some(FinishReason::Length),
        "refusal" => Some(FinishReason::ContentFilter),
        _ => None,
    }
}

/// An attachment that is passed through.
pub(super) fn opaque_attachment(kind: &str, attachment: &RawValue) -> Option<Part> {
    let json = Json::parse(attachment.get()).ok()?;
    Some(Part::Opaque(Opaque { source: format!("{ATTACHMENT_SOURCE}{kind}").into(), json }))
}

/// How summaries of foldback begin.
const SUMMARY_START: &str = "[Summary of ";

/// The type of foldback's own lines.
pub(super) const RECORD_TYPE: &str = "foldback";

/// How the source of attachments that are passed through begins.
pub(super) const ATTACHMENT_SOURCE: &str = "claude-code/";
