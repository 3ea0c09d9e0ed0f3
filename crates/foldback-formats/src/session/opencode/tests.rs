use super::*;
use crate::conversation::testing::{compacted, sent};
use foldback_core::{EstimatingCounter, Json, Opaque, ToolCall, ToolInput};
use std::sync::Arc;

fn export(messages: &[&str]) -> String {
    format!("{{\"info\":{{\"id\":\"ses_1\"}},\n\"messages\":[\n{}\n]}}", messages.join(",\n"))
}

fn read(messages: &[&str]) -> SessionFile {
    SessionFile::read(export(messages).into_bytes()).unwrap()
}

fn user(id: &str, parts: &str) -> String {
    format!(r#"{{"info":{{"id":"{id}","role":"user","time":{{"created":5}}}},"parts":[{parts}]}}"#)
}

fn said(id: &str, more: &str, parts: &str) -> String {
    format!(
        r#"{{"info":{{"id":"{id}","role":"assistant","finish":"stop","providerID":"openai","modelID":"m"{more}}},"parts":[{parts}]}}"#
    )
}

fn flat<'a>(items: impl Iterator<Item = &'a Arc<Item>>) -> Vec<(ItemKind, Part)> {
    items.flat_map(|item| item.parts.iter().map(|part| (item.kind, part.clone()))).collect()
}

fn shown(session: &SessionFile) -> Vec<(ItemKind, Part)> {
    let main = &session.conversations()[0];
    let transcript = main.transcript(Arc::new(EstimatingCounter), None);
    flat(main.view_of(&transcript).items())
}

fn texts(parts: Vec<(ItemKind, Part)>) -> Vec<String> {
    let text = |part| match part {
        Part::Text(text) => text.to_string(),
        Part::ToolResult(result) => format!("→ {}", result.first_line()),
        Part::ToolCall(call) => format!("call {}", call.id),
        other => format!("{other:?}"),
    };
    parts.into_iter().map(|(_, part)| text(part)).collect()
}

fn history(session: &SessionFile) -> Vec<String> {
    texts(flat(session.conversations()[0].history().map(|recorded| &recorded.item)))
}

const MARKER: &str = r#"{"type":"compaction","auto":true,"tail_start_id":"m3"}"#;

