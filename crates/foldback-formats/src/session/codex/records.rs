//! The records of a rollout.

use std::borrow::Cow;

use foldback_core::{Item, Part, ResultPart, Text, Timestamp, Tokens, ToolResult, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::conversation::Extension;
use crate::dialect::openai_responses::items::read_item;
use crate::format::SubAgentOf;
use crate::lowering::found_summary;
use crate::rfc3339;

/// What stands before a summary that Codex made, on a line of its own.
pub(super) const SUMMARY_PREFIX: &str = "Another language model started to solve this problem and produced \
a summary of its thinking process. You also have access to the state of the tools that were used by that \
language model. Use this to build on the work that has already been done and avoid duplicating work. Here \
is the summary produced by the other language model, use the information in this summary to assist with \
your own analysis:";

/// Who wrote the summaries in a rollout.
pub(super) const BY: &str = "codex";

/// Lines in front of a command's output that are looked at for its exit code.
const HEADER_LINES_MAX: usize = 6;

/// How outputs begin of calls that Codex could not carry out.
const FAILURE_STARTS: [&str; 4] = [
    "exec_command failed",
    "write_stdin failed",
    "apply_patch verification failed",
    "failed to parse function arguments",
];

/// One line.
pub(super) struct Record<'a> {
    pub(super) time: Option<Cow<'a, str>>,
    pub(super) content: Content<'a>,
}

/// What a line says, as far as it matters to the conversation.
pub(super) enum Content<'a> {
    Session(Box<SessionMeta>),
    Model(Text),
    Item(Box<ReadItem<'a>>),
    /// What the provider reported for the last call, and the window that the agent goes by.
    Usage {
        usage: Usage,
        window: Option<Tokens>,
    },
    Compacted(Compacted<'a>),
    /// Mirrors of messages, and what only the interface shows.
    Other,
}

/// An item and its text in the file.
pub(super) struct ReadItem<'a> {
    pub(super) item: Item,
    pub(super) text: &'a str,
}

#[derive(Default)]
pub(super) struct SessionMeta {
    pub(super) id: Option<Text>,
    pub(super) sub_agent_of: Option<SubAgentOf>,
}

pub(super) struct Compacted<'a> {
    pub(super) message: String,
    /// What the model sees afterwards; older versions do not say.
    pub(super) replacement: Option<Vec<ReadItem<'a>>>,
    pub(super) foldback: Option<Extension>,
}

impl<'a> Record<'a> {
    pub(super) fn parse(json: &'a str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow, default)]
            timestamp: Option<Cow<'a, str>>,
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            payload: &'a RawValue,
        }
        let Line { timestamp, kind, payload } = serde_json::from_str(json)?;
        let content = match &*kind {
            "session_meta" => Content::Session(Box::new(session_meta(payload))),
            "turn_context" => model_of(payload).map_or(Content::Other, Content::Model),
            "response_item" => read(payload)?.map_or(Content::Other, |item| Content::Item(Box::new(item))),
            "event_msg" => usage_of(payload).unwrap_or(Content::Other),
            "compacted" => Content::Compacted(compacted(payload)?),
            _ => Content::Other,
        };
        Ok(Self { time: timestamp, content })
    }

    pub(super) fn created_at(&self) -> Option<Timestamp> {
        self.time.as_deref().and_then(rfc3339::parse)
    }
}

fn session_meta(payload: &RawValue) -> SessionMeta {
    #[derive(Deserialize)]
    struct Meta<'a> {
        id: Option<Text>,
        #[serde(borrow, default)]
        source: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Source {
        subagent: SubAgent,
    }
    #[derive(Deserialize)]
    struct SubAgent {
        thread_spawn: Spawn,
    }
    #[derive(Deserialize)]
    struct Spawn {
        parent_thread_id: Text,
        #[serde(default)]
        agent_nickname: Option<Text>,
    }
    let Ok(Meta { id, source }) = serde_json::from_str(payload.get()) else { return SessionMeta::default() };
    let spawn = source.and_then(|source| serde_json::from_str::<Source>(source.get()).ok());
    let sub_agent_of = spawn.map(|Source { subagent: SubAgent { thread_spawn: spawn } }| SubAgentOf {
        session_id: spawn.parent_thread_id,
        agent_id: spawn.agent_nickname.or_else(|| id.clone()).unwrap_or_default(),
    });
    SessionMeta { id, sub_agent_of }
}

