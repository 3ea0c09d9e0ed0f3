//! Every command on every fixture of every format. A process for each would take minutes, so commands
//! that take several sessions get them all at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use super::{at, code, files_below, fixtures, folder, json, run, text};

/// The commands, by the pages of the manual.
fn commands(folder: &tempfile::TempDir) -> Vec<String> {
    let pages = at(folder, "man1");
    assert_eq!(code(&run(&["man", "--out", &pages])), 0);
    let pages = files_below(Path::new(&pages));
    let names = pages.iter().map(|page| page.file_stem().unwrap().to_str().unwrap());
    names.filter_map(|name| Some(name.strip_prefix("foldback-")?.to_owned())).collect()
}

#[test]
fn every_fixture_goes_through_every_command() {
    let folder = folder();
    let commands = commands(&folder);
    assert!(commands.len() > 1, "{commands:?}");
    for command in commands {
        match command.as_str() {
            "compact" => every_fixture_is_compacted(&folder),
            // They look at what was compacted.
            "stats" | "show" | "diff" | "check" => {}
            "status" => every_fixture_has_a_status(),
            "convert" => every_fixture_is_converted(&folder),
            "replay" => every_fixture_is_in_the_report_of(&["replay"]),
            "eval" => every_fixture_is_in_the_report_of(&["eval", "--min-retention", "0"]),
            "explain" => the_smallest_fixture_of_every_format_is_explained(),
            // sessions::every_fixture_is_exported_as_it_was puts every fixture into a store.
            "import" | "session" => {}
            // They read the store, which is the same for all formats.
            "recall" | "search" | "store" | "mcp" => {}
            // probe::a_fixture_of_every_format_is_probed asks a model for it.
            "probe" => {}
            // files:: puts every fixture through them.
            "log" | "undo" | "redo" => {}
            // They read no session.
            "chat" | "policies" | "trust" | "completions" | "man" => {}
            // hook:: and installing:: try them.
            "hook" | "install" | "uninstall" | "doctor" => {}
            _ => panic!("which fixtures go through {command}?"),
        }
    }
}

fn every_path() -> Vec<String> {
    files_below(&fixtures()).iter().map(|path| path.display().to_string()).collect()
}

/// The smallest fixture of each format.
fn smallest_paths() -> Vec<String> {
    let mut smallest: BTreeMap<PathBuf, (u64, PathBuf)> = BTreeMap::new();
    for path in files_below(&fixtures()) {
        let found = (std::fs::metadata(&path).unwrap().len(), path);
        let least = smallest.entry(found.1.parent().unwrap().to_owned()).or_insert_with(|| found.clone());
        *least = found.min(least.clone());
    }
    smallest.into_values().map(|(_, path)| path.display().to_string()).collect()
}

/// A command on these sessions.
fn on(command: &[&str], paths: &[String]) -> Output {
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    run(&[command, &["-q"], &paths].concat())
}

/// What stats says of each of these sessions.
fn stats_of(paths: &[String]) -> Vec<Value> {
    let output = on(&["stats", "--json"], paths);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let told = text(&output.stdout);
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let files: Vec<&str> = told.iter().map(|stats| stats["file"].as_str().unwrap()).collect();
    assert_eq!(files, paths);
    told
}

fn every_fixture_has_a_status() {
    let told = on(&["status", "--json"], &every_path());
    assert_eq!(code(&told), 0, "{}", text(&told.stderr));
    for line in text(&told.stdout).lines() {
        let status: Value = serde_json::from_str(line).unwrap();
        let (context, window) = (status["context_tokens"].as_u64(), status["window"]["tokens"].as_u64());
        assert!(context.unwrap() > 0 && window.unwrap() > 0, "{status}");
    }
}

fn tokens(stats: &Value) -> u64 {
    stats["tokens_view"].as_u64().unwrap()
}

/// Half of what the model saw.
fn target(stats: &Value) -> u64 {
    (tokens(stats) / 2).max(1)
}

