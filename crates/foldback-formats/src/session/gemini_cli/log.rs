//! The newer kind of session file: a log of lines.

use std::collections::HashMap;

use foldback_core::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::{self, Message, Reader};
use super::write::{self, WrittenMessage};
use super::{content, reading};
use crate::conversation::{Conversation, Extension, FilePlace, Made, Note, Seen, Shown};
use crate::error::{FormatError, Problem};
use crate::format::{Format, Reading, SessionFile};
use crate::jsonl;
use crate::rfc3339;

/// What tells a line of a log from a session file in one line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head<'a> {
    session_id: Option<Text>,
    project_hash: Option<Text>,
    id: Option<Text>,
    #[serde(rename = "type")]
    kind: Option<Text>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, rename = "$set")]
    set: Option<&'a RawValue>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<Text>,
}

impl Head<'_> {
    pub(super) fn is_of_log(&self) -> bool {
        let is_metadata = self.session_id.is_some() && self.project_hash.is_some();
        let is_message = self.id.is_some() && self.kind.is_some();
        let is_change = self.set.is_some() || self.rewind_to.is_some();
        self.messages.is_none() && (is_metadata || is_message || is_change)
    }
}

enum Line<'a> {
    Message(Box<Message<'a>>),
    Set(Set<'a>),
    RewindTo(Text),
    Metadata(Option<Text>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Set<'a> {
    session_id: Option<Text>,
    last_updated: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    foldback: Option<Extension>,
}

impl<'a> Line<'a> {
    fn parse(json: &'a str) -> Result<Self, serde_json::Error> {
        let head: Head<'_> = serde_json::from_str(json)?;
        match head {
            Head { rewind_to: Some(id), .. } => Ok(Self::RewindTo(id)),
            Head { set: Some(set), .. } => serde_json::from_str(set.get()).map(Self::Set),
            Head { id: Some(_), .. } => {
                serde_json::from_str(json).map(|message| Self::Message(Box::new(message)))
            }
            Head { session_id, .. } => Ok(Self::Metadata(session_id)),
        }
    }
}

/// A message, in the last form that the log gives it.
struct Slot<'a> {
    message: Message<'a>,
    place: FilePlace,
}

/// What happened, in order; messages by their slot.
enum Step {
    Message(usize),
    Set { slots: Vec<usize>, place: FilePlace, at: Option<String>, foldback: Option<Extension> },
    RewindTo { id: Text, place: FilePlace },
}

pub(super) fn read(bytes: &[u8]) -> Result<Reading, FormatError> {
    let (lines, mut problems) = jsonl::read_with(bytes, Line::parse);
    if let (true, Some(problem)) = (lines.is_empty(), problems.first()) {
        return Err(FormatError::Broken { format: Format::GeminiCli, problem: problem.clone() });
    }
    let mut session_id = None;
    let (slots, steps) = steps(lines, &mut session_id);
    let mut replay = Replay::default();
    for step in steps {
        match step {
            Step::Message(slot) => slots.get(slot).map_or(Ok(()), |slot| replay.say(slot)),
            Step::Set { slots: set, place, at, foldback } => {
                let is_taken = foldback.is_some_and(|own| replay.take(own, place));
                match is_taken {
                    true => Ok(()),
                    false => replay.set(set.iter().filter_map(|slot| slots.get(*slot)), place, at.as_deref()),
                }
            }
            Step::RewindTo { id, place } => {
                replay.rewind(&id, place);
                Ok(())
            }
        }
        .unwrap_or_else(|problem| problems.push(problem));
    }
    let model = slots.iter().rev().find_map(|slot| slot.message.model.clone());
    Ok(reading(replay.conversation, problems, model, session_id))
}

fn steps<'a>(
    lines: Vec<jsonl::Line<'a, Line<'a>>>,
    session_id: &mut Option<Text>,
) -> (Vec<Slot<'a>>, Vec<Step>) {
    let (mut slots, mut steps): (Vec<Slot<'a>>, Vec<Step>) = (Vec::new(), Vec::new());
    let mut slot_of: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let place = FilePlace::line(line.number);
        match line.record {
            Line::Metadata(id) => *session_id = id.or(session_id.take()),
            Line::RewindTo(id) => {
                // What is said again after that is said anew.
                slot_of.clear();
                steps.push(Step::RewindTo { id, place });
            }
            Line::Message(message) => {
                let known = message.id.as_ref().and_then(|id| slot_of.get(id)).copied();
                if let Some(slot) = known.and_then(|slot| slots.get_mut(slot)) {
                    slot.message = *message;
                    continue;
                }
                slot_of.extend(message.id.clone().map(|id| (id, slots.len())));
                steps.push(Step::Message(slots.len()));
                slots.push(Slot { message: *message, place });
            }
            Line::Set(set) => {
                *session_id = set.session_id.or(session_id.take());
                let Some(messages) = set.messages else { continue };
                let first = slots.len();
                for message in messages {
                    slot_of.extend(message.id.clone().map(|id| (id, slots.len())));
                    slots.push(Slot { message, place });
                }
                let (slots, at) = ((first..slots.len()).collect(), set.last_updated);
                steps.push(Step::Set { slots, place, at, foldback: set.foldback });
            }
        }
    }
    (slots, steps)
}

/// The conversation so far, and which of its items belong to which message that the model sees.
#[derive(Default)]
struct Replay {
    conversation: Conversation,
    reader: Reader,
    seen: Vec<(Option<String>, Vec<Seen>)>,
    said_count: usize,
}

