//! Shortens large tool results to their head and tail.

use serde::{Deserialize, Serialize};

use super::Strategy;
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::handle::Handle;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::part::{Part, ResultPart, ToolResult};
use crate::placeholder::{HeadPercent, is_placeholder, shorten_to_limits};
use crate::tokens::Meter;

const ID: &str = "truncate-tool-outputs";

/// Below this, a marker costs more than it saves.
const TOKENS_MAX_LEAST: Tokens = Tokens(32);

/// Shortens the text of tool results to so many lines and so many tokens: its head, a line with a
/// handle, its tail. One enormous line is cut like any other text.
///
/// Results in the unit in flight stay as they are, unless [`shorten_fresh`] is chosen: a host may
/// shorten a result as soon as it arrives, so that pressure builds slower.
///
/// [`shorten_fresh`]: TruncateToolOutputsStrategy::shorten_fresh
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct TruncateToolOutputsStrategy {
    lines_max: Option<usize>,
    tokens_max: Option<Tokens>,
    head_percent: HeadPercent,
    fresh: Fresh,
    spared_turns: usize,
}

/// What becomes of results in the unit in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fresh {
    #[default]
    Keep,
    Shorten,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines_max: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens_max: Option<Tokens>,
    #[serde(default)]
    head_percent: HeadPercent,
    #[serde(default)]
    fresh: Fresh,
    #[serde(default)]
    spared_turns: usize,
}

/// A limit under which nothing can be shortened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TruncateLimitError {
    /// No line at all.
    #[error("a limit of 0 lines was asked for; use at least 1")]
    Lines,
    /// Fewer tokens than a marker takes.
    #[error("a limit of {tokens_max} tokens was asked for; use at least {TOKENS_MAX_LEAST}")]
    Tokens {
        /// What was asked for.
        tokens_max: Tokens,
    },
}

impl Default for TruncateToolOutputsStrategy {
    /// 50 lines, 2,000 tokens, as much head as tail.
    fn default() -> Self {
        Self {
            lines_max: Some(50),
            tokens_max: Some(Tokens(2_000)),
            head_percent: HeadPercent::HALF,
            fresh: Fresh::Keep,
            spared_turns: 0,
        }
    }
}

impl TryFrom<Fields> for TruncateToolOutputsStrategy {
    type Error = TruncateLimitError;
    fn try_from(fields: Fields) -> Result<Self, TruncateLimitError> {
        let Fields { lines_max, tokens_max, head_percent, fresh, spared_turns } = fields;
        let mut strategy = Self { lines_max: None, tokens_max: None, head_percent, fresh, spared_turns };
        if let Some(lines_max) = lines_max {
            strategy = strategy.lines_max(lines_max)?;
        }
        match tokens_max {
            Some(tokens_max) => strategy.tokens_max(tokens_max),
            None => Ok(strategy),
        }
    }
}

impl From<TruncateToolOutputsStrategy> for Fields {
    fn from(strategy: TruncateToolOutputsStrategy) -> Self {
        let TruncateToolOutputsStrategy { lines_max, tokens_max, head_percent, fresh, spared_turns } =
            strategy;
        Self { lines_max, tokens_max, head_percent, fresh, spared_turns }
    }
}

impl TruncateToolOutputsStrategy {
    /// Limits by lines only.
    pub fn by_lines(lines_max: usize) -> Result<Self, TruncateLimitError> {
        Self { lines_max: None, tokens_max: None, ..Self::default() }.lines_max(lines_max)
    }

    /// Limits by tokens only.
    pub fn by_tokens(tokens_max: Tokens) -> Result<Self, TruncateLimitError> {
        Self { lines_max: None, tokens_max: None, ..Self::default() }.tokens_max(tokens_max)
    }

    /// Limits the lines.
    pub fn lines_max(mut self, lines_max: usize) -> Result<Self, TruncateLimitError> {
        if lines_max == 0 {
            return Err(TruncateLimitError::Lines);
        }
        self.lines_max = Some(lines_max);
        Ok(self)
    }

    /// Limits the tokens.
    pub fn tokens_max(mut self, tokens_max: Tokens) -> Result<Self, TruncateLimitError> {
        if tokens_max < TOKENS_MAX_LEAST {
            return Err(TruncateLimitError::Tokens { tokens_max });
        }
        self.tokens_max = Some(tokens_max);
        Ok(self)
    }

    /// Keeps this share of the kept text from its head, the rest from its tail.
    #[must_use]
    pub fn head_percent(mut self, head_percent: HeadPercent) -> Self {
        self.head_percent = head_percent;
        self
    }

