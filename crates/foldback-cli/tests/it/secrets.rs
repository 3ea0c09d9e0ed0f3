//! A session full of secrets: what the program writes and shows of it has none of them.

use super::searching::Agent;
use super::sessions::{in_store, lines};
use super::*;

/// As many characters of a secret tell too much.
const SHOWN_MIN: usize = 12;

/// Rounds of the session.
const ROUNDS: usize = 24;

/// Something drawn, made here so that no scanner takes this file for a leak.
fn drawn(seed: usize, length: usize) -> String {
    let letters = b"aB3dE7fG1hJ9kLmN0pQ2rS5tUvW8xYz4CcDd6FgHiKo";
    (0..length)
        .map(|n| char::from(letters[(n * n * 7 + n * 13 + seed * 31 + n * seed) % letters.len()]))
        .collect()
}

/// What is secret, and nothing else.
fn secrets() -> Vec<String> {
    let lines = (0..30).map(|line| drawn(line + 50, 64));
    lines.chain([drawn(1, 36), drawn(2, 48), drawn(3, 24), drawn(4, 20)]).collect()
}

fn private_key() -> String {
    let label = ["PRIVATE", " KEY-----"].concat();
    format!("-----BEGIN RSA {label}\n{}\n-----END RSA {label}", secrets()[..30].join("\n"))
}

/// Calls with passwords in fields; keys in answers, at the places where excerpts and quotations are cut.
fn session(folder: &tempfile::TempDir) -> String {
    let all = secrets();
    let [token, bearer, password, url] = &all[30..] else { unreachable!("four come after the key") };
    let mut file = serde_json::json!({"id": "task", "kind": "user", "parts": [
        {"text": format!("Deploy it. Never log in with the token {}{token}.", ["gh", "p_"].concat())}]})
    .to_string();
    for n in 0..ROUNDS {
        let input = match n % 3 {
            0 => serde_json::json!({"user": "ann", "password": password}),
            1 => {
                serde_json::json!({"command": format!("curl -H 'Authorization: Bearer {bearer}' https://x.dev/{n}")})
            }
            _ => {
                serde_json::json!({"file_path": "plan.md", "content": format!("1. zeppelin\n{}\n2. land", private_key())})
            }
        };
        let answer = match n % 3 {
            0 => format!("{}\nerror: zeppelin {n} could not land", private_key()),
            1 => format!(
                "error: postgres://ann:{url}@db/app refused zeppelin {n}\n{}",
                "more of it\n".repeat(200)
            ),
            _ => format!("{{\"password\": \"{password}\", \"zeppelin\": {n}}}"),
        };
        let call = serde_json::json!({"id": format!("a{n}"), "kind": "assistant", "parts": [
            {"text": format!("I decided to try {} because it failed.", ["gh", "p_", token].concat())},
            {"tool_call": {"id": format!("c{n}"), "name": "Bash", "input": {"json": input}}}]});
        let result = serde_json::json!({"id": format!("t{n}"), "kind": "tool", "parts": [
            {"tool_result": {"call_id": format!("c{n}"), "content": [{"text": answer}], "is_error": n % 2 == 0}}]});
        file.push_str(&format!("\n{call}\n{result}"));
    }
    let path = at(folder, "session.jsonl");
    std::fs::write(&path, file + "\n").unwrap();
    path
}

#[track_caller]
fn assert_hides(told: &str) {
    for secret in secrets() {
        let pieces = secret.as_bytes().windows(SHOWN_MIN).map(|piece| std::str::from_utf8(piece).unwrap());
        for piece in pieces {
            assert!(!told.contains(piece), "{piece} of {secret} in\n{told}");
        }
    }
}

/// Texts of summaries and placeholders in what `show --json` tells.
fn summaries(shown: &Value) -> String {
    let items = shown["items"].as_array().unwrap().iter().map(|shown| &shown["item"]);
    items.filter(|item| !item["summary"].is_null()).map(Value::to_string).collect()
}

#[test]
fn what_is_written_and_told_about_a_file_has_none_of_its_secrets() {
    let folder = folder();
    let path = session(&folder);
    for target in ["600", "1500", "4000"] {
        let out = at(&folder, &format!("{target}.jsonl"));
        let compacted = run(&["compact", &path, "--target", target, "-o", &out]);
        assert_hides(&text(&compacted.stderr));
        if code(&compacted) == 0 {
            let summaries = summaries(&json(&run(&["show", &out, "--json"])));
            assert!(summaries.contains("[secret: "), "{summaries}");
            assert_hides(&summaries);
        }
        for command in
            [&["explain", &path, "--target", target][..], &["explain", &path, "--target", target, "--json"]]
        {
            assert_hides(&text(&run(command).stdout));
        }
    }
    for command in [&["stats", &path][..], &["stats", &path, "--json"]] {
        let told = run(command);
        assert_eq!(code(&told), 0, "{}", text(&told.stderr));
        assert_hides(&text(&told.stdout));
    }
}

#[test]
fn what_search_and_recall_give_has_no_secrets_unless_they_are_asked_for() {
    let folder = folder();
    let path = session(&folder);
    assert_eq!(code(&in_store(&folder, &["session", "import", "--id", "one", &path])), 0);
    let compacted = in_store(&folder, &["session", "compact", "one", "--target", "1500"]);
    assert_hides(&text(&compacted.stdout));
    let found = in_store(&folder, &["search", "zeppelin", "--limit", "100", "--json"]);
    let hits = lines(&found);
    assert!(hits.len() > ROUNDS / 2, "{}", hits.len());
    assert_hides(&text(&found.stdout));
    let mut agent = Agent::start(&folder);
    assert_hides(&agent.call("search", &serde_json::json!({"query": "zeppelin", "limit": 50})));
    let mut shown = String::new();
    for hit in hits {
        let handle = hit["handle"].as_str().unwrap();
        for recalled in [&["recall", handle][..], &["recall", handle, "--json"]] {
            let recalled = in_store(&folder, recalled);
            assert_eq!(code(&recalled), 0, "{}", text(&recalled.stderr));
            assert!(text(&recalled.stdout).contains("[secret: "), "{}", text(&recalled.stdout));
            assert_hides(&text(&recalled.stdout));
        }
        assert_hides(&agent.call("recall", &serde_json::json!({"handle": handle})));
        shown.push_str(&text(&in_store(&folder, &["recall", handle, "--show-secrets"]).stdout));
    }
    for secret in &secrets()[..30] {
        assert!(shown.contains(secret.as_str()), "{secret}");
    }
}
