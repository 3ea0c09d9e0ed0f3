//! Values that are called a secret: `password=…`, `"api_key": "…"`, `--token …`.

use std::ops::Range;

use super::{Secret, SecretKind, distinct_count, is_random};

/// Shorter values are examples, or not worth guessing.
const VALUE_BYTES_MIN: usize = 8;

/// A longer value is a text.
const VALUE_BYTES_MAX: usize = 512;

/// Longer names are data.
const NAME_BYTES_MAX: usize = 64;

/// Space between a name and its value; more is a table.
const SPACE_BYTES_MAX: usize = 8;

/// How names of secrets end, in lower case without joints; the first that fits tells the kind.
const NAMES: &[(&str, SecretKind)] = &[
    ("secretaccesskey", SecretKind::AwsSecretKey),
    ("password", SecretKind::Password),
    ("passwd", SecretKind::Password),
    ("passphrase", SecretKind::Password),
    ("pwd", SecretKind::Password),
    ("apikey", SecretKind::ApiKey),
    ("accesskey", SecretKind::ApiKey),
    ("secretkey", SecretKind::ApiKey),
    ("privatekey", SecretKind::ApiKey),
    ("encryptionkey", SecretKind::ApiKey),
    ("signingkey", SecretKind::ApiKey),
    ("authkey", SecretKind::ApiKey),
    ("token", SecretKind::Token),
    ("secret", SecretKind::Secret),
    ("credential", SecretKind::Secret),
    ("credentials", SecretKind::Secret),
];

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Quoted,
    /// Directly behind `=`, as in the environment and in queries.
    Joined,
    Bare,
}

/// The secret that the word at `name` is the name of.
pub(super) fn value_after(text: &str, name: Range<usize>) -> Option<Secret> {
    let word = &text[name.clone()];
    let kind = kind_of(word)?;
    let bytes = text.as_bytes();
    let quote_at = |at: usize| {
        let escaped = usize::from(bytes.get(at) == Some(&b'\\'));
        let quote = bytes.get(at + escaped).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
        Some((*quote, escaped + 1))
    };
    let spaces = |at: usize| {
        bytes[at..].iter().take(SPACE_BYTES_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    };
    let mut at = name.end + quote_at(name.end).map_or(0, |(_, length)| length);
    let space = spaces(at);
    at += space;
    let joint = bytes[at..].iter().take(2).take_while(|byte| matches!(byte, b'=' | b':' | b'>')).count();
    if joint == 0 && !(word.starts_with("--") && space > 0) {
        return None;
    }
    at += joint;
    let space_after = spaces(at);
    at += space_after;
    let (start, end, form) = match quote_at(at) {
        Some((quote, length)) => (at + length, quoted_end(bytes, at + length, quote)?, Form::Quoted),
        None => {
            let form = if joint > 0 && space + space_after == 0 { Form::Joined } else { Form::Bare };
            (at, bare_end(bytes, at), form)
        }
    };
    let value = text.get(start..end)?;
    let is_secret = (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len())
        && !stands_for_something_else(value)
        && is_said(kind, word, value, form);
    is_secret.then_some(Secret { kind, span: start..end })
}

fn kind_of(name: &str) -> Option<SecretKind> {
    if name.len() > NAME_BYTES_MAX || name.eq_ignore_ascii_case("pwd") {
        return None;
    }
    let letters =
        || name.bytes().rev().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    // Every word of a text is asked, and nearly all end otherwise.
    let mut last = letters();
    let last_two = [last.next()?, last.next()?];
    let could_end = |ending: &[u8]| matches!(ending, [.., one, two] if last_two == [*two, *one]);
    let ends_with = |ending: &str| letters().take(ending.len()).eq(ending.bytes().rev());
    let is_name = |ending: &str| could_end(ending.as_bytes()) && ends_with(ending);
    NAMES.iter().find(|(ending, _)| is_name(ending)).map(|&(_, kind)| kind)
}

/// The end of a quoted value, on the same line.
fn quoted_end(bytes: &[u8], start: usize, quote: u8) -> Option<usize> {
    let value = bytes[start..].iter().take(VALUE_BYTES_MAX + 1);
    let length = value.take_while(|byte| !matches!(byte, b'\n' | b'\\') && **byte != quote).count();
    bytes.get(start + length).filter(|byte| **byte == quote || **byte == b'\\').map(|_| start + length)
}

fn bare_end(bytes: &[u8], start: usize) -> usize {
    let goes_on = |byte: &u8| {
        byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'&' | b'\\' | b'|')
    };
    start + bytes[start..].iter().take(VALUE_BYTES_MAX + 1).take_while(|byte| goes_on(byte)).count()
}

/// Whether a value is said, rather than fetched from somewhere: code has the name of a secret in
/// front of types, variables and calls too.
fn is_said(kind: SecretKind, name: &str, value: &str, form: Form) -> bool {
    let is_chosen = matches!(kind, SecretKind::Password | SecretKind::Secret);
    match form {
        Form::Quoted => !value.contains(' ') && (is_chosen || is_random(value)),
        Form::Joined => {
            let is_setting = !name.bytes().any(|byte| byte.is_ascii_lowercase()) || name.starts_with("--");
            is_plain(value) && (is_random(value) || (is_chosen && is_setting))
        }
        Form::Bare => is_plain(value) && is_random(value),
    }
}

/// Whether a bare value is no expression.
fn is_plain(value: &str) -> bool {
    !value.contains(['(', ')', '[', ']', '<', '>', '{', '}']) && !value.contains("::") && !is_member(value)
}

/// Names joined by dots: something that is looked up.
fn is_member(value: &str) -> bool {
    value.contains('.')
        && value.split('.').all(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && name.bytes().filter(u8::is_ascii_digit).count() < 3
        })
}

/// Different characters that a value has at least; `xxxxxxxx` and `********` have fewer.
const DISTINCT_MIN: u32 = 4;

/// Whether a value is a placeholder, or the way to a value.
pub(super) fn stands_for_something_else(value: &str) -> bool {
    const OPENINGS: &[&str] = &["$", "<", "{", "[", "%", "***", "...", "@", "/", "./", "~/", "env."];
    const SIGNS: &[&str] = &[
        "your",
        "example",
        "placeholder",
        "redacted",
        "process.env",
        "environ",
        "getenv",
        "import.meta",
        "secrets.",
        "${",
        "{{",
        "://",
        "changeme",
        "change-me",
        "dummy",
        "xxxx",
        "undefined",
        "[secret",
    ];
    let lowered = value.to_ascii_lowercase();
    OPENINGS.iter().any(|opening| value.starts_with(opening))
        || SIGNS.iter().any(|sign| lowered.contains(sign))
        || distinct_count(value) < DISTINCT_MIN
}
