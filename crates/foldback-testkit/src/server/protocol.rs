//! Answers in the words of providers' protocols, as their documentation shows them. Written apart
//! from foldback-formats, which is tested against them.

use serde_json::{Value, json};

use super::{Answer, Request};

/// What a provider's server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// OpenAI chat completions, and everybody who does the same.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// What a model says.
#[derive(Clone, Debug)]
pub enum Said<'a> {
    /// Text, to its end.
    Text(&'a str),
    /// Text that was cut off at the output limit.
    CutOff(&'a str),
    /// A tool call.
    Call {
        /// Its id.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// What it is given.
        input: &'a Value,
    },
}

/// What is said, in the answer of this number. Agents take two answers with one id for one.
#[derive(Clone, Copy, Debug)]
struct Reply<'a> {
    said: &'a Said<'a>,
    number: usize,
    input_tokens: usize,
}

/// Characters of a text that one event of a stream brings.
const PIECE_CHARS: usize = 24;

/// Bytes that are reported as one token.
const TOKEN_BYTES: usize = 4;

impl Spoken {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// What the path of a request asks for.
    pub fn of(request: &Request) -> Option<Self> {
        let ends = |path: &str| request.path.ends_with(path);
        match () {
            () if ends("/chat/completions") => Some(Self::Chat),
            () if ends("/responses") => Some(Self::Responses),
            () if ends("/messages") => Some(Self::Messages),
            () => None,
        }
    }

    /// The answer to a request, streamed if it asks for that; usage is reported by bytes.
    pub fn answer(self, request: &Request, said: &Said<'_>) -> Answer {
        self.answer_counted(request, said, request.body.len() / TOKEN_BYTES)
    }

    /// The same, with the usage that the test has counted.
    pub fn answer_counted(self, request: &Request, said: &Said<'_>, input_tokens: usize) -> Answer {
        let is_streamed = request.json()["stream"] == json!(true);
        let reply = Reply { said, number: request.index + 1, input_tokens };
        match is_streamed {
            true => Answer::events(self.streamed(&reply)),
            false => Answer::json(&self.whole(&reply)),
        }
    }

    /// An error as the provider words it.
    pub fn error(self, status: u16, kind: &str, message: &str) -> Answer {
        let error = json!({"type": kind, "message": message});
        Answer::status(status).json_body(&match self {
            Self::Chat | Self::Responses => json!({"error": error}),
            Self::Messages => json!({"type": "error", "error": error}),
        })
    }

    /// The rejection of a request that is longer than the model's window.
    pub fn overflow(self, tokens: u64, limit: u64) -> Answer {
        let openai = || {
            let message = format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in \
                 {tokens} tokens. Please reduce the length of the messages."
            );
            let code = "context_length_exceeded";
            json!({"error": {"message": message, "type": "invalid_request_error", "code": code}})
        };
        match self {
            Self::Chat | Self::Responses => Answer::status(400).json_body(&openai()),
            Self::Messages => {
                let message = format!("prompt is too long: {tokens} tokens > {limit} maximum");
                self.error(400, "invalid_request_error", &message)
            }
        }
    }

    /// The events of a streamed answer, as if it was the first of its server.
    pub fn events(self, said: &Said<'_>, input_tokens: usize) -> Vec<String> {
        self.streamed(&Reply { said, number: 1, input_tokens })
    }

    fn streamed(self, reply: &Reply<'_>) -> Vec<String> {
        match self {
            Self::Chat => chat_events(reply),
            Self::Responses => responses_events(reply),
            Self::Messages => messages_events(reply),
        }
    }

    /// An answer in one piece.
    fn whole(self, reply: &Reply<'_>) -> Value {
        let Reply { said, number, input_tokens } = *reply;
        match self {
            Self::Chat => {
                let message = match said {
                    Said::Text(text) | Said::CutOff(text) => json!({"role": "assistant", "content": text}),
                    Said::Call { .. } => {
                        json!({"role": "assistant", "content": null, "tool_calls": [chat_call(said)]})
                    }
                };
                let choice = json!({"index": 0, "message": message, "finish_reason": chat_finish(said)});
                let usage = chat_usage(said, input_tokens);
                let kind = "chat.completion";
                json!({
                    "id": format!("chatcmpl-{number}"), "object": kind, "model": "scripted",
                    "choices": [choice], "usage": usage,
                })
            }
            Self::Responses => response(reply),
            Self::Messages => {
                let usage = json!({"input_tokens": input_tokens, "output_tokens": output_tokens(said)});
                json!({
                    "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "scripted",
                    "content": [messages_block(said)], "stop_reason": messages_finish(said),
                    "stop_sequence": null, "usage": usage,
                })
            }
        }
    }
}

