//! What is reported of a compaction, a repair or a conversion: the place in the file, and what was
//! written.

use serde_json::Value;

use super::sessions::in_store;
use super::{SESSION, at, code, files_below, fixtures, folder, json, run, text};

/// So many words, and some more tokens.
fn words(words: usize) -> String {
    "alder birch cedar dogwood elm fir ".repeat(words.div_ceil(6))
}

fn line(id: &str, kind: &str, text: &str) -> String {
    format!("{}\n", serde_json::json!({"id": id, "kind": kind, "parts": [{"text": text}]}))
}

fn conversation(name: &str) -> String {
    format!("{}\n", serde_json::json!({"conversation": {"name": name}}))
}

/// A conversation that can be brought to 2,000 tokens, between two that cannot.
fn several() -> String {
    let large = line("u", "user", &words(4_000));
    let mut session = conversation("first large") + &large + &conversation("long");
    for turn in 0..20 {
        session += &line(&format!("u{turn}"), "user", "What is next?");
        session += &line(&format!("a{turn}"), "assistant", &words(400));
    }
    session + &conversation("second large") + &large
}

#[test]
fn of_several_conversations_those_that_can_be_compacted_are() {
    let folder = folder();
    let (path, out) = (at(&folder, "several.jsonl"), at(&folder, "out.jsonl"));
    std::fs::write(&path, several()).unwrap();
    let output = run(&["compact", &path, "--target", "2000", "-o", &out]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 4, "{told}");
    for name in ["first large", "second large"] {
        assert!(told.contains(&format!("error: {path} ({name}): the items that cannot shrink")), "{told}");
    }
    let sizes = |path: &str| -> Vec<u64> {
        let stats = json(&run(&["stats", path, "--json"]));
        let conversations = stats["conversations"].as_array().unwrap().clone();
        conversations.iter().map(|one| one["tokens_view"].as_u64().unwrap()).collect()
    };
    let (before, after) = (sizes(&path), sizes(&out));
    assert_eq!((before[0], before[2]), (after[0], after[2]), "what failed is left as it was");
    assert!(before[1] > 2_000 && after[1] <= 2_000, "{before:?} {after:?}");
    let report = run(&["compact", &path, "--target", "2000", "--dry-run", "--json"]);
    assert_eq!(code(&report), 4);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["conversations"][0]["name"], "long");
    assert_eq!(report["failed"][1]["name"], "second large");
}

#[test]
fn where_no_conversation_can_be_compacted_nothing_is_written() {
    let folder = folder();
    let (path, out) = (at(&folder, "several.jsonl"), at(&folder, "out.jsonl"));
    std::fs::write(&path, several()).unwrap();
    assert_eq!(code(&run(&["compact", &path, "--target", "2", "-o", &out])), 4);
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn what_cannot_shrink_is_named_by_its_line_kind_and_size() {
    let folder = folder();
    let path = at(&folder, "large.jsonl");
    let session = line("opaque-id-1", "system", "Be brief.") + &line("opaque-id-2", "user", &words(4_000));
    std::fs::write(&path, session).unwrap();
    let output = run(&["compact", &path, "--target", "2000", "-q"]);
    let told = text(&output.stderr);
    assert_eq!((code(&output), output.stdout.len()), (4, 0), "{told}");
    assert!(told.contains("the items that cannot shrink cost"), "{told}");
    assert!(told.contains(&format!("  {path}:2: user item 1, 5,3")), "{told}");
    assert!(told.contains("tokens at its smallest") && told.contains("hint: raise the target"), "{told}");
    assert!(!told.contains("opaque-id"), "{told}");
}

#[test]
fn a_loss_is_named_by_its_line_kind_and_size_and_strict_refuses_it() {
    let folder = folder();
    let (path, out) = (at(&folder, "thinking.jsonl"), at(&folder, "out.json"));
    let thought = r#"{"id":"opaque-id","kind":"assistant","parts":[{"reasoning":{"text":"hm","signature":"s"}},{"text":"hello"}]}"#;
    let session = line("u", "user", "hi") + thought + "\n";
    std::fs::write(&path, &session).unwrap();
    let output = run(&["convert", &path, "--to", "openai-chat"]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 0, "{told}");
    assert!(told.contains(&format!("{path}:2: not the same in openai-chat: reasoning")), "{told}");
    let body: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(body.to_string().contains("hello"), "{body}");
    let report = json(&run(&["convert", &path, "--to", "openai-chat", "--json", "-o", &out]));
    let lost = report["losses"][0].as_str().unwrap();
    assert!(lost.starts_with(&format!("{path}:2: reasoning")), "{lost}");
    assert!(lost.contains("(assistant item 1, about ") && !lost.contains("opaque-id"), "{lost}");
    assert_eq!(code(&run(&["convert", &path, "--to", "openai-chat", "--strict"])), 5);
    let kept = run(&["convert", &path, "--to", "native", "--strict"]);
    assert_eq!(code(&kept), 0, "{}", text(&kept.stderr));
    let parts = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["parts"].clone()).collect()
    };
    assert_eq!(parts(&text(&kept.stdout)), parts(&session));
}

