//! Policies: named, complete configurations of when to compact and how.
//!
//! `ladder` is foldback's own. The others decide like the systems they are named after, so that
//! one session can be replayed under all of them and only the decision differs. Whatever a system
//! does, its preset keeps the rules: calls stay with their results (T2); pins, the newest user item
//! and the unit in flight stay (T4); a summary is taken in, not stacked.
//!
//! ```
//! use foldback_core::{MutationPoint, Policy, Room, Tokens, Transcript, TriggerContext, View, plan};
//!
//! let policy = Policy::named("codex").expect("a preset");
//! let budget = policy.budget(Room::new(Tokens(200_000)))?;
//! let view = View::of(&Transcript::default());
//! let context = TriggerContext::new(&view, MutationPoint::AfterTurnEnded);
//! if policy.trigger(&budget).fires(&context).is_some() {
//!     let compacted = plan(&view, &*policy.strategy(), Some(&budget))?.apply_floor();
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod presets;
mod trigger;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use trigger::{Checked, PolicyTrigger};

use self::trigger::Fires;
use crate::budget::{ANSWER_HEADROOM_MAX, Budget, BudgetError, Level, TRIGGER_PERCENT, checked_percent};
use crate::cost::Prices;
use crate::edit::SummaryPlacement;
use crate::ids::{Text, Tokens};
use crate::models::Model;
use crate::strategy::{FreshOnlyStrategy, Strategy, StrategyConfig, StrategyPipeline};
use crate::trigger::Trigger;

/// The policy where nobody chooses one.
pub const POLICY_DEFAULT: &str = "ladder";

/// A named, complete configuration.
///
/// Written down, it is a table of these fields; `triggers` and what follows may be left out:
///
/// ```
/// let own: foldback_core::Policy = serde_json::from_str(r#"{
///     "name": "mine",
///     "about": "the newest 20 items and a summary",
///     "triggers": [{"rule": "reaches", "at": "60% of window"}, {"rule": "items", "items_max": 200}],
///     "steps": [{"strategy": "drop-reasoning"}, {"strategy": "summarize-older", "keep_last": 20}]
/// }"#)?;
/// assert_eq!(own.describe(), "drop-reasoning → summarize-older(20)");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct Policy {
    name: Text,
    about: Text,
    choose_when: Text,
    triggers: Vec<PolicyTrigger>,
    checked: Checked,
    target: Option<Level>,
    economy: Option<Economy>,
    when_recorded: Vec<StrategyConfig>,
    steps: Vec<StrategyConfig>,
}

/// How a policy goes by cost where prices are known: it compacts as soon as carrying the transcript
/// through the calls to come costs more than rewriting the cached prefix, and never later than its
/// triggers say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Economy {
    /// What it then aims for. Every call pays for what is carried, so less than where only the
    /// window counts.
    pub target: Level,
    /// How much a transcript grows from one call to the next.
    #[serde(default = "default_growth")]
    pub growth_tokens: Tokens,
}

/// About the mean of the recorded sessions this was measured on.
const GROWTH_TOKENS_DEFAULT: Tokens = Tokens(1_500);

fn default_growth() -> Tokens {
    GROWTH_TOKENS_DEFAULT
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    name: Text,
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    about: Text,
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    choose_when: Text,
    #[serde(default)]
    checked: Checked,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<Level>,
    #[serde(default = "default_triggers")]
    triggers: Vec<PolicyTrigger>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    economy: Option<Economy>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    when_recorded: Vec<StrategyConfig>,
    steps: Vec<StrategyConfig>,
}

fn nothing() -> Text {
    "".into()
}

fn is_nothing(text: &Text) -> bool {
    text.is_empty()
}

fn default_triggers() -> Vec<PolicyTrigger> {
    vec![PolicyTrigger::Reaches { at: Level::PercentOfUsable(TRIGGER_PERCENT) }]
}

impl TryFrom<Fields> for Policy {
    type Error = PolicyError;
    fn try_from(fields: Fields) -> Result<Self, PolicyError> {
        let Fields { name, about, choose_when, checked, target, triggers, economy, when_recorded, steps } =
            fields;
        let policy =
            Self { name, about, choose_when, triggers, checked, target, economy, when_recorded, steps };
        policy.checked_fields()
    }
}

