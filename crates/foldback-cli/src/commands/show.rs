//! `foldback show`: what the model sees, as a timeline, a shape, plain text or JSON.

use std::io::Write;
use std::process::{Command, Stdio};

use foldback_core::{Entry, Item, ItemKind, Part, ResultPart, View};
use foldback_formats::Conversation;
use regex::Regex;
use serde::Serialize;

use crate::args::{From, Shared, Show};
use crate::failure::{Exit, Failure};
use crate::input;
use crate::picture::texts;
use crate::scene::Scene;
use crate::terminal::{self, BLUE, CYAN, FAINT, GREEN, MAGENTA, RED, STRONG, YELLOW, number, styled};
use crate::{counting, output};

/// What pages where the environment names nothing.
const PAGER_DEFAULT: &str = "less -FRX";

pub(crate) fn run(shared: &Shared, arguments: &Show) -> Result<Exit, Failure> {
    let grep = arguments.grep.as_deref().map(Regex::new).transpose();
    let grep =
        grep.map_err(|error| Failure::usage(format!("--grep: {error}"), "give a regular expression"))?;
    let counter = counting::counter(shared);
    let mut text = String::new();
    let exit = input::for_each(shared, &arguments.inputs, |opened| {
        for conversation in opened.session.conversations() {
            // Plain text needs no counts.
            let scene = match arguments.plain {
                true => Scene::estimated(conversation, opened.session.dialect()),
                false => Scene::counted(conversation, &counter, opened.session.dialect()),
            };
            let view = seen(&scene, arguments)?;
            let is_wanted = |entry: &&Entry| grep.as_ref().is_none_or(|grep| says(entry.item(), grep));
            let entries = view.iter().enumerate().filter(|(_, entry)| is_wanted(entry));
            if shared.json {
                let items: Vec<Shown<'_>> =
                    entries.map(|(position, entry)| Shown::new(position, entry, &scene)).collect();
                output::print_json(&Report {
                    file: opened.path.display().to_string(),
                    conversation: conversation.name(),
                    tokens: view.tokens().0,
                    items,
                })?;
            } else if arguments.plain {
                entries.for_each(|(_, entry)| write_plain(&mut text, entry.item()));
            } else if arguments.shape {
                text.push_str(&view.shape());
                text.push('\n');
            } else {
                text.push_str(&title(&opened.path.display().to_string(), conversation, &view));
                entries.for_each(|(position, entry)| write_entry(&mut text, position, entry, &scene));
            }
        }
        Ok(Exit::Success)
    })?;
    match arguments.plain || arguments.no_pager {
        true => output::print(&text)?,
        false => page(&text)?,
    }
    Ok(exit)
}

/// What the model saw last, or at the end of a turn.
fn seen(scene: &Scene<'_>, arguments: &Show) -> Result<View, Failure> {
    let Some(turn) = arguments.at else { return Ok(scene.view(arguments.from)) };
    let conversation = scene.conversation;
    let put_in = |index: usize| conversation.compactions().iter().any(|made| made.inserted.contains(&index));
    let users = conversation.recorded().iter().enumerate().filter_map(|(index, recorded)| {
        (recorded.item.kind == ItemKind::User && !put_in(index)).then_some(index)
    });
    let starts: Vec<usize> = users.collect();
    if turn == 0 || turn > starts.len() {
        let what = format!("there is no turn {turn}");
        return Err(Failure::usage(what, format!("the session has turns 1 to {}", starts.len())));
    }
    let end = starts.get(turn).copied().unwrap_or(conversation.len());
    let mut transcript = scene.transcript.clone_empty();
    for entry in scene.transcript.range(0..end) {
        transcript.push_counted(entry.item().clone(), entry.tokens().clone());
    }
    Ok(match arguments.from {
        From::View => conversation.view_of(&transcript),
        From::History => conversation.history_of(&transcript),
    })
}

fn says(item: &Item, grep: &Regex) -> bool {
    item.parts.iter().any(|part| {
        let is_tool = matches!(part, Part::ToolCall(call) if grep.is_match(&call.name));
        is_tool || texts(part).any(|text| grep.is_match(text))
    })
}

#[derive(Serialize)]
struct Report<'a> {
    file: String,
    conversation: Option<&'a str>,
    tokens: u64,
    items: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    position: usize,
    line: Option<usize>,
    tokens: u64,
    item: &'a Item,
}

impl<'a> Shown<'a> {
    fn new(position: usize, entry: &'a Entry, scene: &Scene<'_>) -> Self {
        let (line, tokens) = (scene.line(entry.anchor()), entry.tokens().total.0);
        Self { position, line, tokens, item: entry.item() }
    }
}

