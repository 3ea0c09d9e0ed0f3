//! Claude Code, in print mode.

use std::path::PathBuf;

use foldback_testkit::needs;
use foldback_testkit::server::{Kind, Model};

use super::home::{Ended, Home};
use super::long_life::outlives_its_window;
use super::{
    Agent, FIRST_PROMPT, SECOND_PROMPT, Told, compacts_by_itself, long, long_outputs, short,
    shortens_long_outputs, works_and_resumes,
};

/// Any whose window is larger than those of the tests.
const MODEL: &str = "claude-opus-4-5";

#[derive(Debug)]
pub(super) struct ClaudeCode {
    pub(super) home: Home,
    program: Vec<PathBuf>,
}

impl ClaudeCode {
    /// In this home, with the model at this address, as if its window was of so many tokens.
    pub(super) fn new(mut home: Home, url: &str, window_tokens: usize) -> Self {
        home.set("ANTHROPIC_BASE_URL", url);
        home.set("ANTHROPIC_API_KEY", "test");
        home.set("CLAUDE_CODE_AUTO_COMPACT_WINDOW", &window_tokens.to_string());
        for name in [
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_TELEMETRY",
        ] {
            home.set(name, "1");
        }
        Self { home, program: needs::agents().claude_code }
    }

    /// Runs it with words of its command line.
    pub(super) fn start(&self, words: &[&str]) -> Ended {
        self.home.run(&self.program, words)
    }

    fn ask(&self, words: &[&str], prompt: &str) -> Told {
        let print = ["-p", "--output-format", "json", "--model", MODEL, "--allowedTools=Bash"];
        let words: Vec<&str> = print.iter().chain(words).copied().chain(["--", prompt]).collect();
        let ended = self.start(&words).well();
        let lines = ended.lines();
        let told = lines.last().unwrap_or_else(|| panic!("no answer in {ended:?}"));
        let of = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("no {name} in {told}")).to_owned();
        Told { session: of("session_id"), text: of("result") }
    }
}

impl Agent for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn home(&self) -> &Home {
        &self.home
    }

    fn run(&self, prompt: &str) -> Told {
        self.ask(&[], prompt)
    }

    fn resume(&self, session: &str, prompt: &str) -> Told {
        self.ask(&["--resume", session], prompt)
    }

    fn compact(&self, session: &str) {
        self.start(&["-p", "--model", MODEL, "--resume", session, "--", "/compact"]).well();
    }

    fn session_file(&self, session: &str) -> PathBuf {
        let work = self.home.work().display().to_string();
        let project: String = work.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.home.path().join(".claude/projects").join(project).join(format!("{session}.jsonl"))
    }
}

#[test]
#[ignore = "needs agents"]
fn it_works_and_resumes_against_a_strict_model() {
    let (script, window_tokens) = short();
    let model = Model::start(script);
    works_and_resumes(&ClaudeCode::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn with_foldback_long_outputs_are_shortened_as_they_arrive() {
    let (script, window_tokens) = long_outputs();
    let model = Model::start(script);
    shortens_long_outputs(&ClaudeCode::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn it_compacts_by_itself_before_the_window_is_full() {
    let (script, window_tokens) = long();
    let model = Model::start(script);
    compacts_by_itself(&ClaudeCode::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn foldback_answers_its_compactions_and_what_was_folded_stays_folded() {
    let (script, window_tokens) = long();
    let model = Model::start(script);
    let agent = ClaudeCode::new(Home::new(), model.url(), window_tokens);
    agent.home.run(&[env!("CARGO_BIN_EXE_foldback").into()], &["install", "claude-code", "--yes"]).well();

    let told = agent.run(FIRST_PROMPT);
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!(told.text, model.final_text(), "{told:?}");
    assert!(model.asked_for(Kind::Compaction).is_empty(), "no model is asked for a summary");

    model.add_rounds(1);
    let turn_count = model.asked_for(Kind::Turn).len();
    let resumed = agent.resume(&told.session, SECOND_PROMPT);
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!(resumed.text, model.final_text(), "{resumed:?}");
    let (first, turns) = (model.rounds()[0].output(), model.asked_for(Kind::Turn));
    assert!(turns[..turn_count].iter().any(|turn| turn.holds(&first)), "it was sent once");
    // Claude Code puts this in the place of a result that an answer left out.
    assert!(turns.iter().all(|turn| !turn.holds("Tool result missing")));
    for turn in &turns[turn_count - 1..] {
        assert!(!turn.holds(&first) && turn.holds(FIRST_PROMPT), "{:?}", turn.body["messages"]);
    }
    assert!(turns[turn_count].holds(SECOND_PROMPT));

    let file = agent.session_file(&told.session);
    let file = file.to_str().expect("folders of tests have plain names");
    let checked = super::super::run(&["check", file, "--for", "anthropic"]);
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
#[ignore = "needs agents"]
fn where_the_program_fails_it_compacts_by_itself() {
    for answer in
        ["exit 3", "echo no answer", "kill -9 $$", "echo '{\"version\":1,\"result\":\"compacted\"}'"]
    {
        let (script, window_tokens) = long();
        let model = Model::start(script);
        let agent = ClaudeCode::new(Home::new(), model.url(), window_tokens);
        let foldback = env!("CARGO_BIN_EXE_foldback");
        agent.home.run(&[foldback.into()], &["install", "claude-code", "--yes"]).well();
        let program = agent.home.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{answer}\n")).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let module = agent.home.path().join(".claude/skills/foldback/hooks/mod.ts");
        let text = std::fs::read_to_string(&module).unwrap();
        assert!(text.contains(foldback));
        std::fs::write(&module, text.replace(foldback, program.to_str().unwrap())).unwrap();
        compacts_by_itself(&agent, &model);
    }
}

#[test]
#[ignore = "needs agents"]
fn with_foldback_it_outlives_its_window() {
    // Claude Code takes no smaller window for one.
    outlives_its_window(100_000, ClaudeCode::new);
}
