//! Session files of Gemini CLI, of both kinds.
//!
//! Up to early 2026 a session is one JSON value, `{sessionId, projectHash, messages, …}`, which is
//! written anew each time; it has no record of compactions. Since then it is a log of lines: the
//! metadata, messages (written again whenever they change, under the same id), `$rewindTo`, and
//! `$set` for everything else. A `$set` of `messages` is what the agent writes after a compaction:
//! the messages that the model sees from there on.
//!
//! A message of the model carries its calls and their results; thoughts stand apart.

mod log;
mod message;
mod write;

use foldback_core::{Dialect, Text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::conversation::{Conversation, FilePlace, Kept, Sent};
use crate::detect::{Fit, Probe};
use crate::dialect::gemini::{arrange, content};
use crate::document::Document;
use crate::error::FormatError;
use crate::format::{Added, Codec, Committed, Format, Loss, Reading, SessionFile};
use crate::jsonl;

use message::{Message, Reader};

pub(crate) struct GeminiCli;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    session_id: Option<Text>,
    /// A title in a few words, despite its name.
    #[serde(default)]
    summary: Option<Text>,
    #[serde(borrow)]
    messages: &'a RawValue,
    #[serde(borrow, default)]
    foldback: Option<&'a RawValue>,
}

/// What foldback writes into a file that is one value, which has no record of compactions.
#[derive(Deserialize, Serialize)]
struct Own {
    kept: Kept,
    /// The messages that show what the model sees.
    copies: Vec<(Text, usize)>,
}

/// Lines that are looked at to tell a log from a single value.
const PROBE_LINES_MAX: usize = 60;

