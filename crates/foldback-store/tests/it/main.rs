//! What the crate promises, from outside.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed test says where; figures are printed"
)]

mod archive;
mod compacting;
mod conformance;
mod encrypted;
mod kill;
mod stored_session;
mod undo_repairs;
