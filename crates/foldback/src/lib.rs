//! foldback
