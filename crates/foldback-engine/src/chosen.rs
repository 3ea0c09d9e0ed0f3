//! Strategies and triggers as a host hands them over: its own values, or ones chosen while the program runs.

use std::sync::Arc;

use crate::compaction::CompactionStrategy;
use crate::compactor::CompactionTrigger;

/// A value of a type known when the program is built.
#[derive(Clone, Copy, Debug)]
pub struct Known;

/// A value behind `Arc<dyn …>`.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

/// A value behind `Box<dyn …>`.
#[derive(Clone, Copy, Debug)]
pub struct Boxed;

/// What can be a step of a pipeline: every [`CompactionStrategy`], `Arc<dyn CompactionStrategy>` and
/// `Box<dyn CompactionStrategy>`. `How` is found by the compiler.
///
/// ```
/// use std::sync::Arc;
/// use foldback_core::{DropReasoningStrategy, KeepRecentStrategy};
/// use foldback_engine::{CompactionPipeline, CompactionStrategy};
///
/// let chosen: Arc<dyn CompactionStrategy> = Arc::new(KeepRecentStrategy::new(8));
/// let pipeline = CompactionPipeline::new()
///     .with_strategy(DropReasoningStrategy::new())
///     .with_strategy(chosen);
/// assert_eq!(format!("{pipeline:?}"), "drop-reasoning → keep-recent(8)");
/// ```
pub trait IntoStrategy<How> {
    /// The strategy, shared.
    fn into_strategy(self) -> Arc<dyn CompactionStrategy>;
}

impl<S: CompactionStrategy + 'static> IntoStrategy<Known> for S {
    fn into_strategy(self) -> Arc<dyn CompactionStrategy> {
        Arc::new(self)
    }
}

impl IntoStrategy<Shared> for Arc<dyn CompactionStrategy> {
    fn into_strategy(self) -> Arc<dyn CompactionStrategy> {
        self
    }
}

impl IntoStrategy<Boxed> for Box<dyn CompactionStrategy> {
    fn into_strategy(self) -> Arc<dyn CompactionStrategy> {
        self.into()
    }
}

/// What can say when: every [`CompactionTrigger`], `Arc<dyn CompactionTrigger>` and
/// `Box<dyn CompactionTrigger>`. `How` is found by the compiler.
pub trait IntoTrigger<How> {
    /// The trigger, shared.
    fn into_trigger(self) -> Arc<dyn CompactionTrigger>;
}

impl<T: CompactionTrigger + 'static> IntoTrigger<Known> for T {
    fn into_trigger(self) -> Arc<dyn CompactionTrigger> {
        Arc::new(self)
    }
}

impl IntoTrigger<Shared> for Arc<dyn CompactionTrigger> {
    fn into_trigger(self) -> Arc<dyn CompactionTrigger> {
        self
    }
}

impl IntoTrigger<Boxed> for Box<dyn CompactionTrigger> {
    fn into_trigger(self) -> Arc<dyn CompactionTrigger> {
        self.into()
    }
}
