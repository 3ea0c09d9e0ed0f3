//! What a model call costs, and when a compaction pays for itself.
//!
//! Prices are list prices per million tokens with the date and the page they were read from; see
//! [`Prices::ALL`]. What is cached is decided by whoever knows the calls: the longest common prefix
//! with the call before.

mod prices;

use crate::ids::Tokens;

/// Tokens that a price is for.
const PRICED_TOKENS: f64 = 1_000_000.0;

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Input that is neither read from the cache nor written to it.
    pub input: f64,
    /// Input that is read from the cache.
    pub cached: f64,
    /// Input that is written to the cache.
    pub written: f64,
    /// Output, reasoning included.
    pub output: f64,
}

/// What one model costs, and how its provider caches prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// The model's name; a suffix tells a cache with another lifetime.
    pub name: &'static str,
    /// Who sells it.
    pub provider: &'static str,
    /// What a call costs.
    pub rates: Rates,
    /// From how large a prompt on a call costs more, and what.
    pub long: Option<(Tokens, Rates)>,
    /// How long a prefix stays in the cache after it was used, in milliseconds.
    pub lifetime_millis: u64,
    /// Shorter prompts are not cached.
    pub cached_tokens_min: Tokens,
    /// When the prices were read.
    pub dated: &'static str,
    /// Where they were read.
    pub source: &'static str,
}

/// One model call. What it read is disjoint: from the cache, or fresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Input that the cache holds.
    pub cached: Tokens,
    /// All other input.
    pub fresh: Tokens,
    /// What the model wrote.
    pub output: Tokens,
}

impl Call {
    /// Everything that the model read.
    pub fn prompt(&self) -> Tokens {
        self.cached + self.fresh
    }
}

/// What calls cost, in dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cost {
    /// Input from the cache.
    pub cached: f64,
    /// Other input, what is written to the cache included.
    pub fresh: f64,
    /// Output.
    pub output: f64,
}

impl Cost {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.cached + self.fresh + self.output
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.cached += other.cached;
        self.fresh += other.fresh;
        self.output += other.output;
    }
}

impl Prices {
    /// Every model whose prices are built in.
    pub const ALL: &'static [Self] = prices::ALL;

    /// The prices of the model called `name`; letter case makes no difference.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|prices| prices.name.eq_ignore_ascii_case(name.trim()))
    }

    /// How much of a prefix that two calls share the second reads from the cache. Without times the
    /// calls are taken as following each other at once.
    pub fn cached_of(&self, shared: Tokens, idle_millis: Option<u64>) -> Tokens {
        let is_warm = idle_millis.is_none_or(|idle| idle <= self.lifetime_millis);
        if is_warm && shared >= self.cached_tokens_min { shared } else { Tokens::ZERO }
    }

    /// What a call costs.
    pub fn cost(&self, call: &Call) -> Cost {
        let rates = self.rates_for(call.prompt());
        let fresh = if call.prompt() >= self.cached_tokens_min { rates.written } else { rates.input };
        Cost {
            cached: priced(call.cached, rates.cached),
            fresh: priced(call.fresh, fresh),
            output: priced(call.output, rates.output),
        }
    }

    fn rates_for(&self, prompt: Tokens) -> &Rates {
        match &self.long {
            Some((above, rates)) if prompt > *above => rates,
            _ => &self.rates,
        }
    }

    /// The prices of a model by the name it has in recordings: `claude-sonnet-4-5-20250929`.
    pub fn of_model(name: &str) -> Option<&'static Self> {
        let plain = |name: &str| name.to_ascii_lowercase().replace('.', "-");
        let name = plain(name.rsplit('/').next().unwrap_or(name).trim());
        let fits = Self::ALL.iter().filter(|prices| name.starts_with(&plain(prices.name)));
        fits.max_by_key(|prices| prices.name.len())
    }

    /// The size at which it costs least to bring a growing transcript back to `target`: as in
    /// ordering stock, a compaction costs a rewritten prefix once, and every token beyond the target
    /// costs its cached price at each call.
    pub fn economic_level(&self, target: Tokens, growth: Tokens) -> Tokens {
        let rates = self.rates_for(target);
        let rewritten = target.0 as f64 * (rates.written - rates.cached);
        let carried = 2.0 * rewritten * growth.0 as f64 / rates.cached;
        if carried.is_finite() { target + Tokens(carried.sqrt() as u64) } else { Tokens(u64::MAX) }
    }

    /// After how many calls a compaction has paid for what it makes the next call cost: it brings a
    /// view of `before` tokens to `after`, of which the first `kept` stay in the cache. None where it
    /// never does.
    pub fn break_even(&self, before: Tokens, after: Tokens, kept: Tokens) -> Option<u64> {
        let saved = priced(before.saturating_sub(after), self.rates_for(before).cached);
        let rewritten = after.saturating_sub(kept);
        let rates = self.rates_for(after);
        let spent = priced(rewritten, rates.written) - priced(rewritten, rates.cached);
        (saved > 0.0).then(|| (spent / saved).ceil().max(0.0) as u64)
    }
}

