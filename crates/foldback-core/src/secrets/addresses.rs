//! Secrets in addresses: `https://user:password@host`.

use memchr::memmem;

use super::alphabet::is_drawn;
use super::placeholders::stands_for_something_else;
use super::{Secret, SecretKind};

/// What comes before the host in an address is no longer than this.
const USER_BYTES_MAX: usize = 512;

/// A name without a password that is as long as this may be a token.
const TOKEN_BYTES_MIN: usize = 16;

pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    for scheme in memmem::find_iter(bytes, "://") {
        let start = scheme + 3;
        let goes_on = |byte: &u8| {
            !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\')
                && !byte.is_ascii_whitespace()
        };
        let authority = bytes[start..].iter().take(USER_BYTES_MAX).take_while(|byte| goes_on(byte)).count();
        let authority = &bytes[start..start + authority];
        let Some(at) = memchr::memrchr(b'@', authority) else { continue };
        let colon = memchr::memchr(b':', &authority[..at]);
        let span = start + colon.map_or(0, |colon| colon + 1)..start + at;
        let Some(said) = text.get(span.clone()) else { continue };
        let is_secret = match colon {
            Some(colon) => !said.is_empty() && !is_usual(said, &authority[..colon]),
            None => said.len() >= TOKEN_BYTES_MIN && is_drawn(said),
        };
        if is_secret && !stands_for_something_else(said) {
            found.push(Secret { kind: SecretKind("url password"), span });
        }
    }
}

/// Whether a password is one that documentation shows, or the user's name again.
fn is_usual(password: &str, user: &[u8]) -> bool {
    const USUAL: &[&str] = &["password", "pass", "passwd", "pwd", "secret", "pw", "token", "test"];
    USUAL.contains(&password.to_ascii_lowercase().as_str()) || password.as_bytes() == user
}
