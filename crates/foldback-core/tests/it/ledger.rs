//! The ledger from outside: which facts it finds in made-up conversations, and what it says became
//! of them.

mod kinds;
mod properties;

use foldback_core::ledger::{Detail, Fact};
use foldback_core::{FactKind, Ledger};
use foldback_testkit::fixture;

/// The ledger of a conversation in the fixture language.
fn ledger(text: &str) -> Ledger {
    Ledger::of(&fixture::transcript(text))
}

fn texts(ledger: &Ledger, kind: FactKind) -> Vec<&str> {
    ledger.of_kind(kind).map(|fact| &*fact.text).collect()
}

fn fact<'l>(ledger: &'l Ledger, kind: FactKind, text: &str) -> &'l Fact {
    let all = texts(ledger, kind);
    ledger.get(kind, text).unwrap_or_else(|| panic!("{text:?} is not among {all:?}"))
}

fn detail<'l>(ledger: &'l Ledger, kind: FactKind, text: &str) -> &'l Detail {
    &fact(ledger, kind, text).detail
}
