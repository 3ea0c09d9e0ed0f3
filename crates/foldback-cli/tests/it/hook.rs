//! `foldback hook`: what a module in an agent asks and is told, and what the agent's file then says.

use serde_json::json;

use super::*;

fn ask(command: &str, request: &str) -> (i32, Value) {
    let mut child = foldback(&["hook", command]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that does not read its request has answered already.
    let _written = child.stdin.take().unwrap().write_all(request.as_bytes());
    let output = child.wait_with_output().unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {:?} {}", text(&output.stdout), text(&output.stderr));
    });
    fits_schema(&answer, command);
    (code(&output), answer)
}

/// Every field of an answer is in the schema, with its type.
fn fits_schema(answer: &Value, command: &str) {
    let schema = json(&run(&["hook", "schema"]));
    let definition = &schema["$defs"][format!("{command}_answer")];
    for name in definition["required"].as_array().unwrap() {
        assert!(answer.get(name.as_str().unwrap()).is_some(), "{name} is missing in {answer}");
    }
    for (name, value) in answer.as_object().unwrap() {
        let field =
            definition["properties"].get(name).unwrap_or_else(|| panic!("{name} is not in the schema"));
        let is_one_of = field["enum"].as_array().is_none_or(|all| all.contains(value));
        let is_typed = match field["type"].as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_u64(),
            Some("object") => value.is_object(),
            _ => true,
        };
        assert!(is_one_of && is_typed, "{name}: {value} does not fit {field}");
    }
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

const RULE: &str = "Never edit the file migrations/0001.sql, and keep every answer under five lines.";

/// A session of pi: one prompt, and many rounds of a tool.
fn pi_session(rounds: usize) -> String {
    let mut session =
        line(&json!({"type": "session", "version": 3, "id": "5f2c0a2e-0d7e-4f5b-8a61-3f8a0c9b1d22",
        "timestamp": "2026-11-20T10:00:00.000Z", "cwd": "/home/dev/ferry"}));
    let mut parent = Value::Null;
    let mut entry = |id: String, message: Value| {
        session.push_str(&line(&json!({"type": "message", "id": id, "parentId": parent,
            "timestamp": "2026-11-20T10:00:01.000Z", "message": message})));
        parent = Value::from(id);
    };
    entry(
        "00000001".into(),
        json!({"role": "user", "content": format!("Find the leak. {RULE}"), "timestamp": 1}),
    );
    for round in 0..rounds {
        let call = json!({"type": "toolCall", "id": format!("call_{round}"), "name": "bash",
            "arguments": {"command": format!("grep -n leak src/module_{round}.rs")}});
        entry(
            format!("a{round:07}"),
            json!({"role": "assistant", "content": [call], "api": "openai-completions",
            "provider": "lab", "model": "m", "stopReason": "toolUse", "timestamp": 2}),
        );
        let output =
            format!("module {round} frees zeppelin-{round} late\n{}", "nothing else here\n".repeat(40));
        entry(
            format!("b{round:07}"),
            json!({"role": "toolResult", "toolCallId": format!("call_{round}"),
            "toolName": "bash", "content": [{"type": "text", "text": output}], "isError": false, "timestamp": 3}),
        );
    }
    session
}

/// What pi appends after it took such an answer.
fn taken_by_pi(answer: &Value, parent: &str) -> String {
    line(&json!({"type": "compaction", "id": "cccccccc", "parentId": parent,
        "timestamp": "2026-11-20T11:00:00.000Z", "summary": answer["summary"],
        "firstKeptEntryId": answer["first_kept"], "tokensBefore": answer["tokens_before"],
        "details": answer["details"], "fromHook": true}))
}

