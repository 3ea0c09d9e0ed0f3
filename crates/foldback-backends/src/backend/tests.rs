//! What a backend sends, and what it makes of an answer.
