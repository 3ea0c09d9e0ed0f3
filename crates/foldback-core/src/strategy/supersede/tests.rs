use super::*;
use crate::item::Item;
use crate::part::ToolInput;
use crate::placeholder::handle_in;
use crate::strategy::LadderStrategy;
use crate::strategy::plan;
use crate::transcript::Transcript;
use crate::view::{Recalled, View};
use serde_json::{Value, json};

/// A conversation of rounds; one more follows, so that none of them is in flight.
fn session(rounds: &[(&str, Value, ToolResult)]) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("u", "go"));
    for (number, (tool, input, result)) in rounds.iter().enumerate() {
        let call = format!("c{number}");
        transcript.push(Item::assistant(format!("a{number}"), vec![Part::call(call.clone(), *tool, input)]));
        let result = ToolResult { call_id: call.as_str().into(), ..result.clone() };
        transcript.push(Item::tool(format!("t{number}"), result));
    }
    transcript.push(Item::assistant("end", vec![Part::text("done")]));
    transcript
}

fn lines(word: &str, count: usize) -> ToolResult {
    ToolResult::text(
        "",
        (0..count).map(|number| format!("{word} {number} of the file\n")).collect::<String>(),
    )
}

fn failure(word: &str) -> ToolResult {
    ToolResult { is_error: true, ..lines(word, 60) }
}

/// The placeholders that the strategy leaves, with the number of their round.
fn left(transcript: &Transcript) -> Vec<(usize, String)> {
    let view = plan(&View::of(transcript), &SupersedeStrategy::new(), None).unwrap().apply_floor().view;
    assert!(plan(&view, &SupersedeStrategy::new(), None).unwrap().is_empty(), "T7");
    let parts = view.items().enumerate().flat_map(|(position, item)| {
        item.parts.iter().filter_map(move |part| Some((position.checked_sub(1)? / 2, text_of(part)?)))
    });
    parts.filter(|(_, text)| is_placeholder(text)).collect()
}

