//! What stands where content was hidden: one line with a handle, the size and the first line of
//! what it hides, or a text shortened to its head and tail around such a line.
//!
//! Placeholders are recognised by their form, so that content folded once is not folded again
//! (T7), also when it has been through a provider's wire format.

use std::fmt::Write;
use std::ops::Range;

use crate::handle::Handle;
use crate::ids::{Text, Tokens};
use crate::ledger::{is_constraint, sentences};
use crate::part::{Json, ToolInput};
use crate::secrets::{redact, redact_input, redact_piece};
use crate::tokens::Meter;
use crate::written::escaped_without_handles;

/// Characters of the first line that a placeholder quotes.
const QUOTE_CHARACTERS_MAX: usize = 80;

/// A longer text is never taken for a placeholder, whatever it begins with.
const PLACEHOLDER_BYTES_MAX: usize = 600;

const OPENING: &str = "[folded @";

/// One line for hidden content: `[folded @handle: what, 123 tokens: "first line"]`. The first line is one
/// without secrets ([`secrets::first_line`](crate::secrets::first_line)).
pub fn placeholder(handle: &Handle, what: &str, tokens: Tokens, first_line: &str) -> String {
    let mut line = String::with_capacity(64 + QUOTE_CHARACTERS_MAX);
    let what = one_line(&redact(what));
    // Writing into a string cannot fail.
    let _ = write!(line, "[folded {handle}: {what}, {tokens} tokens");
    let quote = one_line(first_line);
    if !quote.is_empty() {
        let _ = write!(line, ": \"{quote}\"");
    }
    line.push(']');
    line
}

/// Bytes of a name that a pointer to something newer quotes.
const NAME_BYTES_MAX: usize = 200;

/// One line for content that something newer made worthless:
/// `[folded @handle: what, superseded: how at @newer]`.
pub(crate) fn superseded(handle: &Handle, what: &str, how: &str, newer: &Handle) -> String {
    let what = redact(what);
    let name = escaped_without_handles(&what[..what.floor_char_boundary(NAME_BYTES_MAX)]);
    format!("[folded {handle}: {name}, superseded: {how} at {newer}]")
}

/// Whether `text` is a placeholder and nothing else.
pub fn is_placeholder(text: &str) -> bool {
    text.len() <= PLACEHOLDER_BYTES_MAX && text.ends_with(']') && handle_in(text).is_some()
}

/// The handle of a placeholder.
pub(crate) fn handle_in(text: &str) -> Option<Handle> {
    let rest = text.strip_prefix(OPENING)?;
    Handle::parse(rest.split(':').next()?)
}

/// The start of `text` as one line that passes for nothing else, cut at a named length.
pub(crate) fn one_line(text: &str) -> String {
    let end = text.char_indices().nth(QUOTE_CHARACTERS_MAX).map_or(text.len(), |(at, _)| at);
    let mut line = escaped_without_handles(&text[..end]).into_owned();
    if end < text.len() {
        line.push('…');
    }
    line
}

/// How much of a shortened text is its head; the rest is its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct HeadPercent(u8);

impl HeadPercent {
    /// As much head as tail.
    pub const HALF: Self = Self(50);

    /// Nothing but the tail.
    pub const NONE: Self = Self(0);

    /// Between 0 and 100; more is an error.
    pub fn new(percent: u8) -> Result<Self, PercentError> {
        if percent <= 100 { Ok(Self(percent)) } else { Err(PercentError { percent }) }
    }

    fn of(self, amount: usize) -> usize {
        amount * usize::from(self.0) / 100
    }
}

impl Default for HeadPercent {
    fn default() -> Self {
        Self::HALF
    }
}

impl TryFrom<u8> for HeadPercent {
    type Error = PercentError;
    fn try_from(percent: u8) -> Result<Self, PercentError> {
        Self::new(percent)
    }
}

impl From<HeadPercent> for u8 {
    fn from(percent: HeadPercent) -> Self {
        percent.0
    }
}

/// A share of more than everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a share of {percent}% was asked for; use a value from 0 to 100")]
pub struct PercentError {
    /// What was asked for.
    pub percent: u8,
}

/// Guesses at how much text fits before giving up on keeping any of it.
const FIT_ATTEMPTS_MAX: usize = 12;

/// Guesses that only give up what the one before was over by.
const CLOSE_ATTEMPTS_MAX: usize = 3;

/// Lines kept from the hidden middle because they look like errors.
const ERROR_LINES_MAX: usize = 4;