#[test]
fn check_and_fix_name_the_same_places_and_fix_says_what_it_wrote() {
    let folder = folder();
    let path = at(&folder, "broken.jsonl");
    let call = |id: &str, call: &str| {
        let part = serde_json::json!({"tool_call": {"id": call, "name": "ls", "input": {"json": {}}}});
        format!("{}\n", serde_json::json!({"id": id, "kind": "assistant", "parts": [part]}))
    };
    let session = [
        line("u1", "user", "Look around."),
        call("a1", "c1"),
        line("u2", "user", "And there?"),
        call("a2", "c2"),
        line("u3", "user", "Enough."),
    ];
    std::fs::write(&path, session.concat()).unwrap();
    let places =
        |output: &std::process::Output, of: &dyn Fn(&Value) -> Value| -> Vec<(Value, Value, Value)> {
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let found = of(&report);
            let place = |one: &Value| (one["rule"].clone(), one["line"].clone(), one["item_index"].clone());
            found.as_array().unwrap().iter().map(place).collect()
        };
    let checked = run(&["check", &path, "--for", "anthropic", "--json"]);
    assert_eq!(code(&checked), 1);
    let found = places(&checked, &|report| report["checks"][0]["violations"].clone());
    let out = at(&folder, "fixed.jsonl");
    let fixed = run(&["check", &path, "--for", "anthropic", "--fix", "--json", "-o", &out]);
    assert_eq!(found.len(), 2, "{}", text(&checked.stdout));
    assert_eq!(places(&fixed, &|report| report["repairs"].clone()), found, "{}", text(&fixed.stdout));
    assert_eq!(json(&fixed)["written"]["path"], out.as_str());
    assert_eq!(json(&fixed)["written"]["how"], "appended");
    let told = text(&run(&["check", &path, "--for", "anthropic", "--fix", "-o", &out]).stderr);
    assert!(told.contains(&format!("{path}:4: unanswered-call")) && told.contains("at index 3"), "{told}");
    assert!(told.contains("the repair was added"), "{told}");
    assert_eq!(code(&run(&["check", &out, "--for", "anthropic"])), 0);
}

