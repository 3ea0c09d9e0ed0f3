//! What the facade promises, from outside.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

mod documents;
mod stored_agent;
