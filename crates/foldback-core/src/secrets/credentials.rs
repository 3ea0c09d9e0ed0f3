//! Values that are made of several pieces: a scheme and what it takes, cookies, the words of a wallet.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::alphabet::{BASE64, CREDENTIAL, is_drawn, is_in, run};
use super::placeholders::stands_for_something_else;
use super::values::{Joint, VALUE_BYTES_MAX, line_end, quote_at};
use super::{Secret, SecretKind};

/// All cookies of a site, and the words of a wallet, take no more than this.
const COOKIES_BYTES_MAX: usize = 8 * 1024;
pub(super) const PHRASE_BYTES_MAX: usize = 240;

/// The cookies of a header, which stands at the beginning of a line or of a quotation.
pub(super) fn cookies(text: &str, name: &Range<usize>, joint: Joint) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let before = &bytes[..name.start];
    let before = before.strip_suffix(b"> ").or_else(|| before.strip_suffix(b"< ")).unwrap_or(before);
    let is_header = before.is_empty()
        || matches!(before, [.., b'\n' | b'\r' | b'"' | b'\'' | b'`'] | [.., b'\\', b'n' | b'r']);
    let start = joint.end + quote_at(bytes, joint.end).map_or(0, |(_, length)| length);
    let end = line_end(bytes, start, COOKIES_BYTES_MAX);
    (is_header && has_session(text.get(start..end)?)).then_some(start..end)
}

/// Shorter credentials are examples.
const CREDENTIAL_BYTES_MIN: usize = 8;
const BEARER_BYTES_MIN: usize = 16;

/// What follows the word `Bearer` at `start..end`.
pub(super) fn bearer(text: &str, end: usize) -> Option<Secret> {
    let start = end + text[end..].starts_with(' ').then_some(1)?;
    let length = run(&text.as_bytes()[start..], CREDENTIAL, VALUE_BYTES_MAX * 4);
    let value = text[start..start + length].trim_end_matches('.');
    let is_secret = value.len() >= BEARER_BYTES_MIN && is_drawn(value) && !stands_for_something_else(value);
    is_secret.then_some(Secret { kind: SecretKind("authorization"), span: start..start + value.len() })
}

/// The credentials after `Authorization:`, behind the name of a scheme or alone.
pub(super) fn credentials(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let length = |at: usize| run(&bytes[at..], CREDENTIAL, VALUE_BYTES_MAX * 4);
    let first = start..start + length(start);
    let is_scheme = bytes.get(first.end) == Some(&b' ') && (3..=16).contains(&first.len());
    let span = if is_scheme { first.end + 1..first.end + 1 + length(first.end + 1) } else { first };
    let value = &text[span.clone()];
    let is_secret = value.len() >= CREDENTIAL_BYTES_MIN
        && !stands_for_something_else(value)
        && (is_drawn(value) || is_user_and_password(value));
    is_secret.then_some(span)
}

/// Whether a value in base64 is a name and a password.
pub(super) fn is_user_and_password(value: &str) -> bool {
    const BYTES_MAX: usize = 512;
    if !(CREDENTIAL_BYTES_MIN..=BYTES_MAX).contains(&value.len())
        || !value.bytes().all(|byte| is_in(byte, BASE64))
    {
        return false;
    }
    let decoded = STANDARD.decode(value).unwrap_or_default();
    let is_text = decoded.iter().all(|byte| byte.is_ascii_graphic());
    is_text && decoded.contains(&b':') && decoded.last() != Some(&b':')
}

/// Whether one of several cookies names a session.
pub(super) fn has_session(cookies: &str) -> bool {
    let mut values = cookies.split(';').filter_map(|cookie| cookie.split_once('='));
    values.any(|(_, value)| {
        value.len() >= BEARER_BYTES_MIN && is_drawn(value.trim()) && !stands_for_something_else(value)
    })
}

/// Whether a value is the words of a wallet.
pub(super) fn is_seed_phrase(value: &str) -> bool {
    let words = || value.split_whitespace();
    let is_word =
        |word: &str| (3..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
    matches!(words().count(), 12 | 15 | 18 | 21 | 24) && words().all(is_word)
}
