//! What the terminal is, and the only way to it: everything on stdout and stderr goes through here, so that
//! nothing from a session, a server or a file name gives the terminal an order (`visible`). `clippy.toml`
//! keeps other modules from opening these streams.
#![allow(clippy::disallowed_methods, reason = "this is the place that has the streams")]

mod visible;

use std::borrow::Cow;
use std::io::{self, IsTerminal, StdoutLock, Write, stderr, stdout};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use crate::failure::Failure;

pub(crate) use visible::harmless;

/// Columns where the width is unknown.
const WIDTH_DEFAULT: usize = 80;
/// Wider pictures are harder to read, not easier.
const WIDTH_MAX: usize = 120;

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const BLUE: Style = AnsiColor::Blue.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const MAGENTA: Style = AnsiColor::Magenta.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// The text in a style of foldback's own; the stream takes the colour out where it is not wanted. In the
/// text, nothing else is a style.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    visible::sealed(style, text)
}

/// Text that this program's libraries wrote for a terminal, from nothing that came from elsewhere.
pub(crate) fn of_our_own(text: &str) -> String {
    visible::adopted(text)
}

/// A document for people on stdout: escaped wherever it goes.
pub(crate) fn show(text: &str) -> io::Result<()> {
    show_behind(None, text)
}

/// As [`show`], behind a character that is shown already.
pub(crate) fn show_behind(previous: Option<char>, text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(visible::shown(previous, text).as_bytes()).and_then(|()| stdout.flush())
}

/// A document as a program has it that shows it on this terminal.
pub(crate) fn for_pager(text: &str) -> Cow<'_, str> {
    let shown = visible::shown(None, text);
    match AutoStream::choice(&stdout()) {
        ColorChoice::Never => anstream::adapter::strip_str(&shown).to_string().into(),
        _ => shown,
    }
}

/// What a progress bar says, on one line. The bar draws on stderr itself.
pub(crate) fn for_bar(text: &str) -> String {
    visible::shown(None, &harmless(text)).into_owned()
}

/// Data on stdout: the bytes, but for a terminal.
pub(crate) fn data() -> Data {
    match stdout_is_terminal() {
        true => Data::Shown { stdout: anstream::stdout().lock(), incomplete: Vec::new() },
        false => Data::Bytes(stdout().lock()),
    }
}

/// Where data goes.
pub(crate) enum Data {
    Bytes(StdoutLock<'static>),
    Shown {
        stdout: AutoStream<StdoutLock<'static>>,
        /// The beginning of a character.
        incomplete: Vec<u8>,
    },
}

impl Write for Data {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (stdout, incomplete) = match self {
            Self::Bytes(stdout) => return stdout.write(bytes),
            Self::Shown { stdout, incomplete } => (stdout, incomplete),
        };
        incomplete.extend_from_slice(bytes);
        let rest = incomplete.split_off(complete_bytes(incomplete));
        let whole = std::mem::replace(incomplete, rest);
        let text = String::from_utf8_lossy(&whole);
        stdout.write_all(visible::shown(None, &text).as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Bytes(stdout) => stdout.flush(),
            Self::Shown { stdout, incomplete } => {
                let rest = std::mem::take(incomplete);
                stdout.write_all(String::from_utf8_lossy(&rest).as_bytes())?;
                stdout.flush()
            }
        }
    }
}

/// How many of the bytes are whole characters, or no characters at all.
fn complete_bytes(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last() {
        // A character's beginning is wrong only if something else follows.
        Some(last) if std::str::from_utf8(last.invalid()).is_err_and(|error| error.error_len().is_none()) => {
            bytes.len() - last.invalid().len()
        }
        _ => bytes.len(),
    }
}

/// Text on stderr. Whoever closed stderr does not want to know.
pub(crate) fn whisper(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let written = stderr.write_all(visible::shown(None, text).as_bytes());
    let _closed = written.and_then(|()| stderr.flush());
}

/// A line on stderr.
pub(crate) fn say(line: &str) {
    whisper(&format!("{line}\n"));
}

/// A line on stderr that begins with `label`. Text from elsewhere may have more lines: those are indented, so
/// that none of them passes for another message.
fn labelled(style: Style, label: &str, what: &str) {
    say(&format!("{} {}", styled(style, label), what.replace('\n', "\n  ")));
}

/// Makes panics tell what happened in the same way as everything else does.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = std::backtrace::Backtrace::capture();
        error(&format!("this is a mistake in foldback: {panic}"));
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            say(&trace.to_string());
        }
    }));
}

pub(crate) fn error(what: &str) {
    labelled(ERROR, "error:", what);
}

pub(crate) fn warning(what: &str) {
    labelled(WARNING, "warning:", what);
}

pub(crate) fn note(what: &str) {
    labelled(STRONG, "note:", what);
}

pub(crate) fn hint(what: &str) {
    labelled(HINT, "hint:", what);
}

/// Asks the person at the terminal whether `what` may happen. Where nobody is there, it has to be said on the
/// command line, as `otherwise` tells.
pub(crate) fn agree(what: &str, otherwise: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !stderr_is_terminal() {
        return Err(Failure::usage(what, otherwise));
    }
    let failed = |error| Failure::Read { path: "the terminal".into(), error, hint: None };
    say(&format!("{what}. Go on? [y/N]"));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(crate) fn stdout_is_terminal() -> bool {
    stdout().is_terminal()
}

pub(crate) fn stderr_is_terminal() -> bool {
    stderr().is_terminal()
}

/// Columns for pictures.
pub(crate) fn width() -> usize {
    let width = terminal_size::terminal_size().map_or(WIDTH_DEFAULT, |(width, _)| usize::from(width.0));
    width.clamp(40, WIDTH_MAX)
}

/// Rows of the terminal, if there is one.
pub(crate) fn height() -> Option<usize> {
    terminal_size::terminal_size().map(|(_, height)| usize::from(height.0))
}

/// A number with separators: `12,345`.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// So many of a thing: `1 turn`, `1,200 turns`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    format!("{} {thing}{}", number(count as u64), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_two_pieces_is_waited_for_and_bytes_that_are_none_are_not() {
        let pieces: [(&[u8], usize); 6] =
            [(b"ab", 2), (b"a\xc3", 1), (b"a\xe2\x82", 1), (b"\xff\xf0\x9f\x98", 1), (b"\xff", 1), (b"", 0)];
        for (bytes, complete) in pieces {
            assert_eq!(complete_bytes(bytes), complete, "{bytes:?}");
        }
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        let numbers: Vec<String> = [0, 999, 1_000, 1_234_567].into_iter().map(number).collect();
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }
}
