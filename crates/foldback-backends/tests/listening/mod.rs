//! Listens to everything that any crate logs, through `tracing` and through `log`: HTTP clients use both.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Hands every line to a function, at every level.
struct Listener<F>(F);

/// Hears everything that the whole program logs from now on. Once: with listeners of their own, threads
/// take lines away from each other.
pub(crate) fn listen<F: Fn(String) + Clone + Send + Sync + 'static>(heard: F) {
    let only = "nobody else listens in this program";
    tracing::subscriber::set_global_default(Listener(heard.clone())).expect(only);
    log::set_boxed_logger(Box::new(Listener(heard))).expect(only);
    log::set_max_level(log::LevelFilter::Trace);
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

impl<F: Fn(String) + Send + Sync + 'static> Subscriber for Listener<F> {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::of(span.metadata());
        span.record(&mut line);
        self.0(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.0(line.0);
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::of(event.metadata());
        event.record(&mut line);
        self.0(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

impl<F: Fn(String) + Send + Sync> log::Log for Listener<F> {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0(format!("log {} {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}
