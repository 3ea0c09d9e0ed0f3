//! `--keep` and `--pin`: lines that summaries repeat, and items that stay as they are; with files and in a
//! store.

use super::sessions::{in_store, lines, native, session_file};
use super::*;

/// A session in which the user and a tool say something worth keeping, long before its end.
fn session(folder: &tempfile::TempDir) -> String {
    let path = session_file(folder, "own.jsonl", 60);
    let mut text = std::fs::read_to_string(&path).unwrap();
    let said = native("said", "user", "The staging port is 4711.\nThanks.");
    let call = serde_json::json!({"id": "call", "kind": "assistant", "parts": [
        {"tool_call": {"id": "c1", "name": "Bash", "input": {"json": {"command": "cat notes"}}}}]});
    let answer = serde_json::json!({"id": "answer", "kind": "tool", "parts": [
        {"tool_result": {"call_id": "c1", "content": [{"text": "noise\n> Always use port 4712.\nnoise"}]}}]});
    let at = text.find("{\"id\":\"u5\"").unwrap();
    text.insert_str(at, &format!("{said}{call}\n{answer}\n"));
    std::fs::write(&path, text).unwrap();
    path
}

fn shown(path: &str) -> String {
    text(&run(&["show", path, "--plain"]).stdout)
}

fn has_line(shown: &str, line: &str) -> bool {
    shown.lines().any(|shown| shown.trim() == line)
}

#[test]
fn kept_lines_stand_in_the_summary_and_their_items_are_folded() {
    let folder = folder();
    let (path, out) = (session(&folder), at(&folder, "out.jsonl"));
    let report = run(&["compact", &path, "--target", "3000", "--keep", "port is|use port", "-o", &out]);
    assert_eq!(code(&report), 0, "{}", text(&report.stderr));
    assert!(
        text(&report.stderr).contains("2 lines that match --keep stand word for word in the summary"),
        "{}",
        text(&report.stderr)
    );
    let shown = shown(&out);
    assert!(has_line(&shown, "> The staging port is 4711."), "{shown}");
    assert!(has_line(&shown, "answered by Bash: > Always use port 4712."), "{shown}");
    assert!(!has_line(&shown, "> Always use port 4712."), "a tool's line is never the user's: {shown}");
    assert!(!has_line(&shown, "noise"), "the item itself is folded: {shown}");
}

#[test]
fn kept_lines_survive_a_second_compaction_and_a_second_run_changes_nothing() {
    let folder = folder();
    let path = session(&folder);
    let compact = |target: &str| {
        json(&run(&["compact", &path, "--target", target, "--keep", "port", "--in-place", "--json"]))
    };
    let first = compact("4000");
    assert_eq!(first["conversations"][0]["kept_lines"]["in_summary"], 2, "{first}");
    assert_eq!(compact("4000")["conversations"][0]["edits"], 0);
    let second = compact("1500");
    assert_ne!(second["conversations"][0]["edits"], 0);
    assert_eq!(second["conversations"][0]["kept_lines"]["no_room"], 0, "{second}");
    let shown = shown(&path);
    assert!(has_line(&shown, "> The staging port is 4711."), "{shown}");
    assert!(has_line(&shown, "answered by Bash: > Always use port 4712."), "{shown}");
}

#[test]
fn what_is_visible_is_not_repeated() {
    let folder = folder();
    let path = session(&folder);
    let report =
        json(&run(&["compact", &path, "--target", "3000", "--keep", "request 59", "--dry-run", "--json"]));
    let kept = &report["conversations"][0]["kept_lines"];
    assert_eq!((&kept["visible"], &kept["in_summary"]), (&1.into(), &0.into()), "{report}");
}

#[test]
fn pinned_items_stay_whole() {
    let folder = folder();
    let (path, out) = (session(&folder), at(&folder, "out.jsonl"));
    let pinned = run(&["compact", &path, "--target", "3000", "--pin", "use port", "-o", &out]);
    assert_eq!(code(&pinned), 0, "{}", text(&pinned.stderr));
    assert!(has_line(&shown(&out), "noise"), "{}", shown(&out));
}

#[test]
fn a_pattern_without_a_match_is_told_for_each_flag() {
    let folder = folder();
    let path = session(&folder);
    for flag in ["--keep", "--pin"] {
        let said = format!("nothing matches {flag}");
        let output = run(&["compact", &path, "--target", "3000", flag, "no such words", "--dry-run"]);
        assert!(text(&output.stderr).contains(&said), "{}", text(&output.stderr));
        let output = run(&["explain", &path, "--target", "3000", flag, "no such words"]);
        assert!(text(&output.stderr).contains(&said), "{}", text(&output.stderr));
        let wrong = run(&["compact", &path, "--target", "3000", flag, "(", "--dry-run"]);
        assert_eq!(code(&wrong), 2);
        assert!(
            text(&wrong.stderr).contains(&format!("{flag}: regex parse error")),
            "{}",
            text(&wrong.stderr)
        );
    }
}