fn priced(tokens: Tokens, per_million: f64) -> f64 {
    tokens.0 as f64 * per_million / PRICED_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Prices {
        Prices::named(name).expect("its prices are built in")
    }

    #[test]
    fn a_call_costs_what_the_provider_lists() {
        let call = Call { cached: Tokens(100_000), fresh: Tokens(10_000), output: Tokens(1_000) };
        // 0.1 × 0.30 + 0.01 × 3.75 + 0.001 × 15
        let sonnet = named("Claude-Sonnet-4.5").cost(&call).total();
        assert!((sonnet - 0.0825).abs() < 1e-9, "{sonnet}");
        // 0.1 × 0.125 + 0.01 × 1.25 + 0.001 × 10
        let gpt = named("gpt-5").cost(&call).total();
        assert!((gpt - 0.035).abs() < 1e-9, "{gpt}");
        assert_eq!(named("gpt-5").cost(&Call::default()), Cost::default());
    }

    #[test]
    fn a_long_prompt_costs_more_as_a_whole() {
        let gemini = named("gemini-3.1-pro");
        let of = |fresh| gemini.cost(&Call { fresh: Tokens(fresh), ..Call::default() }).total();
        assert!((of(200_000) - 0.4).abs() < 1e-9);
        assert!((of(250_000) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_cache_that_is_cold_or_too_small_is_not_read() {
        let sonnet = named("claude-sonnet-4.5");
        let five_minutes = 300_000;
        assert_eq!(sonnet.cached_of(Tokens(5_000), Some(five_minutes)), Tokens(5_000));
        assert_eq!(sonnet.cached_of(Tokens(5_000), Some(five_minutes + 1)), Tokens::ZERO);
        assert_eq!(sonnet.cached_of(Tokens(5_000), None), Tokens(5_000));
        assert_eq!(sonnet.cached_of(Tokens(1_000), None), Tokens::ZERO);
        let hour = named("claude-sonnet-4.5-1h");
        assert_eq!(hour.cached_of(Tokens(5_000), Some(12 * five_minutes)), Tokens(5_000));
        assert!(hour.rates.written > sonnet.rates.written);
    }

    #[test]
    fn a_compaction_pays_for_itself_after_as_many_calls_as_it_rewrites_for() {
        let sonnet = named("claude-sonnet-4.5");
        // Rewriting 50,000 tokens costs 50,000 × (3.75 − 0.30), carrying 100,000 costs 100,000 × 0.30.
        let calls = sonnet.break_even(Tokens(160_000), Tokens(60_000), Tokens(10_000));
        assert_eq!(calls, Some(6));
        assert_eq!(sonnet.break_even(Tokens(100), Tokens(100), Tokens::ZERO), None);
        assert_eq!(sonnet.break_even(Tokens(100), Tokens(50), Tokens(50)), Some(0));
    }

    #[test]
    fn the_economic_level_is_where_the_mean_cost_of_a_call_is_least() {
        let sonnet = named("claude-sonnet-4.5");
        let (target, growth) = (40_000.0, 1_500.0);
        let level = sonnet.economic_level(Tokens(40_000), Tokens(1_500)).0 as f64;
        let mean = |level: f64| {
            let calls = (level - target) / growth;
            target * (3.75 - 0.30) / calls + 0.30 * (target + level) / 2.0
        };
        assert!(mean(level) < mean(level * 1.1) && mean(level) < mean(level * 0.9), "{level}");
    }

    #[test]
    fn a_recorded_name_finds_its_prices() {
        let name = |model| Prices::of_model(model).map(|prices| prices.name);
        assert_eq!(name("claude-sonnet-4-5-20250929"), Some("claude-sonnet-4.5"));
        assert_eq!(name("anthropic/Claude-Sonnet-4.5"), Some("claude-sonnet-4.5"));
        assert_eq!(name("somebody's model"), None);
    }

    #[test]
    fn every_entry_is_dated_and_makes_sense() {
        for (index, prices) in Prices::ALL.iter().enumerate() {
            let Prices { name, rates, .. } = prices;
            assert!(prices.dated.starts_with("2026-") && prices.source.contains('/'), "{name}");
            assert!(rates.cached < rates.input && rates.input <= rates.written, "{name}");
            assert!(rates.input < rates.output, "{name}");
            let is_again = Prices::ALL[..index].iter().any(|earlier| earlier.name == *name);
            assert!(!is_again, "{name} is there twice");
        }
    }
}
