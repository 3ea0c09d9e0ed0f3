//! A small agent loop with seams for compaction.
