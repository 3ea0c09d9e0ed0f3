//! What is reported of a compaction, a repair or a conversion: the place in the file, and what was
//! written.

use serde_json::Value;

use super::{SESSION, at, code, fixtures, folder, json, run, text};

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
    let told = text(&run(&["compact", &agents, "--target", "4000", "--fresh", "-o", &out]).stderr);
    assert!(told.contains("without 1 other conversation of the file"), "{told}");
    let report = json(&run(&["compact", &agents, "--target", "4000", "--fresh", "-o", &out, "--json"]));
    assert_eq!(report["written"]["conversations_left_out"], 1);

    let original = std::fs::read_to_string(fixtures().join("claude-code/running.jsonl")).unwrap();
    // What was said last has the uuid of what was said first.
    let (last, first) = ("0003dde0-0000-4000-8000-000000000020", "00003dde-0000-4000-8000-000000000002");
    assert!(original.contains(last) && original.contains(first));
    std::fs::write(&file, original.replace(last, first)).unwrap();
    let told = text(&run(&["compact", &file, "--target", "2000", "-o", &out]).stderr);
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
