//! Sessions that agents recorded: found by the folder one works in, and by their ids.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use super::{code, fixtures, foldback, json, text};

/// A home with agents' sessions in it, and a folder that one works in.
struct Machine {
    home: tempfile::TempDir,
    work: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().canonicalize().unwrap().join("my_app.v2");
        fs::create_dir(&work).unwrap();
        Self { home, work }
    }

    /// A fixture as a session of the working folder, changed so many seconds ago.
    fn keep(&self, fixture: &str, place: &str, seconds_ago: u64) -> PathBuf {
        let session = fs::read_to_string(fixtures().join(fixture)).unwrap();
        let work = self.work.display().to_string();
        let here = ["/home/dev/kiosk", "/work/tides", "/home/dev/orchard", "/home/dev/ferry"];
        let session = here.iter().fold(session, |session, folder| session.replace(folder, &work));
        let dashes: String = work.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let of_pi = format!("--{}--", work[1..].replace('/', "-"));
        let path = self.home.path().join(place.replace("CLAUDE", &dashes).replace("PI", &of_pi));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, session).unwrap();
        let changed = SystemTime::now() - Duration::from_secs(seconds_ago);
        fs::File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = foldback(arguments);
        command.current_dir(&self.work).env("HOME", self.home.path()).env_remove("PWD");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

const CLAUDE: &str = ".claude/projects/CLAUDE/5b1f0c52-7d0e-4f1e-9a3c-2f6f3f1f0a02.jsonl";
const CODEX: &str = ".codex/sessions/2026/03/02/rollout-2026-03-02T09-00-00-0195.jsonl";
const PI: &str = ".pi/agent/sessions/PI/2026-03-04_x.jsonl";

fn same(told: &str, path: &Path) -> bool {
    Path::new(told).canonicalize().unwrap() == path.canonicalize().unwrap()
}