#[test]
fn a_compaction_that_pi_takes_from_the_hook_is_foldbacks_own_in_pis_file() {
    let folder = folder();
    let file = at(&folder, "session.jsonl");
    std::fs::write(&file, pi_session(60)).unwrap();
    let request = json!({"version": 1, "session": file, "window": 60_000, "target": 4_000});
    let (exit, answer) = ask("compact", &request.to_string());
    assert_eq!((exit, &answer["result"]), (0, &json!("compacted")), "{answer}");
    assert!(answer["tokens_after"].as_u64().unwrap() <= 4_200, "{answer}");
    let summary = answer["summary"].as_str().unwrap();
    assert!(
        summary.contains(&format!("> Find the leak. {RULE}")),
        "the newest message is told whole: {summary}"
    );

    let session = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, session + &taken_by_pi(&answer, "b0000059")).unwrap();
    let log = json(&run(&["log", &file, "--json"])).to_string();
    assert!(log.contains("summary-and-tail"), "{log}");
    let shown = text(&run(&["show", &file, "--plain"]).stdout);
    assert!(shown.contains(summary.lines().nth(1).unwrap()) && shown.contains("zeppelin-59"), "{shown}");
    assert!(!shown.contains("zeppelin-3 "), "{shown}");

    let handle = answer["handle"].as_str().unwrap();
    let recall = |fields: Value| {
        let mut request = json!({"version": 1, "session": file});
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        ask("recall", &request.to_string()).1["text"].as_str().unwrap().to_owned()
    };
    assert!(recall(json!({"handle": handle})).contains("zeppelin-0 late"));
    assert!(recall(json!({"query": "zeppelin-7"})).contains("zeppelin-7 late"));
    assert!(recall(json!({"handle": handle, "query": "zeppelin-9"})).contains("zeppelin-9 late"));
    assert!(recall(json!({"handle": "@0000000000"})).contains("nothing"));

    let undone = at(&folder, "undone.jsonl");
    assert_eq!(code(&run(&["undo", &file, "-o", &undone, "-q"])), 0);
    let shown = text(&run(&["show", &undone, "--plain"]).stdout);
    assert!(shown.contains("zeppelin-3 ") && shown.contains("zeppelin-59"), "undo gives all of it back");
}

#[test]
fn what_is_kept_is_named_by_its_newest_record_on_the_branch_of_the_leaf() {
    let folder = folder();
    let file = at(&folder, "session.jsonl");
    std::fs::write(&file, pi_session(60)).unwrap();
    let mut request = json!({"version": 1, "session": file, "window": 60_000, "target": 4_000});
    let (_, first) = ask("compact", &request.to_string());
    let session = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, session + &taken_by_pi(&first, "b0000059")).unwrap();
    assert_eq!(code(&run(&["undo", &file, "--in-place"])), 0);

    let session = std::fs::read_to_string(&file).unwrap();
    let kept = |answer: &Value| {
        let mut records = session.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.find(|record| record["id"] == answer["first_kept"]).unwrap_or_else(|| panic!("{answer}"))
    };
    let (_, again) = ask("compact", &request.to_string());
    assert!(kept(&again)["foldback"]["copy"].is_u64(), "the original stands on no path any more");
    request["leaf"] = json!("b0000049");
    let (_, left) = ask("compact", &request.to_string());
    assert!(kept(&left)["foldback"].is_null() && left["first_kept"].as_str() < Some("a0000050"), "{left}");
    request["leaf"] = json!("nowhere");
    assert_eq!(ask("compact", &request.to_string()).1["result"], "failed");
    let text = json!({"version": 1, "messages": session, "window": 60_000, "target": 4_000});
    assert_eq!(ask("compact", &text.to_string()).1["first_kept"], again["first_kept"]);
}

#[test]
fn a_second_compaction_still_tells_what_the_first_one_folded() {
    let folder = folder();
    let file = at(&folder, "session.jsonl");
    let mut session = pi_session(40);
    let (mut parent, mut last) = ("b0000039".to_owned(), Value::Null);
    for round in 0..5 {
        std::fs::write(&file, &session).unwrap();
        let request = json!({"version": 1, "session": file, "window": 60_000, "target": 3_000});
        let (_, answer) = ask("compact", &request.to_string());
        assert_eq!(answer["result"], "compacted", "round {round}: {answer}");
        session.push_str(&taken_by_pi(&answer, &parent).replace("cccccccc", &format!("cccccc{round:02}")));
        parent = format!("cccccc{round:02}");
        for turn in 0..20 {
            let (id, role) = (format!("d{round:03}{turn:04}"), ["user", "assistant"][turn % 2]);
            let said = format!("Part {round}.{turn}: {}", "we talked about something else. ".repeat(20));
            let content = json!([{"type": "text", "text": said}]);
            let message = json!({"role": role, "content": content, "api": "x", "provider": "lab", "model": "m",
                "stopReason": "stop", "timestamp": 4});
            session.push_str(&line(&json!({"type": "message", "id": id, "parentId": parent,
                "timestamp": "2026-11-20T12:00:00.000Z", "message": message})));
            parent = id;
        }
        last = answer;
    }
    assert!(last["summary"].as_str().unwrap().contains("Never edit the file migrations/0001.sql"), "{last}");
}

