//! The body of a request: items as the dialect's writer lowers them, and around them what asks for
//! an answer.

use std::sync::Arc;

use foldback_core::{Item, Json, Model, Part, Text, Tokens, ToolCall, ToolInput};
use serde_json::{Value, json};

use super::Protocol;
use crate::conversation::Sent;
use crate::fields::{Object, array};
use crate::format::{Format, write};

/// What an answer may cost where neither the caller nor the model's entry says, and the protocol
/// demands a number.
const TOKENS_MAX_DEFAULT: Tokens = Tokens(8_192);

/// Families whose models do not think, and refuse to be asked for sealed thinking.
const WITHOUT_REASONING: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt-4"];

/// Families that know the output limit by its newer name only.
const NEWER_LIMIT: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

/// A tool as a model is told about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: Text,
    /// What it does and when to use it.
    pub description: Text,
    /// The JSON schema of its input.
    pub input_schema: Value,
}

/// Where prompt-cache breakpoints stand, for providers that want to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caching {
    /// Where the items say so, and nowhere else.
    AsGiven,
    /// Behind the tools, the instructions and the newest item, so that the next request of the same
    /// conversation reads everything up to here from the cache. Items that say something themselves
    /// are followed.
    #[default]
    Conversation,
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Piece by piece.
    #[default]
    Streamed,
    /// In one body.
    Whole,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The model.
    pub model: &'a str,
    /// The conversation.
    pub items: &'a [Arc<Item>],
    /// What the model may call.
    pub tools: &'a [ToolSpec],
    /// What the answer may cost.
    pub tokens_max: Option<Tokens>,
    /// Where prompt-cache breakpoints stand.
    pub caching: Caching,
    /// How the answer is sent.
    pub delivery: Delivery,
}

/// The body of a request. What the dialect cannot hold is left out, as when writing files.
pub fn request_body(protocol: Protocol, asked: &Asked<'_>) -> Vec<u8> {
    let format = Format::from(protocol.dialect());
    let changed = match (protocol, asked.caching) {
        (Protocol::Anthropic, Caching::Conversation) => with_breakpoints(asked.items),
        (Protocol::Anthropic, Caching::AsGiven) => None,
        (Protocol::OpenAiChat | Protocol::OpenAiResponses, _) => as_functions(asked.items, asked.tools),
    };
    let sent = Sent::new(changed.as_deref().unwrap_or(asked.items).iter().cloned());
    let written = write(format, &sent, None);
    let written = written.expect("requests of every protocol can be written").to_bytes();
    let said = String::from_utf8(written).expect("writers of requests write UTF-8");
    let said = said.trim().strip_prefix('{').and_then(|fields| fields.strip_suffix('}'));
    let said = said.expect("writers of requests write one object");
    let mut body = Object::new();
    body.text("model", asked.model);
    match protocol {
        Protocol::OpenAiChat => chat(&mut body, asked),
        Protocol::OpenAiResponses => responses(&mut body, asked),
        Protocol::Anthropic => anthropic(&mut body, asked),
    }
    if asked.delivery == Delivery::Streamed {
        body.json("stream", "true");
    }
    format!("{{{said},{}", &body.finish()[1..]).into_bytes()
}

