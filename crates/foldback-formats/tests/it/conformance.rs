//! One corpus through every format: the fixtures beside this crate, in folders named after formats, and
//! recorded sessions of real agents.

mod count;
mod hostile;
mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldback_core::{
    Budget, CompactionBlock, Edit, EstimatingCounter, Fold, Handle, Item, LadderStrategy, Part, PlanError,
    SummarizeOlderStrategy, SummaryPlacement, Tokens, View, check, mend, plan,
};
use foldback_formats::{Committed, Conversation, Format, SessionFile, WrittenAs};
use foldback_testkit::needs::session_files;

/// Shares of a session's tokens that it is compacted to, in percent, and where the summary stands.
const TARGETS: [(u64, SummaryPlacement); 6] = [
    (50, SummaryPlacement::BeforeKept),
    (25, SummaryPlacement::BeforeKept),
    (25, SummaryPlacement::AfterTail),
    (10, SummaryPlacement::BeforeKept),
    (10, SummaryPlacement::AfterTail),
    (5, SummaryPlacement::BeforeKept),
];

fn fixtures() -> Vec<PathBuf> {
    session_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"))
}

fn read(path: &Path) -> SessionFile {
    let bytes = std::fs::read(path).unwrap();
    SessionFile::read(bytes)
        .unwrap_or_else(|error| panic!("{}: {error}\nhint: {}", path.display(), error.hint()))
}

/// So many of the fixtures' conversations are long enough to be folded.
const STANDING_COUNT_MIN: usize = 8;

/// The view in its dialect, valid: real sessions were interrupted, edited and repaired by hand.
fn valid_view(session: &SessionFile, conversation: &Conversation) -> View {
    let dialect = session.dialect();
    let transcript = conversation.transcript(Arc::new(EstimatingCounter), dialect);
    mend(&conversation.view_of(&transcript), dialect).view
}

fn parts_of<'a>(items: impl Iterator<Item = &'a Arc<Item>>) -> Vec<String> {
    let sent = items.filter(|item| !item.parts.is_empty());
    sent.flat_map(|item| item.parts.iter().map(|part| format!("{}: {part:?}", item.kind))).collect()
}

