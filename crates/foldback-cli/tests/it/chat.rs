//! `foldback chat` through a pipe: a scripted server, and a llama.cpp server with a small window.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback_testkit::needs;
use foldback_testkit::server::{Answer, Request, Said, Server, Spoken};
use serde_json::json as value;

use super::*;

/// Types the lines into a chat and returns what it printed, one event for each line.
pub(super) fn chat(folder: &tempfile::TempDir, arguments: &[&str], lines: &[String]) -> (Vec<Value>, i32) {
    let mut command = foldback(&["chat", "--json"]);
    command.args(arguments).current_dir(folder.path());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let typed = lines.join("\n") + "\n";
    let typing = std::thread::spawn(move || stdin.write_all(typed.as_bytes()));
    let output = child.wait_with_output().unwrap();
    typing.join().unwrap().unwrap();
    let events = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    (events, code(&output))
}

pub(super) fn of<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

/// A server whose model runs a command, then says what came of it.
fn running(command: &'static str) -> String {
    Server::apart(move |request: &Request| -> Answer {
        let body = request.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let input = value!({"command": command});
        let said = last["content"].to_string();
        match last["role"] == "tool" {
            true => Spoken::Chat.answer(request, &Said::Text(&format!("It printed: {said}"))),
            false => Spoken::Chat.answer(request, &Said::Call { id: "c1", name: "shell", input: &input }),
        }
    })
}

#[test]
fn a_tool_runs_where_it_may_and_the_conversation_is_kept() {
    let model = format!("openai:{}/v1#m", running("echo one && echo two > made.txt"));
    let folder = folder();
    let arguments = ["--model", &model, "--yes", "--save", "chat.jsonl"];
    let (events, exit) = chat(&folder, &arguments, &["do it".to_owned()]);
    assert_eq!(exit, 0, "{events:?}");
    let answer = of(&events, "answer")[0]["text"].as_str().unwrap();
    assert!(answer.contains("one") && answer.contains("exit code 0"), "{answer}");
    assert_eq!(std::fs::read_to_string(folder.path().join("made.txt")).unwrap(), "two\n");
    let saved = at(&folder, "chat.jsonl");
    assert_eq!(code(&run(&["check", &saved, "--for", "openai-chat"])), 0);
    assert_eq!(json(&run(&["stats", &saved, "--json"]))["conversations"][0]["turns"], 1);
}

#[test]
fn on_a_pipe_nothing_is_run_that_nobody_agreed_to() {
    let model = format!("openai:{}/v1#m", running("echo > made.txt"));
    let folder = folder();
    let (events, _) = chat(&folder, &["--model", &model], &["do it".to_owned()]);
    let answer = of(&events, "answer")[0]["text"].as_str().unwrap();
    assert!(answer.contains("without --yes"), "{answer}");
    assert!(!folder.path().join("made.txt").exists());
}

#[test]
fn orders_are_obeyed_and_a_turn_that_fails_is_told() {
    let url = Server::apart(|_| Answer::status(401));
    let model = format!("openai:{url}/v1#m");
    let lines = ["/context", "/undo", "/nonsense", "/compact", "hello", "/quit", "never said"];
    let lines = lines.map(ToOwned::to_owned);
    let (events, exit) = chat(&folder(), &["--model", &model, "--window", "16k"], &lines);
    assert_eq!(exit, 1, "{events:?}");
    assert_eq!(of(&events, "failed").len(), 1, "{events:?}");
    let notes: Vec<&str> = of(&events, "note").iter().filter_map(|note| note["text"].as_str()).collect();
    assert!(notes[0].contains("the model sees 1 of 1 items"), "{notes:?}");
    assert!(notes[1].contains("no compaction to undo") && notes[2].contains("/nonsense"), "{notes:?}");
    assert!(notes[3].contains("nothing to compact"), "an order that changes nothing says so: {notes:?}");
    assert_eq!(of(&events, "context")[0]["window"], 16_000);
}