#[test]
fn a_step_is_what_was_said_and_called_and_then_the_results() {
    let tool = |id: &str| {
        format!(
            r#"{{"type":"tool","id":"p{id}","tool":"ls","callID":"{id}","state":{{"status":"completed","input":{{}},"output":"out {id}"}}}}"#
        )
    };
    let step = r#"{"type":"step-start"}"#;
    let parts = [step, &tool("1"), &tool("2"), step, r#"{"type":"text","text":"done"}"#].join(",");
    let session = read(&[&said("m1", "", &parts)]);
    assert_eq!(texts(shown(&session)), ["call 1", "call 2", "→ out 1", "→ out 2", "done"]);
    assert_eq!(session.dialect(), Some(Dialect::OpenaiResponses));
}

#[test]
fn a_compaction_shows_its_summary_then_the_tail_it_names() {
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let (one, two) = (user("m1", &text("one")), user("m3", &text("two")));
    let (answer, after) = (said("m4", "", &text("answer")), user("m7", &text("after")));
    let marker = user("m5", MARKER);
    let failed = said("m6", r#","summary":true,"parentID":"m5","error":{"name":"APIError"}"#, &text("half"));
    let session = read(&[&one, &two, &answer, &marker, &failed, &after]);
    assert_eq!(texts(shown(&session)), ["one", "two", "answer", "after"]);
    let summary = said("m6", r#","summary":true,"parentID":"m5""#, &text("so far"));
    let session = read(&[&one, &two, &answer, &marker, &summary, &after]);
    assert_eq!(texts(shown(&session)), ["so far", "two", "answer", "after"]);
    assert_eq!(history(&session), ["one", "two", "answer", "after"]);
}

#[test]
fn a_pruned_output_is_in_the_history_and_not_in_the_view() {
    let tool = r#"{"type":"tool","id":"p","tool":"ls","callID":"c","state":{"status":"completed","input":{},"output":"long","time":{"start":1,"end":2,"compacted":9}}}"#;
    let session = read(&[&said("m1", "", tool)]);
    assert_eq!(texts(shown(&session)), ["call c", "→ [Old tool result content cleared]"]);
    assert_eq!(history(&session), ["call c", "→ long"]);
}

#[test]
fn a_message_that_cannot_be_read_is_a_problem_on_its_line() {
    let one = user("m1", r#"{"type":"text","text":"one"}"#);
    let session = read(&[
        &one,
        r#"{"info":{"role":7},"parts":[]}"#,
        r#"{"info":{"role":"user"},"parts":[7,{"type":"text","text":5}]}"#,
    ]);
    assert_eq!(session.problems().iter().map(|problem| problem.line).collect::<Vec<_>>(), [4]);
    assert_eq!(shown(&session).len(), 3, "what is no part is passed through");
    let error = SessionFile::read_as(Format::Opencode, b"{\"messages\":\n5}".to_vec()).unwrap_err();
    assert_eq!(error.problem().map(|problem| problem.line), Some(2));
}

/// Items with everything that opencode's parts have no room for.
fn odd_items() -> Vec<Arc<Item>> {
    let json = Json::parse("{\"a\": 1.0}").unwrap();
    let call = |id: &str, input| {
        Part::ToolCall(ToolCall { id: id.into(), name: "exec".into(), input, signature: None })
    };
    let result = ToolResult {
        call_id: "c1".into(),
        content: vec![ResultPart::Structured(json.clone()), ResultPart::Text("done".into())],
        is_error: true,
    };
    let calls = vec![
        Part::reasoning("hm"),
        call("c1", ToolInput::Text("not JSON".into())),
        call("c2", ToolInput::Json(json.clone())),
        Part::Opaque(Opaque { source: "other/thing".into(), json }),
    ];
    let summary = found_summary(Item::text("s", ItemKind::Context, "folded"), "floor", 3, Tokens(9));
    vec![
        summary.clone().into(),
        Item::text("sys", ItemKind::System, "be brief").into(),
        Item::user("u", "hi").into(),
        Item::text("x", ItemKind::Context, "<notification>\nquoted\n</notification>").into(),
        Item::assistant("a", calls).into(),
        Item::tool("t2", ToolResult::text("c2", "two")).into(),
        Item::tool("t1", result).into(),
        summary.into(),
        Item::text("n", ItemKind::Notification, "a file changed").into(),
    ]
}

#[test]
fn every_kind_and_part_comes_back_from_a_compaction() {
    let session = read(&[&user("msg_0000000000ffx", r#"{"type":"text","text":"one"}"#)]);
    let items = odd_items();
    let written = compacted(&session, &session.conversations()[0], &items);
    let again = SessionFile::read(written.to_bytes()).unwrap();
    assert_eq!(shown(&again), flat(items.iter()));
    assert_eq!(history(&again), ["one"]);
    let twice = compacted(&again, &again.conversations()[0], &items[1..]);
    let twice = SessionFile::read(twice.to_bytes()).unwrap();
    assert_eq!(shown(&twice), flat(items[1..].iter()));
    assert_eq!(history(&twice), ["one"]);
}

#[test]
fn new_ids_follow_those_of_the_file() {
    let session = read(&[&user("msg_0000000000ffx", r#"{"type":"text","text":"one"}"#)]);
    let written = compacted(&session, &session.conversations()[0], &odd_items());
    let body: Value = serde_json::from_slice(&written.to_bytes()).unwrap();
    let ids =
        body["messages"].as_array().unwrap().iter().map(|message| message["info"]["id"].as_str().unwrap());
    assert!(ids.is_sorted(), "opencode sorts messages by their ids");
}

#[test]
fn a_fresh_export_says_what_it_cannot_hold() {
    let items = odd_items();
    let written = crate::write(Format::Opencode, &sent(&items, None), None).unwrap();
    let lost: Vec<&str> = written.losses.iter().map(|loss| &*loss.item_id).collect();
    assert_eq!(lost, ["sys", "x", "a"]);
    let again = SessionFile::read(written.to_bytes()).unwrap();
    assert_eq!(again.format(), Format::Opencode);
    assert_eq!(shown(&again)[2], (ItemKind::User, Part::text("hi")));
}

#[test]
fn an_item_is_shown_in_the_newest_message_that_holds_it() {
    let call = r#"{"id":"prt_2","type":"tool","callID":"c","tool":"bash","state":{"status":"completed","input":{},"output":"ok"}}"#;
    let session = read(&[
        &user("msg_1", r#"{"id":"prt_1","type":"text","text":"go"}"#),
        &said("msg_2", "", call),
        &user("msg_3", r#"{"id":"prt_3","type":"text","text":"on"}"#),
    ]);
    let items: Vec<Arc<Item>> =
        session.conversations()[0].recorded().iter().map(|one| Arc::clone(&one.item)).collect();
    let shown = |session: &SessionFile, index: usize| {
        session.conversations()[0].record_of(index).map(str::to_owned).unwrap()
    };
    assert_eq!(shown(&session, 2), "msg_2", "the result is in the message of its call");
    assert_eq!(shown(&session, 3), "msg_3");

    let written = compacted(&session, &session.conversations()[0], &items[1..]).to_bytes();
    let session = SessionFile::read(written).unwrap();
    let copies: Vec<String> = (1..items.len()).map(|index| shown(&session, index)).collect();
    assert_eq!(copies[0], copies[1], "a call and its result are in one message");
    assert!(copies.iter().all(|copy| !["msg_1", "msg_2", "msg_3"].contains(&copy.as_str())), "{copies:?}");
}
