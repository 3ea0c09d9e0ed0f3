//! The model as an agent meets it, without HTTP; and one request for each rule.

use serde_json::json;

use super::*;

fn request(path: &str, body: &Value) -> Request {
    let body = body.to_string().into_bytes();
    Request { index: 0, method: "POST".to_owned(), path: path.to_owned(), headers: Vec::new(), body }
}

fn bash() -> Value {
    let properties = json!({"command": {"type": "string"}, "description": {"type": "string"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["command", "description"]});
    json!([{"name": "Bash", "input_schema": schema}])
}

fn refusal(spoken: Spoken, messages: &Value) -> String {
    rules::check(spoken, &json!({"messages": messages})).expect_err("this breaks a rule")
}

fn calling(ids: &[&str]) -> Value {
    let calls = ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}}));
    json!({"role": "assistant", "content": calls.collect::<Vec<_>>()})
}

fn answering(ids: &[&str]) -> Value {
    let results = ids.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "ok"}));
    json!({"role": "user", "content": results.collect::<Vec<_>>()})
}

fn chat_calling(ids: &[&str]) -> Value {
    let calls = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}}));
    json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()})
}

fn chat_answering(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "ok"})
}

#[test]
fn rounds_come_before_the_final_text_and_side_calls_take_none() {
    let mut state = State::new(Script { rounds: 2, ..Script::default() });
    let asks = json!([{"role": "user", "content": "go"}]);
    let turn = request("/v1/messages", &json!({"messages": asks, "tools": bash()}));
    let side = request("/v1/messages", &json!({"messages": asks}));
    for asked in [&turn, &side, &turn, &turn] {
        state.answer(asked);
    }
    let kinds: Vec<_> = state.asked.iter().map(|asked| asked.kind).collect();
    assert_eq!(kinds, [Kind::Turn, Kind::Side, Kind::Turn, Kind::Turn]);
    assert_eq!((state.rounds_left, state.rounds.len()), (0, 2));
    assert_eq!(state.final_text(), "The work is done after round 0002.");
}

#[test]
fn a_command_prints_what_the_round_says() {
    let round = Round { number: 7, lines: 3 };
    let printed = std::process::Command::new("sh").args(["-c", &round.command()]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), format!("{}\n", round.output()));
    assert!(round.output().starts_with("round 0007 line 000001 of the work\nround 0007 line 000002"));
}

#[test]
fn the_shell_tool_is_called_with_what_it_insists_on() {
    let body = json!({"tools": bash()});
    let tool = shell::tool(Spoken::Messages, &body).unwrap();
    assert_eq!(tool.name, "Bash");
    assert_eq!(tool.input("ls"), json!({"command": "ls", "description": "a step of the work"}));
    let schema = json!({"properties": {"command": {"type": "array"}}});
    let body = json!({"tools": [{"type": "function", "function": {"name": "shell", "parameters": schema}}]});
    let tool = shell::tool(Spoken::Chat, &body).unwrap();
    assert_eq!(tool.input("ls"), json!({"command": ["bash", "-c", "ls"]}));
}

#[test]
fn a_request_for_a_summary_is_told_from_a_turn() {
    let ask = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.";
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": ask}]}]);
    assert_eq!(kind(Spoken::Messages, &json!({"messages": messages, "tools": bash()})), Kind::Compaction);
    // What an earlier message quotes is no request.
    let messages = json!([{"role": "user", "content": ask}, {"role": "user", "content": "go"}]);
    assert_eq!(kind(Spoken::Messages, &json!({"messages": messages, "tools": bash()})), Kind::Turn);
}

#[test]
fn a_request_that_exceeds_the_window_is_too_long_and_no_violation() {
    let mut state = State::new(Script { window_tokens: 100, token_bytes: 1, ..Script::default() });
    let long = json!({"messages": [{"role": "user", "content": "x".repeat(200)}]});
    state.answer(&request("/v1/chat/completions", &long));
    assert_eq!(state.asked[0].verdict, Verdict::TooLong);
    assert!(state.asked[0].tokens > 200);
}

