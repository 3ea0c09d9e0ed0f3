use std::sync::Arc;

use foldback_core::{EstimatingCounter, Item, ItemKind, Part, Tokens};
use serde_json::{Value, json};

use super::*;
use crate::conversation::Conversation;
use crate::conversation::testing::{compacted, sent, view_of};
use crate::error::Fault;
use crate::format::WrittenAs;
use crate::jsonl;
use crate::lowering;
use crate::pieces::tests::Elsewhere;

fn fixture(name: &str) -> SessionFile {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude-code");
    SessionFile::read(std::fs::read(folder.join(name)).unwrap()).unwrap()
}

fn session(records: &[Value]) -> SessionFile {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    SessionFile::read(lines.join("\n").into_bytes()).unwrap()
}

fn user(uuid: &str, parent: Option<&str>, content: impl Into<Value>) -> Value {
    let message = json!({"role": "user", "content": content.into()});
    json!({"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message})
}

fn assistant(uuid: &str, parent: Option<&str>, id: &str, block: &Value) -> Value {
    let message = json!({"role": "assistant", "id": id, "model": "m", "content": [block]});
    json!({"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message})
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "ls", "input": {}})
}

fn result(id: &str) -> Value {
    json!([{"type": "tool_result", "tool_use_id": id, "content": "ok"}])
}

fn view(conversation: &Conversation) -> Vec<Arc<Item>> {
    let transcript = conversation.transcript(Arc::new(EstimatingCounter), None);
    conversation.view_of(&transcript).items().cloned().collect()
}

fn texts<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>) -> Vec<String> {
    let parts = items.into_iter().flat_map(|item| &item.parts);
    parts
        .map(|part| match part {
            Part::Text(text) => text.to_string(),
            Part::ToolCall(call) => format!("call {}", call.id),
            Part::ToolResult(result) => format!("{}: {}", result.call_id, result.first_line()),
            other => other.kind_name().to_owned(),
        })
        .collect()
}

fn history(conversation: &Conversation) -> Vec<Arc<Item>> {
    conversation.history().map(|recorded| Arc::clone(&recorded.item)).collect()
}

#[test]
fn records_of_one_message_are_one_item_with_results_between_them() {
    let session = session(&[
        user("u", None, "go"),
        assistant("a1", Some("u"), "msg", &call("t1")),
        user("r1", Some("a1"), result("t1")),
        assistant("a2", Some("a1"), "msg", &call("t2")),
        user("r2", Some("a2"), result("t2")),
        assistant("a3", Some("r1"), "msg2", &said("done")),
    ]);
    let items = history(&session.conversations()[0]);
    assert_eq!(texts(&items), ["go", "call t1", "call t2", "t1: ok", "t2: ok", "done"]);
    assert_eq!(items.len(), 5);
    assert_eq!(session.branches().len(), 0);
}

#[test]
fn an_edited_prompt_leaves_a_branch() {
    let session = session(&[
        user("u1", None, "one"),
        assistant("a1", Some("u1"), "m1", &said("first")),
        user("u2", Some("a1"), "two"),
        assistant("a2", Some("u2"), "m2", &said("second")),
        user("u3", Some("a1"), "two, edited"),
        assistant("a3", Some("u3"), "m3", &said("third")),
    ]);
    assert_eq!(texts(&history(&session.conversations()[0])), ["one", "first", "two, edited", "third"]);
    let [branch] = session.branches() else { panic!("one branch was left") };
    assert_eq!(texts(&history(branch)), ["one", "first", "two", "second"]);
}

#[test]
fn a_session_that_was_written_again_from_its_start_is_read_once() {
    let session = session(&[
        user("u1", None, "one"),
        assistant("a1", Some("u1"), "m1", &call("t1")),
        user("r1", Some("a1"), result("t1")),
        user("v1", None, "one"),
        assistant("b1", Some("v1"), "m1", &call("t1")),
        user("s1", Some("b1"), result("t1")),
        user("v2", Some("s1"), "two"),
    ]);
    assert_eq!(texts(&history(&session.conversations()[0])), ["one", "call t1", "t1: ok", "two"]);
    assert_eq!(session.branches().len(), 1);
}

#[test]
fn a_boundary_that_preserved_messages_shows_them_behind_its_summary() {
    let session = fixture("compacted.jsonl");
    let main = &session.conversations()[0];
    let seen = texts(&view(main));
    assert!(seen[0].starts_with("This session is being continued"), "{seen:?}");
    assert_eq!(seen[1], "Good. Keep the error messages as they are.");
    assert_eq!(seen[2], "They stay word for word.");
    assert_eq!(seen[3], "reasoning");
    let said = history(main);
    assert_eq!(texts(&said)[0], "Port the importer from Python to Rust.");
    assert!(said.iter().all(|item| item.summary.is_none()));
    let [cleared, compacted] = main.steps() else { panic!("two compactions") };
    assert_eq!(cleared.blocks[0].edits.len(), 3);
    assert_eq!(compacted.tokens_before, Some(Tokens(15500)));
}

#[test]
fn cleared_results_are_replaced_and_the_calls_stay() {
    let session = session(&[
        user("u", None, "go"),
        assistant("a1", Some("u"), "m1", &call("t1")),
        user("r1", Some("a1"), result("t1")),
        json!({"type": "system", "subtype": "microcompact_boundary", "uuid": "b", "parentUuid": "r1",
            "microcompactMetadata": {"preTokens": 9, "compactedToolIds": ["t1", "unknown"]}}),
    ]);
    let main = &session.conversations()[0];
    assert_eq!(texts(&view(main)), ["go", "call t1", "t1: [Old tool result content cleared]"]);
    assert_eq!(texts(&history(main)), ["go", "call t1", "t1: ok"]);
}

#[test]
fn a_boundary_without_a_summary_shows_what_it_preserved() {
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": null,
        "logicalParentUuid": "a1", "compactMetadata": {"preservedMessages": {"uuids": ["a1"]}}});
    let session =
        session(&[user("u", None, "go"), assistant("a1", Some("u"), "m1", &said("first")), boundary]);
    assert_eq!(texts(&view(&session.conversations()[0])), ["first"]);
}

