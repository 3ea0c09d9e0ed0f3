//! One request and its answer over HTTP.

use std::pin::pin;
use std::time::Duration;

use foldback_core::Part;
use foldback_engine::{BackendError, Clock, SystemClock};
use foldback_formats::answer::{
    Answer, AnswerError, AnswerReader, Delivery, Delta, OnDelta, Protocol, Refusal, Reply, classify,
    read_answer,
};
use futures_util::{Stream, StreamExt};
use reqwest::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use tokio::time::{Instant, timeout};

use super::Line;
use super::events::{EVENT_BYTES_MAX, EventFault, Events};

/// What is read of an answer. A thousand pages of text, each in an event of its own.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long an answer is listened to, however often the server shows that it is alive.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// What is read of an error body.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// How deep the causes of a broken connection are told.
const CAUSES_MAX: usize = 8;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// Why the bytes of an answer ended.
#[derive(Debug)]
pub(super) enum Break {
    /// The connection broke.
    Broken(reqwest::Error),
    /// There are more than are read.
    TooLong,
}

impl Line {
    pub(super) async fn exchange(
        &self,
        body: Vec<u8>,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<Answer, BackendError> {
        let answer = timeout(ANSWER_TIME_MAX, self.exchange_patiently(body, on_delta)).await;
        answer.unwrap_or(Err(BackendError::Timeout { after: ANSWER_TIME_MAX }))
    }

    /// Waits as long as something comes.
    async fn exchange_patiently(
        &self,
        body: Vec<u8>,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<Answer, BackendError> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let response = timeout(self.idle_timeout, request.send()).await;
        let response = response.map_err(|_| self.too_late())?.map_err(|error| self.broken(error))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let read = match self.delivery_of(&response) {
            Delivery::Streamed => {
                read_events(self.protocol, bytes_of(response, ANSWER_BYTES_MAX), self.idle_timeout, on_delta)
                    .await
            }
            Delivery::Whole => self.read_whole(response, on_delta).await,
        };
        read.map_err(|fault| self.error_of(fault))
    }

    /// How the answer comes: a server may ignore what was asked for.
    fn delivery_of(&self, response: &reqwest::Response) -> Delivery {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match kind.unwrap_or_default().trim().to_ascii_lowercase() {
            kind if kind.starts_with("text/event-stream") => Delivery::Streamed,
            kind if kind.starts_with("application/json") => Delivery::Whole,
            _ => self.delivery,
        }
    }

    async fn read_whole(
        &self,
        response: reqwest::Response,
        on_delta: &mut OnDelta<'_>,
    ) -> Result<Answer, Fault> {
        let body = read_all(bytes_of(response, ANSWER_BYTES_MAX), self.idle_timeout).await?;
        let answer = read_answer(self.protocol, &body).map_err(Fault::Answer)?;
        for part in &answer.item.parts {
            match part {
                Part::Text(text) => on_delta(Delta::Text(text)),
                Part::Reasoning(reasoning) => on_delta(Delta::Reasoning(&reasoning.text)),
                Part::ToolCall(call) => on_delta(Delta::Call { name: &call.name }),
                Part::ToolResult(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Structured(_)
                | Part::Opaque(_) => {}
            }
        }
        Ok(answer)
    }

    /// Why the server refused. A body that breaks off is looked at as far as it came.
    async fn refused(&self, response: reqwest::Response) -> BackendError {
        let status = response.status().as_u16();
        let header = |name: HeaderName| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (retry_after, retry_after_ms) = (header(RETRY_AFTER), header(RETRY_AFTER_MS));
        let mut body = Vec::new();
        let mut bytes = pin!(bytes_of(response, ERROR_BYTES_MAX));
        let read = async {
            while let Some(Ok(chunk)) = bytes.next().await {
                body.extend_from_slice(chunk.as_ref());
            }
        };
        // As far as it came says enough.
        let _late = timeout(self.idle_timeout, read).await;
        // Before anything is cut off: half of a secret could not be found any more.
        let body = self.hidden(String::from_utf8_lossy(&body).into_owned());
        let refusal = classify(&Reply {
            status,
            retry_after: retry_after.as_deref(),
            retry_after_ms: retry_after_ms.as_deref(),
            now: SystemClock.now(),
            body: body.as_bytes(),
        });
        self.error_of(Fault::Answer(AnswerError::Refused(refusal)))
    }

    fn error_of(&self, fault: Fault) -> BackendError {
        match fault {
            Fault::TooLate => self.too_late(),
            Fault::Broken(error) => self.broken(error),
            Fault::Answer(AnswerError::Malformed { why }) => {
                BackendError::Malformed { why: self.hidden(why) }
            }
            Fault::Answer(AnswerError::Refused(refusal)) => match refusal {
                Refusal::Overflow { limit } => BackendError::Overflow { limit },
                Refusal::RateLimited { retry_after } => BackendError::RateLimited { retry_after },
                Refusal::Server { status, retry_after } => BackendError::Server { status, retry_after },
                Refusal::Unauthorized { status } => BackendError::Unauthorized { status },
                Refusal::Rejected { status, message } => {
                    BackendError::Rejected { status, message: self.hidden(message) }
                }
            },
        }
    }

    fn too_late(&self) -> BackendError {
        BackendError::Timeout { after: self.idle_timeout }
    }

    /// The causes of a broken connection, without the address: that of a proxy may hold a password.
    fn broken(&self, error: reqwest::Error) -> BackendError {
        let error = error.without_url();
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |cause| cause.source());
        let causes: Vec<String> = causes.take(CAUSES_MAX).map(ToString::to_string).collect();
        BackendError::Connection { why: self.hidden(causes.join(": ")) }
    }

    fn hidden(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| secret.hidden_in(text))
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Fault {
    TooLate,
    Broken(reqwest::Error),
    Answer(AnswerError),
}

impl Fault {
    fn malformed(why: impl Into<String>) -> Self {
        Self::Answer(AnswerError::Malformed { why: why.into() })
    }
}

impl From<EventFault> for Fault {
    fn from(fault: EventFault) -> Self {
        match fault {
            EventFault::NotText => Self::malformed("the stream is not UTF-8"),
            EventFault::TooLong => {
                Self::malformed(format!("an event of it does not end within {EVENT_BYTES_MAX} bytes"))
            }
        }
    }
}

impl From<Break> for Fault {
    fn from(broken: Break) -> Self {
        match broken {
            Break::Broken(error) => Self::Broken(error),
            Break::TooLong => Self::malformed(format!("it is longer than {ANSWER_BYTES_MAX} bytes")),
        }
    }
}

/// The body of a response, up to a limit.
fn bytes_of(
    response: reqwest::Response,
    bytes_max: usize,
) -> impl Stream<Item = Result<impl AsRef<[u8]>, Break>> {
    let mut received = 0_usize;
    response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(Break::Broken)?;
        received = received.saturating_add(chunk.len());
        if received > bytes_max { Err(Break::TooLong) } else { Ok(chunk) }
    })
}

