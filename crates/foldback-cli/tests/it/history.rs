//! History and view of a session, and the turns in them.

use foldback_formats::Format;
use serde_json::Value;

use super::{SESSION, at, code, files_below, fixtures, folder, json, run, text};

/// A session whose past is only there as a summary, as an agent leaves it that starts a new file.
const WITHOUT_PAST: &str = r#"{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","compactMetadata":{"trigger":"auto","preTokens":150000}}
{"type":"user","isCompactSummary":true,"uuid":"c","parentUuid":"b","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","message":{"role":"user","content":"We renamed the parser and moved its tests. The lexer is next."}}
{"type":"user","uuid":"d","parentUuid":"c","sessionId":"s","timestamp":"2026-01-01T00:00:02Z","message":{"role":"user","content":"Go on with the lexer."}}
{"type":"assistant","uuid":"e","parentUuid":"d","sessionId":"s","timestamp":"2026-01-01T00:00:03Z","message":{"role":"assistant","content":[{"type":"text","text":"The lexer is done."}]}}
"#;

#[test]
fn a_summary_of_a_past_that_the_file_does_not_have_is_part_of_its_history() {
    let folder = folder();
    let path = at(&folder, "session.jsonl");
    std::fs::write(&path, WITHOUT_PAST).unwrap();
    let stats = json(&run(&["stats", &path, "--json"]));
    assert_eq!(stats["tokens_history"], stats["tokens_view"], "{stats}");
    assert_eq!(stats["conversations"][0]["items_history"], 3, "{stats}");
    let history = text(&run(&["show", &path, "--from", "history", "--plain"]).stdout);
    assert!(history.contains("renamed the parser"), "{history}");
    assert_eq!(code(&run(&["diff", &path])), 0, "nothing that the file holds is hidden");
}

#[test]
fn a_history_is_never_smaller_than_what_the_model_saw() {
    for path in files_below(&fixtures()) {
        let stats = json(&run(&["stats", path.to_str().unwrap(), "--json", "-q", "--counter", "estimate"]));
        let tokens = |stats: &Value, name: &str| stats[name].as_u64().unwrap();
        for conversation in stats["conversations"].as_array().unwrap() {
            let (history, view) =
                (tokens(conversation, "tokens_history"), tokens(conversation, "tokens_view"));
            assert!(history >= view, "{}: {history} < {view}", path.display());
        }
    }
}

/// A session of Gemini CLI as a log. What is converted is one document, in which a compaction leaves no
/// history.
pub(super) fn as_log(document: &str) -> String {
    let mut document: serde_json::Map<String, Value> = serde_json::from_str(document).unwrap();
    let Some(Value::Array(messages)) = document.remove("messages") else { panic!("messages") };
    let records = std::iter::once(Value::Object(document)).chain(messages);
    records.map(|record| format!("{record}\n")).collect()
}

#[test]
fn a_turn_has_one_number_before_and_after_a_compaction() {
    let folder = folder();
    // Requests hold no history: a compaction of one is a request without what was folded.
    let sessions = Format::ALL.iter().filter(|format| format.is_writable() && format.dialect().is_none());
    for format in sessions {
        let (whole, out) = (at(&folder, "whole"), at(&folder, "out"));
        let converted = run(&["convert", SESSION, "--to", format.as_str(), "-q", "-o", &whole]);
        assert_eq!(code(&converted), 0, "{format}: {}", text(&converted.stderr));
        if *format == Format::GeminiCli {
            std::fs::write(&whole, as_log(&std::fs::read_to_string(&whole).unwrap())).unwrap();
        }
        let compacted = run(&["compact", &whole, "--target", "4500", "-q", "-o", &out]);
        assert_eq!(code(&compacted), 0, "{format}: {}", text(&compacted.stderr));
        let turns = |path: &str| {
            let stats = json(&run(&["stats", path, "--json", "-q"]));
            let conversation = &stats["conversations"][0];
            let shares = conversation["by_turn"].as_array().unwrap().clone();
            assert_eq!(conversation["turns"], shares.len(), "{format}");
            assert_eq!(conversation["turns_history"], 5, "{format}");
            let named = |share: &Value| (share["turn"].as_u64().unwrap(), share["prompt"].clone());
            shares.iter().map(named).collect::<Vec<_>>()
        };
        let (before, after) = (turns(&whole), turns(&out));
        assert!(!after.is_empty() && after.iter().all(|turn| before.contains(turn)), "{format}: {after:?}");
        let last = json(&run(&["show", &out, "--at", "5", "--json", "-q"]));
        let items = last["items"].as_array().unwrap();
        assert!(items.iter().any(|shown| shown["turn"] == 5), "{format}");
        let prompt = &before[4].1;
        let begun = items.iter().find(|shown| shown["turn"] == 5 && shown["item"]["kind"] == "user").unwrap();
        assert!(begun["item"].to_string().contains(&prompt.as_str().unwrap()[..20]), "{format}: {begun}");
        assert_eq!(code(&run(&["show", &out, "--at", "6", "-q"])), 2, "{format}");
    }
}

#[test]
fn a_turn_that_only_some_conversations_have_is_shown_of_those() {
    let folder = folder();
    let path = at(&folder, "several.jsonl");
    let user =
        |id: &str| format!("{{\"id\":\"{id}\",\"kind\":\"user\",\"parts\":[{{\"text\":\"said {id}\"}}]}}\n");
    let one = format!("{{\"conversation\":{{\"name\":\"one\"}}}}\n{}", user("a"));
    let two = format!("{{\"conversation\":{{\"name\":\"two\"}}}}\n{}{}", user("b"), user("c"));
    std::fs::write(&path, one + &two).unwrap();
    let second = run(&["show", &path, "--at", "2", "--plain"]);
    assert_eq!((code(&second), text(&second.stdout).as_str()), (0, "[user]\nsaid b\n[user]\nsaid c\n"));
    let third = run(&["show", &path, "--at", "3"]);
    assert_eq!(code(&third), 2);
    assert!(text(&third.stderr).contains("turns 1 to 2"), "{}", text(&third.stderr));
}

#[test]
fn a_shape_can_be_searched() {
    let shape = |arguments: &[&str]| {
        let all: Vec<&str> = ["show", SESSION, "--shape"].iter().chain(arguments).copied().collect();
        text(&run(&all).stdout).lines().count()
    };
    assert!((1..shape(&[])).contains(&shape(&["--grep", "cargo test"])));
}
