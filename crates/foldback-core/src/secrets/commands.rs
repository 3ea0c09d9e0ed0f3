//! Passwords that commands are given: `curl -u user:…`, `sshpass -p …`.

use std::ops::Range;

use super::placeholders::stands_for_something_else;
use super::{Secret, SecretKind};

/// As far behind its name a command is looked at.
const COMMAND_BYTES_MAX: usize = 400;

const PASSWORD_BYTES_MIN: usize = 4;

/// How a flag takes a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// As the next word, or behind `=`.
    Next,
    /// Directly behind it.
    Joined,
    /// As the next word, behind the name of a user.
    UserAndPassword,
    /// As the next word, behind `pass:`.
    Source,
}

use Takes::{Joined, Next, Source, UserAndPassword};

/// Commands, the flags by which they take a password, and how.
const FLAGS: &[(&str, &str, Takes)] = &[
    ("curl", "-u", UserAndPassword),
    ("curl", "--user", UserAndPassword),
    ("curl", "--proxy-user", UserAndPassword),
    ("curl", "-U", UserAndPassword),
    ("http", "-a", UserAndPassword),
    ("sshpass", "-p", Next),
    ("sshpass", "-p", Joined),
    ("mysql", "-p", Joined),
    ("mysqldump", "-p", Joined),
    ("mysqladmin", "-p", Joined),
    ("mariadb", "-p", Joined),
    ("mongosh", "-p", Next),
    ("mongo", "-p", Next),
    ("mongodump", "-p", Next),
    ("redis-cli", "-a", Next),
    ("docker", "-p", Next),
    ("podman", "-p", Next),
    ("sqlcmd", "-P", Next),
    ("ldapsearch", "-w", Next),
    ("ldapadd", "-w", Next),
    ("openssl", "-passin", Source),
    ("openssl", "-passout", Source),
    ("openssl", "-pass", Source),
    ("openssl", "-k", Next),
    ("zip", "-P", Next),
    ("unzip", "-P", Next),
];

/// A bit for each character that a command begins with.
const INITIALS: u128 = {
    let (mut bits, mut rest) = (0, FLAGS);
    while let [(program, ..), more @ ..] = rest {
        bits |= 1 << program.as_bytes()[0];
        rest = more;
    }
    bits
};

/// The passwords in a command that begins with the word at `name`, up to the end of its line.
pub(super) fn find(text: &str, name: &Range<usize>, found: &mut Vec<Secret>) {
    let program = &text[name.clone()];
    if !(3..=10).contains(&program.len()) || text.as_bytes().get(name.end) != Some(&b' ') {
        return;
    }
    let second = program.as_bytes()[1];
    let is_initial = INITIALS >> (program.as_bytes()[0] & 127) & 1 == 1;
    if !is_initial || !FLAGS.iter().any(|(named, ..)| named.as_bytes()[1] == second && *named == program) {
        return;
    }
    let rest = &text[name.end..text.floor_char_boundary((name.end + COMMAND_BYTES_MAX).min(text.len()))];
    let command = rest.lines().next().unwrap_or("");
    if matches!(program, "docker" | "podman") && !command.contains(" login ") {
        return;
    }
    for (_, flag, takes) in FLAGS.iter().filter(|(named, ..)| *named == program) {
        let places = command.match_indices(flag).map(|(at, _)| at);
        let spans = places.filter_map(|at| password(command, at, flag, *takes));
        let span = |span: Range<usize>| name.end + span.start..name.end + span.end;
        found.extend(spans.map(|one| Secret { kind: SecretKind("password"), span: span(one) }));
    }
}

/// The password behind the flag at `at`.
fn password(command: &str, at: usize, flag: &str, takes: Takes) -> Option<Range<usize>> {
    let behind = at + flag.len();
    let start = match (takes, command.as_bytes().get(behind)) {
        _ if !command[..at].ends_with(' ') => return None,
        (Joined, Some(byte)) if !byte.is_ascii_whitespace() => behind,
        (Next | UserAndPassword | Source, Some(b' ' | b'=')) => behind + 1,
        _ => return None,
    };
    let word = word(command, start);
    let start = match takes {
        Next | Joined => word.start,
        UserAndPassword => word.start + command[word.clone()].find(':')? + 1,
        Source => word.start + command[word.clone()].strip_prefix("pass:").map(|_| "pass:".len())?,
    };
    let said = &command[start..word.end];
    let is_password =
        said.len() >= PASSWORD_BYTES_MIN && !stands_for_something_else(said) && !is_a_port(said);
    is_password.then_some(start..word.end)
}

/// Numbers and ports: what the same flag takes elsewhere.
fn is_a_port(said: &str) -> bool {
    said.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') && said.len() < 8
}

/// The word at a place, without the quotes around it.
fn word(command: &str, start: usize) -> Range<usize> {
    let rest = &command[start..];
    let escapes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    match rest.as_bytes().get(escapes) {
        Some(&quote @ (b'"' | b'\'')) => {
            let inside = start + escapes + 1;
            let length = command[inside..].find([char::from(quote), '\\']).unwrap_or(0);
            inside..inside + length
        }
        _ => start..start + rest.find([' ', '"', '\'', '\\', '`', ';', '&', '|', ')']).unwrap_or(rest.len()),
    }
}
