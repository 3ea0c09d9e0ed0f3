//! What must not be told.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use foldback_backends::{Endpoint, Key, ModelBackend, ModelClient, Protocol};
use foldback_core::Item;
use foldback_engine::{CompactionBackend, SummaryRequest};
use foldback_testkit::server::{Answer, Server};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{SECRET, hello};

/// Writes down everything that is logged, by anyone, at any level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Log {
    fn note(&self, record: impl FnOnce(&mut Line<'_>)) {
        let mut log = self.0.lock().unwrap();
        record(&mut Line(&mut log));
        log.push('\n');
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(|line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note(|line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(|line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
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
        let request = SummaryRequest::new("s", vec![Arc::new(Item::user("u", "hello"))]);
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
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
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
            let request = SummaryRequest::new("s", vec![Arc::new(Item::user("u", "hello"))]);
            if let Err(error) = backend.summarize(request, CancellationToken::new()).await {
                let _ = write!(printed, " {error} {error:?}");
            }
        }
        assert!(printed.contains("bad key <hidden> given"), "{printed}");
        assert!(!printed.contains(SECRET), "{printed}");
        assert_eq!(server.requests().len(), count);
    }
    let log = log.text();
    assert!(log.contains("a model answered") && log.contains("no answer from a model"), "{log}");
    assert!(!log.contains(SECRET), "{log}");
    assert!(!log.contains("hello"), "what is said is not logged: {log}");
}
