//! Answers of Anthropic Messages. Blocks are kept as the server began them and written to by its
//! deltas, and then read by the reader of blocks in requests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldback_core::{FinishReason, Item, Part, Text, Tokens, ToolCall, ToolInput, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Answer, AnswerError, Delta, OnDelta, answer_of, name_of, refusal};
use crate::dialect::anthropic::blocks::read_blocks;
use crate::fields::{Fields, array, quoted};
use crate::recording::pieces::if_understood;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<Change<'a>>,
    #[serde(default)]
    usage: Option<Reported>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "if_understood")]
    model: Option<String>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    usage: Option<Reported>,
}

/// What changes in a block, or in the message.
#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Reported {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

impl Reported {
    /// The later report: its counts are totals, and it may leave some out.
    fn then(self, later: Self) -> Self {
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            cache_read_input_tokens: later.cache_read_input_tokens.or(self.cache_read_input_tokens),
            cache_creation_input_tokens: later
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
        }
    }

    fn usage(self) -> Usage {
        Usage {
            input_tokens: Tokens(self.input_tokens.unwrap_or(0)),
            cached_tokens: Tokens(self.cache_read_input_tokens.unwrap_or(0)),
            cache_write_tokens: Tokens(self.cache_creation_input_tokens.unwrap_or(0)),
            output_tokens: Tokens(self.output_tokens.unwrap_or(0)),
            reasoning_tokens: Tokens::ZERO,
        }
    }
}

/// A block that is being written.
#[derive(Debug)]
struct Block {
    /// How it began.
    start: Box<RawValue>,
    text: String,
    thinking: String,
    signature: String,
    input: String,
}

/// A stream, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    id: String,
    model: Option<String>,
    blocks: BTreeMap<u64, Block>,
    usage: Option<Reported>,
    stop_reason: Option<String>,
    is_stopped: bool,
}

impl Reader {
    pub(super) fn push(&mut self, data: &str, on_delta: &mut OnDelta<'_>) -> Result<(), AnswerError> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| AnswerError::of_json(&error))?;
        match &*event.kind {
            "message_start" => {
                let message = event.message.ok_or_else(|| AnswerError::malformed("it starts nothing"))?;
                self.id = message.id.map(Cow::into_owned).unwrap_or_default();
                self.model = message.model;
                self.report(message.usage);
            }
            "content_block_start" => {
                let block =
                    event.content_block.ok_or_else(|| AnswerError::malformed("a block is missing"))?;
                self.blocks.insert(event.index, Block::begin(block, on_delta));
            }
            "content_block_delta" => {
                let block = self.blocks.get_mut(&event.index);
                let block = block.ok_or_else(|| AnswerError::malformed("a block was not begun"))?;
                event.delta.iter().for_each(|change| block.take(change, on_delta));
            }
            "message_delta" => {
                let reason = event.delta.and_then(|change| change.stop_reason);
                self.stop_reason = reason.map(Cow::into_owned).or(self.stop_reason.take());
                self.report(event.usage);
            }
            "message_stop" => self.is_stopped = true,
            "error" => return Err(AnswerError::Refused(refusal::of_event(data))),
            // Pings, ends of blocks, and what is still to come.
            _ => {}
        }
        Ok(())
    }

    fn report(&mut self, later: Option<Reported>) {
        if let Some(later) = later {
            self.usage = Some(self.usage.unwrap_or_default().then(later));
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_stopped
    }

    pub(super) fn finish(self) -> Result<Answer, AnswerError> {
        if !self.is_stopped && self.stop_reason.is_none() {
            return Err(AnswerError::cut());
        }
        let parts = self.blocks.values().map(Block::parts).collect::<Result<Vec<_>, _>>()?;
        let item = Item::assistant(name_of(Some(&self.id)).as_str(), parts.into_iter().flatten().collect());
        let finish = self.stop_reason.as_deref().and_then(finish_reason);
        Ok(answer_of(item, self.usage.map(Reported::usage), finish, self.model.as_deref()))
    }
}

#[derive(Deserialize)]
struct Begun<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
}