    /// Shortens results in the unit in flight too.
    #[must_use]
    pub fn shorten_fresh(mut self) -> Self {
        self.fresh = Fresh::Shorten;
        self
    }

    /// Leaves the results of the first turns as they are.
    #[must_use]
    pub fn spare_first_turns(mut self, turns: usize) -> Self {
        self.spared_turns = turns;
        self
    }

    fn shorten(&self, result: &ToolResult, handle: &Handle, meter: &Meter) -> Option<ToolResult> {
        let mut content = result.content.clone();
        let mut is_shorter = false;
        for part in &mut content {
            let ResultPart::Text(text) = part else { continue };
            if let Some(shortened) = self.shorten_text(text, handle, meter) {
                *part = ResultPart::Text(shortened.into());
                is_shorter = true;
            }
        }
        is_shorter.then(|| ToolResult { content, ..result.clone() })
    }

    fn shorten_text(&self, text: &str, handle: &Handle, meter: &Meter) -> Option<String> {
        if is_placeholder(text) {
            return None;
        }
        shorten_to_limits(text, self.lines_max, self.tokens_max, self.head_percent, handle, meter)
    }
}

impl Strategy for TruncateToolOutputsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let lines_max = self.lines_max.unwrap_or(usize::MAX);
        let tokens_max = self.tokens_max.unwrap_or(Tokens(u64::MAX));
        let spared_end = match self.spared_turns {
            0 => 0,
            turns => draft.turn_starts().nth(turns).unwrap_or(draft.len()),
        };
        for (position, entry) in draft.view().iter().enumerate().skip(spared_end) {
            if !draft.is_live(position) {
                continue;
            }
            let is_small = entry.result_lines_max() <= lines_max
                && entry.tokens().total <= tokens_max
                && !draft.is_rewritten(position);
            if is_small || !entry.holds().contains(Holds::RESULT) {
                continue;
            }
            let shorten = |(part_index, part): (usize, &Part)| match part {
                Part::ToolResult(result) => {
                    let handle = draft.part_handle(position, part_index);
                    Some((part_index, self.shorten(result, &handle, draft.meter())?))
                }
                _ => None,
            };
            let shortened: Vec<_> = draft.parts(position).filter_map(shorten).collect();
            for (part_index, result) in shortened {
                let reason = Reason::new(ID, "more than the limit for one result");
                let part = Part::ToolResult(result);
                match self.fresh {
                    Fresh::Shorten if draft.unit_in_flight().contains(&position) => {
                        draft.shorten_in_flight(position, part_index, part, reason)
                    }
                    Fresh::Keep | Fresh::Shorten => draft.rewrite(position, part_index, part, reason),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    fn with_result(text: &str) -> Transcript {
        [
            Item::user("u", "read"),
            Item::assistant("a", vec![Part::call("c", "read", &json!({}))]),
            Item::tool("t", ToolResult::text("c", text)),
        ]
        .into_iter()
        .collect()
    }

    /// The defect of phi-core: a single 400 KB line drops everything else.
    #[test]
    fn a_single_enormous_line_is_cut_and_nothing_else_goes() {
        let mut transcript = with_result(&"x".repeat(400_000));
        transcript.push(Item::assistant("end", vec![Part::text("that was long")]));
        let compacted = plan(&View::of(&transcript), &TruncateToolOutputsStrategy::default(), None)
            .unwrap()
            .apply_floor();
        assert_eq!(compacted.view.len(), 4);
        assert!(compacted.view.tokens() < Tokens(2_200), "{}", compacted.view.tokens());
    }

    #[test]
    fn a_fresh_result_is_shortened_only_where_asked() {
        let transcript = with_result(&"line\n".repeat(1_000));
        let view = View::of(&transcript);
        assert!(plan(&view, &TruncateToolOutputsStrategy::default(), None).unwrap().is_empty());
        let eager = TruncateToolOutputsStrategy::default().shorten_fresh();
        assert_eq!(plan(&view, &eager, None).unwrap().edits().len(), 1);
    }

    #[test]
    fn a_limit_under_which_nothing_fits_is_an_error() {
        assert_eq!(TruncateToolOutputsStrategy::by_lines(0), Err(TruncateLimitError::Lines));
        assert!(TruncateToolOutputsStrategy::by_tokens(Tokens(5)).is_err());
        assert!(serde_json::from_str::<TruncateToolOutputsStrategy>(r#"{"lines_max":0}"#).is_err());
    }
}