fn text_of(part: &Part) -> Option<String> {
    match part {
        Part::ToolResult(result) => Some(result.first_line().to_owned()),
        Part::ToolCall(ToolCall { input: ToolInput::Json(json), .. }) => {
            json.value()?.get("folded")?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}

fn rounds_left(transcript: &Transcript) -> Vec<usize> {
    left(transcript).into_iter().map(|(round, _)| round).collect()
}

fn read(path: &str, offset: u32, limit: u32) -> (&'static str, Value, ToolResult) {
    let input = json!({"file_path": path, "offset": offset, "limit": limit});
    ("Read", input, lines(&format!("{path}:{offset}"), limit as usize))
}

#[test]
fn a_read_is_superseded_by_one_that_covers_it_and_by_no_other() {
    let transcript = session(&[
        read("a.rs", 10, 50),
        read("b.rs", 10, 50),
        read("a.rs", 40, 80),
        read("a.rs", 1, 200),
        read("b.rs", 20, 90),
    ]);
    let left = left(&transcript);
    assert_eq!(left.iter().map(|(round, _)| *round).collect::<Vec<_>>(), [0, 2]);
    let newer = Handle::of_item(8, &"t3".into());
    let handle = handle_in(&left[0].1).unwrap();
    assert_eq!(
        left[0].1,
        format!("[folded {handle}: read of a.rs lines 10-59, superseded: read again at {newer}]")
    );
}

#[test]
fn both_handles_of_a_pointer_can_be_recalled() {
    let transcript = session(&[read("a.rs", 1, 50), read("a.rs", 1, 60)]);
    let view = plan(&View::of(&transcript), &SupersedeStrategy::new(), None).unwrap().apply_floor().view;
    let Part::ToolResult(result) = &view.get(2).unwrap().item().parts[0] else { panic!("it is a result") };
    let handle = handle_in(result.first_line()).unwrap();
    let original = transcript.get(2).unwrap().item().parts[0].clone();
    assert_eq!(view.recall(&handle), Some(Recalled::Part(original)));
    let Some(Recalled::Items(unit)) = view.recall(&Handle::of_item(4, &"t1".into())) else {
        panic!("a unit")
    };
    assert_eq!(unit.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["a1", "t1"]);
}

#[test]
fn a_read_is_out_of_date_once_its_file_was_changed() {
    let edit = ("Edit", json!({"file_path": "a.rs", "new_string": "x"}), ToolResult::text("", "ok"));
    let failed = ("Edit", json!({"file_path": "b.rs", "new_string": "x"}), ToolResult::error("", "no match"));
    let transcript = session(&[read("a.rs", 1, 50), read("b.rs", 1, 50), edit, failed]);
    let left = left(&transcript);
    assert_eq!(left.len(), 1);
    assert!(left[0].1.contains("a.rs") && left[0].1.contains("changed"), "{}", left[0].1);
}

#[test]
fn an_answer_cut_short_does_not_stand_for_a_longer_one() {
    let whole = |count| ("Read", json!({"file_path": "a.rs"}), lines("x", count));
    assert_eq!(rounds_left(&session(&[whole(90), whole(40)])), [0; 0]);
    let edit = || ("Write", json!({"file_path": "a.rs", "content": "x"}), ToolResult::text("", "ok"));
    assert_eq!(rounds_left(&session(&[whole(90), edit(), whole(40)])), [0], "the file is shorter now");
}

#[test]
fn the_same_answer_is_kept_once() {
    let search = |pattern: &str| ("Grep", json!({"pattern": pattern}), lines("hit", 60));
    assert_eq!(rounds_left(&session(&[search("a"), search("b"), search("c")])), [0, 1]);
    let other = ("Glob", json!({"pattern": "a"}), lines("hit", 60));
    assert_eq!(rounds_left(&session(&[search("a"), other])), [0; 0], "another tool may mean something else");
    let small = |pattern: &str| ("Grep", json!({"pattern": pattern}), ToolResult::text("", "one hit"));
    assert_eq!(rounds_left(&session(&[small("a"), small("b")])), [0; 0]);
}

#[test]
fn a_test_run_again_is_kept_in_its_newest_form() {
    let run = |command: &str, folder: &str, word: &str| {
        ("exec_command", json!({"cmd": command, "workdir": folder}), lines(word, 60))
    };
    let transcript = session(&[
        run("cargo test", "/a", "one"),
        run("cargo test", "/b", "two"),
        run("ps aux", "/a", "three"),
        run("cargo test", "/a", "four"),
        run("ps aux", "/a", "five"),
    ]);
    assert_eq!(rounds_left(&transcript), [0]);
}

#[test]
fn a_failed_attempt_goes_once_the_same_call_succeeded() {
    let deploy = |result| ("deploy", json!({"to": "staging"}), result);
    let other = ("deploy", json!({"to": "production"}), failure("refused"));
    let transcript =
        session(&[deploy(failure("timeout")), other, deploy(lines("fine", 60)), deploy(failure("again"))]);
    assert_eq!(rounds_left(&transcript), [0]);
}

#[test]
fn a_todo_list_goes_with_its_input_once_it_was_replaced() {
    let todo = |state: &str| {
        let entries: Vec<Value> =
            (0..20).map(|n| json!({"content": format!("step {n} of the plan"), "status": state})).collect();
        ("TodoWrite", json!({"todos": entries}), ToolResult::text("", "saved"))
    };
    assert_eq!(rounds_left(&session(&[todo("pending"), todo("in_progress"), todo("completed")])), [0, 1]);
}

#[test]
fn reads_by_the_shell_count_as_reads() {
    let shell = |command: &str, count| ("shell_command", json!({"command": command}), lines("x", count));
    let transcript =
        session(&[shell("sed -n '1,60p' a.rs", 60), shell("cat a.rs b.rs", 60), shell("cat a.rs", 90)]);
    assert_eq!(rounds_left(&transcript), [0], "b.rs was read only once");
}

#[test]
fn what_is_pinned_or_in_flight_stays() {
    let mut transcript = session(&[read("a.rs", 1, 50)]);
    let calls = vec![
        Part::call("x", "Read", &json!({"file_path": "a.rs"})),
        Part::call("y", "Read", &json!({"file_path": "a.rs"})),
    ];
    transcript.push(Item::assistant("now", calls));
    transcript.push(Item::tool("x", ToolResult { call_id: "x".into(), ..lines("a.rs:1", 50) }));
    transcript.push(Item::tool("y", ToolResult { call_id: "y".into(), ..lines("a.rs:1", 50) }));
    let planned = plan(&View::of(&transcript), &SupersedeStrategy::new(), None).unwrap();
    assert_eq!(planned.edits().iter().map(|edit| edit.first_index()).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_ladder_supersedes_first_and_stops_at_its_target() {
    let rounds: Vec<_> = (0..20).map(|number| read(&format!("{}.rs", number % 2), 1, 60)).collect();
    let transcript = session(&rounds);
    let budget = Budget::for_target(Tokens(transcript.tokens().0 * 3 / 4)).unwrap();
    let planned = plan(&View::of(&transcript), &LadderStrategy::new(), Some(&budget)).unwrap();
    let whys: Vec<&str> = planned.edits().iter().map(|edit| edit.reason().why.as_str()).collect();
    assert!((1..18).contains(&whys.len()), "{whys:?}");
    assert!(whys.iter().all(|why| why.contains("again")), "{whys:?}");
}
