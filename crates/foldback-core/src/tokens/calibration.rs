//! Correcting counts by what providers report.

use crate::ids::Tokens;

/// An estimate and a bound that the real count almost never exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBounds {
    /// The best guess.
    pub estimate: Tokens,
    /// What triggers decide on.
    pub upper: Tokens,
}

/// The ratio of reported to counted tokens.
#[derive(Clone, Debug, Default)]
pub struct Calibration;

/// Real usage from the last response, plus estimates for what came after.
#[derive(Clone, Debug, Default)]
pub struct ContextTracker;
