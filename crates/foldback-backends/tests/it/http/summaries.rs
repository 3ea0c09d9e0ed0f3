//! Summaries: what is sent for them, and what is made of the answer.

use std::sync::Arc;

use foldback_backends::{ModelBackend, Protocol, ToolSpec};
use foldback_core::{CompactionReason, FinishReason, Item, ItemKind, Part, Tokens, ToolResult};
use foldback_engine::{BackendError, CompactionBackend, SummaryRequest, SummaryResult};
use foldback_testkit::server::{Answer, Server};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{client, hello, whole};

fn conversation() -> Vec<Arc<Item>> {
    let items = [
        Item::text("s", ItemKind::System, "Be brief."),
        Item::user("u", "Fix the build. Never touch Cargo.lock."),
        Item::assistant("a", vec![Part::call("c1", "bash", &json!({"command": "cargo build"}))]),
        Item::tool("t", ToolResult::error("c1", "error[E0308]: mismatched types")),
    ];
    items.into_iter().map(Arc::new).collect()
}

async fn summarize(backend: &ModelBackend, request: SummaryRequest) -> Result<SummaryResult, BackendError> {
    backend.summarize(request, CancellationToken::new()).await
}

#[tokio::test]
async fn a_summary_is_context_with_the_usage_of_its_call() {
    for protocol in Protocol::ALL {
        let server = Server::scripted([Answer::events(hello(protocol))]).await;
        let backend = ModelBackend::new(client(&server, protocol));
        let result = summarize(&backend, SummaryRequest::new("s", conversation(), CompactionReason::Manual))
            .await
            .unwrap();
        let [item] = &result.items[..] else { panic!("{result:?}") };
        assert_eq!((item.kind, &item.parts[..]), (ItemKind::Context, &[Part::text("Hello")][..]));
        assert_eq!(result.usage.unwrap().prompt_tokens(), Tokens(10));
        assert_eq!(result.finish, Some(FinishReason::Stop));
        assert_eq!(backend.name(), format!("{protocol}:test-model"));
        let body = String::from_utf8(server.requests()[0].body.clone()).unwrap();
        for told in ["Never touch Cargo.lock.", "cargo build", "E0308", "which failed"] {
            assert!(body.contains(told), "{protocol}: {told} in {body}");
        }
        assert!(!body.contains("cache_control"), "a quotation is sent once");
    }
}

#[tokio::test]
async fn an_empty_answer_is_no_summary_and_nothing_is_made_up() {
    for text in ["", "  \n", "<think>I will not say", "<think>hm</think>\n"] {
        let server = Server::scripted([Answer::json(&whole(Protocol::OpenAiChat, text))]).await;
        let backend = ModelBackend::new(client(&server, Protocol::OpenAiChat));
        let result = summarize(&backend, SummaryRequest::new("s", conversation(), CompactionReason::Manual))
            .await
            .unwrap();
        assert_eq!(result.items, [], "{text}");
        assert!(result.usage.is_some());
    }
}

#[tokio::test]
async fn thinking_is_no_part_of_a_summary() {
    let server =
        Server::scripted([Answer::json(&whole(Protocol::OpenAiChat, "<think>hm</think>\n\n## Task: x"))])
            .await;
    let backend = ModelBackend::new(client(&server, Protocol::OpenAiChat));
    let result = summarize(&backend, SummaryRequest::new("s", conversation(), CompactionReason::Manual))
        .await
        .unwrap();
    assert_eq!(result.items[0].parts, [Part::text("## Task: x")]);
}

#[tokio::test]
async fn the_size_is_asked_for_in_words_and_enforced_with_room() {
    let server = Server::scripted([Answer::events(hello(Protocol::OpenAiChat))]).await;
    let backend = ModelBackend::new(client(&server, Protocol::OpenAiChat)).thinking(Tokens(100));
    let request = SummaryRequest {
        tokens_max: Some(Tokens(1_000)),
        ..SummaryRequest::new("s", conversation(), CompactionReason::Manual)
    };
    summarize(&backend, request).await.unwrap();
    let body = server.requests()[0].json();
    assert_eq!(body["max_tokens"], 1_350);
    assert!(body["messages"][1]["content"].as_str().unwrap().contains("about 487 words"), "{body}");
}

fn ridden_request() -> SummaryRequest {
    SummaryRequest {
        prefix: Some(conversation()),
        demands: vec!["Never touch Cargo.lock.".into()],
        ..SummaryRequest::new("s", conversation()[1..].to_vec(), CompactionReason::Manual)
    }
}

#[tokio::test]
async fn the_conversation_itself_is_sent_where_the_backend_is_its_model() {
    let tool = ToolSpec {
        name: "bash".into(),
        description: "Runs.".into(),
        input_schema: json!({"type": "object"}),
    };
    for protocol in Protocol::ALL {
        let server = Server::start(move |_| Answer::events(hello(protocol))).await;
        let backend =
            ModelBackend::new(client(&server, protocol)).rides_on_prefix().tools(vec![tool.clone()]);
        summarize(&backend, ridden_request()).await.unwrap();
        let body = server.requests()[0].json();
        let said: &Value =
            if protocol == Protocol::OpenAiResponses { &body["input"] } else { &body["messages"] };
        let last = said.as_array().unwrap().last().unwrap().to_string();
        assert!(
            last.contains("call no tools") && last.contains("Never touch Cargo.lock."),
            "{protocol}: {last}"
        );
        assert!(body.to_string().contains("Be brief."), "{protocol}");
        assert_eq!(body["tools"].as_array().unwrap().len(), 1, "{protocol}");
        if protocol == Protocol::Anthropic {
            assert_eq!(body.to_string().matches("cache_control").count(), 1);
            assert!(!last.starts_with("{\"role\":\"assistant\""));
        }
    }
}

#[tokio::test]
async fn a_conversation_that_the_provider_would_refuse_is_quoted() {
    let server = Server::start(|_| Answer::events(hello(Protocol::OpenAiChat))).await;
    let backend = ModelBackend::new(client(&server, Protocol::OpenAiChat)).rides_on_prefix();
    let mut unanswered = ridden_request();
    unanswered.prefix = Some(conversation()[..3].to_vec());
    summarize(&backend, unanswered).await.unwrap();
    let not_its_own = ModelBackend::new(client(&server, Protocol::OpenAiChat));
    summarize(&not_its_own, ridden_request()).await.unwrap();
    for request in server.requests() {
        let body = request.json();
        assert_eq!(body["messages"].as_array().unwrap().len(), 2, "{body}");
        assert!(body["messages"][1]["content"].as_str().unwrap().contains("<conversation-"), "{body}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_server_is_the_backends_error() {
    let server = Server::scripted([Answer::status(429).header("retry-after", "3")]).await;
    let backend = ModelBackend::new(client(&server, Protocol::Anthropic));
    let refused = summarize(&backend, SummaryRequest::new("s", conversation(), CompactionReason::Manual))
        .await
        .unwrap_err();
    assert!(refused.is_transient());
    assert_eq!(refused.retry_after(), Some(std::time::Duration::from_secs(3)));
}
