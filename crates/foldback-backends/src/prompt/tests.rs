//! What cannot be forged.