/// A message of opencode, which is named after its number.
fn opencode_message(number: usize, info: Value, part: Value) -> Value {
    let (mut info, mut part) = (info, part);
    let id = format!("msg_{number:02}");
    part["id"] = json!(format!("prt_{number:02}"));
    info["time"] = json!({"created": 1_795_000_000_000_u64 + number as u64});
    info["id"] = json!(id);
    json!({"info": info, "parts": [part]})
}

#[test]
fn the_tail_of_opencode_never_starts_before_an_earlier_compaction() {
    let ran = |number: usize, lines: usize| {
        let state = json!({"status": "completed", "input": {"command": "cat log"}, "output": "it went on\n".repeat(lines)});
        let call =
            json!({"type": "tool", "callID": format!("call_{number}"), "tool": "bash", "state": state});
        opencode_message(number, json!({"role": "assistant"}), call)
    };
    let said = |number: usize, role: &str, text: &str| {
        opencode_message(number, json!({"role": role}), json!({"type": "text", "text": text}))
    };
    let marker = json!({"type": "compaction", "auto": true, "tail_start_id": "msg_04"});
    let summary = json!({"role": "assistant", "summary": true, "finish": "stop", "parentID": "msg_06"});
    let messages = [
        said(1, "user", RULE),
        ran(2, 20),
        ran(3, 20),
        ran(4, 2_000),
        ran(5, 100),
        opencode_message(6, json!({"role": "user"}), marker),
        opencode_message(7, summary, json!({"type": "text", "text": "It went on."})),
        said(8, "user", "Go on."),
        said(9, "assistant", "It is done."),
    ];
    let request = json!({"version": 1, "agent": "opencode", "format": "opencode", "takes": "tail", "reason": "manual",
        "window": 100_000, "messages": {"info": {"id": "ses_1"}, "messages": messages}});
    let (code, answer) = ask("compact", &request.to_string());
    assert_eq!((code, &answer["result"]), (0, &json!("compacted")), "{answer}");
    assert_eq!(answer["first_kept"], "msg_08", "opencode would show msg_07 again: {answer}");
}

#[test]
fn messages_come_back_in_the_form_in_which_they_were_sent() {
    let mut messages = vec![json!({"role": "user", "content": RULE})];
    for round in 0..60 {
        let id = format!("toolu_{round}");
        messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "bash",
            "input": {"command": format!("ls {round}")}}]}));
        let output = format!("listing {round}\n").repeat(40);
        messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]}));
    }
    let request =
        json!({"version": 1, "messages": messages, "takes": "messages", "window": 60_000, "target": 3_000});
    let (exit, answer) = ask("compact", &request.to_string());
    assert_eq!((exit, &answer["result"]), (0, &json!("compacted")), "{answer}");
    let compacted = answer["messages"].as_array().unwrap();
    assert!(compacted.len() < messages.len());
    assert_eq!(compacted.last(), messages.last(), "what stays is as it was");
    let folder = folder();
    let file = at(&folder, "messages.json");
    std::fs::write(&file, answer["messages"].to_string()).unwrap();
    assert_eq!(code(&run(&["check", &file, "--for", "anthropic", "--format", "anthropic"])), 0);
    assert!(answer["messages"].to_string().contains("Never edit the file migrations/0001.sql"));
}