/// Whether these bytes are a log of lines. The first line shows it; where it cannot be read, later
/// ones do, unless all of it is a single value: that may have messages on lines of their own.
fn is_log(bytes: &[u8]) -> bool {
    let lines = (1..).zip(jsonl::lines(bytes)).filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut heads =
        lines.take(PROBE_LINES_MAX).map(|(number, line)| jsonl::parse::<log::Head<'_>>(line, number));
    match heads.next() {
        Some(Ok(Some((_, head)))) => head.is_of_log(),
        Some(_) => {
            let is_file = serde_json::from_slice::<File<'_>>(bytes).is_ok();
            !is_file && heads.any(|head| matches!(head, Ok(Some((_, head))) if head.is_of_log()))
        }
        None => false,
    }
}

impl Codec for GeminiCli {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let has_type = |message: &Value| matches!(message["type"].as_str(), Some("user" | "gemini" | "info"));
        let is_file = probe.field("sessionId").is_some()
            && (probe.field("projectHash").is_some() || probe.elements_of("messages").iter().any(has_type))
            && probe.field("messages").is_some();
        let is_metadata = |record: &Value| {
            record["sessionId"].is_string()
                && record["projectHash"].is_string()
                && record.get("type").is_none()
        };
        let is_answer = |record: &Value| record["type"] == "gemini" && record["id"].is_string();
        if is_file || probe.any_record(|record| is_metadata(record) || is_answer(record)) {
            Fit::Sure
        } else {
            Fit::No
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        if is_log(bytes) { log::read(bytes) } else { read_file(bytes) }
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        let (messages, losses) = write::messages(&arrange(items.to_vec()));
        let bytes = match like.map(SessionFile::bytes) {
            None => write::file(&messages, items),
            Some(log) if is_log(log) => log::with_messages(log, messages),
            Some(file) => {
                let document = Document::new(file, Format::GeminiCli).ok()?;
                let place = document.parse::<File<'_>>().ok()?.messages;
                document.with_replaced(place, &write::list(&messages))
            }
        };
        Some((bytes, losses))
    }

    fn rewrite(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<(Vec<u8>, Vec<Loss>)> {
        let (messages, losses) = write::messages(&committed.sent);
        let document = Document::new(session.bytes(), Format::GeminiCli).ok()?;
        let file: File<'_> = document.parse().ok()?;
        let kept = Kept::of(committed.conversation, &committed.note);
        let copies = messages.iter().flat_map(|message| message.copies.clone()).collect();
        let own = serde_json::to_string(&Own { kept, copies }).ok()?;
        let list = write::list(&messages);
        let bytes = match file.foldback {
            None => document.with_replaced(file.messages, &format!("{list},\n\"foldback\": {own}")),
            Some(piece) => {
                let replaced = document.with_replaced(piece, &own);
                let document = Document::new(&replaced, Format::GeminiCli).ok()?;
                let file: File<'_> = document.parse().ok()?;
                document.with_replaced(file.messages, &list)
            }
        };
        Some((bytes, losses))
    }

    fn arrange(&self, items: Vec<Sent>) -> Vec<Sent> {
        arrange(items)
    }

    fn append(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<Added> {
        if !is_log(session.bytes()) {
            return None;
        }
        let (messages, losses) = write::messages(&committed.sent);
        losses.is_empty().then(|| Added::Behind(log::compaction(session, &messages, &committed.note)))
    }
}

fn read_file(bytes: &[u8]) -> Result<Reading, FormatError> {
    let document = Document::new(bytes, Format::GeminiCli)?;
    let File { session_id, summary, messages, foldback } = document.parse()?;
    let elements: Vec<&RawValue> = document.parse_piece(messages)?;
    let (mut problems, mut model) = (Vec::new(), None);
    let own: Option<Own> = foldback.and_then(|own| serde_json::from_str(own.get()).ok());
    let known = own.and_then(|own| Some((own.kept.conversation(FilePlace::line(1))?, own.copies)));
    let (mut conversation, copies) = known.unwrap_or_default();
    let mut reader = Reader::default();
    for (index, element) in elements.into_iter().enumerate() {
        let place = FilePlace::line(document.line_of(element));
        let read = document.read_piece::<Message<'_>>(element).and_then(|message| {
            model = message.model.clone().or_else(|| model.take());
            let items = reader.items(&message, index).map_err(|error| message::problem(&error, place))?;
            Ok((message.id, items))
        });
        match read {
            Ok((Some(id), _)) if copies.iter().any(|(copy, _)| **copy == *id) => {}
            Ok((_, items)) => {
                for item in items {
                    conversation.push(item, place);
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    Ok(Reading { title: summary, ..reading(conversation, problems, model, session_id) })
}

fn reading(
    conversation: Conversation,
    problems: Vec<crate::error::Problem>,
    model: Option<Text>,
    session_id: Option<Text>,
) -> Reading {
    let conversations = vec![conversation];
    let dialect = Some(Dialect::Gemini);
    Reading { conversations, problems, dialect, model, session_id, ..Reading::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilePlace;
    use crate::conversation::testing::sent;
    use foldback_core::Item;
    use foldback_core::{EstimatingCounter, ItemKind, Part};
    use std::sync::Arc;

    fn read(text: &str) -> SessionFile {
        SessionFile::read(text.as_bytes().to_vec()).unwrap()
    }

    fn view(session: &SessionFile) -> Vec<Arc<Item>> {
        let conversation = &session.conversations()[0];
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), session.dialect());
        conversation.view_of(&transcript).items().cloned().collect()
    }

    fn shape(items: &[Arc<Item>]) -> Vec<String> {
        items.iter().map(|item| format!("{} {}", item.kind, item.parts.len())).collect()
    }

    const METADATA: &str = r#"{"sessionId":"s1","projectHash":"p","startTime":"2026-05-01T08:00:00.000Z"}"#;

    const ASKED: &str = r#"{"id":"a","type":"user","content":[{"text":"one"}]}"#;

    const ANSWERED: &str = r#"{"id":"b","type":"gemini","content":"","toolCalls":[{"id":"c1","name":"ls","args":{},
        "status":"success","result":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"x"}}}]}]}"#;

    fn log(lines: &[&str]) -> SessionFile {
        let lines: Vec<String> = lines.iter().map(|line| line.replace('\n', "")).collect();
        read(&format!("{METADATA}\n{}\n", lines.join("\n")))
    }

    #[test]
    fn results_stand_with_their_calls_and_what_only_people_see_is_no_context() {
        let session = read(
            r#"{"sessionId":"s1","projectHash":"p","messages":[
            {"id":"a","type":"user","content":"go","timestamp":"2026-05-01T08:00:00.000Z"},
            {"id":"b","type":"gemini","content":"","thoughts":[{"subject":"Look","description":"around"}],
             "tokens":{"input":100,"output":5,"cached":60,"thoughts":7,"tool":0,"total":112},"model":"gemini-3-pro",
             "toolCalls":[{"id":"c1","name":"ls","args":{},"status":"cancelled",
               "result":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"x"}}}]},
              {"id":"c2","name":"ls","args":{},"status":"executing"}]},
            {"id":"c","type":"info","content":"Request cancelled."}]}"#,
        );
        let items = view(&session);
        assert_eq!(shape(&items), ["user 1", "assistant 3", "tool 1"]);
        assert_eq!(items[1].parts[0], Part::reasoning("**Look**\naround"));
        let usage = items[1].usage.unwrap();
        assert_eq!((usage.input_tokens.0, usage.cached_tokens.0, usage.output_tokens.0), (40, 60, 12));
        assert!(items[2].results().all(|(_, result)| result.is_error));
        assert_eq!((session.session_id(), session.model()), (Some("s1"), Some("gemini-3-pro")));
    }

    #[test]
    fn a_message_written_again_replaces_itself_and_a_rewind_takes_back() {
        let called =
            r#"{"id":"b","type":"gemini","content":"","toolCalls":[{"id":"c1","name":"ls","args":{}}]}"#;
        let again = r#"{"id":"c","type":"user","content":"two"}"#;
        let session = log(&[ASKED, called, ANSWERED, again, r#"{"$rewindTo":"c"}"#]);
        assert_eq!(shape(&view(&session)), ["user 1", "assistant 1", "tool 1"]);
        assert_eq!(session.conversations()[0].history().count(), 4);
    }

    #[test]
    fn a_set_of_messages_is_a_compaction_and_repeats_no_result() {
        let set = r#"{"$set":{"messages":[
            {"id":"s","type":"user","content":[{"text":"<state_snapshot>x</state_snapshot>"}]},
            {"id":"b","type":"gemini","content":[{"functionCall":{"id":"c1","name":"ls","args":{}}}],
             "toolCalls":[{"id":"c1","name":"ls","args":{},"status":"success",
              "result":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"x"}}}]}]},
            {"id":"r","type":"user","content":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"x"}}}]}
            ]}}"#;
        let session = log(&[ASKED, ANSWERED, set, r#"{"id":"z","type":"gemini","content":"done"}"#]);
        let conversation = &session.conversations()[0];
        assert_eq!(shape(&view(&session)), ["context 1", "assistant 1", "tool 1", "assistant 1"]);
        assert_eq!(conversation.history().count(), 4);
        assert_eq!(conversation.steps()[0].place, FilePlace::line(4));
        assert!(view(&session)[0].summary.is_some());
    }

    #[test]
    fn every_kind_is_read_again_from_a_fresh_file() {
        let items: Vec<Arc<Item>> = [
            Item::text("1", ItemKind::Context, "a file"),
            Item::user("2", "hi"),
            Item::text("3", ItemKind::Notification, "a job ended"),
            Item::assistant("4", vec![Part::text("b"), Part::reasoning("late"), Part::text("c")]),
        ]
        .map(Arc::new)
        .to_vec();
        let (bytes, losses) = GeminiCli.write(&sent(&items, None), None).unwrap();
        assert!(losses.is_empty());
        let again = view(&SessionFile::read(bytes).unwrap());
        let same =
            |(again, item): (&Arc<Item>, &Arc<Item>)| (again.kind, &again.parts) == (item.kind, &item.parts);
        assert!(again.iter().zip(&items).all(same));
        assert_eq!(again.len(), items.len());
        let (_, losses) =
            GeminiCli.write(&sent(&[Arc::new(Item::text("s", ItemKind::System, "x"))], None), None).unwrap();
        assert_eq!(losses.len(), 1);
    }

    #[test]
    fn a_message_that_is_none_is_reported_on_its_line() {
        let file = r#"{"sessionId":"s","projectHash":"p","messages":[
            {"id":"a","type":"user","content":"x"},
            {"id":7}]}"#;
        let session = read(file);
        assert_eq!(session.problems()[0].line, 3);
        assert_eq!(view(&session).len(), 1);
    }
}
