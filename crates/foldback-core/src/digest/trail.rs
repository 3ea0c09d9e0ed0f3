//! The trail: what happened turn by turn, in order. It is filled in rounds, from what matters most to
//! what is good to have; each round goes from the newest to the oldest, and a later round may tell the
//! same thing at greater length.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt, HashSet};

use super::BYTES_PER_TOKEN;
use super::deeds::{Stretch, content_of, failed, guide_rules, said_by_command, stretches, written_in};
use super::speech::{is_acknowledgement, is_filler, is_telling, number_of, numbers_in};
use super::state::{Tried, deeds, families, tried};
use super::statements::{Statements, Worth};
use super::story::{Event, Story, What};
use super::text::{both_ends, condensed, in_one_line, note, set_back, users, without_code};
use super::words::{quoted, worth_at_least};
use crate::ids::Text;
use crate::reading::clipped;
use crate::tokens::Meter;
use crate::tools::Action;

/// Bytes quoted of a message that the reader still sees in full below.
const VISIBLE_BYTES_MAX: usize = 100;
const VISIBLE_BYTES_MIN: usize = 12;

/// What a digest says where it would be empty.
const SAID_AGAIN: &str = "(only small talk, and what is said again later, word for word)";

/// A user message up to this length may need the question that it answers.
const SHORT_ANSWER_BYTES: usize = 120;

/// Bytes quoted of a question together with the choices that it offers.
const QUESTION_BYTES_MAX: usize = 700;

/// Bytes quoted of what one change wrote, and the number of changes that are quoted.
const CONTENT_BYTES_MAX: usize = 1_600;
const CONTENTS_MAX: usize = 8;

/// The newest plan may take one part in so many of the room.
const PLAN_DIVISOR: usize = 6;

/// An older message of the agent above this size loses its long blocks of code.
const CODE_BYTES_MAX: usize = 500;

/// What an agent asks stands at the end of what it says.
const QUESTION_LINES_MAX: usize = 6;

/// Bytes quoted of one choice.
const CHOICE_BYTES_MAX: usize = 220;

/// Changes of one file whose signatures are listed, the newest first.
const WRITTEN_OF_ONE_FILE_MAX: usize = 5;

/// Documents that the user named and the agent read.
const DOCUMENTS_MAX: usize = 2;
const DOCUMENT_BYTES_MAX: usize = 4_000;

/// Names of files shorter than this may stand in a message by chance.
const FILE_NAME_BYTES_MIN: usize = 5;

/// The user's rules may take this share of the room before anything else is written.
const RULES_PERCENT: u64 = 60;

/// In a smaller room the user's rules may take all of it.
const LITTLE_TOKENS: u64 = 400;

/// What happened within the last part of the story is new; within the first it is old.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    New,
    Middling,
    Old,
}

/// What something is, where several things are told of one event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Asked,
    Told,
    Done,
    Failed,
    Written,
    Content,
}

/// The number of an event, and what is told of it.
type Place = (usize, Slot);

/// The trail while it is filled.
pub(super) struct Trail<'a, 'r> {
    story: &'a Story<'r>,
    kept: &'a [Text],
    focus: Option<&'a str>,
    meter: &'a Meter,
    statements: Statements,
    /// Where the agent says what it says again later, word for word.
    said_again: HashSet<usize>,
    entries: BTreeMap<Place, (u64, String)>,
    /// What stood at a place before, so that the last can be taken back first.
    before: Vec<(Place, Option<(u64, String)>)>,
    used: u64,
    room: u64,
}

impl<'a, 'r> Trail<'a, 'r> {
    pub(super) fn new(
        story: &'a Story<'r>,
        kept: &'a [Text],
        focus: Option<&'a str>,
        meter: &'a Meter,
    ) -> Self {
        let (statements, said_again) = (Statements::of(story), said_again(story));
        let (entries, before) = (BTreeMap::new(), Vec::new());
        Self { story, kept, focus, meter, statements, said_again, entries, before, used: 0, room: 0 }
    }

