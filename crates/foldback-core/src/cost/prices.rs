//! List prices of models, each with the date and the page they were read from.
//!
//! The pages of Google, DeepSeek and OpenAI were read as others quote them; Anthropic's and GitHub's as
//! they stand. Prices change; whoever needs other ones makes a [`Prices`] of their own. Where a provider gives a
//! range for how long an unused prefix stays cached, its lower end is taken.

use super::{Prices, Rates};
use crate::ids::Tokens;

const MINUTE: u64 = 60_000;

const ANTHROPIC: &str = "https://platform.claude.com/docs/en/about-claude/pricing";
const OPUS_5_5: &str = "https://platform.claude.com/docs/en/models/opus-5-5/overview";
const SONNET_5_5: &str = "https://platform.claude.com/docs/en/models/sonnet-5-5/overview";
const OPENAI: &str = "https://developers.openai.com/api/docs/pricing";
const GITHUB: &str = "https://github.com/github/docs/blob/main/data/tables/copilot/models-and-pricing.yml";
const GOOGLE: &str = "https://ai.google.dev/gemini-api/docs/pricing";
const DEEPSEEK: &str = "https://api-docs.deepseek.com/quick_start/pricing";

/// Input, cached, written, output.
const fn rates(input: f64, cached: f64, written: f64, output: f64) -> Rates {
    Rates { input, cached, written, output }
}

/// Providers that cache by themselves take nothing for writing.
const fn automatic(input: f64, cached: f64, output: f64) -> Rates {
    rates(input, cached, input, output)
}

/// When all of them were read.
const DATED: &str = "2026-11";

const fn anthropic(
    name: &'static str,
    rates: Rates,
    minutes: u64,
    cached_tokens_min: u64,
    source: &'static str,
) -> Prices {
    Prices {
        name,
        provider: "anthropic",
        rates,
        long: None,
        lifetime_millis: minutes * MINUTE,
        cached_tokens_min: Tokens(cached_tokens_min),
        dated: DATED,
        source,
    }
}

const fn openai(
    name: &'static str,
    rates: Rates,
    long: Option<(Tokens, Rates)>,
    source: &'static str,
) -> Prices {
    Prices {
        name,
        provider: "openai",
        rates,
        long,
        lifetime_millis: 5 * MINUTE,
        cached_tokens_min: Tokens(1_024),
        dated: DATED,
        source,
    }
}

const fn google(
    name: &'static str,
    rates: Rates,
    long: Option<(Tokens, Rates)>,
    cached_tokens_min: u64,
) -> Prices {
    Prices {
        name,
        provider: "google",
        rates,
        long,
        lifetime_millis: 5 * MINUTE,
        cached_tokens_min: Tokens(cached_tokens_min),
        dated: DATED,
        source: GOOGLE,
    }
}

/// Outside of peak hours, in which everything costs twice as much.
const fn deepseek(name: &'static str, rates: Rates) -> Prices {
    Prices {
        name,
        provider: "deepseek",
        rates,
        long: None,
        // Kept on disk for hours to days.
        lifetime_millis: 120 * MINUTE,
        cached_tokens_min: Tokens(64),
        dated: DATED,
        source: DEEPSEEK,
    }
}

const LONG_GPT: Tokens = Tokens(272_000);
const LONG_GEMINI: Tokens = Tokens(200_000);

pub(super) const ALL: &[Prices] = &[
    anthropic("claude-opus-5.5", rates(4.0, 0.20, 5.0, 20.0), 5, 1_024, OPUS_5_5),
    anthropic("claude-opus-5.5-1h", rates(4.0, 0.20, 8.0, 20.0), 60, 1_024, OPUS_5_5),
    anthropic("claude-opus-5", rates(5.0, 0.50, 6.25, 25.0), 5, 1_024, ANTHROPIC),
    anthropic("claude-opus-5-1h", rates(5.0, 0.50, 10.0, 25.0), 60, 1_024, ANTHROPIC),
    anthropic("claude-sonnet-5.5", rates(2.0, 0.20, 2.5, 10.0), 5, 1_024, SONNET_5_5),
    anthropic("claude-sonnet-5.5-1h", rates(2.0, 0.20, 4.0, 10.0), 60, 1_024, SONNET_5_5),
    anthropic("claude-sonnet-4.5", rates(3.0, 0.30, 3.75, 15.0), 5, 1_024, ANTHROPIC),
    anthropic("claude-sonnet-4.5-1h", rates(3.0, 0.30, 6.0, 15.0), 60, 1_024, ANTHROPIC),
    anthropic("claude-haiku-4.5", rates(1.0, 0.10, 1.25, 5.0), 5, 4_096, ANTHROPIC),
    anthropic("claude-haiku-4.5-1h", rates(1.0, 0.10, 2.0, 5.0), 60, 4_096, ANTHROPIC),
    openai("gpt-5", automatic(1.25, 0.125, 10.0), None, OPENAI),
    openai("gpt-5-mini", automatic(0.25, 0.025, 2.0), None, GITHUB),
    openai("gpt-5.3-codex", automatic(1.75, 0.175, 14.0), None, GITHUB),
    openai("gpt-5.4", automatic(2.5, 0.25, 15.0), Some((LONG_GPT, automatic(5.0, 0.5, 22.5))), GITHUB),
    openai("gpt-5.4-mini", automatic(0.75, 0.075, 4.5), None, GITHUB),
    openai("gpt-5.5", automatic(5.0, 0.5, 30.0), Some((LONG_GPT, automatic(10.0, 1.0, 45.0))), GITHUB),
    openai("gpt-5.6-terra", rates(2.0, 0.2, 2.5, 12.0), Some((LONG_GPT, rates(4.0, 0.4, 5.0, 18.0))), GITHUB),
    google(
        "gemini-2.5-pro",
        automatic(1.25, 0.125, 10.0),
        Some((LONG_GEMINI, automatic(2.5, 0.25, 15.0))),
        2_048,
    ),
    google("gemini-2.5-flash", automatic(0.3, 0.03, 2.5), None, 2_048),
    google(
        "gemini-3.1-pro",
        automatic(2.0, 0.2, 12.0),
        Some((LONG_GEMINI, automatic(4.0, 0.4, 18.0))),
        4_096,
    ),
    google("gemini-3.5-flash", automatic(1.5, 0.15, 9.0), None, 4_096),
    deepseek("deepseek-flash", automatic(0.15, 0.003, 0.6)),
    deepseek("deepseek-v4-pro", automatic(0.66, 0.022, 1.98)),
];