#[test]
fn valid_conversations_are_accepted() {
    let go = json!({"role": "user", "content": "go"});
    let note = json!({"role": "system", "content": "a note"});
    let messages = json!([go, note, calling(&["a", "b"]), answering(&["b", "a"])]);
    assert_eq!(rules::check(Spoken::Messages, &json!({"messages": messages})), Ok(()));
    let messages = json!([note, go, chat_calling(&["a", "b"]), chat_answering("b"), chat_answering("a"), go]);
    assert_eq!(rules::check(Spoken::Chat, &json!({"messages": messages})), Ok(()));
}

#[test]
fn each_rule_of_anthropic_is_enforced() {
    let go = json!({"role": "user", "content": "go"});
    let late = json!({"role": "user", "content": [
        {"type": "text", "text": "first"}, {"type": "tool_result", "tool_use_id": "a", "content": "ok"}]});
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let thought =
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": ""}]});
    for (messages, reason) in [
        (json!([]), "at least one"),
        (json!([{"role": "assistant", "content": "hi"}, go]), "first message"),
        (json!([go, calling(&["a"])]), "without `tool_result`"),
        (json!([go, calling(&["a"]), go, answering(&["a"])]), "without `tool_result`"),
        (json!([go, calling(&["a"]), answering(&["a", "a"])]), "single result"),
        (json!([go, calling(&["a"]), answering(&["a"]), calling(&["a"]), answering(&["a"])]), "unique"),
        (json!([go, calling(&["a"]), answering(&["a"]), answering(&["a"])]), "unexpected `tool_use_id`"),
        (json!([answering(&["a"]), go]), "unexpected `tool_use_id`"),
        (json!([go, calling(&["a"]), late]), "must come first"),
        (json!([{"role": "user", "content": " "}]), "non-empty"),
        (json!([{"role": "user", "content": [{"type": "text", "text": ""}]}]), "non-whitespace"),
        (json!([{"role": "user", "content": []}]), "non-empty"),
        (json!([go, {"role": "tool", "content": "x"}]), "unexpected role"),
        (json!([go, {"role": "assistant", "content": "and"}]), "prefill"),
        (json!([go, thought, go]), "signature"),
        (json!([{"role": "user", "content": [marked, marked, marked, marked, marked]}]), "Found 5"),
    ] {
        let told = refusal(Spoken::Messages, &messages);
        assert!(told.contains(reason), "{told} for {messages}");
    }
}

#[test]
fn each_rule_of_openai_is_enforced() {
    let go = json!({"role": "user", "content": "go"});
    let mut broken = chat_calling(&["a"]);
    broken["tool_calls"][0]["function"]["arguments"] = json!("{");
    let (called, answered) = (chat_calling(&["a"]), chat_answering("a"));
    for (messages, reason) in [
        (json!([]), "at least one"),
        (json!([{"role": "assistant", "content": "hi"}, go]), "must be of the user"),
        (json!([go, called]), "did not have response"),
        (json!([go, called, go, answered]), "did not have response"),
        (json!([go, answered]), "preceeding"),
        (json!([go, called, answered, answered]), "preceeding"),
        (json!([go, called, answered, called, answered]), "unique"),
        (json!([go, broken, answered]), "an object in JSON"),
        (json!([go, {"role": "assistant", "content": ""}, go]), "non-empty"),
        (json!([go, {"role": "model", "content": "x"}]), "invalid role"),
    ] {
        let told = refusal(Spoken::Chat, &messages);
        assert!(told.contains(reason), "{told} for {messages}");
    }
}

#[test]
fn another_tool_is_called_before_the_next_command() {
    let mut state = State::new(Script { rounds: 1, ..Script::default() });
    state.calls.push_back(("recall".to_owned(), json!({"handle": "@0123456789"})));
    let messages = json!([{"role": "user", "content": "go"}]);
    let turn = request("/v1/messages", &json!({"messages": messages, "tools": bash()}));
    let _call = state.answer(&turn);
    assert!(state.calls.is_empty() && state.rounds.is_empty());
    let _command = state.answer(&turn);
    assert_eq!(state.rounds.len(), 1);
}
