//! A1 in the sources: what core may not name, because it would read a file, a clock or the
//! environment, start a thread, or print.
//!
//! A dependency list cannot see the standard library, so the sources are read. Comments and
//! literals are left out; grouped imports are taken apart.

use std::path::Path;

use crate::{Failure, sources};

/// Paths that are forbidden with everything below them; importing a module above one of them
/// (`use std::time;`) is forbidden too, since it hides what is used.
const FORBIDDEN_PATHS: &[&[&str]] = &[
    &["std", "env"],
    &["std", "fs"],
    &["std", "io", "stderr"],
    &["std", "io", "stdin"],
    &["std", "io", "stdout"],
    &["std", "net"],
    &["std", "os"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["std", "time", "UNIX_EPOCH"],
];

const FORBIDDEN_MACROS: &[&str] = &["dbg", "eprint", "eprintln", "print", "println", "thread_local"];

/// One line for each forbidden name in the Rust files under `folder`.
pub(crate) fn impure_sources(root: &Path, folder: &str) -> Result<Vec<String>, Failure> {
    let mut impure = Vec::new();
    for (shown, source) in sources::read_below(root, folder)? {
        let complain = |(line, name): (usize, String)| {
            format!("{shown}:{line}: {name} (A1: core does no I/O and reads no clock)")
        };
        impure.extend(forbidden_names(&source).into_iter().map(complain));
    }
    Ok(impure)
}

/// Forbidden paths and macros in `source`, with their line.
fn forbidden_names(source: &str) -> Vec<(usize, String)> {
    let code = without_comments_and_literals(source);
    let tokens = tokens(&code);
    let mut found = Vec::new();
    for (index, &(line, token)) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1).map(|&(_, token)| token);
        if FORBIDDEN_MACROS.contains(&token) && next == Some("!") {
            found.push((line, format!("{token}!")));
        }
        if token == "std" && next == Some("::") {
            let mut paths = Vec::new();
            expand(&tokens, index, &[], &mut paths);
            let forbidden = paths.into_iter().filter(|(_, path)| is_forbidden(path));
            found.extend(forbidden.map(|(line, path)| (line, path.join("::"))));
        }
    }
    found
}

fn is_forbidden(path: &[&str]) -> bool {
    let (last, above) = path.split_last().map_or(("", path), |(last, above)| (*last, above));
    let path = if last == "*" || last == "self" { above } else { path };
    FORBIDDEN_PATHS.iter().any(|forbidden| path.starts_with(forbidden) || forbidden.starts_with(path))
}

/// Adds every path of the use-tree that starts at `index` and returns the index behind it:
/// `std::{fs, time::{Duration, Instant}}` is three paths.
pub(crate) fn expand<'a>(
    tokens: &[(usize, &'a str)],
    mut index: usize,
    above: &[&'a str],
    paths: &mut Vec<(usize, Vec<&'a str>)>,
) -> usize {
    let mut path = above.to_vec();
    let mut path_line = tokens.get(index).map_or(0, |&(line, _)| line);
    while let Some(&(line, token)) = tokens.get(index) {
        if token == "{" {
            index += 1;
            while tokens.get(index).is_some_and(|&(_, token)| token != "}") {
                index = match tokens[index].1 {
                    "," => index + 1,
                    _ => expand(tokens, index, &path, paths).max(index + 1),
                };
            }
            return index + 1;
        }
        if !(is_name(token) || token == "*") {
            break;
        }
        path.push(token);
        path_line = line;
        index += 1;
        if tokens.get(index).is_none_or(|&(_, token)| token != "::") {
            break;
        }
        index += 1;
    }
    if path.len() > above.len() {
        paths.push((path_line, path));
    }
    index
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Names, `::` and single characters, each with its line.
pub(crate) fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (line_index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            let length = if is_word(first) {
                rest.find(|character| !is_word(character)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            let (token, after) = rest.split_at(length);
            tokens.push((line_index + 1, token));
            rest = after.trim_start();
        }
    }
    tokens
}

/// The source with comments and literals removed and every line break kept.
pub(crate) fn without_comments_and_literals(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = skipped_length(rest, code.chars().next_back());
        let (skipped, after) = rest.split_at(length.unwrap_or(first.len_utf8()));
        if length.is_some() {
            code.push(' ');
            code.extend(skipped.chars().filter(|&character| character == '\n'));
        } else {
            code.push_str(skipped);
        }
        rest = after;
    }
    code
}

/// How long the comment or literal at the start of `rest` is, if there is one.
fn skipped_length(rest: &str, before: Option<char>) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_length(rest));
    }
    let is_in_word = before.is_some_and(|character| character.is_alphanumeric() || character == '_');
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix));
    if let Some(prefix) = prefix.filter(|_| !is_in_word) {
        let after = &rest[prefix.len()..];
        let hashes = after.len() - after.trim_start_matches('#').len();
        if after[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let start = prefix.len() + hashes + 1;
            return Some(rest[start..].find(&close).map_or(rest.len(), |end| start + end + close.len()));
        }
    }
    if rest.starts_with('"') {
        return Some(quoted_length(rest, '"'));
    }
    // `'a'` and `'\n'` are literals; `'a` alone is a lifetime.
    let mut characters = rest.strip_prefix('\'')?.chars();
    let is_literal = matches!((characters.next()?, characters.next()?), ('\\', _) | (_, '\''));
    is_literal.then(|| quoted_length(rest, '\''))
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, character) in rest.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return index + 1,
            _ => {}
        }
    }
    rest.len()
}

fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut index) = (0_usize, 0);
    while index < rest.len() {
        let bytes = &rest.as_bytes()[index..];
        if bytes.starts_with(b"/*") {
            (depth, index) = (depth + 1, index + 2);
        } else if bytes.starts_with(b"*/") {
            (depth, index) = (depth - 1, index + 2);
            if depth == 0 {
                return index;
            }
        } else {
            index += 1;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<String> {
        forbidden_names(source).into_iter().map(|(line, name)| format!("{line} {name}")).collect()
    }

    #[test]
    fn forbidden_paths_are_found_however_they_are_written() {
        assert_eq!(names("use std::fs;"), ["1 std::fs"]);
        assert_eq!(names("let x = ::std::env::var(\"A\");"), ["1 std::env::var"]);
        assert_eq!(
            names("\nuse std::{fmt, fs::File,\n time::{Duration, Instant}};"),
            ["2 std::fs::File", "3 std::time::Instant"]
        );
        assert_eq!(names("use std::{time::{self, Duration}, collections::BTreeMap};"), ["1 std::time::self"]);
        assert_eq!(names("use std::time::*; use std::*;"), ["1 std::time::*", "1 std::*"]);
        assert_eq!(names("use std :: thread as t;"), ["1 std::thread"]);
        assert_eq!(names("use std::io;"), ["1 std::io"]);
    }

    #[test]
    fn printing_is_found() {
        assert_eq!(names("fn f() { println!(\"{}\", 1) }\neprint!();"), ["1 println!", "2 eprint!"]);
    }

    #[test]
    fn what_is_pure_is_left_alone() {
        let source = r####"
            //! std::fs println!("a")
            /* std::env /* std::net */ std::thread */
            use std::{fmt::{self, Write as _}, time::Duration, collections::hash_map::*};
            fn f<'a>(text: &'a str) -> usize { std::mem::size_of::<u8>() }
            const A: &str = "std::fs \" std::fs";
            const B: &str = r#"std::fs " println!()"#;
            const C: [char; 3] = ['"', '\'', 'x'];
            impl std::fmt::Write for X {}
            fn println() { for_str::fs(); my_std::fs() }
        "####;
        assert_eq!(names(source), Vec::<String>::new());
    }

    #[test]
    fn a_literal_does_not_hide_what_follows_it() {
        assert_eq!(names("let a = '\"'; std::fs::read(b); let c = '\"';"), ["1 std::fs::read"]);
        assert_eq!(names("let a = r\"\\\"; std::fs::read(b);"), ["1 std::fs::read"]);
        assert_eq!(names("/* /* */ */ std::fs::read(b);"), ["1 std::fs::read"]);
    }
}
