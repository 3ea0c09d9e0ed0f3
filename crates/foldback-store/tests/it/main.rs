//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

mod conformance;
mod encrypted;
mod kill;
mod stored_session;
mod undo_repairs;