#[test]
fn kept_items_may_come_before_the_summary_and_every_kind_comes_back() {
    let session = fixture("running.jsonl");
    let main = &session.conversations()[0];
    let mut items = view(main);
    let summary = Item::text("s", ItemKind::Context, "what happened");
    let summary = lowering::found_summary(summary, "floor", 3, Tokens(70));
    items.insert(2, Arc::new(summary));
    items.push(Arc::new(Item::text("n", ItemKind::Notification, "a job ended")));
    let written = compacted(&session, main, &items);
    assert!(written.to_bytes().starts_with(session.bytes()));
    let again = SessionFile::read(written.to_bytes()).unwrap();
    let main_again = &again.conversations()[0];
    let kinds = |items: &[Arc<Item>]| items.iter().map(|item| item.kind).collect::<Vec<_>>();
    let seen = view(main_again);
    assert_eq!(kinds(&seen), kinds(&items));
    assert!(seen.iter().zip(&items).all(|(seen, item)| seen.parts == item.parts));
    assert!(seen[2].summary.is_some());
    assert_eq!(main_again.steps().len(), 1);
    assert_eq!(history(main_again).len(), history(main).len());
    assert_eq!(compacted(&session, main, &items).to_bytes(), written.to_bytes());
    let twice = compacted(&again, main_again, &seen[..1]);
    let twice = SessionFile::read(twice.to_bytes()).unwrap();
    assert_eq!(view(&twice.conversations()[0]).len(), 1);
    assert_eq!(history(&twice.conversations()[0]).len(), history(main).len());
}

