//! Finds in any text what can be named again: paths, addresses, hashes, numbers, identifiers.

use std::ops::Range;

use super::FactKind;

/// Longer words are data, not names.
const WORD_BYTES_MAX: usize = 512;

/// Shorter words are not worth remembering.
const IDENTIFIER_BYTES_MIN: usize = 4;

/// File name endings that make a word without a slash a path, in order.
const EXTENSIONS: &[&str] = &[
    "bash",
    "bat",
    "bin",
    "c",
    "cc",
    "cfg",
    "class",
    "cljs",
    "conf",
    "cpp",
    "cs",
    "css",
    "csv",
    "cts",
    "db",
    "diff",
    "dll",
    "env",
    "ex",
    "exs",
    "gif",
    "go",
    "gradle",
    "graphql",
    "h",
    "hcl",
    "hpp",
    "hs",
    "htm",
    "html",
    "ico",
    "ini",
    "ipynb",
    "jar",
    "java",
    "jpeg",
    "jpg",
    "js",
    "json",
    "jsonl",
    "jsx",
    "kt",
    "less",
    "lock",
    "log",
    "lua",
    "m",
    "md",
    "mdx",
    "mjs",
    "mod",
    "mts",
    "nix",
    "npmrc",
    "odt",
    "patch",
    "pdf",
    "php",
    "pl",
    "plist",
    "png",
    "prisma",
    "pro",
    "properties",
    "proto",
    "ps1",
    "py",
    "pyi",
    "rb",
    "rs",
    "rst",
    "sass",
    "scala",
    "scss",
    "sh",
    "so",
    "sql",
    "sqlite",
    "sum",
    "svelte",
    "svg",
    "swift",
    "tar",
    "tex",
    "tf",
    "toml",
    "traj",
    "ts",
    "tsv",
    "tsx",
    "txt",
    "vue",
    "wasm",
    "webp",
    "xlsx",
    "xml",
    "yaml",
    "yml",
    "zip",
    "zsh",
];

/// What may follow a number directly and belongs to it.
const UNITS: &[&str] = &[
    "%", "b", "bytes", "days", "fps", "gb", "gib", "h", "hz", "k", "kb", "khz", "kib", "loc", "m", "mb",
    "mhz", "mib", "min", "ms", "ns", "px", "rem", "s", "sec", "tb", "tib", "us", "vh", "vw", "x", "µs",
];

/// No unit has more characters, or more bytes.
const UNIT_CHARACTERS_MAX: usize = 5;

/// Something that can be named again, and where it stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: FactKind,
    /// Where it stands.
    pub span: Range<usize>,
}

/// Calls `found` for everything in `text` that can be named again, in order. Spans do not overlap.
pub fn scan(text: &str, mut found: impl FnMut(Found)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (start, first) = (at, CLASSES[bytes[at] as usize]);
        at += 1;
        if first == NO_WORD {
            continue;
        }
        let mut rest = 0;
        while let Some(class) =
            bytes.get(at).map(|&byte| CLASSES[byte as usize]).filter(|&class| class != NO_WORD)
        {
            rest |= class;
            at += 1;
        }
        if is_plain(first, rest) && bytes.get(at) != Some(&b'(') {
            continue;
        }
        let seen = first | rest;
        if has_all(seen, COLON | SLASH)
            && let Some(end) = address_end(bytes, start, at)
        {
            at = end;
            let span = start..trimmed_end(bytes, start, end);
            found(Found { kind: FactKind::Url, span });
            continue;
        }
        let word = trimmed(bytes, start, at);
        if word.is_empty() || word.len() > WORD_BYTES_MAX {
            continue;
        }
        let name = &text[word.clone()];
        let name = if has_all(seen, COLON) { without_place(name) } else { name };
        let word = word.start..word.start + name.len();
        if let Some(kind) = kind_of(name, seen, bytes.get(word.end).copied()) {
            found(Found { kind, span: word });
        }
    }
}

/// Classes of bytes, as bits: what a word consists of says most about it.
const NO_WORD: u8 = 0;
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const COLON: u8 = 4;
const DIGIT: u8 = 8;
const SLASH: u8 = 16;
const DOT: u8 = 32;
const OTHER: u8 = 64;

/// Whether all of these classes were seen.
const fn has_all(seen: u8, classes: u8) -> bool {
    seen & classes == classes
}