/// Characters kept of each such line.
const ERROR_LINE_CHARACTERS_MAX: usize = 160;

/// Shortens text to at most `tokens_max` tokens: its head, a line that says what is hidden, lines
/// of the hidden middle that look like errors, its tail. `None` where it fits already.
pub fn shorten_to_tokens(
    text: &str,
    tokens_max: Tokens,
    head: HeadPercent,
    handle: &Handle,
    meter: &Meter,
) -> Option<String> {
    shorten_counted(text, Tokens(meter.text(text)), tokens_max, head, handle, meter)
}

/// The same for a text whose tokens were counted before.
pub(crate) fn shorten_counted(
    text: &str,
    Tokens(tokens): Tokens,
    tokens_max: Tokens,
    head: HeadPercent,
    handle: &Handle,
    meter: &Meter,
) -> Option<String> {
    if tokens <= tokens_max.0 {
        return None;
    }
    let mut keep_bytes = (text.len() as u128 * u128::from(tokens_max.0) / u128::from(tokens)) as usize;
    for attempt in 0..FIT_ATTEMPTS_MAX {
        let head_end = head_boundary(text, head.of(keep_bytes));
        let tail_start = tail_boundary(text, keep_bytes - head.of(keep_bytes)).max(head_end);
        let shortened = around_hidden(text, head_end, tail_start, Tokens(tokens), handle);
        let got = meter.text(&shortened);
        if got <= tokens_max.0 {
            return Some(shortened);
        }
        keep_bytes = match attempt < CLOSE_ATTEMPTS_MAX {
            true => (keep_bytes as u128 * u128::from(tokens_max.0) * 99 / (u128::from(got) * 100)) as usize,
            false => keep_bytes * 3 / 4,
        };
    }
    let bare = placeholder(handle, "text", Tokens(tokens), "");
    Some(bare)
}

/// Shortens instructions to at most `tokens_max` tokens: the sentences that are rules, and as much of
/// the beginning as fits beside them. `None` where they fit already.
pub(crate) fn shorten_to_rules(
    text: &str,
    tokens_max: Tokens,
    handle: &Handle,
    meter: &Meter,
) -> Option<String> {
    let tokens = meter.text(text);
    if tokens <= tokens_max.0 {
        return None;
    }
    let mark = format!("[folded {handle}: {} of {tokens} tokens; rules are kept]", tokens - tokens_max.0);
    let spans = sentences(text);
    let is_rule: Vec<bool> = spans.iter().map(|span| is_constraint(&text[span.clone()])).collect();
    let mut room = tokens_max.0.saturating_sub(meter.text(&mark) + 1);
    let mut is_kept = vec![false; spans.len()];
    for wants_rule in [true, false] {
        for (index, span) in spans.iter().enumerate().filter(|&(index, _)| is_rule[index] == wants_rule) {
            let cost = meter.text(&text[span.clone()]) + 1;
            if cost > room {
                break;
            }
            room -= cost;
            is_kept[index] = true;
        }
    }
    let kept = spans.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept);
    let lines: Vec<&str> = kept.map(|(span, _)| &text[span.clone()]).collect();
    let shortened = lines.join("\n") + "\n" + &mark;
    match meter.text(&shortened) <= tokens_max.0 {
        true => Some(shortened),
        false => shorten_to_tokens(text, tokens_max, HeadPercent::HALF, handle, meter),
    }
}

/// Shortens text to at most `lines_max` lines, the line that says what is hidden included.
/// `None` where it has no more than that.
pub(crate) fn shorten_to_lines(
    text: &str,
    lines_max: usize,
    head: HeadPercent,
    handle: &Handle,
) -> Option<String> {
    let newlines: Vec<usize> = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
    let line_count = newlines.len() + 1;
    if line_count <= lines_max {
        return None;
    }
    let errors_max = ERROR_LINES_MAX.min(lines_max / 8);
    let keep = lines_max.saturating_sub(1 + errors_max);
    let head_lines = head.of(keep);
    let tail_lines = keep - head_lines;
    let head_end = if head_lines == 0 { 0 } else { newlines[head_lines - 1] + 1 };
    let tail_start = if tail_lines == 0 { text.len() } else { newlines[line_count - tail_lines - 1] + 1 };
    let hidden = line_count - head_lines - tail_lines;
    let mut shortened = text[..head_end].to_owned();
    let _ = write!(shortened, "[folded {handle}: {hidden} lines]");
    push_error_lines(&mut shortened, text, head_end..tail_start, errors_max);
    if tail_lines > 0 {
        shortened.push('\n');
        shortened.push_str(&text[tail_start..]);
    }
    Some(shortened)
}

