//! The lab: recorded sessions run again under a policy, to measure what a compaction costs and what
//! it forgets. Returns data; who shows it decides how.
//!
//! - [`retention`]: which facts the agent needed after a cut, and which of them a view still holds
//! - [`mod@measure`]: every policy on the same cuts at the same size
//! - [`run`]: a session call by call, with what every call costs

mod equal;
mod kept;
mod lines;
pub mod measure;
pub mod retention;
pub mod run;

use std::sync::Arc;

use foldback_core::{Budget, Strategy, Trigger};

pub use equal::EqualTokensStrategy;
pub use foldback_core::account::Losses;
pub use kept::{Keepsakes, Kept, Share};
pub use lines::History;
pub use measure::{Measured, Measurement, Spread, measure};
pub use retention::{Needs, Retention, Tally};
pub use run::{Replay, Run, replay};

/// What is run: when it compacts, how, and towards which size.
#[derive(Clone, Debug)]
pub struct ReplayPolicy {
    /// Its name in tables.
    pub name: String,
    /// Says when.
    pub trigger: Arc<dyn Trigger>,
    /// What is done to tool results as they are recorded, before anything fires.
    pub recording: Option<Arc<dyn Strategy>>,
    /// Says what.
    pub strategy: Arc<dyn Strategy>,
    /// The budget at the window that is replayed.
    pub budget: Budget,
    /// How it is brought to the size at which policies are compared.
    pub sizing: Sizing,
    /// Who writes its summaries.
    pub writer: Writer,
}

impl ReplayPolicy {
    /// The strategy that brings a view to any size, so that policies can be compared there.
    pub fn sized(&self) -> Arc<dyn Strategy> {
        match self.sizing {
            Sizing::Target => Arc::clone(&self.strategy),
            Sizing::EqualTokens => {
                Arc::new(EqualTokensStrategy::new(Arc::clone(&self.strategy), self.budget))
            }
        }
    }
}

/// Who writes summaries, as far as it costs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The digest, which costs no call.
    Digest,
    /// A model, which is sent all that the agent would have been sent. What it would have written
    /// is taken to be as long as what the digest writes.
    Model,
}

/// How a policy is brought to the size at which policies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// It works towards any target by itself.
    Target,
    /// It decides at its own window, and what it keeps is then brought to the size by
    /// [`EqualTokensStrategy`].
    EqualTokens,
}
