//! Values that are called a secret: `password=…`, `"api_key": "…"`, `--token …`, `Authorization: …`.

use std::ops::Range;

use super::alphabet::{is_drawn, is_drawn_and_no_name};
use super::credentials::{
    PHRASE_BYTES_MAX, cookies, credentials, has_session, is_seed_phrase, is_user_and_password,
};
use super::placeholders::{is_word_for_one, stands_for_something_else};
use super::values::{Form, Joint, SPACE_BYTES_MAX, VALUE_BYTES_MAX, Value, line_end, space};
use super::{Secret, SecretKind};

/// Shorter values are examples, or not worth guessing.
const VALUE_BYTES_MIN: usize = 8;

/// A password between quotes, and one in a field of its own.
const QUOTED_PASSWORD_BYTES_MIN: usize = 6;
const FIELD_PASSWORD_BYTES_MIN: usize = 4;

/// Longer names are data.
const NAME_BYTES_MAX: usize = 64;

/// How a secret of a name is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// By a person: it may be a word.
    Chosen,
    /// By a machine.
    Drawn,
    /// A scheme and what it takes.
    Credentials,
    /// Pairs, some of them secret.
    Cookies,
    /// A name and a password in base64.
    UserAndPassword,
    /// Twelve words or more.
    Words,
}

use Made::{Chosen, Cookies, Credentials, Drawn, UserAndPassword, Words};

/// How names of secrets end, in lower case without joints; the first that fits tells the kind.
const NAMES: &[(&str, &str, Made)] = &[
    ("secretaccesskey", "aws secret key", Drawn),
    ("awssecretkey", "aws secret key", Drawn),
    ("awssecret", "aws secret key", Drawn),
    ("storagekey", "azure storage key", Drawn),
    ("accountkey", "azure storage key", Drawn),
    ("sharedaccesskey", "azure shared key", Drawn),
    ("password", "password", Chosen),
    ("passwd", "password", Chosen),
    ("passwort", "password", Chosen),
    ("passphrase", "password", Chosen),
    ("passcode", "password", Chosen),
    ("userpass", "password", Chosen),
    ("dbpass", "password", Chosen),
    ("rootpass", "password", Chosen),
    ("adminpass", "password", Chosen),
    ("smtppass", "password", Chosen),
    ("mysqlpass", "password", Chosen),
    ("pwd", "password", Chosen),
    ("apikey", "api key", Drawn),
    ("accesskey", "api key", Drawn),
    ("appkey", "api key", Drawn),
    ("applicationkey", "api key", Drawn),
    ("authkey", "api key", Drawn),
    ("clientkey", "api key", Drawn),
    ("encryptionkey", "api key", Drawn),
    ("encryptkey", "api key", Drawn),
    ("globalkey", "api key", Drawn),
    ("hmackey", "api key", Drawn),
    ("ingestkey", "api key", Drawn),
    ("integrationkey", "api key", Drawn),
    ("jwtkey", "api key", Drawn),
    ("licensekey", "api key", Drawn),
    ("masterkey", "api key", Drawn),
    ("presharedkey", "api key", Drawn),
    ("privatekey", "api key", Drawn),
    ("routingkey", "api key", Drawn),
    ("secretkey", "api key", Chosen),
    ("servicekey", "api key", Drawn),
    ("serverkey", "api key", Drawn),
    ("servicerolekey", "api key", Drawn),
    ("sessionkey", "api key", Drawn),
    ("sharedkey", "api key", Drawn),
    ("signingkey", "api key", Drawn),
    ("subscriptionkey", "api key", Drawn),
    ("writekey", "api key", Drawn),
    ("token", "token", Drawn),
    ("accesstoken", "token", Drawn),
    ("oauth", "token", Drawn),
    ("jwt", "token", Drawn),
    ("pat", "token", Drawn),
    ("phpsessid", "session", Drawn),
    ("jsessionid", "session", Drawn),
    ("connectsid", "session", Drawn),
    ("gitlabsession", "session", Drawn),
    ("secret", "secret", Chosen),
    ("secrets", "secret", Drawn),
    ("credential", "secret", Drawn),
    ("credentials", "secret", Drawn),
    ("creds", "secret", Drawn),
    ("authorization", "authorization", Credentials),
    ("xauth", "authorization", Credentials),
    ("cookie", "cookie", Cookies),
    ("cookies", "cookie", Cookies),
    ("auth", "authorization", UserAndPassword),
    ("mnemonic", "seed phrase", Words),
    ("seedphrase", "seed phrase", Words),
    ("recoveryphrase", "seed phrase", Words),
    ("seed", "seed phrase", Words),
];