/// Rounds of meeting one limit and then the other.
const LIMIT_ROUNDS_MAX: usize = 4;

/// Shortens text to at most so many lines and so many tokens, those of the line that says what is hidden
/// included. `None` where it has no more than that.
///
/// Meeting one limit may break the other, because a marker takes a line and some tokens; where they cannot
/// be met together, a placeholder stands for the whole.
pub fn shorten_to_limits(
    text: &str,
    lines_max: Option<usize>,
    tokens_max: Option<Tokens>,
    head: HeadPercent,
    handle: &Handle,
    meter: &Meter,
) -> Option<String> {
    let by_lines = |text: &str| shorten_to_lines(text, lines_max?, head, handle);
    let by_tokens = |text: &str| shorten_to_tokens(text, tokens_max?, head, handle, meter);
    let mut shortened: Option<String> = None;
    for _ in 0..LIMIT_ROUNDS_MAX {
        let current = shortened.as_deref().unwrap_or(text);
        match by_lines(current).or_else(|| by_tokens(current)) {
            Some(shorter) => shortened = Some(shorter),
            None => return shortened,
        }
    }
    Some(placeholder(handle, "text", Tokens(meter.text(text)), ""))
}

/// Characters that the line between head and tail takes at most, line ends included.
const MARKER_CHARACTERS_MAX: usize = 96;

/// Shortens text to at most `characters_max` characters: its head, a line that says what is hidden,
/// its tail, cut wherever the count falls. `None` where it has no more than that.
pub(crate) fn shorten_to_characters(
    text: &str,
    characters_max: usize,
    head: HeadPercent,
    handle: &Handle,
) -> Option<String> {
    // No text has more characters than bytes.
    let count = if text.len() <= characters_max { 0 } else { text.chars().count() };
    if count <= characters_max {
        return None;
    }
    let keep = characters_max.saturating_sub(MARKER_CHARACTERS_MAX);
    let head_count = head.of(keep);
    let hidden = count - keep;
    let place = |characters: usize| text.char_indices().nth(characters).map_or(text.len(), |(byte, _)| byte);
    let (head, tail) = (&text[..place(head_count)], &text[place(head_count + hidden)..]);
    Some(format!("{head}\n[folded {handle}: {hidden} of {count} characters]\n{tail}"))
}

fn around_hidden(text: &str, head_end: usize, tail_start: usize, tokens: Tokens, handle: &Handle) -> String {
    let (head, hidden, tail) = (&text[..head_end], &text[head_end..tail_start], &text[tail_start..]);
    let mut shortened = String::with_capacity(head.len() + tail.len() + 128);
    shortened.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        shortened.push('\n');
    }
    let _ = write!(shortened, "[folded {handle}: {} of {} bytes, {tokens} tokens]", hidden.len(), text.len());
    // Errors are worth their room only where there is room: next to a head and a tail.
    if head.len() + tail.len() > ERROR_LINES_MAX * ERROR_LINE_CHARACTERS_MAX * 2 {
        push_error_lines(&mut shortened, text, head_end..tail_start, ERROR_LINES_MAX);
    }
    if !tail.is_empty() {
        shortened.push('\n');
        shortened.push_str(tail);
    }
    shortened
}

fn push_error_lines(shortened: &mut String, text: &str, hidden: Range<usize>, lines_max: usize) {
    let mut start = hidden.start;
    let mut left = lines_max;
    for line in text[hidden].split_inclusive('\n') {
        if left > 0 && looks_like_an_error(line) {
            left -= 1;
            let line = redact_piece(text, start..start + line.trim_end().len());
            shortened.push('\n');
            shortened.push_str(&line[..line.floor_char_boundary(ERROR_LINE_CHARACTERS_MAX)]);
        }
        start += line.len();
    }
}

/// Bytes of a line that are searched for a sign of an error.
const ERROR_SEARCH_BYTES_MAX: usize = 512;

fn looks_like_an_error(line: &str) -> bool {
    const SIGNS: [&str; 8] =
        ["error", "panicked", "failed", "failure", "traceback", "exception", "fatal", "denied"];
    let head = &line[..line.floor_char_boundary(ERROR_SEARCH_BYTES_MAX)];
    let lowered = head.to_ascii_lowercase();
    SIGNS.iter().any(|sign| lowered.contains(sign))
}

