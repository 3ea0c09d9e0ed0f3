//! The same roads through the program: files that it writes, a store, and a model behind HTTP.

use std::path::Path;
use std::sync::{Arc, Mutex};

use foldback_formats::{Format, SessionFile};
use foldback_testkit::server::{Answer, Request, Said, Server, Spoken};
use serde_json::Value;

use super::agents::with_events;
use super::echo::{echoed, prompt_faults};
use super::planted::Garden;
use super::road::{COMPACTIONS, Seen, summaries, view_of};
use super::scene::Author;
use crate::{at, code, foldback, folder, json, text};

/// Policies and what they bring a view down to, in tokens, one after the other.
const WAYS: [[&str; 4]; COMPACTIONS] = [
    ["--policy", "goose", "--target", "2000"],
    ["--policy", "ladder", "--target", "900"],
    ["--policy", "goose", "--target", "3000"],
    ["--policy", "codex", "--target", "1500"],
    ["--policy", "goose", "--target", "1200"],
];

/// A model behind HTTP that repeats what it was shown, and what was wrong with how it was asked.
struct Model {
    url: String,
    garden: Arc<Mutex<Garden>>,
    faults: Arc<Mutex<Vec<String>>>,
}

impl Model {
    fn start() -> Self {
        let (garden, faults) = (Arc::<Mutex<Garden>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (known, found) = (Arc::clone(&garden), Arc::clone(&faults));
        let url = Server::apart(move |request| {
            let prompt = prompt_of(request);
            found.lock().unwrap().extend(prompt_faults(&prompt, &known.lock().unwrap()));
            let tokens_max = request.json()["max_completion_tokens"].as_u64();
            let answer = echoed(&prompt, tokens_max);
            match Spoken::of(request) {
                Some(spoken) => spoken.answer(request, &Said::Text(&answer)),
                None => Answer::status(404),
            }
        });
        Self { url, garden, faults }
    }
}

/// The texts of the messages of a chat.
fn prompt_of(request: &Request) -> Vec<String> {
    let messages = request.json()["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().filter_map(|message| message["content"].as_str()).map(ToOwned::to_owned).collect()
}

/// `foldback compact`, five times, with something new before each.
pub(super) fn files(format: Format, mut author: Author) -> Seen {
    let (model, folder) = (Model::start(), folder());
    let (mut seen, mut file) = (Seen::default(), Vec::new());
    let backend = format!("openai:{}/v1#echo", model.url);
    for (stage, way) in WAYS.iter().enumerate() {
        let events = author.stage(stage);
        *model.garden.lock().unwrap() = author.garden.clone();
        let (path, out) = (at(&folder, &format!("in{stage}")), at(&folder, &format!("out{stage}")));
        std::fs::write(&path, with_events(format, &file, &events)).unwrap();
        let mut command = foldback(&["compact", &path, "--format", format.as_str(), "-o", &out, "--json"]);
        command.args(["--counter", "estimate"]).args(way);
        // A model writes every other summary.
        if stage % 2 == 0 {
            command.args(["--backend", &backend]);
        }
        let report = json(&command.output().unwrap());
        let by_model = report["conversations"][0]["written_by"].to_string().matches(":echo").count();
        seen.by_model += by_model;
        file = std::fs::read(&out).unwrap();
        look_at(&mut seen, stage, format, &file, &author, report["written"]["how"] == "appended");
    }
    let faults = model.faults.lock().unwrap().clone();
    faults.iter().for_each(|fault| seen.faults.push(format!("a prompt: {fault}")));
    seen
}

fn look_at(seen: &mut Seen, stage: usize, format: Format, file: &[u8], author: &Author, has_record: bool) {
    let session = SessionFile::read_as(format, file.to_vec()).unwrap();
    let view = view_of(&session);
    let folded = summaries(&view);
    assert!(!folded.is_empty(), "{format}, compaction {stage}: nothing was folded");
    seen.judge(stage, folded, author);
    seen.judge_record(stage, &view, has_record);
}

/// Imports what was recorded, compacts it in the store and exports it again, five times.
pub(super) fn store(format: Format, mut author: Author) -> Seen {
    let folder = folder();
    let (store, path) = (at(&folder, "sessions.db"), at(&folder, "session"));
    let (mut seen, mut file) = (Seen::default(), Vec::new());
    let run = |arguments: &[&str]| {
        let mut command = foldback(arguments);
        let output = command.args(["--store", &store, "--counter", "estimate"]).output().unwrap();
        assert_eq!(code(&output), 0, "{format}: {arguments:?}: {}", text(&output.stderr));
        output
    };
    for (stage, way) in WAYS.iter().enumerate() {
        let events = author.stage(stage);
        std::fs::write(&path, with_events(format, &file, &events)).unwrap();
        // A request that was written anew is another session: only its text is left of the one before.
        let name = if format.dialect().is_some() { format!("s{stage}") } else { "s".to_owned() };
        run(&["import", "--id", &name, "--format", format.as_str(), &path]);
        run(&[&["session", "compact", &name], &way[..]].concat());
        let context = json(&run(&["session", "context", &name, "--json"]));
        seen.judge(stage, summaries_in(&context), &author);
        let exported = at(&folder, &format!("out{stage}"));
        run(&["session", "export", &name, "-o", &exported]);
        file = std::fs::read(Path::new(&exported)).unwrap();
        look_at(&mut seen, stage, format, &file, &author, format.dialect().is_none());
    }
    seen
}

/// The summaries among the items of a context.
fn summaries_in(context: &Value) -> Vec<String> {
    let items = context["items"].as_array().cloned().unwrap_or_default();
    let summaries = items.iter().filter(|item| !item["summary"].is_null()).map(|item| {
        let parts = item["parts"].as_array().cloned().unwrap_or_default();
        let texts = parts.iter().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    });
    summaries.collect()
}