/// A session of no dialect that each of the four rejects: calls that what happened meanwhile follows, an id
/// used twice, results out of order and far from their calls, an assistant first.
fn rejected_everywhere() -> String {
    let item = |id: &str, kind: &str, parts: Value| {
        format!("{}\n", serde_json::json!({"id": id, "kind": kind, "parts": parts}))
    };
    let call =
        |call: &str| serde_json::json!({"tool_call": {"id": call, "name": "ls", "input": {"json": {}}}});
    let result =
        |call: &str| serde_json::json!({"tool_result": {"call_id": call, "content": [{"text": "done"}]}});
    [
        line("a0", "assistant", "Hello."),
        line("u1", "user", "Look around."),
        item("a1", "assistant", serde_json::json!([call("c1"), call("c2")])),
        line("n1", "notification", "a job has ended"),
        item("t2", "tool", serde_json::json!([result("c2")])),
        item("t1", "tool", serde_json::json!([result("c1")])),
        item("a2", "assistant", serde_json::json!([call("c1")])),
        line("n2", "notification", "another job has ended"),
        line("u2", "user", "And there?"),
        item("t3", "tool", serde_json::json!([result("c1")])),
        item("a3", "assistant", serde_json::json!([call("c3")])),
        line("x1", "context", "a file of the project"),
    ]
    .concat()
}

#[test]
fn fix_repairs_for_every_dialect_that_check_complains_about_in_one_step() {
    let folder = folder();
    let (path, out) = (at(&folder, "broken.jsonl"), at(&folder, "fixed.jsonl"));
    std::fs::write(&path, rejected_everywhere()).unwrap();
    let check = |path: &str| -> Value {
        let checked = run(&["check", path, "--json"]);
        assert_eq!(code(&checked), 1);
        serde_json::from_slice(&checked.stdout).unwrap()
    };
    let checked = check(&path);
    for verdict in checked["checks"].as_array().unwrap() {
        let found = verdict["violations"].as_array().unwrap();
        assert!(found.iter().any(|one| one["rule"] == "unanswered-call" && one["line"] == 11), "{verdict}");
    }
    let fixed = run(&["check", &path, "--fix", "-o", &out]);
    let told = text(&fixed.stderr);
    assert_eq!(code(&fixed), 0, "{told}");
    assert!(told.contains("; valid for anthropic, openai-chat, openai-responses, gemini"), "{told}");
    let again = run(&["check", &out]);
    assert_eq!(code(&again), 0, "{}", text(&again.stdout));
    assert_eq!(text(&again.stdout).matches(": valid").count(), 4);
    let undone = at(&folder, "undone.jsonl");
    assert_eq!(code(&run(&["undo", &out, "-o", &undone])), 0);
    assert_eq!(check(&undone)["checks"], checked["checks"], "one undo takes all of the repair off");
}

#[test]
fn what_fix_says_is_left_is_what_check_finds_in_the_written_file() {
    let folder = folder();
    for (number, path) in files_below(&fixtures()).iter().enumerate() {
        let path = path.display().to_string();
        for dialect in ["anthropic", "openai-chat", "openai-responses", "gemini"] {
            let out = at(&folder, &format!("{number}-{dialect}"));
            let fixed = run(&["check", &path, "--for", dialect, "--fix", "--json", "-o", &out]);
            let checked = run(&["check", &out, "--for", dialect, "--json"]);
            let (told, found) = (json(&fixed), json(&checked));
            assert_eq!(told["left"], found["checks"], "{path}");
            assert_eq!(code(&fixed), code(&checked), "{path}");
            assert_eq!(code(&fixed), 0, "{path}: {}", told["left"]);
        }
    }
}

/// Formats and the dialects that their sessions are for.
const SPOKEN: [(&str, &str); 9] = [
    ("anthropic", "anthropic"),
    ("openai-chat", "openai-chat"),
    ("openai-responses", "openai-responses"),
    ("gemini", "gemini"),
    ("claude-code", "anthropic"),
    ("codex", "openai-responses"),
    ("gemini-cli", "gemini"),
    ("opencode", "openai-chat"),
    ("copilot-cli", "openai-chat"),
];