const CLASSES: [u8; 256] = {
    let mut classes = [NO_WORD; 256];
    let mut byte = 0;
    while byte < classes.len() {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b':' => COLON,
            b'0'..=b'9' => DIGIT,
            b'/' => SLASH,
            b'.' => DOT,
            other if is_word_byte(other) => OTHER,
            _ => NO_WORD,
        };
        byte += 1;
    }
    classes
};

/// Whether a word with a first byte and others of these classes is one of prose: letters in the
/// case of a sentence. Unless it is called it names nothing.
fn is_plain(first: u8, rest: u8) -> bool {
    matches!((first, rest), (LOWER | UPPER, 0 | LOWER) | (UPPER, UPPER))
}

/// Bytes that words consist of. Letters outside ASCII belong to words: names are written in every
/// script.
const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0x80
        || matches!(byte, b'_' | b'.' | b'/' | b'-' | b'~' | b'@' | b'+' | b':' | b'%' | b'$')
}

/// Where the address ends whose scheme is the word at `start..end`.
fn address_end(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let word = &bytes[start..end];
    let is_address = [&b"http://"[..], b"https://", b"ws://", b"wss://", b"ssh://", b"git://", b"file://"]
        .iter()
        .any(|scheme| word.starts_with(scheme) && word.len() > scheme.len());
    let goes_on = |byte: &u8| is_word_byte(*byte) || matches!(byte, b'?' | b'&' | b'=' | b'#' | b',' | b'~');
    is_address.then(|| end + bytes[end..].iter().take_while(|byte| goes_on(byte)).count())
}

fn trimmed_end(bytes: &[u8], start: usize, end: usize) -> usize {
    let kept = bytes[start..end].iter().rposition(|byte| !matches!(byte, b'.' | b',' | b':' | b'-' | b'?'));
    kept.map_or(start, |last| start + last + 1)
}

/// The word without the punctuation of the sentence around it.
fn trimmed(bytes: &[u8], mut start: usize, end: usize) -> Range<usize> {
    let end = trimmed_end(bytes, start, end);
    while start < end && matches!(bytes[start], b':' | b'-' | b'+' | b'%' | b'@') {
        start += 1;
    }
    // A sentence may begin with dots; a path may as well.
    if start < end && bytes[start] == b'.' && !bytes[start..end].contains(&b'/') {
        let letters = bytes[start..end].iter().position(|&byte| byte != b'.').unwrap_or(end - start);
        if letters > 1 {
            start += letters;
        }
    }
    start..end
}

/// What a word is; `seen` has at least the classes of its bytes. Most words are known by what they
/// do not consist of.
fn kind_of(word: &str, seen: u8, next: Option<u8>) -> Option<FactKind> {
    let bytes = word.as_bytes();
    let digits = match has_all(seen, DIGIT) {
        true => bytes.iter().filter(|byte| byte.is_ascii_digit()).count(),
        false => 0,
    };
    if digits > 0 && is_number(word, digits) {
        return Some(FactKind::Number);
    }
    // Nothing with letters in it was cut off the word.
    if seen & (LOWER | UPPER) == 0 {
        return None;
    }
    if digits > 0 && is_hash(bytes) {
        return Some(FactKind::Hash);
    }
    if seen & (SLASH | DOT) != 0 && is_path(word) {
        return Some(FactKind::Path);
    }
    (bytes.len() >= IDENTIFIER_BYTES_MIN && is_identifier(bytes, seen, digits, next))
        .then_some(FactKind::Identifier)
}

/// A number that says something: with a unit, a point, or three digits at least.
fn is_number(word: &str, digits: usize) -> bool {
    let bytes = word.as_bytes();
    if !bytes.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'_' | b':' | b'-');
    let unit_start = bytes.iter().position(|byte| !is_of_number(byte)).unwrap_or(bytes.len());
    let (number, unit) = word.split_at(unit_start);
    let is_known = || UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit));
    let unit_fits = unit.is_empty() || (unit.len() <= UNIT_CHARACTERS_MAX && is_known());
    unit_fits && (digits >= 3 || !unit.is_empty() || (digits >= 2 && number.contains('.')))
}

/// Where the unit ends that stands behind a number, one space apart. Single letters there are words.
pub(super) fn unit_beside(text: &str, number_end: usize) -> Option<usize> {
    let rest = text.get(number_end..)?.strip_prefix(' ')?;
    let in_unit = |(_, c): &(usize, char)| c.is_alphabetic() || *c == '%';
    let characters = rest.char_indices().take(UNIT_CHARACTERS_MAX + 1).take_while(in_unit);
    let length = characters.last().map_or(0, |(at, c)| at + c.len_utf8());
    let unit = &rest[..length];
    let is_unit = (length > 1 || unit == "%") && UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit));
    is_unit.then_some(number_end + 1 + length)
}

