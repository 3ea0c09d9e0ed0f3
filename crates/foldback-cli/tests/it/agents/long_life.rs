//! A session that fills its window many times over, in an agent that has foldback's module.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use foldback_testkit::server::{Asked, Kind, Model, Script, Verdict};
use serde_json::{Value, json};

use super::home::Home;
use super::{Agent, FIRST_PROMPT};

/// Rounds of a prompt, of about 1 700 tokens each: a prompt of them does not fit the window.
const ROUNDS: usize = 25;
const LINES: usize = 180;
const PROMPTS: usize = 8;

/// Before which prompts a person compacts.
const COMMANDED: [usize; 2] = [3, 6];

/// Rounds that fit the window, with what a compaction leaves, and are enough for another compaction.
const FEW_ROUNDS: usize = 7;

const RULE: &str = "Never edit the file migrations/0001.sql, and answer in at most five lines.";

/// 200 rounds, compactions by the agent and by a person, recall, an undo; then foldback is taken out again.
/// The window is what the agent is told of, and all that the model takes.
pub(super) fn outlives_its_window<A: Agent>(
    window_tokens: usize,
    start: impl FnOnce(Home, &str, usize) -> A,
) {
    let model = Model::start(Script { rounds: ROUNDS, lines: LINES, window_tokens, ..Script::default() });
    let agent = start(Home::new(), model.url(), window_tokens);
    let before = files(agent.home());
    foldback(&agent, "install");
    let installed = files(agent.home());

    let life = Life::begin(&agent, &model);
    for prompt in 1..PROMPTS {
        if COMMANDED.contains(&prompt) {
            life.compact();
        }
        model.add_rounds(ROUNDS);
        life.resume(&format!("Go on with part {prompt}."));
    }
    assert_eq!(model.rounds().len(), PROMPTS * ROUNDS);
    life.was_never_refused_or_asked_for_a_summary();
    let compactions = life.compaction_count();
    assert!(compactions >= COMMANDED.len() + 5, "{compactions} compactions");
    assert!(life.last_request().holds(RULE), "{:?}", life.last_request().body["messages"][1]);

    life.recalls_what_was_folded();
    life.undoes_a_compaction();
    life.was_never_refused_or_asked_for_a_summary();

    foldback(&agent, "uninstall");
    let after = files(agent.home());
    for (path, content) in &before {
        assert_eq!(after.get(path), Some(content), "{} is as it was", path.display());
    }
    let left = installed.keys().filter(|path| !before.contains_key(*path) && after.contains_key(*path));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "what was installed is gone");
}

/// Runs `foldback install` or `uninstall` as the person whose home it is.
fn foldback(agent: &dyn Agent, command: &str) {
    let program = [PathBuf::from(env!("CARGO_BIN_EXE_foldback"))];
    agent.home().run(&program, &[command, agent.name(), "--yes"]).well();
}

/// Every file below the home.
fn files(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![home.path()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => {
                    found.insert(entry.path(), fs::read(entry.path()).unwrap());
                }
                _ => {}
            }
        }
    }
    found
}

/// Every line of an output, in the order in which a text has them.
fn output_lines(text: &str) -> Vec<&str> {
    const LIKE: &str = "round 0000 line 000000 of the work";
    let is_like = |line: &str| {
        line.bytes()
            .zip(LIKE.bytes())
            .all(|(byte, like)| byte == like || like == b'0' && byte.is_ascii_digit())
    };
    let starts = text.match_indices("round ").map(|(start, _)| start);
    starts.filter_map(|start| text.get(start..start + LIKE.len())).filter(|line| is_like(line)).collect()
}

struct Life<'a> {
    agent: &'a dyn Agent,
    model: &'a Model,
    session: String,
}

impl<'a> Life<'a> {
    fn begin(agent: &'a dyn Agent, model: &'a Model) -> Self {
        let told = agent.run(&format!("{FIRST_PROMPT} {RULE}"));
        assert_eq!(told.text, model.final_text(), "{told:?}");
        Self { agent, model, session: told.session }
    }

    /// The session, as foldback reads it.
    fn file(&self) -> String {
        self.agent.session_file(&self.session).to_str().expect("folders of tests have plain names").to_owned()
    }

    /// What `foldback show` says that the model sees.
    fn shown(&self) -> String {
        crate::text(&crate::run(&["show", &self.file(), "--plain"]).stdout)
    }

    /// The newest summary that the model sees.
    fn summary(&self) -> String {
        let shown = crate::json(&crate::run(&["show", &self.file(), "--json"]));
        let items = shown["items"].as_array().unwrap();
        let summary = items.iter().rev().find(|entry| entry["item"]["summary"].is_object());
        let text = summary.map(|entry| &entry["item"]["parts"][0]["text"]).and_then(Value::as_str);
        text.expect("a summary is in the view").to_owned()
    }