async fn read_all(
    bytes: impl Stream<Item = Result<impl AsRef<[u8]>, Break>>,
    idle_timeout: Duration,
) -> Result<Vec<u8>, Fault> {
    let mut bytes = pin!(bytes);
    let mut body = Vec::new();
    while let Some(chunk) = timeout(idle_timeout, bytes.next()).await.map_err(|_| Fault::TooLate)? {
        body.extend_from_slice(chunk?.as_ref());
    }
    Ok(body)
}

/// Reads the events of an answer until it is complete or the stream ends. What is no event shows that a
/// server is alive, and is no reason to wait for it.
pub(super) async fn read_events(
    protocol: Protocol,
    bytes: impl Stream<Item = Result<impl AsRef<[u8]>, Break>>,
    idle_timeout: Duration,
    on_delta: &mut OnDelta<'_>,
) -> Result<Answer, Fault> {
    let mut reader = AnswerReader::new(protocol);
    let mut bytes = pin!(bytes);
    let mut events = Events::default();
    let mut heard = Instant::now();
    loop {
        while let Some(data) = events.next() {
            reader.push(&data, on_delta).map_err(Fault::Answer)?;
            if reader.is_complete() {
                return reader.finish().map_err(Fault::Answer);
            }
            heard = Instant::now();
        }
        let left = idle_timeout.saturating_sub(heard.elapsed());
        match timeout(left, bytes.next()).await.map_err(|_| Fault::TooLate)? {
            Some(chunk) => events.push(chunk?.as_ref())?,
            None => return reader.finish().map_err(Fault::Answer),
        }
    }
}

#[cfg(test)]
mod tests;
