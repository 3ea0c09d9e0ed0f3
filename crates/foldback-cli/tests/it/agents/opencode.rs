//! opencode, in its `run` command.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use foldback_testkit::needs;
use foldback_testkit::server::{Kind, Model};
use serde_json::json;

use super::home::{AGENT_TIME_MAX, Ended, Home};
use super::long_life::outlives_its_window;
use super::{
    Agent, FIRST_PROMPT, Told, compacts_by_itself, long, long_outputs, short, shortens_long_outputs,
    works_and_resumes,
};

#[derive(Debug)]
pub(super) struct Opencode {
    pub(super) home: Home,
    program: Vec<PathBuf>,
}

impl Opencode {
    /// In this home, with the model at this address, whose window it is told.
    pub(super) fn new(mut home: Home, url: &str, window_tokens: usize) -> Self {
        let model = json!({"name": "scripted", "tool_call": true, "limit": {"context": window_tokens, "output": 4_096}});
        let options = json!({"baseURL": format!("{url}/v1"), "apiKey": "test"});
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options,
            "models": {"scripted": model},
        });
        let config = json!({
            // Without it, opencode writes the file anew.
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": false, "share": "disabled", "permission": "allow",
            "model": "scripted/scripted", "small_model": "scripted/scripted",
            "provider": {"scripted": provider},
        });
        home.write(".config/opencode/opencode.json", &config.to_string());
        for name in ["AUTOUPDATE", "LSP_DOWNLOAD", "MODELS_FETCH", "SHARE"] {
            home.set(&format!("OPENCODE_DISABLE_{name}"), "1");
        }
        Self { home, program: needs::agents().opencode }
    }

    /// The same, with foldback's module, which runs this program, or the one that installs it.
    fn with_module(mut self, program: Option<&str>) -> Self {
        let foldback = [PathBuf::from(env!("CARGO_BIN_EXE_foldback"))];
        self.home.run(&foldback, &["install", "opencode", "--yes"]).well();
        if let Some(program) = program {
            self.home.set("FOLDBACK_PROGRAM", program);
        }
        self
    }

    /// Runs it with words of its command line.
    pub(super) fn start(&self, words: &[&str]) -> Ended {
        self.home.run(&self.program, words)
    }

    fn ask(&self, words: &[&str], prompt: &str) -> Told {
        let words: Vec<&str> =
            ["run", "--format", "json"].iter().chain(words).copied().chain([prompt]).collect();
        let ended = self.start(&words).well();
        let lines = ended.lines();
        let session = lines.iter().find_map(|line| line["sessionID"].as_str());
        let text = lines.iter().rev().find(|line| line["type"] == "text");
        let text = text.and_then(|line| line["part"]["text"].as_str());
        let (Some(session), Some(text)) = (session, text) else { panic!("no answer in {ended:?}") };
        Told { session: session.to_owned(), text: text.to_owned() }
    }
}

impl Agent for Opencode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn home(&self) -> &Home {
        &self.home
    }

    fn run(&self, prompt: &str) -> Told {
        self.ask(&[], prompt)
    }

    fn resume(&self, session: &str, prompt: &str) -> Told {
        self.ask(&["--session", session], prompt)
    }

    /// Its command line has no word for it; its server has.
    fn compact(&self, session: &str) {
        let mut serve = self.home.talk(&self.program, &["serve", "--hostname", "127.0.0.1", "--port", "0"]);
        let line = serve.until(|line| line.as_str().is_some_and(|line| line.contains("http://")));
        let (_, address) =
            line.as_str().and_then(|line| line.split_once("http://")).expect("it has an address");
        let body = json!({"providerID": "scripted", "modelID": "scripted"}).to_string();
        let mut stream = TcpStream::connect(address.trim()).unwrap();
        write!(
            stream,
            "POST /session/{session}/summarize HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len(),
        )
        .unwrap();
        // It keeps the connection open.
        stream.set_read_timeout(Some(AGENT_TIME_MAX)).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Its sessions are in a database; this is what it exports, anew each time.
    fn session_file(&self, session: &str) -> PathBuf {
        let exported = self.start(&["export", session]).well();
        let path = self.home.work().join(format!("{session}.json"));
        fs::write(&path, exported.stdout).unwrap();
        path
    }

    fn take_in(&self, file: &str) {
        self.start(&["import", file]).well();
    }
}

#[test]
#[ignore = "needs agents"]
fn it_works_and_resumes_against_a_strict_model() {
    let (script, window_tokens) = short();
    let model = Model::start(script);
    works_and_resumes(&Opencode::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn with_foldback_long_outputs_are_shortened_as_they_arrive() {
    let (script, window_tokens) = long_outputs();
    let model = Model::start(script);
    shortens_long_outputs(&Opencode::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn it_compacts_by_itself_before_the_window_is_full() {
    let (script, window_tokens) = long();
    let model = Model::start(script);
    compacts_by_itself(&Opencode::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn with_the_module_foldback_answers_and_no_model_writes_a_summary() {
    let (script, window_tokens) = long();
    let model = Model::start(script);
    let agent = Opencode::new(Home::new(), model.url(), window_tokens).with_module(None);
    let told = agent.run(FIRST_PROMPT);
    assert_eq!(model.violations(), Vec::<String>::new());
    assert_eq!(told.text, model.final_text(), "{told:?}");
    assert_eq!(model.rounds().len(), long().0.rounds);
    assert_eq!(model.asked_for(Kind::Compaction).len(), 0);

    let turns = model.asked_for(Kind::Turn);
    let last = turns.last().expect("there were turns");
    let first_output = model.rounds()[0].output();
    assert!(
        last.holds(FIRST_PROMPT) && !last.holds(&first_output),
        "the first round is folded, the task is not"
    );

    let file = agent.session_file(&told.session);
    let file = file.to_str().expect("folders of tests have plain names");
    let shown = super::super::text(&super::super::run(&["show", file, "--plain"]).stdout);
    let summary =
        last.body["messages"][2]["content"].as_str().expect("the summary follows the question for it");
    assert!(shown.contains(summary), "the export has what the model was shown: {shown}");
    let (_, rest) = summary.split_once(", @").expect("the summary names its handle");
    let recalled = super::super::run(&["recall", &format!("@{}", &rest[..10]), file]);
    assert!(super::super::text(&recalled.stdout).contains(&first_output), "{recalled:?}");
}

#[test]
#[ignore = "needs agents"]
fn where_the_module_finds_no_program_it_compacts_by_itself() {
    let (script, window_tokens) = long();
    let model = Model::start(script);
    let agent = Opencode::new(Home::new(), model.url(), window_tokens);
    compacts_by_itself(&agent.with_module(Some("/nonexistent/foldback")), &model);
}

#[test]
#[ignore = "needs agents"]
fn where_the_modules_program_answers_nothing_it_compacts_by_itself() {
    let (script, window_tokens) = long();
    let model = Model::start(script);
    let agent = Opencode::new(Home::new(), model.url(), window_tokens);
    compacts_by_itself(&agent.with_module(Some("/bin/true")), &model);
}

#[test]
#[ignore = "needs agents"]
fn with_foldback_it_outlives_its_window() {
    outlives_its_window(60_000, Opencode::new);
}