/// A server whose model calls the tool that the person names, with the input that follows it, and says
/// what the tool answered.
fn obedient() -> String {
    Server::apart(|request: &Request| -> Answer {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        let said = last["content"].as_str().unwrap();
        if last["role"] == "tool" {
            return Spoken::Chat.answer(request, &Said::Text(said));
        }
        let (name, input) = said.split_once(' ').unwrap();
        let (id, input) = (format!("c{}", messages.len()), serde_json::from_str(input).unwrap());
        Spoken::Chat.answer(request, &Said::Call { id: &id, name, input: &input })
    })
}

#[test]
fn file_tools_write_read_edit_and_list_what_they_are_told_to() {
    let model = format!("openai:{}/v1#m", obedient());
    let folder = folder();
    let orders = [
        (r#"write {"path": "notes/a.txt", "text": "one\ntwo\nthree\n"}"#, "wrote 14 bytes to notes/a.txt"),
        (r#"read {"path": "notes/a.txt", "first_line": 2, "line_count": 1}"#, "    2  two\n(3 lines in all"),
        (r#"read {"path": "notes/a.txt", "first_line": 9}"#, "nothing there: 3 lines in all"),
        (r#"edit {"path": "notes/a.txt", "old": "two", "new": "2"}"#, "edited notes/a.txt"),
        (r#"edit {"path": "notes/a.txt", "old": "e", "new": "x"}"#, "has it 3 times"),
        (r#"edit {"path": "notes/a.txt", "old": "four", "new": "4"}"#, "no such passage"),
        (r#"read {"path": "notes"}"#, "is a folder; use `list`"),
        (r#"read {"path": "missing.txt"}"#, "missing.txt: "),
        (r#"list {"path": "notes"}"#, "a.txt  12 bytes"),
        (r#"list {}"#, "notes/"),
        (r#"write {"path": "../b.txt", "text": "x"}"#, "is outside"),
    ];
    let lines = orders.map(|(order, _)| order.to_owned());
    let (events, exit) = chat(&folder, &["--model", &model, "--yes"], &lines);
    assert_eq!(exit, 0, "{events:?}");
    let answers = of(&events, "answer");
    assert_eq!(answers.len(), orders.len(), "{events:?}");
    for ((order, wanted), answer) in orders.iter().zip(answers) {
        assert!(answer["text"].as_str().unwrap().contains(wanted), "{order}: {answer}");
    }
    let left = std::fs::read_to_string(folder.path().join("notes/a.txt")).unwrap();
    assert_eq!(left, "one\n2\nthree\n");
    assert!(!folder.path().join("../b.txt").exists());
}

#[test]
fn window_policy_and_backend_of_a_chat_come_from_the_configuration_file() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let url = Server::apart(move |request: &Request| {
        counted.fetch_add(1, Ordering::Relaxed);
        Spoken::Chat.answer(request, &Said::Text("all right"))
    });
    let folder = folder();
    let configure = |settings: &str| {
        let config = format!("model = \"openai:{url}/v1#m\"\n[compact]\n{settings}\n");
        std::fs::write(folder.path().join("foldback.toml"), config).unwrap();
    };
    configure("window = 5000\nbackend = \"digest\"");
    let named = ["--config", "foldback.toml"];
    let (events, exit) = chat(&folder, &named, &long_lines(TURNS));
    assert_eq!(exit, 0, "{events:?}");
    assert_eq!(of(&events, "context")[0]["window"], 5_000);
    assert!(
        of(&events, "compacted").iter().any(|told| told["written_by"] == value!(["digest"])),
        "{events:?}"
    );
    assert_eq!(asked.load(Ordering::Relaxed), TURNS, "the model was asked for answers, not for summaries");

    configure("window = 5000\npolicy = \"codex\"");
    let lines = ["hello", "/compact"].map(ToOwned::to_owned);
    let (events, _) = chat(&folder, &[&named[..], &["--window", "6k"]].concat(), &lines);
    assert_eq!(of(&events, "context")[0]["window"], 6_000, "a flag wins over the file");
    let strategy = of(&events, "compacted")[0]["strategy"].as_str().unwrap();
    assert!(strategy.contains("preserve-user-messages"), "{strategy}");
}

#[test]
fn a_chat_prepares_its_compactions_before_they_are_due() {
    let url = Server::apart(move |request: &Request| Spoken::Chat.answer(request, &Said::Text("all right")));
    let (folder, model) = (folder(), format!("openai:{url}/v1#m"));
    let arguments =
        ["--model", &model, "--window", "5k", "--no-tools", "--background", "--backend", "digest"];
    let (events, exit) = chat(&folder, &arguments, &long_lines(TURNS));
    assert_eq!(exit, 0, "{events:?}");
    assert_eq!(of(&events, "answer").len(), TURNS);
    assert!(!of(&events, "compacted").is_empty(), "{events:?}");
    assert!(of(&events, "context").iter().all(|context| context["tokens"].as_u64().unwrap() <= 5_000));
}

#[test]
fn a_policy_in_the_configuration_file_that_there_is_not_is_named_with_the_file() {
    let folder = folder();
    let config = "model = \"openai:http://127.0.0.1:9/v1#m\"\n[compact]\npolicy = \"nonsense\"\n";
    std::fs::write(folder.path().join("foldback.toml"), config).unwrap();
    let refused = foldback(&["chat"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(code(&refused), 2);
    assert!(text(&refused.stderr).contains("foldback.toml"), "{}", text(&refused.stderr));
}

/// Enough to fill the server's window of 4,096 tokens more than once.
const TURNS: usize = 45;

/// Things to say, of about a hundred tokens each.
pub(super) fn long_lines(count: usize) -> Vec<String> {
    let line = |index: usize| {
        let words = format!("In step {index} the parser of module m{index} read one token too many; ");
        format!("{}please never touch file f{index}.rs again.", words.repeat(6))
    };
    (0..count).map(line).collect()
}

#[test]
#[ignore = "needs llama.cpp"]
fn a_chat_with_a_llama_cpp_server_outlives_its_window_several_times() {
    let model = format!("openai:{}/v1#parrot", needs::llama());
    let folder = folder();
    let mut lines = long_lines(TURNS);
    lines.push("/compact the parser".to_owned());
    let arguments = ["--model", &model, "--window", "4096", "--save", "chat.jsonl"];
    let (events, exit) = chat(&folder, &arguments, &lines);
    assert_eq!(exit, 0, "{events:?}");
    assert_eq!(of(&events, "answer").len(), TURNS);
    let compactions = of(&events, "compacted");
    assert!(compactions.len() >= 3, "{compactions:?}");
    assert!(of(&events, "context").iter().all(|context| context["tokens"].as_u64().unwrap() <= 4_096));
    let stats = json(&run(&["stats", &at(&folder, "chat.jsonl"), "--json"]));
    assert!(stats["tokens_history"].as_u64().unwrap() > 6_000, "{stats}");
}

#[test]
#[ignore = "needs llama.cpp"]
fn a_llama_cpp_server_that_rejects_a_request_for_its_length_is_answered_with_a_compaction() {
    let model = format!("openai:{}/v1#parrot", needs::llama());
    // The chat believes in a window that the server does not have.
    let (events, exit) = chat(&folder(), &["--model", &model, "--window", "20k"], &long_lines(TURNS));
    assert_eq!(exit, 0, "{events:?}");
    assert_eq!(of(&events, "answer").len(), TURNS);
    let rejected = of(&events, "rejected");
    assert!(!rejected.is_empty() && rejected[0]["limit"] == 4_096, "{rejected:?}");
    assert!(!of(&events, "compacted").is_empty());
}