impl Block {
    fn begin(start: &RawValue, on_delta: &mut OnDelta<'_>) -> Self {
        let begun: Option<Begun<'_>> = serde_json::from_str(start.get()).ok();
        let text_of = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
        let mut block = Self {
            start: start.to_owned(),
            text: String::new(),
            thinking: String::new(),
            signature: String::new(),
            input: String::new(),
        };
        let Some(begun) = begun else { return block };
        if let Some(name) = begun.name.as_deref() {
            on_delta(Delta::Call { name });
        }
        (block.text, block.thinking, block.signature) =
            (text_of(begun.text), text_of(begun.thinking), text_of(begun.signature));
        if !block.text.is_empty() {
            on_delta(Delta::Text(&block.text));
        }
        block
    }

    fn take(&mut self, change: &Change<'_>, on_delta: &mut OnDelta<'_>) {
        if let Some(text) = change.text.as_deref() {
            self.text.push_str(text);
            on_delta(Delta::Text(text));
        }
        if let Some(text) = change.thinking.as_deref() {
            self.thinking.push_str(text);
            on_delta(Delta::Reasoning(text));
        }
        self.signature.push_str(change.signature.as_deref().unwrap_or_default());
        self.input.push_str(change.partial_json.as_deref().unwrap_or_default());
    }

    /// The block as it is now.
    fn parts(&self) -> Result<Vec<Part>, AnswerError> {
        let fields = Fields::of(&self.start).ok_or_else(|| AnswerError::malformed("a block is no object"))?;
        let input = Some(self.input.as_str()).filter(|input| !input.is_empty());
        if let Some(input) = input.filter(|input| serde_json::from_str::<&RawValue>(input).is_err()) {
            return Ok(vec![self.cut_call(input)?]);
        }
        let mut block = fields.with(&[]);
        let changes = [
            ("text", Some(&self.text)),
            ("thinking", Some(&self.thinking)),
            ("signature", Some(&self.signature)),
        ];
        let mut changed: Vec<(&str, String)> = Vec::new();
        for (name, text) in changes {
            changed.extend(text.filter(|text| !text.is_empty()).map(|text| (name, quoted(text))));
        }
        changed.extend(input.map(|input| ("input", input.to_owned())));
        if !changed.is_empty() {
            let present: Vec<(&str, &str)> =
                changed.iter().map(|(name, json)| (*name, json.as_str())).collect();
            block = fields.with(&present);
            for (name, json) in present.into_iter().filter(|(name, _)| fields.get(name).is_none()) {
                block.json(name, json);
            }
        }
        read_parts(&array([block.finish()]))
    }

    /// A call whose input ends in the middle, as it does at the output limit.
    fn cut_call(&self, input: &str) -> Result<Part, AnswerError> {
        let begun: Option<Begun<'_>> = serde_json::from_str(self.start.get()).ok();
        let (id, name) = begun.map_or((None, None), |begun| (begun.id, begun.name));
        let missing = || AnswerError::malformed("a call has no id or no name");
        Ok(Part::ToolCall(ToolCall {
            id: (*id.ok_or_else(missing)?).into(),
            name: Text::from(&*name.ok_or_else(missing)?),
            input: ToolInput::Text(input.into()),
            signature: None,
        }))
    }
}

fn read_parts(blocks: &str) -> Result<Vec<Part>, AnswerError> {
    let raw: &RawValue = serde_json::from_str(blocks).map_err(|error| AnswerError::of_json(&error))?;
    let content = read_blocks(raw).map_err(|error| AnswerError::of_json(&error))?;
    let is_said = |part: &Part| !matches!(part, Part::Text(text) if text.is_empty());
    Ok(content.parts.into_iter().filter(is_said).collect())
}

/// A whole answer.
pub(super) fn read(body: &str) -> Result<Answer, AnswerError> {
    let message: Message<'_> = serde_json::from_str(body).map_err(|error| AnswerError::of_json(&error))?;
    let content = message.content.ok_or_else(|| AnswerError::malformed("it has no content"))?;
    let item = Item::assistant(name_of(message.id.as_deref()).as_str(), read_parts(content.get())?);
    let finish = message.stop_reason.as_deref().and_then(finish_reason);
    Ok(answer_of(item, message.usage.map(Reported::usage), finish, message.model.as_deref()))
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
