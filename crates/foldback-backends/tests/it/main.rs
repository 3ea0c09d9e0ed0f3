//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

mod faults;
mod http;
mod listening;
mod telemetry;
