//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

mod aloud;
mod answered;
mod constraints;
mod defects;
mod dialect;
mod diff;
mod estimate_error;
mod items;
mod kept;
mod ledger;
mod placement;
mod presets;
mod properties;
mod splice;
mod worked_example;
