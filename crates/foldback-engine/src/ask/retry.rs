//! One call to a backend until there is an answer: timeout, retries, backoff, deadline.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldback_core::cost::Call;
use foldback_core::{Prices, Tokens, Usage};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument;

use super::guard::Spend;
use super::{Asking, Filled};
use crate::backend::{BackendError, SummaryRequest, SummaryResult};
use crate::backoff::Backoff;
use crate::event::{CompactionEventKind, SummaryFault};
use crate::executor::sum;
use crate::telemetry;

/// The calls of one compaction, which share their time, their number at once and their bill.
#[derive(Debug)]
pub(super) struct Calls<'a> {
    pub(super) asking: &'a Asking<'a>,
    begun: Instant,
    permits: Semaphore,
    bill: Mutex<Bill>,
}

/// What the calls took.
#[derive(Debug, Default)]
struct Bill {
    usage: Usage,
    dollars: f64,
}

impl<'a> Calls<'a> {
    pub(super) fn new(asking: &'a Asking<'a>) -> Self {
        Self {
            asking,
            begun: Instant::now(),
            permits: Semaphore::new(asking.limits.parallel_max.clamp(1, Semaphore::MAX_PERMITS)),
            bill: Mutex::default(),
        }
    }

    /// The bill, with no summaries yet.
    pub(super) fn into_filled(self) -> Filled {
        let bill = self.bill.into_inner().unwrap_or_else(PoisonError::into_inner);
        let cost = self.asking.backend.prices().map(|_| bill.dollars);
        Filled { cost, usage: bill.usage, ..Filled::default() }
    }

    /// Says that an answer, or the want of one, was no use.
    pub(super) fn refuse(&self, why: SummaryFault, retry_in: Option<Duration>) {
        let backend = self.asking.backend.name().to_owned();
        (self.asking.emit)(CompactionEventKind::SummaryRefused { backend, why, retry_in });
    }

    /// Asks until there is an answer, it is no use, or there is no time left. `tokens` is what is
    /// sent, as counted here; `seed` is where the jitter begins. Failures are in the events.
    pub(super) async fn ask(
        &self,
        request: &SummaryRequest,
        tokens: Tokens,
        seed: u64,
    ) -> Result<Answered, BackendError> {
        let limits = self.asking.limits;
        let (first, max, seed) = (limits.backoff_first, limits.backoff_max, self.asking.seed ^ seed);
        let mut backoff = Backoff::new(limits.retries_max, first, max, Some(seed));
        let mut attempt: u32 = 1;
        loop {
            let error = match self.attempt(request, tokens, attempt).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = backoff.after(&error).filter(|&wait| wait < self.left());
            self.refuse(SummaryFault::Backend(error.clone()), wait);
            let Some(wait) = wait else { return Err(error) };
            sleep(wait).await;
            attempt += 1;
        }
    }

    /// How much time there is.
    fn left(&self) -> Duration {
        self.asking.limits.deadline.saturating_sub(self.begun.elapsed())
    }

    async fn attempt(
        &self,
        request: &SummaryRequest,
        tokens: Tokens,
        attempt: u32,
    ) -> Result<Answered, BackendError> {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let Asking { backend, limits, guard, .. } = self.asking;
        let prices = backend.prices();
        let usage_most = Usage {
            input_tokens: tokens + backend.prompt_tokens(),
            output_tokens: request.tokens_max.unwrap_or_default(),
            ..Usage::default()
        };
        let left = self.left();
        if left.is_zero() {
            return Err(BackendError::Timeout { after: limits.deadline });
        }
        let admission = guard.admit(spend(&usage_most, prices))?;
        let name = backend.name().to_owned();
        (self.asking.emit)(CompactionEventKind::SummaryAsked { backend: name, attempt, tokens });
        let token = self.asking.cancellation.child_token();
        // Whatever the backend has started ends when its answer is no longer waited for.
        let _stop = token.clone().drop_guard();
        let after = limits.timeout.min(left);
        let span = telemetry::call_span(backend.name(), attempt);
        let asked = backend.summarize(request.clone(), token).instrument(span.clone());
        let answer = timeout(after, asked).await;
        match answer.unwrap_or(Err(BackendError::Timeout { after })) {
            Ok(result) => {
                let usage = result.usage.unwrap_or(usage_most);
                telemetry::used(&span, &usage);
                let spend = spend(&usage, prices);
                admission.answered(spend);
                self.charge(&usage, spend.dollars);
                Ok(Answered { result, dollars: spend.dollars })
            }
            Err(error) => {
                telemetry::refused(&span, &error);
                admission.failed(&error);
                Err(error)
            }
        }
    }

    fn charge(&self, usage: &Usage, dollars: f64) {
        let mut bill = self.bill.lock().unwrap_or_else(PoisonError::into_inner);
        bill.usage = sum(bill.usage, *usage);
        bill.dollars += dollars;
    }
}

/// An answer, and what it cost.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) result: SummaryResult,
    pub(super) dollars: f64,
}

/// What a call took: as reported, at list prices where they are known.
fn spend(usage: &Usage, prices: Option<&Prices>) -> Spend {
    let fresh = usage.input_tokens + usage.cache_write_tokens;
    let call = Call { cached: usage.cached_tokens, fresh, output: usage.output_tokens };
    let dollars = prices.map_or(0.0, |prices| prices.cost(&call).total());
    Spend { tokens: usage.context_tokens(), dollars }
}
