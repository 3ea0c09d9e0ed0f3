//! Writing: a compaction as records behind those of the file, and fresh session files.
//!
//! What is added are a boundary and a record for each item that the model sees after it. The
//! boundary lists those records, so that they are known as copies and not as something said again;
//! Claude Code does not look at the list and resumes from the records as if it had written them.
//! Attachments stay attachments: the agent makes its own text of them, and gives the model those
//! that it does not find once more.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt};

use foldback_core::{FinishReason, Item, ItemKind, Part, Text, Timestamp, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::record::ATTACHMENT_SOURCE;
use crate::conversation::{Extension, Sent};
use crate::dialect::anthropic::blocks::{Str, json_text, write_block};
use crate::file_end::FileEnd;
use crate::format::{Committed, Contents, End, Loss, SessionFile};
use crate::jsonl;
use crate::lowering::Tag;
use crate::new_ids::NewIds;
use crate::rfc3339;

/// Fields that all records of a session share, in the order in which they are written.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shared<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    is_sidechain: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    user_type: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    entrypoint: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    version: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    slug: Option<&'a RawValue>,
}

/// What is looked at of records at the end of a file.
#[derive(Deserialize)]
struct EndLine<'a> {
    #[serde(borrow)]
    uuid: Option<Str<'a>>,
    #[serde(borrow)]
    timestamp: Option<Str<'a>>,
}

/// Where a session ends.
#[derive(Debug)]
struct Ending<'a> {
    /// The record that the conversation goes on from.
    uuid: Option<String>,
    /// The last time in the file.
    timestamp: Option<String>,
    shared: Shared<'a>,
}

impl<'a> Ending<'a> {
    fn of(file: &'a FileEnd<'_>, end: &End) -> Option<Self> {
        let text = file.get(end.range.clone()).map(std::str::from_utf8)?.ok()?;
        let record: EndLine<'_> = serde_json::from_str(text).ok()?;
        Some(Self {
            uuid: record.uuid.map(|uuid| uuid.to_string()),
            timestamp: last_time(file.get(end.range.start..file.byte_count())?),
            shared: serde_json::from_str(text).ok()?,
        })
    }
}

/// The last time that records tell, looking from the last one back.
fn last_time(bytes: &[u8]) -> Option<String> {
    let mut lines: Vec<&[u8]> = jsonl::lines(bytes).collect();
    lines.reverse();
    lines.into_iter().find_map(|line| {
        let (_, record) = jsonl::parse::<EndLine<'_>>(line, 1).ok().flatten()?;
        let time = record.timestamp.filter(|time| rfc3339::parse(time).is_some())?;
        Some(time.to_string())
    })
}

/// The index of an item, and the record that attaches it.
type Attached<'f> = (usize, Cow<'f, [u8]>);

/// Those items that are attachments, exactly as the conversation has them. None where their records
/// cannot be read.
fn attached<'f>(sent: &[Sent], last: &End, file: &'f FileEnd<'_>) -> Option<Vec<Attached<'f>>> {
    let attached = sent.iter().filter_map(|sent| Some((sent.recorded?, last.attachments.get(&*sent.id)?)));
    attached.map(|(index, range)| Some((index, file.fetch(range.clone())?))).collect()
}

/// What an attachment record attaches.
fn attachment(record: &[u8]) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Record<'a> {
        #[serde(borrow)]
        attachment: &'a RawValue,
    }
    let record: Record<'_> = serde_json::from_slice(record).ok()?;
    Some(record.attachment)
}

/// The records of a compaction.
pub(super) fn append(contents: &Contents, file: &FileEnd<'_>, committed: &Committed<'_>) -> Option<Vec<u8>> {
    let items = &committed.sent;
    let last = contents.end().filter(|end| end.can_go_on)?;
    let end = Ending::of(file, last)?;
    let mut writer = Writer::new(NewIds::for_end(file), end.shared, contents.model());
    let attached = attached(items, last, file)?;
    let attachments = attached.iter().filter_map(|(index, record)| Some((*index, attachment(record)?)));
    writer.attachments.extend(attachments);
    let timestamp = end.timestamp.unwrap_or_else(|| rfc3339::print(Timestamp(0)));
    writer.timestamp = Some(timestamp.clone());
    let boundary = writer.ids.uuid();
    writer.parent = Some(boundary.clone());
    items.iter().for_each(|item| writer.push(item));
    let record = BoundaryOut {
        parent_uuid: None,
        logical_parent_uuid: end.uuid.as_deref(),
        shared: end.shared,
        kind: "system",
        subtype: "compact_boundary",
        content: "Conversation compacted",
        is_meta: false,
        timestamp: &timestamp,
        uuid: &boundary,
        level: "info",
        compact_metadata: MetadataOut {
            trigger: "manual",
            pre_tokens: committed.note.tokens_before().0,
            foldback: Extension::new(&committed.note, writer.copies),
        },
    };
    Some(jsonl::added(file.bytes(), [json_text(&record)].into_iter().chain(writer.records)))
}

