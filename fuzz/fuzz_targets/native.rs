//! Any bytes: either an error that can be printed, or a document that writes the same bytes and
//! whose items can be indexed.
#![no_main]

use std::sync::Arc;

use foldback_core::{Dialect, EstimatingCounter, NativeDocument, Transcript, TurnMap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let document = match NativeDocument::parse(bytes) {
        Ok(document) => document,
        Err(error) => {
            assert!(error.line() > 0 && !error.to_string().is_empty());
            return;
        }
    };
    assert_eq!(document.to_string().as_bytes(), bytes);

    let rewritten = NativeDocument::from_items(document.items().cloned()).to_string();
    let read = NativeDocument::parse(rewritten.as_bytes()).expect("what foldback writes, it reads");
    assert_eq!(read.to_string(), rewritten);

    let turns = TurnMap::from_messages(document.items());
    assert!(turns.turn_count() <= document.items().count());
    for dialect in [None].into_iter().chain(Dialect::ALL.map(Some)) {
        index(&document, dialect);
    }
});

fn index(document: &NativeDocument, dialect: Option<Dialect>) {
    let counter = Arc::new(EstimatingCounter);
    let mut transcript = match dialect {
        Some(dialect) => Transcript::for_dialect(counter, dialect),
        None => Transcript::new(counter),
    };
    for item in document.items() {
        let tokens_before = transcript.tokens();
        transcript.push(Arc::clone(item));
        assert!(transcript.tokens() >= tokens_before);
    }
    let item_count = transcript.len();
    assert_eq!(transcript.tokens_of(0..item_count), transcript.tokens());
    assert!(transcript.anomalies().len() <= item_count + call_and_result_count(document));
    let in_flight = transcript.loop_in_flight();
    assert!(in_flight.is_none_or(|range| range.start < range.end && range.end == item_count));
    assert!(transcript.pending_calls().all(|(item_index, _)| item_index < item_count));
    assert!(transcript.cuts().all(|cut| transcript.unit_start(cut) == cut));
}

fn call_and_result_count(document: &NativeDocument) -> usize {
    document.items().map(|item| item.calls().count() + item.results().count()).sum()
}
