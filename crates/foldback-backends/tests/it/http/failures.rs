//! What happens instead.

use std::time::Duration;

use foldback_backends::{Endpoint, ModelClient, ModelRequest, Protocol};
use foldback_core::{Item, Tokens};
use foldback_engine::BackendError;
use foldback_testkit::server::{Answer, Server, Step, refused_url};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{ask, asked_once, client, client_at, hello};

fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

#[tokio::test]
async fn overflow_is_recognised_in_every_protocol() {
    for protocol in Protocol::ALL {
        let (body, limit) = match protocol {
            Protocol::OpenAiChat => {
                let message = "the request exceeds the available context size, try increasing it";
                let kind = "exceed_context_size_error";
                let error = json!({"code": 400, "type": kind, "n_ctx": 4096, "message": message});
                (json!({"error": error}), Some(Tokens(4_096)))
            }
            Protocol::OpenAiResponses => {
                let message = "Your input exceeds the context window of this model.";
                let (kind, code) = ("invalid_request_error", "context_length_exceeded");
                (json!({"error": {"type": kind, "code": code, "message": message}}), None)
            }
            Protocol::Anthropic => {
                let message = "prompt is too long: 214331 tokens > 200000 maximum";
                (error("invalid_request_error", message), Some(Tokens(200_000)))
            }
        };
        let refused = asked_once(protocol, Answer::status(400).json_body(&body)).await;
        assert_eq!(refused, Err(BackendError::Overflow { limit }), "{protocol}");
    }
}

#[tokio::test]
async fn overflow_within_a_stream_is_overflow_too() {
    let failed = json!({"type":"response.failed","response":{"status":"failed",
        "error":{"code":"context_length_exceeded","message":"too long"}}});
    let refused = asked_once(Protocol::OpenAiResponses, Answer::events([super::data(&failed)])).await;
    assert_eq!(refused, Err(BackendError::Overflow { limit: None }));
}

#[tokio::test]
async fn a_status_says_whether_waiting_helps() {
    for protocol in Protocol::ALL {
        let of = async |answer: Answer| asked_once(protocol, answer).await.unwrap_err();
        assert_eq!(of(Answer::status(401)).await, BackendError::Unauthorized { status: 401 });
        assert_eq!(of(Answer::status(403)).await, BackendError::Unauthorized { status: 403 });
        let seconds = of(Answer::status(429).header("retry-after", "7")).await;
        assert_eq!(seconds, BackendError::RateLimited { retry_after: Some(Duration::from_secs(7)) });
        let milliseconds = of(Answer::status(429).header("retry-after-ms", "250")).await;
        assert_eq!(milliseconds, BackendError::RateLimited { retry_after: Some(Duration::from_millis(250)) });
        let overloaded = of(Answer::status(529).json_body(&error("overloaded_error", "Overloaded"))).await;
        assert_eq!(overloaded, BackendError::Server { status: 529, retry_after: None });
        let unavailable = of(Answer::status(503).header("retry-after", "1")).await;
        assert_eq!(
            unavailable,
            BackendError::Server { status: 503, retry_after: Some(Duration::from_secs(1)) }
        );
        let unknown = of(Answer::status(404).json_body(&error("not_found_error", "no such model"))).await;
        assert_eq!(unknown, BackendError::Rejected { status: 404, message: "no such model".to_owned() });
    }
}

