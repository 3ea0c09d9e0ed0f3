//! What was folded, as texts: who wrote each, and what it is about.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt};

use super::findings::{PartFindings, changes_of};
use super::{Hidden, Told, earlier, findings_of};
use crate::holds::Holds;
use crate::ids::CallId;
use crate::item::{Item, ItemKind};
use crate::ledger::{command_text, error_line, test_clause};
use crate::part::{Part, ResultPart, ToolCall, ToolResult};
use crate::reading::{clipped, text_of};
use crate::tools::{Action, Outcome, TodoEntry};

/// Who wrote a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    User,
    Agent,
    /// The agent, where nobody was meant to read it.
    Thought,
    Tool,
    /// Whoever set the scene: system prompts, context, notifications.
    Host,
}

/// Who wrote a part of an item.
pub(super) fn author_of(kind: ItemKind, part: &Part) -> Author {
    match (part, kind) {
        (Part::ToolCall(_), _) => Author::Agent,
        (Part::ToolResult(_), _) => Author::Tool,
        (Part::Reasoning(_), _) => Author::Thought,
        (_, ItemKind::User) => Author::User,
        (_, ItemKind::Assistant) => Author::Agent,
        (_, ItemKind::Tool) => Author::Tool,
        (_, ItemKind::System | ItemKind::Developer | ItemKind::Context | ItemKind::Notification) => {
            Author::Host
        }
    }
}

/// What a text is about, as an index into the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TopicIndex(pub(super) u32);

/// One text.
#[derive(Debug)]
pub(super) struct Source<'r> {
    pub(super) item_index: usize,
    pub(super) author: Author,
    pub(super) topic: TopicIndex,
    pub(super) text: Cow<'r, str>,
    /// Whether some of it can still be seen, beside the digest.
    pub(super) is_beside: bool,
    /// Whether a user wrote it so long ago that only their sentences are quoted, and no names listed.
    pub(super) is_old: bool,
    /// What was found in it before.
    pub(super) known: Option<&'r PartFindings>,
}

/// What texts are about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A file that was read or changed.
    File(String),
    /// A command that was run.
    Command(String),
    /// Another tool, by name.
    Tool(String),
    /// What the agent said.
    Notes,
    /// What was given to the agent.
    Scene,
    /// What an earlier summary says.
    Earlier,
}

/// A subject, and what happened to it.
#[derive(Debug)]
pub(super) struct Topic<'r> {
    pub(super) subject: Subject,
    pub(super) read_count: usize,
    pub(super) change_count: usize,
    /// How often it was run or called.
    pub(super) call_count: usize,
    /// Whether the last thing that happened to a file is that it was deleted.
    pub(super) is_deleted: bool,
    /// The newest item that changed it, or else that was about it.
    pub(super) newest_item: usize,
    /// What the agent said when it last changed it.
    pub(super) why: Option<&'r str>,
    /// How it ended last, as a clause.
    pub(super) outcome: Option<String>,
    /// The last failure that nothing after it put right.
    pub(super) open_error: Option<(usize, String)>,
    /// What an earlier digest said happened to it.
    pub(super) earlier: Option<String>,
}

impl Topic<'_> {
    fn new(subject: Subject) -> Self {
        Self {
            subject,
            read_count: 0,
            change_count: 0,
            call_count: 0,
            is_deleted: false,
            newest_item: 0,
            why: None,
            outcome: None,
            open_error: None,
            earlier: None,
        }
    }
}

/// As much is quoted of the line that an error begins with.
const ERROR_BYTES_MAX: usize = 160;

/// All but the user's words is read up to this much, the newest first: about 135,000 tokens.
const READ_BYTES_MAX: usize = 1 << 19;

/// Before that, what the agent wrote is read up to this much: names that it gave to a tool are needed
/// again more often than those which only a tool answered with.
const OWN_BYTES_MAX: usize = 1 << 18;

