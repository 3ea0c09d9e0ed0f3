//! Listens to everything that any crate logs, through `tracing` and through `log`: HTTP clients use both.

use std::fmt::{self, Write};
use std::sync::{Once, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Somebody who wants every line.
type Heard = Box<dyn Fn(&str) + Send + Sync>;

static ALL: RwLock<Vec<Heard>> = RwLock::new(Vec::new());

/// Passes on every line, at every level.
struct Listener;

/// Hears everything that the whole program logs from now on, beside whoever listens already.
pub(crate) fn listen(heard: impl Fn(&str) + Send + Sync + 'static) {
    static BEGUN: Once = Once::new();
    ALL.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(heard));
    BEGUN.call_once(|| {
        let only = "nothing else listens in this program";
        tracing::subscriber::set_global_default(Listener).expect(only);
        log::set_logger(&Listener).expect(only);
        log::set_max_level(log::LevelFilter::Trace);
    });
}

fn pass_on(line: &str) {
    ALL.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|heard| heard(line));
}

/// All fields of a line as text.
struct Line(String);

impl Line {
    fn of(metadata: &Metadata<'_>) -> Self {
        Self(format!("{} {} ", metadata.target(), metadata.name()))
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::of(span.metadata());
        span.record(&mut line);
        pass_on(&line.0);
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        pass_on(&line.0);
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::of(event.metadata());
        event.record(&mut line);
        pass_on(&line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

impl log::Log for Listener {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        pass_on(&format!("log {} {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}
