//! Any bytes as native JSONL: either an error that can be printed, or items that can be indexed and that
//! come back as they were written.
#![no_main]

use std::sync::Arc;

use foldback_core::{Dialect, EstimatingCounter, Item, Transcript, TurnMap};
use foldback_formats::{Conversation, Format, Sent, SessionFile, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let session = match SessionFile::read_as(Format::Native, bytes.to_vec()) {
        Ok(session) => session,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let items = items(&session);
    let written = write(Format::Native, &Sent::new(items.iter().cloned()), None)
        .expect("a native file holds every item");
    let read =
        SessionFile::read_as(Format::Native, written.to_bytes()).expect("what foldback writes, it reads");
    assert_eq!(self::items(&read), items);

    let turns = TurnMap::from_messages(&items);
    assert!(turns.turn_count() <= items.len());
    for dialect in [None].into_iter().chain(Dialect::ALL.map(Some)) {
        index(&items, dialect);
    }
});

fn items(session: &SessionFile) -> Vec<Arc<Item>> {
    let recorded = session.conversations().iter().flat_map(Conversation::recorded);
    recorded.map(|recorded| Arc::clone(&recorded.item)).collect()
}

fn index(items: &[Arc<Item>], dialect: Option<Dialect>) {
    let counter = Arc::new(EstimatingCounter);
    let mut transcript = match dialect {
        Some(dialect) => Transcript::for_dialect(counter, dialect),
        None => Transcript::new(counter),
    };
    for item in items {
        let tokens_before = transcript.tokens();
        transcript.push(Arc::clone(item));
        assert!(transcript.tokens() >= tokens_before);
    }
    let item_count = transcript.len();
    assert_eq!(transcript.tokens_of(0..item_count), transcript.tokens());
    assert!(transcript.anomalies().len() <= item_count + call_and_result_count(items));
    let in_flight = transcript.loop_in_flight();
    assert!(in_flight.is_none_or(|range| range.start < range.end && range.end == item_count));
    assert!(transcript.pending_calls().all(|(item_index, _)| item_index < item_count));
    assert!(transcript.cuts().all(|cut| transcript.unit_start(cut) == cut));
}

fn call_and_result_count(items: &[Arc<Item>]) -> usize {
    items.iter().map(|item| item.calls().count() + item.results().count()).sum()
}