#[test]
fn what_is_small_is_left_alone_unless_a_person_asks() {
    let folder = folder();
    let file = at(&folder, "session.jsonl");
    std::fs::write(&file, pi_session(30)).unwrap();
    let request = |reason: &str| {
        json!({"version": 1, "session": file, "window": 1_000_000, "reason": reason}).to_string()
    };
    let (exit, answer) = ask("compact", &request("auto"));
    assert_eq!((exit, &answer["result"]), (0, &json!("unchanged")), "{answer}");
    let (_, answer) = ask("compact", &request("manual"));
    assert_eq!(answer["result"], "compacted", "{answer}");
}

#[test]
fn whatever_is_asked_is_answered_with_one_object() {
    let folder = folder();
    let file = at(&folder, "no-session");
    std::fs::write(&file, "hello").unwrap();
    let requests = [
        String::new(),
        "[]".to_owned(),
        "{}".to_owned(),
        "{\"version\": 7}".to_owned(),
        "{\"version\": 1}".to_owned(),
        json!({"version": 1, "session": file}).to_string(),
        json!({"version": 1, "session": "/nowhere"}).to_string(),
        json!({"version": 1, "messages": {"no": "messages"}}).to_string(),
        json!({"version": 1, "messages": [], "format": "gibberish"}).to_string(),
        json!({"version": 1, "session": SESSION, "takes": "everything"}).to_string(),
    ];
    for command in ["compact", "recall"] {
        for request in &requests {
            let (exit, answer) = ask(command, request);
            if answer["result"] != "answered" {
                assert!(exit > 0 && answer["result"] == "failed", "{request}: {answer}");
                assert!(!answer["why"].as_str().unwrap().is_empty());
            }
        }
    }
}

