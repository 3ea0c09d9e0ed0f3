//! Summaries by models: a scripted server, and a llama.cpp server.

use std::sync::{Arc, Mutex};

use foldback_backends::Protocol;
use foldback_testkit::needs;
use foldback_testkit::server::{Answer, Request, Said, Server, Spoken, required};

use super::*;

const SECRET: &str = "sk-nobody-may-see-this";

/// A server that writes summaries with everything in them that must be; and what it was asked.
fn summarizing() -> (String, Arc<Mutex<Vec<Request>>>) {
    let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
    let seen = Arc::clone(&requests);
    let url = Server::apart(move |request| {
        seen.lock().unwrap().push(request.clone());
        let text = format!("## Task\nA parser was mended.\n{}", required(request));
        Spoken::of(request).unwrap().answer(request, &Said::Text(&text))
    });
    (url, requests)
}

#[test]
fn a_model_writes_the_summary_and_the_report_says_what_it_took() {
    for protocol in Protocol::ALL {
        let protocol = match protocol {
            Protocol::OpenAiChat => "openai",
            Protocol::OpenAiResponses => "responses",
            Protocol::Anthropic => "anthropic",
        };
        let (url, requests) = summarizing();
        let folder = folder();
        let out = at(&folder, "out.jsonl");
        let backend = format!("{protocol}:{url}/v1#some-model");
        let report = json(&run(&[
            "compact",
            SESSION,
            "--target",
            "3000",
            "--backend",
            &backend,
            "-o",
            &out,
            "--json",
        ]));
        let told = &report["conversations"][0];
        assert!(told["written_by"][0].as_str().unwrap().ends_with(":some-model"), "{report}");
        assert!(told["tokens_after"].as_u64().unwrap() <= 3_000, "{report}");
        assert!(told["backend"]["usage"]["input_tokens"].as_u64().unwrap() > 0, "{report}");
        assert_eq!(requests.lock().unwrap()[0].json()["model"], "some-model");
        assert!(text(&run(&["show", &out, "--plain"]).stdout).contains("A parser was mended."), "{protocol}");
        assert_eq!(code(&run(&["check", &out])), 0);
    }
}

#[test]
fn of_several_summaries_one_is_taken_and_all_are_accounted_for() {
    let (url, requests) = summarizing();
    let backend = format!("openai:{url}/v1#some-model");
    let asked = ["compact", SESSION, "--target", "3000", "--dry-run", "--json"];
    let digest = json(&run(&asked));
    let folder = folder();
    let out = at(&folder, "out.jsonl");
    let flags = ["--backend", &backend, "--backend-candidates", "3", "-o", &out];
    let report = json(&run(&[&["compact", SESSION, "--target", "3000", "--json"][..], &flags].concat()));
    assert_eq!(report["conversations"][0]["backend"]["usage"]["calls"], 3, "{report}");
    assert_eq!(requests.lock().unwrap().len(), 3);
    assert_eq!(digest["conversations"][0]["tokens_before"], report["conversations"][0]["tokens_before"]);
}

#[test]
fn a_model_that_fails_is_a_warning_and_the_digest_writes_the_summary() {
    let url = Server::apart(|request| {
        let sent = request.header("authorization").unwrap_or_default();
        Answer::status(401).body(format!("wrong key: {sent}"))
    });
    let folder = folder();
    let out = at(&folder, "out.jsonl");
    let backend = format!("openai:{url}/v1");
    let mut command = foldback(&["compact", SESSION, "--target", "3000", "--backend", &backend, "-o", &out]);
    let output = command.args(["--backend-key-env", "SOME_KEY"]).env("SOME_KEY", SECRET).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(code(&output), 0, "{told}");
    assert!(told.contains("warning:") && told.contains("refused the key"), "{told}");
    assert!(!told.contains(SECRET), "{told}");
    let digest = run(&["compact", SESSION, "--target", "3000"]);
    assert_eq!(std::fs::read(&out).unwrap(), digest.stdout);
}

