//! Event files of Copilot CLI (`events.jsonl`): one event on each line, `{type, data, id, parentId,
//! timestamp}`.
//!
//! Messages, results and notifications are context; hooks, turns, permissions, the agent's own system
//! prompt and most of `session.*` are not. `session.compaction_complete` carries the summary that stands for everything before
//! `session.compaction_start`: compaction runs in the background, and what is said meanwhile stays.
//!
//! `session.context_cleared` forgets everything.
//!
//! A compaction that foldback adds is such an event, followed by copies of what is kept. Its
//! `foldback` field names the copies, so that reading does not take them for new messages. Before it
//! the context is cleared: to a summary the agent adds every user message that it still knows, and
//! those that the model is to see are among the copies.

mod event;
mod write;

use std::collections::{BTreeMap, HashSet};

use foldback_core::{Dialect, Item, ItemKind, Text, Tokens};
use serde_json::Value;

use crate::conversation::{Conversation, FilePlace, Made, Seen, Sent, Shown};
use crate::detect::{Fit, Probe};
use crate::error::FormatError;
use crate::format::{Added, Codec, Committed, Format, Loss, Reading, SessionFile};
use crate::jsonl;
use crate::lowering::found_summary;
use crate::rfc3339;

use event::{Compacted, Event, Meaning};

pub(crate) struct CopilotCli;

/// Who makes compactions in these files.
const BY: &str = "copilot-cli";

impl Codec for CopilotCli {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_event = |record: &Value| {
            let kind = record["type"].as_str().unwrap_or_default();
            let is_known = ["session.", "assistant.", "user.", "tool.", "hook.", "system."]
                .iter()
                .any(|family| kind.starts_with(family));
            is_known
                && record["data"].is_object()
                && record["id"].is_string()
                && record.get("parentId").is_some()
        };
        if probe.any_record(is_event) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let (lines, mut problems) = jsonl::read::<Event<'_>>(bytes);
        if let (true, Some(problem)) = (lines.is_empty(), problems.first()) {
            return Err(FormatError::Broken { format: Format::CopilotCli, problem: problem.clone() });
        }
        let (mut main, mut agents) = (Talk::default(), BTreeMap::<Text, Talk>::new());
        let (mut model, mut session_id) = (None, None);
        for line in lines {
            let place = FilePlace::line(line.number);
            let meaning = match line.record.meaning(place) {
                Ok(meaning) => meaning,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let talk = match line.record.agent() {
                Some(agent) => agents.entry(agent).or_default(),
                None => &mut main,
            };
            match meaning {
                Meaning::State { model: now, session_id: own } => {
                    model = now.or(model);
                    session_id = own.or(session_id);
                }
                Meaning::Said { item, model: now } => {
                    model = now.or(model);
                    talk.say(item, place, line.record.id.as_deref());
                }
                Meaning::CompactionStarted => talk.started_at = Some(talk.conversation.len()),
                Meaning::Cleared(initial) => talk.clear(initial, place, line.record.timestamp.as_deref()),
                Meaning::Compacted(made) => {
                    talk.compact(made, place, line.record.timestamp.as_deref(), line.record.id.as_deref());
                }
            }
        }
        let agents = agents.into_iter().map(|(name, talk)| talk.finish().named(name));
        let conversations = [main.finish()].into_iter().chain(agents).collect();
        let dialect = model.as_deref().and_then(dialect_of);
        Ok(Reading { conversations, problems, dialect, model, session_id, ..Reading::default() })
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some(write::file(items, like))
    }

    /// Instructions first, then the summary: that is how the agent shows them.
    fn arrange(&self, items: Vec<Sent>) -> Vec<Sent> {
        let (mut arranged, mut rest): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| item.kind.is_instruction());
        if let Some(index) = rest.iter().position(|item| write::summary_text(item).is_some()) {
            arranged.push(rest.remove(index));
        }
        arranged.append(&mut rest);
        arranged
    }

    fn append(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<Added> {
        // Only the main conversation has no name: sub-agents share its file.
        if committed.conversation.name().is_some() {
            return None;
        }
        write::compaction(session, committed).map(Added::Behind)
    }
}

/// The provider's rules that a model is under, by its name.
fn dialect_of(model: &str) -> Option<Dialect> {
    let families =
        [("claude", Dialect::Anthropic), ("gpt", Dialect::OpenaiResponses), ("gemini", Dialect::Gemini)];
    families.into_iter().find(|(family, _)| model.starts_with(family)).map(|(_, dialect)| dialect)
}

