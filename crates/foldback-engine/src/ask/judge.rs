//! Whether an answer can be taken for a summary, and what must be added to it.

use foldback_core::summary::ModelSummary;
use foldback_core::{FinishReason, FoldRequest, Item, ItemKind, Meter, Part, Tokens, redact};

use super::demands::Demands;
use crate::backend::SummaryResult;
use crate::event::SummaryFault;

/// An answer this much longer than asked for is cut at a line; a longer one is not taken.
const INFLATION_MAX: f64 = 1.2;

/// An answer that leaves out more of what must stand in it is asked for again.
const MISSING_FRACTION_MAX: f64 = 0.75;

/// Of fewer demands an answer may leave out all: adding them is enough.
const DEMANDS_MIN: usize = 3;

/// An answer that tells none of so many facts is about something else.
const FACTS_MIN: usize = 20;

/// A refusal is shorter than this; a summary may begin with the same words.
const REFUSAL_BYTES_MAX: usize = 600;

/// How models begin when they refuse, in lower case with straight apostrophes.
const REFUSALS: &[&str] = &[
    "i'm sorry",
    "i am sorry",
    "sorry,",
    "sorry but",
    "i apologize",
    "i can't ",
    "i cannot ",
    "i can not ",
    "i won't ",
    "i will not ",
    "i'm unable",
    "i am unable",
    "i'm not able",
    "i am not able",
    "i must decline",
    "as an ai",
    "as a language model",
    "unfortunately, i can",
    "es tut mir leid",
    "je suis désolé",
    "je ne peux pas",
    "lo siento",
    "no puedo",
    "desculpe",
    "извините",
    "к сожалению, я не",
    "抱歉",
    "对不起",
    "很抱歉",
    "申し訳",
    "죄송",
];

/// Under which the newest failure stands where the answer leaves it out.
const FAILURE_HEADING: &str = "## Still failing";

/// Attempts at a text that fits, each with less of the answer.
const CUTS_MAX: usize = 8;

/// Less of an answer than this share is no longer what the model wrote.
const CUT_FRACTION_MIN: f64 = 0.5;

/// What an answer says; why it cannot be taken, where that is plain to see.
pub(super) fn text_of(result: &SummaryResult) -> Result<String, SummaryFault> {
    let mut texts: Vec<&str> = Vec::new();
    for item in &result.items {
        if item.kind != ItemKind::Context {
            return Err(SummaryFault::NotText { what: format!("a {} item", item.kind) });
        }
        for part in &item.parts {
            match part {
                Part::Text(text) => texts.push(text),
                Part::Structured(json) => texts.push(json.as_str()),
                Part::Reasoning(_)
                | Part::ToolCall(_)
                | Part::ToolResult(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Opaque(_) => {
                    return Err(SummaryFault::NotText { what: part.kind_name().to_owned() });
                }
            }
        }
    }
    let text = texts.join("\n").trim().to_owned();
    match result.finish {
        Some(FinishReason::ContentFilter) => Err(SummaryFault::Refused),
        Some(FinishReason::Length | FinishReason::Interrupted | FinishReason::Error) => {
            Err(SummaryFault::Truncated)
        }
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None if text.is_empty() => {
            Err(SummaryFault::Empty)
        }
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None => Ok(text),
    }
}

/// Whether a text is a refusal rather than a summary.
pub(super) fn is_refusal(text: &str) -> bool {
    let opening: String = text.chars().take(40).flat_map(char::to_lowercase).collect();
    let opening = opening.replace('\u{2019}', "'");
    text.len() <= REFUSAL_BYTES_MAX && REFUSALS.iter().any(|refusal| opening.starts_with(refusal))
}

/// What an answer is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure<'m> {
    pub(super) demands: &'m Demands,
    /// How many facts the folded items tell.
    pub(super) fact_count: usize,
    /// What the model was asked to stay within.
    pub(super) asked: Tokens,
    pub(super) meter: &'m Meter,
}

/// Judges what an answer says; `told_count` is how many of the facts it tells.
pub(super) fn judge(text: &str, told_count: usize, measure: &Measure<'_>) -> Result<(), SummaryFault> {
    let Measure { demands, fact_count, asked, meter } = measure;
    let demanded = demands.count();
    let missing = demands.missing_in(text).count();
    if is_refusal(text) && (demanded == 0 || missing == demanded) {
        return Err(SummaryFault::Refused);
    }
    let tokens = Tokens(meter.text(text));
    if tokens > asked.scaled_up(INFLATION_MAX) {
        return Err(SummaryFault::Inflated { tokens, tokens_max: *asked });
    }
    let leaves_out = missing as f64 > demanded as f64 * MISSING_FRACTION_MAX;
    if leaves_out && demanded >= DEMANDS_MIN {
        return Err(SummaryFault::Incomplete { missing, demanded });
    }
    if told_count == 0 && *fact_count >= FACTS_MIN {
        return Err(SummaryFault::Incomplete { missing: *fact_count, demanded: *fact_count });
    }
    Ok(())
}

