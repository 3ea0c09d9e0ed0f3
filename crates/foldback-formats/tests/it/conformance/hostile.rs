//! Fixtures that are cut, changed and filled with what nobody writes: reading never panics, and the
//! bytes are kept.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use foldback_core::{EstimatingCounter, View};
use foldback_formats::{Conversation, Format, SessionFile, WrittenAs};
use foldback_testkit::effort;

use crate::conformance::{fixtures, parts_of};

/// What a change costs, beside a case of a cheap property.
const CHANGE_COST: u32 = 2;

/// Fields of each fixture that get other values.
const FIELD_COUNT_MAX: usize = 25;

/// Deeper than any stack.
const NESTING: usize = 100_000;

/// Small random numbers, the same from the same start (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Reads bytes in every way that a person could ask for, and looks at all that was read.
fn look_at(format: Format, bytes: &[u8]) {
    let found = SessionFile::read(bytes.to_vec());
    let is_found = found.as_ref().is_ok_and(|session| session.format() == format);
    let asked = (!is_found).then(|| SessionFile::read_as(format, bytes.to_vec()));
    for session in std::iter::once(found).chain(asked).flatten() {
        assert_eq!(session.bytes(), bytes);
        for conversation in session.conversations().iter().chain(session.branches()) {
            let transcript = conversation.transcript(Arc::new(EstimatingCounter), session.dialect());
            assert_eq!(conversation.history_of(&transcript).len(), conversation.history().count());
            let view = conversation.view_of(&transcript);
            if session.conversations().first().is_some_and(|first| std::ptr::eq(first, conversation)) {
                for view in [every_second(&view), view] {
                    assert_added(&session, conversation, &view);
                }
            }
        }
    }
}

/// A view without every second of its items.
fn every_second(view: &View) -> View {
    let hidden = view.iter().skip(1).step_by(2).map(|entry| entry.span());
    let hidden: Vec<_> = hidden.collect();
    view.hiding(&hidden).expect("what is seen is there")
}

/// What is added to a file leaves its bytes, and is read again: what was said is all there, and the
/// model sees what it was told to see.
fn assert_added(session: &SessionFile, conversation: &Conversation, view: &View) {
    let committed = session.committed(conversation, view, conversation.block_count());
    let written = session.compacted(&committed);
    let WrittenAs::Appended(format) = written.written_as else {
        // To these something can be added whatever they hold.
        assert!(![Format::Pi, Format::Opencode].contains(&session.format()));
        return;
    };
    let file = written.to_bytes();
    let told = || String::from_utf8_lossy(&file).into_owned();
    assert!(is_added_to(session.bytes(), &file, format), "{}", told());
    let again =
        SessionFile::read_as(format, file.clone()).unwrap_or_else(|error| panic!("{error}: {}", told()));
    let main = again.conversations().first().unwrap_or_else(|| panic!("{}", told()));
    let said = |conversation: &Conversation| parts_of(conversation.history().map(|recorded| &recorded.item));
    assert_eq!(said(main), said(conversation), "{}", told());
    let transcript = main.transcript(Arc::new(EstimatingCounter), session.dialect());
    assert_eq!(parts_of(main.view_of(&transcript).items()), parts_of(view.items()), "{}", told());
}

/// Whether all bytes are still there, with others behind them. An opencode export is one value, so
/// what is added stands inside it.
fn is_added_to(original: &[u8], written: &[u8], format: Format) -> bool {
    if format != Format::Opencode {
        return written.starts_with(original);
    }
    let is_same = |(one, other): &(&u8, &u8)| one == other;
    let before = original.iter().zip(written).take_while(is_same).count();
    let after = original.iter().rev().zip(written.iter().rev()).take_while(is_same).count();
    written.len() >= original.len() && before + after >= original.len()
}

fn format_of(path: &Path) -> Format {
    let folder = path.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
    folder.parse().unwrap()
}

fn changed(original: &[u8], dice: &mut Dice) -> Vec<u8> {
    const PIECES: [&[u8]; 12] =
        [b"\"", b"{", b"}", b"[", b"]", b",", b"\n", b"null", b"\\ud800", b"\xff", b"-1e999", b"\"type\":"];
    let mut bytes = original.to_vec();
    let at = dice.below(bytes.len());
    match dice.below(6) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(..at)),
        2 => bytes[at] = dice.below(256) as u8,
        3 => drop(bytes.drain(at..(at + dice.below(400)).min(original.len()))),
        4 => {
            let start = dice.below(original.len());
            let copy = original[start..(start + dice.below(400)).min(original.len())].to_vec();
            drop(bytes.splice(at..at, copy));
        }
        _ => drop(bytes.splice(at..at, PIECES[dice.below(PIECES.len())].iter().copied())),
    }
    bytes
}

