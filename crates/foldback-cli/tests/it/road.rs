//! One road: with a model that fails and without one, written or not, `compact` does and reports the same.

use std::sync::Arc;

use foldback_core::{Budget, Edit, EstimatingCounter, Item, Metadata, Policy, Tokens, Transcript};
use foldback_engine::session::StoredSession;
use foldback_engine::{CompactionRequest, Outcome, Store, compact};
use foldback_formats::SessionFile;
use foldback_store::SqliteStore;
use foldback_testkit::server::{Answer, Said, Server, Spoken, required};

use super::*;

const TARGETS: [u64; 3] = [500, 1_500, 4_000];

/// The report without what only says who was asked and where it was written.
fn done(report: &Value) -> Value {
    let mut report = report.clone();
    report["written"] = Value::Null;
    report.as_object_mut().unwrap().remove("would_write");
    if let Some(conversations) = report["conversations"].as_array_mut() {
        for told in conversations.iter_mut().filter_map(Value::as_object_mut) {
            told.remove("backend");
        }
    }
    report
}

#[test]
fn a_model_that_always_fails_a_dry_run_and_no_model_report_the_same_compaction() {
    let url = Server::apart(|_| Answer::status(401).body("no"));
    let backend = format!("openai:{url}/v1#some-model");
    let folder = folder();
    let (alone, asked) = (at(&folder, "alone.jsonl"), at(&folder, "asked.jsonl"));
    for policy in Policy::names() {
        for target in TARGETS {
            let target = target.to_string();
            let flags = ["compact", SESSION, "--json", "--quiet", "--policy", policy, "--target", &target];
            let with = |more: &[&str]| run(&[&flags[..], more].concat());
            let first = with(&["-o", &alone]);
            let second = with(&["-o", &asked, "--backend", &backend]);
            let told = format!("{policy} to {target}");
            assert_eq!(code(&first), code(&second), "{told}: {}", text(&second.stderr));
            let dry = with(&["--dry-run"]);
            assert_eq!(code(&first), code(&dry), "{told}");
            if code(&first) != 0 {
                continue;
            }
            let (first, second, dry) = (json(&first), json(&second), json(&dry));
            assert_eq!(done(&first), done(&second), "{told}");
            assert_eq!(done(&first), done(&dry), "{told}");
            let wrote = |path: &str| std::fs::read(path).unwrap();
            assert_eq!(wrote(&alone), wrote(&asked), "{told}");
        }
    }
}

/// What the library commits for the example session.
fn committed(policy: &Policy, target: u64) -> Option<Outcome> {
    let session = SessionFile::read(std::fs::read(SESSION).unwrap()).unwrap();
    let conversation = &session.conversations()[0];
    let mut transcript = match session.dialect() {
        Some(dialect) => Transcript::for_dialect(Arc::new(EstimatingCounter), dialect),
        None => Transcript::new(Arc::new(EstimatingCounter)),
    };
    transcript.extend(conversation.recorded().iter().map(|recorded| Arc::clone(&recorded.item)));
    let view = conversation.view_of(&transcript);
    let mut request = CompactionRequest::new("s", view, foldback_core::CompactionReason::Manual);
    request.budget = Budget::for_target(Tokens(target)).ok();
    request.dialect = session.dialect();
    compact(request.execution(policy.strategy())).ok()
}