/// Bytes of what can be read in a part.
pub(super) fn size_of(part: &Part) -> usize {
    match part {
        Part::ToolCall(call) => call.input.as_str().len(),
        Part::ToolResult(result) => result.content.iter().filter_map(ResultPart::as_text).map(str::len).sum(),
        Part::Reasoning(reasoning) => reasoning.text.len(),
        Part::Text(_) | Part::Structured(_) | Part::File(_) | Part::Media(_) | Part::Opaque(_) => {
            text_of(part).len()
        }
    }
}

/// How much of an item is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    Whole,
    /// It is of long ago: only what the user said, what a summary says, which files were changed.
    Old,
}

/// How far back items are read: the newest whole, before them what the user and the agent wrote.
#[derive(Debug)]
pub(crate) struct Reach {
    bytes_left: usize,
    own_bytes_left: usize,
}

impl Reach {
    pub(crate) fn new() -> Self {
        Self { bytes_left: READ_BYTES_MAX, own_bytes_left: OWN_BYTES_MAX }
    }

    /// How much of the next item is read, going from the newest one back.
    pub(crate) fn depth_of(&mut self, kind: ItemKind, item: &Item) -> Depth {
        let bytes = || item.parts.iter().map(size_of).sum();
        if self.bytes_left > 0 && kind != ItemKind::User {
            self.bytes_left = self.bytes_left.saturating_sub(bytes());
        }
        if self.bytes_left > 0 {
            return Depth::Whole;
        }
        if self.own_bytes_left > 0 && kind == ItemKind::Assistant {
            self.own_bytes_left = self.own_bytes_left.saturating_sub(bytes());
        }
        let is_own = self.own_bytes_left > 0 && matches!(kind, ItemKind::User | ItemKind::Assistant);
        if is_own { Depth::Whole } else { Depth::Old }
    }
}

/// Everything folded, read once.
#[derive(Debug, Default)]
pub(super) struct Sources<'r> {
    pub(super) texts: Vec<Source<'r>>,
    pub(super) topics: Vec<Topic<'r>>,
    /// The newest list of things to do.
    pub(super) todos: Vec<TodoEntry>,
    /// The newest failure, whether or not something fixed it since: one that a tool reported as such,
    /// else any.
    pub(super) last_error: Option<(TopicIndex, String)>,
    is_last_error_reported: bool,
    index: HashMap<Subject, TopicIndex>,
    calls: HashMap<&'r CallId, (TopicIndex, Cow<'r, [Action]>)>,
}

impl<'r> Sources<'r> {
    /// Reads recorded items: the newest whole, of those before them what the agent wrote, and of a
    /// very long past what the user said and which files were changed.
    pub(super) fn read(items: &[Told<'r>]) -> Self {
        let mut reach = Reach::new();
        let newest_first = items.iter().rev();
        let depths: Vec<Depth> = newest_first.map(|told| reach.depth_of(told.kind, told.item)).collect();
        let whole_count = depths.iter().filter(|&&depth| depth == Depth::Whole).count();
        let mut sources = Self { calls: HashMap::with_capacity(whole_count), ..Self::default() };
        for (told, depth) in items.iter().zip(depths.into_iter().rev()) {
            match depth {
                Depth::Whole => sources.push(told),
                Depth::Old => sources.push_old(told),
            }
        }
        sources
    }

    /// Of an item of long ago: what the user said, what a summary says, which files were changed.
    fn push_old(&mut self, told: &Told<'r>) {
        if told.kind == ItemKind::User || told.holds.contains(Holds::SUMMARY) {
            let first = self.texts.len();
            self.push(told);
            let said = self.texts[first..].iter_mut().filter(|source| source.author == Author::User);
            said.for_each(|source| source.is_old = true);
        } else if told.holds.contains(Holds::CHANGE) {
            let changes = match told.findings {
                Some(findings) => Cow::Borrowed(findings.get().changes(told.item)),
                None => Cow::Owned(changes_of(told.item)),
            };
            for action in &*changes {
                self.act(told.index, action, said_in(told.item));
            }
        }
    }

    pub(super) fn topic(&self, topic: TopicIndex) -> &Topic<'r> {
        &self.topics[topic.0 as usize]
    }