    /// The rules of the user, before anything else has room.
    pub(super) fn fill_rules(&mut self, room: u64) {
        let percent = if room < LITTLE_TOKENS { 100 } else { RULES_PERCENT };
        self.room = room * percent / 100;
        self.statements(Worth::Ban);
        self.statements(Worth::Rule);
    }

    /// What the user said that is worth as much.
    fn statements(&mut self, worth: Worth) {
        for number in self.told(|what| matches!(what, What::User(_))) {
            let What::User(text) = &self.story.events[number].what else { continue };
            let kept = self.kept;
            let is_beside = self.story.events[number].is_beside;
            let is_hidden = |said: &str| !is_beside || !kept.iter().any(|text| text.contains(said));
            if let Some(told) = worth_at_least(text, self.statements.at(number), worth, is_hidden) {
                self.offer_written((number, Slot::Told), users(&told));
            }
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Everything else, as far as there is room.
    pub(super) fn fill(&mut self, room: u64) {
        self.room = room;
        let room_bytes = room as usize * BYTES_PER_TOKEN;
        self.statements(Worth::Fact);
        self.visible_users();
        self.users(|_| 400);
        self.unquoted_users();
        self.closings(|_| 300);
        self.asked_and_planned();
        self.users(|age| if age == Age::Old { 1_200 } else { 2_400 });
        self.closings(|age| [1_800, 1_000, 600][age as usize]);
        self.done();
        self.focused();
        self.said(true, |age| [600, 400, 300][age as usize]);
        self.failures();
        self.documents(room_bytes / 8);
        self.written(1);
        self.said(false, |age| [500, 320, 240][age as usize]);
        self.written(WRITTEN_OF_ONE_FILE_MAX);
        self.guides(room_bytes / 12);
        self.command_outputs();
        self.contents();
        for scale in [2, 4, 8, 16] {
            self.closings(|age| scale * [2_000, 1_200, 800][age as usize]);
            self.users(|_| scale * 2_400);
            self.said(true, |age| scale * [600, 400, 300][age as usize]);
        }
        self.thoughts();
        self.notices();
    }

    /// Says so where nothing of what was said is worth a line.
    pub(super) fn fill_if_empty(&mut self) {
        let said = self.told(|what| matches!(what, What::User(_) | What::Said(_)));
        if let (true, Some(&first)) = (self.entries.is_empty(), said.last()) {
            self.offer((first, Slot::Asked), SAID_AGAIN);
        }
    }

    /// The trail as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut was_user = false;
        for ((number, slot), (_, entry)) in &self.entries {
            if *slot == Slot::Asked && self.is_told_above(*number, entry) {
                continue;
            }
            // A turn begins behind an empty line; messages that nothing was done about stand together.
            let is_user = matches!(self.story.events[*number].what, What::User(_));
            if is_user && !was_user && !text.is_empty() {
                text.push('\n');
            }
            was_user = is_user;
            text.push('\n');
            text.push_str(entry);
        }
        text
    }

    /// Whether the trail tells a question right above the answer, with what the agent said then.
    fn is_told_above(&self, number: usize, asked: &str) -> bool {
        let before = self.entries.range(..(number, Slot::Asked)).rev();
        let said = before.into_iter().find(|((number, slot), _)| {
            *slot == Slot::Told && matches!(self.story.events[*number].what, What::Said(_))
        });
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        said.is_some_and(|(_, (_, told))| {
            let told = words(told);
            asked.trim_start_matches("asked: ").split(" / ").all(|line| told.contains(line))
        })
    }

    /// Takes back what was told last; `false` where nothing is left.
    pub(super) fn take_back(&mut self) -> bool {
        let Some((place, before)) = self.before.pop() else { return false };
        let tokens_before = before.as_ref().map_or(0, |(tokens, _)| *tokens);
        let taken = match before {
            Some(entry) => self.entries.insert(place, entry),
            None => self.entries.remove(&place),
        };
        self.used = (self.used + tokens_before).saturating_sub(taken.map_or(0, |(tokens, _)| tokens));
        true
    }

    fn offer(&mut self, place: Place, text: &str) -> bool {
        self.offer_written(place, note(text))
    }

    /// Takes lines as they are written, if there is room for them.
    fn offer_written(&mut self, place: Place, text: String) -> bool {
        if text.trim().is_empty() {
            return false;
        }
        let known = self.entries.get(&place).map(|(tokens, text)| (*tokens, text.len()));
        let (tokens_before, bytes_before) = known.unwrap_or((0, 0));
        if text.len() <= bytes_before {
            return false;
        }
        let tokens = self.meter.text(&text) + 1;
        if self.used - tokens_before + tokens > self.room {
            return false;
        }
        self.used = self.used - tokens_before + tokens;
        let before = self.entries.insert(place, (tokens, text));
        self.before.push((place, before));
        true
    }

    /// The events of a kind that the reader does not see, the newest first.
    fn told(&self, is_wanted: impl Fn(&What<'r>) -> bool) -> Vec<usize> {
        let is_told = |(_, event): &(usize, &Event<'r>)| !event.is_visible && is_wanted(&event.what);
        self.story.events.iter().enumerate().rev().filter(is_told).map(|(number, _)| number).collect()
    }

    fn age(&self, number: usize) -> Age {
        let share = (self.story.events.len() - number) * 100 / self.story.events.len().max(1);
        match share {
            0..25 => Age::New,
            25..60 => Age::Middling,
            _ => Age::Old,
        }
    }

    /// Where a message stood that can be seen below, if something is told that came after it.
    fn visible_users(&mut self) {
        let last = self.story.events.iter().rposition(|event| !event.is_visible).unwrap_or(0);
        let first = self.story.events.iter().position(|event| !event.is_visible).unwrap_or(0);
        for number in first..last {
            let event = &self.story.events[number];
            if let (true, What::User(text)) = (event.is_visible, &event.what)
                && text.trim().len() >= VISIBLE_BYTES_MIN
            {
                let text = in_one_line(text, VISIBLE_BYTES_MAX);
                self.offer(
                    (number, Slot::Told),
                    &format!("(here the user said what stands below: “{text}”)"),
                );
            }
        }
    }

    /// Where not every message of the user fits, says how many are left out, and how the first begins.
    fn unquoted_users(&mut self) {
        if self.room < LITTLE_TOKENS / 2 {
            return;
        }
        loop {
            let is_left_out = |&number: &usize| {
                let is_told =
                    [Slot::Told, Slot::Asked].iter().any(|&slot| self.entries.contains_key(&(number, slot)));
                !is_told && !self.story.events[number].is_beside && !self.statements.is_outdated(number)
            };
            let left_out: Vec<usize> =
                self.told(|what| matches!(what, What::User(_))).into_iter().filter(is_left_out).collect();
            let Some(&first) = left_out.last() else { return };
            let What::User(text) = &self.story.events[first].what else { return };
            let begins = in_one_line(text, VISIBLE_BYTES_MAX);
            let line = format!(
                "({} messages of the user are not quoted; the first begins “{begins}”)",
                left_out.len()
            );
            if self.offer((first, Slot::Asked), &line) || !self.take_back() {
                return;
            }
        }
    }

    fn users(&mut self, bytes_max: impl Fn(Age) -> usize) {
        for number in self.told(|what| matches!(what, What::User(_))) {
            let What::User(text) = &self.story.events[number].what else { continue };
            if self.story.events[number].is_beside || self.statements.is_outdated(number) {
                continue;
            }
            let age = if number == 0 { Age::New } else { self.age(number) };
            let quoted = users(&quoted(text, self.statements.at(number), bytes_max(age)));
            if let Some(asked) = self.asked_before(number, text) {
                self.offer((number, Slot::Asked), &format!("asked: {asked}"));
            }
            self.offer_written((number, Slot::Told), quoted);
        }
    }

    /// What a short answer answers: the question that was asked last, or the choices that it names.
    fn asked_before(&self, number: usize, answer: &str) -> Option<String> {
        let answer = answer.trim();
        if answer.len() > SHORT_ANSWER_BYTES {
            return None;
        }
        let said = self.said_before(number)?;
        let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
        let numbers = numbers_in(answer);
        let named = |wanted: &u32| lines().rfind(|line| number_of(line) == Some(*wanted));
        let mut told: Vec<&str> =
            numbers.iter().filter_map(named).map(|line| clipped(line, CHOICE_BYTES_MAX)).collect();
        let is_answer = numbers.is_empty() || !told.is_empty();
        let end: Vec<&str> = lines().rev().take(QUESTION_LINES_MAX).collect();
        let question =
            end.into_iter().find(|line| line.trim_end_matches(['*', '_', '"', ')']).ends_with('?'));
        if let Some(question) = question.filter(|_| is_answer && !answer.ends_with('?')) {
            told.insert(0, question);
        }
        (!told.is_empty()).then(|| in_one_line(&told.join(" / "), QUESTION_BYTES_MAX))
    }

    /// What the agent said last before an event, in the same turn.
    fn said_before(&self, number: usize) -> Option<&str> {
        let before = self.story.events[..number].iter().rev();
        let mut before = before.take_while(|event| !matches!(event.what, What::User(_)));
        before.find_map(|event| match &event.what {
            What::Said(text) => Some(&**text),
            _ => None,
        })
    }

    /// What an agent closes a turn with is its own summary of it.
    fn closings(&mut self, bytes_max: impl Fn(Age) -> usize) {
        let events = &self.story.events;
        let mut closing = None;
        let mut closings = Vec::new();
        for (number, event) in events.iter().enumerate() {
            match &event.what {
                What::Said(_) => closing = Some(number),
                What::User(_) => closings.extend(closing.take()),
                _ => {}
            }
        }
        closings.extend(closing);
        for number in closings.into_iter().rev().filter(|&number| !events[number].is_visible) {
            let What::Said(text) = &events[number].what else { continue };
            if self.said_again.contains(&number) || is_acknowledgement(text) {
                continue;
            }
            let (age, bytes_max) = (self.age(number), bytes_max(self.age(number)));
            let text =
                without_code(text, if age == Age::New { bytes_max } else { bytes_max.min(CODE_BYTES_MAX) });
            self.offer((number, Slot::Told), &format!("said: {}", set_back(&condensed(&text, bytes_max))));
        }
    }

    /// What the agent said on the way; first what gives a reason or tells a finding.
    fn said(&mut self, is_telling_only: bool, bytes_max: impl Fn(Age) -> usize) {
        for number in self.told(|what| matches!(what, What::Said(_))) {
            let What::Said(text) = &self.story.events[number].what else { continue };
            if self.said_again.contains(&number) {
                continue;
            }
            let is_told = if is_telling_only { is_telling(text) } else { !is_filler(text) };
            if is_told {
                let text = condensed(text, bytes_max(self.age(number)));
                self.offer((number, Slot::Told), &format!("said: {}", set_back(&text)));
            }
        }
    }

    /// What the agent thought to itself in turns in which it said nothing.
    fn thoughts(&mut self) {
        let mut is_silent = true;
        let mut silent = Vec::new();
        let mut turn = Vec::new();
        for (number, event) in self.story.events.iter().enumerate() {
            match &event.what {
                What::User(_) => {
                    silent.extend(std::mem::take(&mut turn).into_iter().filter(|_| is_silent));
                    is_silent = true;
                }
                What::Said(_) => is_silent = false,
                What::Thought(text) if !event.is_visible && is_telling(text) => turn.push(number),
                _ => {}
            }
        }
        silent.extend(turn.into_iter().filter(|_| is_silent));
        for number in silent.into_iter().rev() {
            let What::Thought(text) = &self.story.events[number].what else { continue };
            self.offer((number, Slot::Told), &format!("thought: {}", set_back(&both_ends(text, 300))));
        }
    }

    /// What came in beside the conversation, in a line each.
    fn notices(&mut self) {
        for number in self.told(|what| matches!(what, What::Host(_))) {
            let What::Host(text) = &self.story.events[number].what else { continue };
            let summary = text.split_once("<summary>").and_then(|(_, rest)| rest.split_once("</summary>"));
            if let Some((summary, _)) = summary {
                self.offer((number, Slot::Told), &format!("notice: {}", in_one_line(summary, 140)));
            }
        }
    }

    /// What commands said that nobody told.
    fn command_outputs(&mut self) {
        for number in self.told(|what| matches!(what, What::Did(_))) {
            let What::Did(did) = &self.story.events[number].what else { continue };
            if self.age(number) != Age::New {
                break;
            }
            if let Some(text) = said_by_command(did) {
                self.offer((number, Slot::Written), &text);
            }
        }
    }

    /// What was written, word for word, the newest first.
    fn contents(&mut self) {
        let mut left = CONTENTS_MAX;
        for number in self.told(|what| matches!(what, What::Did(_))) {
            let What::Did(did) = &self.story.events[number].what else { continue };
            if left == 0 {
                break;
            }
            if let Some(text) = content_of(did, CONTENT_BYTES_MAX)
                && self.offer((number, Slot::Content), &text)
            {
                left -= 1;
            }
        }
    }

    /// Rules in guides of the project that the agent read.
    fn guides(&mut self, bytes_max: usize) {
        let mut told: Vec<&str> = Vec::new();
        for number in self.told(|what| matches!(what, What::Did(_))) {
            let What::Did(did) = &self.story.events[number].what else { continue };
            if let Some((path, text)) = guide_rules(did, bytes_max).filter(|(path, _)| !told.contains(path))
                && self.offer((number, Slot::Written), &text)
            {
                told.push(path);
            }
        }
    }

    /// Questions that were asked with a tool and their answers, and plans that were proposed.
    fn asked_and_planned(&mut self) {
        let mut told: HashSet<String> = HashSet::default();
        for number in self.told(|what| matches!(what, What::Did(_))) {
            let What::Did(did) = &self.story.events[number].what else { continue };
            if did.asks() {
                let answer = did.answer.as_deref().unwrap_or("nothing yet");
                let asked = in_one_line(&crate::reading::text_of_call(did.call), 900);
                let told = match answer.contains("\"=\"") {
                    // The answer repeats the question.
                    true => format!("asked and answered: {}", in_one_line(answer, 1_200)),
                    false => format!("asked: {asked}\n  answered: {}", in_one_line(answer, 500)),
                };
                self.offer((number, Slot::Told), &told);
            } else if let Some((name, plan)) = did.plan().filter(|(name, _)| told.insert(name.clone())) {
                // What a tool answered is no part of a plan.
                let refused = if did.is_refused() { ", which the user refused" } else { "" };
                // The newest plan is in force; of those before it, what they were about.
                let longest = if told.len() == 1 {
                    (self.room as usize * BYTES_PER_TOKEN / PLAN_DIVISOR).max(700)
                } else {
                    400
                };
                for bytes_max in [400, longest] {
                    let plan = match told.len() {
                        1 => condensed(&plan, bytes_max),
                        _ => in_one_line(&plan, bytes_max),
                    };
                    let plan = set_back(&plan);
                    self.offer((number, Slot::Told), &format!("planned{name}{refused}: {plan}"));
                }
            }
        }
    }

    /// What was done between two things that were said, in a line each.
    fn done(&mut self) {
        let mut stretches = stretches(self.story);
        stretches.reverse();
        for Stretch { start, text } in stretches {
            self.offer((start, Slot::Done), &format!("did: {text}"));
        }
    }

    /// What the summary was asked to attend to.
    fn focused(&mut self) {
        let Some(focus) = self.focus else { return };
        let words: Vec<String> = focus
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| word.len() > 3)
            .map(str::to_lowercase)
            .collect();
        for number in self.told(|what| matches!(what, What::Said(_))) {
            let What::Said(text) = &self.story.events[number].what else { continue };
            let lower = text.to_lowercase();
            if words.iter().any(|word| lower.contains(word)) {
                self.offer((number, Slot::Told), &format!("said: {}", set_back(&both_ends(text, 1_200))));
            }
        }
    }

    /// Calls that failed on the way, with the line that says why, and whether that was put right.
    fn failures(&mut self) {
        let mut succeeded: Vec<Tried> = Vec::new();
        let mut told: HashSet<String> = HashSet::default();
        let newest_first: Vec<usize> = deeds(self.story).map(|(number, ..)| number).rev().collect();
        for number in newest_first {
            let event = &self.story.events[number];
            let What::Did(did) = &event.what else { continue };
            if did.answer.is_some() && !did.outcome.failed {
                succeeded.extend(families(did));
            } else if let Some(said) =
                failed(did).filter(|said| !event.is_visible && told.insert(said.clone()))
            {
                let is_right = families(did).iter().any(|family| family.is_right_after(&succeeded));
                let what = if is_right { "failed, put right later" } else { "failed" };
                self.offer((number, Slot::Failed), &format!("  {} {what}: {said}", tried(did)));
            }
        }
    }

    /// What stands in documents that the user named.
    fn documents(&mut self, bytes_max: usize) {
        let names: String = self
            .story
            .events
            .iter()
            .filter_map(|event| match &event.what {
                What::User(text) => Some(&**text),
                _ => None,
            })
            .collect();
        let mut told: Vec<&str> = Vec::new();
        for number in self.told(|what| matches!(what, What::Did(_))) {
            let What::Did(did) = &self.story.events[number].what else { continue };
            let read = did.actions.iter().find_map(|action| match action {
                Action::Read { path, .. } => Some(path.as_str()),
                _ => None,
            });
            let Some(path) = read.filter(|path| !told.contains(path) && !did.outcome.failed) else {
                continue;
            };
            let name = path.rsplit('/').next().unwrap_or(path);
            let is_text = [".md", ".txt", ".rst", ".adoc"].iter().any(|ending| name.ends_with(ending));
            if !is_text
                || name.len() < FILE_NAME_BYTES_MIN
                || !names.contains(name)
                || told.len() == DOCUMENTS_MAX
            {
                continue;
            }
            let answer = did.answer.as_deref().unwrap_or("");
            let text = condensed(answer, bytes_max.min(DOCUMENT_BYTES_MAX));
            if self.offer((number, Slot::Written), &format!("  `{path}` says: {}", set_back(&text))) {
                told.push(path);
            }
        }
    }

    /// Signatures and reasons in what was written lately.
    fn written(&mut self, of_one_file_max: usize) {
        let mut told: HashMap<String, usize> = HashMap::new();
        for number in self.told(|what| matches!(what, What::Did(_))) {
            let What::Did(did) = &self.story.events[number].what else { continue };
            if let Some((path, text)) = written_in(did) {
                let count = told.entry(path).or_default();
                *count += 1;
                if *count <= of_one_file_max {
                    self.offer((number, Slot::Written), &text);
                }
            }
        }
    }
}

/// The events in which the agent says what it says again later.
fn said_again(story: &Story<'_>) -> HashSet<usize> {
    let mut later: HashSet<&str> = HashSet::default();
    let newest_first = story.events.iter().enumerate().rev();
    let said = newest_first.filter_map(|(number, event)| match &event.what {
        What::Said(text) => Some((number, text.trim())),
        _ => None,
    });
    said.filter(|(_, text)| !later.insert(text)).map(|(number, _)| number).collect()
}