fn model_of(payload: &RawValue) -> Option<Text> {
    #[derive(Deserialize)]
    struct Turn {
        model: Text,
    }
    serde_json::from_str::<Turn>(payload.get()).ok().map(|turn| turn.model)
}

/// What the provider reported for the last call. Its input includes what was cached.
fn usage_of<'a>(payload: &RawValue) -> Option<Content<'a>> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        info: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Info {
        last_token_usage: Counts,
        #[serde(default)]
        model_context_window: Option<u64>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Counts {
        input_tokens: u64,
        cached_input_tokens: u64,
        output_tokens: u64,
        reasoning_output_tokens: u64,
    }
    let event: Event<'_> = serde_json::from_str(payload.get()).ok()?;
    let info = event.info.filter(|_| event.kind == "token_count")?;
    let Info { last_token_usage: counts, model_context_window } = serde_json::from_str(info.get()).ok()?;
    let usage = Usage {
        input_tokens: Tokens(counts.input_tokens.saturating_sub(counts.cached_input_tokens)),
        cached_tokens: Tokens(counts.cached_input_tokens),
        cache_write_tokens: Tokens::ZERO,
        output_tokens: Tokens(counts.output_tokens),
        reasoning_tokens: Tokens(counts.reasoning_output_tokens),
    };
    let window = model_context_window.filter(|&window| window > 0).map(Tokens);
    Some(Content::Usage { usage, window })
}

fn compacted(payload: &RawValue) -> Result<Compacted<'_>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(default)]
        message: Option<String>,
        #[serde(borrow, default)]
        replacement_history: Option<Vec<&'a RawValue>>,
        #[serde(default)]
        foldback: Option<Extension>,
    }
    let fields: Fields<'_> = serde_json::from_str(payload.get())?;
    let replacement = fields.replacement_history.map(|items| {
        let items = items.into_iter().map(|raw| read(raw));
        items.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()
    });
    let (message, foldback) = (fields.message.unwrap_or_default(), fields.foldback);
    Ok(Compacted { message, replacement: replacement.transpose()?, foldback })
}

/// An item, if it is one that the model sees.
fn read(raw: &RawValue) -> Result<Option<ReadItem<'_>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Marks<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        status: Option<Cow<'a, str>>,
    }
    let marks = serde_json::from_str::<Marks<'_>>(raw.get()).unwrap_or(Marks { kind: None, status: None });
    // Codex keeps snapshots of the checkout beside the items and never sends them.
    if marks.kind.as_deref() == Some("ghost_snapshot") {
        return Ok(None);
    }
    let mut item = understood(read_item(raw, "")?);
    for part in &mut item.parts {
        if let Part::ToolResult(result) = part {
            result.is_error |= marks.status.is_none() && looks_failed(result);
        }
    }
    Ok(Some(ReadItem { item, text: raw.get() }))
}

/// A summary without the words with which Codex introduces it.
fn understood(mut item: Item) -> Item {
    let introduced = |part: &Part| matches!(part, Part::Text(text) if summary_text(text).is_some());
    if item.summary.is_none() || !item.parts.first().is_some_and(introduced) {
        return item;
    }
    for part in &mut item.parts {
        if let Part::Text(text) = part
            && let Some(said) = summary_text(text)
        {
            *text = said.into();
        }
    }
    item.parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    found_summary(item, BY, 0, Tokens::ZERO)
}

/// The summary within a text that Codex put together.
pub(super) fn summary_text(text: &str) -> Option<&str> {
    text.strip_prefix(SUMMARY_PREFIX)?.strip_prefix('\n')
}

/// Whether an output says that its command failed; rollouts have no other mark of it.
pub(super) fn looks_failed(result: &ToolResult) -> bool {
    #[derive(Deserialize)]
    struct Wrapped {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        exit_code: i64,
    }
    let Some(ResultPart::Text(text)) = result.content.first() else { return false };
    if text.starts_with("{\"output\":") {
        let wrapped = serde_json::from_str::<Wrapped>(text).ok();
        return wrapped.is_some_and(|wrapped| wrapped.metadata.exit_code != 0);
    }
    let header = text.lines().take(HEADER_LINES_MAX).take_while(|line| *line != "Output:");
    let exit_codes = header.filter_map(|line| {
        let code =
            line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "));
        code?.parse::<i64>().ok()
    });
    exit_codes.into_iter().any(|code| code != 0) || FAILURE_STARTS.iter().any(|start| text.starts_with(start))
}
