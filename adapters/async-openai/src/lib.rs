//! Requests of [async-openai](async_openai), compacted by foldback.
//!
//! A [`Reading`] is a request as foldback reads it: a [`View`] for strategies, policies and compactors to work
//! on. What they leave becomes a request again. Requests of Chat Completions and of Responses are known.
//!
//! ```
//! use async_openai::types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest};
//! use foldback::engine::{Execution, compact};
//! use foldback::{Budget, Dialect, Policy, Room, Tokens};
//! use foldback_async_openai::Reading;
//!
//! let said = |text: String| ChatCompletionRequestUserMessage::from(text).into();
//! let messages = (0..40).map(|day| said(format!("Day {day}. {}", "Nothing happened. ".repeat(40)))).collect();
//! let request = CreateChatCompletionRequest { model: "gpt-4o".into(), messages, ..Default::default() };
//!
//! let reading = Reading::of(&request)?;
//! let policy = Policy::named("ladder").expect("the default policy");
//! let budget = policy.budget(Room::new(Tokens(4_000)))?;
//! assert!(reading.view().tokens() > budget.trigger());
//!
//! let execution = Execution::new(reading.view().clone(), policy.strategy());
//! let outcome = compact(execution.with_budget(budget).with_dialect(Dialect::OpenaiChat))?;
//! let compacted = reading.request(&outcome.view)?;
//! assert!(compacted.request.messages.len() < request.messages.len());
//! assert_eq!(compacted.request.messages.last(), request.messages.last());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything in a request but its messages stays as it was, and so do the messages that a compaction leaves
//! alone. [`View::recall`] gives back what was folded while the view is kept.
//!
//! `examples/openai_rounds.rs` runs an agent loop of its own through forty tool rounds in a small window.

use std::sync::Arc;

use async_openai::types::chat::{ChatCompletionRequestMessage, CreateChatCompletionRequest};
use async_openai::types::responses::{
    CreateResponse, EasyInputContent, EasyInputMessage, InputItem, InputParam, Role,
};
use foldback::formats::{Conversation, Format, FormatError, Loss, Problem, Sent, SessionFile, write};
use foldback::{Dialect, EstimatingCounter, TokenCounter, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request whose messages foldback reads and writes: [`CreateChatCompletionRequest`] and [`CreateResponse`].
pub trait Request: Clone + Serialize + sealed::Sealed {
    /// One entry of the conversation.
    type Message: Clone + Serialize + DeserializeOwned;

    /// The form of the request as JSON.
    const FORMAT: Format;

    /// The rules of the provider that takes it.
    const DIALECT: Dialect;

    /// The field of the JSON that holds the messages.
    const FIELD: &'static str;

    /// The messages; none where the request is a text.
    fn messages(&self) -> &[Self::Message];

    /// The same request with other messages.
    #[must_use]
    fn with_messages(self, messages: Vec<Self::Message>) -> Self;

    /// A message as the provider wants it.
    fn written(message: &Self::Message) -> Result<Value, serde_json::Error> {
        serde_json::to_value(message)
    }

    /// A message with its type.
    fn typed(written: &Value) -> Result<Self::Message, serde_json::Error> {
        Self::Message::deserialize(written)
    }
}

impl Request for CreateChatCompletionRequest {
    type Message = ChatCompletionRequestMessage;
    const FORMAT: Format = Format::OpenaiChat;
    const DIALECT: Dialect = Dialect::OpenaiChat;
    const FIELD: &'static str = "messages";

    fn messages(&self) -> &[ChatCompletionRequestMessage] {
        &self.messages
    }

    fn with_messages(self, messages: Vec<ChatCompletionRequestMessage>) -> Self {
        Self { messages, ..self }
    }

    fn written(message: &ChatCompletionRequestMessage) -> Result<Value, serde_json::Error> {
        Ok(with_custom_calls_renamed(serde_json::to_value(message)?, CUSTOM_CALL_HERE, CUSTOM_CALL))
    }

    fn typed(written: &Value) -> Result<ChatCompletionRequestMessage, serde_json::Error> {
        serde_json::from_value(with_custom_calls_renamed(written.clone(), CUSTOM_CALL, CUSTOM_CALL_HERE))
    }
}

/// The field of a custom tool call that holds its name and input: in the API, and in async-openai.
const CUSTOM_CALL: &str = "custom";
const CUSTOM_CALL_HERE: &str = "custom_tool";

fn with_custom_calls_renamed(mut message: Value, from: &str, to: &str) -> Value {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(content) = call.remove(from) {
            call.insert(to.to_owned(), content);
        }
    }
    message
}

impl Request for CreateResponse {
    type Message = InputItem;
    const FORMAT: Format = Format::OpenaiResponses;
    const DIALECT: Dialect = Dialect::OpenaiResponses;
    const FIELD: &'static str = "input";