impl From<Policy> for Fields {
    fn from(policy: Policy) -> Self {
        let Policy { name, about, choose_when, triggers, checked, target, economy, when_recorded, steps } =
            policy;
        Self { name, about, choose_when, checked, target, triggers, economy, when_recorded, steps }
    }
}

/// Why a policy cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Nobody could ask for it.
    #[error("the policy has no name")]
    NoName,
    /// It would change nothing.
    #[error("the policy has no steps; give at least one, such as {{ strategy = \"ladder\" }}")]
    NoSteps,
    /// It would never run.
    #[error("the policy has no triggers; leave them out for {TRIGGER_PERCENT}% of what is usable")]
    NoTriggers,
    /// It would run at every call.
    #[error("a trigger fires always, because {rule}; give more than 0")]
    FiresAlways {
        /// The rule.
        rule: PolicyTrigger,
    },
    /// A level that is none.
    #[error(transparent)]
    Level(#[from] BudgetError),
}

/// What a model leaves for a transcript.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    window: Tokens,
    output_max: Tokens,
    overhead: Tokens,
    prices: Option<&'static Prices>,
}

impl Room {
    /// A whole window.
    pub fn new(window: Tokens) -> Self {
        Self { window, output_max: Tokens::ZERO, overhead: Tokens::ZERO, prices: None }
    }

    /// With the longest answer; some rules keep room for it.
    #[must_use]
    pub fn output_max(mut self, tokens: Tokens) -> Self {
        self.output_max = tokens;
        self
    }

    /// With what calls cost: a policy that goes by cost needs to know.
    #[must_use]
    pub fn prices(mut self, prices: &'static Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// With what a request holds beside the transcript: system prompt and tool schemas.
    #[must_use]
    pub fn overhead(mut self, tokens: Tokens) -> Self {
        self.overhead = tokens;
        self
    }
}

impl From<&Model> for Room {
    fn from(model: &Model) -> Self {
        Self::new(model.window).output_max(model.output_max)
    }
}

impl Policy {
    /// A policy of one's own: it compacts when one of the triggers fires, step after step.
    pub fn new(
        name: impl Into<Text>,
        triggers: Vec<PolicyTrigger>,
        steps: Vec<StrategyConfig>,
    ) -> Result<Self, PolicyError> {
        let policy = Self {
            name: name.into(),
            about: nothing(),
            choose_when: nothing(),
            triggers,
            checked: Checked::default(),
            target: None,
            economy: None,
            when_recorded: Vec::new(),
            steps,
        };
        policy.checked_fields()
    }

    /// The preset with this name.
    pub fn named(name: &str) -> Option<Self> {
        presets::PRESETS.iter().find(|preset| preset.name == name).map(presets::Preset::policy)
    }

    /// Every preset, the default first.
    pub fn all() -> impl Iterator<Item = Self> {
        presets::PRESETS.iter().map(presets::Preset::policy)
    }

    /// The names of the presets, the default first.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        presets::PRESETS.iter().map(|preset| preset.name)
    }