    fn compaction_count(&self) -> usize {
        let log = crate::run(&["log", &self.file(), "--json"]);
        assert_eq!(crate::code(&log), 0, "{log:?}");
        serde_json::Deserializer::from_slice(&log.stdout).into_iter::<Value>().map(Result::unwrap).count()
    }

    /// What recalls each compaction, as `foldback log` names it.
    fn handles(&self) -> Vec<String> {
        let log = crate::text(&crate::run(&["log", &self.file(), "--json"]).stdout);
        let places = log.match_indices('@').map(|(place, _)| place);
        places.filter_map(|place| log.get(place..place + "@0123456789".len())).map(str::to_owned).collect()
    }

    fn last_request(&self) -> Asked {
        self.model.asked_for(Kind::Turn).pop().expect("there were turns")
    }

    /// Goes on in a new process, whose first request has what foldback shows. Answers this request.
    fn resume(&self, prompt: &str) -> Asked {
        let (shown, handles) = (self.shown(), self.handles());
        let before = self.model.asked_for(Kind::Turn).len();
        let told = self.agent.resume(&self.session, prompt);
        assert_eq!((&told.session, &told.text), (&self.session, &self.model.final_text()), "{told:?}");
        let request = self.model.asked_for(Kind::Turn).swap_remove(before);
        let messages = request.body["messages"].to_string();
        // An agent that is near its window may compact before it asks at all.
        if self.handles().iter().any(|handle| !handles.contains(handle) && messages.contains(handle)) {
            return request;
        }
        let (shown, sent) = (output_lines(&shown), output_lines(&messages));
        let differ = shown.iter().zip(&sent).find(|(shown, sent)| shown != sent);
        assert_eq!((shown.len(), differ), (sent.len(), None), "foldback shows what is sent");
        assert!(!sent.is_empty());
        request
    }

    /// A person compacts.
    fn compact(&self) {
        let (count, before) = (self.compaction_count(), output_lines(&self.shown()).len());
        self.agent.compact(&self.session);
        assert_eq!(self.compaction_count(), count + 1);
        assert!(output_lines(&self.shown()).len() < before, "outputs are folded");
    }

    fn was_never_refused_or_asked_for_a_summary(&self) {
        assert_eq!(self.model.violations(), Vec::<String>::new());
        for asked in self.model.asked() {
            assert_ne!(asked.kind, Kind::Compaction, "no model is asked for a summary");
            assert_eq!(asked.verdict, Verdict::Accepted, "{:?} of {} tokens", asked.kind, asked.tokens);
        }
    }

    /// The model finds an output by its words, everywhere and behind the handle that stands for it.
    fn recalls_what_was_folded(&self) {
        let (last, summary) = (self.last_request(), self.summary());
        // The first round is folded by now, behind the handle of the newest summary.
        let marker = self.model.rounds()[0].marker();
        let words = format!("{marker} 000100");
        assert!(!last.holds(&words), "it is folded");
        let tool = last.tools().into_iter().find(|name| name.ends_with("recall")).expect("it offers recall");
        let handle = &summary[summary.find('@').expect("it names its handle")..][..11];
        self.model.call(&tool, json!({"handle": handle, "query": words}));
        self.model.call(&tool, json!({"query": words}));
        let before = self.model.asked_for(Kind::Turn).len();
        let first = self.resume("Look it up.");
        assert!(first.holds(&summary), "the summary is sent as it is shown");
        // The agent may compact behind any of them.
        let turns = self.model.asked_for(Kind::Turn).split_off(before + 1);
        assert_eq!(turns.len(), 2, "an answer to each call");
        for (turn, asked) in turns.iter().zip(["handle", "words"]) {
            let result = turn.results().pop().expect("it is answered");
            let is_found = output_lines(&result).iter().any(|line| line.starts_with(&*marker));
            assert!(is_found, "{marker} by {asked}: {result}");
        }
    }

    /// The history is there again, and what was said since the compaction stands behind it.
    fn undoes_a_compaction(&self) {
        self.compact();
        self.model.add_rounds(FEW_ROUNDS);
        self.resume("A few more.");
        let before = self.shown();
        let count = self.compaction_count();
        self.compact();
        self.model.add_rounds(1);
        self.resume("And one more.");
        assert_eq!(self.compaction_count(), count + 1, "there is room for a round");

        let file = self.file();
        let undone = crate::run(&["undo", &file, "--in-place"]);
        assert_eq!(crate::code(&undone), 0, "{undone:?}");
        self.agent.take_in(&file);
        let last = self.model.rounds().pop().expect("there were rounds").output();
        let (shown, last) = (self.shown(), output_lines(&last));
        let (shown, before) = (output_lines(&shown), output_lines(&before));
        assert!(shown.starts_with(&before) && shown.ends_with(&last), "{shown:#?}");
        assert_eq!(shown.len(), before.len() + last.len());
        self.resume("Where are we?");
    }
}
