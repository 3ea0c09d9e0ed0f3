//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

mod ladder_with_exact_counts;