fn chat(body: &mut Object, asked: &Asked<'_>) {
    if let Some(Tokens(limit)) = asked.tokens_max {
        let is_newer = family_is_in(asked.model, &NEWER_LIMIT);
        body.json(if is_newer { "max_completion_tokens" } else { "max_tokens" }, &limit.to_string());
    }
    let tools = asked.tools.iter().map(|tool| {
        let ToolSpec { name, description, input_schema } = tool;
        json!({ "type": "function", "function": { "name": name, "description": description, "parameters": input_schema } })
    });
    tool_list(body, tools);
    if asked.delivery == Delivery::Streamed {
        body.json("stream_options", r#"{"include_usage":true}"#);
    }
}

fn responses(body: &mut Object, asked: &Asked<'_>) {
    if let Some(Tokens(limit)) = asked.tokens_max {
        body.json("max_output_tokens", &limit.to_string());
    }
    let tools = asked.tools.iter().map(|tool| {
        let ToolSpec { name, description, input_schema } = tool;
        // Schemas are the host's: strict ones would have to forbid what they do not name.
        json!({ "type": "function", "name": name, "description": description, "parameters": input_schema, "strict": false })
    });
    tool_list(body, tools);
    // Nothing is left on the server, so thinking must come back with the next request.
    body.json("store", "false");
    if !family_is_in(asked.model, &WITHOUT_REASONING) {
        body.json("include", r#"["reasoning.encrypted_content"]"#);
    }
}

fn anthropic(body: &mut Object, asked: &Asked<'_>) {
    let known = || Model::named(asked.model).map_or(TOKENS_MAX_DEFAULT, |model| model.output_max);
    body.json("max_tokens", &asked.tokens_max.unwrap_or_else(known).0.to_string());
    let is_cached =
        asked.caching == Caching::Conversation && !asked.items.iter().any(|item| item.cache_marker);
    let last = asked.tools.len().saturating_sub(1);
    let tools = asked.tools.iter().enumerate().map(|(index, tool)| {
        let ToolSpec { name, description, input_schema } = tool;
        let mut tool = json!({ "name": name, "description": description, "input_schema": input_schema });
        if is_cached && index == last {
            tool["cache_control"] = json!({ "type": "ephemeral" });
        }
        tool
    });
    tool_list(body, tools);
}

fn tool_list(body: &mut Object, tools: impl ExactSizeIterator<Item = Value>) {
    if tools.len() > 0 {
        body.json("tools", &array(tools.map(|tool| tool.to_string())));
    }
}

/// The items with breakpoints behind the instructions and at the end; nothing where they have
/// breakpoints of their own.
fn with_breakpoints(items: &[Arc<Item>]) -> Option<Vec<Arc<Item>>> {
    if items.iter().any(|item| item.cache_marker) {
        return None;
    }
    let is_sent = |item: &Arc<Item>| !item.parts.is_empty();
    let is_instruction = |item: &Arc<Item>| is_sent(item) && item.kind.is_instruction();
    let instructions = items.iter().rposition(is_instruction);
    let newest = items.iter().rposition(|item| is_sent(item) && !item.kind.is_instruction());
    let mut marked = items.to_vec();
    for index in [instructions, newest].into_iter().flatten() {
        Arc::make_mut(&mut marked[index]).cache_marker = true;
    }
    Some(marked)
}

/// The items with every call of one of the tools as a call of a function, which is all that tools are in
/// these requests; nothing where they are. Arguments that broke off are no JSON, and a call with text for
/// its input would be written as one of a custom tool, which the server was not told of.
fn as_functions(items: &[Arc<Item>], tools: &[ToolSpec]) -> Option<Vec<Arc<Item>>> {
    let is_function = |call: &ToolCall| {
        matches!(call.input, ToolInput::Text(_)) && tools.iter().any(|tool| tool.name == call.name)
    };
    let is_changed = |item: &Arc<Item>| item.calls().any(|(_, call)| is_function(call));
    if !items.iter().any(is_changed) {
        return None;
    }
    let mut changed = items.to_vec();
    for item in changed.iter_mut().filter(|item| is_changed(item)) {
        for part in &mut Arc::make_mut(item).parts {
            if let Part::ToolCall(call) = part
                && is_function(call)
            {
                call.input = ToolInput::Json(Json::from_value(&arguments_of(call.input.as_str())));
            }
        }
    }
    Some(changed)
}

/// Text as arguments: nothing is an object without fields, and what is no JSON is told as it is.
fn arguments_of(text: &str) -> Value {
    match text.trim() {
        "" => json!({}),
        _ => json!({ "text": text }),
    }
}

fn family_is_in(model: &str, families: &[&str]) -> bool {
    let name = model.trim().to_ascii_lowercase();
    let name = name.rsplit('/').next().unwrap_or_default();
    families.iter().any(|family| name.starts_with(family))
}