fn every_fixture_is_compacted(folder: &tempfile::TempDir) {
    let paths = every_path();
    let (mut before, mut compacted) = (Vec::new(), Vec::new());
    for (path, stats) in paths.iter().zip(stats_of(&paths)) {
        let out = at(folder, &format!("out-{}", compacted.len()));
        let output = run(&[
            "compact",
            path,
            "--target",
            &target(&stats).to_string(),
            "--uncalibrated",
            "-o",
            &out,
            "-q",
        ]);
        // What must stay is larger.
        if code(&output) == 4 {
            continue;
        }
        assert_eq!(code(&output), 0, "{path}: {}", text(&output.stderr));
        assert!([0, 1].contains(&code(&run(&["diff", &out, "-q"]))), "{path}");
        before.push(stats);
        compacted.push(out);
    }
    assert!(2 * compacted.len() > paths.len(), "{} of {} were compacted", compacted.len(), paths.len());
    for (before, after) in before.iter().zip(stats_of(&compacted)) {
        assert!(tokens(&after) <= target(before), "{}: {} tokens", before["file"], tokens(&after));
    }
    let shown = on(&["show"], &compacted);
    assert_eq!(code(&shown), 0, "{}", text(&shown.stderr));
    let dialects: BTreeSet<Option<&str>> = before.iter().map(|stats| stats["dialect"].as_str()).collect();
    for dialect in dialects {
        let is_its = |stats: &Value| stats["dialect"].as_str() == dialect;
        let its = before.iter().zip(&compacted).filter(|(stats, _)| is_its(stats));
        let its: Vec<String> = its.map(|(_, out)| out.clone()).collect();
        let checked = on(&["check", "--for", dialect.unwrap_or("anthropic")], &its);
        let may_be_found = i32::from(dialect.is_none());
        assert!((0..=may_be_found).contains(&code(&checked)), "{dialect:?}: {}", text(&checked.stdout));
    }
}

/// What is written is read again.
fn every_fixture_is_converted(folder: &tempfile::TempDir) {
    let out = at(folder, "native");
    let fixtures = fixtures().display().to_string();
    let output = run(&["convert", &fixtures, "--to", "native", "--strict", "-q", "-o", &out]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let written = files_below(Path::new(&out));
    let written: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    assert_eq!(written.len(), every_path().len());
    assert!(stats_of(&written).iter().all(|stats| stats["format"] == "native"));
}

fn every_fixture_is_in_the_report_of(command: &[&str]) {
    let paths = every_path();
    let report = json(&on(&[command, &["--policy", "ladder", "--json"]].concat(), &paths));
    let sessions: Vec<&str> =
        report["sessions"].as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap()).collect();
    for path in paths {
        // The name of one of several conversations stands behind the file's.
        let named = format!("{path} (");
        assert!(sessions.iter().any(|file| *file == path || file.starts_with(&named)), "{command:?} {path}");
    }
}

fn the_smallest_fixture_of_every_format_is_explained() {
    let paths = smallest_paths();
    let mut explained_count = 0;
    for (path, stats) in paths.iter().zip(stats_of(&paths)) {
        let target = target(&stats).to_string();
        let output = run(&["explain", path, "--target", &target, "--uncalibrated", "--json", "-q"]);
        if code(&output) == 4 {
            continue;
        }
        explained_count += 1;
        assert!(!json(&output)["items"].as_array().unwrap().is_empty(), "{path}");
    }
    assert!(2 * explained_count > paths.len(), "{explained_count} of {} were explained", paths.len());
}

#[test]
fn a_commands_own_options_come_before_those_of_every_command() {
    for command in ["compact", "stats", "replay", "search"] {
        let help = text(&run(&[command, "--help"]).stdout);
        let own = help.find("\nOptions:").unwrap_or_else(|| panic!("{help}"));
        let shared = help.find("\nOptions of every command:").unwrap_or_else(|| panic!("{help}"));
        assert!(own < shared, "{help}");
        assert!(help[shared..].contains("--counter") && !help[own..shared].contains("--counter"), "{help}");
    }
}