    fn push(&mut self, told: &Told<'r>) {
        let (item_index, item) = (told.index, told.item);
        if item.summary.is_some() {
            item.parts.iter().for_each(|part| earlier::take_in(self, item_index, text_of(part)));
            return;
        }
        let said = said_in(item);
        for (part_index, part) in item.parts.iter().enumerate() {
            let is_hidden = told.hidden.contains(part_index);
            if !is_hidden && !matches!(part, Part::ToolCall(_)) {
                continue;
            }
            let known = findings_of(told, part_index);
            let author = author_of(item.kind, part);
            let topic = match part {
                Part::ToolCall(call) => self.call(item_index, call, known, said),
                Part::ToolResult(result) => self.answer(item_index, result, part, known),
                _ => self.spoken(author),
            };
            let text = match (part, known) {
                (Part::ToolCall(_), _) if !is_hidden => continue,
                (Part::ToolCall(_), Some(known)) => Cow::Borrowed(known.call_text(part)),
                _ => text_of(part),
            };
            if !text.trim().is_empty() {
                let is_beside = told.hidden != Hidden::Whole;
                self.texts.push(Source { item_index, author, topic, text, is_beside, is_old: false, known });
            }
        }
    }

    fn spoken(&mut self, author: Author) -> TopicIndex {
        self.about(match author {
            Author::User | Author::Agent | Author::Thought => Subject::Notes,
            Author::Tool => Subject::Tool("tool".into()),
            Author::Host => Subject::Scene,
        })
    }

    /// The topic of a subject; a new one where there is none yet.
    pub(super) fn about(&mut self, subject: Subject) -> TopicIndex {
        if let Some(&topic) = self.index.get(&subject) {
            return topic;
        }
        let topic = TopicIndex(u32::try_from(self.topics.len()).unwrap_or(u32::MAX));
        self.topics.push(Topic::new(subject.clone()));
        self.index.insert(subject, topic);
        topic
    }

    pub(super) fn topic_mut(&mut self, topic: TopicIndex) -> &mut Topic<'r> {
        &mut self.topics[topic.0 as usize]
    }

    fn call(
        &mut self,
        item_index: usize,
        call: &'r ToolCall,
        known: Option<&'r PartFindings>,
        said: Option<&'r str>,
    ) -> TopicIndex {
        let actions = actions_of(call, known);
        let mut subject = None;
        for action in &*actions {
            if let Some(topic) = self.act(item_index, action, said) {
                subject.get_or_insert(topic);
            }
        }
        let topic = subject.unwrap_or_else(|| {
            let topic = self.about(Subject::Tool(call.name.as_str().to_owned()));
            self.topic_mut(topic).call_count += 1;
            self.topic_mut(topic).newest_item = item_index;
            topic
        });
        self.calls.insert(&call.id, (topic, actions));
        topic
    }

    /// Takes an action in, and returns what it is about.
    fn act(&mut self, item_index: usize, action: &Action, said: Option<&'r str>) -> Option<TopicIndex> {
        if let Action::Todo(todos) = action {
            self.todos.clone_from(todos);
        }
        let index = self.about(subject_of(action)?);
        let topic = self.topic_mut(index);
        topic.call_count += 1;
        topic.newest_item = item_index;
        if action.is_change() {
            topic.change_count += 1;
            topic.is_deleted = matches!(action, Action::Delete { .. });
            topic.why = said.or(topic.why);
        } else if matches!(action, Action::Read { .. }) {
            topic.read_count += 1;
        }
        Some(index)
    }

    fn answer(
        &mut self,
        item_index: usize,
        result: &'r ToolResult,
        part: &Part,
        known: Option<&'r PartFindings>,
    ) -> TopicIndex {
        let outcome = |actions: &[Action]| match known {
            Some(known) => known.outcome(result, actions),
            None => Outcome::of(result, actions),
        };
        let (topic, outcome) = match self.calls.get(&result.call_id) {
            Some((topic, actions)) => (*topic, outcome(actions)),
            // What it answers may only not be read yet.
            None => (self.about(Subject::Tool("tool".to_owned())), Outcome::of(result, &[])),
        };
        let about = self.topic_mut(topic);
        about.outcome = clause(&outcome);
        about.open_error =
            outcome.failed.then(|| (item_index, error_told(&text_of(part), command_of(&about.subject))));
        if outcome.failed && (result.is_error || !self.is_last_error_reported) {
            self.last_error = self.topic(topic).open_error.clone().map(|(_, line)| (topic, line));
            self.is_last_error_reported = result.is_error;
        }
        topic
    }
}

