//! What must not be told.

use std::fmt::Write;
use std::sync::{Arc, Mutex, Once};

use foldback_backends::{Endpoint, Key, ModelBackend, ModelClient, Protocol};
use foldback_core::{CompactionReason, Item};
use foldback_engine::{CompactionBackend, SummaryRequest};
use foldback_testkit::server::{Answer, Server};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{SECRET, ask, hello};

/// What a conversation is about.
const SAID: &str = "the weather on Mars";

/// What this program has logged since this was first called: other tests speak to servers, too, with the
/// same key.
fn logged() -> String {
    static LOG: Mutex<String> = Mutex::new(String::new());
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        crate::listening::listen(|line| {
            let mut log = LOG.lock().unwrap();
            log.push_str(line);
            log.push('\n');
        });
    });
    LOG.lock().unwrap().clone()
}

#[tokio::test]
async fn no_part_of_a_secret_is_told_where_a_long_message_is_cut_off() {
    let header_secret = "token-of-the-gateway-0123456789";
    for at in 250..310 {
        let message = format!("{}{SECRET} {header_secret}", "x".repeat(at));
        let repeated = json!({"error": {"type": "invalid_request_error", "message": message}});
        let server = Server::scripted([Answer::status(400).json_body(&repeated)]).await;
        let endpoint = Endpoint::new(&server.url()).unwrap().key(Key::new(SECRET));
        let endpoint = endpoint.header("x-gateway", header_secret);
        let client = ModelClient::new(endpoint, Protocol::OpenAiChat, "test-model").unwrap();
        let request =
            SummaryRequest::new("s", vec![Arc::new(Item::user("u", "hello"))], CompactionReason::Manual);
        let error = ModelBackend::new(client).summarize(request, CancellationToken::new()).await.unwrap_err();
        let told = format!("{error} {error:?}");
        assert!(told.contains(&"x".repeat(250)), "{told}");
        for secret in [SECRET, header_secret] {
            assert!(!told.contains(&secret[..4]), "{told}");
        }
    }
}

#[tokio::test]
async fn a_key_is_in_no_log_no_error_and_no_debug() {
    logged();
    for protocol in Protocol::ALL {
        let repeated =
            json!({"error": {"type": "invalid_request_error", "message": format!("bad key {SECRET} given")}});
        let answers = [
            Answer::events(hello(protocol)),
            Answer::status(400).json_body(&repeated),
            Answer::status(401).json_body(&repeated),
            Answer::events([format!("data: {{\"type\":\"{SECRET}\"")]),
            Answer::events(hello(protocol)).cut_after(1),
        ];
        let count = answers.len();
        let server = Server::scripted(answers).await;
        let endpoint = Endpoint::new(&server.url()).unwrap().key(Key::new(SECRET)).header("x-extra", SECRET);
        let client = ModelClient::new(endpoint.clone(), protocol, "test-model").unwrap();
        let backend = ModelBackend::new(client.clone());
        let mut printed = format!("{endpoint:?} {client:?} {backend:?} {:#?}", backend);
        for _ in 0..count {
            let request =
                SummaryRequest::new("s", vec![Arc::new(Item::user("u", SAID))], CompactionReason::Manual);
            if let Err(error) = backend.summarize(request, CancellationToken::new()).await {
                let _ = write!(printed, " {error} {error:?}");
            }
        }
        assert!(printed.contains("bad key <hidden> given"), "{printed}");
        assert!(!printed.contains(SECRET), "{printed}");
        assert_eq!(server.requests().len(), count);
    }
    let log = logged();
    assert!(log.contains("a model answered") && log.contains("no answer from a model"), "{log}");
    assert!(log.contains("log reqwest") && log.contains("hyper"), "the HTTP client is listened to: {log}");
    assert!(!log.contains(SECRET), "{log}");
    assert!(!log.contains(SAID), "what is said is not logged: {log}");
}

#[tokio::test]
async fn the_password_of_a_proxy_is_in_no_log_no_error_and_no_debug() {
    logged();
    for protocol in Protocol::ALL {
        let answers = [Answer::events(hello(protocol)), Answer::status(407).body(format!("not {SECRET}"))];
        let proxy = Server::scripted(answers).await;
        let address = proxy.url().replace("http://", &format!("http://me:{SECRET}@"));
        let endpoint = Endpoint::new("http://api.invalid/v1").unwrap().key(Key::new("key")).proxy(address);
        let client = ModelClient::new(endpoint.clone(), protocol, "test-model").unwrap();
        let (answer, _) = ask(&client).await;
        answer.unwrap();
        let (refused, _) = ask(&client).await;
        let error = refused.unwrap_err();
        let printed = format!("{endpoint:?} {client:?} {error} {error:?}");
        assert!(!printed.contains(SECRET), "{printed}");
        assert!(proxy.requests()[0].header("proxy-authorization").is_some(), "the proxy knows who asks");
    }
    let log = logged();
    assert!(log.contains("intercepts"), "the HTTP client speaks of its proxy: {log}");
    assert!(!log.contains(SECRET), "{log}");
}
