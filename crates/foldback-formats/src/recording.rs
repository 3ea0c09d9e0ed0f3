//! Files that are only read.

pub(crate) mod atif;
pub(crate) mod cline;
pub(crate) mod forge;
pub(crate) mod llm_log;
pub(crate) mod mini_swe_agent;
pub(crate) mod moatless;
pub(crate) mod openhands;
pub(crate) mod pieces;
pub(crate) mod swe_agent;
pub(crate) mod tau_bench;
