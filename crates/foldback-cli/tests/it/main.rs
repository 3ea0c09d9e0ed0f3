//! The program as a person or a script meets it.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]
#![allow(clippy::print_stderr, reason = "a test that is passed over says so")]

#[cfg(target_os = "linux")]
mod agents;
mod attack;
mod backend;
mod calibrated;
mod chat;
mod commands;
mod dry_run;
mod files;
mod found;
mod history;
mod hook;
#[cfg(target_os = "linux")]
mod hostile;
mod installing;
mod keep;
mod lab;
#[cfg(unix)]
mod links;
#[cfg(target_os = "linux")]
mod live;
mod long;
mod mistakes;
mod orders;
mod policies;
mod probe;
mod readme;
mod reports;
mod road;
mod searching;
mod secrets;
mod sessions;
#[cfg(target_os = "linux")]
mod terminal;
mod trust;
mod undoing;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SESSION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../foldback/examples/session.jsonl");

fn foldback(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foldback"));
    command.args(arguments).stdin(Stdio::null());
    // What the machine has configured is not under test: variables, and files in this folder or above.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOLDBACK_")) {
        command.env_remove(name);
    }
    command.current_dir("/").env("XDG_CONFIG_HOME", "/nonexistent").env("XDG_DATA_HOME", "/nonexistent");
    // Nor is what agents have recorded on it.
    command.env("HOME", "/nonexistent");
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "COPILOT_HOME", "GEMINI_CLI_HOME"]
    {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    foldback(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(code(output), 0, "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn at(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// What is in a folder.
fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../foldback-formats/fixtures")
}

#[test]
fn compact_brings_a_session_under_its_target_and_keeps_every_record() {
    let folder = folder();
    let out = at(&folder, "out.jsonl");
    let report = json(&run(&["compact", SESSION, "--target", "4000", "-o", &out, "--json"]));
    let told = &report["conversations"][0];
    assert!(told["tokens_after"].as_u64().unwrap() <= 4_000, "{report}");
    assert_eq!(report["written"]["how"], "appended");
    assert!(text(&std::fs::read(&out).unwrap()).starts_with(&std::fs::read_to_string(SESSION).unwrap()));
    let stats = json(&run(&["stats", &out, "--json"]));
    assert_eq!(stats["tokens_view"], told["tokens_after"]);
    assert_eq!(stats["tokens_history"], told["tokens_before"]);
    assert_eq!(code(&run(&["check", &out, "--for", "anthropic"])), 0);
}

#[test]
fn the_result_goes_to_stdout_and_the_report_to_stderr() {
    let output = run(&["compact", SESSION, "--target", "4000"]);
    assert_eq!(code(&output), 0);
    assert!(text(&output.stdout).starts_with("{\"id\":"));
    assert!(text(&output.stderr).contains("→"), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains('\u{1b}'), "colour is for terminals");
    let again = run(&["compact", SESSION, "--target", "4000"]);
    assert_eq!(output.stdout, again.stdout, "the same input gives the same bytes");
}

#[test]
fn a_session_can_come_from_stdin() {
    let mut child = foldback(&["stats", "-", "--json"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(SESSION).unwrap()).unwrap();
    assert_eq!(json(&child.wait_with_output().unwrap())["file"], "stdin");
}

#[test]
fn a_dry_run_writes_nothing() {
    let folder = folder();
    let copy = at(&folder, "session.jsonl");
    std::fs::copy(SESSION, &copy).unwrap();
    let report = json(&run(&["compact", &copy, "--target", "4000", "--dry-run", "--json", "--in-place"]));
    assert_eq!(report["written"], Value::Null);
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(SESSION).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn in_place_keeps_the_old_file_beside_the_new_one() {
    let folder = folder();
    let copy = at(&folder, "session.jsonl");
    std::fs::copy(SESSION, &copy).unwrap();
    let report = json(&run(&["compact", &copy, "--target", "4000", "--in-place", "--json"]));
    let backup = report["written"]["backup"].as_str().unwrap();
    assert_eq!(std::fs::read(backup).unwrap(), std::fs::read(SESSION).unwrap());
    assert!(std::fs::read(&copy).unwrap().len() > std::fs::read(backup).unwrap().len());
}

#[test]
fn kept_items_and_items_outside_the_range_stay_as_they_were() {
    let shape = |arguments: &[&str]| {
        let folder = folder();
        let out = at(&folder, "out.jsonl");
        let all: Vec<&str> = ["compact", SESSION, "--target", "6000", "-q", "-o", &out]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let output = run(&all);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&run(&["show", &out, "--plain"]).stdout)
    };
    let plain = text(&run(&["show", SESSION, "--plain"]).stdout);
    let line = plain.lines().filter(|line| line.len() > 60).nth(40).unwrap();
    assert!(!shape(&[]).contains(line), "it is folded unless it is kept");
    assert!(shape(&["--keep", &regex::escape(line.trim())]).contains(line.trim()));
    assert!(shape(&["--pin", &regex::escape(line)]).contains(line));
    let report =
        json(&run(&["compact", SESSION, "--target", "30000", "--range", "20..", "--dry-run", "--json"]));
    assert!(report["conversations"][0]["first_changed"].as_u64().unwrap() >= 20, "{report}");
}

#[test]
fn mistakes_are_told_with_a_suggestion() {
    let missing = run(&["stats", &SESSION.replace("session.jsonl", "sesion.jsonl")]);
    assert_eq!(code(&missing), 3);
    assert!(text(&missing.stderr).contains("did you mean"), "{}", text(&missing.stderr));
    let flag = run(&["compact", SESSION, "--taget", "5"]);
    assert_eq!(code(&flag), 2);
    assert!(text(&flag.stderr).contains("--target"));
    let dialect = run(&["check", SESSION, "--for", "antropic"]);
    assert_eq!(code(&dialect), 2);
    assert!(text(&dialect.stderr).contains("did you mean anthropic?"));
    assert_eq!(code(&run(&["convert", SESSION, "--to", "swe-agent"])), 2);
    assert_eq!(code(&run(&["compact", SESSION, SESSION])), 2);
}

#[test]
fn bad_input_gets_a_message_with_file_and_line() {
    let folder = folder();
    let cases: [(&str, &[u8], &str); 4] = [
        ("empty.jsonl", b"", "the file is empty"),
        ("garbage.jsonl", b"\x00\xff\xfe\x01garbage\n\xff", "garbage.jsonl"),
        ("other.json", br#"{"colour": "blue"}"#, "not a session or request that foldback knows"),
        (
            "strings.json",
            br#"[{"role":"user","content":"hi"}]"#,
            "--format anthropic or --format openai-chat",
        ),
    ];
    for (name, bytes, expected) in cases {
        let path = at(&folder, name);
        std::fs::write(&path, bytes).unwrap();
        for command in ["stats", "check", "show", "compact"] {
            let output = run(&[command, &path]);
            assert_eq!(code(&output), 3, "{command} {name}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains(expected), "{command} {name}: {}", text(&output.stderr));
        }
    }
    let output = run(&["stats", folder.path().join("..").join("nothing here").to_str().unwrap()]);
    assert_eq!(code(&output), 3);
}

#[test]
fn a_folder_without_sessions_is_an_error_and_one_with_some_is_worked_on() {
    let folder = folder();
    assert_eq!(code(&run(&["stats", folder.path().to_str().unwrap()])), 3);
    std::fs::write(folder.path().join("package.json"), "{\"name\": \"no session\"}").unwrap();
    assert_eq!(code(&run(&["stats", folder.path().to_str().unwrap()])), 3, "all of it is passed over");
    std::fs::copy(SESSION, folder.path().join("one.jsonl")).unwrap();
    std::fs::copy(SESSION, folder.path().join("two.jsonl")).unwrap();
    let output = run(&["stats", folder.path().to_str().unwrap(), "--json"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 2);
    let refused = run(&["compact", folder.path().to_str().unwrap()]);
    assert_eq!(code(&refused), 2);
}

#[test]
fn a_cut_off_line_is_reported_and_the_rest_is_read_and_kept() {
    let folder = folder();
    let path = at(&folder, "cut.jsonl");
    let mut bytes = b"// a note\n".to_vec();
    bytes.extend(std::fs::read(SESSION).unwrap());
    bytes.extend(b"{\"id\":\"x\",\"ki");
    std::fs::write(&path, &bytes).unwrap();
    let output = run(&["compact", &path, "--target", "4000"]);
    assert_eq!(code(&output), 0);
    assert!(output.stdout.starts_with(&bytes), "not a byte is lost");
    let told = text(&output.stderr);
    assert!(told.contains("cut.jsonl:1: a comment line") && told.contains("cut.jsonl:94:"), "{told}");
}

#[test]
#[cfg(unix)]
fn a_link_stays_a_link_and_a_device_a_device() {
    let folder = folder();
    let (real, link) = (at(&folder, "real.jsonl"), at(&folder, "link.jsonl"));
    std::fs::copy(SESSION, &real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    json(&run(&["compact", &link, "--target", "4000", "--in-place", "--json"]));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read(&real).unwrap().len() > std::fs::read(SESSION).unwrap().len());
    assert!(Path::new(&format!("{real}.bak")).is_file());
    let output = run(&["compact", SESSION, "--target", "4000", "-q", "-o", "/dev/null"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    assert!(!run(&["compact", SESSION, "--target", "4000", "-q", "-o", "-"]).stdout.is_empty());
}

#[test]
fn a_session_is_never_replaced_by_accident() {
    let folder = folder();
    let copy = at(&folder, "session.jsonl");
    std::fs::copy(SESSION, &copy).unwrap();
    assert_eq!(code(&run(&["compact", &copy, "--target", "4000", "--fresh", "-o", &copy])), 2);
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(SESSION).unwrap());
    let other = at(&folder, "other");
    let out = at(&folder, "out");
    std::fs::create_dir(&other).unwrap();
    std::fs::create_dir(&out).unwrap();
    let same_name = format!("{other}/session.jsonl");
    std::fs::copy(SESSION, &same_name).unwrap();
    assert_eq!(code(&run(&["compact", &copy, &same_name, "--target", "4000", "-q", "-o", &out])), 5);
}

#[test]
fn check_finds_what_a_provider_would_reject_and_fix_repairs_it() {
    let folder = folder();
    let path = at(&folder, "broken.json");
    let body = r#"[{"role":"user","content":"hi"},
{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},
{"role":"user","content":"go on"}]"#;
    std::fs::write(&path, body).unwrap();
    let output = run(&["check", &path]);
    assert_eq!(code(&output), 1);
    assert!(text(&output.stdout).contains("broken.json:2: unanswered-call"), "{}", text(&output.stdout));
    let found: Value = serde_json::from_slice(&run(&["check", &path, "--json"]).stdout).unwrap();
    assert_eq!(found["checks"][0]["violations"][0]["line"], 2);
    let fixed = at(&folder, "fixed.json");
    assert_eq!(code(&run(&["check", &path, "--fix", "-o", &fixed])), 0);
    assert_eq!(code(&run(&["check", &fixed])), 0);
}

#[test]
fn diff_shows_what_a_compaction_changed() {
    let folder = folder();
    let out = at(&folder, "out.jsonl");
    run(&["compact", SESSION, "--target", "4000", "-q", "-o", &out]);
    let output = run(&["diff", SESSION, &out]);
    assert_eq!(code(&output), 1);
    let told = text(&output.stdout);
    assert!(told.contains("  + ") && told.contains("summary of") && told.contains("  - "), "{told}");
    let alone = run(&["diff", &out]);
    assert_eq!(text(&alone.stdout), told, "a compacted file has both sides in it");
    assert_eq!(code(&run(&["diff", SESSION, SESSION])), 0);
}

#[test]
fn show_gives_the_view_at_a_turn_the_shape_and_the_plain_text() {
    let shape = text(&run(&["show", SESSION, "--shape"]).stdout);
    assert_eq!(shape.trim_end().lines().count(), 92, "{shape}");
    let first = json(&run(&["show", SESSION, "--at", "1", "--json"]));
    let all = json(&run(&["show", SESSION, "--json"]));
    assert!(first["items"].as_array().unwrap().len() < all["items"].as_array().unwrap().len());
    assert_eq!(code(&run(&["show", SESSION, "--at", "999"])), 2);
    let found = text(&run(&["show", SESSION, "--grep", "cargo test"]).stdout);
    assert!(found.contains("cargo test") && found.len() < text(&run(&["show", SESSION]).stdout).len());
}

#[test]
fn the_picture_is_svg() {
    let folder = folder();
    let path = at(&folder, "picture.svg");
    assert_eq!(code(&run(&["stats", SESSION, "--svg", &path])), 0);
    let svg = std::fs::read_to_string(path).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let folder = folder();
    let config = at(&folder, "foldback.toml");
    std::fs::write(&config, "counter = \"estimate\"\n[compact]\ntarget = 7000\n").unwrap();
    let target = |arguments: &[&str], variable: Option<&str>| {
        let mut command = foldback(&["compact", SESSION, "--dry-run", "--json"]);
        command.args(arguments).current_dir(folder.path());
        if let Some(value) = variable {
            command.env("FOLDBACK_TARGET", value);
        }
        let report = json(&command.output().unwrap());
        assert_ne!(report["counter"], "o200k_base", "{report}");
        report["target"].as_u64().unwrap()
    };
    assert_eq!(target(&[], None), 7_000);
    assert_eq!(target(&[], Some("6000")), 6_000);
    assert_eq!(target(&["--target", "5000"], Some("6000")), 5_000);
    std::fs::write(&config, "countr = \"estimate\"\n").unwrap();
    let output = foldback(&["stats", SESSION]).current_dir(folder.path()).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(text(&output.stderr).contains("foldback.toml:1:"), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut child =
        foldback(&["show", SESSION]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), text(&output.stderr).as_str()), (0, ""));
}

#[test]
fn shells_and_manuals_are_served() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(text(&run(&["completions", shell]).stdout).contains("foldback"));
    }
    assert!(text(&run(&["man"]).stdout).contains(".TH"));
    assert!(text(&run(&["man", "compact"]).stdout).contains("target"));
    assert_eq!(code(&run(&["man", "compct"])), 2);
    assert!(text(&run(&["--version"]).stdout).starts_with("foldback 0."));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}