/// How names of secrets in the query of an address end.
const QUERY_NAMES: &[(&str, &str, Made)] = &[
    ("key", "api key", Drawn),
    ("signature", "signature", Drawn),
    ("sig", "signature", Drawn),
    ("secret", "secret", Drawn),
];

/// What may follow the name of a secret: which of several it is.
const QUALIFIERS: &[&str] = &[
    "production",
    "prod",
    "staging",
    "stage",
    "development",
    "dev",
    "testing",
    "test",
    "live",
    "sandbox",
    "local",
    "old",
    "new",
    "current",
    "previous",
    "primary",
    "secondary",
    "backup",
    "base",
    "default",
    "value",
    "readonly",
    "admin",
    "main",
    "string",
    "hash",
];

/// How names end whose values are places in a list.
const PLACES: &[&str] = &[
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "starttoken",
    "endtoken",
    "stoptoken",
    "eostoken",
    "bostoken",
    "padtoken",
    "unktoken",
    "masktoken",
    "septoken",
    "clstoken",
    "canceltoken",
    "cancellationtoken",
    "pertoken",
    "maxtoken",
    "mintoken",
    "repeat",
    "compat",
];

/// A kind of secret that has a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    kind: SecretKind,
    made: Made,
}

/// What a name is the name of.
pub(super) fn named(name: &str) -> Option<Named> {
    lookup(name, NAMES)
}

fn lookup(name: &str, names: &[(&'static str, &'static str, Made)]) -> Option<Named> {
    if name.len() > NAME_BYTES_MAX || name == "PWD" || name == "OLDPWD" {
        return None;
    }
    let mut letters = [0; NAME_BYTES_MAX];
    let mut length = 0;
    for byte in name.bytes().filter(u8::is_ascii_alphanumeric) {
        letters[length] = byte.to_ascii_lowercase();
        length += 1;
    }
    let letters = without_qualifiers(&letters[..length]);
    if PLACES.iter().any(|place| letters.ends_with(place.as_bytes())) {
        return None;
    }
    let (_, kind, made) = names.iter().find(|(ending, ..)| letters.ends_with(ending.as_bytes()))?;
    Some(Named { kind: SecretKind(kind), made: *made })
}

/// A name without what tells which of several secrets it is, unless nothing else is left.
fn without_qualifiers(mut letters: &[u8]) -> &[u8] {
    loop {
        let digits = letters.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let shorter = &letters[..letters.len() - digits];
        let ending = QUALIFIERS.iter().find(|ending| shorter.ends_with(ending.as_bytes()));
        let left = &shorter[..shorter.len() - ending.map_or(0, |ending| ending.len())];
        match left.len() < letters.len() {
            true => letters = left,
            false => return letters,
        }
    }
}

/// Whether the whole of a field's value is a secret, and of which kind.
pub(super) fn field_secret(name: &str, value: &str) -> Option<SecretKind> {
    let named = named(name)?;
    let is_secret = match named.made {
        Chosen => value.len() >= FIELD_PASSWORD_BYTES_MIN && is_chosen(value) && !value.contains('\n'),
        Drawn => is_a_value(named, name, value, Form::Field),
        Credentials => credentials(value, 0).is_some_and(|span| span.end == value.len()),
        Cookies => has_session(value),
        UserAndPassword => is_user_and_password(value),
        Words => is_seed_phrase(value),
    };
    is_secret.then_some(named.kind)
}