#[test]
fn a_long_output_is_shortened_the_same_way_each_time_and_kept_whole_in_a_file() {
    let folder = folder();
    let output: String = (0..4_000).map(|n| format!("line {n} of the build says nothing new\n")).collect();
    let ask = |tool: &str, input: Value, output: &str| {
        let request = json!({"version": 1, "tool": tool, "input": input, "output": output}).to_string();
        let mut command = foldback(&["hook", "shorten"]);
        command.env("XDG_DATA_HOME", folder.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
        let answer = json(&child.wait_with_output().unwrap());
        fits_schema(&answer, "shorten");
        answer
    };
    let answer = ask("bash", json!({"command": "make"}), &output);
    assert_eq!(answer["result"], "shortened");
    let short = answer["output"].as_str().unwrap();
    assert!(short.starts_with("line 0 ") && short.ends_with("line 3999 of the build says nothing new\n"));
    assert!(short.len() < 8_000 && short.contains(answer["file"].as_str().unwrap()), "{short}");
    assert_eq!(std::fs::read_to_string(answer["file"].as_str().unwrap()).unwrap(), output);
    assert_eq!(ask("bash", json!({"command": "make"}), &output), answer, "the same bytes each time");
    assert_eq!(ask("read_file", json!({"path": "src/a.rs"}), &output)["result"], "unchanged");
    assert_eq!(ask("bash", json!({"command": "make"}), "short")["result"], "unchanged");
}

/// A session of Claude Code, record by record.
struct ClaudeSession {
    lines: String,
    parent: Value,
    count: usize,
}

impl ClaudeSession {
    fn new() -> Self {
        Self { lines: String::new(), parent: Value::Null, count: 0 }
    }

    fn push(&mut self, kind: &str, fields: &Value) {
        self.count += 1;
        let uuid = format!("00000000-0000-4000-8000-{:012}", self.count);
        let mut record = json!({"parentUuid": self.parent, "isSidechain": false, "userType": "external",
            "cwd": "/home/dev/ferry", "sessionId": "s", "version": "2.1.327", "type": kind, "uuid": uuid,
            "timestamp": format!("2026-11-20T10:{:02}:{:02}.000Z", self.count / 60 % 60, self.count % 60)});
        record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.lines.push_str(&line(&record));
        self.parent = Value::from(uuid);
    }

    fn say(&mut self, text: &str) {
        self.push("user", &json!({"message": {"role": "user", "content": text}}));
    }

    fn round(&mut self, number: usize) {
        let id = format!("toolu_{number:04}");
        let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": format!("ls {number}")}});
        self.push(
            "assistant",
            &json!({"message": {"id": format!("msg_{number}"), "type": "message",
            "role": "assistant", "model": "claude-opus-4-5", "content": [call], "stop_reason": "tool_use"}}),
        );
        let output = format!("found {number}\n{}body-{number}.", "nothing else here\n".repeat(60));
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": output});
        self.push("user", &json!({"message": {"role": "user", "content": [result]}}));
    }

    /// What Claude Code writes where a module answered with these messages.
    fn take(&mut self, messages: &Value) {
        let logical = std::mem::replace(&mut self.parent, Value::Null);
        self.push(
            "system",
            &json!({"subtype": "compact_boundary", "content": "Conversation compacted",
            "logicalParentUuid": logical, "compactMetadata": {"trigger": "manual", "preTokens": 1}}),
        );
        for row in messages.as_array().unwrap() {
            let mut content = vec![];
            if !row["text"].as_str().unwrap_or("").is_empty() {
                content.push(json!({"type": "text", "text": row["text"]}));
            }
            for call in row["toolUses"].as_array().into_iter().flatten() {
                content.push(json!({"type": "tool_use", "id": call["tool_use_id"], "name": call["tool"],
                    "input": call["input"]}));
            }
            for result in row["toolResults"].as_array().into_iter().flatten() {
                content.push(json!({"type": "tool_result", "tool_use_id": result["tool_use_id"],
                    "content": result["text"], "is_error": result["isError"]}));
            }
            let role = row["role"].as_str().unwrap();
            let mut message = json!({"role": role, "content": content});
            if role == "assistant" {
                message["id"] = json!(format!("msg_new_{}", self.count));
                message["usage"] = json!({"input_tokens": 0, "output_tokens": 0});
            }
            self.push(role, &json!({"message": message}));
        }
    }
}

fn claude_compacts(session: &mut ClaudeSession, file: &str, record: &Value) -> Value {
    std::fs::write(file, &session.lines).unwrap();
    let request = json!({"version": 1, "session": file, "takes": "messages", "record": record, "window": 200_000,
        "target": 4_000});
    let (_, answer) = ask("compact", &request.to_string());
    assert_eq!(answer["result"], "compacted", "{answer}");
    // The line that foldback wrote, and what Claude Code writes behind it.
    session.lines = std::fs::read_to_string(file).unwrap();
    session.take(&answer["messages"]);
    std::fs::write(file, &session.lines).unwrap();
    answer
}

#[test]
fn a_compaction_in_claude_code_is_recorded_undone_and_never_taken_for_the_users_words() {
    for record in [json!("session"), Value::Null] {
        let folder = folder();
        let file = at(&folder, "session.jsonl");
        let mut session = ClaudeSession::new();
        session.say(&format!("Find the leak. {RULE}"));
        (0..50).for_each(|number| session.round(number));
        claude_compacts(&mut session, &file, &record);
        (50..60).for_each(|number| session.round(number));
        std::fs::write(&file, &session.lines).unwrap();
        let shape = text(&run(&["show", &file, "--shape"]).stdout);
        assert!(shape.contains("summary"), "{record}: {shape}");
        let shown = text(&run(&["show", &file, "--plain"]).stdout);
        let has = |number: usize| shown.contains(&format!("body-{number}."));
        assert!(!has(3) && has(49) && has(59), "{record}: {shown}");
        assert_eq!(shown.matches("body-49.").count(), 1, "{shown}");

        if record == json!("session") {
            let log = json(&run(&["log", &file, "--json"])).to_string();
            assert!(log.contains("ladder"), "{log}");
            let undone = at(&folder, "undone.jsonl");
            assert_eq!(code(&run(&["undo", &file, "-o", &undone, "-q"])), 0);
            let shown = text(&run(&["show", &undone, "--plain"]).stdout);
            for number in 0..60 {
                assert_eq!(shown.matches(&format!("body-{number}.")).count(), 1, "{number} once: {record}");
            }
        }

        let answer = claude_compacts(&mut session, &file, &record);
        let summary = answer["messages"].to_string();
        assert!(summary.contains("Never edit the file migrations/0001.sql"), "{summary}");
        assert!(!summary.contains("> (Summary of") && !summary.contains("> [Summary of"), "{summary}");
    }
}
