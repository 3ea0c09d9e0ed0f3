//! The session files of agents, read and written.

pub(crate) mod claude_code;
pub(crate) mod codex;
pub(crate) mod copilot_cli;
pub(crate) mod gemini_cli;
pub(crate) mod native;
pub(crate) mod opencode;
pub(crate) mod pi;
