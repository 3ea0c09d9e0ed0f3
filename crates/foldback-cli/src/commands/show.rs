//! `foldback show`: what the model sees, as a timeline, a shape, plain text or JSON.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use foldback_core::reading::fields;
use foldback_core::{Entry, Item, ItemKind, Part, ResultPart, View};
use foldback_formats::Conversation;
use regex::Regex;
use serde::Serialize;

use crate::args::{Shared, Show};
use crate::failure::{Exit, Failure};
use crate::input;
use crate::picture::texts;
use crate::scene::{Scene, seen};
use crate::terminal::{self, BLUE, CYAN, FAINT, GREEN, MAGENTA, RED, STRONG, YELLOW, number, styled};
use crate::turns::Turns;
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
        let mut turn_count_max = 0;
        let mut shown_count = 0;
        for conversation in opened.session.conversations() {
            // Plain text needs no counts.
            let scene = match arguments.plain && !shared.json {
                true => Scene::estimated(conversation, opened.session.dialect()),
                false => Scene::counted(conversation, &counter, opened.session.dialect()),
            };
            let turns = Turns::of(conversation);
            turn_count_max = turn_count_max.max(turns.count());
            let Some(view) = view(&scene, &turns, arguments) else { continue };
            shown_count += 1;
            let page = Page { scene: &scene, turns: turns.of_view(&view), view: &view, grep: grep.as_ref() };
            let file = opened.path.display().to_string();
            match shared.json {
                true => output::print_json(&page.report(file))?,
                false if arguments.plain => page.plain(&mut text),
                false if arguments.shape => page.shape(&mut text),
                false => page.timeline(&file, &mut text),
            }
        }
        match arguments.at {
            Some(turn) if shown_count == 0 => Err(no_turn(&opened.path, turn, turn_count_max)),
            _ => Ok(Exit::Success),
        }
    })?;
    match arguments.plain || arguments.no_pager {
        true => output::print(&text)?,
        false => page(&text)?,
    }
    Ok(exit)
}

fn no_turn(path: &Path, turn: usize, turn_count: usize) -> Failure {
    let what = format!("{}: there is no turn {turn}", path.display());
    let hint = match turn_count {
        0 => "the session has no turns: no user speaks in it".to_owned(),
        1 => "the session has one turn, turn 1".to_owned(),
        count => format!("the session has turns 1 to {count}"),
    };
    Failure::usage(what, hint)
}

/// What the model saw last, or at the end of a turn; none where there is no such turn.
fn view(scene: &Scene<'_>, turns: &Turns<'_>, arguments: &Show) -> Option<View> {
    let Some(turn) = arguments.at else { return Some(scene.view(arguments.from)) };
    turns.start(turn)?;
    let end = turns.start(turn + 1).unwrap_or(scene.conversation.len());
    let mut transcript = scene.transcript.clone_empty();
    for entry in scene.transcript.range(0..end) {
        transcript.push_counted(entry.item().clone(), entry.tokens().clone());
    }
    Some(seen(scene.conversation, &transcript, arguments.from))
}

fn says(item: &Item, grep: &Regex) -> bool {
    item.parts.iter().any(|part| {
        let is_tool = matches!(part, Part::ToolCall(call) if grep.is_match(&call.name));
        is_tool || texts(part).any(|text| grep.is_match(text))
    })
}

/// What is shown of a conversation.
struct Page<'a> {
    scene: &'a Scene<'a>,
    view: &'a View,
    /// The turn of every entry.
    turns: Vec<Option<usize>>,
    grep: Option<&'a Regex>,
}

#[derive(Serialize)]
struct ShowReport<'a> {
    file: String,
    conversation: Option<&'a str>,
    tokens: u64,
    items: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    position: usize,
    line: Option<usize>,
    turn: Option<usize>,
    tokens: u64,
    item: &'a Item,
}

impl<'a> Page<'a> {
    /// The entries that are asked for, with position and turn.
    fn entries(&self) -> impl Iterator<Item = (usize, Option<usize>, &'a Entry)> {
        let numbered = self.view.iter().zip(&self.turns).enumerate();
        let is_wanted = |entry: &Entry| self.grep.is_none_or(|grep| says(entry.item(), grep));
        numbered
            .filter_map(move |(position, (entry, turn))| is_wanted(entry).then_some((position, *turn, entry)))
    }

    fn report(&self, file: String) -> ShowReport<'a> {
        let shown = |(position, turn, entry): (usize, Option<usize>, &'a Entry)| {
            let (line, tokens) = (self.scene.line(entry.anchor()), entry.tokens().total.0);
            Shown { position, line, turn, tokens, item: entry.item() }
        };
        ShowReport {
            file,
            conversation: self.scene.conversation.name(),
            tokens: self.view.tokens().0,
            items: self.entries().map(shown).collect(),
        }
    }

    fn plain(&self, text: &mut String) {
        self.entries().for_each(|(_, _, entry)| write_plain(text, entry.item()));
    }

    fn shape(&self, text: &mut String) {
        let shape = self.view.shape();
        let lines: Vec<&str> = shape.lines().collect();
        for line in self.entries().filter_map(|(position, _, _)| lines.get(position)) {
            text.push_str(line);
            text.push('\n');
        }
    }

    fn timeline(&self, file: &str, text: &mut String) {
        text.push_str(&title(file, self.scene.conversation, self.view));
        for (position, turn, entry) in self.entries() {
            write_heading(text, position, turn, entry, self.scene);
            entry.item().parts.iter().for_each(|part| write_part(text, part));
            text.push('\n');
        }
    }
}

fn title(path: &str, conversation: &Conversation, view: &View) -> String {
    let name = conversation.name().map_or_else(String::new, |name| format!(" ({name})"));
    let (items, tokens) = (number(view.len() as u64), number(view.tokens().0));
    format!("{}\n\n", styled(STRONG, format!("{path}{name}: {items} items, {tokens} tokens")))
}

fn write_heading(text: &mut String, position: usize, turn: Option<usize>, entry: &Entry, scene: &Scene<'_>) {
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
    let turn = turn.map_or_else(String::new, |turn| format!(", turn {turn}"));
    let tokens = number(entry.tokens().total.0);
    let heading = styled(style.bold(), format!("── {position} {what}"));
    text.push_str(&format!("{heading} {}\n", styled(FAINT, format!("{tokens} tokens{turn}{line}"))));
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
/// An item as a person reads it: who speaks, then what is said; a call with its inputs as they were meant.
fn write_plain(text: &mut String, item: &Item) {
    text.push_str(&format!("[{}]\n", item.kind.as_str()));
    for part in &item.parts {
        match part {
            Part::ToolCall(call) => {
                text.push_str(&call.name);
                for field in fields(call) {
                    text.push_str(&format!("\n  {}: {}", field.key, field.value.replace('\n', "\n    ")));
                }
            }
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
        let _left_early = stdin.write_all(terminal::for_pager(text).as_bytes());
    }
    child.wait().map(|_| ()).map_err(|error| Failure::Read { path: program.into(), error, hint: None })
}
