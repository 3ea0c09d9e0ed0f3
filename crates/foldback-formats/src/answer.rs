//! What models answer with, and the bodies that ask them: streams of events, whole answers,
//! refusals.
//!
//! An [`AnswerReader`] takes the events of a stream one by one, says at once what is new, and makes
//! the same item of them that [`read_answer`] makes of a whole body. [`classify`] finds out why a
//! server refused. Nothing here opens a connection, and no bytes make it panic.

mod anthropic;
mod body;
mod openai_chat;
mod openai_responses;
mod overflow;
mod refusal;

use std::fmt;

use foldback_core::{Dialect, FinishReason, Item, Part, Text, Usage};

pub use body::{Asked, Caching, Delivery, ToolSpec, request_body};
pub use refusal::{Refusal, Reply, classify};

/// How a model is asked over HTTP. A new one is a breaking change: whoever asks chooses an address, a header
/// for the key and a model for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// OpenAI Chat Completions, which most servers speak.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic];

    /// The name in front of a model's, as in `openai:gpt-5-mini`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
        }
    }

    /// The rules for a valid request.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::OpenAiChat => Dialect::OpenaiChat,
            Self::OpenAiResponses => Dialect::OpenaiResponses,
            Self::Anthropic => Dialect::Anthropic,
        }
    }

    /// Where requests go, below the version in a server's address.
    pub fn path(self) -> &'static str {
        match self {
            Self::OpenAiChat => "chat/completions",
            Self::OpenAiResponses => "responses",
            Self::Anthropic => "messages",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What is new in an answer that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More of the thinking that the provider shows.
    Reasoning(&'a str),
    /// A call begins.
    Call {
        /// The tool's name.
        name: &'a str,
    },
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the model said, named by the server's id for it where there is one. It has no parts where
    /// the model said nothing.
    pub item: Item,
    /// What was reported for the call.
    pub usage: Option<Usage>,
    /// Why the model stopped, where it said.
    pub finish: Option<FinishReason>,
    /// The model that answered, as the server names it: often more exactly than it was asked for.
    pub model: Option<Text>,
}

impl Answer {
    /// An answer of these parts, of which nothing else is known.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { item: Item::assistant("answer", parts), usage: None, finish: None, model: None }
    }
}

/// Why there is no answer. A new variant is a breaking change: whoever asks says what follows from each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is not what the protocol says.
    #[error("{why}")]
    Malformed {
        /// What is wrong with it.
        why: String,
    },
    /// The server says in it why there is none.
    #[error("{0}")]
    Refused(Refusal),
}

impl AnswerError {
    fn malformed(why: impl Into<String>) -> Self {
        Self::Malformed { why: why.into() }
    }

    fn of_json(error: &serde_json::Error) -> Self {
        Self::malformed(format!("no event of the protocol: {error}"))
    }

    /// The stream ended before the answer did.
    fn cut() -> Self {
        Self::malformed("it ended before it was complete")
    }
}

/// Where what is new is told.
pub type OnDelta<'a> = dyn FnMut(Delta<'_>) + Send + 'a;

/// Puts an answer together from the events of its stream.
#[derive(Debug)]
pub struct AnswerReader(Reading);

#[derive(Debug)]
enum Reading {
    OpenAiChat(openai_chat::Reader),
    OpenAiResponses(openai_responses::Reader),
    Anthropic(anthropic::Reader),
}

impl AnswerReader {
    /// A reader of an answer of which nothing is there yet.
    pub fn new(protocol: Protocol) -> Self {
        Self(match protocol {
            Protocol::OpenAiChat => Reading::OpenAiChat(openai_chat::Reader::default()),
            Protocol::OpenAiResponses => Reading::OpenAiResponses(openai_responses::Reader::default()),
            Protocol::Anthropic => Reading::Anthropic(anthropic::Reader::default()),
        })
    }

    /// Takes the next event's data, and says what is new in it.
    ///
    /// The name of the event is not asked for: data of all three protocols says itself what it is.
    pub fn push(&mut self, data: &str, on_delta: &mut OnDelta<'_>) -> Result<(), AnswerError> {
        match &mut self.0 {
            Reading::OpenAiChat(reader) => reader.push(data, on_delta),
            Reading::OpenAiResponses(reader) => reader.push(data, on_delta),
            Reading::Anthropic(reader) => reader.push(data, on_delta),
        }
    }

    /// Whether nothing more will come, although the stream may still be open.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            Reading::OpenAiChat(reader) => reader.is_complete(),
            Reading::OpenAiResponses(reader) => reader.is_complete(),
            Reading::Anthropic(reader) => reader.is_complete(),
        }
    }

    /// The answer, once the stream has ended. It fails where the stream ended too early.
    pub fn finish(self) -> Result<Answer, AnswerError> {
        match self.0 {
            Reading::OpenAiChat(reader) => reader.finish(),
            Reading::OpenAiResponses(reader) => reader.finish(),
            Reading::Anthropic(reader) => reader.finish(),
        }
    }
}

/// Reads an answer that came in one piece.
pub fn read_answer(protocol: Protocol, body: &[u8]) -> Result<Answer, AnswerError> {
    let body = std::str::from_utf8(body).map_err(|_| AnswerError::malformed("it is not UTF-8"))?;
    if let Some(refusal) = refusal::in_answer(body) {
        return Err(AnswerError::Refused(refusal));
    }
    match protocol {
        Protocol::OpenAiChat => openai_chat::read_whole(body),
        Protocol::OpenAiResponses => openai_responses::read(body),
        Protocol::Anthropic => anthropic::read(body),
    }
}

/// The name of an answer to which the server gave none.
const NAMELESS: &str = "answer";

/// What an answer is called.
fn name_of(id: Option<&str>) -> Text {
    id.filter(|id| !id.is_empty()).unwrap_or(NAMELESS).into()
}

/// The item with what was reported beside it.
fn answer_of(
    mut item: Item,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    model: Option<&str>,
) -> Answer {
    item.usage = usage;
    item.finish_reason = finish;
    let model = model.filter(|model| !model.is_empty()).map(Text::from);
    Answer { item, usage, finish, model }
}

#[cfg(test)]
mod tests;