/// A fresh session of these items.
pub(super) fn write(items: &[Sent], like: Option<&SessionFile>) -> (Vec<u8>, Vec<Loss>) {
    let file = like.map(|like| FileEnd::whole(like.bytes()));
    let end = like.zip(file.as_ref()).and_then(|(like, file)| Ending::of(file, like.end()?));
    let mut seed = Vec::new();
    for item in items {
        seed.extend_from_slice(item.id.as_bytes());
        seed.push(0);
    }
    let session_id = format!("\"{}\"", NewIds::for_file(&seed).uuid());
    let session_id = RawValue::from_string(session_id).expect("a uuid in quotes is JSON");
    let fresh = ["false", "\"external\"", "\"/\"", "\"2.0.0\"", "\"\""]
        .map(|json| RawValue::from_string(json.to_owned()).expect("these literals are JSON"));
    let [is_sidechain, user_type, cwd, version, git_branch] = &fresh;
    let shared = match end {
        Some(end) => end.shared,
        None => Shared {
            is_sidechain: Some(is_sidechain),
            user_type: Some(user_type),
            cwd: Some(cwd),
            session_id: Some(&session_id),
            version: Some(version),
            git_branch: Some(git_branch),
            ..Shared::default()
        },
    };
    let mut writer = Writer::new(NewIds::for_file(&seed), shared, like.and_then(|like| like.model()));
    items.iter().for_each(|item| writer.push(item));
    (jsonl::added(b"", writer.records), writer.losses)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BoundaryOut<'a> {
    parent_uuid: Option<&'a str>,
    logical_parent_uuid: Option<&'a str>,
    #[serde(flatten)]
    shared: Shared<'a>,
    #[serde(rename = "type")]
    kind: &'a str,
    subtype: &'a str,
    content: &'a str,
    is_meta: bool,
    timestamp: &'a str,
    uuid: &'a str,
    level: &'a str,
    compact_metadata: MetadataOut<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetadataOut<'a> {
    trigger: &'a str,
    pre_tokens: u64,
    foldback: Extension,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordOut<'a> {
    parent_uuid: Option<&'a str>,
    #[serde(flatten)]
    shared: Shared<'a>,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attachment: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_meta: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_visible_in_transcript_only: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_compact_summary: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    foldback_kind: Option<ItemKind>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    foldback_summary: bool,
    uuid: &'a str,
    timestamp: &'a str,
}

#[derive(Serialize)]
struct MessageOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    content: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageOut>,
}

#[derive(Serialize)]
struct UsageOut {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens.0,
            cache_creation_input_tokens: usage.cache_write_tokens.0,
            cache_read_input_tokens: usage.cached_tokens.0,
            output_tokens: usage.output_tokens.0,
        }
    }
}

/// Items as records, each hanging off the one before.
struct Writer<'a> {
    ids: NewIds,
    shared: Shared<'a>,
    model: &'a str,
    /// What those items attach that are exactly as the file has them, by their indices.
    attachments: HashMap<usize, &'a RawValue>,
    /// The one time of all records of a compaction; in a fresh file each has its item's own.
    timestamp: Option<String>,
    parent: Option<String>,
    /// The uuids of records, and where in the view their items stand.
    copies: Vec<(Text, usize)>,
    position: usize,
    records: Vec<String>,
    losses: Vec<Loss>,
}

impl<'a> Writer<'a> {
    fn new(ids: NewIds, shared: Shared<'a>, model: Option<&'a str>) -> Self {
        Self {
            ids,
            shared,
            model: model.unwrap_or("<synthetic>"),
            attachments: HashMap::new(),
            timestamp: None,
            parent: None,
            copies: Vec::new(),
            position: 0,
            records: Vec::new(),
            losses: Vec::new(),
        }
    }