/// Hexadecimal digits as commits have them, or groups of them as in a UUID; at least one is a digit.
fn is_hash(bytes: &[u8]) -> bool {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'-');
    (7..=128).contains(&bytes.len()) && bytes.iter().all(is_hex)
}

fn is_extension(ending: &str) -> bool {
    EXTENSIONS.binary_search(&ending).is_ok()
}

/// A path without the place in the file that may follow it: `src/lib.rs:12:4`.
fn without_place(word: &str) -> &str {
    let is_number = |piece: &str| piece.bytes().all(|byte| byte.is_ascii_digit());
    let mut path = word;
    while let Some((start, end)) = path.rsplit_once(':').filter(|(_, end)| is_number(end)) {
        path = if end.is_empty() { start.trim_end_matches(':') } else { start };
    }
    path
}

fn is_path(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let has_extension = name
        .rsplit_once('.')
        .is_some_and(|(stem, extension)| (!stem.is_empty() || word.contains('/')) && is_extension(extension));
    if has_extension {
        return true;
    }
    let slashes = word.bytes().filter(|&byte| byte == b'/').count();
    if slashes == 0 {
        return false;
    }
    let is_rooted = ["/", "./", "../", "~/", "@"].iter().any(|root| word.starts_with(root)) && word.len() > 3;
    let is_technical = word.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-'));
    is_rooted || slashes >= 2 || is_technical || word.ends_with('/')
}

/// A word that somebody made up for a program: joined by underscores, dots or colons, written in
/// mixed case, or called.
fn is_identifier(bytes: &[u8], seen: u8, digits: usize, next: Option<u8>) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80;
    let is_joined = |joint: u8| {
        bytes.windows(3).any(|three| three[1] == joint && is_name_byte(three[0]) && is_name_byte(three[2]))
    };
    // What is asked here has letters in it.
    let has_others = has_all(seen, OTHER);
    if has_others && bytes.contains(&b'_') {
        return true;
    }
    if has_all(seen, COLON) && bytes.windows(2).any(|two| two == b"::") {
        return true;
    }
    if (has_all(seen, DOT) && is_joined(b'.')) || (has_others && is_joined(b'@')) {
        return true;
    }
    let is_hump = |two: &[u8]| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase();
    if next == Some(b'(') || (has_all(seen, LOWER | UPPER) && bytes.windows(2).any(is_hump)) {
        return true;
    }
    // Prose joins words by hyphens too, but seldom three of them.
    digits > 0 || (has_others && is_joined(b'-') && bytes.iter().filter(|&&byte| byte == b'-').count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(FactKind, &str)> {
        let mut facts = Vec::new();
        scan(text, |found| facts.push((found.kind, &text[found.span])));
        facts
    }

    #[test]
    fn names_are_told_from_prose() {
        use FactKind::{Hash, Identifier, Number, Path, Url};
        assert_eq!(
            all("Please fix parse_expr() in src/parser.rs:88, it took 340 ms. See https://x.dev/a?b=1#c."),
            [
                (Identifier, "parse_expr"),
                (Path, "src/parser.rs"),
                (Number, "340"),
                (Url, "https://x.dev/a?b=1#c"),
            ]
        );
        assert_eq!(
            all("commit 3f2a91c touched ~/notes and Cargo.toml, HttpClient, 12.5MB, 99%, MAX_SIZE"),
            [
                (Hash, "3f2a91c"),
                (Path, "~/notes"),
                (Path, "Cargo.toml"),
                (Identifier, "HttpClient"),
                (Number, "12.5MB"),
                (Number, "99%"),
                (Identifier, "MAX_SIZE"),
            ]
        );
        assert_eq!(all("This is an ordinary sentence, and/or two; nothing to see. It is 5 to 12."), []);
    }

    #[test]
    fn endings_stand_in_the_order_in_which_they_are_looked_up() {
        assert!(EXTENSIONS.is_sorted());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        for text in ["", "...", "a", "--", "ü/ß.rs", "https://", "http://.", "::", "1.", ".a", "%", "@/"] {
            all(text);
        }
        assert_eq!(all("über/größe.rs"), [(FactKind::Path, "über/größe.rs")]);
    }
}
