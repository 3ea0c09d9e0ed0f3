//! What the terminal is, and plain words on stderr in its colours.

use std::io::{IsTerminal, Write, stderr, stdout};

use anstyle::{AnsiColor, Style};

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

/// The text in a style; the stream takes the colour out where it is not wanted.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A line on stderr. Whoever closed stderr does not want to know.
pub(crate) fn say(line: &str) {
    let _closed = writeln!(anstream::stderr(), "{line}");
}

pub(crate) fn error(what: &str) {
    say(&format!("{} {what}", styled(ERROR, "error:")));
}

pub(crate) fn warning(what: &str) {
    say(&format!("{} {what}", styled(WARNING, "warning:")));
}

pub(crate) fn note(what: &str) {
    say(&format!("{} {what}", styled(STRONG, "note:")));
}

pub(crate) fn hint(what: &str) {
    say(&format!("{} {what}", styled(HINT, "hint:")));
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

/// Text from elsewhere on one line, with nothing in it that a terminal would take for an order or that would
/// turn the line around.
pub(crate) fn harmless(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let of_char = |c: char| match c.is_control() || turns(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(of_char).collect()
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
    fn nothing_from_elsewhere_gives_a_terminal_an_order() {
        assert_eq!(harmless("é\u{1b}[2J\n\u{9b}1m\u{202e}x"), "é\\u{1b}[2J\\n\\u{9b}1m\\u{202e}x");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        let numbers: Vec<String> = [0, 999, 1_000, 1_234_567].into_iter().map(number).collect();
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    }
}
