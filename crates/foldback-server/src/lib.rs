//! foldback for other programs. So far one way in: [`mcp`], for agents that look into their own past.

pub mod mcp;
