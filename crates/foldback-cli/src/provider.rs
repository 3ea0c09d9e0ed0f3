//! Tokens as the provider counts them, where a session says what the provider counted.
//!
//! Everything that a window or a target has to do with goes by these; the planner goes by the counter's.

use std::fmt;

use foldback_core::{BudgetInfeasible, KernelItem, Reported, TokenScale, Tokens, Transcript};
use foldback_engine::{CompactionError, Refusal};
use foldback_formats::{Conversation, ReportsOnView};
use serde::Serialize;

use crate::args::Shared;
use crate::terminal::{counted, number};

/// What a conversation costs by the reports in its file. The default is the counter's own tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProviderCounts {
    scale: TokenScale,
    /// How many reports it goes by.
    report_count: usize,
    /// The largest context that was reported; none of another conversation is known.
    peak: Tokens,
}

/// The same, as reports tell it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CalibrationReport {
    /// The provider's tokens for each one that was counted.
    pub(crate) ratio: f64,
    /// What a request holds beside the conversation: the system prompt, the tools.
    pub(crate) overhead: u64,
    /// How many reports of the provider this goes by.
    pub(crate) reports: usize,
}

impl ProviderCounts {
    /// What the reports in a file say, unless `--uncalibrated` was asked for.
    pub(crate) fn of(shared: &Shared, conversation: &Conversation, transcript: &Transcript) -> Self {
        if shared.uncalibrated {
            return Self::default();
        }
        Self::by(&conversation.reports(transcript), conversation)
    }

    fn by(reports: &[ReportsOnView], conversation: &Conversation) -> Self {
        let views = reports.iter().map(|view| &view.requests[..]);
        let Some(scale) = TokenScale::of(views) else { return Self::default() };
        let all = reports.iter().flat_map(|view| &view.requests);
        let report_count = all.filter(|report| report.is_plausible()).count();
        let contexts = conversation.history().filter_map(|recorded| recorded.item.usage);
        let contexts = contexts.map(|usage| usage.context_tokens());
        let plausible = contexts.filter(|&tokens| is_plausible(Tokens::ZERO, tokens));
        Self { scale, report_count, peak: plausible.max().unwrap_or_default() }
    }

    /// The same, where the agent says that its context holds `used` tokens now, of which `counted` were
    /// counted. What cannot be true is passed over.
    #[must_use]
    pub(crate) fn with_used(self, counted: Tokens, used: Tokens) -> Self {
        let newest = Reported { counted, reported: used };
        if !newest.is_plausible() {
            return self;
        }
        let report_count = self.report_count + 1;
        Self { scale: self.scale.through(newest), report_count, peak: self.peak.max(used) }
    }

    pub(crate) fn is_calibrated(&self) -> bool {
        self.report_count > 0
    }

    pub(crate) fn scale(&self) -> &TokenScale {
        &self.scale
    }

    /// The largest context that was reported: no window is smaller.
    pub(crate) fn peak(&self) -> Tokens {
        self.peak
    }

    /// What a request costs of whose conversation so much is counted.
    pub(crate) fn request(&self, counted: Tokens) -> Tokens {
        self.scale.request(counted)
    }

    /// What every request holds beside the conversation.
    pub(crate) fn overhead(&self) -> Tokens {
        self.scale.overhead()
    }

    /// How counts were calibrated, if they were.
    pub(crate) fn report(&self) -> Option<CalibrationReport> {
        self.is_calibrated().then(|| CalibrationReport {
            ratio: (self.scale.ratio() * 1_000.0).round() / 1_000.0,
            overhead: self.overhead().0,
            reports: self.report_count,
        })
    }

    /// The error with the provider's tokens in it.
    pub(crate) fn in_error(&self, error: CompactionError) -> CompactionError {
        let CompactionError::Refused(Refusal::BudgetInfeasible(infeasible)) = error else { return error };
        let BudgetInfeasible { kernel, kernel_tokens, target } = infeasible;
        let told = |item: KernelItem| KernelItem { tokens: self.scale.conversation(item.tokens), ..item };
        CompactionError::Refused(Refusal::BudgetInfeasible(BudgetInfeasible {
            kernel: kernel.into_iter().map(told).collect(),
            kernel_tokens: self.request(kernel_tokens),
            target: self.request(target),
        }))
    }
}

fn is_plausible(counted: Tokens, reported: Tokens) -> bool {
    Reported { counted, reported }.is_plausible()
}

impl fmt::Display for CalibrationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ratio, overhead, reports } = self;
        let reports = counted(*reports, "report");
        write!(f, "calibrated by {reports} of the provider (×{ratio:.2}")?;
        match overhead {
            0 => write!(f, ")"),
            overhead => write!(f, ", and {} for system prompt and tools)", number(*overhead)),
        }
    }
}
