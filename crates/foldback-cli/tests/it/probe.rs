//! `foldback probe` against a scripted model that writes questions, reads views and grades answers.

use std::sync::{Arc, Mutex};

use foldback_testkit::server::{Answer, Request, Said, Server, Spoken, required};

use super::*;

/// Stands in every key, and nowhere in the session.
const KEY: &str = "xylophone";

/// What the reader says of a view with a summary in it, and of one without.
const TOLD: &str = "the view has a summary";

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Writer,
    Reader,
    Grader,
    Summarizer,
}

/// What a request says.
fn said(request: &Request) -> String {
    fn strings(value: &Value, into: &mut String) {
        match value {
            Value::String(text) => into.push_str(text),
            Value::Array(values) => values.iter().for_each(|value| strings(value, into)),
            Value::Object(fields) => fields.values().for_each(|value| strings(value, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut text = String::new();
    strings(&request.json(), &mut text);
    text
}

fn role(request: &Request) -> Role {
    let text = said(request);
    let begins = [
        ("You write examination questions", Role::Writer),
        ("You take over the work", Role::Reader),
        ("You grade answers", Role::Grader),
        ("You summarise a conversation", Role::Summarizer),
    ];
    begins.into_iter().find(|(begin, _)| text.contains(begin)).unwrap().1
}

/// What stands in a block of a request.
fn block(request: &Request, name: &str) -> String {
    let text = said(request);
    let (_, inside) = text.rsplit_once(&format!("<{name}-")).unwrap();
    let (_, inside) = inside.split_once(">\n").unwrap();
    inside.split_once(&format!("\n</{name}-")).unwrap().0.to_owned()
}

/// What a model that does as it is told answers.
fn obedient(request: &Request) -> String {
    match role(request) {
        Role::Writer => {
            let text = said(request);
            let (_, count) = text.rsplit_once("Write ").unwrap();
            let count: usize = count.split(' ').next().unwrap().parse().unwrap();
            let kinds = ["user-intent/constraints", "state-of-work/next-step", "specifics"];
            let one = |index: usize| {
                let (kind, key) = (kinds[index % 3], format!("{KEY} {index}"));
                serde_json::json!({"category": kind, "question": format!("What is {index}?"), "answer": key})
            };
            format!("```json\n{}\n```", Value::from((0..count).map(one).collect::<Vec<_>>()))
        }
        Role::Reader => {
            let questions: Vec<Value> = serde_json::from_str(&block(request, "questions")).unwrap();
            let answer = if block(request, "context").contains("[summary of ") { TOLD } else { "unknown" };
            let answers: Vec<Value> = questions
                .iter()
                .map(|question| serde_json::json!({"id": question["id"], "answer": answer}))
                .collect();
            let said = serde_json::json!({
                "answers": answers, "readability": 7, "state_known": 6.5, "noise_percent": 20,
            });
            said.to_string()
        }
        Role::Grader => {
            let rows: Vec<Value> = serde_json::from_str(&block(request, "sheet")).unwrap();
            let grade = |answer: &Value| match answer == TOLD {
                true => serde_json::json!({"score": 0.5, "wrong": true}),
                false => serde_json::json!({"score": 0, "wrong": false}),
            };
            let row = |row: &Value| {
                let grades: Vec<Value> = row["answers"].as_array().unwrap().iter().map(grade).collect();
                serde_json::json!({"id": row["id"], "grades": grades})
            };
            Value::from(rows.iter().map(row).collect::<Vec<_>>()).to_string()
        }
        Role::Summarizer => format!("## Task\nA model wrote this.\n{}", required(request)),
    }
}

type Seen = Arc<Mutex<Vec<Request>>>;

/// A server that answers what `answer` says, and what it was asked.
fn model(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> (String, Seen) {
    let requests = Seen::default();
    let seen = Arc::clone(&requests);
    let url = Server::apart(move |request| {
        seen.lock().unwrap().push(request.clone());
        Spoken::of(request).unwrap().answer(request, &Said::Text(&answer(request)))
    });
    (format!("openai:{url}/v1#some-model"), requests)
}

fn taken(requests: &Seen) -> Vec<Request> {
    std::mem::take(&mut *requests.lock().unwrap())
}

fn roles(requests: &[Request]) -> Vec<Role> {
    requests.iter().map(role).collect()
}

/// A probe of the example session.
fn probe(backend: &str, cache: &str, more: &[&str]) -> Output {
    run(&[&["probe", SESSION, "--backend", backend, "--cache", cache], more].concat())
}

#[test]
fn a_model_writes_questions_reads_every_view_and_grades_all_of_them_at_once() {
    let (backend, requests) = model(obedient);
    let folder = folder();
    let report = json(&probe(&backend, &at(&folder, "cache"), &["--target", "15%,8%", "--json"]));
    let requests = taken(&requests);
    use Role::{Grader, Reader, Writer};
    assert_eq!(roles(&requests), [Writer, Reader, Reader, Reader, Reader, Grader]);
    assert_eq!(requests[0].json()["model"], "some-model");

    let totals = report["totals"].as_array().unwrap();
    let arms: Vec<&str> = totals.iter().map(|total| total["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["ladder 15%", "ladder 8%", "truncate 15%", "truncate 8%"]);
    for (total, policy) in totals.iter().zip(["ladder", "ladder", "truncate", "truncate"]) {
        let is_told = policy == "ladder";
        assert_eq!(total["score"], if is_told { 0.5 } else { 0.0 }, "{total}");
        assert_eq!(total["wrong"], if is_told { 16 } else { 0 }, "{total}");
        assert_eq!((&total["policy"], &total["summary_by"]), (&policy.into(), &"digest".into()));
        assert_eq!(total["readability"], 7.0);
        assert_eq!(total["by_kind"].as_object().unwrap().len(), 3, "{total}");
    }
    let session = &report["sessions"][0];
    let before = session["tokens_before"].as_u64().unwrap();
    assert!((55..75).contains(&(before * 100 / session["tokens"].as_u64().unwrap())), "{before}");
    for arm in session["arms"].as_array().unwrap() {
        let most = if arm["target"] == "15%" { before * 15 / 100 } else { before * 8 / 100 };
        assert!(arm["tokens"].as_u64().unwrap() <= most, "{arm}");
        assert_eq!(arm["answers"].as_array().unwrap().len(), 16);
    }
    assert_eq!(report["cost"]["requests"], 6);
    assert!(report["cost"]["input_tokens"].as_u64().unwrap() > 0 && report["cost"]["dollars"].is_null());
}

#[test]
fn a_reader_sees_its_view_and_no_key_and_a_grader_sees_no_arm() {
    let (backend, requests) = model(obedient);
    let folder = folder();
    json(&probe(&backend, &at(&folder, "cache"), &["--target", "10%", "--json"]));
    let requests = taken(&requests);
    let after_the_cut = "Before we merge: run the whole test suite";
    assert!(block(&requests[0], "after").contains(after_the_cut));
    assert!(!block(&requests[0], "before").contains(after_the_cut));
    let folded = "AGENTS.md";
    assert!(block(&requests[0], "before").contains(folded));
    for reader in &requests[1..3] {
        let text = said(reader);
        assert!(!text.contains(KEY) && !text.contains("specifics"), "no key, no kind");
        assert!(!text.contains(after_the_cut) && !text.contains("ladder") && !text.contains("truncate"));
        assert!(text.contains("What is 3?"));
        assert!(text.len() < said(&requests[0]).len() / 3, "the view alone");
    }
    assert_ne!(block(&requests[1], "context"), block(&requests[2], "context"));
    let grader = said(&requests[3]);
    assert!(grader.contains(KEY) && grader.contains(TOLD) && grader.contains("\"unknown\""));
    for arm in ["ladder", "truncate", "10%", "digest"] {
        assert!(!grader.contains(arm), "{arm}");
    }
}

#[test]
fn what_was_answered_once_is_asked_no_second_time() {
    let (backend, requests) = model(obedient);
    let folder = folder();
    let cache = at(&folder, "deep/cache");
    let flags = ["--target", "10%", "--with-summary", "--json"];
    let mut first = json(&probe(&backend, &cache, &flags));
    assert!(taken(&requests).len() >= 6);
    let mut second = json(&probe(&backend, &cache, &flags));
    assert_eq!(roles(&taken(&requests)), []);
    assert_eq!(second["cost"]["requests"], 0);
    assert_eq!(second["cost"]["from_cache"], first["cost"]["requests"]);
    (first["cost"], second["cost"]) = (Value::Null, Value::Null);
    assert_eq!(first, second);
    let other_seed = [&flags[..], &["--seed", "2"]].concat();
    json(&probe(&backend, &cache, &other_seed));
    assert_eq!(roles(&taken(&requests)), [Role::Grader], "only the order of the answers is another");
    let other_model = backend.replace("some-model", "other-model");
    json(&probe(&other_model, &cache, &["--target", "10%", "--json"]));
    assert_eq!(taken(&requests).len(), 4, "the answers of one model are not those of another");
}

#[test]
fn a_cache_entry_that_is_broken_is_asked_for_again_and_the_others_are_not() {
    let (backend, requests) = model(obedient);
    let folder = folder();
    let cache = at(&folder, "cache");
    assert_eq!(code(&probe(&backend, &cache, &["--target", "10%"])), 0);
    assert_eq!(taken(&requests).len(), 4);
    let entries = files_below(Path::new(&cache));
    assert_eq!(entries.len(), 4);
    std::fs::write(&entries[1], &std::fs::read(&entries[1]).unwrap()[..40]).unwrap();
    let again = probe(&backend, &cache, &["--target", "10%"]);
    assert_eq!(code(&again), 0, "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("the model is asked again"), "{}", text(&again.stderr));
    assert_eq!(taken(&requests).len(), 1);
    assert_eq!(files_below(Path::new(&cache)), entries, "and kept, with nothing beside it");
}

#[test]
fn the_table_has_a_line_for_each_arm_and_the_page_every_answer() {
    let (backend, _requests) = model(obedient);
    let folder = folder();
    let (cache, page) = (at(&folder, "cache"), at(&folder, "page.html"));
    let output = probe(&backend, &cache, &["--policy", "ladder", "--target", "2500,8%", "--html", &page]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.starts_with("sends to http://127.0.0.1:") && told.lines().count() == 1, "{told}");
    let table = text(&output.stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("1 conversation, ") && lines[0].ends_with("graded by openai:some-model"),
        "{table}"
    );
    for title in
        ["arm", "tokens", "score", "wants", "state", "decisions", "specifics", "errors", "noise", "sure"]
    {
        assert!(lines[1].contains(title), "{title} in {table}");
    }
    assert!(
        lines[2].contains("ladder 2,500") && lines[3].contains("ladder 8%") && lines[3].contains("20%"),
        "{table}"
    );
    assert!(
        lines[4].contains("4 requests, 0 from the cache") && lines[4].contains("price not known"),
        "{table}"
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("What is 3?") && page.contains(TOLD) && page.contains("ladder 2,500"));
    for outside in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_model_that_writes_summaries_has_arms_of_its_own() {
    let (backend, requests) = model(obedient);
    let folder = folder();
    let report =
        json(&probe(&backend, &at(&folder, "cache"), &["--target", "10%", "--with-summary", "--json"]));
    let arms: Vec<&Value> = report["totals"].as_array().unwrap().iter().collect();
    let names: Vec<&str> = arms.iter().map(|arm| arm["arm"].as_str().unwrap()).collect();
    assert_eq!(names, ["ladder 10%", "ladder+model 10%", "truncate 10%"], "truncating needs no summary");
    assert_eq!(arms[1]["summary_by"], "openai:some-model");
    let requests = taken(&requests);
    let readers: Vec<&Request> = requests.iter().filter(|one| role(one) == Role::Reader).collect();
    let wrote: Vec<bool> = readers.iter().map(|one| said(one).contains("A model wrote this.")).collect();
    assert_eq!(wrote, [false, true, false]);
}

#[test]
fn a_summary_that_is_no_use_leaves_its_arm_without_a_view_and_says_why() {
    let (backend, requests) = model(|request| match role(request) {
        Role::Summarizer => "no".to_owned(),
        _ => obedient(request),
    });
    let folder = folder();
    let flags = ["--policy", "ladder", "--target", "10%", "--with-summary", "--json"];
    let output = probe(&backend, &at(&folder, "cache"), &flags);
    let told = text(&output.stderr);
    assert!(told.contains("warning:") && told.contains("there is no view of ladder+model 10%"), "{told}");
    let report = json(&output);
    let arm = &report["sessions"][0]["arms"][1];
    assert!(arm["tokens"].is_null() && arm.get("answers").is_none(), "{arm}");
    assert!(arm["error"].as_str().unwrap().contains("no summary by openai:some-model: "), "{arm}");
    let totals = report["totals"].as_array().unwrap();
    assert_eq!((&totals[0]["failed"], &totals[1]["failed"]), (&0.into(), &1.into()));
    let readers = taken(&requests).iter().filter(|request| role(request) == Role::Reader).count();
    assert_eq!(readers, 1);
}

#[test]
fn ones_own_questions_are_asked_and_none_are_written() {
    let (backend, requests) = model(obedient);
    let folder = folder();
    let (own, cache) = (at(&folder, "own.json"), at(&folder, "cache"));
    let question = |id: &str| {
        serde_json::json!({"id": id, "category": "errors-and-failed-attempts", "question": "Which test fails?",
            "answer": KEY, "why_needed": "to mend it"})
    };
    std::fs::write(&own, Value::from(vec![question("mine-1"), question("mine-2")]).to_string()).unwrap();
    let report = json(&probe(&backend, &cache, &["--questions", &own, "--target", "10%", "--json"]));
    assert_eq!(roles(&taken(&requests)), [Role::Reader, Role::Reader, Role::Grader]);
    let session = &report["sessions"][0];
    assert_eq!(
        session["questions"],
        Value::from(vec![question("mine-1"), question("mine-2")]),
        "as they were"
    );
    assert_eq!(session["arms"][0]["answers"][1]["id"], "mine-2");

    let twice =
        run(&["probe", SESSION, SESSION, "--backend", &backend, "--cache", &cache, "--questions", &own]);
    assert_eq!(code(&twice), 2, "{}", text(&twice.stderr));
    std::fs::write(&own, Value::from(vec![question("a"), question("a")]).to_string()).unwrap();
    let twins = probe(&backend, &cache, &["--questions", &own]);
    assert_eq!(code(&twins), 2);
    let told = text(&twins.stderr);
    assert!(
        told.contains("own.json:question 2: the id a is there twice") && told.contains("hint:"),
        "{told}"
    );
    std::fs::write(&own, "[\n{\"id\": 5}]").unwrap();
    let told = text(&probe(&backend, &cache, &["--questions", &own]).stderr);
    assert!(told.contains("own.json:2:") && told.contains("state-of-work/next-step"), "{told}");
    assert_eq!(taken(&requests).len(), 0, "nothing is asked where the questions are no good");
}

#[test]
fn an_answer_that_cannot_be_read_is_asked_for_again_with_what_is_wrong_about_it() {
    let (backend, requests) = model(|request| {
        let (text, answer) = (said(request), obedient(request));
        match role(request) {
            Role::Reader if !text.contains("That could not be used") => format!("With pleasure: {answer}"),
            _ => answer,
        }
    });
    let folder = folder();
    let cache = at(&folder, "cache");
    let flags = ["--policy", "ladder", "--target", "10%"];
    assert_eq!(code(&probe(&backend, &cache, &flags)), 0);
    let asked = taken(&requests);
    assert_eq!(roles(&asked), [Role::Writer, Role::Reader, Role::Reader, Role::Grader]);
    assert!(said(&asked[2]).contains("this is not the JSON that was asked for"));
    assert_eq!(code(&probe(&backend, &cache, &flags)), 0);
    assert_eq!(taken(&requests).len(), 0, "the answer that could be used is kept");
}

#[test]
fn a_model_that_never_answers_what_was_asked_is_an_error_that_says_who_and_what() {
    let (backend, requests) = model(|request| match role(request) {
        Role::Grader => "I\u{1b}[2J would rather not".to_owned(),
        _ => obedient(request),
    });
    let folder = folder();
    let cache = at(&folder, "cache");
    let flags = ["--policy", "ladder", "--target", "10%"];
    let output = probe(&backend, &cache, &flags);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 3, "{told}");
    assert!(told.contains("session.jsonl: openai:some-model was asked for grades"), "{told}");
    assert!(told.contains("no usable answer in 3 attempts: this is not the JSON"), "{told}");
    assert!(told.contains("hint:") && !told.contains('\u{1b}'), "{told}");
    assert!(told.contains("5 requests, 0 from the cache"), "what it took is told all the same: {told}");
    assert_eq!(output.stdout, b"");
    assert_eq!(taken(&requests).len(), 5);
    assert_eq!(code(&probe(&backend, &cache, &flags)), 3);
    assert_eq!(roles(&taken(&requests)), [Role::Grader; 3], "only what could not be used is asked again");
}

#[test]
fn a_server_that_refuses_is_an_error_without_the_key_and_is_not_asked_for_every_session() {
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    let url = Server::apart(move |request| {
        *count.lock().unwrap() += 1;
        let sent = request.header("authorization").unwrap_or_default();
        Answer::status(401).body(format!("wrong key: {sent}"))
    });
    let folder = folder();
    let files: Vec<String> = (0..8).map(|number| at(&folder, &format!("{number}.jsonl"))).collect();
    for file in &files {
        std::fs::copy(SESSION, file).unwrap();
    }
    let (backend, cache) = (format!("openai:{url}/v1"), at(&folder, "cache"));
    let mut command = foldback(&["probe", "--backend", &backend, "--cache", &cache, "--policy", "truncate"]);
    let secret = "sk-nobody-may-see-this";
    let output =
        command.args(&files).args(["--backend-key-env", "SOME_KEY"]).env("SOME_KEY", secret).output();
    let output = output.unwrap();
    let told = text(&output.stderr);
    assert_eq!(code(&output), 3, "{told}");
    assert!(told.contains("7.jsonl: openai:default was asked for 16 questions:"), "{told}");
    assert!(!told.contains(secret), "{told}");
    assert!(files_below(Path::new(&cache)).is_empty());
    let failures_max = foldback_engine::GuardLimits::default().failures_max;
    assert_eq!(*seen.lock().unwrap(), failures_max, "the guard stands before it: {told}");
}

#[test]
fn a_probe_without_a_model_or_without_a_place_to_cut_asks_nothing() {
    let folder = folder();
    let cache = at(&folder, "cache");
    for backend in [&["--backend", "digest"][..], &[]] {
        let output = run(&[&["probe", SESSION, "--cache", &cache], backend].concat());
        assert_eq!(code(&output), 2);
        assert!(text(&output.stderr).contains("probe asks a model"), "{}", text(&output.stderr));
    }
    let (backend, requests) = model(obedient);
    let short = at(&folder, "short.jsonl");
    let first = std::fs::read_to_string(SESSION).unwrap().lines().next().unwrap().to_owned();
    std::fs::write(&short, first + "\n").unwrap();
    let output = run(&["probe", &short, "--backend", &backend, "--cache", &cache]);
    assert_eq!(code(&output), 3);
    assert!(text(&output.stderr).contains("no place near 60%"), "{}", text(&output.stderr));
    let output = probe(&backend, &cache, &["--target", "1"]);
    assert_eq!(code(&output), 4, "{}", text(&output.stderr));
    for wrong in [["--at", "100"], ["--at", "0%"], ["--count", "0"], ["--count", "65"], ["--target", "0%"]] {
        assert_eq!(code(&probe(&backend, &cache, &wrong)), 2, "{wrong:?}");
    }
    assert_eq!(taken(&requests).len(), 0);
}

#[test]
fn the_settings_of_compact_name_the_model_and_the_policy_that_is_compared_with_truncate() {
    let (backend, _requests) = model(obedient);
    let folder = folder();
    let (config, cache) = (at(&folder, "foldback.toml"), at(&folder, "cache"));
    std::fs::write(&config, format!("[compact]\nbackend = \"{backend}\"\npolicy = \"codex\"\n")).unwrap();
    let arms = |more: &[&str]| -> Vec<String> {
        let flags = ["probe", SESSION, "--config", &config, "--cache", &cache, "--target", "10%", "--json"];
        let report = json(&run(&[&flags[..], more].concat()));
        let totals = report["totals"].as_array().unwrap().iter();
        totals.map(|total| total["policy"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(arms(&[]), ["codex", "truncate"]);
    assert_eq!(arms(&["--policy", "ladder,goose"]), ["ladder", "goose"]);
}

#[test]
fn a_fixture_of_every_format_is_probed() {
    let (backend, _requests) = model(obedient);
    let folder = folder();
    let cache = at(&folder, "cache");
    let flags =
        ["probe", "-q", "--backend", &backend, "--cache", &cache, "--policy", "ladder", "--target", "100%"];
    let mut command = foldback(&flags);
    let output = command.args(["--count", "5", "--json"]).arg(fixtures()).output().unwrap();
    assert_eq!(code(&output), 3, "some are too short to be cut: {}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let formats = |one: &Value| one["format"].as_str().unwrap().to_owned();
    let probed: std::collections::BTreeSet<String> =
        report["sessions"].as_array().unwrap().iter().map(formats).collect();
    let stats = foldback(&["stats", "-q", "--json"]).arg(fixtures()).output().unwrap();
    let all: std::collections::BTreeSet<String> =
        text(&stats.stdout).lines().map(|line| formats(&serde_json::from_str(line).unwrap())).collect();
    assert_eq!(probed, all, "{}", text(&output.stderr));
    for session in report["sessions"].as_array().unwrap() {
        assert_eq!(session["arms"][0]["answers"].as_array().unwrap().len(), 5, "{session}");
    }
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_a_probe_and_keeps_only_whole_answers() {
    let (asked, is_asked) = std::sync::mpsc::channel();
    let asked = Mutex::new(asked);
    let url = Server::apart(move |request| match role(request) {
        Role::Writer => Spoken::Chat.answer(request, &Said::Text(&obedient(request))),
        _ => {
            asked.lock().unwrap().send(()).unwrap();
            Answer::hang()
        }
    });
    let folder = folder();
    let (backend, cache) = (format!("openai:{url}/v1"), at(&folder, "cache"));
    let mut command = foldback(&["probe", SESSION, "--backend", &backend, "--cache", &cache]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    is_asked.recv().unwrap();
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("interrupted") && told.contains(&cache), "{told}");
    let files = files_below(Path::new(&cache));
    assert_eq!(files.len(), 1, "the questions: {files:?}");
    assert!(serde_json::from_slice::<Value>(&std::fs::read(&files[0]).unwrap()).is_ok());
}
