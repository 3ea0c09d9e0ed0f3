//! What stands where a secret would stand, and is none.

use super::alphabet::distinct_count;

/// Different characters that a value has at least; `xxxxxxxx` and `********` have fewer.
const DISTINCT_MIN: u32 = 4;

/// Whether a value is a placeholder, or the way to a value.
pub(super) fn stands_for_something_else(value: &str) -> bool {
    const OPENINGS: &[&str] =
        &["$", "<", "{", "[", "%", "***", "...", "…", "@", "/", "./", "~/", "env.", "#{"];
    OPENINGS.iter().any(|opening| value.starts_with(opening))
        || distinct_count(value) < DISTINCT_MIN
        || has_sign(
            value,
            &["process.env", "environ", "getenv", "import.meta", "secrets.", "${", "{{", "://", "[secret"],
        )
        || is_example(value)
}

/// Words that are too long to be drawn by chance.
const EXAMPLE_WORDS: &[&str] = &[
    "example",
    "placeholder",
    "redacted",
    "changeme",
    "change-me",
    "change_me",
    "undefined",
    "replace",
    "xxxxxxxx",
];

/// Words that show an example where they begin a piece of a value: `YOUR_KEY`, but not `k3yOurS9`.
const EXAMPLE_OPENINGS: &[&str] = &["your", "dummy", "insert", "xxxx", "****"];

/// Whether a key is one that documentation shows.
pub(super) fn is_example(value: &str) -> bool {
    let lowered = value.to_ascii_lowercase();
    let begins = |opening: &str| {
        let mut places = lowered.match_indices(opening);
        places.any(|(at, _)| !lowered[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
    };
    EXAMPLE_WORDS.iter().any(|word| lowered.contains(word))
        || EXAMPLE_OPENINGS.iter().any(|opening| begins(opening))
}

fn has_sign(value: &str, signs: &[&str]) -> bool {
    let lowered = value.to_ascii_lowercase();
    signs.iter().any(|sign| lowered.contains(sign))
}

/// Words that stand for a password in forms, schemas and messages. Compared without case and joints.
const WORDS: &[&str] = &[
    "admin",
    "apikey",
    "boolean",
    "confirm",
    "confirmpassword",
    "correct",
    "credential",
    "credentials",
    "current",
    "currentpassword",
    "default",
    "disabled",
    "empty",
    "enabled",
    "false",
    "foobar",
    "forgot",
    "forgotpassword",
    "guest",
    "hidden",
    "incorrect",
    "integer",
    "invalid",
    "missing",
    "mismatch",
    "mypassword",
    "mysecretpassword",
    "newpassword",
    "none",
    "null",
    "number",
    "object",
    "oldpassword",
    "optional",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "passwort",
    "postgres",
    "private",
    "public",
    "required",
    "reset",
    "resetpassword",
    "root",
    "secret",
    "show",
    "showpassword",
    "string",
    "strong",
    "test",
    "testing",
    "text",
    "token",
    "true",
    "unknown",
    "user",
    "username",
    "value",
    "weak",
    "wrong",
    "yourpassword",
];

/// Whether a chosen value is a word about passwords, or the name of a constant, rather than one.
pub(super) fn is_word_for_one(value: &str) -> bool {
    let letters: String =
        value.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let is_constant = value.contains('_')
        && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    is_constant || WORDS.contains(&letters.as_str()) || letters.is_empty()
}
