//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

mod agent;
mod long_run;
mod protocols;
mod telemetry;
