//! What a scripted server answers: a head, and steps that send, wait, break off or hang.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream::unfold;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Holds an answer back until the test lets it go.
#[derive(Clone, Debug, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens it, for good.
    pub fn open(&self) {
        self.0.cancel();
    }

    /// Waits until it is open.
    pub async fn opened(&self) {
        self.0.cancelled().await;
    }
}

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends bytes of the body.
    Send(Vec<u8>),
    /// Waits so long, on tokio's clock.
    Wait(Duration),
    /// Waits until the gate is open.
    Until(Gate),
    /// Breaks the connection off.
    Cut,
    /// Keeps the connection open and never does anything again.
    Hang,
}

/// What a server answers a request with.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    /// Before the status line is sent. A cut here sends the head and breaks off the body.
    before: Vec<Step>,
    steps: Vec<Step>,
}

impl Answer {
    /// A status without a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), before: Vec::new(), steps: Vec::new() }
    }

    /// Status 200 with JSON.
    pub fn json(value: &Value) -> Self {
        Self::status(200).json_body(value)
    }

    /// Status 200 with server-sent events, each given as it stands on the wire without the empty
    /// line that ends it: `data: {…}`, or `event: ping\ndata: {}`. Each is sent as a chunk of its
    /// own.
    pub fn events<E: AsRef<str>>(events: impl IntoIterator<Item = E>) -> Self {
        let mut answer = Self::status(200).header("content-type", "text/event-stream");
        answer.steps.extend(events.into_iter().map(|event| event_step(event.as_ref())));
        answer
    }

    /// No answer at all: the connection stays open and silent.
    pub fn hang() -> Self {
        Self { before: vec![Step::Hang], ..Self::status(200) }
    }

    /// The same, with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, with these bytes behind what its body has.
    #[must_use]
    pub fn body(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Send(bytes.into()))
    }

    /// The same, with JSON behind what its body has.
    #[must_use]
    pub fn json_body(self, value: &Value) -> Self {
        self.header("content-type", "application/json").body(value.to_string())
    }

    /// The same, with one event more; see [`events`](Self::events).
    #[must_use]
    pub fn event(self, event: &str) -> Self {
        self.step(event_step(event))
    }

    /// The same, with a step at the end of its body.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The same, with a step before its head is sent.
    #[must_use]
    pub fn first(mut self, step: Step) -> Self {
        self.before.push(step);
        self
    }

    /// The same, broken off after its first `count` sends.
    #[must_use]
    pub fn cut_after(mut self, count: usize) -> Self {
        let sends = self.steps.iter().enumerate().filter(|(_, step)| matches!(step, Step::Send(_)));
        let end = sends.map(|(index, _)| index).nth(count).unwrap_or(self.steps.len());
        self.steps.truncate(end);
        self.step(Step::Cut)
    }

    /// The same, with a pause before each piece of the body.
    #[must_use]
    pub fn slowly(mut self, pause: Duration) -> Self {
        let with_pause = |step| match step {
            Step::Send(bytes) => vec![Step::Wait(pause), Step::Send(bytes)],
            other @ (Step::Wait(_) | Step::Until(_) | Step::Cut | Step::Hang) => vec![other],
        };
        self.steps = self.steps.into_iter().flat_map(with_pause).collect();
        self
    }

    pub(super) async fn respond(self) -> Response {
        let mut steps = self.steps;
        for step in self.before {
            match take(step).await {
                Ok(None) => {}
                Ok(Some(bytes)) => steps.insert(0, Step::Send(bytes.to_vec())),
                Err(_) => steps.insert(0, Step::Cut),
            }
        }
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        // Bodies that are sent at once have a length; others are chunked, as streams are.
        let body = match steps.as_slice() {
            [] => Body::empty(),
            [Step::Send(bytes)] => Body::from(bytes.clone()),
            _ => Body::from_stream(unfold(steps.into_iter(), |mut steps| async move {
                loop {
                    match take(steps.next()?).await.transpose() {
                        None => {}
                        Some(sent) => return Some((sent, steps)),
                    }
                }
            })),
        };
        response.body(body).expect("a scripted answer has a valid head")
    }
}

fn event_step(event: &str) -> Step {
    Step::Send(format!("{event}\n\n").into_bytes())
}

/// Does what a step says. An error breaks the connection off.
async fn take(step: Step) -> Result<Option<Bytes>, io::Error> {
    match step {
        Step::Send(bytes) => return Ok(Some(bytes.into())),
        Step::Wait(time) => tokio::time::sleep(time).await,
        Step::Until(gate) => gate.opened().await,
        Step::Cut => {
            // What was sent before must be on its way: a body that has nothing ready is flushed.
            tokio::task::yield_now().await;
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "cut by the script"));
        }
        Step::Hang => match std::future::pending::<Infallible>().await {},
    }
    Ok(None)
}