/// The secret that the word at `name` is the name of.
pub(super) fn value_after(text: &str, name: Range<usize>) -> Option<Secret> {
    let bytes = text.as_bytes();
    let word = &text[name.clone()];
    if !has_ending(word) || !goes_on(bytes, &name) {
        return None;
    }
    let joint = Joint::after(bytes, &name);
    let is_query = name.start > 0 && matches!(bytes[name.start - 1], b'?' | b'&');
    let named = match is_query && bytes.get(name.end) == Some(&b'=') {
        true => lookup(word, QUERY_NAMES).or_else(|| named(word)),
        false => named(word),
    }?;
    let is_login = joint.is_space && is_login(text, &name);
    if joint.is_space && !(word.starts_with("--") || is_login) {
        return pair_value(text, joint.end, named);
    }
    if named.made == Cookies {
        return cookies(text, &name, joint).map(|span| Secret { kind: named.kind, span });
    }
    let value = Value::at(bytes, joint)?;
    // No code has a password behind `login`: it stands there as it is.
    let form = if is_login { Form::Quoted } else { value.form };
    secret_in(text, word, named, &Value { form, ..value })
}

/// Whether a value may follow a name: most words are followed by another one.
fn goes_on(bytes: &[u8], name: &Range<usize>) -> bool {
    let is_joint = |byte: Option<&u8>| matches!(byte, Some(b'=' | b':' | b'>' | b'"' | b'\'' | b'`' | b'\\'));
    match bytes.get(name.end) {
        // A pair on two lines.
        Some(b'\n' | b'\r') => {
            let rest =
                bytes[name.end..].iter().take(SPACE_BYTES_MAX).find(|byte| !byte.is_ascii_whitespace());
            matches!(rest, Some(b'v' | b'V' | b'"'))
        }
        Some(b' ' | b'\t') => {
            let next = name.end + space(bytes, name.end);
            let word = &bytes[name.clone()];
            is_joint(bytes.get(next))
                || bytes[next..].starts_with(b"is ")
                || word.starts_with(b"--")
                || word == b"password"
        }
        next => is_joint(next),
    }
}

/// Whether a word ends like a name of a secret, or which of several it is.
fn has_ending(word: &str) -> bool {
    let [.., one, two] = *word.as_bytes() else { return false };
    if !one.is_ascii_alphanumeric() || !two.is_ascii_alphanumeric() {
        return true;
    }
    let (one, two) = (one.to_ascii_lowercase(), two.to_ascii_lowercase());
    let pair = usize::from(one & 127) << 7 | usize::from(two & 127);
    two.is_ascii_digit() || ENDINGS[pair / 64] >> (pair % 64) & 1 == 1
}

/// A bit for each pair of characters at the end of a name.
const ENDINGS: [u64; 256] = {
    let mut bits = [0; 256];
    let mut rest = NAMES;
    while let [(name, ..), more @ ..] = rest {
        mark(&mut bits, name.as_bytes());
        rest = more;
    }
    let mut rest = QUERY_NAMES;
    while let [(name, ..), more @ ..] = rest {
        mark(&mut bits, name.as_bytes());
        rest = more;
    }
    let mut rest = QUALIFIERS;
    while let [name, more @ ..] = rest {
        mark(&mut bits, name.as_bytes());
        rest = more;
    }
    bits
};

const fn mark(bits: &mut [u64; 256], name: &[u8]) {
    let pair = (name[name.len() - 2] as usize) << 7 | name[name.len() - 1] as usize;
    bits[pair / 64] |= 1 << (pair % 64);
}

fn secret_in(text: &str, word: &str, named: Named, value: &Value) -> Option<Secret> {
    let Value { start, end, form } = *value;
    let whole = text.get(start..end)?;
    let kind = named.kind;
    match named.made {
        Credentials => credentials(text, start).map(|span| Secret { kind, span }),
        Cookies => None,
        UserAndPassword => is_user_and_password(whole).then_some(Secret { kind, span: start..end }),
        Words => {
            let end =
                if form == Form::Quoted { end } else { line_end(text.as_bytes(), start, PHRASE_BYTES_MAX) };
            is_seed_phrase(text.get(start..end)?).then_some(Secret { kind, span: start..end })
        }
        Chosen | Drawn => is_a_value(named, word, whole, form).then_some(Secret { kind, span: start..end }),
    }
}

