//! Rollout files of Codex CLI: Responses items with times around them, and compactions that list
//! what the model sees afterwards.
//!
//! Only `response_item` records are conversation: events mirror them for the interface. A file of a
//! fork begins with the history it was forked from.

mod ending;
mod records;
mod write;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use foldback_core::{Dialect, Item, ItemKind, Part, ResultPart, Text, Tokens};

use crate::conversation::{Conversation, FilePlace, Made, Seen, Sent, Shown};
use crate::detect::{Fit, Probe};
use crate::error::{FormatError, Problem};
use crate::format::{Added, Codec, Committed, Format, Loss, Reading, SessionFile, SubAgentOf};
use crate::jsonl;
use crate::lowering::found_summary;

use records::{BY, Compacted, Content, ReadItem, Record, summary_text};

pub(crate) struct Codex;

/// Types of records that detection looks for.
const RECORD_TYPES: [&str; 5] = ["session_meta", "turn_context", "response_item", "event_msg", "compacted"];

impl Codec for Codex {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_record = |record: &serde_json::Value| {
            record["payload"].is_object() && RECORD_TYPES.iter().any(|kind| record["type"] == **kind)
        };
        if probe.any_record(is_record) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let rollout = Rollout::read(bytes);
        match (rollout.conversation.is_empty(), rollout.problems.first()) {
            (true, Some(problem)) => {
                Err(FormatError::Broken { format: Format::Codex, problem: problem.clone() })
            }
            _ => Ok(Reading {
                conversations: vec![rollout.conversation],
                problems: rollout.problems,
                dialect: Some(Dialect::OpenaiResponses),
                model: rollout.model,
                context_window: rollout.context_window,
                session_id: rollout.session_id,
                sub_agent_of: rollout.sub_agent_of,
                ..Reading::default()
            }),
        }
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, sent: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some(write::write(sent, like))
    }

    fn append(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<Added> {
        Some(Added::Behind(write::append(session, committed)))
    }
}

/// A rollout while it is read.
#[derive(Default)]
struct Rollout<'a> {
    conversation: Conversation,
    /// The text in the file of every recorded item that has one.
    texts: Vec<Option<&'a str>>,
    problems: Vec<Problem>,
    model: Option<Text>,
    context_window: Option<Tokens>,
    session_id: Option<Text>,
    sub_agent_of: Option<SubAgentOf>,
    /// The last time in the file, as it stands there.
    time: Option<String>,
    has_meta: bool,
    /// The items of the last model call may be reported on later.
    newest_answer: Option<usize>,
    context_tokens: Tokens,
    /// What has the same content, by its hash, in the order of the file.
    alike: HashMap<u64, Vec<Seen>>,
    /// What compactions gave as their summaries, the newest first.
    messages: VecDeque<String>,
}

