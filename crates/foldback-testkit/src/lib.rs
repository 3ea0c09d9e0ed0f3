//! foldback-testkit
