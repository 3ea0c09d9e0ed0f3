//! Readers: what a model can still answer from a compacted view. Pure: prompts, parsing, grading and
//! tables; `commands/probe` does the asking.

pub(crate) mod answers;
pub(crate) mod fit;
pub(crate) mod page;
pub(crate) mod prompts;
pub(crate) mod questions;
pub(crate) mod scores;
pub(crate) mod sheet;
