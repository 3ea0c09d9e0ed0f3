//! The server as a client on a plain socket sees it.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// Sends a request and reads until the server closes the connection.
async fn ask(server: &Server, path: &str, body: &str) -> String {
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nX-Key: k1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A cut shows as an error of the socket or as an early end; what came before it is what counts.
    let _ = connection.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn requests_are_recorded_in_order_with_head_and_body() {
    let server = Server::start(|request| Answer::json(&json!({"index": request.index}))).await;
    assert!(ask(&server, "/v1/a?b=c", r#"{"n":1}"#).await.ends_with(r#"{"index":0}"#));
    assert!(ask(&server, "/v1/b", r#"{"n":2}"#).await.ends_with(r#"{"index":1}"#));
    server.until_requests(2).await;
    let requests = server.requests();
    assert_eq!(requests.iter().map(|request| request.path.as_str()).collect::<Vec<_>>(), ["/v1/a", "/v1/b"]);
    assert_eq!(requests[1].json(), json!({"n": 2}));
    assert_eq!((requests[0].method.as_str(), requests[0].header("x-key")), ("POST", Some("k1")));
}

#[tokio::test]
async fn a_status_comes_with_its_headers() {
    let server = Server::scripted([Answer::status(429).header("retry-after", "7").body("wait")]).await;
    let answer = ask(&server, "/", "").await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("retry-after: 7\r\n") && answer.ends_with("wait"), "{answer}");
    let after_the_script = ask(&server, "/", "").await;
    assert!(after_the_script.starts_with("HTTP/1.1 500 "), "{after_the_script}");
}

#[tokio::test]
async fn events_arrive_until_the_stream_is_cut() {
    let events = ["data: 1", "data: 2", "data: 3"];
    let server = Server::scripted([Answer::events(events), Answer::events(events).cut_after(2)]).await;
    let whole = ask(&server, "/", "").await;
    assert!(whole.contains("data: 3\n\n") && whole.ends_with("0\r\n\r\n"), "{whole}");
    let cut = ask(&server, "/", "").await;
    assert!(cut.contains("data: 2\n\n") && !cut.contains("data: 3"), "{cut}");
    assert!(!cut.ends_with("0\r\n\r\n"), "{cut}");
}

#[tokio::test]
async fn a_gate_holds_an_answer_back_until_it_is_opened() {
    let gate = Gate::new();
    let held = Answer::events(["data: 1"]).step(Step::Until(gate.clone())).event("data: 2");
    let server = Arc::new(Server::scripted([held]).await);
    let asked = Arc::clone(&server);
    let answer = tokio::spawn(async move { ask(&asked, "/", "").await });
    server.until_requests(1).await;
    assert!(!answer.is_finished());
    gate.open();
    assert!(answer.await.unwrap().contains("data: 2"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_takes_the_pauses_it_was_given() {
    let started = tokio::time::Instant::now();
    let answer = Answer::events(["data: 1", "data: 2"]).slowly(Duration::from_secs(30));
    to_bytes(answer.respond().await.into_body(), BODY_BYTES_MAX).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_hang_never_answers() {
    let answer = tokio::time::timeout(Duration::from_secs(86_400), Answer::hang().respond()).await;
    assert!(answer.is_err());
}

#[tokio::test]
async fn raw_bytes_arrive_as_they_are_and_nobody_listens_on_a_refused_port() {
    let server = Server::raw("not http\n").await;
    assert_eq!(ask(&server, "/", "").await, "not http\n");
    let refused = refused_url().await;
    let address = refused.strip_prefix("http://").unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
