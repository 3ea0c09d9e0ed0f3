use super::*;
use crate::part::ToolResult;
use crate::transcript::Transcript;
use serde_json::json;

fn call(id: &str, calls: &[&str]) -> Item {
    Item::assistant(id, calls.iter().map(|call| Part::call(*call, "run", &json!({}))).collect())
}

fn result(id: &str, call: &str) -> Item {
    Item::tool(id, ToolResult::text(call, "ok"))
}

fn collect(items: impl IntoIterator<Item = Item>) -> Transcript {
    items.into_iter().collect()
}

#[test]
fn what_a_provider_would_reject_is_reported_and_nothing_panics() {
    let transcript = collect([
        result("t0", "never-made"),
        call("a1", &["c"]),
        result("t1", "c"),
        result("t2", "c"),
        call("a2", &["c", "open"]),
        result("t3", "c"),
        Item::user("u", "go on"),
    ]);
    let id = |text: &str| CallId::from(text);
    assert_eq!(
        transcript.anomalies(),
        [
            Anomaly::ResultWithoutCall { call_id: id("never-made"), item_index: 0 },
            Anomaly::DuplicateResult { call_id: id("c"), item_index: 3 },
            Anomaly::DuplicateCallId { call_id: id("c"), item_index: 4 },
            Anomaly::UnansweredCall { call_id: id("open"), item_index: 4 },
        ]
    );
}

#[test]
fn a_round_in_flight_is_no_anomaly() {
    let transcript = collect([Item::user("u", "go"), call("a", &["c1", "c2"]), result("t", "c1")]);
    assert_eq!(transcript.anomalies(), []);
    assert_eq!(transcript.unit_in_flight(), Some(1..3));
    assert_eq!(transcript.pending_calls().map(|(_, call)| call.as_str()).collect::<Vec<_>>(), ["c2"]);
}

#[test]
fn parallel_calls_recorded_apart_are_in_flight_together() {
    let transcript = collect([Item::user("u", "go"), call("a", &["c1"]), call("b", &["c2"])]);
    assert_eq!(transcript.unit_in_flight(), Some(1..3));
    assert_eq!(transcript.loop_in_flight(), Some(1..3));
}

#[test]
fn what_is_not_sent_or_sent_apart_ends_no_wait() {
    let mut transcript = collect([Item::user("u", "go"), call("a", &["c1"])]);
    let nothing = |id: &str, kind: ItemKind| Item::new(id, kind, Vec::new());
    for item in [nothing("u1", ItemKind::User), Item::text("s", ItemKind::System, "Be brief.")] {
        transcript.push(item);
        assert_eq!(transcript.pending_calls().count(), 1);
        assert_eq!(transcript.unit_in_flight(), Some(1..transcript.len()));
        assert_eq!(transcript.loop_in_flight(), Some(1..transcript.len()));
    }
    transcript.push(call("b", &["c2"]));
    assert_eq!(transcript.unit_in_flight(), Some(1..5), "nobody said anything between the calls");
    transcript.push(Item::text("n", ItemKind::Notification, "a job has finished"));
    assert_eq!(transcript.pending_calls().count(), 0);
}

#[test]
fn a_notification_does_not_end_the_loop_and_an_answer_does() {
    let mut transcript = collect([Item::user("u", "go"), call("a", &["c"]), result("t", "c")]);
    transcript.push(Item::text("n", ItemKind::Notification, "a job has finished"));
    assert_eq!(transcript.loop_in_flight(), Some(1..4));
    transcript.push(Item::assistant("b", vec![Part::text("done")]));
    assert_eq!(transcript.loop_in_flight(), None);
}

#[test]
fn cuts_fall_between_units_inside_a_turn() {
    let transcript = collect([
        Item::user("u", "go"),
        call("a", &["c1", "c2"]),
        result("t1", "c1"),
        result("t2", "c2"),
        call("b", &["c3"]),
        result("t3", "c3"),
    ]);
    assert_eq!(transcript.cuts().collect::<Vec<_>>(), [1, 4]);
    assert_eq!(transcript.cut_at_or_before(3), 1);
    assert_eq!(transcript.cut_at_or_after(2), 4);
}

#[test]
fn thinking_recorded_apart_belongs_to_what_follows() {
    let thinking = Item::assistant("r", vec![Part::reasoning("hm")]);
    let transcript = collect([Item::user("u", "go"), thinking, call("a", &["c"]), result("t", "c")]);
    assert_eq!(transcript.unit_members(3).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn thinking_belongs_to_what_follows_also_across_what_is_sent_apart_or_not_at_all() {
    let thinking = Item::assistant("r", vec![Part::reasoning("hm")]);
    let system = Item::text("s", ItemKind::System, "answer briefly");
    let empty = Item::new("e", ItemKind::User, Vec::new());
    let answer = Item::assistant("a", vec![Part::text("done")]);
    let transcript = collect([thinking.clone(), system, empty, answer.clone()]);
    assert_eq!(transcript.unit_members(0).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(transcript.cuts().count(), 0);
    let transcript = collect([thinking, Item::user("u", "go on"), answer]);
    assert_eq!(transcript.unit_members(0).collect::<Vec<_>>(), [0]);
}

#[test]
fn a_failure_knows_its_call_also_where_ids_repeat() {
    let failed = |call: &str| Part::ToolResult(ToolResult::error(call, "no such file"));
    let transcript = collect([
        call("a", &["c", "d"]),
        Item::new("t", ItemKind::Tool, vec![failed("d"), failed("c")]),
        Item::tool("stray", ToolResult::error("never-made", "no such call")),
        call("b", &["c"]),
        Item::new("v", ItemKind::Tool, vec![failed("c")]),
    ]);
    let found: Vec<_> = transcript.failures().map(|failure| (failure.result(), failure.call())).collect();
    let expected = [((1, 0), Some((0, 1))), ((1, 1), Some((0, 0))), ((2, 0), None), ((4, 0), Some((3, 0)))];
    assert_eq!(found, expected);
    for failure in transcript.failures() {
        let (index, part_index) = failure.result();
        assert_eq!(transcript.call_answered_by(index, part_index), failure.call());
        assert_eq!(failure.result_tokens, transcript.get(index).unwrap().tokens().parts[part_index]);
    }
}

#[test]
fn every_call_is_listed_with_its_tool() {
    let named = |id: &str, tools: &[&str]| {
        let calls = tools.iter().map(|tool| Part::call(format!("{id}-{tool}"), *tool, &json!({})));
        Item::assistant(id, calls.collect())
    };
    let transcript = collect([named("a", &["read", "run"]), Item::user("u", "go on"), named("b", &["run"])]);
    let names: Vec<&str> = transcript.tool_names().collect();
    let calls: Vec<_> = transcript.tool_calls().map(|(index, tool)| (index, names[tool])).collect();
    assert_eq!(calls, [(0, "read"), (0, "run"), (2, "run")]);
}

#[test]
fn a_clone_does_not_see_what_is_pushed_later() {
    let mut transcript = collect([Item::user("u", "go"), call("a", &["c"])]);
    let snapshot = transcript.clone();
    transcript.push(result("t", "c"));
    assert_eq!(snapshot.len(), 2);
    assert_eq!(snapshot.pending_calls().count(), 1);
    assert_eq!(transcript.pending_calls().count(), 0);
}
