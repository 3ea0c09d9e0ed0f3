//! Finds keys, tokens, passwords and private keys in text, so that what is written about a
//! conversation (summaries, placeholders, reports) does not carry them on.
//!
//! By form where providers gave their keys one (`forms`), else by what stands before a value
//! (`named`). Names of variables, types and placeholders are no secrets. A text is searched as a whole,
//! before anything of it is cut: half a key is found by nothing. The time is linear in the text.

mod addresses;
mod alphabet;
mod commands;
mod credentials;
mod forms;
mod named;
mod parts;
mod placeholders;
mod private_key;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use alphabet::{WORD, is_in};
pub(crate) use parts::redact_input;
pub use parts::{first_line_of, redact_item, redact_part};

/// What a secret is: `github token`, `password`, `private key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecretKind(&'static str);

impl SecretKind {
    /// What stands in its place.
    pub fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// A secret, and where it stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What it is.
    pub kind: SecretKind,
    /// Where it stands.
    pub span: Range<usize>,
}

/// The text with `[secret: kind]` in place of each secret; itself if there is none. A piece of a text is
/// redacted with [`redact_piece`].
pub fn redact(text: &str) -> Cow<'_, str> {
    replaced(text, 0..text.len(), &find(text))
}

/// What is read around a piece: more than any secret is long, so that one of which the piece holds
/// only a part is found.
const AROUND_BYTES: usize = 8 * 1024;

/// A piece of a text without the secrets of the text, also where it holds only a part of one.
pub fn redact_piece(text: &str, piece: Range<usize>) -> Cow<'_, str> {
    let start = text.floor_char_boundary(piece.start.saturating_sub(AROUND_BYTES));
    let end = text.ceil_char_boundary(piece.end.saturating_add(AROUND_BYTES).min(text.len()));
    replaced(&text[start..end], piece.start - start..piece.end - start, &find(&text[start..end]))
}

/// The first line of a text that is not blank, without its secrets.
pub fn first_line(text: &str) -> Cow<'_, str> {
    let start = text.len() - text.trim_start().len();
    let line = text[start..].lines().next().unwrap_or("").trim_end();
    redact_piece(text, start..start + line.len())
}

/// A piece of a text, with the kinds of the secrets in their place.
fn replaced<'t>(text: &'t str, piece: Range<usize>, secrets: &[Secret]) -> Cow<'t, str> {
    let is_in_piece = |secret: &&Secret| secret.span.start < piece.end && secret.span.end > piece.start;
    let mut secrets = secrets.iter().filter(is_in_piece).peekable();
    if secrets.peek().is_none() {
        return Cow::Borrowed(&text[piece]);
    }
    let mut redacted = String::with_capacity(piece.len());
    let mut end = piece.start;
    for Secret { kind, span } in secrets {
        redacted.push_str(text.get(end..span.start).unwrap_or(""));
        redacted.push_str(&label(*kind));
        end = span.end;
    }
    redacted.push_str(text.get(end..piece.end).unwrap_or(""));
    Cow::Owned(redacted)
}

/// What stands in place of a secret.
fn label(kind: SecretKind) -> String {
    format!("[secret: {kind}]")
}

/// Every secret in a text, in order; they do not overlap.
pub fn find(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    private_key::find(text, &mut found);
    find_words(text, &mut found);
    addresses::find(text, &mut found);
    apart(found)
}

/// The same secrets in order, those that overlap as one. Of several at the same place a form tells more than a
/// name, and forms are found first.
fn apart(mut found: Vec<Secret>) -> Vec<Secret> {
    found.sort_by_key(|secret| (secret.span.start, std::cmp::Reverse(secret.span.end)));
    let mut apart: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match apart.last_mut().filter(|last| secret.span.start < last.span.end) {
            Some(last) => last.span.end = last.span.end.max(secret.span.end),
            None => apart.push(secret),
        }
    }
    apart
}

