//! Tells an observer how a compaction goes, to its end however it ends.

use std::sync::Arc;

use foldback_core::Budget;
use tokio::time::Instant;

use crate::change::Change;
use crate::compaction::{CompactionError, CompactionRequest};
use crate::event::{CompactionEvent, CompactionEventKind, CompactionObserver, CompactionReport};
use crate::executor::Ran;

/// A compaction that an observer hears of. Where its future is dropped, it says so.
#[derive(Debug)]
pub(crate) struct Announced<'r> {
    request: &'r CompactionRequest,
    observer: Option<Arc<dyn CompactionObserver>>,
    started_at: Instant,
    is_over: bool,
}

impl<'r> Announced<'r> {
    pub(crate) fn new(
        request: &'r CompactionRequest,
        observer: Option<Arc<dyn CompactionObserver>>,
        started_at: Instant,
    ) -> Self {
        Self { request, observer, started_at, is_over: false }
    }

    fn emit(&self, kind: CompactionEventKind) {
        let Some(observer) = &self.observer else { return };
        let (session_id, turn_id) = (self.request.session_id.clone(), self.request.turn_id.clone());
        observer.on_event(&CompactionEvent { session_id, turn_id, kind });
    }

    pub(crate) fn started(&self, strategy: &str) {
        self.emit(CompactionEventKind::CompactionStarted {
            reason: self.request.reason.clone(),
            strategy: strategy.to_owned(),
            tokens_before: self.request.transcript.tokens(),
        });
    }

    pub(crate) fn ended(mut self, ran: &Ran, strategy: String) -> CompactionReport {
        let (before, after) = (&self.request.transcript, &ran.result.transcript);
        let Change { first_changed, prefix_tokens_kept, .. } = Change::between(before, after);
        let report = CompactionReport {
            reason: self.request.reason.clone(),
            strategy,
            tokens_before: before.tokens(),
            tokens_after: after.tokens(),
            replaced_items: ran.result.replaced_items,
            first_changed,
            prefix_tokens_kept,
            duration: self.started_at.elapsed(),
            cost: ran.cost,
            written_by: ran.written_by.clone(),
            metadata: ran.result.metadata.clone(),
        };
        self.is_over = true;
        self.emit(CompactionEventKind::CompactionEnded(report.clone()));
        report
    }

    pub(crate) fn failed(mut self, error: &CompactionError) {
        self.fail(error.to_string());
    }

    fn fail(&mut self, why: String) {
        self.is_over = true;
        let tokens = self.request.transcript.tokens();
        let fits = self.request.budget.as_ref().map(|budget: &Budget| tokens <= budget.usable());
        let duration = self.started_at.elapsed();
        self.emit(CompactionEventKind::CompactionFailed { why, tokens, fits, duration });
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.fail(CompactionError::Cancelled.to_string());
        }
    }
}
