//! Whether an answer can be taken for a summary, and what must be added to it.

use foldback_core::summary::{ModelSummary, SUMMARY_TOKENS_MIN};
use foldback_core::{FinishReason, FoldRequest, Item, Meter, Part, Text, Tokens, redact};

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

/// Attempts at a text that fits, each with less of the answer.
const CUTS_MAX: usize = 8;

/// Less of an answer than this share is no longer what the model wrote.
const CUT_FRACTION_MIN: f64 = 0.5;

/// What an answer says, a text for each of its items; why it cannot be taken, where that is plain to see.
/// Whatever kind its items have, they become context; what the model thought is left out.
pub(super) fn texts_of(result: &SummaryResult) -> Result<Vec<String>, SummaryFault> {
    let mut texts = Vec::new();
    for item in &result.items {
        let mut said: Vec<&str> = Vec::new();
        for part in &item.parts {
            match part {
                Part::Text(text) => said.push(text),
                Part::Structured(json) => said.push(json.as_str()),
                Part::Reasoning(_) => {}
                Part::ToolCall(_)
                | Part::ToolResult(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Opaque(_) => {
                    return Err(SummaryFault::NotText { what: part.kind_name().to_owned() });
                }
            }
        }
        texts.push(said.join("\n").trim().to_owned());
    }
    texts.retain(|text| !text.is_empty());
    match result.finish {
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None if texts.is_empty() => {
            Err(SummaryFault::Empty)
        }
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None => Ok(texts),
        Some(FinishReason::ContentFilter) => Err(SummaryFault::Refused),
        Some(_) => Err(SummaryFault::Truncated),
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
    pub(super) items: Vec<Item>,
    /// How many demands were added.
    pub(super) added: usize,
}

/// What the summary of a fold is made of, beside the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'f> {
    pub(super) request: &'f FoldRequest<'f>,
    /// The line that names the handle of the fold.
    pub(super) header: &'f str,
    pub(super) demands: &'f Demands,
    pub(super) written_by: &'f str,
}

impl Frame<'_> {
    /// Makes an answer into the summary items of the fold: behind the header, with every demand that it
    /// leaves out, without secrets, within the size that the fold has room for. Several items stay several
    /// where there is room for all of them.
    pub(super) fn repaired(&self, answer: &[String]) -> Result<Repaired, SummaryFault> {
        let whole = answer.iter().map(|text| without_demands(&redact(text), self.demands));
        let whole: Vec<String> = whole.collect();
        match whole.as_slice() {
            [only] => self.within(only),
            several => self.made_of(several).or_else(|_| self.within(&several.join("\n"))),
        }
    }

    /// One item, of as much of the text as there is room for.
    fn within(&self, whole: &str) -> Result<Repaired, SummaryFault> {
        let meter = self.request.view().transcript().meter();
        let mut answer = whole;
        for _ in 0..CUTS_MAX {
            let over = match self.made_of(&[answer]) {
                Ok(repaired) => return Ok(repaired),
                Err(over) => over,
            };
            answer = cut(answer, Tokens(meter.text(answer)).saturating_sub(over), meter);
            if (answer.len() as f64) < whole.len() as f64 * CUT_FRACTION_MIN {
                break;
            }
        }
        let (tokens, tokens_max) = (Tokens(meter.text(whole)), self.tokens_max());
        Err(SummaryFault::Inflated { tokens, tokens_max })
    }

    fn tokens_max(&self) -> Tokens {
        self.request.fold().spec.tokens_max
    }

    /// An item for each text, or by how much they are too large.
    fn made_of(&self, answer: &[impl AsRef<str>]) -> Result<Repaired, Tokens> {
        let mut texts: Vec<String> = answer.iter().map(|text| text.as_ref().to_owned()).collect();
        let missing = self.demands.missing_in(&texts.join("\n"));
        if let Some(first) = texts.first_mut() {
            *first = self.first_text(first, &missing);
        }
        let items = self.request.items(texts, self.written_by);
        let meter = self.request.view().transcript().meter();
        let tokens: Tokens = items.iter().map(|item| meter.item(item).total).sum();
        match tokens <= self.tokens_max() {
            true => Ok(Repaired { items, added: missing.count() + missing.kept.len() }),
            false => Err(tokens.saturating_sub(self.tokens_max())),
        }
    }

    fn first_text(&self, answer: &str, missing: &Demands) -> String {
        let closing = self.request.closing();
        let is_bare = *missing == Demands::default() && closing.is_none();
        // A header would cost more than what it names.
        if is_bare && self.request.fold().tokens_before.0 <= SUMMARY_TOKENS_MIN {
            return answer.to_owned();
        }
        let changed = missing.file_lines();
        let failure = missing.failure.as_ref().map(|failure| failure.line());
        let kept: Vec<Text> = missing.kept.iter().map(|line| line.written().into()).collect();
        let summary = ModelSummary {
            said: &missing.rules,
            kept: &kept,
            changed: &changed,
            answer,
            failure: failure.as_deref(),
        };
        let text = summary.text(self.header);
        match closing {
            Some(closing) => format!("{text}\n{closing}"),
            None => text,
        }
    }
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
    use foldback_core::{ItemKind, Transcript};

    fn answer(text: &str, finish: Option<FinishReason>) -> SummaryResult {
        let items = vec![Item::text("s", ItemKind::Context, text)];
        SummaryResult { items, finish, ..SummaryResult::default() }
    }

    #[test]
    fn an_answer_that_was_cut_off_or_withheld_or_is_no_text_is_not_taken() {
        assert_eq!(texts_of(&answer(" fine \n", Some(FinishReason::Stop))), Ok(vec!["fine".to_owned()]));
        assert_eq!(texts_of(&answer("\n", None)), Err(SummaryFault::Empty));
        assert_eq!(texts_of(&SummaryResult::default()), Err(SummaryFault::Empty));
        assert_eq!(texts_of(&answer("cut o", Some(FinishReason::Length))), Err(SummaryFault::Truncated));
        assert_eq!(texts_of(&answer("", Some(FinishReason::ContentFilter))), Err(SummaryFault::Refused));
        let call = Part::call("c", "read", &serde_json::json!({}));
        let call = SummaryResult::new(vec![Item::new("s", ItemKind::Context, vec![call])]);
        assert!(matches!(texts_of(&call), Err(SummaryFault::NotText { .. })));
    }

    #[test]
    fn an_answer_in_any_kind_is_taken_without_its_thoughts() {
        let said = |kind| {
            let parts = vec![Part::reasoning("hm"), Part::text("done")];
            texts_of(&SummaryResult::new(vec![Item::new("s", kind, parts)]))
        };
        for kind in [ItemKind::Context, ItemKind::Assistant, ItemKind::User, ItemKind::System] {
            assert_eq!(said(kind), Ok(vec!["done".to_owned()]));
        }
        let thought = Item::new("s", ItemKind::Assistant, vec![Part::reasoning("hm")]);
        assert_eq!(texts_of(&SummaryResult::new(vec![thought])), Err(SummaryFault::Empty));
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
