//! What a chat shows: answers on stdout, everything else on stderr, one line for each event; with
//! `--json`, all of it on stdout as JSON lines.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldback_core::{TokenBounds, Tokens};
use foldback_engine::{CompactionEvent, CompactionEventKind, CompactionObserver, CompactionReport};
use foldback_loop::{AgentEvent, LoopError, TurnResult};
use serde_json::{Value, json};

use crate::backend::Route;
use crate::terminal::{self, BLUE, CYAN, FAINT, GREEN, RED, STRONG, YELLOW, harmless, number, say, styled};

/// Cells of the bar that shows how full the context is.
const BAR_CELLS: u64 = 24;

/// Characters of a tool's input or output that a line shows.
const GLANCE_CHARS: usize = 72;

/// How full the context is when the bar turns yellow, and red.
const PERCENT_YELLOW: u64 = 60;
const PERCENT_RED: u64 = 85;

/// Who is looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A person: answers appear as they are written.
    Person,
    /// A pipe: answers appear whole.
    Pipe,
    /// A script.
    Script,
}

/// Shows what happens. Clones show it in the same place.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    reader: Reader,
    window: Tokens,
    is_quiet: bool,
    /// The newest character of an answer whose line is not at its end.
    mid_line: Arc<Mutex<Option<char>>>,
}

impl Screen {
    pub(super) fn new(reader: Reader, window: Tokens, is_quiet: bool) -> Self {
        Self { reader, window, is_quiet, mid_line: Arc::default() }
    }

    /// A line about what happens, or the same for a script.
    fn tell(&self, line: impl FnOnce() -> String, event: impl FnOnce() -> Value) {
        match self.reader {
            Reader::Script => self.print(&format!("{}\n", event())),
            Reader::Person | Reader::Pipe if self.is_quiet => {}
            Reader::Person | Reader::Pipe => {
                self.end_line();
                say(&line());
            }
        }
    }

    /// Whoever closed stdout does not want to know; the next turn is not for them either, but what
    /// they typed is.
    fn print(&self, text: &str) {
        let mut stdout = terminal::data();
        let _closed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }

    fn mid_line(&self) -> MutexGuard<'_, Option<char>> {
        self.mid_line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_line(&self) {
        if self.mid_line().take().is_some() {
            self.print("\n");
        }
    }

    pub(super) fn prompt(&self) {
        if self.reader == Reader::Person {
            self.end_line();
            terminal::whisper(&format!("{} ", styled(STRONG, ">")));
        }
    }

    /// Where everything goes that is said, before anything is.
    pub(super) fn sends_to(&self, route: &Route) {
        match self.reader {
            Reader::Script => self.tell(String::new, || {
                json!({
                    "event": "sends_to",
                    "address": route.address,
                    "model": route.model,
                    "key_from": route.key_variable,
                    "chosen_by": route.chosen_by,
                })
            }),
            Reader::Person | Reader::Pipe => route.tell(self.is_quiet),
        }
    }

    /// A question of a tool.
    pub(super) fn ask(&self, question: &str) {
        self.end_line();
        terminal::whisper(&format!("{} {question}? [y/N] ", styled(YELLOW, "allow:")));
    }

    /// Something that a command says.
    pub(super) fn note(&self, text: &str) {
        self.tell(|| text.to_owned(), || json!({"event": "note", "text": text}));
    }

    /// A compaction that failed, whoever asked for it; the view is what it was.
    pub(super) fn not_compacted(&self, why: &str) {
        self.tell(
            || format!("{} {}", styled(RED, "not compacted:"), harmless(why)),
            || json!({"event": "not_compacted", "why": why}),
        );
    }

    /// How full the context is.
    pub(super) fn context(&self, tokens: TokenBounds) {
        let (used, window) = (tokens.estimate.0, self.window.0);
        self.tell(|| meter(used, window), || json!({"event": "context", "tokens": used, "window": window}));
    }

    pub(super) fn event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::TextDelta { text } if self.reader == Reader::Person => {
                let mut mid_line = self.mid_line();
                let _closed = terminal::show_behind(*mid_line, text);
                *mid_line = text.chars().next_back().or(*mid_line);
            }
            AgentEvent::ModelRetried { attempt, why, wait } => self.tell(
                || {
                    let wait = wait.as_secs_f64();
                    format!("{} {}; asking again in {wait:.1} s", styled(YELLOW, "retry:"), harmless(why))
                },
                || json!({"event": "retry", "attempt": attempt, "why": why}),
            ),
            AgentEvent::RequestRejected { limit, tokens, .. } => self.tell(
                || {
                    let tokens = number(tokens.estimate.0);
                    let limit = limit.map_or_else(String::new, |limit| {
                        format!(", the server holds {}", number(limit.0))
                    });
                    format!("{} the request was too long: {tokens} tokens{limit}", styled(RED, "rejected:"))
                },
                || json!({"event": "rejected", "tokens": tokens.estimate.0, "limit": limit.map(|limit| limit.0)}),
            ),
            AgentEvent::ToolStarted { name, input, .. } => self.tell(
                || format!("{} {} {}", styled(CYAN, "tool:"), harmless(name), glance(input)),
                || json!({"event": "tool", "name": name.as_str(), "input": input.as_str()}),
            ),
            AgentEvent::MutationFinished { failure: Some(why), .. } => self.not_compacted(why),
            _ => {}
        }
    }

    /// The end of a turn.
    pub(super) fn turn(&self, turn: &Result<TurnResult, LoopError>) {
        match (turn, self.reader) {
            (Ok(_), Reader::Person) => self.end_line(),
            (Ok(result), Reader::Pipe) => self.print(&format!("{}\n", result.text)),
            (Ok(result), Reader::Script) => {
                let (rounds, calls) = (result.round_count, result.call_count);
                let event = json!({"event": "answer", "text": result.text, "rounds": rounds, "calls": calls});
                self.print(&format!("{event}\n"));
            }
            (Err(error), _) => {
                let why = with_sources(error);
                self.tell(
                    || format!("{} {}", styled(terminal::ERROR, "error:"), harmless(&why)),
                    || json!({"event": "failed", "why": why}),
                );
            }
        }
    }
}

