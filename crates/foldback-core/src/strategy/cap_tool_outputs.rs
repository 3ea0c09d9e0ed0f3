//! Shortens old tool results once all of them together are too much.

use serde::{Deserialize, Serialize};

use super::Strategy;
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::part::{Part, ResultPart, ToolResult};
use crate::placeholder::{HeadPercent, is_placeholder, shorten_to_characters};

const ID: &str = "cap-tool-outputs";

/// Fewer characters than this leave no room beside the line that says what is hidden.
const CHARACTERS_MAX_LEAST: usize = 400;

/// Lets tool results have so many tokens together, newest first; each result past that is cut to
/// so many characters, its head and its tail.
///
/// For agents whose newest outputs matter whole and whose old ones only in outline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct CapToolOutputsStrategy {
    tokens_whole: Tokens,
    characters_max: usize,
    head_percent: HeadPercent,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fields {
    tokens_whole: Tokens,
    characters_max: usize,
    head_percent: HeadPercent,
}

/// A limit that leaves nothing of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit of {characters_max} characters was asked for; use at least {CHARACTERS_MAX_LEAST}")]
pub struct CapLimitError {
    /// What was asked for.
    pub characters_max: usize,
}

impl Default for Fields {
    fn default() -> Self {
        let head_percent = HeadPercent::new(20).expect("20 is a percentage");
        Self { tokens_whole: Tokens(50_000), characters_max: 40_000, head_percent }
    }
}

impl Default for CapToolOutputsStrategy {
    /// 50,000 tokens whole; past them 40,000 characters each, 20% head and 80% tail.
    fn default() -> Self {
        let Fields { tokens_whole, characters_max, head_percent } = Fields::default();
        Self { tokens_whole, characters_max, head_percent }
    }
}

impl TryFrom<Fields> for CapToolOutputsStrategy {
    type Error = CapLimitError;
    fn try_from(fields: Fields) -> Result<Self, CapLimitError> {
        let strategy = Self::new(fields.tokens_whole, fields.characters_max)?;
        Ok(strategy.head_percent(fields.head_percent))
    }
}

impl From<CapToolOutputsStrategy> for Fields {
    fn from(strategy: CapToolOutputsStrategy) -> Self {
        let CapToolOutputsStrategy { tokens_whole, characters_max, head_percent } = strategy;
        Self { tokens_whole, characters_max, head_percent }
    }
}

impl CapToolOutputsStrategy {
    /// Leaves the newest results whole up to `tokens_whole` together, and `characters_max` of each
    /// older one.
    pub fn new(tokens_whole: Tokens, characters_max: usize) -> Result<Self, CapLimitError> {
        if characters_max < CHARACTERS_MAX_LEAST {
            return Err(CapLimitError { characters_max });
        }
        Ok(Self { tokens_whole, characters_max, ..Self::default() })
    }

    /// Keeps this share of a cut result from its head, the rest from its tail.
    #[must_use]
    pub fn head_percent(mut self, head_percent: HeadPercent) -> Self {
        self.head_percent = head_percent;
        self
    }

    fn cut(&self, draft: &Draft<'_>, position: usize, part_index: usize) -> Option<Part> {
        let (_, part) = draft.parts(position).find(|&(index, _)| index == part_index)?;
        let Part::ToolResult(result) = part else { return None };
        let handle = draft.part_handle(position, part_index);
        let mut content = result.content.clone();
        let mut is_shorter = false;
        for part in &mut content {
            let ResultPart::Text(text) = part else { continue };
            if is_placeholder(text) {
                continue;
            }
            if let Some(cut) = shorten_to_characters(text, self.characters_max, self.head_percent, &handle) {
                *part = ResultPart::Text(cut.into());
                is_shorter = true;
            }
        }
        is_shorter.then(|| Part::ToolResult(ToolResult { content, ..result.clone() }))
    }
}

impl Strategy for CapToolOutputsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let holding = draft.live_rev().filter(|(_, entry)| entry.holds().contains(Holds::RESULT));
        let holding: Vec<usize> = holding.map(|(position, _)| position).collect();
        let mut room = self.tokens_whole;
        for position in holding {
            let is_result = |part: &Part| matches!(part, Part::ToolResult(_));
            let results = draft.parts(position).filter(|(_, part)| is_result(part));
            let results: Vec<usize> = results.map(|(part_index, _)| part_index).collect();
            for part_index in results.into_iter().rev() {
                let tokens = |draft: &Draft<'_>| Tokens(draft.part_tokens(position, part_index).into());
                if tokens(draft) > room
                    && let Some(cut) = self.cut(draft, position, part_index)
                {
                    let reason = Reason::new(ID, "past what tool results may have together");
                    draft.rewrite(position, part_index, cut, reason);
                }
                room = room.saturating_sub(tokens(draft));
            }
        }
    }

    fn describe(&self) -> String {
        format!("{ID}({})", self.tokens_whole)
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

    fn rounds(count: usize) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("u", "go"));
        for number in 0..count {
            let call = Part::call(format!("c{number}"), "run", &json!({}));
            transcript.push(Item::assistant(format!("a{number}"), vec![call]));
            let output = ToolResult::text(format!("c{number}"), "abcdefghi\n".repeat(100));
            transcript.push(Item::tool(format!("t{number}"), output));
        }
        transcript.push(Item::assistant("end", vec![Part::text("done")]));
        transcript
    }

    fn result_text(view: &View, position: usize) -> String {
        match &view.get(position).unwrap().item().parts[0] {
            Part::ToolResult(result) => match &result.content[0] {
                ResultPart::Text(text) => text.to_string(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_results_stay_whole_and_older_ones_keep_a_fifth_head_and_four_fifths_tail() {
        let transcript = rounds(4);
        let one = u64::from(transcript.get(2).unwrap().tokens().parts[0]);
        let strategy = CapToolOutputsStrategy::new(Tokens(one * 2), 500).unwrap();
        let view = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor().view;
        let whole = result_text(&View::of(&transcript), 2);
        assert_eq!((result_text(&view, 6), result_text(&view, 8)), (whole.clone(), whole.clone()));
        for position in [2, 4] {
            let cut = result_text(&view, position);
            assert!(cut.chars().count() <= 500, "{cut}");
            let (head, rest) = cut.split_once("\n[folded @").unwrap();
            let (_, tail) = rest.split_once("]\n").unwrap();
            assert!(whole.starts_with(head) && whole.ends_with(tail));
            assert_eq!(head.chars().count(), (head.chars().count() + tail.chars().count()) / 5);
        }
        assert!(plan(&view, &strategy, None).unwrap().is_empty(), "nothing was pushed");
    }

    #[test]
    fn a_limit_without_room_is_an_error() {
        assert!(CapToolOutputsStrategy::new(Tokens(1), 10).is_err());
        let read = serde_json::from_str::<CapToolOutputsStrategy>(r#"{"characters_max":10}"#);
        assert!(read.is_err());
    }
}
