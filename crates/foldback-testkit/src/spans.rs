//! What a program tells `tracing`, kept for tests to look at.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Fields by name, as text.
pub type FieldValues = BTreeMap<String, String>;

/// Every span with the fields that were recorded last, and every event, in the order they began. Clones
/// keep the same.
#[derive(Clone, Debug, Default)]
pub struct Spans(Arc<Mutex<Vec<(String, FieldValues)>>>);

impl Spans {
    fn lock(&self) -> MutexGuard<'_, Vec<(String, FieldValues)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fields of every span of this name; events are called `event`.
    pub fn all_named(&self, name: &str) -> Vec<FieldValues> {
        let spans = self.lock();
        spans.iter().filter(|(of, _)| of == name).map(|(_, fields)| fields.clone()).collect()
    }

    /// The fields of the first span of this name; panics with all there are where there is none.
    pub fn named(&self, name: &str) -> FieldValues {
        let first = self.all_named(name).into_iter().next();
        first.unwrap_or_else(|| panic!("no {name} in {:?}", self.lock()))
    }
}

struct Fields<'f>(&'f mut FieldValues);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = FieldValues::new();
        span.record(&mut Fields(&mut fields));
        let mut spans = self.lock();
        spans.push((span.metadata().name().to_owned(), fields));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let index = usize::try_from(span.into_u64()).expect("ids are places in a list") - 1;
        values.record(&mut Fields(&mut self.lock()[index].1));
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = FieldValues::new();
        event.record(&mut Fields(&mut fields));
        self.lock().push(("event".to_owned(), fields));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
