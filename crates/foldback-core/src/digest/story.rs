//! What happened, in order: who said what, what was done and how it ended.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt};

use super::{Hidden, Told};
use crate::holds::Holds;
use crate::ids::CallId;
use crate::item::ItemKind;
use crate::part::{Part, ToolCall};
use crate::reading::{fields, text_of};
use crate::tools::{Action, Outcome};
use crate::written::is_line_end;

/// All but the user's words is read up to this much, the newest first: about 270,000 tokens.
const READ_BYTES_MAX: usize = 1 << 20;

/// Calls of long ago that are looked into for the files they changed.
const OLD_CALLS_MAX: usize = 4_096;

/// One thing that happened.
#[derive(Debug)]
pub(super) struct Event<'r> {
    /// Whether the reader of the digest sees it as well.
    pub(super) is_visible: bool,
    /// Whether some of its item can be seen, so that only what is lost of it is told.
    pub(super) is_beside: bool,
    pub(super) what: What<'r>,
}

/// What happened.
#[derive(Debug)]
pub(super) enum What<'r> {
    /// The user typed something.
    User(Cow<'r, str>),
    /// The host told the agent something.
    Host(Cow<'r, str>),
    Said(Cow<'r, str>),
    /// The agent thought something that nobody was meant to read.
    Thought(Cow<'r, str>),
    Did(Did<'r>),
}

/// A call and what came of it.
#[derive(Debug)]
pub(super) struct Did<'r> {
    pub(super) call: &'r ToolCall,
    pub(super) actions: Vec<Action>,
    /// The answer, where there is one.
    pub(super) answer: Option<Cow<'r, str>>,
    pub(super) outcome: Outcome,
}

impl Did<'_> {
    /// The command that was run.
    pub(super) fn command(&self) -> Option<&str> {
        self.actions.iter().find_map(|action| match action {
            Action::Run { command, .. } => Some(command.as_str()),
            _ => None,
        })
    }

    /// Whether it only looked at something: that can be looked at again.
    pub(super) fn only_looks(&self) -> bool {
        Action::only_look(&self.actions)
    }

    /// What the agent was told by the user through a tool that asks them, and what was asked.
    pub(super) fn asks(&self) -> bool {
        let name = self.call.name.to_ascii_lowercase();
        name.contains("ask") && (name.contains("user") || name.contains("question"))
            || name == "request_user_input"
            || name == "ask_followup_question"
    }

    /// The plan that was proposed with the call, or written into a file; with where it was written.
    pub(super) fn plan(&self) -> Option<(String, String)> {
        let written = self.actions.iter().find_map(|action| match action {
            Action::Write { path } if is_plan(path) && !self.outcome.failed => Some(path),
            _ => None,
        });
        let is_proposed = self.call.name.to_ascii_lowercase().contains("plan") && !self.has_todos();
        let (place, keys): (String, &[&str]) = match written {
            Some(path) => (format!(" in {path}"), &["content", "file_text", "text"]),
            None if is_proposed => (String::new(), &["plan"]),
            None => return None,
        };
        let plan = fields(self.call).into_iter().find(|field| keys.contains(&field.key.as_str()))?;
        Some((place, plan.value.into_owned()))
    }

    /// What was answered, line by line, without what an agent writes around an output.
    pub(super) fn said_lines(&self) -> impl DoubleEndedIterator<Item = &str> {
        let answer = self.answer.as_deref().unwrap_or("");
        answer.lines().map(str::trim).filter(|line| line.len() > 1 && !is_frame(line))
    }

    /// Whether the user did not let the agent do it.
    pub(super) fn is_refused(&self) -> bool {
        const WORDS: &[&str] = &[
            "user doesn't want",
            "rejected by the user",
            "user rejected",
            "user denied",
            "declined by the user",
        ];
        let answer = self.answer.as_deref().unwrap_or("");
        self.outcome.failed && WORDS.iter().any(|words| answer.contains(words))
    }

    pub(super) fn has_todos(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Todo(_)))
    }
}

/// Whether a file is a text about what is to be done.
fn is_plan(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path).to_ascii_lowercase();
    let mut words = name.trim_end_matches(".md").split(|c: char| !c.is_ascii_alphabetic());
    name.ends_with(".md")
        && (path.contains("/plans/")
            || words.any(|word| ["plan", "todo", "tasks", "spec", "roadmap"].contains(&word)))
}

/// Whether a line is what an agent wrote around an output.
fn is_frame(line: &str) -> bool {
    const OPENINGS: &[&str] = &[
        "Wall time",
        "Output:",
        "Chunk ID",
        "Process exited",
        "Original token",
        "Total output",
        "Exit code: 0",
    ];
    line.starts_with('<') || OPENINGS.iter().any(|opening| line.starts_with(opening))
}

/// Everything that happened, as far as it is read.
#[derive(Debug, Default)]
pub(super) struct Story<'r> {
    pub(super) events: Vec<Event<'r>>,
    /// What earlier summaries say of items that are not there, the oldest first.
    pub(super) earlier: Vec<String>,
}

/// A longer path outside of the working folder is named by its end.
const PATH_BYTES_MAX: usize = 48;

impl<'r> Story<'r> {
    fn actions(&mut self) -> impl Iterator<Item = &mut Action> {
        let deeds = self.events.iter_mut().filter_map(|event| match &mut event.what {
            What::Did(did) => Some(did),
            _ => None,
        });
        deeds.flat_map(|did| &mut did.actions)
    }

