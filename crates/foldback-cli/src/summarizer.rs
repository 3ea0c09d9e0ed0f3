//! Summaries written by a model, for `--backend`. Where the model fails, the digest writes them, and the
//! person is told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use foldback_core::{Prices, Strategy, Tokens, Usage};
use foldback_engine::{
    BackendError, CompactionBackend, CompactionContext, CompactionError, CompactionEvent,
    CompactionEventKind, CompactionObserver, CompactionRequest, GuardedBackend, Outcome, SummaryLimits,
    SummaryRequest, SummaryResult, compact_asking,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::Shared;
use crate::args::chat::Backend;
use crate::backend::{Route, Spec};
use crate::failure::Failure;
use crate::terminal::{self, FAINT, say, styled};

/// Failures of the model that are told for one conversation; the rest are more of the same.
const FAILURES_TOLD_MAX: usize = 3;

/// A model that writes summaries, and what it has said so far.
pub(crate) struct Summarizer {
    /// With its guard, which knows of all conversations of all files.
    backend: GuardedBackend,
    notes: Notes,
    limits: SummaryLimits,
}

/// What the model did for one conversation.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Account {
    /// What the calls cost in dollars, where the prices are known.
    pub(crate) cost: Option<f64>,
    pub(crate) usage: Option<AccountedUsage>,
    /// Why answers were not taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<String>,
}

/// What all calls together were reported to have used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct AccountedUsage {
    pub(crate) calls: u64,
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl Summarizer {
    /// The model that was named; none for the digest, which needs nobody.
    pub(crate) fn new(shared: &Shared, flags: &Backend) -> Result<Option<Self>, Failure> {
        let Some(Spec::Served(served)) = &flags.backend else { return Ok(None) };
        let reach = flags.reach();
        let backend = served.backend("--backend", &reach)?;
        let notes = Notes { is_shown: !shared.quiet && terminal::stderr_is_terminal(), ..Notes::default() };
        let route = served.route("--backend", &reach, &flags.backend_from);
        let backend = Metered { backend, notes: notes.clone(), route, is_quiet: shared.quiet }.into();
        Ok(Some(Self { backend, notes, limits: flags.limits() }))
    }

    /// What a compaction with this model is given.
    pub(crate) fn context(&self) -> CompactionContext {
        let context = CompactionContext::default().with_backend(self.backend.clone());
        CompactionContext {
            limits: self.limits.clone(),
            observer: Some(Arc::new(self.notes.clone())),
            ..context
        }
    }

    /// Compacts with summaries by the model.
    pub(crate) async fn compact(
        &self,
        strategy: Arc<dyn Strategy>,
        request: &CompactionRequest,
    ) -> Result<(Outcome, Account), CompactionError> {
        *self.notes.account() = Account::default();
        let asked = compact_asking(strategy, request, &self.context(), None).await?;
        Ok((asked.outcome, Account { cost: asked.cost, ..self.account() }))
    }

    /// What the model did since the last compaction began.
    pub(crate) fn account(&self) -> Account {
        self.notes.account().clone()
    }
}

impl Account {
    /// Says what went wrong; the work was done all the same.
    pub(crate) fn warn(&self, file: &str) {
        for why in self.refused.iter().take(FAILURES_TOLD_MAX) {
            terminal::warning(&format!("{file}: {why}"));
        }
    }
}

/// Takes notes of what happens.
#[derive(Clone, Debug, Default)]
struct Notes {
    account: Arc<Mutex<Account>>,
    /// Whether a person waits and wants to know for what.
    is_shown: bool,
}

impl Notes {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, usage: &Usage) {
        let mut account = self.account();
        let sum = account.usage.get_or_insert_default();
        sum.calls += 1;
        sum.input_tokens += usage.input_tokens.0;
        sum.cached_tokens += usage.cached_tokens.0;
        sum.output_tokens += usage.output_tokens.0;
    }
}

impl CompactionObserver for Notes {
    fn on_event(&self, event: &CompactionEvent) {
        match &event.kind {
            CompactionEventKind::SummaryAsked { backend, tokens, .. } if self.is_shown => {
                let tokens = terminal::number(tokens.0);
                say(&styled(FAINT, format!("asking {backend} to summarise {tokens} tokens")));
            }
            CompactionEventKind::SummaryRefused { backend, why, retry_in: None } => {
                let told = format!("{backend}: {why}");
                let mut account = self.account();
                if account.refused.len() < FAILURES_TOLD_MAX && !account.refused.contains(&told) {
                    account.refused.push(told);
                }
            }
            CompactionEventKind::CompactionEnded(report) => self.account().cost = report.cost,
            _ => {}
        }
    }
}

/// A backend whose calls are counted, and told before the first of them.
#[derive(Debug)]
struct Metered<B> {
    backend: B,
    notes: Notes,
    route: Route,
    is_quiet: bool,
}

#[async_trait]
impl<B: CompactionBackend> CompactionBackend for Metered<B> {
    async fn summarize(
        &self,
        request: SummaryRequest,
        cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        self.route.tell(self.is_quiet);
        let result = self.backend.summarize(request, cancellation).await?;
        if let Some(usage) = &result.usage {
            self.notes.add(usage);
        }
        Ok(result)
    }

    fn name(&self) -> &str {
        self.backend.name()
    }

    fn window(&self) -> Option<Tokens> {
        self.backend.window()
    }

    fn prompt_tokens(&self) -> Tokens {
        self.backend.prompt_tokens()
    }

    fn reads_items(&self) -> bool {
        self.backend.reads_items()
    }

    fn prices(&self) -> Option<&'static Prices> {
        self.backend.prices()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says something else than the defaults about everything.
    #[derive(Debug)]
    struct Particular;

    #[async_trait]
    impl CompactionBackend for Particular {
        async fn summarize(
            &self,
            _request: SummaryRequest,
            _cancellation: CancellationToken,
        ) -> Result<SummaryResult, BackendError> {
            Err(BackendError::Cancelled)
        }

        fn name(&self) -> &str {
            "particular"
        }

        fn window(&self) -> Option<Tokens> {
            Some(Tokens(12_345))
        }

        fn prompt_tokens(&self) -> Tokens {
            Tokens(6_789)
        }

        fn reads_items(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_backend_whose_calls_are_counted_is_fitted_to_as_itself() {
        let (notes, route) = (Notes::default(), Route::default());
        let metered = Metered { backend: Particular, notes, route, is_quiet: true };
        assert_eq!((metered.name(), metered.window()), ("particular", Some(Tokens(12_345))));
        assert_eq!((metered.prompt_tokens(), metered.reads_items()), (Tokens(6_789), false));
    }
}