#[tokio::test]
async fn a_date_to_wait_for_is_read_against_the_clock() {
    let past = Answer::status(429).header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
    let refused = asked_once(Protocol::OpenAiChat, past).await;
    assert_eq!(refused, Err(BackendError::RateLimited { retry_after: Some(Duration::ZERO) }));
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_no_answer_wherever_it_breaks() {
    for protocol in Protocol::ALL {
        let events = hello(protocol);
        let says_why_it_stopped = |event: &String| {
            ["\"finish_reason\":\"stop\"", "response.completed", "\"stop_reason\""]
                .iter()
                .any(|end| event.contains(end))
        };
        let last = events.iter().position(says_why_it_stopped).unwrap();
        for count in 0..=last {
            let broken = asked_once(protocol, Answer::events(&events).cut_after(count)).await;
            assert!(matches!(broken, Err(BackendError::Connection { .. })), "{protocol} {count}: {broken:?}");
            let ended = asked_once(protocol, Answer::events(&events[..count])).await;
            assert!(matches!(ended, Err(BackendError::Malformed { .. })), "{protocol} {count}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_at_all_is_malformed() {
    for protocol in Protocol::ALL {
        for body in ["", "{", "<html>", "[]", "{\"choices\":[]}", "{\"output\":7}", "\u{0}\u{0}"] {
            let answer = Answer::status(200).header("content-type", "application/json").body(body);
            let refused = asked_once(protocol, answer).await;
            assert!(matches!(refused, Err(BackendError::Malformed { .. })), "{protocol} {body}: {refused:?}");
        }
        let noise = Answer::events(["data: {\"nothing\":", "event: x\ndata: y"]);
        let refused = asked_once(protocol, noise).await;
        assert!(matches!(refused, Err(BackendError::Malformed { .. })), "{protocol}: {refused:?}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let chunk = super::data(&json!({"choices":[{"delta":{"content":"x".repeat(1024 * 1024)}}]}));
    let endless = Answer::events(std::iter::repeat_n(chunk, 18));
    let refused = asked_once(Protocol::OpenAiChat, endless).await;
    let Err(BackendError::Malformed { why }) = refused else { panic!("{refused:?}") };
    assert!(why.contains("longer than"), "{why}");
}

#[tokio::test]
async fn nobody_listening_is_a_failed_connection() {
    let (refused, _) = ask(&client_at(&refused_url().await, Protocol::OpenAiChat)).await;
    let Err(BackendError::Connection { why }) = refused else { panic!("{refused:?}") };
    assert!(!why.contains("http://"), "{why}");
    let silent = Server::raw(Vec::new()).await;
    let (refused, _) = ask(&client(&silent, Protocol::OpenAiChat)).await;
    assert!(matches!(refused, Err(BackendError::Connection { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for_forever() {
    let idle = Duration::from_millis(60);
    let began = Answer::events(&hello(Protocol::OpenAiChat)[..2]).step(Step::Hang);
    for answer in [Answer::hang(), began] {
        let server = Server::scripted([answer]).await;
        let endpoint = Endpoint::new(&server.url()).unwrap().idle_timeout(idle);
        let client = ModelClient::new(endpoint, Protocol::OpenAiChat, "m").unwrap();
        assert_eq!(ask(&client).await.0, Err(BackendError::Timeout { after: idle }));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::start(|_| Answer::events(hello(Protocol::OpenAiChat))).await;
    let target = format!("{}/v1/chat/completions", elsewhere.url());
    let refused = asked_once(Protocol::OpenAiChat, Answer::status(307).header("location", &target)).await;
    assert!(matches!(refused, Err(BackendError::Rejected { status: 307, .. })), "{refused:?}");
    assert!(elsewhere.requests().is_empty());
}

/// A server that takes one request, says so, and says when the other side has hung up.
async fn listener() -> (String, oneshot::Receiver<()>, oneshot::Receiver<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, was_asked) = oneshot::channel();
    let (closed, was_closed) = oneshot::channel();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 64 * 1024];
        assert!(connection.read(&mut buffer).await.unwrap() > 0);
        asked.send(()).unwrap();
        // The end of the stream, or an error: either way the other side is gone.
        while connection.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
        closed.send(()).unwrap();
    });
    (url, was_asked, was_closed)
}

#[tokio::test]
async fn cancelling_ends_the_wait_and_closes_the_connection() {
    let (url, was_asked, was_closed) = listener().await;
    let client = client_at(&url, Protocol::OpenAiChat);
    let cancellation = CancellationToken::new();
    let token = cancellation.clone();
    let asking = tokio::spawn(async move {
        let items = [Arc::new(Item::user("u", "hello"))];
        client.ask(&ModelRequest::new(&items), &mut |_| {}, &token).await
    });
    was_asked.await.unwrap();
    cancellation.cancel();
    assert_eq!(asking.await.unwrap(), Err(BackendError::Cancelled));
    was_closed.await.unwrap();
}

#[tokio::test]
async fn what_was_cancelled_before_is_not_sent() {
    let server = Server::scripted([]).await;
    let cancellation = CancellationToken::new();
    cancellation.cancel();
    let items = [Arc::new(Item::user("u", "hello"))];
    let client = client(&server, Protocol::Anthropic);
    let refused = client.ask(&ModelRequest::new(&items), &mut |_| {}, &cancellation).await;
    assert_eq!(refused, Err(BackendError::Cancelled));
    assert!(server.requests().is_empty());
}