    /// The files that calls read and changed.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let deeds = self.events.iter().filter_map(|event| match &event.what {
            What::Did(did) => Some(did),
            _ => None,
        });
        deeds.flat_map(|did| did.actions.iter().filter_map(Action::file))
    }

    /// Names files relative to the folder that the work is in, and others by the end of their paths.
    pub(super) fn shorten_paths(&mut self, folder: Option<&str>) {
        for action in self.actions() {
            let Some(path) = action.file_mut() else { continue };
            // A name of several lines could pass for a line of its own.
            let plain = path.replace('\\', "/").replace(is_line_end, " ");
            if let Some(inside) = folder.and_then(|folder| plain.strip_prefix(folder)) {
                *path = inside.to_owned();
            } else if plain.len() > PATH_BYTES_MAX {
                let start = plain.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at);
                *path = format!("…{}", &plain[start..]);
            } else if plain.contains(' ') {
                *path = plain;
            }
        }
    }

    /// Reads items that were recorded, without their secrets.
    pub(super) fn read(items: &[Told<'r>]) -> Self {
        let mut reader = Reader { story: Self::default(), calls: HashMap::new() };
        items.iter().for_each(|told| reader.push(told));
        reader.story
    }
}

/// The items that are read: the newest all; of a very long past what the user said, what summaries
/// say and which files were changed.
pub(super) fn read_items<'t, 'r>(items: &'t [Told<'r>]) -> Vec<&'t Told<'r>> {
    let mut left = READ_BYTES_MAX;
    let mut whole_start = items.len();
    for (place, told) in items.iter().enumerate().rev() {
        let bytes: usize = told.item.parts.iter().map(size_of).sum();
        left = left.saturating_sub(bytes);
        if left == 0 {
            break;
        }
        whole_start = place;
    }
    let mut old_calls_left = OLD_CALLS_MAX;
    let old = items[..whole_start].iter().rev().filter(|told| {
        let is_said = told.kind == ItemKind::User || told.holds.contains(Holds::SUMMARY);
        let is_change = told.holds.contains(Holds::CHANGE);
        old_calls_left -= usize::from(!is_said && is_change && old_calls_left > 0);
        is_said || (is_change && old_calls_left > 0)
    });
    let mut old: Vec<&Told<'r>> = old.collect();
    old.reverse();
    old.extend(&items[whole_start..]);
    old
}

/// Bytes of what can be read in a part, without decoding it.
fn size_of(part: &Part) -> usize {
    match part {
        Part::ToolCall(call) => call.input.as_str().len(),
        _ => text_of(part).len(),
    }
}

struct Reader<'r> {
    story: Story<'r>,
    /// Which event a call is.
    calls: HashMap<&'r CallId, usize>,
}

impl<'r> Reader<'r> {
    fn push(&mut self, told: &Told<'r>) {
        if told.item.summary.is_some() {
            if told.hidden == Hidden::Whole {
                let texts = told.item.parts.iter().map(|part| text_of(part).into_owned());
                self.story.earlier.extend(texts.filter(|text| !text.trim().is_empty()));
            }
            return;
        }
        for (part_index, part) in told.item.parts.iter().enumerate() {
            self.part(told, part_index, part);
        }
    }

    fn event(&mut self, told: &Told<'r>, part_index: usize, what: What<'r>) {
        let is_visible = !told.hidden.contains(part_index);
        let is_beside = told.hidden != Hidden::Whole;
        self.story.events.push(Event { is_visible, is_beside, what });
    }

    fn part(&mut self, told: &Told<'r>, part_index: usize, part: &'r Part) {
        match part {
            Part::ToolCall(call) => {
                self.calls.insert(&call.id, self.story.events.len());
                let actions = Action::of(call);
                let did = Did { call, actions, answer: None, outcome: Outcome::default() };
                self.event(told, part_index, What::Did(did));
            }
            Part::ToolResult(result) => {
                let Some(&place) = self.calls.get(&result.call_id) else { return };
                let event = &mut self.story.events[place];
                // What is cut out of an answer is not seen, though its call is.
                event.is_visible &= !told.hidden.contains(part_index);
                if let What::Did(did) = &mut event.what {
                    did.outcome = Outcome::of(result, &did.actions);
                    did.answer = Some(text_of(part));
                }
            }
            Part::Reasoning(reasoning) if !reasoning.text.trim().is_empty() => {
                self.event(told, part_index, What::Thought(Cow::Borrowed(&reasoning.text)));
            }
            // What a user attaches is not what the user says.
            Part::Structured(_) | Part::File(_) if told.kind == ItemKind::User => {}
            Part::Text(_) | Part::Structured(_) | Part::File(_) => {
                let text = text_of(part);
                if !text.trim().is_empty() {
                    self.spoken(told, part_index, text);
                }
            }
            Part::Reasoning(_) | Part::Media(_) | Part::Opaque(_) => {}
        }
    }

    fn spoken(&mut self, told: &Told<'r>, part_index: usize, text: Cow<'r, str>) {
        match told.kind {
            ItemKind::Assistant => self.event(told, part_index, What::Said(text)),
            ItemKind::User => {
                if let Some(typed) = told.item.typed(part_index) {
                    self.event(told, part_index, What::User(typed));
                }
            }
            ItemKind::Notification => self.event(told, part_index, What::Host(text)),
            // Instructions are given again by the host, whoever compacts.
            ItemKind::Tool | ItemKind::System | ItemKind::Developer | ItemKind::Context => {}
        }
    }
}
