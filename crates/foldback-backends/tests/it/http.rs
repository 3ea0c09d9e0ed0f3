//! Clients and backends against real HTTP on loopback.

mod answers;
mod failures;
mod secrets;
mod summaries;

use std::sync::Arc;

use foldback_backends::{Endpoint, Key, ModelAnswer, ModelClient, ModelRequest, Protocol};
use foldback_core::Item;
use foldback_engine::BackendError;
use foldback_testkit::server::{Answer, Server};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A secret that must not turn up anywhere.
const SECRET: &str = "sk-hunter2-hunter2-hunter2";

fn client_at(url: &str, protocol: Protocol) -> ModelClient {
    let endpoint = Endpoint::new(url).unwrap().key(Key::new(SECRET));
    ModelClient::new(endpoint, protocol, "test-model").unwrap()
}

fn client(server: &Server, protocol: Protocol) -> ModelClient {
    client_at(&server.url(), protocol)
}

/// Asks once, and gives what was told meanwhile.
async fn ask(client: &ModelClient) -> (Result<ModelAnswer, BackendError>, String) {
    let items = [Arc::new(Item::user("u", "hello"))];
    let mut told = String::new();
    let mut on_delta = |delta: foldback_backends::Delta<'_>| told.push_str(&format!("{delta:?};"));
    let answer = client.ask(&ModelRequest::new(&items), &mut on_delta, &CancellationToken::new()).await;
    (answer, told)
}

/// One answer of the server, and what the client makes of it.
async fn asked_once(protocol: Protocol, answer: Answer) -> Result<ModelAnswer, BackendError> {
    let server = Server::scripted([answer]).await;
    ask(&client(&server, protocol)).await.0
}

fn data(value: &Value) -> String {
    format!("data: {value}")
}

/// A stream that says `Hello`.
fn hello(protocol: Protocol) -> Vec<String> {
    match protocol {
        Protocol::OpenAiChat => vec![
            ": a comment".to_owned(),
            data(&json!({"id":"a1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]})),
            data(&json!({"id":"a1","choices":[{"index":0,"delta":{"content":"lo"}}]})),
            data(&json!({"id":"a1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})),
            data(
                &json!({"id":"a1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}),
            ),
            "data: [DONE]".to_owned(),
        ],
        Protocol::OpenAiResponses => vec![
            data(&json!({"type":"response.output_text.delta","delta":"Hel"})),
            data(&json!({"type":"response.output_text.delta","delta":"lo"})),
            data(&json!({"type":"response.completed","response":{"id":"a1","status":"completed",
                "output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}],
                "usage":{"input_tokens":10,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}})),
        ],
        Protocol::Anthropic => [
            json!({"type":"message_start","message":{"id":"a1","usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":1}}}),
            json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
            json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}),
            json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}),
            json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}),
            json!({"type":"message_stop"}),
        ]
        .iter()
        .map(|value| format!("event: {}\n{}", value["type"].as_str().unwrap(), data(value)))
        .collect(),
    }
}

/// A whole answer that says this.
fn whole(protocol: Protocol, text: &str) -> Value {
    match protocol {
        Protocol::OpenAiChat => {
            json!({"id":"a1","choices":[{"message":{"role":"assistant","content":text},"finish_reason":"stop"}],
            "usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}})
        }
        Protocol::OpenAiResponses => json!({"id":"a1","status":"completed",
            "output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":text}]}],
            "usage":{"input_tokens":10,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}),
        Protocol::Anthropic => {
            json!({"id":"a1","stop_reason":"end_turn","content":[{"type":"text","text":text}],
            "usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":2}})
        }
    }
}
