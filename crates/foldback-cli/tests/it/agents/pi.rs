//! pi, in its mode that prints events.

mod compaction;

use std::fs;
use std::path::PathBuf;

use foldback_testkit::needs;
use foldback_testkit::server::Model;
use serde_json::json;

use super::home::{Ended, Home, Talk};
use super::long_life::outlives_its_window;
use super::{
    Agent, Told, compacts_by_itself, long, long_outputs, short, shortens_long_outputs, works_and_resumes,
};

#[derive(Debug)]
pub(super) struct Pi {
    pub(super) home: Home,
    program: Vec<PathBuf>,
}

impl Pi {
    /// In this home, with the model at this address, whose window it is told.
    pub(super) fn new(mut home: Home, url: &str, window_tokens: usize) -> Self {
        let free = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
        let model = json!({
            "id": "scripted", "name": "scripted", "reasoning": false, "input": ["text"], "cost": free,
            "contextWindow": window_tokens, "maxTokens": 4_096,
        });
        let provider = json!({
            "baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": "test", "models": [model],
        });
        home.write(".pi/agent/models.json", &json!({"providers": {"scripted": provider}}).to_string());
        home.set("PI_OFFLINE", "1");
        home.set("PI_TELEMETRY", "0");
        Self { home, program: needs::agents().pi }
    }

    /// Talks to it in the session of that name.
    fn talk(&self, session: &str) -> Talk {
        let words = ["--provider", "scripted", "--model", "scripted", "--mode", "rpc", "--session", session];
        self.home.talk(&self.program, &words)
    }

    /// Runs it with words of its command line.
    pub(super) fn start(&self, words: &[&str]) -> Ended {
        self.home.run(&self.program, words)
    }

    fn ask(&self, words: &[&str], prompt: &str) -> Told {
        let events = ["--provider", "scripted", "--model", "scripted", "--mode", "json", "-p"];
        let words: Vec<&str> = events.iter().chain(words).copied().chain(["--", prompt]).collect();
        let ended = self.start(&words).well();
        let lines = ended.lines();
        let session =
            lines.iter().find(|line| line["type"] == "session").and_then(|line| line["id"].as_str());
        let is_said = |line: &&serde_json::Value| {
            line["type"] == "message_end" && line["message"]["role"] == "assistant"
        };
        let said = lines.iter().rev().find(is_said).map(|line| &line["message"]["content"][0]["text"]);
        let (Some(session), Some(text)) = (session, said.and_then(|said| said.as_str())) else {
            panic!("no answer in {ended:?}")
        };
        Told { session: session.to_owned(), text: text.to_owned() }
    }
}

impl Agent for Pi {
    fn name(&self) -> &'static str {
        "pi"
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

    fn compact(&self, session: &str) {
        let mut talk = self.talk(session);
        talk.say(&json!({"id": "c", "type": "compact"}));
        let answer = talk.until(|line| line["type"] == "response" && line["id"] == "c");
        assert_eq!(answer["success"], true, "{answer}");
    }

    fn session_file(&self, session: &str) -> PathBuf {
        let name = self.home.work().display().to_string().replace('/', "-");
        let folder = self.home.path().join(".pi/agent/sessions").join(format!("-{name}--"));
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files = files.map(|entry| entry.unwrap().path());
        let is_named = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("_{session}.jsonl"));
        files.find(is_named).expect("pi writes a file for each session")
    }
}

#[test]
#[ignore = "needs agents"]
fn it_works_and_resumes_against_a_strict_model() {
    let (script, window_tokens) = short();
    let model = Model::start(script);
    works_and_resumes(&Pi::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn with_foldback_long_outputs_are_shortened_as_they_arrive() {
    let (script, window_tokens) = long_outputs();
    let model = Model::start(script);
    shortens_long_outputs(&Pi::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn it_compacts_by_itself_before_the_window_is_full() {
    let (script, window_tokens) = long();
    let model = Model::start(script);
    compacts_by_itself(&Pi::new(Home::new(), model.url(), window_tokens), &model);
}

#[test]
#[ignore = "needs agents"]
fn with_foldback_it_outlives_its_window() {
    outlives_its_window(60_000, |home, url, window_tokens| {
        // With less than that behind a compaction, pi does not ask for another; of itself it wants 20 000.
        let keeps = json!({"keepRecentTokens": 1_500});
        home.write(".pi/agent/settings.json", &json!({"compaction": keeps}).to_string());
        Pi::new(home, url, window_tokens)
    });
}
