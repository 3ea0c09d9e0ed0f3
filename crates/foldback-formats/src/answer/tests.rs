//! Streams and whole answers of every protocol.