/// What went wrong, with what led to it.
fn with_sources(error: &LoopError) -> String {
    let mut told = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        told = format!("{told}: {error}");
        source = error.source();
    }
    told
}

impl CompactionObserver for Screen {
    fn on_event(&self, event: &CompactionEvent) {
        match &event.kind {
            CompactionEventKind::CompactionStarted { reason, tokens_before, .. } => self.tell(
                || {
                    let tokens = number(tokens_before.0);
                    styled(FAINT, format!("compacting {tokens} tokens: {reason}"))
                },
                || json!({"event": "compacting", "reason": reason.to_string(), "tokens": tokens_before.0}),
            ),
            CompactionEventKind::SummaryRefused { backend, why, retry_in } => self.tell(
                || {
                    let next = match retry_in {
                        Some(_) => "asking again",
                        None => "the digest answers",
                    };
                    let told = harmless(&format!("{backend}: {why}"));
                    format!("{} {told}; {next}", styled(YELLOW, "no summary:"))
                },
                || json!({"event": "no_summary", "backend": backend, "why": why.to_string()}),
            ),
            CompactionEventKind::CompactionEnded(report) => {
                self.tell(|| compacted(report), || compacted_event(report));
            }
            // Of a failure the loop tells why; a request that does not fit ends the turn.
            _ => {}
        }
    }
}

fn compacted(report: &CompactionReport) -> String {
    let (before, after) = (number(report.tokens_before.0), number(report.tokens_after.0));
    let by = match report.written_by.is_empty() {
        true => String::new(),
        false => format!(", summary by {}", report.written_by.join(", ")),
    };
    let cost = report.cost.map_or_else(String::new, |dollars| format!(", ${dollars:.4}"));
    let label = styled(BLUE, "compacted:");
    let prefix = number(report.prefix_tokens_kept.0);
    let items = terminal::counted(report.replaced_items, "item");
    format!(
        "{label} {before} → {after} tokens, {items} replaced, {prefix} tokens of prefix kept{by}{cost}, {:.1} s",
        report.duration.as_secs_f64()
    )
}

fn compacted_event(report: &CompactionReport) -> Value {
    json!({
        "event": "compacted",
        "reason": report.reason.to_string(),
        "strategy": report.strategy,
        "tokens_before": report.tokens_before.0,
        "tokens_after": report.tokens_after.0,
        "replaced_items": report.replaced_items,
        "prefix_tokens_kept": report.prefix_tokens_kept.0,
        "written_by": report.written_by,
        "cost": report.cost,
    })
}

/// A bar, and the figures beside it.
fn meter(used: u64, window: u64) -> String {
    let percent = (used * 100).checked_div(window).unwrap_or(100);
    let filled = (used * BAR_CELLS).div_ceil(window.max(1)).min(BAR_CELLS);
    let cells = |cell: &str, count: u64| cell.repeat(usize::try_from(count).unwrap_or_default());
    let style = match percent {
        PERCENT_RED.. => RED,
        PERCENT_YELLOW.. => YELLOW,
        _ => GREEN,
    };
    let bar = styled(style, cells("█", filled));
    let rest = styled(FAINT, cells("░", BAR_CELLS - filled));
    format!("context: {bar}{rest} {} of {} tokens, {percent}%", number(used), number(window))
}

/// The beginning of a text, on one line.
fn glance(text: &str) -> String {
    let line = harmless(&text.chars().take(GLANCE_CHARS).collect::<String>());
    match text.chars().nth(GLANCE_CHARS) {
        Some(_) => format!("{line}…"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;

    #[test]
    fn the_meter_is_full_only_where_the_window_is() {
        let plain = |used, window| strip_str(&meter(used, window)).to_string();
        assert!(plain(0, 16_000).contains(&"░".repeat(24)));
        assert!(plain(8_000, 16_000).contains("████████████░░░░░░░░░░░░ 8,000 of 16,000 tokens, 50%"));
        assert!(plain(20_000, 16_000).contains(&"█".repeat(24)));
        assert!(plain(5, 0).contains("100%"));
    }

    #[test]
    fn what_a_tool_is_given_is_shown_on_one_line() {
        assert_eq!(strip_str(&glance("a\nb\u{1b}[2J")).to_string(), "a\\nb\\u{1b}[2J");
        assert_eq!(glance(&"x".repeat(100)).chars().count(), GLANCE_CHARS + 1);
    }
}
