//! Why a server gave no answer: its status, its error body, and how long it asks to wait.

use std::time::Duration;

use foldback_core::{Timestamp, Tokens};
use serde_json::Value;

use super::overflow;

/// What is kept of a server's message.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// What is looked at of an error body; messages come first.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// No server is waited for longer.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What is said of a redirect, whose address may hold secrets.
const REDIRECTED: &str = "it points to another address, which is not followed";

/// Why a server gave no answer. A new variant is a breaking change: whoever asks says what follows from
/// each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request is longer than the model's window, or than the server takes.
    #[error("the request is too long")]
    Overflow {
        /// The limit, where the server named it.
        limit: Option<Tokens>,
    },
    /// Too many requests, or too many tokens.
    #[error("rate limited")]
    RateLimited {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The server is overloaded or failed.
    #[error("the server failed with status {status}")]
    Server {
        /// What it answered with.
        status: u16,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The key is missing, wrong, or may not do this.
    #[error("the server refused the key with status {status}")]
    Unauthorized {
        /// What it answered with.
        status: u16,
    },
    /// Another mistake in the request.
    #[error("the server refused the request with status {status}: {message}")]
    Rejected {
        /// What it answered with.
        status: u16,
        /// What it said, shortened, on one line.
        message: String,
    },
}

/// What a server answered instead of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The status.
    pub status: u16,
    /// The header `retry-after`: seconds or a date.
    pub retry_after: Option<&'a str>,
    /// The header `retry-after-ms`.
    pub retry_after_ms: Option<&'a str>,
    /// When it came: dates become waits.
    pub now: Timestamp,
    /// The body.
    pub body: &'a [u8],
}

/// Why the server refused.
pub fn classify(reply: &Reply<'_>) -> Refusal {
    let body = String::from_utf8_lossy(&reply.body[..reply.body.len().min(BODY_BYTES_MAX)]);
    let error = ErrorBody::of(&body);
    let retry_after = wait_of(reply);
    error.refusal(reply.status, retry_after)
}

/// The refusal in a body or event that should be an answer, if it is one.
pub(super) fn in_answer(body: &str) -> Option<Refusal> {
    #[derive(serde::Deserialize)]
    struct Wrong {
        #[serde(default)]
        error: Option<Value>,
    }
    // Answers are long and have no error; a look at the text saves reading each of them twice.
    if !body.contains("\"error\"") {
        return None;
    }
    let Wrong { error } = serde_json::from_str(body).ok()?;
    error.filter(|error| !error.is_null())?;
    Some(of_event(body))
}

/// The refusal that an event tells. It has no status, so that its name stands for one.
pub(super) fn of_event(data: &str) -> Refusal {
    let error = ErrorBody::of(data);
    error.refusal(error.status(), None)
}

/// What an error body says, whatever its form.
#[derive(Debug, Default)]
struct ErrorBody {
    /// What the error is called: its type and code.
    names: Vec<String>,
    /// The code, where it is a number.
    code: Option<u16>,
    message: String,
    /// What a router passes on of another server's message.
    passed_on: String,
    /// The window, where it is told as a number.
    limit: Option<u64>,
}

impl ErrorBody {
    fn of(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self { message: body.to_owned(), ..Self::default() };
        };
        let value = value.get(0).unwrap_or(&value);
        let error = match &value["error"] {
            Value::Null => value,
            Value::String(message) => {
                return Self { message: message.clone(), ..Self::default() };
            }
            error => error,
        };
        let text = |name: &str| error[name].as_str().unwrap_or_default();
        let message = ["message", "detail", "msg"].into_iter().map(text).find(|text| !text.is_empty());
        let names = ["type", "code", "status"].into_iter().map(|name| text(name).to_owned());
        let code = error["code"].as_u64().or_else(|| text("code").parse().ok());
        Self {
            names: names.filter(|name| !name.is_empty()).collect(),
            code: code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code)),
            message: message.unwrap_or_default().to_owned(),
            passed_on: error["metadata"]["raw"].as_str().unwrap_or_default().to_owned(),
            limit: error["n_ctx"].as_u64(),
        }
    }

    fn is(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The status that the error would have had.
    fn status(&self) -> u16 {
        let named = self.names.iter().find_map(|name| match name.as_str() {
            "invalid_request_error" | "invalid_prompt" | "BadRequestError" => Some(400),
            "authentication_error" | "invalid_api_key" => Some(401),
            "billing_error" => Some(402),
            "permission_error" => Some(403),
            "not_found_error" => Some(404),
            "request_too_large" => Some(413),
            "rate_limit_error" | "rate_limit_exceeded" => Some(429),
            "timeout_error" => Some(504),
            "overloaded_error" => Some(529),
            _ => None,
        });
        self.code.or(named).unwrap_or(500)
    }

    fn refusal(&self, status: u16, retry_after: Option<Duration>) -> Refusal {
        let said = format!("{}\n{}", self.message, self.passed_on).to_lowercase();
        let is_overflow = match status {
            401 | 403 => false,
            // A limit per minute is no window, unless the request alone is above it.
            429 => said.contains(overflow::REQUEST_TOO_LARGE),
            413 => true,
            _ => self.names.iter().any(|name| overflow::is_named(name)) || overflow::is_said(&said),
        };
        if is_overflow {
            let limit = self.limit.filter(|limit| *limit > 0).map(Tokens);
            return Refusal::Overflow { limit: limit.or_else(|| overflow::limit_in(&said)) };
        }
        match status {
            401 | 403 => Refusal::Unauthorized { status },
            // What was paid for is used up, which no waiting changes.
            429 if !self.is("insufficient_quota") => Refusal::RateLimited { retry_after },
            408 | 500.. => Refusal::Server { status, retry_after },
            300..=399 => Refusal::Rejected { status, message: REDIRECTED.to_owned() },
            _ => Refusal::Rejected { status, message: shortened(&self.message) },
        }
    }
}