/// One conversation while it is read.
#[derive(Default)]
struct Talk {
    conversation: Conversation,
    instructions: Option<Vec<foldback_core::Part>>,
    started_at: Option<usize>,
    pending: Option<Pending>,
}

/// A compaction whose copies are still to come.
struct Pending {
    made: Made,
    shown: Vec<Shown>,
    copies: HashSet<Text>,
    /// Whether foldback's note said it all, so that the copies are only left out.
    is_taken: bool,
}

impl Talk {
    fn say(&mut self, item: Item, place: FilePlace, id: Option<&str>) {
        if let Some(pending) = &mut self.pending
            && id.is_some_and(|id| pending.copies.remove(id))
        {
            pending.shown.push(Shown::New(item));
            if pending.copies.is_empty() {
                self.settle();
            }
            return;
        }
        self.settle();
        // The same instructions are recorded again whenever a session is resumed.
        if item.kind == ItemKind::Developer {
            if self.instructions.as_ref() == Some(&item.parts) {
                return;
            }
            self.instructions = Some(item.parts.clone());
        }
        self.conversation.push(item, place);
    }

    fn compact(&mut self, made: Compacted, place: FilePlace, at: Option<&str>, id: Option<&str>) {
        self.settle();
        let started_at = self.started_at.take().unwrap_or(self.conversation.len());
        let mut by = Made::by(BY, place);
        by.created_at = at.and_then(rfc3339::parse);
        by.tokens_before = made.tokens_before.map(Tokens);
        if let Some(own) = made.put_in.as_ref().map(|put_in| &put_in.made)
            && let Some(note) = own.note.clone()
            && self.conversation.take(note, by.tokens_before, place)
        {
            let copies = own.copies.iter().map(|(id, _)| id.clone()).collect();
            self.pending = Some(Pending { made: by, shown: Vec::new(), copies, is_taken: true });
            return;
        }
        let conversation = &self.conversation;
        let is_instruction =
            |seen: &Seen| conversation.item(*seen).is_some_and(|item| item.kind.is_instruction());
        // A file that asks for more than is followed is not worked out any further.
        let followed = if conversation.left_at().is_some() { &[] } else { conversation.visible() };
        let visible = || followed.iter().copied();
        let keeps_instructions = made.put_in.as_ref().is_none_or(|put_in| put_in.keeps_instructions);
        let before = visible().filter(|index| keeps_instructions && is_instruction(index));
        let mut shown: Vec<Shown> = before.map(Shown::Kept).collect();
        shown.extend(made.summary.map(|text| {
            let item_count = visible().filter(|index| !is_instruction(index)).count();
            let tokens_before = Tokens(made.tokens_before.unwrap_or(0));
            let mut item = Item::text(id.unwrap_or("summary"), ItemKind::Context, text);
            item.created_at = by.created_at;
            Shown::New(found_summary(item, BY, item_count, tokens_before))
        }));
        let copies = match made.put_in {
            Some(put_in) => put_in.made.copies.into_iter().map(|(id, _)| id).collect(),
            None => {
                let is_later = |seen: &Seen| matches!(seen, Seen::Item(index) if *index >= started_at);
                let meanwhile = visible().filter(|seen| is_later(seen) && !is_instruction(seen));
                shown.extend(meanwhile.map(Shown::Kept));
                HashSet::new()
            }
        };
        self.pending = Some(Pending { made: by, shown, copies, is_taken: false });
    }

    fn clear(&mut self, initial: Option<Item>, place: FilePlace, at: Option<&str>) {
        self.settle();
        self.started_at = None;
        let mut made = Made::by(BY, place);
        made.created_at = at.and_then(rfc3339::parse);
        let shown = initial.map(|mut item| {
            item.created_at = made.created_at;
            Shown::New(item)
        });
        self.conversation.replace(&made, shown);
    }

    fn settle(&mut self) {
        if let Some(Pending { made, shown, is_taken: false, .. }) = self.pending.take() {
            self.conversation.replace(&made, shown);
        }
    }