/// What a request for a summary says must stand in it word for word: the block tagged `required`, whose
/// tag nobody can know beforehand.
pub fn required(request: &Request) -> String {
    let mut texts = Vec::new();
    strings(&request.json(), &mut texts);
    let block = texts.iter().find_map(|text| {
        let (_, begun) = text.rsplit_once("<required-")?;
        let (_, block) = begun.split_once(">\n")?;
        block.split_once("\n</required-").map(|(block, _)| block.to_owned())
    });
    block.unwrap_or_default()
}

fn strings(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| strings(value, texts)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
}

fn output_tokens(said: &Said<'_>) -> usize {
    match said {
        Said::Text(text) | Said::CutOff(text) => text.len() / TOKEN_BYTES,
        Said::Call { input, .. } => input.to_string().len() / TOKEN_BYTES,
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}")
}

/// An event with its name beside the data, as Responses and Messages send it.
fn named(value: &Value) -> String {
    format!("event: {}\ndata: {value}", value["type"].as_str().unwrap_or_default())
}

fn chat_call(said: &Said<'_>) -> Value {
    let Said::Call { id, name, input } = said else { return Value::Null };
    json!({"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}})
}

fn chat_finish(said: &Said<'_>) -> &'static str {
    match said {
        Said::Text(_) => "stop",
        Said::CutOff(_) => "length",
        Said::Call { .. } => "tool_calls",
    }
}

fn chat_usage(said: &Said<'_>, input_tokens: usize) -> Value {
    let output_tokens = output_tokens(said);
    json!({
        "prompt_tokens": input_tokens, "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    })
}

fn chat_events(reply: &Reply<'_>) -> Vec<String> {
    let Reply { said, number, input_tokens } = *reply;
    let id = format!("chatcmpl-{number}");
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let kind = "chat.completion.chunk";
        data(&json!({"id": id, "object": kind, "model": "scripted", "choices": [choice]}))
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    match said {
        Said::Text(text) | Said::CutOff(text) => {
            let of_piece = |piece: String| chunk(json!({"content": piece}), Value::Null);
            events.extend(pieces(text).into_iter().map(of_piece));
        }
        Said::Call { input, .. } => {
            let mut begun = chat_call(said);
            begun["function"]["arguments"] = json!("");
            events.push(chunk(json!({"tool_calls": [begun]}), Value::Null));
            let of_piece = |piece: String| {
                let call = json!({"index": 0, "function": {"arguments": piece}});
                chunk(json!({"tool_calls": [call]}), Value::Null)
            };
            events.extend(pieces(&input.to_string()).into_iter().map(of_piece));
        }
    }
    events.push(chunk(json!({}), json!(chat_finish(said))));
    let usage = chat_usage(said, input_tokens);
    events.push(data(&json!({"id": id, "model": "scripted", "choices": [], "usage": usage})));
    events.push("data: [DONE]".to_owned());
    events
}

fn response_item(reply: &Reply<'_>) -> Value {
    let number = reply.number;
    match reply.said {
        Said::Text(text) | Said::CutOff(text) => {
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            json!({
                "type": "message", "id": format!("msg_{number}"), "role": "assistant", "status": "completed",
                "content": [part],
            })
        }
        Said::Call { id, name, input } => json!({
            "type": "function_call", "id": format!("fc_{number}"), "call_id": id, "name": name,
            "arguments": input.to_string(), "status": "completed",
        }),
    }
}

fn response(reply: &Reply<'_>) -> Value {
    let Reply { said, number, input_tokens } = *reply;
    let output_tokens = output_tokens(said);
    let usage = json!({
        "input_tokens": input_tokens, "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    });
    let (status, details) = match said {
        Said::CutOff(_) => ("incomplete", json!({"reason": "max_output_tokens"})),
        Said::Text(_) | Said::Call { .. } => ("completed", Value::Null),
    };
    json!({
        "id": format!("resp_{number}"), "object": "response", "model": "scripted", "status": status,
        "incomplete_details": details, "output": [response_item(reply)], "usage": usage,
    })
}

fn responses_events(reply: &Reply<'_>) -> Vec<String> {
    let Reply { said, number, .. } = *reply;
    let (message_id, call_id) = (format!("msg_{number}"), format!("fc_{number}"));
    let created =
        json!({"id": format!("resp_{number}"), "object": "response", "status": "in_progress", "output": []});
    let mut events = vec![named(&json!({"type": "response.created", "response": created}))];
    let mut begun = response_item(reply);
    match said {
        Said::Text(_) | Said::CutOff(_) => begun["content"] = json!([]),
        Said::Call { .. } => begun["arguments"] = json!(""),
    }
    begun["status"] = json!("in_progress");
    events.push(named(&json!({"type": "response.output_item.added", "output_index": 0, "item": begun})));
    match said {
        Said::Text(text) | Said::CutOff(text) => {
            let part = json!({"type": "output_text", "text": "", "annotations": []});
            let place = json!({"item_id": message_id, "output_index": 0, "content_index": 0});
            let at = |kind: &str, name: &str, value: Value| {
                let mut event = place.clone();
                event["type"] = json!(kind);
                event[name] = value;
                named(&event)
            };
            events.push(at("response.content_part.added", "part", part));
            let of_piece = |piece: String| at("response.output_text.delta", "delta", json!(piece));
            events.extend(pieces(text).into_iter().map(of_piece));
            events.push(at("response.output_text.done", "text", json!(text)));
        }
        Said::Call { input, .. } => {
            let kind = "response.function_call_arguments.delta";
            let of_piece = |piece: String| {
                named(&json!({"type": kind, "item_id": call_id, "output_index": 0, "delta": piece}))
            };
            events.extend(pieces(&input.to_string()).into_iter().map(of_piece));
        }
    }
    let item = response_item(reply);
    events.push(named(&json!({"type": "response.output_item.done", "output_index": 0, "item": item})));
    let response = response(reply);
    let kind = format!("response.{}", response["status"].as_str().unwrap_or_default());
    events.push(named(&json!({"type": kind, "response": response})));
    events
}

fn messages_block(said: &Said<'_>) -> Value {
    match said {
        Said::Text(text) | Said::CutOff(text) => json!({"type": "text", "text": text}),
        Said::Call { id, name, input } => json!({"type": "tool_use", "id": id, "name": name, "input": input}),
    }
}

fn messages_finish(said: &Said<'_>) -> &'static str {
    match said {
        Said::Text(_) => "end_turn",
        Said::CutOff(_) => "max_tokens",
        Said::Call { .. } => "tool_use",
    }
}

fn messages_events(reply: &Reply<'_>) -> Vec<String> {
    let Reply { said, number, input_tokens } = *reply;
    let message = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": input_tokens, "output_tokens": 1},
    });
    let mut begun = messages_block(said);
    let (field, empty, kind, deltas, name) = match said {
        Said::Text(text) | Said::CutOff(text) => ("text", json!(""), "text_delta", pieces(text), "text"),
        Said::Call { input, .. } => {
            ("input", json!({}), "input_json_delta", pieces(&input.to_string()), "partial_json")
        }
    };
    begun[field] = empty;
    let mut events = vec![
        named(&json!({"type": "message_start", "message": message})),
        named(&json!({"type": "content_block_start", "index": 0, "content_block": begun})),
        named(&json!({"type": "ping"})),
    ];
    events.extend(deltas.into_iter().map(|piece| {
        let mut delta = json!({"type": kind});
        delta[name] = json!(piece);
        named(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    }));
    let stopped = json!({"stop_reason": messages_finish(said), "stop_sequence": null});
    let usage = json!({"output_tokens": output_tokens(said)});
    events.push(named(&json!({"type": "content_block_stop", "index": 0})));
    events.push(named(&json!({"type": "message_delta", "delta": stopped, "usage": usage})));
    events.push(named(&json!({"type": "message_stop"})));
    events
}
