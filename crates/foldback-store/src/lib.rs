//! Where sessions are kept: in one SQLite file, or on a PostgreSQL server.
//!
//! Both stores keep the same tables and promise the same ([`Store`](foldback_engine::Store)). The
//! bodies of items are named by their content, so that a repeated one is kept once, and lie in packs
//! that are compressed as a whole. A [`backup`](archive::backup) of one store can be restored into
//! the other.

pub mod archive;
mod body;
mod find;
mod postgres;
mod rows;
mod sqlite;
mod tail;
mod verify;
mod walk;

pub use postgres::{PostgresOptions, PostgresStore};
pub use sqlite::{Access, SqliteOptions, SqliteStore};