#[test]
fn the_report_is_the_committed_block() {
    for policy in Policy::all() {
        for target in TARGETS {
            let Some(outcome) = committed(&policy, target) else { continue };
            let tokens = target.to_string();
            let flags = ["--policy", policy.name(), "--target", &tokens, "--counter", "estimate"];
            let flags = [&["compact", SESSION, "--json", "--quiet", "--dry-run"], &flags[..]].concat();
            let told = json(&run(&flags))["conversations"][0].clone();
            let name = format!("{} to {target}: {told}", policy.name());
            let [block] = &outcome.blocks[..] else {
                assert!(outcome.is_unchanged() && told["edits"] == 0, "{name}");
                continue;
            };
            assert_eq!(told["strategy"], block.strategy.as_str(), "{name}");
            assert_eq!(told["tokens_before"], block.tokens_before.0, "{name}");
            assert_eq!(told["tokens_after"], block.tokens_after.0, "{name}");
            assert!(block.tokens_after.0 <= target, "{name}");
            assert_eq!(told["edits"], block.edits.len(), "{name}");
            let writers = block.summaries.iter().flatten().filter_map(|item| item.summary.as_ref());
            let writers: Vec<&str> = writers.map(|origin| &*origin.written_by).collect();
            assert_eq!(told["written_by"], serde_json::json!(writers), "{name}");
            let ranges = |is_of: fn(&Edit) -> Vec<std::ops::Range<usize>>| {
                let ranges: Vec<_> = block.edits.iter().flat_map(is_of).collect();
                let is_in = |anchor: usize| ranges.iter().any(|range| range.contains(&anchor));
                outcome.before.iter().filter(|entry| is_in(entry.anchor())).count()
            };
            let folded = ranges(|edit| match edit {
                Edit::Fold(fold) => fold.folded().collect(),
                Edit::Drop(_) | Edit::Rewrite(_) => Vec::new(),
            });
            let dropped = ranges(|edit| match edit {
                Edit::Drop(drop) => vec![drop.range.clone()],
                Edit::Fold(_) | Edit::Rewrite(_) => Vec::new(),
            });
            assert_eq!((&told["folded"], &told["dropped"]), (&folded.into(), &dropped.into()), "{name}");
            let first = block.edits.iter().map(|edit| match edit {
                Edit::Fold(fold) => fold.folded().map(|range| range.start).min().unwrap_or(usize::MAX),
                Edit::Drop(drop) => drop.range.start,
                Edit::Rewrite(rewrite) => rewrite.item_index,
            });
            let first = first.min().unwrap();
            let first = outcome.before.iter().position(|entry| entry.anchor() >= first);
            assert_eq!(told["first_changed"], serde_json::json!(first), "{name}");
        }
    }
}

/// Two loops of talk, of which the first is an older one.
async fn two_loops(store: Arc<dyn Store>) -> StoredSession {
    let mut session = StoredSession::create(store, "talk", Metadata::new()).await.unwrap();
    for number in 0..2 {
        if number > 0 {
            session.begin_loop().await.unwrap();
        }
        let said =
            |turn| Item::user(format!("u{number}-{turn}"), "and what about src/parser.rs? ".repeat(20));
        let items: Vec<Arc<Item>> = (0..40).map(|turn| Arc::new(said(turn))).collect();
        session.append(&items).await.unwrap();
    }
    session
}

fn stored<T>(folder: &tempfile::TempDir, work: impl AsyncFnOnce(Arc<dyn Store>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(folder.path().join("sessions.db")).await.unwrap();
        work(Arc::new(store)).await
    })
}

#[test]
fn session_compact_takes_a_policy_a_target_and_a_model() {
    let url = Server::apart(|request| {
        let text = format!("## Task\nA parser was asked about.\n{}", required(request));
        Spoken::of(request).unwrap().answer(request, &Said::Text(&text))
    });
    let folder = folder();
    stored(&folder, async |store| drop(two_loops(store).await));
    let (store, backend) = (at(&folder, "sessions.db"), format!("openai:{url}/v1#some-model"));
    let asked = ["session", "compact", "talk", "--store", &store, "--target", "3000", "--json"];
    let told = json(&run(&[&asked[..], &["--policy", "goose", "--backend", &backend]].concat()));
    assert!(told["tokens_after"].as_u64().unwrap() <= 3_000, "{told}");
    assert_eq!(told["loops"], serde_json::json!(["talk-0", "talk-1"]));
    let shown = text(&run(&["session", "context", "talk", "--store", &store, "--json"]).stdout);
    assert_eq!(shown.matches("A parser was asked about.").count(), 2, "{shown}");
    let unknown = run(&["session", "compact", "talk", "--store", &store, "--policy", "gose"]);
    assert!(text(&unknown.stderr).contains("did you mean goose?"), "{}", text(&unknown.stderr));
}

#[test]
fn a_compaction_that_was_left_is_done_by_a_worker_once() {
    let folder = folder();
    stored(&folder, async |store| drop(two_loops(store).await));
    let store = at(&folder, "sessions.db");
    let later = json(&run(&["session", "compact", "talk", "--later", "--store", &store, "--json"]));
    assert_eq!(later["waits"], true);
    let work = ["session", "work", "--store", &store, "--target", "3000", "--json"];
    let done = json(&run(&work));
    assert!(done["tokens_after"].as_u64().unwrap() <= 3_000, "{done}");
    assert_eq!(text(&run(&work).stdout), "", "nothing is left");
}
