//! `/compact`, `/context` and `/undo` of a chat, where there is something to compact and where it cannot be.

use std::sync::{Arc, Mutex};

use foldback_testkit::server::{Request, Said, Server, Spoken};

use super::chat::{chat, long_lines, of};
use super::*;

/// What the model says to everything, and what is no summary of anything.
const AGREED: &str = "All right.";

/// What the model was sent, one request after the other.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    /// A server whose model agrees with everything, and answers so where a summary is asked for.
    fn server(&self, summary: &str) -> String {
        let (sent, summary) = (self.clone(), summary.to_owned());
        let url = Server::apart(move |request: &Request| {
            let body = request.json()["messages"].to_string();
            let is_asked = body.contains("## Rules: every rule");
            let answer = if is_asked { &summary } else { AGREED };
            sent.0.lock().unwrap().push(body);
            Spoken::Chat.answer(request, &Said::Text(answer))
        });
        format!("openai:{url}/v1#m")
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn notes(events: &[Value]) -> Vec<&str> {
    of(events, "note").iter().filter_map(|note| note["text"].as_str()).collect()
}

/// The figures of a note that says what the model sees: items seen, items recorded.
fn seen(note: &str) -> (usize, usize) {
    let words: Vec<&str> = note.split(' ').collect();
    let figure = |index: usize| words[index].parse().unwrap_or_else(|_| panic!("{note}"));
    (figure(3), figure(5))
}

/// A chat that is compacted by its person, and taken back; the model summarises in these words.
fn taken_back(backend: &[&str], summary: &str) -> (Vec<Value>, Vec<String>) {
    let sent = Sent::default();
    let model = sent.server(summary);
    let mut lines = long_lines(24);
    let orders =
        ["/context", "/compact the parser", "/context", "what now?", "/undo", "/context", "and now?"];
    lines.extend(orders.map(ToOwned::to_owned));
    lines.push("/undo".to_owned());
    let arguments =
        [&["--model", &model, "--window", "5000", "--no-tools", "--save", "chat.jsonl"], backend].concat();
    let folder = folder();
    let (events, exit) = chat(&folder, &arguments, &lines);
    assert_eq!(exit, 0, "{events:?}");
    assert_eq!(code(&run(&["check", &at(&folder, "chat.jsonl"), "--for", "openai-chat"])), 0);
    (events, sent.all())
}

#[test]
fn undo_shows_the_model_again_what_a_compaction_had_hidden_and_context_says_so() {
    let (events, sent) = taken_back(&["--backend", "digest"], AGREED);
    let compacted = of(&events, "compacted");
    assert_eq!(compacted.len(), 1, "{events:?}");
    assert_eq!(compacted[0]["written_by"], serde_json::json!(["digest"]));
    let notes = notes(&events);
    let [before, between, undone, after, nothing] = notes[..] else { panic!("{notes:?}") };
    let (before, between, after) = (seen(before), seen(between), seen(after));
    assert_eq!(before.0, before.1, "nothing was hidden yet");
    assert!(between.0 < before.0 && between.1 == before.1, "{notes:?}");
    assert_eq!(after, (before.0 + 2, before.1 + 2), "one turn came on top: {notes:?}");
    assert!(notes[1].contains("through 1 compaction") && notes[3].contains("through 0 compactions"));
    assert!(undone.contains("undone: what was folded from") && nothing.contains("no compaction to undo"));
    let [.., hidden, shown] = &sent[..] else { panic!("{sent:?}") };
    let long_ago = &long_lines(4)[3];
    assert!(!hidden.contains(long_ago), "the compaction hid it: {hidden}");
    assert!(shown.contains(long_ago) && shown.contains("what now?"), "it is there again: {shown}");
    let tokens: Vec<u64> = of(&events, "context").iter().filter_map(|told| told["tokens"].as_u64()).collect();
    let [.., full, compacted, _context, _turn, undone, _again, _last, _end] = tokens[..] else {
        panic!("{tokens:?}")
    };
    assert!(compacted < full && undone > compacted, "{tokens:?}");
}

#[test]
fn the_model_of_the_chat_writes_the_summary_unless_it_leaves_out_what_matters() {
    let rules = |index: usize| format!("please never touch file f{index}.rs again.\n");
    let told: String = (0..24).map(rules).collect();
    for (summary, written_by, refused) in [(told.as_str(), "openai:m", 0), (AGREED, "digest", 2)] {
        let (events, _) = taken_back(&[], summary);
        let compacted = of(&events, "compacted");
        assert_eq!(compacted.len(), 1, "{events:?}");
        assert_eq!(compacted[0]["written_by"], serde_json::json!([written_by]), "{events:?}");
        assert_eq!(of(&events, "no_summary").len(), refused, "{events:?}");
    }
}

/// One line that leaves no room for anything else, in a chat of 3,000 tokens.
fn too_long() -> String {
    format!("{} and that is all.", "the parser of module m7 reads one token too many; ".repeat(180))
}

#[test]
fn a_compaction_that_fails_is_told_and_the_chat_goes_on() {
    let sent = Sent::default();
    let model = sent.server(AGREED);
    // What the person said last is never shortened, and the first task would be.
    let lines = ["hello", &too_long(), "/compact", "/context", "hello again"].map(ToOwned::to_owned);
    let arguments = ["--model", &model, "--window", "3000", "--no-tools", "--backend", "digest"];
    let (events, exit) = chat(&folder(), &arguments, &lines);
    assert_eq!(exit, 0, "{events:?}");
    let answers = of(&events, "answer");
    assert_eq!(answers.len(), 3, "the chat goes on: {events:?}");
    let before = events.iter().position(|told| told["event"] == "note").unwrap();
    assert!(of(&events[..before], "compacted").is_empty(), "{events:?}");
    let told = of(&events[..before], "not_compacted");
    assert!(!told.is_empty(), "what failed is told: {events:?}");
    assert!(told.iter().all(|told| told["why"].as_str().unwrap().contains("tokens")), "{told:?}");
    let notes = notes(&events);
    let (visible, recorded) = seen(notes.last().unwrap());
    assert_eq!(visible, recorded, "nothing was changed (T8): {notes:?}");
    assert!(sent.all().last().unwrap().contains("hello again"));
}