fn assert_compacts(path: &Path) {
    let session = read(path);
    for conversation in session.conversations().iter().filter(|conversation| !conversation.is_empty()) {
        let view = valid_view(&session, conversation);
        for (percent, placement) in TARGETS {
            let target = Tokens((view.tokens().0 * percent / 100).max(1));
            let name = format!("{} at {percent}% ({target} tokens, {placement:?})", path.display());
            let budget = Budget::for_target(target).unwrap();
            let ladder = LadderStrategy::new().summary_placement(placement);
            let compacted = match plan(&view, &ladder, Some(&budget)) {
                Ok(plan) => plan.apply_floor().view,
                Err(PlanError::BudgetInfeasible(error)) => {
                    assert!(view.tokens() < Tokens(20_000) || percent < 25, "{name}: {error}");
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            let committed = session.committed(conversation, &compacted, conversation.block_count());
            let items = committed.sent.iter().map(|sent| &sent.item);
            assert_eq!(check(items, session.dialect()), [], "{name}");
            assert_written_back(&name, &session, &committed, &compacted);
        }
    }
}

/// "Could resume": what the model saw last, read from the written file, is what was committed; and so
/// is the record of it.
fn assert_written_back(name: &str, session: &SessionFile, committed: &Committed<'_>, compacted: &View) {
    let conversation = committed.conversation;
    let written = session.compacted(committed);
    let is_longer = written.begins_with_session();
    assert!(!is_longer || session.format().grows_at_its_end(), "{name}: it was said to stay short");
    let bytes = written.to_bytes();
    let again = SessionFile::read(bytes.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    // An agent looks at the copies only.
    let copies = String::from_utf8(bytes).unwrap();
    let copies = copies.replace("{\"note\":{", "{\"not\":{").replace("{\"kept\":{", "{\"none\":{");
    let copies = SessionFile::read(copies.into_bytes()).unwrap();
    let format = match written.written_as {
        WrittenAs::Appended(format) => format,
        WrittenAs::Fresh(Format::GeminiCli) => Format::GeminiCli,
        WrittenAs::Fresh(_) => return assert_shown(name, &copies, committed),
    };
    assert_eq!(format, again.format(), "{name}");
    let [main, ..] = again.conversations() else { panic!("{name}: nothing to read") };
    let before: Vec<&Arc<Item>> = conversation.history().map(|recorded| &recorded.item).collect();
    let after: Vec<&Arc<Item>> = main.history().map(|recorded| &recorded.item).collect();
    assert_eq!(before.len(), after.len(), "{name}: the history is still there");
    assert!(before.iter().zip(&after).all(|(before, after)| before.parts == after.parts), "{name}");
    assert_same_record(name, &view_of(&again, main), compacted);
    if format != Format::Native {
        assert_shown(name, &copies, committed);
    }
}

fn view_of(session: &SessionFile, conversation: &Conversation) -> View {
    conversation.view_of(&conversation.transcript(Arc::new(EstimatingCounter), session.dialect()))
}

/// The first conversation of a session shows what was committed.
fn assert_shown(name: &str, session: &SessionFile, committed: &Committed<'_>) {
    let [main, ..] = session.conversations() else { panic!("{name}: nothing to read") };
    let seen = view_of(session, main);
    // What opencode does not know is copied with ids of its own.
    let is_own = |part: &String| session.format() != Format::Opencode || !part.contains("Opaque(");
    let told = |parts: Vec<String>| parts.into_iter().filter(is_own).collect::<Vec<_>>();
    let expected = told(parts_of(committed.sent.iter().map(|sent| &sent.item)));
    let found = told(parts_of(seen.items()));
    for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(expected, found, "{name}: part {index}");
    }
    assert_eq!(expected.len(), found.len(), "{name}: {:?}", &expected[found.len().min(expected.len())..]);
}

/// What a file holds of a compaction is what was committed: the same items, the same blocks, the same
/// content behind every handle, and the same view once it is undone (T5, T9).
fn assert_same_record(name: &str, read: &View, committed: &View) {
    let items =
        |view: &View| view.items().map(|item| (item.id.clone(), item.parts.clone())).collect::<Vec<_>>();
    assert_eq!(items(read), items(committed), "{name}");
    let newest = |view: &View| view.overlay().blocks().last().map(|block| CompactionBlock::clone(block));
    assert_eq!(newest(read), newest(committed), "{name}");
    for handle in handles(committed) {
        let (found, expected) = (read.recall(&handle), committed.recall(&handle));
        assert!(found.is_some() && found == expected, "{name}: {handle}");
    }
    let before = committed.undo().map(|(view, _)| view).unwrap_or_else(|| committed.clone());
    let undone = read.undo().map(|(view, _)| view).unwrap_or_else(|| read.clone());
    assert_eq!(items(&undone), items(&before), "{name}: undone");
}

/// Every handle that a view shows or that recalls something which it hides.
fn handles(view: &View) -> Vec<Handle> {
    let mut handles = Vec::new();
    for block in view.overlay().blocks() {
        handles.extend(block.edits.iter().filter_map(|edit| match edit {
            Edit::Fold(fold) => Some(fold.handle.clone()),
            Edit::Rewrite(rewrite) => Some(rewrite.handle.clone()),
            Edit::Drop(_) => None,
        }));
    }
    let summaries = view.items().filter(|item| item.summary.is_some()).flat_map(|item| &item.parts);
    for part in summaries {
        let Part::Text(text) = part else { continue };
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '@');
        let named = words.filter(|word| word.starts_with('@')).filter_map(Handle::parse);
        handles.extend(named.filter(|handle| view.recall(handle).is_some()));
    }
    handles
}

/// `[…tail, summary]` in a file of every agent: the same view and the same record.
#[test]
fn a_summary_after_the_tail_is_written_and_read_again() {
    let strategy = SummarizeOlderStrategy::new(3).summary_placement(SummaryPlacement::AfterTail);
    let mut standing_count = 0;
    for path in fixtures() {
        let session = read(&path);
        let name = format!("{} after its tail", path.display());
        for conversation in session.conversations().iter().filter(|conversation| !conversation.is_empty()) {
            let view = valid_view(&session, conversation);
            let compacted = plan(&view, &strategy, None).unwrap().apply_floor().view;
            let folds = compacted.overlay().blocks().last().into_iter().flat_map(|block| block.folds());
            let stands = |(fold, _): &(&Fold, _)| fold.spec.placement == SummaryPlacement::AfterTail;
            standing_count += folds.filter(stands).count();
            let committed = session.committed(conversation, &compacted, conversation.block_count());
            let items = committed.sent.iter().map(|sent| &sent.item);
            assert_eq!(check(items, session.dialect()), [], "{name}");
            assert_written_back(&name, &session, &committed, &compacted);
        }
    }
    assert!(standing_count >= STANDING_COUNT_MIN, "only {standing_count} stood after a tail");
}

/// Items, calls and results are as many as an independent count finds.
fn assert_counted(path: &Path) {
    let session = read(path);
    let found: Vec<count::Counts> = session
        .conversations()
        .iter()
        .map(|conversation| count::of_conversation(session.format(), conversation))
        .collect();
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