/// The value of a pair: `{"name": "DB_PASSWORD", "value": "…"}`, or the prose `the password is …`.
fn pair_value(text: &str, at: usize, named: Named) -> Option<Secret> {
    const BETWEEN_BYTES_MAX: usize = 40;
    let bytes = text.as_bytes();
    let between = |byte: &u8| {
        matches!(byte, b'"' | b'\'' | b',' | b' ' | b'\n' | b'\r' | b'\t' | b'\\' | b'/' | b'>' | b'<' | b'-')
    };
    let start = at + bytes[at..].iter().take(BETWEEN_BYTES_MAX).take_while(|byte| between(byte)).count();
    let rest = &bytes[start..];
    // The line end of a text in JSON.
    let start = start + usize::from(rest.first() == Some(&b'n') && bytes[start - 1] == b'\\');
    let start =
        start + bytes[start..].iter().take(BETWEEN_BYTES_MAX).take_while(|byte| between(byte)).count();
    let length = bytes[start..].iter().take(8).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let word = &text[start..start + length];
    let name = start..start + length;
    if word.eq_ignore_ascii_case("value") {
        let joint = Some(Joint::after(bytes, &name)).filter(|joint| !joint.is_space)?;
        return secret_in(text, word, named, &Value::at(bytes, joint)?);
    }
    let joint = Some(Joint::after(bytes, &name)).filter(|joint| word == "is" && joint.has_space)?;
    let value = Value::at(bytes, joint)?;
    let said = text.get(value.start..value.end)?;
    let is_said = matches!(named.made, Chosen | Drawn)
        && said.len() >= QUOTED_PASSWORD_BYTES_MIN
        && is_plain(said)
        && !stands_for_something_else(said)
        && (is_drawn(said) || is_chosen_with_care(said) || (value.form == Form::Quoted && is_chosen(said)));
    is_said.then_some(Secret { kind: named.kind, span: value.start..value.end })
}

/// Whether a name without a joint is that of a login: `machine x login y password z`.
fn is_login(text: &str, name: &Range<usize>) -> bool {
    const LOOK_BACK_BYTES: usize = 160;
    if &text[name.clone()] != "password" {
        return false;
    }
    let start = text.ceil_char_boundary(name.start.saturating_sub(LOOK_BACK_BYTES));
    let before = &text[start..name.start];
    before.contains("login ") && before.contains("machine ")
}

/// Whether a value is said, rather than fetched from somewhere: code has the name of a secret in
/// front of types, variables and calls too.
fn is_a_value(named: Named, name: &str, value: &str, form: Form) -> bool {
    let is_password = named.made == Chosen && form == Form::Quoted;
    let bytes_min = if is_password { QUOTED_PASSWORD_BYTES_MIN } else { VALUE_BYTES_MIN };
    if !(bytes_min..=VALUE_BYTES_MAX).contains(&value.len()) || stands_for_something_else(value) {
        return false;
    }
    if is_fingerprint(value) {
        return false;
    }
    let is_chosen_here = named.made == Chosen && is_chosen(value);
    match form {
        Form::Quoted => !value.contains(' ') && (is_chosen_here || is_drawn_and_no_name(value)),
        Form::Field => !value.contains(' ') && is_drawn_and_no_name(value),
        Form::Joined => {
            let is_setting = !name.bytes().any(|byte| byte.is_ascii_lowercase()) || name.starts_with("--");
            let is_kept = is_drawn_and_no_name(value)
                || (is_chosen_here && (is_setting || is_drawn(value) || is_chosen_with_care(value)));
            is_plain(value) && is_kept
        }
        Form::Bare => {
            let is_cared_for = is_chosen_here && is_chosen_with_care(value);
            is_plain(value) && (is_drawn_and_no_name(value) || is_cared_for)
        }
    }
}

/// Whether a value says which key is meant, as GPG writes it.
fn is_fingerprint(value: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'A'..=b'F');
    matches!(value.len(), 16 | 40) && value.bytes().all(is_digit)
}

/// Whether a person may have chosen a value as a secret.
fn is_chosen(value: &str) -> bool {
    // Rules for the value of a form: `required|min:8`.
    !stands_for_something_else(value) && !is_word_for_one(value) && !value.contains("|")
}

/// Whether a value is more than a word or the name of something: with a digit and a sign.
fn is_chosen_with_care(value: &str) -> bool {
    const SIGNS: &[u8] = b"!@#$%^&*?+~-";
    is_chosen(value)
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && value.bytes().any(|byte| SIGNS.contains(&byte))
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