/// What an assistant item says beside what it does.
fn said_in(item: &Item) -> Option<&str> {
    item.parts.iter().find_map(|part| match part {
        Part::Text(text) if item.kind == ItemKind::Assistant => Some(text.as_str()),
        _ => None,
    })
}

fn actions_of<'r>(call: &'r ToolCall, known: Option<&'r PartFindings>) -> Cow<'r, [Action]> {
    match known {
        Some(known) => Cow::Borrowed(known.actions(call)),
        None => Cow::Owned(Action::of(call)),
    }
}

/// How a call ended, in a few words.
fn clause(outcome: &Outcome) -> Option<String> {
    let code = outcome.exit_code.map(|code| format!("exit {code}"));
    let tests = outcome.tests.as_ref().map(test_clause);
    let failed = (outcome.failed && code.is_none() && tests.is_none()).then(|| "failed".to_owned());
    let clauses: Vec<String> = [code, tests, failed].into_iter().flatten().collect();
    (!clauses.is_empty()).then(|| clauses.join(", "))
}

fn subject_of(action: &Action) -> Option<Subject> {
    match action {
        Action::Read { path, .. }
        | Action::Write { path }
        | Action::Edit { path }
        | Action::Delete { path } => Some(Subject::File(path.clone())),
        Action::Run { command, .. } => Some(Subject::Command(command_text(command).to_owned())),
        Action::Search { .. }
        | Action::List { .. }
        | Action::Todo(_)
        | Action::Agent { .. }
        | Action::Fetch { .. }
        | Action::Wait { .. } => None,
    }
}

fn command_of(subject: &Subject) -> Option<&str> {
    match subject {
        Subject::Command(command) => command.lines().next(),
        Subject::File(_) | Subject::Tool(_) | Subject::Notes | Subject::Scene | Subject::Earlier => None,
    }
}

/// What an error is told by: the line that names it, after the one that it begins with, unless that
/// repeats the command.
fn error_told(text: &str, command: Option<&str>) -> String {
    let is_repeated = |line: &str| command.is_some_and(|command| line.contains(command));
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !is_repeated(line)).unwrap_or("");
    let first = clipped(first, ERROR_BYTES_MAX);
    let named = error_line(text);
    match first.is_empty() {
        true => named.to_owned(),
        false if first.contains(named) => first.to_owned(),
        false => format!("{first} … {named}"),
    }
}

/// The start of a text up to the end of its first sentence.
pub(super) fn first_sentence(text: &str, bytes_max: usize) -> &str {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    let end = line.find(". ").map_or(line.len(), |end| end + 1);
    clipped(&line[..end], bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::folded;

    #[test]
    fn the_agents_words_are_read_further_back_than_answers_and_the_users_always() {
        let long = |bytes: usize| "word ".repeat(bytes / 5);
        let said = |id: &str, bytes: usize| Item::assistant(id, vec![Part::text(long(bytes))]);
        let answered = |id: &str, bytes: usize| Item::tool(id, ToolResult::text("c", long(bytes)));
        let items = [
            Item::user("user", "Use tabs in src/far.rs."),
            said("too-old", OWN_BYTES_MAX / 3 * 2),
            said("own", OWN_BYTES_MAX / 3 * 2),
            answered("old-answer", READ_BYTES_MAX / 8),
            said("recent", 100),
            answered("answer", READ_BYTES_MAX - 1_000),
        ];
        let items = folded(items.iter());
        let sources = Sources::read(&items);
        let read: Vec<(&str, bool)> = sources
            .texts
            .iter()
            .map(|source| (items[source.item_index].item.id.as_str(), source.is_old))
            .collect();
        assert_eq!(read, [("user", true), ("own", false), ("recent", false), ("answer", false)]);
    }
}