#[test]
fn without_a_session_the_newest_of_the_folder_is_meant_whichever_agent_recorded_it() {
    let machine = Machine::new();
    let claude = machine.keep("claude-code/compacted.jsonl", CLAUDE, 60);
    let codex = machine.keep("codex/compacted.jsonl", CODEX, 120);
    let pi = machine.keep("pi/tree.jsonl", PI, 180);
    let newest = |path: &Path, agent: &str| {
        let output = machine.run(&["stats", "--json"]);
        assert!(same(json(&output)["file"].as_str().unwrap(), path));
        assert!(text(&output.stderr).starts_with(&format!("{agent} session ")), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(" minute"), "{}", text(&output.stderr));
        fs::remove_file(path).unwrap();
    };
    for command in [&["show"][..], &["log"], &["check"], &["explain"], &["compact", "--dry-run"], &["status"]]
    {
        let output = machine.run(command);
        assert!(code(&output) < 2, "{command:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("Claude Code session 5b1f0c52"), "{command:?}");
    }
    newest(&claude, "Claude Code");
    newest(&codex, "Codex");
    newest(&pi, "pi");
    let none = machine.run(&["stats"]);
    assert_eq!(code(&none), 2);
    assert!(
        text(&none.stderr).contains("no agent has recorded one for this folder"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn a_session_of_another_folder_is_not_the_newest_of_this_one() {
    let machine = Machine::new();
    machine.keep("codex/compacted.jsonl", CODEX, 60);
    let elsewhere = machine.home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let output = machine.command(&["stats"]).current_dir(&elsewhere).output().unwrap();
    assert_eq!(code(&output), 2, "{}", text(&output.stderr));
}

#[test]
fn two_folders_whose_sessions_lie_in_one_place_are_told_apart() {
    let machine = Machine::new();
    let path = machine.keep("claude-code/compacted.jsonl", CLAUDE, 60);
    let session = fs::read_to_string(&path).unwrap();
    fs::write(&path, session.replace("my_app.v2", "my-app-v2")).unwrap();
    assert_eq!(code(&machine.run(&["stats"])), 2, "it is a session of my-app-v2");
    // A session that went into a folder below is still one of this.
    fs::write(&path, session.replace("my_app.v2", "my_app.v2/src")).unwrap();
    assert_eq!(code(&machine.run(&["stats"])), 0);
}

#[test]
fn a_pipe_goes_on_meaning_stdin() {
    let machine = Machine::new();
    machine.keep("claude-code/compacted.jsonl", CLAUDE, 60);
    let piped = fs::File::open(fixtures().join("pi/tree.jsonl")).unwrap();
    let output = machine.command(&["stats", "--json"]).stdin(piped).output().unwrap();
    assert_eq!(
        (json(&output)["file"].as_str(), json(&output)["format"].as_str()),
        (Some("stdin"), Some("pi"))
    );
}

#[test]
fn an_id_names_a_session_and_one_that_fits_several_names_none() {
    let machine = Machine::new();
    let claude = machine.keep("claude-code/compacted.jsonl", CLAUDE, 60);
    let stats = json(&machine.run(&["stats", "5b1f0c52", "--json"]));
    assert!(same(stats["file"].as_str().unwrap(), &claude));
    let other = CLAUDE.replace("5b1f0c52", "5b1f0c53");
    let other = machine.keep("claude-code/compacted.jsonl", &other, 60);
    let text_of = fs::read_to_string(&other).unwrap().replace("5b1f0c52-7d0e", "5b1f0c53-7d0e");
    fs::write(&other, text_of).unwrap();
    let output = machine.run(&["stats", "5b1f0c5"]);
    assert_eq!(code(&output), 2);
    let told = text(&output.stderr);
    assert!(told.contains("5b1f0c52-7d0e") && told.contains("5b1f0c53-7d0e"), "{told}");
    let listed = text(&machine.run(&["status", "--all"]).stdout);
    assert_eq!(listed.lines().filter(|line| line.contains("Claude Code")).count(), 2, "{listed}");
    assert_eq!(code(&machine.run(&["stats", "5b1f0c5x"])), 3, "a name that fits none is a file");
}

#[test]
fn undo_alone_takes_the_newest_compaction_off_and_says_how_to_go_on() {
    let machine = Machine::new();
    let claude = machine.keep("claude-code/compacted.jsonl", CLAUDE, 60);
    let before = fs::read(&claude).unwrap();
    let output = machine.run(&["undo"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("go on with: claude --resume 5b1f0c52-7d0e-4f1e-9a3c-2f6f3f1f0a02"), "{told}");
    assert!(fs::read(&claude).unwrap().starts_with(&before));
    assert_eq!(fs::read(claude.with_extension("jsonl.bak")).unwrap(), before);
    // The backup is no session.
    let status = json(&machine.run(&["status", "--json"]));
    assert!(same(status["file"].as_str().unwrap(), &claude), "{status}");
}

#[test]
fn status_says_how_full_the_context_is_by_the_providers_count() {
    let machine = Machine::new();
    machine.keep("claude-code/compacted.jsonl", CLAUDE, 60);
    let status = json(&machine.run(&["status", "--json"]));
    // Input, and what was written to the cache and read from it.
    assert_eq!(status["reported"]["tokens"], 6 + 210 + 13_120, "{status}");
    assert!(status["context_tokens"].as_u64().unwrap() >= 13_336, "{status}");
    assert_eq!(status["window"]["tokens"], 200_000, "{status}");
    assert!(!status["compactions"].as_array().unwrap().is_empty(), "{status}");
    assert!(status["cache_break"]["dollars"].as_f64().unwrap() > 0.0, "{status}");
    assert!(status["resume"].as_str().unwrap().starts_with("claude --resume "), "{status}");
    let shown = text(&machine.run(&["status"]).stdout);
    for told in ["context: ", "the provider reported 13,336", "compacted by ", "next: ", "resume: claude"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
}

#[test]
fn nothing_in_a_session_becomes_an_order_to_a_shell_or_a_terminal() {
    let machine = Machine::new();
    let path = machine.keep("pi/tree.jsonl", &PI.replace("_x", "_$(touch x)'y"), 60);
    let session = fs::read_to_string(&path).unwrap();
    fs::write(&path, session.replace("And the last thing", "\\u001b[2J last")).unwrap();
    let told = text(&machine.run(&["status"]).stdout);
    assert!(!told.contains('\u{1b}'), "{told:?}");
    assert!(told.contains(r"_$(touch x)'\''y.jsonl'"), "{told}");
}
