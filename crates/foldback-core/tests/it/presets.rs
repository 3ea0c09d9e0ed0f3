//! What each preset decides: when it compacts, what survives, in which order and at which size, as
//! the system it is named after does. Where foldback's rules keep more, the test's name says so.

mod survivors;
mod tools;
mod triggers;

use std::sync::Arc;

use foldback_core::*;

fn policy(name: &str) -> Policy {
    Policy::named(name).expect("a preset")
}

/// One token for each word, so that sizes in these tests are what they say.
#[derive(Debug)]
struct WordCounter;

impl TokenCounter for WordCounter {
    fn name(&self) -> &str {
        "words"
    }
    fn count(&self, text: &str) -> Tokens {
        Tokens(text.split_whitespace().count() as u64)
    }
    fn precision(&self) -> Precision {
        Precision::Exact
    }
}

/// So many tokens of text, without line ends.
fn words(tokens: usize) -> String {
    "word ".repeat(tokens).trim_end().to_owned()
}

/// The view after one compaction under a preset, for a window.
fn compacted_in(view: &View, name: &str, room: Room) -> View {
    let policy = policy(name);
    let budget = policy.budget(room).expect("the window is large enough");
    let strategy = policy.strategy();
    let plan = plan(view, &*strategy, Some(&budget)).expect("the kernel fits");
    let after = plan.apply_floor().view;
    for dialect in Dialect::ALL {
        assert_eq!(check(after.items(), Some(dialect)), [], "{name} for {dialect:?}\n{}", after.shape());
    }
    after
}

fn compacted(transcript: &Transcript, name: &str) -> View {
    compacted_in(&View::of(transcript), name, Room::new(Tokens(200_000)))
}

/// One word for each item: the kind's first letter and its number in the record, `S` for a summary.
fn order(view: &View) -> String {
    let label = |entry: &Entry| match (entry.item().summary.is_some(), entry.kind()) {
        (true, _) => "S".to_owned(),
        (false, kind) => format!("{}{}", &kind.as_str()[..1], entry.anchor()),
    };
    view.iter().map(label).collect::<Vec<_>>().join(" ")
}

fn range(letters: &str, indices: std::ops::Range<usize>) -> String {
    let letter = |index: usize| &letters[index % letters.len()..][..1];
    indices.map(|index| format!("{}{index}", letter(index))).collect::<Vec<_>>().join(" ")
}

fn push_round(transcript: &mut Transcript, output: &str) {
    let call = format!("c{}", transcript.len());
    let part = Part::call(call.as_str(), "run", &serde_json::json!({"n": transcript.len()}));
    transcript.push(Item::assistant(format!("i{}", transcript.len()), vec![part]));
    transcript.push(Item::tool(format!("i{}", transcript.len()), ToolResult::text(call, output)));
}

fn push_user(transcript: &mut Transcript, text: &str) {
    transcript.push(Item::user(format!("i{}", transcript.len()), text));
}

fn push_answer(transcript: &mut Transcript, text: &str) {
    transcript.push(Item::assistant(format!("i{}", transcript.len()), vec![Part::text(text)]));
}

/// Instructions and nothing else.
fn begun() -> Transcript {
    let mut transcript = Transcript::new(Arc::new(WordCounter));
    transcript.push(Item::text("i0", ItemKind::System, "You are careful."));
    transcript
}

/// The text of a result or a message.
fn text_at(view: &View, anchor: usize) -> String {
    let entry = view.iter().find(|entry| entry.anchor() == anchor && entry.item().summary.is_none());
    let part = entry.and_then(|entry| entry.item().parts.first()).expect("it is visible and has a part");
    match part {
        Part::Text(text) => text.to_string(),
        Part::ToolResult(result) => match result.content.as_slice() {
            [ResultPart::Text(text)] => text.to_string(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}
