//! pi with foldback's module: what pi sends is what foldback shows, whatever was compacted, undone or broken.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use foldback_testkit::server::{Asked, Kind, Model, Script, Verdict};
use serde_json::{Value, json};

use super::super::home::Home;
use super::super::{Agent, FIRST_PROMPT};
use super::Pi;

/// Tokens that the model takes, and those of them that pi leaves free: it compacts before.
const WINDOW_TOKENS: usize = 30_000;
const RESERVE_TOKENS: usize = 10_000;
/// What pi wants to keep at least: with less than that behind a compaction it does not ask for another.
const KEEP_TOKENS: usize = 1_500;

/// With those, a round comes to about 800 tokens.
const LINES: usize = 70;

const RULES: &str = "Never edit migrations/0001.sql. Answers stay under five lines.";

/// How pi introduces a summary, and what stands behind it.
const SUMMARY_START: &str =
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n";
const SUMMARY_END: &str = "\n</summary>";

fn script(rounds: usize) -> Script {
    Script { rounds, lines: LINES, window_tokens: WINDOW_TOKENS, ..Script::default() }
}

/// pi with foldback's module, which runs foldback, or this program in its place.
fn pi(model: &Model, program: Option<&Path>) -> Pi {
    let mut home = Home::new();
    let keeps = json!({"reserveTokens": RESERVE_TOKENS, "keepRecentTokens": KEEP_TOKENS});
    home.write(".pi/agent/settings.json", &json!({"compaction": keeps}).to_string());
    let foldback = PathBuf::from(env!("CARGO_BIN_EXE_foldback"));
    home.run(&[foldback], &["install", "pi", "--yes"]).well();
    if let Some(program) = program {
        home.set("FOLDBACK_PROGRAM", program.to_str().unwrap());
    }
    Pi::new(home, model.url(), WINDOW_TOKENS)
}

/// What a message says, whoever writes it down.
#[derive(Clone, Debug, PartialEq)]
enum Line {
    System,
    Summary(String),
    Text(String, String),
    Call(String),
    Result(String),
}

/// What a request says.
fn requested(asked: &Asked) -> Vec<Line> {
    let mut lines = Vec::new();
    for message in asked.body["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        let content = &message["content"];
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let text: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let text = content.as_str().map_or(text, str::to_owned);
        match (role, text.strip_prefix(SUMMARY_START)) {
            ("system", _) => lines.push(Line::System),
            ("tool", _) => lines.push(Line::Result(text)),
            (_, Some(summary)) => {
                lines.push(Line::Summary(summary.strip_suffix(SUMMARY_END).unwrap().to_owned()));
            }
            (_, None) if text.is_empty() => {}
            (_, None) => lines.push(Line::Text(role.to_owned(), text)),
        }
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        lines.extend(calls.iter().map(|call| Line::Call(call["id"].as_str().unwrap().to_owned())));
    }
    lines
}

/// What `foldback show` says that the model sees.
fn shown(file: &str) -> Vec<Line> {
    let shown = crate::json(&crate::run(&["show", file, "--json"]));
    let mut lines = Vec::new();
    for entry in shown["items"].as_array().unwrap() {
        let item = &entry["item"];
        let kind = item["kind"].as_str().unwrap();
        for part in item["parts"].as_array().unwrap() {
            lines.push(match (kind, part["text"].as_str()) {
                ("system", _) => Line::System,
                (_, Some(text)) if item["summary"].is_object() => Line::Summary(text.to_owned()),
                (_, Some(text)) => Line::Text(kind.to_owned(), text.to_owned()),
                ("assistant", None) => Line::Call(part["tool_call"]["id"].as_str().unwrap().to_owned()),
                (_, None) => {
                    let content = part["tool_result"]["content"].as_array().unwrap();
                    Line::Result(content.iter().filter_map(|block| block["text"].as_str()).collect())
                }
            });
        }
    }
    lines
}

/// A session of pi, and the model that it talks to.
struct Session<'a> {
    pi: &'a Pi,
    model: &'a Model,
    name: String,
    file: String,
}

impl<'a> Session<'a> {
    /// Begins with a prompt.
    fn begin(pi: &'a Pi, model: &'a Model, prompt: &str) -> Self {
        let told = pi.run(prompt);
        let file = pi.session_file(&told.session).to_str().unwrap().to_owned();
        Self { pi, model, name: told.session, file }
    }

    /// Goes on in a new process, whose first request is what foldback shows, and the prompt.
    fn resume(&self, prompt: &str) {
        let mut expected = shown(&self.file);
        expected.push(Line::Text("user".to_owned(), prompt.to_owned()));
        let before = self.model.asked().len();
        self.pi.resume(&self.name, prompt);
        assert_eq!(requested(&self.model.asked()[before]), expected);
    }

    /// Compacts on command.
    fn compact(&self) {
        self.pi.compact(&self.name);
    }

    /// The compactions that are recorded in the file.
    fn compactions(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.file).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("every line is whole"));
        lines.filter(|line: &Value| line["type"] == "compaction").collect()
    }

    fn last_request(&self) -> Asked {
        self.model.asked_for(Kind::Turn).pop().expect("there were turns")
    }
}

