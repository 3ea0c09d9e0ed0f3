//! What the crate promises, from outside.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed test says where; figures are printed"
)]

mod conformance;
mod conversions;
mod gaps;