/// On one line, and not longer than people read.
fn shortened(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MESSAGE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "no reason given".to_owned(),
        None => line,
    }
}

/// How long the headers ask to wait.
fn wait_of(reply: &Reply<'_>) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let wait = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, RETRY_AFTER_MAX.as_secs_f64()));
    if let Some(milliseconds) = reply.retry_after_ms.and_then(number) {
        return Some(wait(milliseconds / 1_000.0));
    }
    let asked = reply.retry_after?;
    if let Some(seconds) = number(asked) {
        return Some(wait(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(asked.trim()).ok()?;
    let milliseconds = date.as_millisecond().saturating_sub(reply.now.0).max(0);
    let milliseconds = u64::try_from(milliseconds).unwrap_or(0);
    Some(Duration::from_millis(milliseconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Refusal {
        let now = Timestamp(784_111_717_000);
        classify(&Reply { status, retry_after: None, retry_after_ms: None, now, body: body.as_bytes() })
    }

    fn waits(retry_after: Option<&str>, retry_after_ms: Option<&str>) -> Option<Duration> {
        // Sun, 06 Nov 1994 08:48:37 GMT.
        let now = Timestamp(784_111_717_000);
        let refusal = classify(&Reply { status: 429, retry_after, retry_after_ms, now, body: b"" });
        match refusal {
            Refusal::RateLimited { retry_after } => retry_after,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn overflow_is_recognised_by_name_and_by_phrase() {
        let cases = [
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
                Some(4_096),
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                Some(128_000),
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200251 tokens > 200000 maximum"}}"#,
                Some(200_000),
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}"#,
                Some(4_096),
            ),
            (
                400,
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":\"prompt is too long: 9 tokens > 8 maximum\"}"}}}"#,
                Some(8),
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                None,
            ),
            (413, "<html>413 Request Entity Too Large</html>", None),
            (
                429,
                r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 48000.","type":"tokens","code":"rate_limit_exceeded"}}"#,
                Some(30_000),
            ),
        ];
        for (status, body, limit) in cases {
            assert_eq!(reply(status, body), Refusal::Overflow { limit: limit.map(Tokens) }, "{body}");
        }
    }

    #[test]
    fn what_waiting_does_not_help_is_told_apart() {
        assert_eq!(reply(401, ""), Refusal::Unauthorized { status: 401 });
        assert_eq!(reply(403, "maximum context length"), Refusal::Unauthorized { status: 403 });
        assert_eq!(reply(500, "oops"), Refusal::Server { status: 500, retry_after: None });
        assert_eq!(reply(529, "{}"), Refusal::Server { status: 529, retry_after: None });
        assert_eq!(reply(429, "{}"), Refusal::RateLimited { retry_after: None });
        let quota = r#"{"error":{"message":"You exceeded your quota","type":"insufficient_quota"}}"#;
        assert!(matches!(reply(429, quota), Refusal::Rejected { status: 429, .. }));
        let Refusal::Rejected { message, .. } = reply(404, &"no such\nmodel ".repeat(99)) else { panic!() };
        assert!(message.starts_with("no such model no such") && message.chars().count() == 301);
    }

    #[test]
    fn waits_are_read_as_seconds_dates_and_milliseconds() {
        assert_eq!(waits(Some("7"), None), Some(Duration::from_secs(7)));
        assert_eq!(waits(Some(" 1.5 "), None), Some(Duration::from_millis(1_500)));
        assert_eq!(waits(Some("7"), Some("250")), Some(Duration::from_millis(250)));
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(waits(Some(date), None), Some(Duration::from_secs(60)));
        assert_eq!(waits(Some("Sun, 06 Nov 1994 08:00:00 GMT"), None), Some(Duration::ZERO));
        assert_eq!(waits(Some("-3"), None), Some(Duration::ZERO));
        assert_eq!(waits(Some("1e300"), None), Some(RETRY_AFTER_MAX));
        assert_eq!(waits(Some("NaN"), Some("soon")), None);
    }
}
