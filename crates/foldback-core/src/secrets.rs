//! Finds keys, tokens, passwords and private keys in text, so that what is written about a
//! conversation (summaries, reports) does not carry them on.
//!
//! By form where providers gave their keys one, else by what stands before a value. Names of
//! variables, types and placeholders are no secrets. One pass for each way of finding; the time is
//! linear in the text.

mod assigned;
mod private_key;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use memchr::memmem;

/// What a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SecretKind {
    /// An access key of Amazon Web Services.
    AwsAccessKey,
    /// The secret half of one.
    AwsSecretKey,
    /// A token of GitHub.
    GitHubToken,
    /// A token of GitLab.
    GitLabToken,
    /// A key of Anthropic.
    AnthropicKey,
    /// A key of OpenAI, or of a service that took over its form.
    OpenAiKey,
    /// A key of Google.
    GoogleKey,
    /// A token of Slack.
    SlackToken,
    /// A key of Stripe.
    StripeKey,
    /// A token of npm.
    NpmToken,
    /// A token of Hugging Face.
    HuggingFaceToken,
    /// A signed token that names its bearer.
    Jwt,
    /// A private key, or what is left of one.
    PrivateKey,
    /// What follows `Authorization:`.
    Authorization,
    /// The password in an address.
    UrlPassword,
    /// A value called a password.
    Password,
    /// A value called a key.
    ApiKey,
    /// A value called a token.
    Token,
    /// A value called a secret.
    Secret,
}

impl SecretKind {
    /// What stands in its place.
    pub fn name(self) -> &'static str {
        match self {
            Self::AwsAccessKey => "aws access key",
            Self::AwsSecretKey => "aws secret key",
            Self::GitHubToken => "github token",
            Self::GitLabToken => "gitlab token",
            Self::AnthropicKey => "anthropic key",
            Self::OpenAiKey => "openai key",
            Self::GoogleKey => "google key",
            Self::SlackToken => "slack token",
            Self::StripeKey => "stripe key",
            Self::NpmToken => "npm token",
            Self::HuggingFaceToken => "hugging face token",
            Self::Jwt => "jwt",
            Self::PrivateKey => "private key",
            Self::Authorization => "authorization",
            Self::UrlPassword => "url password",
            Self::Password => "password",
            Self::ApiKey => "api key",
            Self::Token => "token",
            Self::Secret => "secret",
        }
    }
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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

/// The text with `[secret: kind]` in place of each secret; itself if there is none.
pub fn redact(text: &str) -> Cow<'_, str> {
    let secrets = find(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut redacted = String::with_capacity(text.len());
    let mut end = 0;
    for Secret { kind, span } in secrets {
        redacted.push_str(&text[end..span.start]);
        redacted.push_str("[secret: ");
        redacted.push_str(kind.name());
        redacted.push(']');
        end = span.end;
    }
    redacted.push_str(&text[end..]);
    Cow::Owned(redacted)
}

/// Every secret in a text, in order; they do not overlap.
pub fn find(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    // What tells more comes first: of two at the same place the first one stays.
    private_key::find(text, &mut found);
    find_words(text, &mut found);
    find_url_passwords(text, &mut found);
    found.sort_by_key(|secret| secret.span.start);
    let mut end = 0;
    found.retain(|secret| {
        let is_apart = secret.span.start >= end;
        end = if is_apart { secret.span.end } else { end };
        is_apart
    });
    found
}

/// Keys by their form: how they begin, and how long they are at least.
const PREFIXES: &[(&str, usize, SecretKind)] = &[
    ("AIza", 35, SecretKind::GoogleKey),
    ("ghp_", 30, SecretKind::GitHubToken),
    ("gho_", 30, SecretKind::GitHubToken),
    ("ghu_", 30, SecretKind::GitHubToken),
    ("ghs_", 30, SecretKind::GitHubToken),
    ("ghr_", 30, SecretKind::GitHubToken),
    ("github_pat_", 40, SecretKind::GitHubToken),
    ("glpat-", 24, SecretKind::GitLabToken),
    ("hf_", 34, SecretKind::HuggingFaceToken),
    ("npm_", 34, SecretKind::NpmToken),
    ("rk_live_", 20, SecretKind::StripeKey),
    ("rk_test_", 20, SecretKind::StripeKey),
    ("sk-ant-", 24, SecretKind::AnthropicKey),
    ("sk-", 24, SecretKind::OpenAiKey),
    ("sk_live_", 20, SecretKind::StripeKey),
    ("sk_test_", 20, SecretKind::StripeKey),
    ("xapp-", 20, SecretKind::SlackToken),
    ("xoxa-", 20, SecretKind::SlackToken),
    ("xoxb-", 20, SecretKind::SlackToken),
    ("xoxe-", 20, SecretKind::SlackToken),
    ("xoxp-", 20, SecretKind::SlackToken),
    ("xoxr-", 20, SecretKind::SlackToken),
    ("xoxs-", 20, SecretKind::SlackToken),
];