impl<'a> Rollout<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let (lines, problems) = jsonl::read_with(bytes, Record::parse);
        let mut rollout = Self { problems, ..Self::default() };
        for line in lines {
            rollout.add(line.record, line.number);
        }
        rollout
    }

    fn add(&mut self, record: Record<'a>, line: usize) {
        let created_at = record.created_at();
        self.time = record.time.map(Into::into).or_else(|| self.time.take());
        match record.content {
            // A fork repeats the record of the session it came from.
            Content::Session(meta) if !self.has_meta => {
                self.has_meta = true;
                (self.session_id, self.sub_agent_of) = (meta.id, meta.sub_agent_of);
            }
            Content::Model(model) => self.model = Some(model),
            Content::Item(read) => {
                let mut item = self.understood(read.item, format!("m{line}"));
                item.created_at = created_at;
                let is_answer = item.kind == ItemKind::Assistant;
                let index = self.conversation.push(item, FilePlace::line(line));
                self.texts.push(Some(read.text));
                self.know(Seen::Item(index));
                self.newest_answer = if is_answer { Some(index) } else { self.newest_answer };
            }
            Content::Usage { usage, window } => {
                self.context_window = window.or(self.context_window);
                self.context_tokens = usage.context_tokens();
                if let Some(index) = self.newest_answer {
                    self.conversation.amend_item(index, |item| item.usage = Some(usage));
                }
            }
            Content::Compacted(made) => {
                let mut by = Made::by(BY, FilePlace::line(line));
                by.created_at = created_at;
                by.tokens_before = Some(self.context_tokens).filter(|tokens| *tokens > Tokens::ZERO);
                self.replace(&by, made);
                // What is reported next is on another view.
                self.newest_answer = None;
            }
            Content::Session(_) | Content::Other => {}
        }
    }

    /// Names an item, and knows summaries by what compactions gave as such.
    fn understood(&self, mut item: Item, id: String) -> Item {
        if item.id.is_empty() {
            item.id = id.into();
        }
        let is_summary = item.kind == ItemKind::User
            && item.parts.iter().any(|part| match part {
                Part::Text(text) => self.messages.iter().any(|message| is_from(text, message)),
                _ => false,
            });
        match is_summary {
            true => found_summary(item, BY, self.conversation.visible().len(), self.context_tokens),
            false => item,
        }
    }

    fn know(&mut self, seen: Seen) {
        if let Some(item) = self.conversation.item(seen) {
            self.alike.entry(hash_of(item)).or_default().push(seen);
        }
    }

    fn replace(&mut self, by: &Made, made: Compacted<'a>) {
        let Compacted { message, replacement, foldback } = made;
        if !message.is_empty() {
            self.messages.truncate(MESSAGE_COUNT_MAX - 1);
            self.messages.push_front(message.clone());
        }
        let (recorded, line) = (self.conversation.len(), by.place.line);
        let note = foldback.and_then(|own| own.note);
        if !note.is_some_and(|note| self.conversation.take(note, by.tokens_before, by.place)) {
            let shown = match replacement {
                _ if self.conversation.left_at().is_some() => Vec::new(),
                Some(items) => self.shown(items, line),
                None => self.shown_by_older_versions(&message, line),
            };
            let (shown, mut texts): (Vec<Shown>, Vec<Option<&'a str>>) = shown.into_iter().unzip();
            self.conversation.replace(by, shown);
            // What is recorded again are the last ones.
            let inserted = self.conversation.len() - recorded;
            self.texts.extend(texts.drain(texts.len().saturating_sub(inserted)..));
        }
        self.texts.resize(self.conversation.len(), None);
        (recorded..self.conversation.len()).for_each(|index| self.know(Seen::Item(index)));
        let is_summary = |seen: &&Seen| matches!(seen, Seen::Summary(_));
        let summaries: Vec<Seen> = self.conversation.visible().iter().filter(is_summary).copied().collect();
        summaries.into_iter().for_each(|seen| self.know(seen));
        self.newest_answer = None;
    }

    fn text(&self, seen: Seen) -> Option<&'a str> {
        match seen {
            Seen::Item(index) => self.texts.get(index).copied().flatten(),
            Seen::Summary(_) => None,
        }
    }

    fn shown(&self, items: Vec<ReadItem<'a>>, line: usize) -> Vec<(Shown, Option<&'a str>)> {
        let positions =
            (0..).zip(self.conversation.visible()).map(|(position, &seen)| (seen, position)).collect();
        let mut next = 0;
        let items = items.into_iter().enumerate().map(|(index, ReadItem { item, text })| {
            let item = self.understood(item, format!("m{line}.{index}"));
            let Some(kept) = self.find(&item, &positions, next) else {
                return (Shown::New(item), Some(text));
            };
            next = positions.get(&kept).map_or(next, |position| position + 1);
            (Shown::Kept(kept), self.text(kept))
        });
        items.collect()
    }

    /// Before compactions listed what they kept, that was the instructions, what the person said,
    /// and the summary.
    fn shown_by_older_versions(&self, message: &str, line: usize) -> Vec<(Shown, Option<&'a str>)> {
        let mut has_begun = false;
        let is_kept = |seen: &&Seen| {
            let Some(item) = self.conversation.item(**seen) else { return false };
            has_begun |= item.kind == ItemKind::User;
            item.kind == ItemKind::User
                || (!has_begun && item.kind != ItemKind::Assistant && item.summary.is_none())
        };
        let kept = self.conversation.visible().iter().filter(is_kept);
        let mut shown: Vec<_> = kept.map(|&seen| (Shown::Kept(seen), self.text(seen))).collect();
        let text = summary_text(message).unwrap_or(message);
        if !text.is_empty() {
            let item = Item::text(format!("m{line}"), ItemKind::Context, text);
            let item = found_summary(item, BY, self.conversation.visible().len(), self.context_tokens);
            shown.push((Shown::New(item), None));
        }
        shown
    }

    /// What is like this item: the first that the model sees from the position `next` on, else the
    /// newest.
    fn find(&self, item: &Item, positions: &HashMap<Seen, usize>, next: usize) -> Option<Seen> {
        let alike = self.alike.get(&hash_of(item))?;
        let is_same = |seen: &&Seen| {
            let found = self.conversation.item(**seen);
            found.is_some_and(|found| found.kind == item.kind && found.parts == item.parts)
        };
        let is_next = |seen: &&Seen| positions.get(seen).is_some_and(|position| *position >= next);
        let mut seen = alike.iter().filter(is_next).take(ALIKE_COUNT_MAX);
        seen.find(is_same).or_else(|| alike.iter().rev().find(is_same)).copied()
    }
}

