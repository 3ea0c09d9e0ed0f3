//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

mod compactor;
mod messages;
mod road;
mod session;
mod telemetry;
mod undo;
mod updating;