/// An access key of Amazon is as long as this, capitals and digits only.
const AWS_KEY_BYTES: usize = 20;

/// Each part of a signed token is at least as long as this.
const JWT_PART_BYTES_MIN: usize = 10;

/// Shorter values after `Authorization` are examples.
const AUTHORIZATION_BYTES_MIN: usize = 16;

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// What is found word by word: keys by their form, and values by the name before them.
fn find_words(text: &str, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word_byte(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        at = word_end(bytes, start);
        let word = &text[start..at];
        if let Some(kind) = kind_by_form(word) {
            found.push(Secret { kind, span: start..at });
        } else if let Some(end) = jwt_end(bytes, start, at) {
            found.push(Secret { kind: SecretKind::Jwt, span: start..end });
            at = end;
        } else if let Some(span) = authorization(text, start, at) {
            found.push(Secret { kind: SecretKind::Authorization, span });
        } else if let Some(secret) = assigned::value_after(text, start..at) {
            found.push(secret);
        }
    }
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    start + bytes[start..].iter().take_while(|byte| is_word_byte(**byte)).count()
}

/// No key that is known by its form is shorter: most words are none by that.
const KEY_BYTES_MIN: usize = {
    let (mut least, mut rest) = (AWS_KEY_BYTES, PREFIXES);
    while let [(_, length, _), more @ ..] = rest {
        least = if *length < least { *length } else { least };
        rest = more;
    }
    least
};

fn kind_by_form(word: &str) -> Option<SecretKind> {
    if word.len() < KEY_BYTES_MIN {
        return None;
    }
    let is_aws = word.len() == AWS_KEY_BYTES
        && (word.starts_with("AKIA") || word.starts_with("ASIA"))
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if is_aws {
        return Some(SecretKind::AwsAccessKey);
    }
    let (prefix, _, kind) =
        PREFIXES.iter().find(|(prefix, length, _)| word.len() >= *length && word.starts_with(prefix))?;
    is_random(&word[prefix.len()..]).then_some(*kind)
}

/// Different characters that a random value has at least; a run of `x` has fewer.
const DISTINCT_MIN: u32 = 8;

/// Whether a value looks drawn rather than written: letters and digits, many different ones.
fn is_random(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    digits >= 2 && letters >= 2 && distinct_count(value) >= DISTINCT_MIN
}

fn distinct_count(value: &str) -> u32 {
    let seen = value.bytes().fold(0_u128, |seen, byte| seen | 1 << (byte & 127));
    seen.count_ones()
}

/// Where the signed token ends whose first part is the word at `start..end`.
fn jwt_end(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    if !bytes[start..end].starts_with(b"eyJ") || end - start < JWT_PART_BYTES_MIN {
        return None;
    }
    let part_end = |dot: usize| {
        let start = (bytes.get(dot) == Some(&b'.')).then_some(dot + 1)?;
        let end = word_end(bytes, start);
        (end - start >= JWT_PART_BYTES_MIN).then_some(end)
    };
    // Without its signature it still names its bearer.
    let payload = part_end(end)?;
    Some(part_end(payload).unwrap_or(payload))
}

/// What follows `Bearer`, or `Basic` after `Authorization`.
fn authorization(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    const LOOK_BACK_BYTES: usize = 24;
    let word = &text[start..end];
    let before = || &text[text.ceil_char_boundary(start.saturating_sub(LOOK_BACK_BYTES))..start];
    let is_scheme = word.eq_ignore_ascii_case("bearer")
        || (word.eq_ignore_ascii_case("basic") && before().contains("uthorization"));
    let value = text[end..].strip_prefix(' ').filter(|_| is_scheme)?;
    let is_value = |byte: &u8| is_word_byte(*byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=');
    let length = value.bytes().take_while(is_value).count();
    (length >= AUTHORIZATION_BYTES_MIN && is_random(&value[..length])).then_some(end + 1..end + 1 + length)
}

/// What comes before the host in an address is no longer than this.
const USER_BYTES_MAX: usize = 256;

fn find_url_passwords(text: &str, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    for scheme in memmem::find_iter(bytes, "://") {
        let start = scheme + 3;
        let ends =
            |byte: &u8| !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\');
        let authority = bytes[start..].iter().take(USER_BYTES_MAX);
        let length = authority.take_while(|byte| ends(byte) && !byte.is_ascii_whitespace()).count();
        let authority = &bytes[start..start + length];
        let Some(at) = memchr::memrchr(b'@', authority) else { continue };
        let Some(colon) = memchr::memchr(b':', &authority[..at]) else { continue };
        let span = start + colon + 1..start + at;
        if !span.is_empty() && !assigned::stands_for_something_else(&text[span.clone()]) {
            found.push(Secret { kind: SecretKind::UrlPassword, span });
        }
    }
}

#[cfg(test)]
mod tests;
