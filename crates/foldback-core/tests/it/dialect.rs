//! What each dialect rejects, and how it is repaired (T2).

mod gaps;
mod properties;
mod repairs;
mod rules;
mod shape;
