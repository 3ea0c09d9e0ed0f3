//! Names and reasons that are recorded, in words for somebody who sees them for the first time.

use foldback_core::CompactionReason;

use crate::terminal::number;

/// What stands between the steps of a compaction that took several.
const THEN: &str = " → ";

/// Who made a compaction: the steps, one after the other.
pub(crate) fn by(strategy: &str) -> String {
    let step = |name: &str| match name {
        "block-compaction" => "first and newest turns kept, the rest summarised".to_owned(),
        "session-block" => "one summary for each older part".to_owned(),
        name => name.to_owned(),
    };
    strategy.split(THEN).map(step).collect::<Vec<_>>().join(", then ")
}

/// Why it was made, to stand behind `because`.
pub(crate) fn why(reason: &CompactionReason) -> String {
    match reason {
        CompactionReason::Manual => "somebody asked for it".to_owned(),
        CompactionReason::BudgetReached { tokens, level } => {
            format!("the conversation had {} tokens, and {} are the limit", number(tokens.0), number(level.0))
        }
        CompactionReason::TranscriptTooLong => "the conversation was too long".to_owned(),
        CompactionReason::OverflowRejected => "the provider rejected a request for its length".to_owned(),
        CompactionReason::ModelSwitched => "the next model has a smaller window".to_owned(),
        CompactionReason::Idle => "nobody was waiting".to_owned(),
        CompactionReason::Interval => "it was time again".to_owned(),
        CompactionReason::ToolOutput => "a tool gave a large answer".to_owned(),
        CompactionReason::NewItem => "something new was said".to_owned(),
        CompactionReason::CompactionCompleted => "it goes on from another compaction".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_step_is_left_that_only_the_code_knows() {
        assert_eq!(
            by("block-compaction → ladder"),
            "first and newest turns kept, the rest summarised, then ladder"
        );
        assert_eq!(by("keep-recent(8)"), "keep-recent(8)");
    }
}
