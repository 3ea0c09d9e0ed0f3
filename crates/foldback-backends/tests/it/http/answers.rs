//! What comes back.

use foldback_backends::{Endpoint, ModelClient, Protocol};
use foldback_core::{FinishReason, Part, Tokens, Usage};
use foldback_testkit::server::{Answer, Server, Step};

use super::{SECRET, ask, client, hello, whole};

fn usage() -> Usage {
    Usage { input_tokens: Tokens(6), cached_tokens: Tokens(4), output_tokens: Tokens(2), ..Usage::default() }
}

#[tokio::test]
async fn streams_are_told_piece_by_piece_and_end_in_an_item_with_usage() {
    for protocol in Protocol::ALL {
        let server = Server::scripted([Answer::events(hello(protocol))]).await;
        let (answer, told) = ask(&client(&server, protocol)).await;
        let answer = answer.unwrap();
        assert_eq!(told, "Text(\"Hel\");Text(\"lo\");", "{protocol}");
        assert_eq!(answer.item.parts, [Part::text("Hello")], "{protocol}");
        assert_eq!(answer.usage, Some(usage()), "{protocol}");
        assert_eq!(answer.finish, Some(FinishReason::Stop), "{protocol}");
    }
}

#[tokio::test]
async fn whole_answers_are_read_whether_they_were_asked_for_or_not() {
    for protocol in Protocol::ALL {
        let body = whole(protocol, "Hello");
        let server = Server::scripted([Answer::json(&body), Answer::json(&body)]).await;
        let streaming = client(&server, protocol);
        let patient = streaming.clone().whole_answers();
        for client in [&streaming, &patient] {
            let (answer, told) = ask(client).await;
            let answer = answer.unwrap();
            assert_eq!((told.as_str(), answer.usage), ("Text(\"Hello\");", Some(usage())), "{protocol}");
            assert_eq!(answer.item.parts, [Part::text("Hello")], "{protocol}");
        }
        let requests = server.requests();
        assert_eq!(requests[0].json()["stream"], true);
        assert!(requests[1].json().get("stream").is_none());
    }
}

#[tokio::test]
async fn requests_go_where_and_how_the_protocol_says() {
    for protocol in Protocol::ALL {
        let path = match protocol {
            Protocol::OpenAiChat => "/v1/chat/completions",
            Protocol::OpenAiResponses => "/v1/responses",
            Protocol::Anthropic => "/v1/messages",
        };
        let server = Server::start(move |_| Answer::events(hello(protocol))).await;
        for base in [server.url(), format!("{}/v1", server.url()), format!("{}/v1/", server.url())] {
            let endpoint = Endpoint::new(&base).unwrap().key(foldback_backends::Key::new(SECRET));
            let client = ModelClient::new(endpoint.header("x-title", "foldback"), protocol, "m").unwrap();
            ask(&client).await.0.unwrap();
        }
        for request in server.requests() {
            assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", path));
            assert_eq!(request.header("content-type"), Some("application/json"));
            assert_eq!(request.header("x-title"), Some("foldback"));
            let bearer = format!("Bearer {SECRET}");
            match protocol {
                Protocol::Anthropic => {
                    assert_eq!(request.header("x-api-key"), Some(SECRET));
                    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
                }
                Protocol::OpenAiChat | Protocol::OpenAiResponses => {
                    assert_eq!(request.header("authorization"), Some(bearer.as_str()));
                }
            }
            assert_eq!(request.json()["model"], "m");
        }
    }
}

#[tokio::test]
async fn an_answer_is_there_when_its_last_event_is_even_if_the_server_keeps_the_line_open() {
    for protocol in Protocol::ALL {
        let server = Server::scripted([Answer::events(hello(protocol)).step(Step::Hang)]).await;
        let (answer, _) = ask(&client(&server, protocol)).await;
        assert_eq!(answer.unwrap().item.parts, [Part::text("Hello")], "{protocol}");
    }
}

#[tokio::test]
async fn a_model_that_says_nothing_gives_an_item_without_parts() {
    for protocol in Protocol::ALL {
        let server = Server::scripted([Answer::json(&whole(protocol, ""))]).await;
        let answer = ask(&client(&server, protocol)).await.0.unwrap();
        assert_eq!(answer.item.parts, [], "{protocol}");
        assert_eq!(answer.usage, Some(usage()), "{protocol}");
    }
}

#[tokio::test]
async fn a_proxy_is_used_where_one_is_given() {
    let proxy = Server::scripted([Answer::events(hello(Protocol::OpenAiChat))]).await;
    let endpoint = Endpoint::new("http://model.invalid/v1").unwrap().proxy(proxy.url());
    let client = ModelClient::new(endpoint, Protocol::OpenAiChat, "m").unwrap();
    ask(&client).await.0.unwrap();
    assert_eq!(proxy.requests()[0].header("host"), Some("model.invalid"));
}