#[test]
fn a_model_that_failed_for_some_sessions_is_not_asked_for_the_rest() {
    let requests = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&requests);
    let url = Server::apart(move |_| {
        *seen.lock().unwrap() += 1;
        Answer::status(401)
    });
    let folder = folder();
    let files: Vec<String> = (0..8).map(|number| at(&folder, &format!("{number}.jsonl"))).collect();
    for file in &files {
        std::fs::copy(SESSION, file).unwrap();
    }
    let backend = format!("openai:{url}/v1");
    let mut command = foldback(&["compact", "--in-place", "--target", "3000", "--backend", &backend]);
    let output = command.args(&files).output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(code(&output), 0, "{told}");
    let failures_max = foldback_engine::GuardLimits::default().failures_max;
    assert_eq!(*requests.lock().unwrap(), failures_max, "{told}");
    assert!(told.contains(&format!("it failed {failures_max} times in a row")), "{told}");
}

#[test]
fn the_key_of_a_provider_goes_to_that_provider_only() {
    let (url, requests) = summarizing();
    let backend = format!("openai:{url}/v1");
    let compact = ["compact", SESSION, "--target", "3000", "--backend", &backend, "-q"];
    let with = |more: &[&str]| {
        let mut command = foldback(&compact);
        let output = command.args(more).env("OPENAI_API_KEY", SECRET).env("OTHER", "sk-other").output();
        assert_eq!(code(&output.unwrap()), 0);
        let request = requests.lock().unwrap().pop().unwrap();
        request.header("authorization").map(ToOwned::to_owned)
    };
    assert_eq!(with(&[]), None);
    assert_eq!(with(&["--backend-key-env", "OTHER"]).as_deref(), Some("Bearer sk-other"));
    let mut command = foldback(&["compact", SESSION, "--backend", "anthropic"]);
    let without = command.env_remove("ANTHROPIC_API_KEY").output().unwrap();
    assert_eq!(code(&without), 2);
    assert!(text(&without.stderr).contains("ANTHROPIC_API_KEY"), "{}", text(&without.stderr));
}

/// A request in which nothing was demanded and no file was changed: any summary of it will do.
fn small_talk(folder: &tempfile::TempDir) -> String {
    let message = |index: usize| {
        let role = if index.is_multiple_of(2) { "user" } else { "assistant" };
        let content = format!("In step {index} the parser of module m{index} read one token too many. ");
        serde_json::json!({"role": role, "content": content.repeat(8)})
    };
    let system = serde_json::json!({"role": "system", "content": "You are careful."});
    let messages: Vec<Value> = std::iter::once(system).chain((0..61).map(message)).collect();
    let request = serde_json::json!({"model": "parrot", "messages": messages});
    let path = at(folder, "request.json");
    std::fs::write(&path, request.to_string()).unwrap();
    path
}

#[test]
#[ignore = "needs llama.cpp"]
fn a_llama_cpp_server_writes_the_summary() {
    let backend = format!("openai:{}/v1#parrot", needs::llama());
    let folder = folder();
    let (request, out) = (small_talk(&folder), at(&folder, "out.json"));
    let arguments = ["compact", &request, "--target", "2000", "--backend", &backend, "-o", &out, "--json"];
    let report = json(&foldback(&arguments).args(["--backend-window", "4096"]).output().unwrap());
    let told = &report["conversations"][0];
    assert_eq!(told["written_by"][0], "openai:parrot", "{report}");
    assert!(told["tokens_after"].as_u64().unwrap() <= 2_000, "{report}");
    assert!(told["backend"]["usage"]["output_tokens"].as_u64().unwrap() > 0, "{report}");
    assert!(text(&run(&["show", &out, "--plain"]).stdout).contains("We looked at the code together"));
    assert_eq!(code(&run(&["check", &out])), 0);
}

#[test]
#[ignore = "needs llama.cpp"]
fn a_summary_of_a_llama_cpp_server_that_leaves_out_what_matters_is_not_taken() {
    let backend = format!("openai:{}/v1#parrot", needs::llama());
    let folder = folder();
    let out = at(&folder, "out.jsonl");
    // Nobody names the window: the server's rejection does.
    let arguments = ["compact", SESSION, "--target", "3000", "--backend", &backend, "-o", &out, "--json"];
    let report = json(&run(&arguments));
    let told = &report["conversations"][0];
    assert!(told["tokens_after"].as_u64().unwrap() <= 3_000, "{report}");
    assert_eq!(told["written_by"][0], "digest", "{report}");
    assert_ne!(told["backend"]["refused"], Value::Null, "{report}");
    assert_eq!(code(&run(&["check", &out])), 0);
}
