//! Where sessions are kept.
