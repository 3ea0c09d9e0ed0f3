//! What a request to a model tells OpenTelemetry.

use std::sync::Arc;

use foldback_backends::{Endpoint, Key, ModelClient, ModelRequest, Protocol};
use foldback_core::{Item, Tokens};
use foldback_testkit::server::{Answer, Said, Server, Spoken, refused_url};
use foldback_testkit::spans::{FieldValues, Spans};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::instrument::WithSubscriber;

const SECRET: &str = "sk-hunter2-hunter2-hunter2";
const SAID: &str = "the colour of the parser is mauve";

fn spoken(protocol: Protocol) -> Spoken {
    match protocol {
        Protocol::OpenAiChat => Spoken::Chat,
        Protocol::OpenAiResponses => Spoken::Responses,
        Protocol::Anthropic => Spoken::Messages,
    }
}

/// The spans of one request, all that was told as text, and the one that the conventions describe.
async fn asked(url: &str, protocol: Protocol) -> FieldValues {
    let endpoint = Endpoint::new(url).unwrap().key(Key::new(SECRET));
    let client = ModelClient::new(endpoint, protocol, "asked-for").unwrap();
    let items = [Arc::new(Item::user("u", SAID))];
    let request = ModelRequest::new(&items).tokens_max(Some(Tokens(321)));
    let spans = Spans::default();
    let cancellation = CancellationToken::new();
    // How it ended is in the span.
    let _ended = client.ask(&request, &mut |_| {}, &cancellation).with_subscriber(spans.clone()).await;
    let told = format!("{spans:?}");
    assert!(!told.contains(SECRET), "{told}");
    let [span] = &spans.all_named("chat")[..] else { panic!("{told}") };
    // A log may quote what a server said, a span never does.
    assert!(!format!("{span:?}").contains(SAID), "{told}");
    span.clone()
}

fn assert_fields(span: &FieldValues, wanted: &[(&str, &str)]) {
    for (name, value) in wanted {
        assert_eq!(span.get(*name).map(String::as_str), Some(*value), "{name} in {span:?}");
    }
}

#[tokio::test]
async fn a_request_is_a_client_span_with_the_names_of_the_conventions() {
    for protocol in Protocol::ALL {
        let server = Server::start(move |request| spoken(protocol).answer(request, &Said::Text(SAID))).await;
        let span = asked(&server.url(), protocol).await;
        let port = server.url().rsplit_once(':').unwrap().1.to_owned();
        let provider = if protocol == Protocol::Anthropic { "anthropic" } else { "openai" };
        assert_fields(
            &span,
            &[
                ("otel.name", "chat asked-for"),
                ("otel.kind", "client"),
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.provider.name", provider),
                ("gen_ai.request.model", "asked-for"),
                ("gen_ai.request.max_tokens", "321"),
                ("gen_ai.response.model", "scripted"),
                ("gen_ai.response.finish_reasons", r#"["stop"]"#),
                ("gen_ai.usage.output_tokens", "8"),
                ("server.address", "127.0.0.1"),
                ("server.port", &port),
            ],
        );
        assert!(span["gen_ai.usage.input_tokens"].parse::<u64>().unwrap() > 0, "{span:?}");
        assert!(!span.contains_key("error.type") && !span.contains_key("otel.status_code"), "{span:?}");
    }
}

#[tokio::test]
async fn a_request_that_fails_says_what_kind_of_failure_it_was_and_nothing_of_what_the_server_said() {
    for protocol in Protocol::ALL {
        let message = format!("{SECRET} said {SAID}");
        let error = move |status| spoken(protocol).error(status, "some_error", &message);
        let answers = [
            (error(401), "401"),
            (error(422), "422"),
            (error(429), "429"),
            (error(529), "529"),
            (spoken(protocol).overflow(9_000, 8_192), "context_overflow"),
            (Answer::json(&json!({"nonsense": SAID})), "malformed"),
        ];
        for (answer, kind) in answers {
            let server = Server::scripted([answer]).await;
            let span = asked(&server.url(), protocol).await;
            assert_fields(&span, &[("error.type", kind), ("otel.status_code", "ERROR")]);
            assert!(!span.contains_key("gen_ai.response.model"), "{span:?}");
        }
        let span = asked(&refused_url().await, protocol).await;
        assert_fields(&span, &[("error.type", "connection"), ("otel.status_code", "ERROR")]);
    }
}