/// The end of a head of about `bytes`, at a line end where one is near.
fn head_boundary(text: &str, bytes: usize) -> usize {
    let end = text.floor_char_boundary(bytes);
    let near = end - end / 5;
    match memchr::memrchr(b'\n', &text.as_bytes()[near..end]) {
        Some(offset) => near + offset + 1,
        None => end,
    }
}

/// The start of a tail of about `bytes`, at a line start where one is near.
fn tail_boundary(text: &str, bytes: usize) -> usize {
    let start = text.ceil_char_boundary(text.len() - bytes.min(text.len()));
    let near = start + (text.len() - start) / 5;
    match memchr::memchr(b'\n', &text.as_bytes()[start..near]) {
        Some(offset) => start + offset + 1,
        None => start,
    }
}

/// The key under which a whole hidden input is named.
const FOLDED_KEY: &str = "folded";

/// Shortens a tool input to about `tokens_max`: long strings inside JSON first, so that it stays
/// valid JSON of the same shape; where that is not enough, the whole becomes a placeholder.
/// `None` where it fits already.
pub fn shorten_input(
    input: &ToolInput,
    tokens_max: Tokens,
    handle: &Handle,
    meter: &Meter,
) -> Option<ToolInput> {
    let tokens = meter.text(input.as_str());
    if tokens <= tokens_max.0 {
        return None;
    }
    match input {
        ToolInput::Text(text) => {
            let shortened = shorten_to_tokens(text, tokens_max, HeadPercent::HALF, handle, meter)?;
            Some(ToolInput::Text(shortened.into()))
        }
        ToolInput::Json(json) => {
            let hidden = || hidden_input(input, handle, Tokens(tokens));
            let Some(mut value) = json.value() else { return Some(hidden()) };
            let mut string_tokens_max = Tokens(tokens_max.0 / 2);
            while string_tokens_max.0 >= INPUT_STRING_TOKENS_MIN {
                shorten_strings(&mut value, string_tokens_max, handle, meter);
                let shortened = Json::from_value(&value);
                if meter.text(shortened.as_str()) <= tokens_max.0 {
                    return Some(ToolInput::Json(shortened));
                }
                string_tokens_max = Tokens(string_tokens_max.0 / 2);
            }
            Some(hidden())
        }
    }
}

/// Strings in a JSON input are not cut below this.
const INPUT_STRING_TOKENS_MIN: u64 = 32;

/// A tool input hidden whole; an object, because providers demand one.
pub(crate) fn hidden_input(input: &ToolInput, handle: &Handle, tokens: Tokens) -> ToolInput {
    input_of(&placeholder(handle, "input", tokens, redact_input(input).as_str().trim_start()))
}

/// A placeholder as the input of a tool.
pub(crate) fn input_of(placeholder: &str) -> ToolInput {
    ToolInput::Json(Json::from_value(&serde_json::json!({ FOLDED_KEY: placeholder })))
}

/// Whether a tool input is a placeholder.
pub(crate) fn is_hidden_input(input: &ToolInput) -> bool {
    let text = input.as_str();
    match input {
        ToolInput::Text(text) => is_placeholder(text),
        ToolInput::Json(_) if text.len() > PLACEHOLDER_BYTES_MAX => false,
        ToolInput::Json(json) => json
            .value()
            .and_then(|value| {
                let object = value.as_object().filter(|object| object.len() == 1)?;
                object.get(FOLDED_KEY)?.as_str().map(is_placeholder)
            })
            .unwrap_or(false),
    }
}