    fn messages(&self) -> &[InputItem] {
        match &self.input {
            InputParam::Text(_) => &[],
            InputParam::Items(items) => items,
        }
    }

    fn with_messages(self, items: Vec<InputItem>) -> Self {
        Self { input: InputParam::Items(items), ..self }
    }

    /// async-openai's type of an answer wants an id, which only the provider gives. Without one an answer is a
    /// text of the assistant's.
    fn typed(written: &Value) -> Result<InputItem, serde_json::Error> {
        InputItem::deserialize(written).or_else(|error| answer(written).ok_or(error))
    }
}

fn answer(written: &Value) -> Option<InputItem> {
    let parts = written["content"].as_array().filter(|_| written["role"] == "assistant")?;
    let texts = parts.iter().map(|part| part["text"].as_str().or(part["refusal"].as_str()));
    let content = EasyInputContent::Text(texts.collect::<Option<Vec<&str>>>()?.join("\n"));
    Some(InputItem::EasyMessage(EasyInputMessage { role: Role::Assistant, content, ..Default::default() }))
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for async_openai::types::chat::CreateChatCompletionRequest {}
    impl Sealed for async_openai::types::responses::CreateResponse {}
}

/// A request as foldback reads it.
#[derive(Clone, Debug)]
pub struct Reading<R> {
    request: R,
    session: SessionFile,
    conversation: Conversation,
    view: View,
}

/// A request that shows a view.
#[derive(Clone, Debug)]
pub struct Compacted<R> {
    /// What to send.
    pub request: R,
    /// What such a request cannot say of the view.
    pub losses: Vec<Loss>,
}

/// Why a request is not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request is not JSON, or what foldback writes in place of its messages has no type of
    /// async-openai's.
    #[error("the request cannot be turned into JSON and back; compact the JSON with foldback's formats")]
    Json(#[from] serde_json::Error),
    /// The JSON is no such request.
    #[error("the request cannot be read; its JSON is not what the provider documents")]
    Format(#[from] FormatError),
    /// Some messages are not known; without them the conversation would be another one.
    #[error("{} messages cannot be read; the first is in {}", problems.len(), problems[0])]
    UnknownMessages {
        /// What is wrong with each.
        problems: Vec<Problem>,
    },
}

impl<R: Request> Reading<R> {
    /// Reads a request, counting tokens by estimate.
    pub fn of(request: &R) -> Result<Self, RequestError> {
        Self::counting(request, Arc::new(EstimatingCounter))
    }

    /// Reads a request, counting with `counter`.
    pub fn counting(request: &R, counter: Arc<dyn TokenCounter>) -> Result<Self, RequestError> {
        let mut body = serde_json::to_value(request)?;
        if !request.messages().is_empty() {
            body[R::FIELD] = written(request)?.into();
        }
        let session = SessionFile::read_as(R::FORMAT, body.to_string().into_bytes())?;
        if !session.problems().is_empty() {
            return Err(RequestError::UnknownMessages { problems: session.problems().to_vec() });
        }
        let conversation = session.conversations().first().cloned().unwrap_or_default();
        let view = View::of(&conversation.transcript(counter, Some(R::DIALECT)));
        Ok(Self { request: request.clone(), session, conversation, view })
    }

    /// The request's messages, none of them hidden.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The request with what `view` shows in place of its messages. The view is a compaction of
    /// [`view`](Self::view).
    pub fn request(&self, view: &View) -> Result<Compacted<R>, RequestError> {
        let sent = Sent::of(view, &self.conversation);
        let written = write(R::FORMAT, &sent, Some(&self.session))?;
        let body: Value = serde_json::from_slice(&written.to_bytes())?;
        let request = self.request.clone();
        let request = match body[R::FIELD].as_array() {
            Some(messages) if !request.messages().is_empty() => request.with_messages(self.typed(messages)?),
            // A text is one message: there is nothing to compact.
            Some(_) | None => request,
        };
        Ok(Compacted { request, losses: written.losses })
    }

    /// Messages with their types: those of the request are the request's own.
    fn typed(&self, written: &[Value]) -> Result<Vec<R::Message>, serde_json::Error> {
        let given = self::written(&self.request)?;
        let mut given = given.iter().zip(self.request.messages());
        let typed = written.iter().map(|message| {
            let mut ahead = given.clone();
            match ahead.find(|(given, _)| *given == message) {
                Some((_, same)) => {
                    given = ahead;
                    Ok(same.clone())
                }
                None => R::typed(message),
            }
        });
        typed.collect()
    }
}

/// A request's messages as the provider wants them.
fn written<R: Request>(request: &R) -> Result<Vec<Value>, serde_json::Error> {
    request.messages().iter().map(R::written).collect()
}