    fn checked_fields(self) -> Result<Self, PolicyError> {
        if self.name.trim().is_empty() {
            return Err(PolicyError::NoName);
        }
        if self.steps.is_empty() {
            return Err(PolicyError::NoSteps);
        }
        if self.triggers.is_empty() {
            return Err(PolicyError::NoTriggers);
        }
        for rule in &self.triggers {
            rule.checked()?;
        }
        for target in self.target.into_iter().chain(self.economy.map(|economy| economy.target)) {
            if let Level::PercentOfUsable(percent) | Level::PercentOfWindow(percent) = target {
                checked_percent(percent)?;
            }
        }
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does, in one line.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// When to choose it, in a few sentences.
    pub fn choose_when(&self) -> &str {
        &self.choose_when
    }

    /// When it compacts: as soon as one of these fires.
    pub fn triggers(&self) -> &[PolicyTrigger] {
        &self.triggers
    }

    /// How often the triggers are asked.
    pub fn checked(&self) -> Checked {
        self.checked
    }

    /// What it aims for, where its steps aim at a size and it does not leave that to the budget.
    pub fn target(&self) -> Option<Level> {
        self.target
    }

    /// How it goes by cost, where it does.
    pub fn economy(&self) -> Option<Economy> {
        self.economy
    }

    /// What it does to tool results as they are recorded, before any call reads them. What is older is
    /// caught up with by a compaction, which begins with these steps.
    pub fn when_recorded(&self) -> &[StrategyConfig] {
        &self.when_recorded
    }

    /// What a compaction does, step after step.
    pub fn steps(&self) -> &[StrategyConfig] {
        &self.steps
    }

    /// The same policy with its summaries attending to something.
    #[must_use]
    pub fn with_focus(mut self, focus: impl Into<Text>) -> Self {
        let focus = focus.into();
        self.steps = self.steps.into_iter().map(|step| step.with_focus(focus.clone())).collect();
        self
    }

    /// The same policy with its summaries standing there.
    #[must_use]
    pub fn with_summary_placement(mut self, placement: SummaryPlacement) -> Self {
        let placed = |step: StrategyConfig| step.with_summary_placement(placement);
        self.steps = self.steps.into_iter().map(placed).collect();
        self
    }

    /// The levels of this policy for a window. A trigger above what is usable is brought down to it:
    /// a policy never waits until a request is rejected.
    pub fn budget(&self, room: Room) -> Result<Budget, BudgetError> {
        let leaves_room = self.triggers.contains(&PolicyTrigger::InputLimit);
        let output_reserve =
            if leaves_room { room.output_max.min(ANSWER_HEADROOM_MAX) } else { Tokens::ZERO };
        let usable = room.window.saturating_sub(output_reserve + room.overhead);
        let mut builder = Budget::builder(room.window).output_reserve(output_reserve).overhead(room.overhead);
        if usable == Tokens::ZERO {
            return builder.build();
        }
        let mut trigger = usable;
        for rule in &self.triggers {
            trigger = trigger.min(rule.level(room, usable)?.unwrap_or(usable)).max(Tokens(1));
        }
        builder = builder.trigger(trigger);
        if let (Some(economy), Some(prices)) = (self.economy, room.prices) {
            let target = builder.target(economy.target).build()?.target();
            let level = prices.economic_level(target, economy.growth_tokens);
            return builder.trigger(level.min(trigger)).target(target).build();
        }
        match self.target {
            Some(target) => builder.target(target).build(),
            None => builder.build(),
        }
    }

    /// Says call by call whether it would compact now, at the levels of `budget`.
    pub fn trigger(&self, budget: &Budget) -> Box<dyn Trigger> {
        Box::new(Fires::new(&self.triggers, self.checked, budget))
    }

    /// The same where it is known what calls cost: a policy that goes by cost then also compacts
    /// when the prompt cache is cold anyway, because rewriting costs nothing more.
    pub fn trigger_in(&self, room: Room, budget: &Budget) -> Box<dyn Trigger> {
        let fires = Fires::new(&self.triggers, self.checked, budget);
        match (self.economy, room.prices) {
            (Some(_), Some(prices)) => Box::new(fires.when_cold(prices, budget.target())),
            _ => Box::new(fires),
        }
    }

    /// What a compaction does: the steps for recorded items, then its own, as one pipeline.
    pub fn strategy(&self) -> Arc<dyn Strategy> {
        Arc::new(pipeline(self.when_recorded.iter().chain(&self.steps)))
    }

    /// What is done each time tools have answered, before the model reads it, if anything. A
    /// `StrategyCompactor` with this policy does it.
    pub fn recording_strategy(&self) -> Option<Arc<dyn Strategy>> {
        let fresh_only = || FreshOnlyStrategy::new(pipeline(&self.when_recorded));
        (!self.when_recorded.is_empty()).then(|| Arc::new(fresh_only()) as Arc<dyn Strategy>)
    }

    /// The steps as one line, such as `drop-reasoning → keep-recent(8)`.
    pub fn describe(&self) -> String {
        self.strategy().describe()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::named(POLICY_DEFAULT).expect("the default is a preset")
    }
}

fn pipeline<'a>(steps: impl IntoIterator<Item = &'a StrategyConfig>) -> StrategyPipeline {
    steps.into_iter().cloned().fold(StrategyPipeline::new(), StrategyPipeline::with_strategy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Policy, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_preset_says_what_it_is_and_can_be_written_and_read_again() {
        assert_eq!(Policy::names().next(), Some(POLICY_DEFAULT));
        assert_eq!(Policy::default().name(), POLICY_DEFAULT);
        for policy in Policy::all() {
            let sentences = policy.choose_when().matches(". ").count() + 1;
            assert!((2..=3).contains(&sentences), "{}: {sentences} sentences", policy.name());
            assert!(!policy.about().is_empty() && !policy.about().ends_with('.'), "{}", policy.name());
            let written = serde_json::to_string(&policy).unwrap();
            assert_eq!(read(&written), Ok(policy));
        }
    }

    #[test]
    fn what_cannot_be_a_policy_is_refused_with_its_reason() {
        let step = r#"{"strategy":"keep-recent","keep_last":8}"#;
        let with = |rest: &str| read(&format!(r#"{{"name":"mine","steps":[{step}]{rest}}}"#));
        assert!(with("").is_ok());
        assert_eq!(with("").unwrap().triggers(), default_triggers());
        let refused = |rest: &str| with(rest).unwrap_err();
        assert!(refused(r#","triggers":[]"#).contains("no triggers"));
        assert!(refused(r#","triggers":[{"rule":"items","items_max":0}]"#).contains("more than 0"));
        assert!(refused(r#","triggers":[{"rule":"reaches","at":"120%"}]"#).contains("120"));
        assert!(refused(r#","triggers":[{"rule":"reported","percent":-1}]"#).contains("-1"));
        assert!(refused(r#","target":"120% of window""#).contains("120"));
        assert!(refused(r#","trigers":[]"#).contains("trigers"));
        assert!(read(r#"{"name":"mine","steps":[]}"#).unwrap_err().contains("no steps"));
        assert!(read(&format!(r#"{{"name":" ","steps":[{step}]}}"#)).unwrap_err().contains("no name"));
    }

    #[test]
    fn a_focus_reaches_every_summary_and_nothing_else() {
        for policy in Policy::all() {
            let focused = policy.clone().with_focus("the parser");
            let written = serde_json::to_string(&focused).unwrap();
            let asks = serde_json::to_string(&policy).unwrap().contains("summary_tokens_max");
            let is_ladder = policy.name() == "ladder";
            assert_eq!(written.contains("the parser"), asks || is_ladder, "{}", policy.name());
        }
    }

    #[test]
    fn what_a_request_holds_beside_the_transcript_counts_towards_a_share_of_the_window() {
        let policy = Policy::named("codex").unwrap();
        let room = Room::new(Tokens(200_000)).overhead(Tokens(12_000));
        assert_eq!(policy.budget(room).unwrap().trigger(), Tokens(168_000));
    }

    #[test]
    fn the_ladder_compacts_earlier_where_it_knows_what_carrying_costs() {
        let policy = Policy::named("ladder").unwrap();
        let room = Room::new(Tokens(200_000));
        let by_window = policy.budget(room).unwrap();
        let sonnet = Prices::named("claude-sonnet-4.5").unwrap();
        let by_cost = policy.budget(room.prices(sonnet)).unwrap();
        assert!(by_cost.trigger() < by_window.trigger() && by_cost.target() < by_window.target());
        assert!(by_cost.trigger().0 > by_cost.target().0 * 3 / 2, "{by_cost:?}");
        let small = policy.budget(Room::new(Tokens(10_000)).prices(sonnet)).unwrap();
        assert!(small.trigger() <= Tokens(8_500), "never later than safety allows: {small:?}");
    }

    #[test]
    fn a_window_with_nothing_left_is_an_error_and_a_small_one_lowers_the_trigger() {
        let policy = Policy::named("anthropic-edit").unwrap();
        assert!(policy.budget(Room::new(Tokens(10)).overhead(Tokens(10))).is_err());
        assert_eq!(policy.budget(Room::new(Tokens(32_000))).unwrap().trigger(), Tokens(32_000));
        for policy in Policy::all() {
            for window in [1, 2, 100, 8_192] {
                let budget = policy.budget(Room::new(Tokens(window)).output_max(Tokens(4_096)));
                let is_too_small = window <= 4_096 && policy.name() == "opencode";
                let told = format!("{}: {budget:?}", policy.name());
                // Half of one token is no target.
                assert_eq!(
                    budget.is_err(),
                    is_too_small || (window == 1 && policy.name() != "truncate"),
                    "{told}"
                );
            }
        }
    }
}