/// Every request was valid and within the window, and none was for a summary.
fn was_never_refused_or_asked_for_a_summary(model: &Model) {
    assert_eq!(model.violations(), Vec::<String>::new());
    for asked in model.asked() {
        assert_eq!((asked.kind, &asked.verdict), (Kind::Turn, &Verdict::Accepted), "{} tokens", asked.tokens);
    }
}

#[test]
#[ignore = "needs agents"]
fn two_hundred_rounds_are_compacted_again_and_again_and_resumed_as_foldback_shows_them() {
    const ROUNDS: usize = 25;
    let model = Model::start(script(ROUNDS));
    let pi = pi(&model, None);
    let session = Session::begin(&pi, &model, &format!("{FIRST_PROMPT} {RULES}"));
    for part in 1..8 {
        if part == 3 || part == 6 {
            session.compact();
        }
        model.add_rounds(ROUNDS);
        session.resume(&format!("Go on with part {part}."));
    }
    assert_eq!(model.rounds().len(), 200);
    was_never_refused_or_asked_for_a_summary(&model);
    let compactions = session.compactions();
    let is_foldbacks = |entry: &Value| entry["fromHook"] == true && entry["details"]["foldback"].is_object();
    assert!(compactions.iter().all(is_foldbacks));
    assert!((7..20).contains(&compactions.len()), "{} compactions", compactions.len());
    assert!(session.last_request().holds(RULES));
    what_was_folded_comes_back(&session, &compactions[0]);
    was_never_refused_or_asked_for_a_summary(&model);
}

/// By its handle and by words.
fn what_was_folded_comes_back(session: &Session<'_>, compaction: &Value) {
    let round = session.model.rounds()[2];
    let summary = compaction["summary"].as_str().unwrap();
    let handle = &summary[summary.find('@').unwrap()..][..11];
    assert!(!session.last_request().holds(&round.output()));
    session.model.call("recall", json!({"query": round.marker()}));
    session.model.call("recall", json!({"handle": handle, "query": round.marker()}));
    session.resume("Look it up.");
    let request = requested(&session.last_request());
    let is_found = |line: &&Line| matches!(line, Line::Result(text) if text.contains(&round.marker()));
    assert_eq!(request.iter().filter(is_found).count(), 2, "{request:#?}");
}

#[test]
#[ignore = "needs agents"]
fn an_undo_gives_the_history_back_with_ten_turns_behind_it() {
    let model = Model::start(script(8));
    let pi = pi(&model, None);
    let session = Session::begin(&pi, &model, FIRST_PROMPT);
    session.compact();
    let mut talk = pi.talk(&session.name);
    for turn in 0..10 {
        model.add_rounds(1);
        talk.say(&json!({"id": "p", "type": "prompt", "message": format!("Turn {turn}.")}));
        talk.until(|line| line["type"] == "agent_settled");
    }
    drop(talk);
    assert!(!session.last_request().holds(&model.rounds()[0].output()));
    assert_eq!(crate::code(&crate::run(&["undo", &session.file, "--in-place"])), 0);
    session.resume("Where are we?");
    let request = requested(&session.last_request());
    let results = request.iter().filter_map(|line| match line {
        Line::Result(text) => Some(text.trim_end().to_owned()),
        _ => None,
    });
    let outputs: Vec<String> = model.rounds().iter().map(|round| round.output()).collect();
    assert_eq!(results.collect::<Vec<_>>(), outputs);
    assert!(request.iter().all(|line| !matches!(line, Line::Summary(_))), "{request:#?}");
    // What pi keeps next are copies of what was said.
    session.compact();
    session.resume("And now?");
    was_never_refused_or_asked_for_a_summary(&model);
    let compactions = session.compactions();
    assert_eq!(compactions.len(), 3, "two compactions and an undo");
    assert!(compactions.iter().all(|entry| entry["details"]["foldback"]["note"].is_object()));
}

#[test]
#[ignore = "needs agents"]
fn pi_compacts_by_itself_where_foldback_is_killed_hangs_or_cannot_answer() {
    let foldback = env!("CARGO_BIN_EXE_foldback");
    for (name, body) in [
        ("killed", "kill -9 $$".to_owned()),
        ("hangs", "exec sleep 600".to_owned()),
        ("garbage", "head -c 100000 /dev/urandom".to_owned()),
        ("cut off", format!("\"{foldback}\" \"$@\" | head -c 200")),
        ("a full disk", format!("exec \"{foldback}\" \"$@\" > /dev/full")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let model = Model::start(script(10));
        let pi = pi(&model, Some(&program));
        let session = Session::begin(&pi, &model, FIRST_PROMPT);
        let before = fs::read(&session.file).unwrap();
        session.compact();
        assert!(fs::read(&session.file).unwrap().starts_with(&before), "{name}");
        assert_eq!(model.asked_for(Kind::Compaction).len(), 1, "{name}");
        let [compaction] = &session.compactions()[..] else { panic!("{name}: not one compaction") };
        assert_ne!(compaction["fromHook"], true, "{name}");
        session.resume("Go on.");
        assert_eq!(model.violations(), Vec::<String>::new(), "{name}");
    }
}
