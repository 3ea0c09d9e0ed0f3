//! Which counter counts, and transcripts counted on all cores.

use std::sync::Arc;

use foldback_core::{Dialect, EstimatingCounter, Item, TokenCounter, Transcript};
use foldback_tokens::{BpeCounter, Encoding, count_items};

use crate::args::{CounterName, Shared};

/// The counter that was asked for, or the one of the model that was named, or o200k: the same for
/// every session, so that figures can be compared.
pub(crate) fn counter(shared: &Shared) -> Arc<dyn TokenCounter> {
    let of_model = || shared.model.as_deref().and_then(Encoding::for_model).unwrap_or(Encoding::O200k);
    match shared.counter {
        Some(CounterName::Estimate) => Arc::new(EstimatingCounter),
        Some(CounterName::O200k) => Arc::new(BpeCounter::new(Encoding::O200k)),
        Some(CounterName::Cl100k) => Arc::new(BpeCounter::new(Encoding::Cl100k)),
        None => Arc::new(BpeCounter::new(of_model())),
    }
}

/// The items as a transcript.
pub(crate) fn transcript(
    counter: &Arc<dyn TokenCounter>,
    dialect: Option<Dialect>,
    items: &[Arc<Item>],
) -> Transcript {
    let mut transcript = match dialect {
        Some(dialect) => Transcript::for_dialect(Arc::clone(counter), dialect),
        None => Transcript::new(Arc::clone(counter)),
    };
    let meter = transcript.meter().clone();
    count_items(&meter, items, |item, tokens| transcript.push_counted(Arc::clone(item), tokens.clone()));
    transcript
}