impl Replay {
    fn say(&mut self, slot: &Slot<'_>) -> Result<(), Problem> {
        self.said_count += 1;
        let items = self.reader.items(&slot.message, self.said_count);
        let items = items.map_err(|error| message::problem(&error, slot.place))?;
        let seen = items.into_iter().map(|item| Seen::Item(self.conversation.push(item, slot.place)));
        let seen = seen.collect();
        self.seen.push((slot.message.id.clone(), seen));
        Ok(())
    }

    /// Takes a compaction that foldback noted; its messages repeat what the model sees.
    fn take(&mut self, own: Extension, place: FilePlace) -> bool {
        if !own.note.is_some_and(|note| self.conversation.take(note, None, place)) {
            return false;
        }
        self.reader = Reader::default();
        self.seen.clear();
        for (id, position) in own.copies {
            let seen = self.conversation.visible().get(position).copied();
            match self.seen.last_mut() {
                Some((last, all)) if last.as_deref() == Some(&*id) => all.extend(seen),
                _ => self.seen.push((Some(id.to_string()), seen.into_iter().collect())),
            }
        }
        true
    }

    /// Shows exactly these messages from here on. What is as it was stays where it is.
    fn set<'s, 'a: 's>(
        &mut self,
        slots: impl Iterator<Item = &'s Slot<'a>>,
        place: FilePlace,
        at: Option<&str>,
    ) -> Result<(), Problem> {
        self.reader = Reader::default();
        let (mut shown, mut counts, mut first_problem) = (Vec::new(), Vec::new(), Ok(()));
        // Of messages that share an id, the first counts.
        let seen = self.seen.iter().rev();
        let seen: HashMap<&str, &[Seen]> =
            seen.filter_map(|(id, indices)| Some((id.as_deref()?, &indices[..]))).collect();
        for (index, slot) in slots.enumerate() {
            let items = self.reader.items(&slot.message, index).unwrap_or_else(|error| {
                first_problem = Err(message::problem(&error, slot.place));
                Vec::new()
            });
            let was = slot.message.id.as_deref().and_then(|id| seen.get(id)).copied().unwrap_or_default();
            counts.push((slot.message.id.clone(), items.len()));
            for (index, item) in items.into_iter().enumerate() {
                let same = was.get(index).copied().filter(|&was| {
                    let was = self.conversation.item(was);
                    was.is_some_and(|was| was.kind == item.kind && was.parts == item.parts)
                });
                shown.push(same.map_or_else(|| Shown::New(item), Shown::Kept));
            }
        }
        let mut kept = shown.iter().filter_map(|shown| match shown {
            Shown::Kept(index) => Some(index),
            Shown::New(_) => None,
        });
        let is_unchanged = shown.len() == self.conversation.visible().len()
            && self.conversation.visible().iter().all(|index| kept.next() == Some(index));
        if !is_unchanged {
            let mut made = Made::by(content::BY, place);
            made.created_at = at.and_then(rfc3339::parse);
            self.conversation.replace(&made, shown);
        }
        let mut visible = self.conversation.visible().iter().copied();
        let taken = |(id, count): (Option<String>, usize)| (id, visible.by_ref().take(count).collect());
        self.seen = counts.into_iter().map(taken).collect();
        first_problem
    }

    /// Takes back everything from this message on; a message that is not there takes back all.
    fn rewind(&mut self, id: &str, place: FilePlace) {
        let at = self.seen.iter().position(|(seen, _)| seen.as_deref() == Some(id)).unwrap_or(0);
        self.seen.truncate(at);
        let kept: Vec<Shown> =
            self.seen.iter().flat_map(|(_, seen)| seen).map(|&seen| Shown::Kept(seen)).collect();
        self.conversation.replace(&Made::by("gemini-cli rewind", place), kept);
    }
}

/// A `$set` of these messages, to go behind the log.
pub(super) fn compaction(session: &SessionFile, messages: &[WrittenMessage], note: &Note) -> Vec<u8> {
    let recorded = session.conversations().iter().flat_map(Conversation::recorded);
    let last = recorded.filter_map(|recorded| recorded.item.created_at).max();
    let at = last.map_or_else(String::new, |at| format!(",\"lastUpdated\":\"{}\"", rfc3339::print(at)));
    let copies = messages.iter().flat_map(|message| message.copies.clone()).collect();
    let foldback = Extension::new(note, copies).json();
    let messages = write::list(messages);
    let record = format!("{{\"$set\":{{\"messages\":{messages}{at},\"foldback\":{foldback}}}}}");
    jsonl::added(session.bytes(), [jsonl::one_line(record)])
}

/// A log with the metadata of this one, and these messages.
pub(super) fn with_messages(log: &[u8], messages: Vec<WrittenMessage>) -> Vec<u8> {
    let is_metadata = |line: &&[u8]| match jsonl::parse::<Head<'_>>(line, 1) {
        Ok(Some((_, head))) => head.id.is_none() && head.set.is_none() && head.rewind_to.is_none(),
        Ok(None) | Err(_) => false,
    };
    let metadata =
        jsonl::lines(log).filter(is_metadata).map(|line| String::from_utf8_lossy(line).into_owned());
    let messages = messages.into_iter().map(|message| jsonl::one_line(message.json));
    jsonl::added(b"", metadata.chain(messages).collect::<Vec<_>>())
}
