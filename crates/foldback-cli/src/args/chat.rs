//! The command line of `chat`, and of whatever asks a model.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use foldback_core::Tokens;
use foldback_engine::SummaryLimits;

use crate::backend::{Reach, Spec, seconds, spec};
use crate::config::Origin;
use crate::values::tokens;

/// Summaries that may be asked for at once.
const CANDIDATES_MAX: i64 = 4;

/// Who writes summaries.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Backend {
    /// Who writes summaries: digest, or a model as openai, responses or anthropic, each with
    /// :BASE_URL and #MODEL where wanted, such as openai:http://127.0.0.1:8080/v1#qwen3. Where it
    /// fails, the digest answers [default: digest; in chat, the model itself; probe needs a model] [env: FOLDBACK_BACKEND]
    ///
    /// The keys of providers come from OPENAI_API_KEY and ANTHROPIC_API_KEY and are sent to the
    /// providers' own addresses only. Proxies come from HTTPS_PROXY, http_proxy, ALL_PROXY and NO_PROXY.
    #[arg(long, value_name = "SPEC", value_parser = spec)]
    pub(crate) backend: Option<Spec>,
    /// The environment variable that holds the key for --backend
    #[arg(long, value_name = "NAME")]
    pub(crate) backend_key_env: Option<String>,
    /// What the model of --backend reads and writes together, where it is not known
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    pub(crate) backend_window: Option<Tokens>,
    /// How long a compaction waits for the model in all, retries included, in seconds; then the digest
    /// answers [default: 180, of which 60 for one attempt; in probe, for every answer, 300]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) backend_timeout: Option<Duration>,
    /// Ask the model for so many summaries at once and take the one that tells most [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=CANDIDATES_MAX))]
    pub(crate) backend_candidates: Option<u8>,
    /// Who named the backend
    #[arg(skip)]
    pub(crate) backend_from: Origin,
}

impl Backend {
    /// How the server is reached.
    pub(crate) fn reach(&self) -> Reach<'_> {
        Reach {
            key_variable: self.backend_key_env.as_deref(),
            timeout: self.backend_timeout,
            window: self.backend_window,
        }
    }

    /// How summaries are asked for.
    pub(crate) fn limits(&self) -> SummaryLimits {
        let mut limits = SummaryLimits::default();
        if let Some(timeout) = self.backend_timeout {
            (limits.timeout, limits.deadline) = (timeout, timeout);
        }
        limits.candidates = self.backend_candidates.map_or(limits.candidates, usize::from);
        limits
    }
}

/// What `chat` understands; the model is `--model`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Chat {
    /// The environment variable that holds the key for --model
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<String>,
    /// The context window in tokens [default: the model's] [env: FOLDBACK_WINDOW]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, allow_negative_numbers = true)]
    pub(crate) window: Option<Tokens>,
    /// How to compact: a name that `foldback policies` lists, or a TOML file [default: ladder] [env:
    /// FOLDBACK_POLICY]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) backend: Backend,
    /// Let tools run commands and write files without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Let file tools leave the working folder
    #[arg(long)]
    pub(crate) allow_outside: bool,
    /// Prepare compactions before they are due, so that nobody waits for the model
    #[arg(long)]
    pub(crate) background: bool,
    /// Give the model no tools
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// Keep the conversation in this file, after every turn, as foldback's own JSONL
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// The model, and who chose it
    #[arg(skip)]
    pub(crate) model: Option<(String, Origin)>,
    /// Who chose the policy
    #[arg(skip)]
    pub(crate) policy_from: Origin,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_what_a_compaction_waits_in_all() {
        let wait = Duration::from_secs(7);
        let limits = Backend { backend_timeout: Some(wait), ..Backend::default() }.limits();
        assert_eq!((limits.timeout, limits.deadline), (wait, wait));
    }
}
