//! The record of a compaction crosses every seam: file → recall, undo, redo, log → store and back.

use serde_json::Value;

use super::{at, code, files_below, fixtures, foldback, folder, json, run, text};

/// Formats of sessions that a compaction is added to.
const FORMATS: [&str; 7] = ["native", "claude-code", "codex", "gemini-cli", "opencode", "pi", "copilot-cli"];

/// What the model sees in a file.
fn seen(path: &str) -> String {
    let output = run(&["show", path, "--plain", "-q"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Compacts a file to half of what the model sees. Returns whether that could be done.
fn compacted(path: &str, out: &str) -> bool {
    let stats = json(&run(&["stats", path, "--json", "-q"]));
    let target = (stats["tokens_view"].as_u64().unwrap() / 2).max(1).to_string();
    changed(&["compact", "--target", &target, "--uncalibrated"], path, out)
}

/// The entries of the log of a file, the newest first.
fn log(path: &str) -> Vec<Value> {
    let output = run(&["log", path, "--json"]);
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn changed(command: &[&str], path: &str, out: &str) -> bool {
    let output = run(&[command, &[path, "-o", out, "-q"]].concat());
    code(&output) == 0
}

/// Every handle that something in the file recalls: of folds, and those that summaries print.
fn handles(path: &str) -> Vec<String> {
    let folds =
        log(path).into_iter().flat_map(|entry| entry["handles"].as_array().cloned().unwrap_or_default());
    let mut handles: Vec<String> = folds.filter_map(|handle| handle.as_str().map(str::to_owned)).collect();
    let shown = seen(path);
    let words = shown.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '@');
    let named = words.filter(|word| word.starts_with('@') && word.len() == 11).map(str::to_owned);
    handles.extend(named.take(5));
    handles.dedup();
    handles
}

#[test]
fn what_a_file_hides_is_recalled_from_it_and_from_a_store_that_it_was_imported_into() {
    let folder = folder();
    let store = at(&folder, "store.db");
    let mut recalled_count = 0;
    for path in FORMATS.iter().flat_map(|format| files_below(&fixtures().join(format))) {
        let path = path.display().to_string();
        let out = at(&folder, "compacted");
        if !compacted(&path, &out) || log(&out).is_empty() {
            continue;
        }
        let id = path.rsplit('/').next().unwrap();
        let stored = |arguments: &[&str]| foldback(arguments).env("FOLDBACK_STORE", &store).output().unwrap();
        assert_eq!(code(&stored(&["import", &out, "--id", id])), 0, "{path}");
        for handle in handles(&out) {
            let from_file = run(&["recall", &handle, &out]);
            if code(&from_file) != 0 {
                // Words of an agent may look like a handle.
                assert!(
                    !log(&out).iter().any(|entry| entry["handles"].to_string().contains(&handle)),
                    "{path}"
                );
                continue;
            }
            let from_store = stored(&["recall", &handle, "--session", id]);
            assert_eq!(text(&from_store.stdout), text(&from_file.stdout), "{path}: {handle}");
            recalled_count += 1;
        }
        let exported = at(&folder, "exported");
        assert_eq!(code(&stored(&["session", "export", id, "-o", &exported])), 0, "{path}");
        assert!(
            std::fs::read(&exported).unwrap() == std::fs::read(&out).unwrap(),
            "{path} is exported as it was"
        );
    }
    assert!(recalled_count > FORMATS.len(), "{recalled_count}");
}

#[test]
fn a_compaction_of_a_file_is_undone_and_redone_and_the_log_tells() {
    let folder = folder();
    let mut undone_count = 0;
    for path in FORMATS.iter().flat_map(|format| files_below(&fixtures().join(format))) {
        let path = path.display().to_string();
        let [out, undone, redone] = ["compacted", "undone", "redone"].map(|name| at(&folder, name));
        // What is written as a fresh file has nothing to undo.
        if !compacted(&path, &out) || log(&out).len() == log(&path).len() {
            continue;
        }
        assert!(changed(&["undo"], &out, &undone), "{path}");
        assert_eq!(seen(&undone), seen(&path), "{path}");
        assert!(changed(&["redo"], &undone, &redone), "{path}");
        assert_eq!(seen(&redone), seen(&out), "{path}");
        assert_eq!(log(&redone).len(), log(&path).len() + 3, "{path}");
        undone_count += 1;
    }
    assert!(undone_count > FORMATS.len(), "{undone_count}");
}

#[test]
fn nothing_to_undo_is_said_and_nothing_is_written() {
    let folder = folder();
    let out = at(&folder, "out");
    let output = run(&["undo", super::SESSION, "-o", &out]);
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("nothing to undo"), "{}", text(&output.stderr));
    assert!(!std::path::Path::new(&out).exists());
    let report = json(&run(&["compact", super::SESSION, "--target", "4000", "-o", &out, "--json"]));
    assert_eq!(report["conversations"][0]["tokens_after"], log(&out)[0]["tokens_after"]);
}

#[test]
fn what_a_request_hides_is_recalled_from_the_request_that_it_was_made_from() {
    let folder = folder();
    let mut recalled_count = 0;
    for format in ["anthropic", "openai-chat", "openai-responses", "gemini"] {
        for path in files_below(&fixtures().join(format)) {
            let (path, out) = (path.display().to_string(), at(&folder, "compacted"));
            if !compacted(&path, &out) {
                continue;
            }
            let shown = seen(&out);
            let named =
                [" folded items, @", " items folded: @"].iter().find_map(|sign| shown.split_once(sign));
            let named = named.map(|(_, rest)| format!("@{}", &rest[..10]));
            let Some(handle) = named else { continue };
            let alone = run(&["recall", &handle, &out]);
            assert_eq!(code(&alone), 2, "{path}");
            assert!(text(&alone.stderr).contains("made from"), "{}", text(&alone.stderr));
            let both = run(&["recall", &handle, &out, &path]);
            assert_eq!(code(&both), 0, "{path}: {}", text(&both.stderr));
            recalled_count += 1;
        }
    }
    assert!(recalled_count > 1, "{recalled_count}");
}