fn shorten_strings(value: &mut serde_json::Value, tokens_max: Tokens, handle: &Handle, meter: &Meter) {
    use serde_json::Value;
    match value {
        Value::String(text) => {
            if let Some(shortened) = shorten_to_tokens(text, tokens_max, HeadPercent::HALF, handle, meter) {
                *text = shortened;
            }
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| shorten_strings(value, tokens_max, handle, meter));
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| shorten_strings(value, tokens_max, handle, meter));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A placeholder as shared text.
pub(crate) fn placeholder_text(handle: &Handle, what: &str, tokens: u32, first_line: &str) -> Text {
    placeholder(handle, what, Tokens(u64::from(tokens)), first_line).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Transcript;

    fn handle() -> Handle {
        Handle::of_part(0, &"item".into(), 0)
    }

    fn shorten(text: &str, tokens_max: u64) -> Option<String> {
        let transcript = Transcript::default();
        shorten_to_tokens(text, Tokens(tokens_max), HeadPercent::HALF, &handle(), transcript.meter())
    }

    #[test]
    fn a_placeholder_is_recognised_and_names_its_handle() {
        let line = placeholder(&handle(), "fs_read", Tokens(1_234), "fn main() {\n");
        assert!(is_placeholder(&line), "{line}");
        assert_eq!(handle_in(&line), Some(handle()));
        assert!(!is_placeholder("[folded @nonsense: x]"));
        let line = superseded(&handle(), &"長".repeat(400), "read again", &handle());
        assert!(is_placeholder(&line) && line.contains("read again at @"), "{line}");
        assert!(is_hidden_input(&input_of(&line)));
        assert!(!is_placeholder(&format!("{line} and a lot of text{}]", "x".repeat(1_000))));
    }

    #[test]
    fn one_enormous_line_is_shortened() {
        let text = "x".repeat(400_000);
        let shortened = shorten(&text, 500).expect("400 KB are more than 500 tokens");
        assert!(Transcript::default().meter().text(&shortened) <= 500);
        assert!(shortened.starts_with("xxx") && shortened.ends_with("xxx"));
        assert_eq!(shorten(&shortened, 500), None);
    }

    #[test]
    fn text_is_cut_between_characters() {
        for text in ["漢字".repeat(5_000), "🦀".repeat(5_000), "жук".repeat(5_000)] {
            for tokens_max in [40, 100, 333] {
                let shortened = shorten(&text, tokens_max).expect("it is too long");
                assert!(Transcript::default().meter().text(&shortened) <= tokens_max);
            }
        }
    }

    #[test]
    fn an_error_in_the_hidden_middle_is_kept() {
        let mut text = "all is well\n".repeat(2_000);
        text.push_str("error[E0502]: cannot borrow\n");
        text.push_str(&"all is well\n".repeat(2_000));
        let by_tokens = shorten(&text, 800).expect("it is too long");
        assert!(by_tokens.contains("error[E0502]"), "{by_tokens}");
        let by_lines = shorten_to_lines(&text, 50, HeadPercent::HALF, &handle()).expect("4001 lines");
        assert!(by_lines.contains("error[E0502]"), "{by_lines}");
    }

    #[test]
    fn shortened_text_has_at_most_the_lines_asked_for() {
        let text = (0..500).map(|line| format!("line {line} error")).collect::<Vec<_>>().join("\n");
        for lines_max in [1, 2, 3, 10, 50, 499] {
            let shortened =
                shorten_to_lines(&text, lines_max, HeadPercent::HALF, &handle()).expect("500 lines");
            assert!(shortened.lines().count() <= lines_max, "{lines_max}");
            assert_eq!(shorten_to_lines(&shortened, lines_max, HeadPercent::HALF, &handle()), None);
        }
        assert_eq!(shorten_to_lines(&text, 500, HeadPercent::HALF, &handle()), None);
    }

    #[test]
    fn a_shortened_input_stays_json_of_the_same_shape() {
        let input = serde_json::json!({"path": "src/lib.rs", "content": "let x = 1;\n".repeat(5_000)});
        let input = ToolInput::Json(Json::from_value(&input));
        let transcript = Transcript::default();
        let shortened =
            shorten_input(&input, Tokens(200), &handle(), transcript.meter()).expect("it is too long");
        let ToolInput::Json(json) = &shortened else { panic!("{shortened:?}") };
        assert_eq!(json.value().unwrap()["path"], "src/lib.rs");
        assert!(transcript.meter().text(json.as_str()) <= 200);
        assert_eq!(shorten_input(&shortened, Tokens(200), &handle(), transcript.meter()), None);
    }

    #[test]
    fn an_input_of_many_small_values_is_hidden_whole() {
        let input = ToolInput::Json(Json::from_value(&serde_json::json!((0..5_000).collect::<Vec<_>>())));
        let transcript = Transcript::default();
        let hidden =
            shorten_input(&input, Tokens(200), &handle(), transcript.meter()).expect("it is too long");
        assert!(is_hidden_input(&hidden), "{hidden:?}");
    }

    #[test]
    fn a_share_over_everything_is_an_error() {
        assert_eq!(HeadPercent::new(101), Err(PercentError { percent: 101 }));
    }
}