#[test]
fn lines_without_room_are_told() {
    let folder = folder();
    let path = session(&folder);
    let output = run(&["compact", &path, "--target", "1200", "--keep", "request|answer", "--dry-run"]);
    let told = text(&output.stderr);
    assert!(told.contains("had no room in a summary") && told.contains("--pin"), "{told}");
}

#[test]
fn a_session_of_the_store_is_compacted_in_the_same_ways_as_its_file() {
    let folder = folder();
    let path = session(&folder);
    lines(&in_store(&folder, &["import", &path, "--id", "s", "--json"]));
    let compact = |more: &[&str]| {
        let base = ["session", "compact", "s", "--target", "3000", "--json"];
        json(&in_store(&folder, &[&base[..], more].concat()))
    };
    let context = || {
        text(&in_store(&folder, &["session", "export", "s", "--as", "anthropic", "--from", "view"]).stdout)
    };
    let ways = ["--keep", "port is|use port", "--pin", "request 20"];
    let before = context();
    let dry = compact(&[&ways[..], &["--dry-run"]].concat());
    assert_eq!((&dry["stored"], &dry["kept_lines"]["in_summary"]), (&false.into(), &2.into()), "{dry}");
    assert_eq!(context(), before, "a dry run stores nothing");
    let done = compact(&ways);
    assert_eq!(done["tokens_after"], dry["tokens_after"]);
    let after = context();
    assert!(after.contains("> The staging port is 4711."), "{after}");
    assert!(after.contains("answered by Bash: > Always use port 4712."), "{after}");
    assert!(after.contains("request 20:"), "{after}");
    assert!(!after.contains("request 21:"), "{after}");
    let of_file =
        json(&run(&[&["compact", &path, "--target", "3000", "--dry-run", "--json"][..], &ways].concat()));
    assert_eq!(of_file["conversations"][0]["tokens_after"], done["tokens_after"]);
}

#[test]
fn a_session_of_the_store_has_a_range_and_starts_from_its_history() {
    let folder = folder();
    let path = session(&folder);
    // A repair copies this, outside of the range: the copy is no more pinned than the original.
    let stray = serde_json::json!({"id": "stray", "kind": "tool", "parts": [
        {"tool_result": {"call_id": "none", "content": [{"text": "stray ".repeat(2_500)}]}}]});
    let text_of_file = std::fs::read_to_string(&path).unwrap();
    let at = text_of_file.find("{\"id\":\"u8\"").unwrap();
    std::fs::write(&path, format!("{}{stray}\n{}", &text_of_file[..at], &text_of_file[at..])).unwrap();
    lines(&in_store(&folder, &["import", &path, "--id", "s", "--json"]));
    let compact = |more: &[&str]| in_store(&folder, &[&["session", "compact", "s"][..], more].concat());
    let context = || {
        text(&in_store(&folder, &["session", "export", "s", "--as", "anthropic", "--from", "view"]).stdout)
    };
    let ranged = compact(&["--target", "11000", "--range", "30..", "--policy", "codex"]);
    assert_eq!(code(&ranged), 0, "{}", text(&ranged.stderr));
    assert!(context().contains("request 3:"), "what stands before the range stays");
    let behind = compact(&["--target", "3000", "--range", "900.."]);
    assert_eq!(code(&behind), 2);
    assert!(text(&behind.stderr).contains("foldback session context"), "{}", text(&behind.stderr));
    assert_eq!(code(&compact(&["--target", "2000"])), 0);
    assert!(!context().contains("request 40:"));
    let wider = compact(&["--target", "12000", "--from", "history"]);
    assert_eq!(code(&wider), 0, "{}", text(&wider.stderr));
    assert!(context().contains("request 40:"), "it starts from what was recorded");
    assert_eq!(code(&in_store(&folder, &["store", "verify"])), 0);
}

#[test]
fn a_session_of_the_store_keeps_to_the_dialect_that_it_came_in() {
    let folder = folder();
    let path = at(&folder, "request.json");
    let file = fixtures().join("anthropic");
    let fixture = std::fs::read_dir(file).unwrap().map(|entry| entry.unwrap().path()).next().unwrap();
    std::fs::copy(fixture, &path).unwrap();
    lines(&in_store(&folder, &["import", &path, "--id", "s", "--json"]));
    let told =
        json(&in_store(&folder, &["session", "compact", "s", "--target", "2000", "--json", "--dry-run"]));
    assert_eq!(told["dialect"], "anthropic", "{told}");
    let named = ["session", "compact", "s", "--target", "2000", "--json", "--dry-run", "--for", "gemini"];
    assert_eq!(json(&in_store(&folder, &named))["dialect"], "gemini");
}
