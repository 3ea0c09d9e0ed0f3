//! Generators, fixtures and independent oracles for testing foldback. Never part of a product.

pub mod effort;
pub mod fixture;
pub mod kernel;
pub mod needs;
pub mod recipe;
pub mod server;
pub mod spans;
pub mod strategies;

pub use effort::{config, costly};
