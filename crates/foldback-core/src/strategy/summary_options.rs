//! What a person may ask of the summary, the same for every strategy that folds.

use serde::{Deserialize, Serialize};

use super::SUMMARY_TOKENS_DEFAULT;
use crate::edit::SummarySpec;
use crate::ids::{Text, Tokens};

/// The part of a configuration that speaks of the summary. Flattened into the strategy's own, so
/// that `summary_tokens_max` and `focus` stand beside its other fields. Serde promises nothing for
/// `flatten` together with `deny_unknown_fields`; the tests below see to it that mistakes are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SummaryOptions {
    pub(super) summary_tokens_max: Tokens,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) focus: Option<Text>,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self { summary_tokens_max: SUMMARY_TOKENS_DEFAULT, focus: None }
    }
}

impl SummaryOptions {
    pub(super) fn spec(&self) -> SummarySpec {
        SummarySpec::new(self.summary_tokens_max).with_focus(self.focus.clone())
    }
}

/// The methods that set the `summary` of a strategy.
macro_rules! asks_for_a_summary {
    ($strategy:ty) => {
        impl $strategy {
            /// Asks for a summary of at most this size.
            #[must_use]
            pub fn summary_tokens_max(mut self, tokens: $crate::ids::Tokens) -> Self {
                self.summary.summary_tokens_max = tokens;
                self
            }

            /// Asks the summary to attend to something.
            #[must_use]
            pub fn focus(mut self, focus: impl Into<$crate::ids::Text>) -> Self {
                self.summary.focus = Some(focus.into());
                self
            }
        }
    };
}

pub(super) use asks_for_a_summary;

#[cfg(test)]
mod tests {
    use crate::strategy::StrategyConfig;
    use serde_json::{Value, json};

    /// Folding strategies with what must not be left out of their configurations.
    fn folding() -> [Value; 5] {
        let clamp = json!({"percent": 25, "tokens_min": 2_000, "tokens_max": 8_000});
        [
            json!({"strategy": "summarize-older", "n": 8}),
            json!({"strategy": "preserve-user-messages"}),
            json!({"strategy": "preserve-recent-fraction"}),
            json!({"strategy": "preserve-recent-turns", "turns_max": 2, "clamp": clamp, "clamp_on": "each_turn"}),
            json!({"strategy": "keep-first-and-recent-turns"}),
        ]
    }

    #[test]
    fn every_folding_strategy_takes_the_options_beside_its_own() {
        for mut config in folding() {
            let plain: StrategyConfig = serde_json::from_value(config.clone()).unwrap();
            let written = serde_json::to_value(&plain).unwrap();
            assert_eq!((&written["summary_tokens_max"], written.get("focus")), (&json!(2_000), None));
            config["summary_tokens_max"] = json!(500);
            config["focus"] = json!("the parser");
            let asked: StrategyConfig = serde_json::from_value(config).unwrap();
            let written = serde_json::to_value(&asked).unwrap();
            assert_eq!(
                (&written["summary_tokens_max"], &written["focus"]),
                (&json!(500), &json!("the parser"))
            );
            assert_eq!(serde_json::from_value::<StrategyConfig>(written).unwrap(), asked);
        }
    }

    #[test]
    fn a_mistake_beside_the_options_is_still_refused() {
        for mut config in folding() {
            config["focuss"] = json!("the parser");
            let refused = serde_json::from_value::<StrategyConfig>(config).unwrap_err();
            assert!(refused.to_string().contains("focuss"), "{refused}");
        }
    }
}
