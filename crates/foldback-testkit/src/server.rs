//! A real HTTP server on loopback whose answers a test scripts, down to where a stream breaks off.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use foldback_testkit::server::{Answer, Server};
//!
//! let server = Server::start(|request| match request.index {
//!     0 => Answer::status(429).header("retry-after", "1"),
//!     _ => Answer::json(&serde_json::json!({"ok": true})),
//! })
//! .await;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert!(server.requests().is_empty());
//! # });
//! ```

mod answer;
mod model;
mod protocol;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request as Incoming;
use axum::response::Response;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use answer::{Answer, Gate, Step};
pub use model::{Asked, Kind, Model, Round, Script, Verdict};
pub use protocol::{Said, Spoken, required};

/// The longest body that is read and recorded.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much of a request a server of raw bytes reads before it answers.
const RAW_REQUEST_BYTES_MAX: usize = 64 * 1024;

/// One request as it came in.
#[derive(Clone, Debug)]
pub struct Request {
    /// How many came before it.
    pub index: usize,
    /// `GET`, `POST`, …
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// In the order in which they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// All of the body.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of that name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; panics with the body if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&self.body)))
    }
}

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

/// A server that is running. It stops accepting when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    record: Record,
    accepting: AbortHandle,
}

/// What came in so far, shared with the connections.
#[derive(Clone, Debug)]
struct Record {
    requests: Arc<Mutex<Vec<Request>>>,
    count: watch::Sender<usize>,
    keeps: Keeps,
}

#[derive(Clone, Copy, Debug)]
enum Keeps {
    Everything,
    Nothing,
}

impl Record {
    fn new() -> Self {
        Self { requests: Arc::default(), count: watch::Sender::new(0), keeps: Keeps::Everything }
    }

    /// A poisoned record is still a record: the test that panicked has said why.
    fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut request: Request) -> Request {
        if let Keeps::Nothing = self.keeps {
            self.count.send_modify(|count| {
                request.index = *count;
                *count += 1;
            });
            return request;
        }
        let mut requests = self.requests();
        request.index = requests.len();
        requests.push(request.clone());
        let count = requests.len();
        drop(requests);
        self.count.send_replace(count);
        request
    }
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1; `handler` answers every request, on any path.
    pub async fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(Record::new(), handler).await
    }

    /// The same, without a record of the requests: for long runs.
    pub async fn unrecorded(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(Record { keeps: Keeps::Nothing, ..Record::new() }, handler).await
    }

    /// The same as [`unrecorded`](Self::unrecorded), on a thread with a runtime of its own, which goes on
    /// until the program ends: a test that keeps all its threads busy does not starve it.
    pub fn apart(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> String {
        let (sender, url) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async move {
                let server = Self::unrecorded(handler).await;
                sender.send(server.url()).expect("the test waits for the address");
                std::future::pending::<()>().await;
            });
        });
        url.recv().expect("a server starts on loopback")
    }

    async fn start_with(
        record: Record,
        handler: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let handler: Arc<Handler> = Arc::new(handler);
        let (listener, address) = listen().await;
        let of_connections = record.clone();
        let router = Router::new().fallback(move |incoming: Incoming| {
            let (handler, record) = (Arc::clone(&handler), of_connections.clone());
            async move { respond(incoming, &record, &handler).await }
        });
        let accepting = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("serving on loopback has no end of its own");
        });
        Self { address, record, accepting: accepting.abort_handle() }
    }

    /// The same, with one answer after the other; a request more than there are answers gets a 500
    /// that says so.
    pub async fn scripted(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers: Vec<Answer> = answers.into_iter().collect();
        Self::start(move |request| {
            let unexpected = || Answer::status(500).body("the script has no answer left");
            answers.get(request.index).cloned().unwrap_or_else(unexpected)
        })
        .await
    }

    /// A server that writes these bytes to whoever connects and asks, and closes the connection:
    /// for answers that are not HTTP. An empty list hangs up without a word. The requests are not
    /// recorded.
    pub async fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into().into();
        let (listener, address) = listen().await;
        let accepting = tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let bytes = Arc::clone(&bytes);
                tokio::spawn(async move {
                    let mut request = vec![0; RAW_REQUEST_BYTES_MAX];
                    // Who hangs up first does not matter: the client is what is tested.
                    let _ = connection.read(&mut request).await;
                    let _ = connection.write_all(&bytes).await;
                    let _ = connection.shutdown().await;
                });
            }
        });
        Self { address, record: Record::new(), accepting: accepting.abort_handle() }
    }

    /// The address as a base URL, `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came in so far.
    pub fn requests(&self) -> Vec<Request> {
        self.record.requests().clone()
    }

    /// Waits until so many requests have come in.
    pub async fn until_requests(&self, count: usize) {
        let mut seen = self.record.count.subscribe();
        seen.wait_for(|&so_far| so_far >= count).await.expect("the record outlives the wait");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The base URL of a port on 127.0.0.1 that nobody listens on.
pub async fn refused_url() -> String {
    let (listener, address) = listen().await;
    drop(listener);
    format!("http://{address}")
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, address)
}

async fn respond(incoming: Incoming, record: &Record, handler: &Arc<Handler>) -> Response {
    let (head, body) = incoming.into_parts();
    let header = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return Answer::status(413).body("the body is too long, or broke off").respond().await;
    };
    let request = record.push(Request {
        index: 0,
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        headers: head.headers.iter().map(header).collect(),
        body: body.into(),
    });
    handler(&request).respond().await
}

#[cfg(test)]
mod tests;
