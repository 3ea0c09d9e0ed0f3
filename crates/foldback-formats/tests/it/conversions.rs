//! From one dialect to another and back: every part that both can hold is still there.

use std::path::Path;
use std::sync::Arc;

use foldback_core::{Dialect, Item, ItemKind, Part, ResultPart, repair};
use foldback_formats::{Format, Sent, SessionFile, write};
use foldback_testkit::needs::session_files;
use foldback_testkit::recipe;
use proptest::prelude::*;

/// The items as a body of this format, read again, and the ids of those that lost something.
fn through(format: Format, items: &[Arc<Item>]) -> (Vec<Arc<Item>>, Vec<String>) {
    let written = write(format, &Sent::new(items.iter().cloned()), None).unwrap();
    let text = String::from_utf8_lossy(&written.to_bytes()).into_owned();
    let session =
        SessionFile::read_as(format, written.to_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(session.problems(), [], "{text}");
    let [conversation] = session.conversations() else { panic!("{format}: one conversation") };
    let read = conversation.recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect();
    (read, written.losses.iter().map(|loss| loss.item_id.to_string()).collect())
}

/// All parts in words, instructions first: two dialects hold them in a field of their own, where
/// system and developer are one. Empty text in a result is none.
fn parts<'a>(items: impl Iterator<Item = &'a Arc<Item>> + Clone) -> Vec<String> {
    let instructions = items.clone().filter(|item| item.kind.is_instruction());
    let all = instructions.chain(items.filter(|item| !item.kind.is_instruction()));
    all.flat_map(|item| item.parts.iter().map(|part| shown(item, part))).collect()
}

fn shown(item: &Item, part: &Part) -> String {
    let kind = if item.kind.is_instruction() { ItemKind::System } else { item.kind };
    let mut part = part.clone();
    if let Part::ToolResult(result) = &mut part {
        result.content.retain(|piece| !matches!(piece, ResultPart::Text(text) if text.is_empty()));
    }
    format!("{kind}: {part:?}")
}

/// Checks that `wanted` is a subsequence of `found`.
fn first_missing(wanted: &[String], found: &[String]) -> Option<String> {
    let mut rest = found.iter();
    wanted.iter().find(|part| !rest.any(|other| other == *part)).cloned()
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    #[test]
    fn what_both_dialects_can_hold_survives_there_and_back(
        recipe in recipe::orderly(),
        one in prop::sample::select(Dialect::ALL.to_vec()),
        other in prop::sample::select(Dialect::ALL.to_vec()),
    ) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let valid = repair(&items, Some(one)).items;
        // What is read from one dialect is what that dialect can hold.
        let (start, _) = through(one.into(), &valid);
        let (there, lost) = through(other.into(), &start);
        let (back, _) = through(one.into(), &there);
        let kept = start.iter().filter(|item| !lost.iter().any(|id| *id == item.id.as_str()));
        let (wanted, found) = (parts(kept), parts(back.iter()));
        let missing = first_missing(&wanted, &found);
        prop_assert!(
            missing.is_none(),
            "{} → {} → back lost {}\nfound: {found:#?}",
            one.as_str(), other.as_str(), missing.unwrap_or_default()
        );
    }

    #[test]
    fn what_a_dialect_holds_it_holds_again(
        recipe in recipe::orderly(),
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
    ) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let valid = repair(&items, Some(dialect)).items;
        let (once, _) = through(dialect.into(), &valid);
        let (twice, lost) = through(dialect.into(), &once);
        prop_assert_eq!(lost, Vec::<String>::new());
        prop_assert_eq!(parts(once.iter()), parts(twice.iter()));
    }
}

#[test]
fn items_of_a_body_that_are_written_anew_read_as_they_were() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let formats = Dialect::ALL.iter().map(|&dialect| Format::from(dialect));
    let bodies = formats.flat_map(|format| {
        session_files(&folders.join(format.as_str())).into_iter().map(move |path| (format, path))
    });
    for (format, path) in bodies {
        let name = path.display();
        let items_of = |session: &SessionFile| -> Vec<Arc<Item>> {
            let recorded = session.conversations()[0].recorded().iter();
            recorded.map(|recorded| Arc::new(Item::clone(&recorded.item))).collect()
        };
        let session = SessionFile::read(std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(session.format(), format, "{name}");
        // Copies are not known to be what stands in the body.
        let items = items_of(&session);
        let written = write(format, &Sent::new(items.iter().cloned()), Some(&session)).unwrap();
        assert_eq!(written.losses, [], "{name}");
        let again = items_of(&SessionFile::read(written.to_bytes()).unwrap());
        let parts = |items: &[Arc<Item>]| -> Vec<(ItemKind, Part)> {
            items.iter().flat_map(|item| item.parts.iter().map(|part| (item.kind, part.clone()))).collect()
        };
        assert_eq!(parts(&again), parts(&items), "{name}");
    }
}