#[test]
fn what_the_agent_writes_after_a_compaction_is_seen() {
    let session = fixture("sub-agent.jsonl");
    let main = &session.conversations()[0];
    let written = compacted(&session, main, &view(main)[..1]).to_bytes();
    let last: Value =
        serde_json::from_slice(written.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap())
            .unwrap();
    let mut next = user("new", last["uuid"].as_str(), "and the third?");
    next["isSidechain"] = true.into();
    next["agentId"] = "f00dfa1".into();
    let bytes = [&written[..], &jsonl::added(&written, [next.to_string()])].concat();
    let again = SessionFile::read(bytes).unwrap();
    assert_eq!(texts(&view(&again.conversations()[0])), ["Summarise the licence files.", "and the third?"]);
    assert_eq!(again.sub_agent_of().map(|agent| &*agent.agent_id), Some("f00dfa1"));
}

#[test]
fn sub_agents_are_conversations_of_their_own() {
    let session = fixture("branches.jsonl");
    let [main, agent] = session.conversations() else { panic!("one sub-agent") };
    assert_eq!(agent.name(), Some("a1b2c3"));
    assert_eq!(texts(&history(agent)).len(), 4);
    assert_eq!(session.branches().len(), 1);
    assert_eq!(session.model(), Some("claude-sonnet-4-5-20250929"));
    assert_eq!(texts(&history(main)).last().map(String::as_str), Some("No response requested."));
    let [problem] = session.problems() else { panic!("one line is broken") };
    assert!(problem.line == 11 && matches!(problem.fault, Fault::NotJson { .. }), "{problem}");
}

#[test]
fn a_file_may_begin_at_a_boundary() {
    let session = fixture("history-elsewhere.jsonl");
    let main = &session.conversations()[0];
    assert_eq!(view(main).len(), 4);
    assert_eq!(history(main).len(), 4, "what the summary stands for is not there");
}

#[test]
fn a_fresh_file_holds_what_was_written() {
    let session = fixture("running.jsonl");
    let items = view(&session.conversations()[0]);
    let written = crate::format::write(Format::ClaudeCode, &sent(&items, None), None).unwrap();
    assert_eq!(written.losses, []);
    let again = SessionFile::read(written.to_bytes()).unwrap();
    assert_eq!(again.problems(), []);
    assert_eq!(texts(&view(&again.conversations()[0])), texts(&items));
}

#[test]
fn a_summary_in_a_fresh_file_is_one_wherever_it_stands() {
    let summary = |id: &str| {
        lowering::found_summary(Item::text(id, ItemKind::Context, "so far"), "floor", 3, Tokens(9))
    };
    let items = [Item::user("u", "one"), summary("s"), Item::user("v", "two")].map(Arc::new);
    for items in [&items[..], &items[1..]] {
        let written = crate::format::write(Format::ClaudeCode, &sent(items, None), None).unwrap();
        let seen = view(&SessionFile::read(written.to_bytes()).unwrap().conversations()[0]);
        let are_summaries =
            |items: &[Arc<Item>]| items.iter().map(|item| item.summary.is_some()).collect::<Vec<_>>();
        assert_eq!(are_summaries(&seen), are_summaries(items));
        assert_eq!(texts(&seen), texts(items));
    }
}

#[test]
fn circles_and_odd_records_are_survived() {
    let mut odd = vec![
        user("x", Some("y"), "a"),
        user("y", Some("x"), "b"),
        user("z", Some("z"), "c"),
        json!({"type": "user", "uuid": "q", "sessionId": "s", "message": {"content": {"no": "list"}}}),
        json!({"type": "user", "uuid": "q", "sessionId": "s"}),
        json!({"type": "attachment", "uuid": "w", "sessionId": "s", "attachment": "loose"}),
        json!({"type": 7, "uuid": []}),
        json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": null, "sessionId": "s",
            "compactMetadata": {"preservedSegment": {"headUuid": "z", "tailUuid": "x"}}}),
    ];
    let session = self::session(&odd);
    assert_eq!(session.problems().iter().map(|problem| problem.line).collect::<Vec<_>>(), [4, 5, 7]);
    odd.reverse();
    self::session(&odd);
}

/// What the model sees and what was said, when a compaction to `items` was added and read again.
fn compacted_again(session: &SessionFile, items: &[Arc<Item>]) -> (Vec<String>, Vec<String>) {
    let written = compacted(session, &session.conversations()[0], items);
    let again = SessionFile::read(written.to_bytes()).unwrap();
    let main = &again.conversations()[0];
    (texts(&view(main)), texts(&history(main)))
}