fn title(path: &str, conversation: &Conversation, view: &View) -> String {
    let name = conversation.name().map_or_else(String::new, |name| format!(" ({name})"));
    let (items, tokens) = (number(view.len() as u64), number(view.tokens().0));
    format!("{}\n\n", styled(STRONG, format!("{path}{name}: {items} items, {tokens} tokens")))
}

fn write_entry(text: &mut String, position: usize, entry: &Entry, scene: &Scene<'_>) {
    let item = entry.item();
    let (what, style) = match item.kind {
        ItemKind::Context if item.summary.is_some() => ("summary", MAGENTA),
        ItemKind::System | ItemKind::Developer => (item.kind.as_str(), CYAN),
        ItemKind::User => ("user", GREEN),
        ItemKind::Assistant => ("assistant", BLUE),
        ItemKind::Tool => ("tool", YELLOW),
        ItemKind::Context | ItemKind::Notification => (item.kind.as_str(), MAGENTA),
    };
    let line = scene.line(entry.anchor()).map_or_else(String::new, |line| format!(", line {line}"));
    let tokens = number(entry.tokens().total.0);
    let heading = styled(style.bold(), format!("── {position} {what}"));
    text.push_str(&format!("{heading} {}\n", styled(FAINT, format!("{tokens} tokens{line}"))));
    for part in &item.parts {
        write_part(text, part);
    }
    text.push('\n');
}

fn write_part(text: &mut String, part: &Part) {
    let mut push = |line: String| {
        text.push_str(&line);
        if !line.ends_with('\n') {
            text.push('\n');
        }
    };
    match part {
        Part::Text(words) => push(words.to_string()),
        Part::Reasoning(reasoning) if reasoning.text.is_empty() => push(styled(FAINT, "(hidden reasoning)")),
        Part::Reasoning(reasoning) => push(styled(FAINT, &reasoning.text)),
        Part::ToolCall(call) => {
            push(format!("{} {}", styled(YELLOW, format!("→ {}", call.name)), call.input.as_str()))
        }
        Part::ToolResult(result) => {
            if result.is_error {
                push(styled(RED, "failed:"));
            }
            result.content.iter().for_each(|piece| push(result_text(piece)));
        }
        Part::Media(media) => push(styled(FAINT, format!("[{}]", media.media_type))),
        Part::File(file) => push(styled(FAINT, format!("[file {}]", file.label()))),
        Part::Structured(json) => push(json.as_str().to_owned()),
        Part::Opaque(opaque) => push(styled(FAINT, format!("[{}] {}", opaque.source, opaque.json.as_str()))),
    }
}

fn result_text(piece: &ResultPart) -> String {
    match piece {
        ResultPart::Text(text) => text.to_string(),
        ResultPart::Structured(json) => json.as_str().to_owned(),
        ResultPart::Media(media) => format!("[{}]", media.media_type),
        ResultPart::File(file) => format!("[file {}]", file.label()),
        ResultPart::Opaque(opaque) => opaque.json.as_str().to_owned(),
    }
}

/// The words and nothing else: no headings, no sizes, no colour.
fn write_plain(text: &mut String, item: &Item) {
    for part in &item.parts {
        match part {
            Part::ToolCall(call) => text.push_str(&format!("{} {}", call.name, call.input.as_str())),
            Part::ToolResult(result) => {
                let pieces: Vec<String> = result.content.iter().map(result_text).collect();
                text.push_str(&pieces.join("\n"));
            }
            _ => texts(part).for_each(|words| text.push_str(words)),
        }
        text.push('\n');
    }
}

/// Prints, through a pager where a person reads and it does not fit on the screen.
fn page(text: &str) -> Result<(), Failure> {
    let is_long = terminal::height().is_some_and(|height| text.lines().count() >= height);
    if !terminal::stdout_is_terminal() || !is_long {
        return output::print(text);
    }
    let variable = |name| std::env::var(name).ok().filter(|pager: &String| !pager.trim().is_empty());
    let pager =
        variable("FOLDBACK_PAGER").or_else(|| variable("PAGER")).unwrap_or_else(|| PAGER_DEFAULT.to_owned());
    let mut words = pager.split_whitespace();
    let Some(program) = words.next() else { return output::print(text) };
    let Ok(mut child) = Command::new(program).args(words).stdin(Stdio::piped()).spawn() else {
        return output::print(text);
    };
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever leaves the pager early has seen enough.
        let _left_early = stdin.write_all(text.as_bytes());
    }
    child.wait().map(|_| ()).map_err(|error| Failure::Read { path: program.into(), error, hint: None })
}
