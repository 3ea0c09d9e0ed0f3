//! Everything that any crate logs, searched for keys.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// How every key of the test begins.
pub(crate) const KEY_START: &str = "sk-never-log-";

/// Leaks that are kept; the first ones say enough.
const LEAKS_MAX: usize = 10;

static COUNT: AtomicU64 = AtomicU64::new(0);
static LEAKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens to all that is logged from now on.
pub(crate) fn listen() {
    tracing::subscriber::set_global_default(Listener).expect("there is one test in this program");
}

/// How many lines were searched.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// The lines with a key in them.
pub(crate) fn leaks() -> Vec<String> {
    LEAKS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Looks at a text, whoever wrote it.
pub(crate) fn search(text: String) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    if text.contains(KEY_START) {
        let mut leaks = LEAKS.lock().unwrap_or_else(PoisonError::into_inner);
        if leaks.len() < LEAKS_MAX {
            leaks.push(text);
        }
    }
}

struct Listener;

/// All fields of a line as text.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

fn search_fields(target: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
    let mut line = Line(format!("{} {} ", target.target(), target.name()));
    record(&mut line);
    search(line.0);
}

impl Subscriber for Listener {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        search_fields(span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        let mut line = Line::default();
        values.record(&mut line);
        search(line.0);
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        search_fields(event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
