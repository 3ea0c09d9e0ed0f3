use super::*;
use crate::conversation::testing::sent;
use crate::detect::detect;
use crate::error::Fault;
use std::sync::Arc;

fn kinds(session: &SessionFile) -> Vec<ItemKind> {
    session.conversations()[0].recorded().iter().map(|recorded| recorded.item.kind).collect()
}

fn read(body: &str) -> SessionFile {
    SessionFile::read_as(Format::Anthropic, body.as_bytes().to_vec()).unwrap()
}

fn items(session: &SessionFile) -> Vec<Arc<Item>> {
    session.conversations()[0].recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect()
}

const BODY: &str = r#"{"model": "claude-x", "max_tokens": 1.0e3, "temperature":0.70,
 "system": [{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}],
 "messages": [
  {"role":"user","content":"look"},
  {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
    {"type":"tool_use","id":"t1","name":"ls","input":{"n": 1.50}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a"},
    {"type":"text","text":"<context>\nfile\n</context>"},{"type":"text","text":"and now?"}]}
 ], "tools": [ ]}"#;

#[test]
fn a_message_with_results_and_text_becomes_items_of_each_kind() {
    let session = read(BODY);
    assert_eq!(
        kinds(&session),
        [
            ItemKind::System,
            ItemKind::User,
            ItemKind::Assistant,
            ItemKind::Tool,
            ItemKind::Context,
            ItemKind::User
        ]
    );
    assert_eq!(session.model(), Some("claude-x"));
    let recorded = session.conversations()[0].recorded();
    assert!(recorded[0].item.cache_marker);
    assert_eq!(recorded[2].place.line, 5);
    assert_eq!(recorded[4].item.parts, [Part::text("file")]);
}

#[test]
fn only_the_messages_of_a_body_change() {
    let session = read(BODY);
    let all = items(&session);
    let written =
        crate::format::write(Format::Anthropic, &sent(&all[..2], Some(&session)), Some(&session)).unwrap();
    assert_eq!(written.losses, []);
    let text = String::from_utf8(written.to_bytes()).unwrap();
    let (before, after) = (BODY.find("[\n  {\"role\"").unwrap(), BODY.find(", \"tools\"").unwrap());
    assert!(text.starts_with(&BODY[..before]) && text.ends_with(&BODY[after..]), "{text}");
    let other = [Arc::new(Item::text("s", ItemKind::System, "Be long.")), Arc::clone(&all[1])];
    let text = crate::format::write(Format::Anthropic, &sent(&other, Some(&session)), Some(&session))
        .unwrap()
        .to_bytes();
    let again = read(std::str::from_utf8(&text).unwrap());
    assert_eq!(items(&again)[0].parts, [Part::text("Be long.")]);
    assert!(
        text.starts_with(br#"{"model": "claude-x", "max_tokens": 1.0e3,"#)
            && text.ends_with(b"\"tools\": [ ]}")
    );
}

#[test]
fn cache_markers_are_written_with_their_duration() {
    let session = read(BODY);
    let written = crate::format::write(Format::Anthropic, &sent(&items(&session), None), None).unwrap();
    let text = String::from_utf8(written.to_bytes()).unwrap();
    assert!(text.contains(r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#), "{text}");
    assert_eq!(kinds(&read(&text)), kinds(&session));
}

#[test]
fn what_a_body_cannot_hold_is_reported() {
    let items = [
        Arc::new(Item::text("d", ItemKind::Developer, "x")),
        Arc::new(Item::user("u", "hi")),
        Arc::new(Item::assistant("a", vec![Part::reasoning("unsigned"), Part::text("yes")])),
    ];
    let written = crate::format::write(Format::Anthropic, &sent(&items, None), None).unwrap();
    let lost: Vec<&str> = written.losses.iter().map(|loss| &*loss.item_id).collect();
    assert_eq!(lost, ["d", "a"]);
    let list = read(r#"[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#);
    let system = [Arc::new(Item::text("s", ItemKind::System, "x")), Arc::clone(&items[1])];
    let written = crate::format::write(Format::Anthropic, &sent(&system, Some(&list)), Some(&list)).unwrap();
    assert!(written.to_bytes().starts_with(b"[{") && written.losses.len() == 1);
}

#[test]
fn plain_messages_could_be_of_several_apis() {
    let plain = br#"[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]"#;
    let probe = |body: &[u8]| detect(body);
    assert_ne!(probe(plain), Err(FormatError::Unknown { seen: None }));
    for sure in [
        r#"{"system":"s","messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"anthropic_version":"bedrock-2023-05-31","messages":[{"role":"user","content":"hi"}]}"#,
        r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":""}]}]"#,
        r#"[{"role":"user","content":[{"type":"image"}]},{"role":"system","content":"from now on"}]"#,
    ] {
        assert_eq!(probe(sure.as_bytes()), Ok(Format::Anthropic), "{sure}");
    }
    for other in [
        r#"{"version":1,"messages":[{"role":"user","content":[{"type":"thinking","thinking":""}]}]}"#,
        r#"[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"c","content":""}]"#,
        r#"[{"role":"user","parts":[]}]"#,
        r#"[{"role":"user","content":"hi"},{"role":"system","content":"in every API"}]"#,
        r#"[{"role":"system","content":"first"},{"role":"user","content":[{"type":"image"}]}]"#,
    ] {
        assert_ne!(probe(other.as_bytes()), Ok(Format::Anthropic), "{other}");
    }
}

#[test]
fn a_message_that_is_none_is_a_problem_on_its_line() {
    let body = "[\n{\"role\":\"user\",\"content\":\"hi\"},\n{\"role\":7},\n{\"role\":\"user\",\"content\":{}},\n{\"role\":\"judge\",\"content\":\"\"}]";
    let session = read(body);
    let lines: Vec<usize> = session.problems().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 4, 5]);
    assert!(session.problems().iter().all(|problem| matches!(problem.fault, Fault::NotUnderstood { .. })));
    assert_eq!(kinds(&session), [ItemKind::User]);
    let broken = SessionFile::read_as(Format::Anthropic, b"{\n\"messages\":[\n{]}".to_vec()).unwrap_err();
    assert_eq!(broken.problem().map(|problem| problem.line), Some(3));
}
