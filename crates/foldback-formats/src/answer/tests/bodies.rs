//! Bodies of requests.

use std::sync::Arc;

use foldback_core::{Item, ItemKind, Part, Tokens, ToolCall, ToolInput, ToolResult};
use serde_json::{Value, json};

use crate::SessionFile;
use crate::answer::{Asked, Caching, Delivery, Protocol, ToolSpec, request_body};
use crate::format::Format;

fn conversation() -> Vec<Arc<Item>> {
    let items = [
        Item::text("s", ItemKind::System, "Be brief."),
        Item::user("u", "list"),
        Item::assistant("a", vec![Part::call("c1", "ls", &json!({"path": "/"}))]),
        Item::tool("t", ToolResult::text("c1", "etc")),
    ];
    items.into_iter().map(Arc::new).collect()
}

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "Looks around.".into(),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    vec![tool("ls"), tool("pwd")]
}

fn body(protocol: Protocol, model: &str, change: impl FnOnce(&mut Asked<'_>)) -> Value {
    body_of(protocol, model, &conversation(), change)
}

fn body_of(
    protocol: Protocol,
    model: &str,
    items: &[Arc<Item>],
    change: impl FnOnce(&mut Asked<'_>),
) -> Value {
    let tools = tools();
    let mut asked = Asked {
        model,
        items,
        tools: &tools,
        tokens_max: Some(Tokens(500)),
        caching: Caching::Conversation,
        delivery: Delivery::Streamed,
    };
    change(&mut asked);
    serde_json::from_slice(&request_body(protocol, &asked)).unwrap()
}

#[test]
fn a_body_holds_the_conversation_as_the_dialect_writes_it() {
    for protocol in Protocol::ALL {
        let body = body(protocol, "some-model", |_| {}).to_string();
        let session = SessionFile::read_as(Format::from(protocol.dialect()), body.into_bytes()).unwrap();
        assert_eq!(session.problems(), []);
        assert_eq!(session.model(), Some("some-model"), "{protocol}");
        let parts =
            |items: &[Arc<Item>]| -> Vec<Part> { items.iter().flat_map(|item| item.parts.clone()).collect() };
        let items: Vec<Arc<Item>> =
            session.conversations()[0].recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect();
        assert_eq!(parts(&items), parts(&conversation()), "{protocol}");
    }
}

#[test]
fn every_protocol_is_asked_in_its_own_words() {
    let chat = body(Protocol::OpenAiChat, "llama", |_| {});
    assert_eq!(chat["max_tokens"], 500);
    assert_eq!(chat["stream"], true);
    assert_eq!(chat["stream_options"]["include_usage"], true);
    assert_eq!(chat["tools"][1]["function"]["name"], "pwd");
    assert_eq!(chat["tools"][0]["function"]["parameters"]["type"], "object");

    let responses = body(Protocol::OpenAiResponses, "gpt-5-mini", |_| {});
    assert_eq!(responses["max_output_tokens"], 500);
    assert_eq!(responses["store"], false);
    assert_eq!(responses["include"][0], "reasoning.encrypted_content");
    assert_eq!(responses["tools"][0]["name"], "ls");
    assert_eq!(responses["instructions"], "Be brief.");

    let messages = body(Protocol::Anthropic, "claude-sonnet-4-5", |_| {});
    assert_eq!(messages["max_tokens"], 500);
    assert_eq!(messages["tools"][0]["input_schema"]["type"], "object");
    assert!(messages.get("stream_options").is_none());
}

#[test]
fn what_a_model_would_refuse_is_not_asked_for() {
    let newer = body(Protocol::OpenAiChat, "openai/gpt-5-mini", |_| {});
    assert_eq!(newer["max_completion_tokens"], 500);
    assert!(newer.get("max_tokens").is_none());
    let older = body(Protocol::OpenAiResponses, "gpt-4o", |_| {});
    assert!(older.get("include").is_none());
    let plain = body(Protocol::OpenAiChat, "x", |asked| {
        asked.tools = &[];
        asked.tokens_max = None;
        asked.delivery = Delivery::Whole;
    });
    for absent in ["tools", "max_tokens", "stream", "stream_options"] {
        assert!(plain.get(absent).is_none(), "{absent}");
    }
    let demanded = body(Protocol::Anthropic, "claude-opus-4-1", |asked| asked.tokens_max = None);
    assert_eq!(demanded["max_tokens"], 32_000, "this protocol has no default");
}

#[test]
fn breakpoints_stand_behind_tools_instructions_and_the_newest_item() {
    let marked = body(Protocol::Anthropic, "claude", |_| {});
    let is_marked = |value: &Value| value.get("cache_control").is_some();
    assert!(!is_marked(&marked["tools"][0]) && is_marked(&marked["tools"][1]));
    assert!(is_marked(&marked["system"][0]));
    let messages = marked["messages"].as_array().unwrap();
    assert!(is_marked(&messages.last().unwrap()["content"][0]));
    assert_eq!(marked.to_string().matches("cache_control").count(), 3, "four are allowed");
}

#[test]
fn breakpoints_that_items_have_are_the_only_ones() {
    let mut items = conversation();
    Arc::make_mut(&mut items[1]).cache_marker = true;
    let tools = tools();
    let asked = |caching| Asked {
        model: "claude",
        items: &items,
        tools: &tools,
        tokens_max: None,
        caching,
        delivery: Delivery::Streamed,
    };
    for caching in [Caching::AsGiven, Caching::Conversation] {
        let body: Value =
            serde_json::from_slice(&request_body(Protocol::Anthropic, &asked(caching))).unwrap();
        assert!(body["messages"][0]["content"][0].get("cache_control").is_some());
        assert_eq!(body.to_string().matches("cache_control").count(), 1);
    }
}

#[test]
fn a_call_whose_arguments_broke_off_is_still_a_call_of_a_function() {
    for (arguments, told) in [("", json!({})), ("{\"path\": \"a", json!({"text": "{\"path\": \"a"}))] {
        let call = |id: &str, name: &str| {
            Part::ToolCall(ToolCall {
                id: id.into(),
                name: name.into(),
                input: ToolInput::Text(arguments.into()),
                signature: None,
            })
        };
        let items = [
            Item::user("u", "go"),
            Item::assistant("a", vec![call("c1", "ls"), call("c2", "apply_patch")]),
            Item::tool("t1", ToolResult::error("c1", "the arguments are not JSON")),
            Item::tool("t2", ToolResult::text("c2", "done")),
        ];
        let items = items.map(Arc::new);
        let responses = body_of(Protocol::OpenAiResponses, "m", &items, |_| {});
        let kinds: Vec<&str> = responses["input"].as_array().unwrap()[1..]
            .iter()
            .map(|item| item["type"].as_str().unwrap())
            .collect();
        let custom = ["custom_tool_call", "function_call_output", "custom_tool_call_output"];
        assert_eq!(kinds, [&["function_call"][..], &custom].concat(), "{responses}");
        let chat = body_of(Protocol::OpenAiChat, "m", &items, |_| {});
        let calls = &chat["messages"][1]["tool_calls"];
        assert_eq!(calls[1]["type"], "custom", "a tool that is not among those of the request");
        for written in [&responses["input"][1]["arguments"], &calls[0]["function"]["arguments"]] {
            assert_eq!(serde_json::from_str::<Value>(written.as_str().unwrap()).unwrap(), told);
        }
    }
}

#[test]
fn an_empty_conversation_still_gives_a_body() {
    for protocol in Protocol::ALL {
        let body = body(protocol, "m\"x", |asked| asked.items = &[]);
        assert_eq!(body["model"], "m\"x");
    }
}