    fn push(&mut self, item: &Sent) {
        self.position = item.position;
        if let Some(attachment) = item.recorded.and_then(|index| self.attachments.get(&index)) {
            return self.push_attachment(item, attachment.get());
        }
        let (attachments, others): (Vec<&Part>, Vec<&Part>) = item.parts.iter().partition(
            |part| matches!(part, Part::Opaque(opaque) if opaque.source.starts_with(ATTACHMENT_SOURCE)),
        );
        for attachment in attachments {
            if let Part::Opaque(opaque) = attachment {
                self.push_attachment(item, opaque.json.as_str());
            }
        }
        if item.kind.is_instruction() {
            self.lose(item, "instructions become text with a user's authority");
        }
        let mut blocks = Vec::with_capacity(others.len());
        for part in others {
            let written = match (part, item.kind) {
                (Part::Text(text), ItemKind::Notification) => {
                    write_block(&Part::text(Tag::Notification.around(text)))
                }
                _ => write_block(part),
            };
            if let Some(what) = written.lost {
                self.lose(item, what);
            }
            blocks.extend(written.json);
        }
        if !blocks.is_empty() {
            self.push_message(item, &format!("[{}]", blocks.join(",")));
        }
    }

    fn lose(&mut self, item: &Item, what: &str) {
        self.losses.push(Loss { item_id: item.id.clone(), what: what.to_owned() });
    }

    fn push_message(&mut self, item: &Item, content: &str) {
        let content = &RawValue::from_string(content.to_owned()).expect("a list of blocks is JSON");
        let is_assistant = item.kind == ItemKind::Assistant;
        let is_said = matches!(item.kind, ItemKind::Assistant | ItemKind::Tool | ItemKind::User);
        // Such a record hides all before it, unless it is one of the copies behind a boundary.
        let hides_nothing = self.timestamp.is_some() || self.records.is_empty();
        let is_summary = item.summary.is_some() && item.kind == ItemKind::Context && hides_nothing;
        let message = MessageOut {
            id: is_assistant.then(|| format!("msg_{}", self.ids.hex(24))),
            kind: is_assistant.then_some("message"),
            role: if is_assistant { "assistant" } else { "user" },
            model: is_assistant.then_some(self.model),
            content,
            stop_reason: item.finish_reason.filter(|_| is_assistant).and_then(stop_reason),
            usage: item.usage.filter(|_| is_assistant).map(UsageOut::from),
        };
        let uuid = self.ids.uuid();
        let record = RecordOut {
            parent_uuid: self.parent.as_deref(),
            shared: self.shared,
            kind: if is_assistant { "assistant" } else { "user" },
            message: Some(message),
            attachment: None,
            is_meta: !is_said && !is_summary,
            is_visible_in_transcript_only: is_summary,
            is_compact_summary: is_summary,
            foldback_kind: (!is_assistant && item.kind != ItemKind::Tool).then_some(item.kind),
            foldback_summary: item.summary.is_some() && item.kind == ItemKind::Context && !is_summary,
            uuid: &uuid,
            timestamp: &self.time_of(item),
        };
        let json = json_text(&record);
        self.add(json, uuid);
    }

    fn push_attachment(&mut self, item: &Item, json: &str) {
        let Ok(attachment) = RawValue::from_string(json.to_owned()) else { return };
        let uuid = self.ids.uuid();
        let record = RecordOut {
            parent_uuid: self.parent.as_deref(),
            shared: self.shared,
            kind: "attachment",
            message: None,
            attachment: Some(&attachment),
            is_meta: false,
            is_visible_in_transcript_only: false,
            is_compact_summary: false,
            foldback_kind: None,
            foldback_summary: false,
            uuid: &uuid,
            timestamp: &self.time_of(item),
        };
        let json = json_text(&record);
        self.add(json, uuid);
    }

    fn time_of(&self, item: &Item) -> String {
        let own = || rfc3339::print(item.created_at.unwrap_or(Timestamp(0)));
        self.timestamp.clone().unwrap_or_else(own)
    }

    fn add(&mut self, record: String, uuid: String) {
        self.records.push(record);
        self.copies.push((uuid.as_str().into(), self.position));
        self.parent = Some(uuid);
    }
}

fn stop_reason(reason: FinishReason) -> Option<&'static str> {
    match reason {
        FinishReason::Stop => Some("end_turn"),
        FinishReason::ToolCalls => Some("tool_use"),
        FinishReason::Length => Some("max_tokens"),
        FinishReason::ContentFilter => Some("refusal"),
        _ => None,
    }
}
