//! What a dry run says is what the run then does.

use super::*;
use foldback_testkit::needs::session_files;

/// What a run reported, without where it wrote.
fn reported(output: &Output) -> Value {
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let written = report.get("would_write").filter(|planned| !planned.is_null()).cloned();
    let mut written = written.unwrap_or_else(|| report["written"].clone());
    if let Some(fields) = report.as_object_mut() {
        fields.remove("would_write");
        fields.remove("written");
    }
    if let Some(fields) = written.as_object_mut() {
        fields.remove("path");
        fields.remove("backup");
        // It names the path.
        fields.remove("resume");
    }
    serde_json::json!({ "report": report, "written": written })
}

fn assert_told_before(path: &Path, arguments: &[&str]) {
    let folder = folder();
    let copy = at(&folder, path.file_name().unwrap().to_str().unwrap());
    std::fs::copy(path, &copy).unwrap();
    let output = at(&folder, "compacted");
    let arguments: Vec<&str> =
        arguments.iter().map(|argument| if *argument == "OUT" { &*output } else { argument }).collect();
    let arguments = [&["compact", &copy, "--json"], &arguments[..]].concat();
    let dry = run(&[&arguments[..], &["--dry-run"]].concat());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a dry run wrote something");
    let done = run(&arguments);
    let told = format!("{} {arguments:?}", path.display());
    assert_eq!(reported(&dry), reported(&done), "{told}");
    assert_eq!(code(&dry), code(&done), "{told}: {}", text(&dry.stderr));
    assert_eq!(text(&dry.stderr), text(&done.stderr), "{told}");
}

/// Both runs over every fixture, at this share of what the model saw last. The counter is one that needs no
/// vocabulary: hundreds of runs would load it.
fn assert_every_fixture_is_told_before(percent: u64, arguments: &[&str]) {
    let mut compared = 0;
    for path in session_files(&fixtures()) {
        let counter = ["--counter", "estimate"];
        let stats = run(&[&["stats", path.to_str().unwrap(), "--json"], &counter[..]].concat());
        let stats: Value = serde_json::from_slice(&stats.stdout).unwrap_or_default();
        let Some(tokens) = stats["tokens_view"].as_u64() else { continue };
        let target = (tokens * percent / 100).max(1).to_string();
        assert_told_before(&path, &[arguments, &counter, &["--target", &target]].concat());
        compared += 1;
    }
    assert!(compared > 30, "{compared} fixtures were compared");
}

#[test]
fn a_dry_run_of_every_fixture_reports_what_the_run_then_does() {
    assert_every_fixture_is_told_before(60, &["-o", "OUT"]);
}

#[test]
fn a_dry_run_in_place_reports_what_the_run_then_does() {
    assert_every_fixture_is_told_before(25, &["--in-place"]);
}

#[test]
fn a_dry_run_of_a_fresh_file_reports_what_could_not_be_written() {
    assert_every_fixture_is_told_before(40, &["--fresh", "-o", "OUT"]);
}

#[test]
fn a_dry_run_with_pins_reports_what_the_run_then_does() {
    let kept = ["--range", "2..", "--keep", "the", "--from", "history", "-o", "OUT"];
    assert_every_fixture_is_told_before(50, &kept);
}

#[test]
fn what_could_not_be_written_is_refused_by_a_dry_run_too() {
    let refused = |arguments: &[&str]| {
        let dry = run(&[&["compact", "--target", "9000", "--dry-run"], arguments].concat());
        assert_eq!(code(&dry), 2, "{}", text(&dry.stderr));
        text(&dry.stderr)
    };
    assert!(refused(&[SESSION, "-o", SESSION]).contains("is the session itself"));
    let folder = folder();
    std::fs::write(at(&folder, "file"), "").unwrap();
    assert!(refused(&[SESSION, SESSION, "-o", &at(&folder, "file")]).contains("is no folder"));
}

#[test]
fn a_dry_run_says_that_it_asks_no_model() {
    let backend = ["--backend", "openai:http://127.0.0.1:9/v1#m"];
    let arguments = [&["compact", SESSION, "--target", "4000", "--dry-run", "--json"], &backend[..]].concat();
    let dry = run(&arguments);
    assert!(text(&dry.stderr).contains("asks no model"), "{}", text(&dry.stderr));
    assert_eq!(json(&dry)["conversations"][0]["written_by"], serde_json::json!(["digest"]));
}