    fn finish(mut self) -> Conversation {
        self.settle();
        self.conversation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::testing::{compacted, sent, view_of};
    use foldback_core::{EstimatingCounter, Media, Part, ResultPart, ToolResult};
    use std::sync::Arc;

    fn event(number: usize, kind: &str, data: &str) -> String {
        format!(
            r#"{{"type":"{kind}","data":{data},"id":"e{number}","parentId":null,"timestamp":"2026-06-03T14:00:00.000Z"}}"#
        )
    }

    fn read(events: &[(&str, &str)]) -> SessionFile {
        let lines: Vec<String> =
            events.iter().enumerate().map(|(number, (kind, data))| event(number, kind, data)).collect();
        SessionFile::read(lines.join("\n").into_bytes()).unwrap()
    }

    fn view(session: &SessionFile) -> Vec<Arc<Item>> {
        let conversation = &session.conversations()[0];
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), session.dialect());
        conversation.view_of(&transcript).items().cloned().collect()
    }

    fn texts(items: &[Arc<Item>]) -> Vec<String> {
        let text = |item: &Arc<Item>| match &item.parts[..] {
            [Part::Text(text)] => format!("{}: {text}", item.kind),
            other => format!("{}: {} parts", item.kind, other.len()),
        };
        items.iter().map(text).collect()
    }

    const BEFORE: [(&str, &str); 3] = [
        ("system.message", r#"{"role":"developer","content":"rules"}"#),
        ("user.message", r#"{"content":"one"}"#),
        ("assistant.message", r#"{"content":"two","model":"claude-opus-4.5"}"#),
    ];

    #[test]
    fn a_summary_stands_for_what_was_before_the_compaction_began() {
        let compacted = r#"{"success":true,"preCompactionTokens":900,"summaryContent":"short"}"#;
        let mut events = BEFORE.to_vec();
        events.push(("session.compaction_start", "{}"));
        events.push(("user.message", r#"{"content":"three"}"#));
        events.push(("session.compaction_complete", compacted));
        events.push(("session.compaction_complete", r#"{"success":false,"error":"no"}"#));
        events.push(("assistant.message", r#"{"content":"four"}"#));
        let session = read(&events);
        let seen = view(&session);
        assert_eq!(texts(&seen), ["developer: rules", "context: short", "user: three", "assistant: four"]);
        assert!(seen[1].summary.is_some());
        let conversation = &session.conversations()[0];
        assert_eq!(conversation.history().count(), 5);
        assert_eq!(conversation.steps()[0].tokens_before, Some(Tokens(900)));
        assert_eq!(session.dialect(), Some(Dialect::Anthropic));
    }

    #[test]
    fn what_foldback_put_in_is_no_history_and_what_comes_after_is() {
        let session = read(&BEFORE);
        let image = Media {
            media_type: "image/png".into(),
            data: foldback_core::Blob::Base64("iVBORw0KGgo=".into()),
            pixels: None,
        };
        let result = ToolResult {
            call_id: "c".into(),
            content: vec![ResultPart::Media(image), ResultPart::Text("late".into())],
            is_error: true,
        };
        let items: Vec<Arc<Item>> = [
            Item::text("s", ItemKind::Developer, "rules"),
            found_summary(Item::text("1", ItemKind::Context, "short"), BY, 1, Tokens(5)),
            Item::text("2", ItemKind::Notification, "ended"),
            Item::text("3", ItemKind::Context, "a file"),
            Item::user("4", "go"),
            Item::assistant(
                "5",
                vec![Part::call("c", "ls", &serde_json::json!({"n": 1})), Part::text("and")],
            ),
            Item::tool("6", result),
        ]
        .map(Arc::new)
        .to_vec();
        let conversation = &session.conversations()[0];
        let mut bytes = compacted(&session, conversation, &items).to_bytes();
        assert!(bytes.starts_with(session.bytes()));
        assert_eq!(compacted(&session, conversation, &items).to_bytes(), bytes);
        bytes.extend_from_slice(event(99, "user.message", r#"{"content":"new"}"#).as_bytes());
        let again = SessionFile::read(bytes).unwrap();
        let parts = |items: &[Arc<Item>]| -> Vec<(ItemKind, Part)> {
            items.iter().flat_map(|item| item.parts.iter().map(|part| (item.kind, part.clone()))).collect()
        };
        let mut expected = parts(&items);
        expected.push((ItemKind::User, Part::text("new")));
        assert_eq!(parts(&view(&again)), expected);
        assert_eq!(again.conversations()[0].history().count(), 4);
    }

    /// An item without parts is recorded and never sent, so a compaction need not write it.
    #[test]
    fn an_empty_notification_has_no_part_that_a_compaction_could_lose() {
        let mut events = BEFORE.to_vec();
        events.push(("system.notification", r#"{"content":""}"#));
        let session = read(&events);
        let empty: Vec<Arc<Item>> =
            view(&session).into_iter().filter(|item| item.kind == ItemKind::Notification).collect();
        assert!(matches!(&empty[..], [item] if item.parts.is_empty()), "{empty:?}");
    }

    #[test]
    fn a_cleared_context_begins_anew_and_its_history_stays() {
        let mut events = BEFORE.to_vec();
        events.push(("session.context_cleared", r#"{"messagesCleared":2,"initialMessage":"start over"}"#));
        events.push(("assistant.message", r#"{"content":"gladly"}"#));
        events.push(("session.context_cleared", r#"{"messagesCleared":2}"#));
        events.push(("user.message", r#"{"content":"and again"}"#));
        let session = read(&events);
        assert_eq!(texts(&view(&session)), ["user: and again"]);
        assert_eq!(session.conversations()[0].history().count(), 5);
        assert_eq!(texts(&view(&read(&events[..5]))), ["user: start over", "assistant: gladly"]);
    }

    #[test]
    fn a_compaction_without_a_summary_clears_the_context_and_is_looked_at_by_the_agent() {
        let session = read(&BEFORE);
        let items = view(&session);
        let written = compacted(&session, &session.conversations()[0], &items[..2]).to_bytes();
        let added = std::str::from_utf8(&written[session.bytes().len()..]).unwrap();
        let events: Vec<Value> =
            added.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let compaction = ["context_cleared", "compaction_start", "compaction_complete"]
            .map(|kind| format!("session.{kind}"));
        assert_eq!(kinds[..3], compaction);
        assert_eq!(events[0]["data"]["messagesCleared"], 3);
        assert!(!events[2]["data"]["summaryContent"].as_str().unwrap().is_empty());
        let is_chain = |pair: &[Value]| pair[1]["parentId"] == pair[0]["id"];
        assert!(events.windows(2).all(is_chain), "{added}");
        assert_eq!(texts(&view(&SessionFile::read(written).unwrap())), texts(&items[..2]));
    }

    #[test]
    fn a_sub_agent_has_a_conversation_of_its_own() {
        let mut events = BEFORE.to_vec();
        events.push(("assistant.message", r#"{"content":"found","parentToolCallId":"tc-1"}"#));
        let session = read(&events);
        let names: Vec<Option<&str>> = session.conversations().iter().map(Conversation::name).collect();
        assert_eq!(names, [None, Some("tc-1")]);
        let agent = &session.conversations()[1];
        let committed = session.committed(agent, &view_of(agent, &[]), 0);
        assert!(CopilotCli.append(&session, &committed).is_none());
    }

    #[test]
    fn an_event_that_is_not_understood_is_reported_on_its_line() {
        let mut events = BEFORE.to_vec();
        events.push(("user.message", r#"{"content":7}"#));
        events.push(("session.unheard_of", r#"{"content":7}"#));
        let session = read(&events);
        assert_eq!(session.problems().iter().map(|problem| problem.line).collect::<Vec<_>>(), [4]);
        assert_eq!(view(&session).len(), 3);
    }

    #[test]
    fn a_fresh_file_holds_every_kind_but_the_system_prompt() {
        let items: Vec<Arc<Item>> = ItemKind::ALL
            .into_iter()
            .filter(|kind| !matches!(kind, ItemKind::Tool | ItemKind::System))
            .map(|kind| Arc::new(Item::text(kind.as_str(), kind, "text")))
            .collect();
        let (bytes, losses) = CopilotCli.write(&sent(&items, None), None).unwrap();
        assert!(losses.is_empty());
        let start: Value = serde_json::from_slice(jsonl::lines(&bytes).next().unwrap()).unwrap();
        assert!(start["data"]["copilotVersion"].is_string(), "the agent refuses a file that names none");
        let again = SessionFile::read(bytes.clone()).unwrap();
        assert_eq!(texts(&view(&again)), texts(&items));
        let (like, _) = CopilotCli.write(&sent(&items[..1], Some(&again)), Some(&again)).unwrap();
        assert_eq!(jsonl::lines(&like).next(), jsonl::lines(&bytes).next(), "it is the same session");
        assert_eq!(texts(&view(&SessionFile::read(like).unwrap())), texts(&items[..1]));
    }
}
