//! One corpus through every format: the fixtures beside this crate, in folders named after formats, and
//! recorded sessions of real agents.

mod count;
mod hostile;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldback_core::{
    Budget, EstimatingCounter, Item, LadderStrategy, PlanError, Tokens, View, check, plan, repair,
};
use foldback_formats::{Conversation, Format, Session, WrittenAs};
use foldback_testkit::needs::session_files;

/// Shares of a session's tokens that it is compacted to, in percent.
const TARGETS: [u64; 4] = [50, 25, 10, 5];

fn fixtures() -> Vec<PathBuf> {
    session_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"))
}

fn read(path: &Path) -> Session {
    let bytes = std::fs::read(path).unwrap();
    Session::read(bytes).unwrap_or_else(|error| panic!("{}: {error}\nhint: {}", path.display(), error.hint()))
}

/// The view in its dialect, valid: real sessions were interrupted, edited and repaired by hand.
fn valid_view(session: &Session, conversation: &Conversation) -> View {
    let dialect = session.dialect();
    let transcript = conversation.transcript(Arc::new(EstimatingCounter), dialect);
    let view = conversation.view_of(&transcript);
    if check(view.items(), dialect).is_empty() {
        return view;
    }
    let items: Vec<Arc<Item>> = view.items().cloned().collect();
    let repaired = repair(&items, dialect);
    View::of(&repaired.items.into_iter().collect())
}

fn parts_of<'a>(items: impl Iterator<Item = &'a Arc<Item>>) -> Vec<String> {
    let sent = items.filter(|item| !item.parts.is_empty());
    sent.flat_map(|item| item.parts.iter().map(|part| format!("{}: {part:?}", item.kind))).collect()
}

fn assert_compacts(path: &Path) {
    let session = read(path);
    for conversation in session.conversations().iter().filter(|conversation| !conversation.is_empty()) {
        let view = valid_view(&session, conversation);
        for percent in TARGETS {
            let target = Tokens((view.tokens().0 * percent / 100).max(1));
            let name = format!("{} at {percent}% ({target} tokens)", path.display());
            let budget = Budget::for_target(target).unwrap();
            let compacted = match plan(&view, &LadderStrategy::new(), Some(&budget)) {
                Ok(plan) => plan.apply_floor().view,
                Err(PlanError::BudgetInfeasible(error)) => {
                    assert!(view.tokens() < Tokens(20_000) || percent < 25, "{name}: {error}");
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            let items = session.arrange(compacted.items().cloned().collect());
            assert_eq!(check(&items, session.dialect()), [], "{name}");
            assert_written_back(&name, &session, conversation, &items);
        }
    }
}

/// "Could resume": what the model saw last, read from the written file, is what was committed.
fn assert_written_back(name: &str, session: &Session, conversation: &Conversation, items: &[Arc<Item>]) {
    let written = session.compacted(conversation, items);
    let is_longer = written.begins_with_session();
    assert!(!is_longer || session.format().grows_at_its_end(), "{name}: it was said to stay short");
    let again = Session::read(written.to_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let [main, ..] = again.conversations() else { panic!("{name}: nothing to read") };
    let transcript = main.transcript(Arc::new(EstimatingCounter), session.dialect());
    let seen = main.view_of(&transcript);
    let (expected, found) = (parts_of(items.iter()), parts_of(seen.items()));
    for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(expected, found, "{name}: part {index}");
    }
    assert_eq!(expected.len(), found.len(), "{name}: {:?}", &expected[found.len().min(expected.len())..]);
    if let WrittenAs::Appended(format) = written.written_as {
        assert_eq!(format, again.format(), "{name}");
        let before: Vec<&Arc<Item>> = conversation.history().map(|recorded| &recorded.item).collect();
        let after: Vec<&Arc<Item>> = main.history().map(|recorded| &recorded.item).collect();
        assert_eq!(before.len(), after.len(), "{name}: the history is still there");
        assert!(before.iter().zip(&after).all(|(before, after)| before.parts == after.parts), "{name}");
    }
}

/// Items, calls and results are as many as an independent count finds.
fn assert_counted(path: &Path) {
    let session = read(path);
    let found: Vec<count::Counts> = session.conversations().iter().map(count::of_conversation).collect();
    let expected = count::of_bytes(session.format(), session.bytes());
    assert_eq!(found, expected, "{}", path.display());
}

#[test]
fn every_fixture_is_recognised_by_its_content() {
    for path in fixtures() {
        let folder = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")).unwrap();
        let expected = folder.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
        assert_eq!(read(&path).format().as_str(), expected, "{}", path.display());
    }
}

#[test]
fn every_format_has_a_fixture() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for format in Format::ALL {
        assert!(!session_files(&folders.join(format.as_str())).is_empty(), "{format}");
    }
}

#[test]
fn items_calls_and_results_are_as_many_as_an_independent_count_finds() {
    fixtures().iter().for_each(|path| assert_counted(path));
}

#[test]
fn every_fixture_is_compacted_and_read_again() {
    fixtures().iter().for_each(|path| assert_compacts(path));
}

/// The same on sessions that agents recorded.
mod recorded {
    use foldback_testkit::needs;

    use super::*;

    #[test]
    #[ignore = "needs recorded sessions"]
    fn every_session_is_read_and_counted() {
        for path in session_files(&needs::sessions()) {
            let items: usize = read(&path).conversations().iter().map(Conversation::len).sum();
            assert!(items > 0, "{}", path.display());
            assert_counted(&path);
        }
    }

    #[test]
    #[ignore = "needs recorded sessions"]
    fn every_session_is_compacted_and_read_again() {
        session_files(&needs::sessions()).iter().for_each(|path| assert_compacts(path));
    }
}