/// Of what compactions gave as their summaries, so many of the newest are known again.
const MESSAGE_COUNT_MAX: usize = 1_000;

/// Of items that are alike, so many are looked at for one that the model sees.
const ALIKE_COUNT_MAX: usize = 64;

/// Whether a text is a compaction's message, or ends with it after an introduction.
fn is_from(text: &str, message: &str) -> bool {
    text.strip_suffix(message).is_some_and(|before| before.is_empty() || before.ends_with('\n'))
}

/// A hash that items with the same kind and parts share.
fn hash_of(item: &Item) -> u64 {
    let mut hasher = DefaultHasher::new();
    item.kind.hash(&mut hasher);
    for part in &item.parts {
        match part {
            Part::Text(text) => text.hash(&mut hasher),
            Part::Reasoning(reasoning) => (&reasoning.id, &reasoning.encrypted).hash(&mut hasher),
            Part::ToolCall(call) => (&call.id, call.input.as_str()).hash(&mut hasher),
            Part::ToolResult(result) => {
                result.call_id.hash(&mut hasher);
                let texts = result.content.iter().filter_map(ResultPart::as_text);
                texts.for_each(|text| text.hash(&mut hasher));
            }
            Part::Media(media) => media.data.len().hash(&mut hasher),
            Part::File(file) => file.data.len().hash(&mut hasher),
            Part::Structured(json) => json.as_str().hash(&mut hasher),
            Part::Opaque(opaque) => opaque.json.as_str().hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::testing::{compacted, sent};
    use crate::error::Fault;
    use foldback_core::EstimatingCounter;
    use std::sync::Arc;

    const COMPACTED: &[u8] = include_bytes!("../../fixtures/codex/compacted.jsonl");
    const OLDER: &[u8] = include_bytes!("../../fixtures/codex/older-fork.jsonl");
    const NUMBERED: &[u8] = include_bytes!("../../fixtures/codex/numbered.jsonl");

    fn read(bytes: &[u8]) -> SessionFile {
        SessionFile::read(bytes.to_vec()).unwrap()
    }

    fn view(session: &SessionFile) -> Vec<Arc<Item>> {
        let conversation = &session.conversations()[0];
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), session.dialect());
        conversation.view_of(&transcript).items().cloned().collect()
    }

    fn kinds(items: &[Arc<Item>]) -> Vec<&'static str> {
        items.iter().map(|item| item.kind.as_str()).collect()
    }

    #[test]
    fn a_compaction_shows_its_replacement_and_hides_the_rest() {
        let session = read(COMPACTED);
        let conversation = &session.conversations()[0];
        let seen = view(&session);
        assert_eq!(kinds(&seen[..4]), ["user", "developer", "context", "context"]);
        assert!(seen[3].summary.is_some(), "the sealed summary is one");
        let first = conversation.recorded()[2].item.clone();
        assert!(Arc::ptr_eq(&seen[0], &first), "what is kept is the item that was said");
        assert_eq!(conversation.steps()[0].tokens_before, Some(Tokens(30_740)));
    }

    #[test]
    fn usage_belongs_to_the_newest_answer_and_counts_cached_tokens_apart() {
        let session = read(COMPACTED);
        let items = session.conversations()[0].recorded();
        let reported: Vec<u64> = items
            .iter()
            .filter_map(|recorded| recorded.item.usage.map(|usage| usage.input_tokens.0))
            .collect();
        assert_eq!(reported, [15_778, 12_100]);
        assert_eq!(session.model(), Some("gpt-5.2"));
    }

    #[test]
    fn a_cut_last_line_is_a_problem_and_the_rest_is_read() {
        let session = read(COMPACTED);
        let [problem] = session.problems() else { panic!("one problem: {:?}", session.problems()) };
        assert_eq!((problem.line, &problem.fault), (37, &Fault::CutOff));
    }

    #[test]
    fn a_command_that_failed_is_marked_and_stays_so_when_its_text_does_not_say_it() {
        let session = read(COMPACTED);
        let conversation = &session.conversations()[0];
        let failed: Vec<&str> = conversation
            .recorded()
            .iter()
            .flat_map(|recorded| recorded.item.results().map(|(_, result)| result))
            .filter(|result| result.is_error)
            .map(|result| result.call_id.as_str())
            .collect();
        assert_eq!(failed, ["call_3"]);
        let call = Item::assistant("a", vec![Part::call("c", "run", &serde_json::json!({}))]);
        let result = Item::tool("r", foldback_core::ToolResult::error("c", "[cleared]"));
        let items = [Arc::new(call), Arc::new(result)];
        let again = read(&compacted(&session, conversation, &items).to_bytes());
        assert_eq!(view(&again)[1].parts, items[1].parts);
    }

    #[test]
    fn older_compactions_keep_what_the_person_said_and_the_message() {
        let session = read(OLDER);
        let seen = view(&session);
        assert_eq!(
            kinds(&seen),
            ["context", "user", "context", "user", "notification", "assistant", "tool", "assistant"]
        );
        assert_eq!(seen[2].summary.as_ref().map(|summary| &*summary.written_by), Some(BY));
    }

    #[test]
    fn a_sub_agent_names_the_session_that_started_it() {
        let session = read(OLDER);
        let of = session.sub_agent_of().unwrap();
        assert_eq!(&*of.agent_id, "Kepler");
        assert_eq!(&*of.session_id, "019c0000-aaaa-7000-8000-000000000001");
        assert_eq!(session.session_id(), Some("019c0000-bbbb-7000-8000-000000000002"));
    }

    #[test]
    fn an_added_compaction_keeps_the_bytes_and_the_text_of_what_is_unchanged() {
        let session = read(COMPACTED);
        let conversation = &session.conversations()[0];
        let mut items = view(&session);
        let summary = Item::text("s", ItemKind::Context, "What happened so far.\n");
        items[1] = Arc::new(found_summary(summary, "floor", 9, Tokens(9)));
        let written = compacted(&session, conversation, &items).to_bytes();
        assert!(written.starts_with(COMPACTED));
        let added = std::str::from_utf8(&written[COMPACTED.len()..]).unwrap();
        assert!(added.contains("\"weight\":2.50,\"note\":\"caf\\u00e9 <kept>\""), "{added}");
        assert_eq!(added.trim().lines().count(), 2);
        let again = read(&written);
        let seen = view(&again);
        assert!(
            seen.iter().zip(&items).all(|(seen, item)| seen.parts == item.parts && seen.kind == item.kind)
        );
        assert_eq!(seen.len(), items.len());
        assert!(seen[1].summary.is_some() && seen[3].summary.is_some());
        assert_eq!(written, compacted(&session, conversation, &items).to_bytes());
    }

    /// The number and the type of every record.
    fn records(text: &[u8]) -> Vec<(Option<u64>, String)> {
        let lines = std::str::from_utf8(text).unwrap().lines();
        let records = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        records
            .map(|record| (record["ordinal"].as_u64(), record["type"].as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn added_records_are_numbered_on_and_say_what_the_model_was_told_if_it_still_is() {
        let session = read(NUMBERED);
        let conversation = &session.conversations()[0];
        let items = view(&session);
        let added = |items: &[Arc<Item>]| {
            let written = compacted(&session, conversation, items).to_bytes();
            assert_eq!(kinds(&view(&read(&written))), kinds(items));
            records(&written[NUMBERED.len()..])
        };
        let told = [&items[..3], &items[items.len() - 3..]].concat();
        let types = ["compacted", "event_msg", "world_state", "world_state", "turn_context"];
        let expected = (23..).map(Some).zip(types.map(str::to_owned));
        assert_eq!(added(&told), expected.clone().collect::<Vec<_>>());
        let untold = [&items[..1], &items[2..]].concat();
        assert_eq!(added(&untold), expected.take(2).collect::<Vec<_>>(), "the environment is told again");
        let fresh = crate::format::write(Format::Codex, &sent(&told, Some(&session)), Some(&session))
            .unwrap()
            .to_bytes();
        let numbers: Vec<u64> = records(&fresh).iter().filter_map(|(ordinal, _)| *ordinal).collect();
        assert_eq!(numbers, (0..records(&fresh).len() as u64).collect::<Vec<_>>());
        assert_eq!(records(&fresh).last().map(|(_, kind)| kind.as_str()), Some("turn_context"));
    }

    #[test]
    fn items_that_are_written_anew_read_as_they_were() {
        for bytes in [COMPACTED, OLDER, NUMBERED] {
            let session = read(bytes);
            let conversation = &session.conversations()[0];
            let items: Vec<Arc<Item>> = conversation
                .recorded()
                .iter()
                .map(|recorded| Arc::new(Item::clone(&recorded.item)))
                .collect();
            let seen = view(&read(&compacted(&session, conversation, &items).to_bytes()));
            assert_eq!(seen.len(), items.len());
            for (seen, item) in seen.iter().zip(&items) {
                assert_eq!((seen.kind, &seen.parts), (item.kind, &item.parts));
                assert_eq!(seen.summary.is_some(), item.summary.is_some(), "{item:?}");
            }
        }
    }

    #[test]
    fn a_fresh_rollout_reads_as_the_items_it_was_written_from() {
        let session = read(COMPACTED);
        let items = view(&session);
        let written =
            crate::format::write(Format::Codex, &sent(&items, Some(&session)), Some(&session)).unwrap();
        assert_eq!(written.losses, []);
        let again = read(&written.to_bytes());
        assert_eq!(again.session_id(), session.session_id());
        let parts = |items: &[Arc<Item>]| -> Vec<(ItemKind, Part)> {
            items.iter().flat_map(|item| item.parts.iter().map(|part| (item.kind, part.clone()))).collect()
        };
        assert_eq!(parts(&view(&again)), parts(&items));
        let unlike = crate::format::write(Format::Codex, &sent(&items, None), None).unwrap();
        assert!(read(&unlike.to_bytes()).session_id().is_some());
    }

    #[test]
    fn lines_that_are_no_records_leave_the_others() {
        let text = "{\"type\":\"response_item\",\"payload\":7}\n{\"type\":\"compacted\",\"payload\":{}}\n{\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":\"a\"}}\n";
        let session = SessionFile::read_as(Format::Codex, text.as_bytes().to_vec()).unwrap();
        assert_eq!(session.problems().len(), 1);
        assert_eq!(view(&session).last().unwrap().parts, [Part::text("a")]);
        assert!(SessionFile::read_as(Format::Codex, b"{\"type\":7}\n".to_vec()).is_err());
    }
}
