//! A session as lines with their white space folded: what retention is measured on.

use std::collections::HashSet;
use std::sync::Arc;

use foldback_core::reading::{fields, text_of};
use foldback_core::{Item, ItemKind, Part};

/// Keys under which tools are given a command line.
const COMMAND_KEYS: &[&str] = &["cmd", "command", "commands", "script"];

/// Shorter commands are no effort to think of again.
const COMMAND_BYTES_MIN: usize = 6;

/// Longer commands are programs.
const COMMAND_BYTES_MAX: usize = 400;

/// The history of a session, read once for all cuts.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(super) items: Vec<Reading>,
}

/// One item, read.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) kind: ItemKind,
    /// Its lines, white space folded, without empty ones.
    pub(super) lines: Vec<Line>,
    /// The command lines it runs, white space folded.
    pub(super) commands: Vec<Box<str>>,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) text: Box<str>,
    /// Whether the agent wrote it for others: text and tool inputs, not reasoning.
    pub(super) is_written: bool,
    /// Whether an earlier line of the history says the same.
    pub(super) is_repeated: bool,
}

impl History {
    /// Reads every item.
    pub fn of<'i>(items: impl IntoIterator<Item = &'i Arc<Item>>) -> Self {
        let mut items: Vec<Reading> = items.into_iter().map(|item| Reading::of(item)).collect();
        let mut seen = HashSet::new();
        let lines = items.iter().flat_map(|item| &item.lines);
        let repeated: Vec<bool> = lines.map(|line| !seen.insert(&*line.text)).collect();
        let lines = items.iter_mut().flat_map(|item| &mut item.lines);
        lines.zip(repeated).for_each(|(line, is_repeated)| line.is_repeated = is_repeated);
        Self { items }
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Reading {
    fn of(item: &Item) -> Self {
        let mut reading = Self { kind: item.kind, lines: Vec::new(), commands: Vec::new() };
        for part in &item.parts {
            let is_written = item.kind == ItemKind::Assistant && is_written(part);
            let text = text_of(part);
            let lines = text.lines().map(folded).filter(|line| !line.is_empty());
            reading.lines.extend(lines.map(|line| Line {
                text: line.into(),
                is_written,
                is_repeated: false,
            }));
            reading.commands.extend(commands(part));
        }
        reading
    }
}

fn is_written(part: &Part) -> bool {
    match part {
        Part::Text(_) | Part::ToolCall(_) | Part::Structured(_) => true,
        Part::Reasoning(_) | Part::ToolResult(_) | Part::Media(_) | Part::File(_) | Part::Opaque(_) => false,
    }
}

/// The command lines that a part runs. What has several lines is a program, not a command line.
fn commands(part: &Part) -> Vec<Box<str>> {
    let Part::ToolCall(call) = part else { return Vec::new() };
    let is_command = |line: &String| (COMMAND_BYTES_MIN..=COMMAND_BYTES_MAX).contains(&line.len());
    fields(call)
        .into_iter()
        .filter(|field| COMMAND_KEYS.contains(&field.key.as_str()) && field.value.trim().lines().count() == 1)
        .map(|field| folded(&field.value))
        .filter(is_command)
        .map(String::into_boxed_str)
        .collect()
}

/// The text with every run of white space as one space, and none at its ends.
pub(super) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(word);
    }
    folded
}

/// All that a view says, white space folded; parts are apart, so that nothing spans two of them.
pub(super) fn view_text<'i>(items: impl IntoIterator<Item = &'i Arc<Item>>) -> String {
    let mut text = String::new();
    for part in items.into_iter().flat_map(|item| &item.parts) {
        text.push_str(&folded(&text_of(part)));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_is_one_line_that_a_tool_runs() {
        let of = |input: serde_json::Value| commands(&Part::call("c", "bash", &input));
        assert_eq!(of(json!({"command": "cargo  test \t--lib\n"})), ["cargo test --lib".into()]);
        assert_eq!(of(json!({"command": ["bash", "-lc", "cargo test"]})), ["cargo test".into()]);
        assert_eq!(of(json!({"command": "cat <<X\nX"})), []);
        assert_eq!(of(json!({"path": "cargo test"})), []);
    }

    #[test]
    fn what_the_agent_only_thought_is_read_but_not_written() {
        let parts = vec![Part::reasoning("a  plan"), Part::text("\n one\ttwo \n\n three")];
        let history = History::of(&[Arc::new(Item::assistant("a", parts))]);
        let lines: Vec<(&str, bool)> =
            history.items[0].lines.iter().map(|line| (&*line.text, line.is_written)).collect();
        assert_eq!(lines, [("a plan", false), ("one two", true), ("three", true)]);
    }
}