/// A summary made of an answer.
#[derive(Clone, Debug)]
pub(super) struct Repaired {
    pub(super) item: Item,
    /// How many demands were added.
    pub(super) added: usize,
}

/// Makes an answer into the summary item of a fold: behind the header that names its handle, with
/// every demand that it leaves out, without secrets, within the size that the fold has room for.
pub(super) fn repaired(
    request: &FoldRequest<'_>,
    header: &str,
    answer: &str,
    demands: &Demands,
    written_by: &str,
) -> Result<Repaired, SummaryFault> {
    let (meter, tokens_max) = (request.view().transcript().meter(), request.fold().spec.tokens_max);
    let (whole, closing) = (without_demands(answer, demands), request.closing());
    let mut answer = whole.as_str();
    let mut tokens = Tokens::ZERO;
    for _ in 0..CUTS_MAX {
        let missing = demands.missing_in(answer);
        let changed = missing.file_lines();
        let mut text = ModelSummary { said: &missing.rules, changed: &changed, answer }.text(header);
        if let Some(failure) = &missing.failure {
            text = format!("{text}\n{FAILURE_HEADING}\n{}", failure.line());
        }
        if let Some(closing) = &closing {
            text = format!("{text}\n{closing}");
        }
        let item = request.item(redact(&text).into_owned(), written_by);
        tokens = meter.item(&item).total;
        if tokens <= tokens_max {
            return Ok(Repaired { item, added: missing.count() });
        }
        let over = tokens.saturating_sub(tokens_max);
        answer = cut(answer, Tokens(meter.text(answer)).saturating_sub(over), meter);
        if (answer.len() as f64) < whole.len() as f64 * CUT_FRACTION_MIN {
            break;
        }
    }
    Err(SummaryFault::Inflated { tokens, tokens_max })
}

/// The answer without the lines that only repeat a rule: those stand in the user's own section.
fn without_demands(answer: &str, demands: &Demands) -> String {
    let is_rule = |line: &str| {
        let words =
            line.trim().trim_start_matches(['-', '*', '>', ' ', '"', '“']).trim_end_matches(['"', '”']);
        demands.rules.iter().any(|rule| **rule == *words)
    };
    let lines: Vec<&str> = answer.lines().filter(|line| !is_rule(line)).collect();
    lines.join("\n")
}

/// The beginning of a text within `tokens_max`, whole lines only.
pub(super) fn cut<'t>(text: &'t str, tokens_max: Tokens, meter: &Meter) -> &'t str {
    let (mut end, mut left) = (0, tokens_max.0);
    for line in text.split_inclusive('\n') {
        let tokens = meter.text(line);
        if tokens > left {
            break;
        }
        left -= tokens;
        end += line.len();
    }
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::Transcript;

    fn answer(text: &str, finish: Option<FinishReason>) -> SummaryResult {
        let items = vec![Item::text("s", ItemKind::Context, text)];
        SummaryResult { items, finish, ..SummaryResult::default() }
    }

    #[test]
    fn an_answer_that_was_cut_off_or_withheld_or_is_no_text_is_not_taken() {
        assert_eq!(text_of(&answer(" fine \n", Some(FinishReason::Stop))), Ok("fine".to_owned()));
        assert_eq!(text_of(&answer("\n", None)), Err(SummaryFault::Empty));
        assert_eq!(text_of(&SummaryResult::default()), Err(SummaryFault::Empty));
        assert_eq!(text_of(&answer("cut o", Some(FinishReason::Length))), Err(SummaryFault::Truncated));
        assert_eq!(text_of(&answer("", Some(FinishReason::ContentFilter))), Err(SummaryFault::Refused));
        let user = SummaryResult { items: vec![Item::user("u", "text")], ..SummaryResult::default() };
        assert!(matches!(text_of(&user), Err(SummaryFault::NotText { .. })));
        let thought = Item::new("s", ItemKind::Context, vec![Part::reasoning("hm")]);
        let thought = SummaryResult { items: vec![thought], ..SummaryResult::default() };
        assert!(matches!(text_of(&thought), Err(SummaryFault::NotText { .. })));
    }

    #[test]
    fn a_refusal_is_told_from_a_summary_that_begins_like_one() {
        assert!(is_refusal("I’m sorry, but I can't help with that."));
        assert!(is_refusal("很抱歉，我无法提供帮助。"));
        assert!(!is_refusal("The user is sorry about the parser."));
        assert!(!is_refusal(&format!(
            "I cannot build it yet. {}",
            "The parser fails in scan(). ".repeat(40)
        )));
    }

    #[test]
    fn a_text_is_cut_between_lines_only() {
        let transcript = Transcript::default();
        let meter = transcript.meter();
        let text = "first line of it\nsecond line of it\nthird line of it";
        let two = meter.text("first line of it\n") + meter.text("second line of it\n");
        assert_eq!(cut(text, Tokens(two), meter), "first line of it\nsecond line of it");
        assert_eq!(cut(text, Tokens(two - 1), meter), "first line of it");
        assert_eq!(cut(text, Tokens::ZERO, meter), "");
    }
}
