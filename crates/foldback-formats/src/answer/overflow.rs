//! Requests that are too long: recognised by what the error is called, or by what it says, because
//! most servers give the same type to every mistake in a request.

use foldback_core::Tokens;

/// What the error is called where it is called anything of its own.
const NAMES: [&str; 5] = [
    "exceed_context_size_error",
    "context_length_exceeded",
    "request_too_large",
    "model_context_window_exceeded",
    "string_above_max_length",
];

/// What servers say, in lower case.
const PHRASES: [&str; 22] = [
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum context length",
    "maximum prompt length",
    "exceeds the available context size",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the model's context",
    "exceeds the maximum context",
    "exceeds the limit of",
    "exceed the context",
    "context window exceeded",
    "context length exceeded",
    "context size exceeded",
    "context window is full",
    "longer than the model's context length",
    "larger than the maximum context",
    "input token count",
    "too many input tokens",
    "reduce the length of the messages",
    REQUEST_TOO_LARGE,
];

/// Said of requests that no waiting makes acceptable, also by servers that count tokens per minute.
pub(super) const REQUEST_TOO_LARGE: &str = "request too large";

/// What stands in front of the limit, in lower case. The surest first.
const BEFORE_LIMIT: [&str; 14] = [
    "maximum context length is",
    "maximum context length of",
    "maximum context length",
    "maximum prompt length is",
    "available context size",
    "tokens allowed",
    "context length is",
    "context length of",
    "context window of",
    "context window is",
    "context size of",
    "limit of",
    "> ",
    "limit",
];

/// How far behind those words the number may begin.
const DISTANCE_MAX: usize = 12;

/// Whether an error of this name says that the request is too long.
pub(super) fn is_named(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Whether a message, in lower case, says so.
pub(super) fn is_said(message: &str) -> bool {
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// The limit that a message, in lower case, names.
pub(super) fn limit_in(message: &str) -> Option<Tokens> {
    BEFORE_LIMIT.iter().find_map(|words| {
        let behind = &message[message.find(words)? + words.len()..];
        number_in(behind).map(Tokens)
    })
}

/// The number at the beginning of a text, with or without separators.
fn number_in(text: &str) -> Option<u64> {
    let start = text.bytes().take(DISTANCE_MAX).position(|byte| byte.is_ascii_digit())?;
    let mut digits = String::new();
    for (index, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            b'0'..=b'9' => digits.push(char::from(byte)),
            b',' | b'_' if text.as_bytes().get(index + 1).is_some_and(u8::is_ascii_digit) => {}
            _ => break,
        }
    }
    digits.parse().ok().filter(|limit| *limit > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_found_in_what_servers_say() {
        let cases = [
            ("this model's maximum context length is 8192 tokens. however, you requested 9000 tokens", 8_192),
            ("prompt is too long: 214,331 tokens > 200,000 maximum", 200_000),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease",
                200_000,
            ),
            ("the request exceeds the available context size (4096 tokens), try increasing it", 4_096),
            (
                "the input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                1_048_576,
            ),
            ("request too large for gpt-4o on tokens per min (tpm): limit 30000, requested 48000.", 30_000),
            ("this endpoint's maximum context length is 131_072 tokens", 131_072),
        ];
        for (message, limit) in cases {
            assert!(is_said(message), "{message}");
            assert_eq!(limit_in(message), Some(Tokens(limit)), "{message}");
        }
        assert_eq!(limit_in("your input exceeds the context window of this model"), None);
    }

    #[test]
    fn other_mistakes_in_a_request_are_no_overflow() {
        for message in [
            "max_tokens is too large: 100000. this model supports at most 16384 completion tokens",
            "rate limit reached for gpt-4o on tokens per min (tpm): limit 30000, used 29000, requested 2000",
            "messages: roles must alternate between user and assistant",
        ] {
            assert!(!is_said(message), "{message}");
        }
    }
}