/// What is found word by word: keys by their form, and values by the name before them.
fn find_words(text: &str, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    let mut named: Vec<Secret> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_in(bytes[at], WORD) {
            at = if matches!(bytes[at], b'\\' | b'%' | 0x1b) { behind_sign(bytes, at) } else { at + 1 };
            continue;
        }
        let start = at;
        at = word_end(bytes, start);
        match key_in(text, start, at) {
            Some(secret) => {
                at = secret.span.end.max(at);
                found.push(secret);
            }
            None => {
                named.extend(named_at(text, start..at));
                commands::find(text, &(start..at), &mut named);
            }
        }
    }
    found.append(&mut named);
}

fn named_at(text: &str, word: Range<usize>) -> Option<Secret> {
    let is_bearer = word.len() == 6 && text[word.clone()].eq_ignore_ascii_case("bearer");
    let bearer = if is_bearer { credentials::bearer(text, word.end) } else { None };
    bearer.or_else(|| named::value_after(text, word))
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    start + bytes[start..].iter().take_while(|byte| is_in(**byte, WORD)).count()
}

/// Where a word may begin behind a byte that is in none. Letters of escapes, colours and encoded signs are
/// part of no word: `\nKEY`, `%3DKEY`.
fn behind_sign(bytes: &[u8], at: usize) -> usize {
    match bytes[at..] {
        [b'\\', b'n' | b't' | b'r' | b'b' | b'f', ..] => at + 2,
        [b'\\', b'u', _, _, _, _, ..] if bytes[at + 2..at + 6].iter().all(u8::is_ascii_hexdigit) => at + 6,
        [b'%', one, two, ..] if one.is_ascii_hexdigit() && two.is_ascii_hexdigit() => at + 3,
        [0x1b, b'[', ..] => {
            let codes = bytes[at + 2..].iter().take(16);
            let codes = codes.take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            (at + 2 + codes + 1).min(bytes.len())
        }
        _ => at + 1,
    }
}

/// Places inside a long word at which a key may begin.
const INSIDE_MAX: usize = 8;

/// A word that holds more than a key is as long as this.
const INSIDE_BYTES_MIN: usize = 24;

/// The key that begins with the word at `start..end`, or inside of it behind a joint.
fn key_in(text: &str, start: usize, end: usize) -> Option<Secret> {
    let secret = |start: usize, (kind, end): (SecretKind, usize)| Secret { kind, span: start..end };
    if let Some(key) = forms::key_at(text, start).or_else(|| forms::open_key_at(text, start, end)) {
        return Some(secret(start, key));
    }
    if let Some(end) = jwt_end(text.as_bytes(), start, end) {
        return Some(secret(start, (SecretKind("jwt"), end)));
    }
    if end - start < INSIDE_BYTES_MIN {
        return None;
    }
    let joints =
        text.as_bytes()[start..end].iter().enumerate().filter(|(_, byte)| matches!(byte, b'_' | b'-'));
    let mut inside = joints.map(|(joint, _)| start + joint + 1).take(INSIDE_MAX);
    inside.find_map(|start| Some(secret(start, forms::joined_key_at(text, start)?)))
}

/// Each part of a signed token is at least as long as this.
const JWT_PART_BYTES_MIN: usize = 10;

/// Where the signed or encrypted token ends whose first part is the word at `start..end`.
fn jwt_end(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    const PARTS_MAX: usize = 4;
    if !bytes[start..end].starts_with(b"eyJ") || end - start < JWT_PART_BYTES_MIN {
        return None;
    }
    let part_end = |dot: usize, bytes_min: usize| {
        let start = (bytes.get(dot) == Some(&b'.')).then_some(dot + 1)?;
        let end = word_end(bytes, start);
        (end - start >= bytes_min).then_some(end)
    };
    // Without its signature it still names its bearer.
    let mut token = part_end(end, JWT_PART_BYTES_MIN)?;
    for _ in 1..PARTS_MAX {
        let Some(longer) = part_end(token, JWT_PART_BYTES_MIN) else { break };
        token = longer;
    }
    Some(token)
}

#[cfg(test)]
mod tests;
