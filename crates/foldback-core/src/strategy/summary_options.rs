//! What a person may ask of the summary, the same for every strategy that folds.

use serde::{Deserialize, Serialize};

use super::SUMMARY_TOKENS_DEFAULT;
use crate::edit::{SummaryPlacement, SummarySpec};
use crate::ids::{Text, Tokens};

/// The part of a configuration that speaks of the summary. Flattened into the strategy's own, so
/// that `summary_tokens_max`, `summary_placement` and `focus` stand beside its other fields. Serde promises nothing for
/// `flatten` together with `deny_unknown_fields`; the tests below see to it that mistakes are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SummaryOptions {
    pub(super) summary_tokens_max: Tokens,
    /// Nothing is the strategy's own place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary_placement: Option<SummaryPlacement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) focus: Option<Text>,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self { summary_tokens_max: SUMMARY_TOKENS_DEFAULT, summary_placement: None, focus: None }
    }
}

impl SummaryOptions {
    /// What is asked of the summary, which stands before the tail if nobody chose.
    pub(super) fn spec(&self) -> SummarySpec {
        self.spec_placed(SummaryPlacement::BeforeKept)
    }

    /// The same where the strategy's own place is another.
    pub(super) fn spec_placed(&self, own: SummaryPlacement) -> SummarySpec {
        let spec = SummarySpec::new(self.summary_tokens_max).with_focus(self.focus.clone());
        spec.with_placement(self.summary_placement.unwrap_or(own))
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

            /// Where the summary stands: before the tail or after it.
            #[must_use]
            pub fn summary_placement(mut self, placement: $crate::edit::SummaryPlacement) -> Self {
                self.summary.summary_placement = Some(placement);
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
    use crate::strategy::tests::built_in;
    use serde_json::{Value, json};

    /// The configurations of folding strategies, without these options.
    fn folding() -> Vec<Value> {
        let configs = built_in().map(|strategy| serde_json::to_value(strategy).unwrap());
        let folds = configs.into_iter().filter(|config| config.get("summary_tokens_max").is_some());
        let without = |mut config: Value| {
            let fields = config.as_object_mut().unwrap();
            fields.retain(|name, _| name != "summary_tokens_max" && name != "focus");
            config
        };
        folds.map(without).collect()
    }

    #[test]
    fn every_folding_strategy_takes_the_options_beside_its_own() {
        assert!(folding().len() >= 6, "{:?}", folding());
        for mut config in folding() {
            let plain: StrategyConfig = serde_json::from_value(config.clone()).unwrap();
            let written = serde_json::to_value(&plain).unwrap();
            assert_eq!((&written["summary_tokens_max"], written.get("focus")), (&json!(2_000), None));
            assert_eq!(written.get("summary_placement"), None, "the strategy's own place");
            config["summary_tokens_max"] = json!(500);
            config["focus"] = json!("the parser");
            config["summary_placement"] = json!("after_tail");
            let asked: StrategyConfig = serde_json::from_value(config).unwrap();
            let written = serde_json::to_value(&asked).unwrap();
            assert_eq!(
                (&written["summary_tokens_max"], &written["focus"], &written["summary_placement"]),
                (&json!(500), &json!("the parser"), &json!("after_tail"))
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
