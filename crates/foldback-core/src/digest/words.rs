//! What is quoted of the user's words where not all of them fit: rules first, then how the message
//! begins and ends.

use std::ops::Range;

use super::statements::{Sentence, Worth};
use super::text::{LEFT_OUT, both_ends};
use crate::ledger::RULES_BYTES_MAX;

/// A shorter message is quoted as a whole where a sentence of it is.
const SHORT_BYTES_MAX: usize = 160;

/// What the user said in one message, within `bytes_max`, without what no longer holds: all of it, or its
/// rules and then its first and last sentences, in order.
pub(super) fn quoted(text: &str, sentences: &[Sentence], bytes_max: usize) -> String {
    let is_whole = sentences.iter().all(|sentence| sentence.worth != Worth::Outdated);
    if is_whole && text.trim().len() <= bytes_max {
        return text.trim().to_owned();
    }
    if sentences.is_empty() {
        return both_ends(text, bytes_max);
    }
    let rules = sentences.iter().filter(|sentence| sentence.worth <= Worth::Rule);
    let others = outside_in(sentences).filter(|sentence| matches!(sentence.worth, Worth::Fact | Worth::Talk));
    let (mut chosen, mut used) = (Vec::new(), 0);
    for sentence in rules.chain(others) {
        if used + sentence.span.len() <= bytes_max {
            used += sentence.span.len() + 1;
            chosen.push(sentence.span.clone());
        }
    }
    in_order(text, chosen)
}

/// The sentences of one message that are worth as much at least; nothing where there are none, or where
/// a message with so much prose was pasted.
pub(super) fn worth_at_least(
    text: &str,
    sentences: &[Sentence],
    worth: Worth,
    mut is_wanted: impl FnMut(&str) -> bool,
) -> Option<String> {
    let prose: usize = sentences.iter().map(|sentence| sentence.span.len()).sum();
    if prose > RULES_BYTES_MAX {
        return None;
    }
    let wanted =
        sentences.iter().filter(|sentence| sentence.worth <= worth).map(|sentence| sentence.span.clone());
    let wanted: Vec<Range<usize>> = wanted.filter(|span| is_wanted(&text[span.clone()])).collect();
    if wanted.is_empty() {
        return None;
    }
    let is_whole = text.trim().len() <= SHORT_BYTES_MAX
        && sentences
            .iter()
            .all(|sentence| sentence.worth != Worth::Outdated && is_wanted(&text[sentence.span.clone()]));
    Some(if is_whole { text.trim().to_owned() } else { in_order(text, wanted) })
}

/// The first, the last, the second, the last but one and so on.
fn outside_in(sentences: &[Sentence]) -> impl Iterator<Item = &Sentence> {
    (0..sentences.len()).map(|step| match step % 2 {
        0 => &sentences[step / 2],
        _ => &sentences[sentences.len() - 1 - step / 2],
    })
}

/// Spans of a text in its order, with a mark where something between them is left out.
fn in_order(text: &str, mut spans: Vec<Range<usize>>) -> String {
    spans.sort_by_key(|span| span.start);
    let mut all = String::new();
    let mut end = 0;
    for span in spans {
        let between = text.get(end..span.start).unwrap_or("");
        match between.trim().is_empty() {
            true if end > 0 => all.push_str(between),
            true => {}
            false => {
                all.push_str(if all.is_empty() { "" } else { " " });
                all.push_str(LEFT_OUT);
                all.push(' ');
            }
        }
        all.push_str(&text[span.clone()]);
        end = span.end;
    }
    if !text.get(end..).unwrap_or("").trim().is_empty() {
        all.push(' ');
        all.push_str(LEFT_OUT);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::statements::sentences_of;
    use super::*;

    #[test]
    fn of_a_long_message_the_rules_stay_and_how_it_begins_and_ends() {
        let filler = "This is told to fill the page with something. ".repeat(20);
        let text =
            format!("Make it faster. {filler}Never touch src/lexer.rs. {filler}Tell me when it works.");
        let quoted = quoted(&text, &sentences_of(&text), 160);
        assert!(quoted.contains("Never touch src/lexer.rs."), "{quoted}");
        assert!(
            quoted.starts_with("Make it faster.") && quoted.ends_with("Tell me when it works."),
            "{quoted}"
        );
        assert!(quoted.contains(LEFT_OUT) && quoted.len() < 240, "{quoted}");
    }

    #[test]
    fn a_short_message_is_quoted_as_it_was_typed() {
        let text = " 1\n2. also this ";
        assert_eq!(quoted(text, &sentences_of(text), 100), "1\n2. also this");
        let rules = |text: &str| worth_at_least(text, &sentences_of(text), Worth::Rule, |_| true);
        assert_eq!(rules("Fine."), None);
        assert_eq!(rules("Hi. Use only tabs.").unwrap(), "Hi. Use only tabs.");
        let long = format!("Hi. {} Use only tabs.", "Here is what happened. ".repeat(9));
        assert_eq!(rules(&long).unwrap(), "[…] Use only tabs.");
    }
}