#[test]
fn a_fixture_that_was_cut_or_changed_is_read_or_refused() {
    effort::tell();
    // From 0 no other number follows.
    let mut dice = Dice(effort::seed().max(1));
    for path in fixtures() {
        let original = std::fs::read(&path).unwrap();
        for _ in 0..effort::cases(CHANGE_COST) {
            let mut bytes = changed(&original, &mut dice);
            if dice.below(2) == 0 && !bytes.is_empty() {
                bytes = changed(&bytes, &mut dice);
            }
            look_at(format_of(&path), &bytes);
        }
    }
}

/// The places directly behind the colon of each field.
fn values(text: &str) -> Vec<(String, usize)> {
    let ends = text.match_indices("\":").map(|(end, _)| end);
    ends.filter_map(|end| {
        let start = text[..end].rfind('"')? + 1;
        Some((text[start..end].to_owned(), end + 2))
    })
    .collect()
}

/// The file with another value for one field, and the old one under another name.
fn with_value(text: &str, at: usize, value: &str) -> Vec<u8> {
    [&text[..at], value, ",\"was\":", &text[at..]].concat().into_bytes()
}

#[test]
fn values_that_nobody_writes_are_read_or_refused() {
    let hostile =
        ["\"\\ud800\"", "-1e999", "123456789012345678901234567890", "null", "\"\"", "[]", "{}", "[[]]", "-7"];
    for path in fixtures() {
        let text = std::fs::read_to_string(&path).unwrap();
        let values = values(&text);
        for (name, at) in values.iter().step_by(values.len().div_ceil(FIELD_COUNT_MAX).max(1)) {
            let at = *at;
            for value in hostile {
                look_at(format_of(&path), &with_value(&text, at, value));
            }
            // The same name twice: with the new value first, and with the old one.
            let again = format!("1,\"{name}\":");
            look_at(format_of(&path), &[&text[..at], &again, &text[at..]].concat().into_bytes());
        }
    }
}

#[test]
fn json_nested_deeper_than_any_stack_is_read_or_refused() {
    let nested = format!("{}{}", "[".repeat(NESTING), "]".repeat(NESTING));
    let objects = format!("{}1{}", "{\"input\":".repeat(NESTING), "}".repeat(NESTING));
    for path in fixtures() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut seen = HashSet::new();
        for (name, at) in values(&text) {
            if seen.insert(name) {
                look_at(format_of(&path), &with_value(&text, at, &nested));
            }
        }
        let inputs = ["input", "arguments", "args", "content"].map(|name| format!("\"{name}\":"));
        for at in inputs.iter().filter_map(|name| text.find(name).map(|at| at + name.len())) {
            look_at(format_of(&path), &with_value(&text, at, &objects));
        }
    }
    for &format in Format::ALL {
        look_at(format, nested.as_bytes());
        look_at(format, "[".repeat(NESTING).as_bytes());
        look_at(format, "{\"a\":".repeat(NESTING).as_bytes());
    }
}

/// Longer than any record that an agent writes.
const LINE_BYTES: usize = 100_000_000;

#[test]
fn a_record_of_a_hundred_megabytes_is_read_and_compacted_like_any_other() {
    let piece = r#"a line of output with \"quotes\" and a path: src/lib.rs\n"#;
    let long = piece.repeat(LINE_BYTES / piece.len());
    let record = |uuid: &str, parent: &str, text: &str| {
        let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","message":{message}}}"#
        )
    };
    let bytes = [record("a", "null", &long), record("b", "\"a\"", "go on")].join("\n").into_bytes();
    drop(long);
    let session = SessionFile::read(bytes).unwrap();
    assert_eq!((session.problems(), session.format()), (&[][..], Format::ClaudeCode));
    let main = &session.conversations()[0];
    let [long, short] = main.recorded() else { panic!("two items") };
    let transcript = main.transcript(Arc::new(EstimatingCounter), session.dialect());
    assert!(transcript.tokens().0 > 10_000_000, "{}", transcript.tokens());

    let view = View::of(&transcript).hiding(std::slice::from_ref(&(0..1))).unwrap();
    let written = session.compacted(&session.committed(main, &view, 0));
    assert_eq!(written.written_as, WrittenAs::Appended(Format::ClaudeCode));
    let again = SessionFile::read(written.to_bytes()).unwrap();
    let main = &again.conversations()[0];
    let said: Vec<_> = main.history().map(|recorded| &recorded.item.parts).collect();
    assert!(said == [&long.item.parts, &short.item.parts]);
    let transcript = main.transcript(Arc::new(EstimatingCounter), session.dialect());
    assert_eq!(main.view_of(&transcript).len(), 1);
}
