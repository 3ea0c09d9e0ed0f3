//! Streams cut into pieces.