#[test]
fn attachments_stay_what_they_are_unless_they_were_changed() {
    let attached = |uuid: &str, parent: &str, attachment: Value| json!({"type": "attachment", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "attachment": attachment});
    let skills = json!({"type": "skill_listing", "content": "- prune: cuts branches", "skillCount": 1});
    let agents =
        json!({"type": "agent_listing_delta", "addedLines": ["- gardener: digs"], "isInitial": true});
    let session = session(&[
        user("u", None, "one"),
        attached("x", "u", skills.clone()),
        attached("y", "x", agents),
        assistant("a", Some("y"), "m", &said("two")),
    ]);
    let mut items = view(&session.conversations()[0]);
    items[2] = Arc::new(Item::text("y", ItemKind::Context, "- gardener"));
    let written = compacted(&session, &session.conversations()[0], &items).to_bytes();
    let added = std::str::from_utf8(&written[session.bytes().len()..]).unwrap();
    let records: Vec<Value> = added.lines().skip(2).map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = records.iter().map(|record| record["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "attachment", "user", "assistant"]);
    assert_eq!(records[1]["attachment"], skills);
    let (seen, said) = compacted_again(&session, &items);
    assert_eq!(seen, ["one", "- prune: cuts branches", "- gardener", "two"]);
    assert_eq!(said.len(), 4);
}

#[test]
fn a_compaction_goes_on_from_what_was_read_last_and_not_from_a_broken_record() {
    let no_message = json!({"type": "user", "uuid": "r", "parentUuid": "a", "sessionId": "s"});
    let no_text =
        r#"{"type":"user","uuid":"r","sessionId":"\ud800","message":{"role":"user","content":"x"}}"#;
    let cut_off = r#"{"type":"user","uuid":"r","sessionId":"s","mess"#;
    for broken in [&no_message.to_string(), no_text, cut_off] {
        let said = [user("u", None, "one"), assistant("a", Some("u"), "m", &said("two"))];
        // A link of another chain, which leads nowhere.
        let loose = json!({"type": "progress", "uuid": "p", "parentUuid": null, "sessionId": "s"});
        let lines: Vec<String> = said.iter().chain([&loose]).map(Value::to_string).collect();
        let session = SessionFile::read(format!("{}\n{broken}", lines.join("\n")).into_bytes()).unwrap();
        assert_eq!(session.problems().len(), 1);
        let items = view(&session.conversations()[0]);
        let written = compacted(&session, &session.conversations()[0], &items[1..]);
        assert_eq!(written.written_as, WrittenAs::Appended(Format::ClaudeCode));
        assert!(written.to_bytes().starts_with(session.bytes()));
        let (seen, said) = compacted_again(&session, &items[1..]);
        assert_eq!((seen, said), (vec!["two".to_owned()], vec!["one".to_owned(), "two".to_owned()]));
    }
}

#[test]
fn a_session_whose_end_cannot_be_named_is_written_anew() {
    let mut nameless = user("u3", Some("a"), "three");
    nameless.as_object_mut().unwrap().remove("uuid");
    for end in [nameless, user("u", Some("a"), "three")] {
        let start = [user("u", None, "one"), assistant("a", Some("u"), "m", &said("two"))];
        let session = session(&[start.as_slice(), &[end]].concat());
        let main = &session.conversations()[0];
        let items = view(main);
        let written = compacted(&session, main, &items[1..]);
        assert_eq!(written.written_as, WrittenAs::Fresh(Format::ClaudeCode));
        let seen = texts(&items[1..]);
        assert_eq!(compacted_again(&session, &items[1..]), (seen.clone(), seen));
    }
}

/// A file of more than a megabyte.
fn long() -> SessionFile {
    let text = "a line of a long file\n".repeat(1_000);
    let mut records = vec![user("u0", None, "begin")];
    for number in 1..80 {
        let parent = format!("u{}", number - 1);
        records.push(user(&format!("u{number}"), Some(&parent), text.as_str()));
    }
    records.push(user("u80", Some("u79"), "end"));
    session(&records)
}

#[test]
fn a_compaction_of_a_long_file_is_the_same_where_only_its_end_is_read() {
    let whole = long();
    let source = Elsewhere(whole.bytes());
    let contents = Contents::read_from(&source, Some(Format::ClaudeCode)).unwrap();
    let conversation = &contents.conversations()[0];
    let items: Vec<Arc<Item>> = view(conversation).split_off(78);
    let committed = contents.committed(conversation, &view_of(conversation, &items), 0);
    let behind = contents.compacted_behind(&source, &committed).unwrap();
    let held = whole.conversations()[0].recorded().iter().map(|recorded| Arc::clone(&recorded.item));
    let held: Vec<Arc<Item>> = held.skip(78).collect();
    let written = compacted(&whole, &whole.conversations()[0], &held);
    assert!(behind.begins_with_session() && written.begins_with_session());
    assert_eq!(str::from_utf8(behind.added()), str::from_utf8(written.added()));
    assert_eq!(behind.written_as, written.written_as);
    assert!(written.added().starts_with(b"\n"), "its last line had no end");
}

#[test]
fn attachments_before_the_end_of_a_long_file_are_written_as_it_has_them() {
    let attachment = json!({"type": "skill_listing", "content": "- prune: cuts branches", "skillCount": 1});
    let attached = json!({"type": "attachment", "uuid": "a", "parentUuid": "u0", "sessionId": "s", "attachment": attachment});
    let lines: Vec<String> = [user("u0", None, "begin"), attached]
        .into_iter()
        .chain((1..80).map(|number| {
            let parent = if number == 1 { "a".to_owned() } else { format!("u{}", number - 1) };
            user(&format!("u{number}"), Some(&parent), "a line of a long file\n".repeat(1_000))
        }))
        .map(|record| record.to_string())
        .collect();
    let whole = SessionFile::read_as(Format::ClaudeCode, lines.join("\n").into_bytes()).unwrap();
    let source = Elsewhere(whole.bytes());
    let contents = Contents::read_from(&source, Some(Format::ClaudeCode)).unwrap();
    let conversation = &contents.conversations()[0];
    let items = view(conversation);
    assert!(texts(&items[1..2])[0].contains("prune"), "the attachment");
    let committed = contents.committed(conversation, &view_of(conversation, &items[1..3]), 0);
    let behind = contents.compacted_behind(&source, &committed).unwrap();
    let added = str::from_utf8(behind.added()).unwrap();
    let records: Vec<Value> = added.trim().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[1]["attachment"], attachment);
}

#[test]
fn a_record_that_was_written_twice_is_read_once_and_a_compaction_still_goes_behind_it() {
    let at = |mut record: Value, second: usize| {
        record["timestamp"] = json!(format!("2026-01-01T00:00:{second:02}.000Z"));
        record
    };
    let once = [
        at(user("u", None, "go"), 0),
        at(assistant("a1", Some("u"), "msg", &call("t1")), 1),
        at(user("r1", Some("a1"), result("t1")), 2),
        at(assistant("a2", Some("r1"), "msg2", &said("done")), 3),
    ];
    let expected = texts(&history(&session(&once).conversations()[0]));
    for repeated in [1, 2, 3] {
        let mut twice = once.to_vec();
        twice.insert(repeated + 1, once[repeated].clone());
        let session = session(&twice);
        let conversation = &session.conversations()[0];
        assert_eq!(texts(&history(conversation)), expected, "record {repeated}");
        assert_eq!(session.branches().len(), 0, "record {repeated}");
        let written = compacted(&session, conversation, &view(conversation)[2..]);
        assert!(written.begins_with_session(), "record {repeated}");
    }
    let edited = [once.as_slice(), &[at(assistant("a2", Some("r1"), "msg2", &said("other")), 4)]].concat();
    assert!(texts(&history(&session(&edited).conversations()[0])).contains(&"other".to_owned()));
}