#[test]
fn a_session_with_gaps_is_valid_wherever_it_is_written() {
    let folder = folder();
    let path = at(&folder, "broken.jsonl");
    std::fs::write(&path, rejected_everywhere()).unwrap();
    in_store(&folder, &["import", &path]);
    for (format, dialect) in SPOKEN {
        let converted = at(&folder, &format!("converted.{format}"));
        assert_eq!(code(&run(&["convert", &path, "--to", format, "-o", &converted])), 0);
        let exported = ["view", "history"].map(|from| {
            let out = at(&folder, &format!("{from}.{format}"));
            let done = in_store(
                &folder,
                &["session", "export", "broken", "--as", format, "--from", from, "-o", &out],
            );
            assert_eq!(code(&done), 0, "{}", text(&done.stderr));
            out
        });
        for written in [vec![converted], exported.to_vec()].concat() {
            let checked = run(&["check", &written, "--for", dialect]);
            assert_eq!(code(&checked), 0, "{}", text(&checked.stdout));
        }
    }
}

#[test]
fn a_request_whose_last_call_has_no_result_says_so() {
    let folder = folder();
    let path = at(&folder, "running.jsonl");
    let call = serde_json::json!({"tool_call": {"id": "c", "name": "ls", "input": {"json": {}}}});
    let calling = serde_json::json!({"id": "a", "kind": "assistant", "parts": [call]});
    std::fs::write(&path, format!("{}{calling}\n", line("u", "user", "Look around."))).unwrap();
    in_store(&folder, &["import", &path]);
    let told = "1 call at the end has no result yet: anthropic refuses the request until results follow";
    let out = at(&folder, "request.json");
    let converted = run(&["convert", &path, "--to", "anthropic", "-o", &out]);
    let shown = in_store(&folder, &["session", "context", "running", "--for", "anthropic"]);
    let exported = in_store(&folder, &["session", "export", "running", "--as", "anthropic"]);
    for output in [&converted, &shown, &exported] {
        assert_eq!(code(output), 0);
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    let converted = run(&["convert", &path, "--to", "anthropic", "-o", &out, "--json"]);
    assert_eq!(json(&converted)["waiting_calls"], 1);
    let checked = run(&["check", &path, "--for", "anthropic"]);
    assert!(text(&checked.stdout).contains("valid; 1 call at the end without a result yet"));
    // A session may stop in the middle of a round.
    let session = run(&["convert", &path, "--to", "claude-code", "-o", &at(&folder, "session.jsonl")]);
    assert!(!text(&session.stderr).contains("no result yet"), "{}", text(&session.stderr));
}

#[test]
fn every_conversation_of_a_file_is_repaired() {
    let folder = folder();
    let (path, out) = (at(&folder, "several.jsonl"), at(&folder, "fixed.jsonl"));
    let result =
        r#"{"id":"t","kind":"tool","parts":[{"tool_result":{"call_id":"gone","content":[{"text":"ok"}]}}]}"#;
    let broken = line("u", "user", "hi") + result + "\n";
    std::fs::write(&path, conversation("one") + &broken + &conversation("two") + &broken).unwrap();
    assert_eq!(code(&run(&["check", &path, "--for", "anthropic"])), 1);
    assert_eq!(code(&run(&["check", &path, "--for", "anthropic", "--fix", "-o", &out])), 0);
    assert_eq!(code(&run(&["check", &out, "--for", "anthropic"])), 0);
}

#[test]
fn a_session_that_fits_is_copied_and_said_to_be() {
    let folder = folder();
    let (copy, out) = (at(&folder, "session.jsonl"), at(&folder, "out.jsonl"));
    std::fs::copy(SESSION, &copy).unwrap();
    let told = text(&run(&["compact", &copy, "--target", "90k", "-o", &out]).stderr);
    assert!(told.contains("already under the target: 36,031 tokens, the target is 90,000"), "{told}");
    assert!(told.contains(&format!("copied to {out} unchanged")), "{told}");
    let told = text(&run(&["compact", &copy, "--target", "90k", "--in-place"]).stderr);
    assert!(told.contains(&format!("left {copy} as it is")), "{told}");
    let told = text(&run(&["compact", &copy, "--target", "4000", "--fresh", "-o", &out]).stderr);
    assert!(told.contains("a fresh file in native form\n"), "nothing is said to be missing: {told}");
}

#[test]
fn a_fresh_file_says_what_it_leaves_out_and_why_nothing_was_added() {
    let folder = folder();
    let (file, out) = (at(&folder, "session.jsonl"), at(&folder, "out.jsonl"));
    let agents = fixtures().join("claude-code/branches.jsonl").display().to_string();
    let told =
        text(&run(&["compact", &agents, "--target", "4000", "--uncalibrated", "--fresh", "-o", &out]).stderr);
    assert!(told.contains("without 1 other conversation of the file"), "{told}");
    let report = json(&run(&[
        "compact",
        &agents,
        "--target",
        "4000",
        "--uncalibrated",
        "--fresh",
        "-o",
        &out,
        "--json",
    ]));
    assert_eq!(report["written"]["conversations_left_out"], 1);

    let original = std::fs::read_to_string(fixtures().join("claude-code/running.jsonl")).unwrap();
    // What was said last has the uuid of what was said first.
    let (last, first) = ("0003dde0-0000-4000-8000-000000000020", "00003dde-0000-4000-8000-000000000002");
    assert!(original.contains(last) && original.contains(first));
    std::fs::write(&file, original.replace(last, first)).unwrap();
    let told = text(&run(&["compact", &file, "--target", "2000", "--uncalibrated", "-o", &out]).stderr);
    assert!(told.contains("nothing can be added after its last record"), "{told}");
}

/// A request with calls whose answers have `answer` in them.
fn request(rounds: usize, answer: &Value) -> Value {
    let mut messages = vec![serde_json::json!({"role": "user", "content": "Look at every page."})];
    for round in 0..rounds {
        let id = format!("toolu_{round}");
        let input = serde_json::json!({"file_path": format!("pages/page_{round}.md")});
        let call = serde_json::json!({"type": "tool_use", "id": id, "name": "Read", "input": input});
        let told = format!("Page {round} mentions parse_rule_{round}() and src/rule_{round}.rs.");
        let said = serde_json::json!({"type": "text", "text": told});
        messages.push(serde_json::json!({"role": "assistant", "content": [said, call]}));
        let result = serde_json::json!({"type": "tool_result", "tool_use_id": id, "content": answer});
        messages.push(serde_json::json!({"role": "user", "content": [result]}));
    }
    serde_json::json!({"model": "claude-sonnet-4-5", "messages": messages})
}

/// An answer with a picture of one pixel.
fn pictured() -> Value {
    let data =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
    let source = serde_json::json!({"type": "base64", "media_type": "image/png", "data": data});
    serde_json::json!([{"type": "text", "text": "a page"}, {"type": "image", "source": source}])
}

#[test]
fn a_picture_that_a_format_does_not_take_is_a_loss() {
    let folder = folder();
    let (path, out) = (at(&folder, "request.json"), at(&folder, "out.json"));
    std::fs::write(&path, request(2, &pictured()).to_string()).unwrap();
    let output = run(&["convert", &path, "--to", "openai-chat", "-o", &out]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 0, "{told}");
    assert!(told.contains("not the same in openai-chat, 2 times: omitted image/png"), "{told}");
    let refused = at(&folder, "refused.json");
    let strict = run(&["convert", &path, "--to", "openai-chat", "--strict", "--json", "-o", &refused]);
    assert_eq!(code(&strict), 5);
    let report: Value = serde_json::from_slice(&strict.stdout).unwrap();
    assert_eq!(report["losses"].as_array().map(Vec::len), Some(2), "{report}");
    for format in ["claude-code", "pi"] {
        let kept = run(&["convert", &path, "--to", format, "--strict", "-o", &out]);
        assert_eq!(code(&kept), 0, "{format}: {}", text(&kept.stderr));
    }
}

#[test]
fn pictures_that_tools_answered_with_are_counted_as_pictures() {
    let folder = folder();
    let path = at(&folder, "request.json");
    std::fs::write(&path, request(2, &pictured()).to_string()).unwrap();
    let stats = json(&run(&["stats", &path, "--json"]));
    let tokens = |name: &str| stats["conversations"][0][name].as_u64().unwrap();
    assert!(tokens("image_tokens") > 0, "{stats}");
    assert!(tokens("image_tokens") < tokens("tool_output_tokens"), "{stats}");
}

#[test]
fn json_is_one_line_however_the_session_is_laid_out_and_counts_as_asked() {
    let folder = folder();
    let path = at(&folder, "request.json");
    let laid_out = serde_json::to_string_pretty(&request(3, &"a page".into())).unwrap();
    std::fs::write(&path, laid_out).unwrap();
    let shown = |more: &[&str]| {
        let output = run(&[&["show", &path, "--json"], more].concat());
        let told = text(&output.stdout);
        assert_eq!(told.trim_end().lines().count(), 1, "{told}");
        serde_json::from_str::<Value>(&told).unwrap()
    };
    assert_eq!(shown(&[])["tokens"], shown(&["--plain"])["tokens"]);
    assert_ne!(shown(&[])["tokens"], shown(&["--counter", "estimate"])["tokens"]);
}

#[test]
fn a_summary_of_what_is_nowhere_any_more_is_shortened_and_not_thrown_away() {
    let folder = folder();
    let (path, once, twice) =
        (at(&folder, "request.json"), at(&folder, "once.json"), at(&folder, "twice.json"));
    std::fs::write(&path, request(400, &words(60).into()).to_string()).unwrap();
    for (from, to, target) in [(&path, &once, "4000"), (&once, &twice, "3600")] {
        let output = run(&["compact", from, "--target", target, "-o", to]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    }
    let tokens = json(&run(&["stats", &twice, "--json"]))["tokens_view"].as_u64().unwrap();
    assert!((1_800..=3_600).contains(&tokens), "{tokens}");
}

#[test]
fn what_a_conversion_loses_is_summed_up_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl").display().to_string();
    let thought = |n: usize| {
        format!(
            "{{\"id\":\"a{n}\",\"kind\":\"assistant\",\"parts\":[{{\"reasoning\":{{\"text\":\"So {n}.\"}}}},\
             {{\"text\":\"Done {n}.\"}}]}}\n"
        )
    };
    let said = "{\"id\":\"u\",\"kind\":\"user\",\"parts\":[{\"text\":\"Go on.\"}]}\n";
    let lines: String =
        (0..30).map(|n| format!("{}{}", said.replace("\"u\"", &format!("\"u{n}\"")), thought(n))).collect();
    std::fs::write(&path, lines).unwrap();
    let output = run(&["convert", &path, "--to", "openai-chat", "-o", "-"]);
    let told = text(&output.stderr);
    let warnings: Vec<&str> = told.lines().filter(|line| line.starts_with("warning:")).collect();
    assert_eq!(warnings.len(), 1, "{told}");
    assert!(warnings[0].contains("not the same in openai-chat, 30 times: reasoning"), "{told}");
    assert!(warnings[0].ends_with(&format!("; first at {path}:2")), "{told}");
}

#[test]
fn a_compaction_says_of_what_its_target_is_a_share_and_who_says_how_large_the_window_is() {
    let told = |flags: &[&str]| {
        let output = run(&[&["compact", SESSION, "--dry-run"], flags].concat());
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let assumed = told(&["--target", "5%"]);
    assert!(assumed.contains("window 200,000 (assumed: --window or --model says"), "{assumed}");
    assert!(assumed.contains(": 5% of the ") && assumed.contains(" that the window leaves"), "{assumed}");
    let named = told(&["--target", "5% of window", "--model", "claude-opus-5"]);
    assert!(named.contains("for claude-opus-5 (--model), window "), "{named}");
    assert!(named.contains("(the model's)") && named.contains("5% of the window of"), "{named}");
    let share = told(&["--target", "25% of session"]);
    assert!(share.contains("(target 9,007: 25% of the session's 36,031)"), "{share}");
}
