//! What models are asked. Everything from a session, and everything that a model wrote, is quoted as data.

use std::fmt::Write;
use std::sync::Arc;

use foldback_backends::{Quoted, sealed};
use foldback_core::{Item, ItemKind, Part};
use serde_json::json;

use super::answers::UNKNOWN;
use super::questions::{Kind, Question};

/// How often a model is asked again for an answer that can be read.
pub(crate) const REASKS_MAX: usize = 2;

/// Asks for so many questions about what was said before a cut, needed by what came after it.
pub(crate) fn writing(past: &[Arc<Item>], after: &[Arc<Item>], count: usize) -> Vec<Arc<Item>> {
    let quoted = sealed(&[("before", Quoted::Items(past)), ("after", Quoted::Items(after))]);
    let mut kinds = String::new();
    for kind in Kind::ALL {
        let _ = writeln!(kinds, "- {} of `{}`: {}", kind.count_of(count), kind.name(), kind.meaning());
    }
    let system = format!(
        "You write examination questions about a conversation between a person and an assistant that uses tools. \
         The conversation was cut in two. The assistant will go on from the cut with a shortened version of the \
         first part; your questions find out whether that version still tells what is needed.\n\n{}\n\n\
         Rules:\n\
         - Every answer stands in the block `before`. The block `after` only shows what was needed.\n\
         - Ask what the assistant needed for going on: without the answer it would do something wrong or do \
         something twice. Nothing that general knowledge or a look into an obvious file tells.\n\
         - Everything is asked as of the cut: what changed earlier counts in its newest state.\n\
         - One question asks one thing, names what it is about, and does not give away its answer or another's.\n\
         - An answer is one or two sentences with the exact names and values, and nothing else is right.\n\
         - Never ask for passwords, keys or tokens, and repeat none.",
        quoted.rule
    );
    let task = format!(
        "{}Write {count} questions with their answers:\n{kinds}\n\
         Answer with JSON alone, a list of {count} objects: \
         [{{\"category\": \"…\", \"question\": \"…\", \"answer\": \"…\", \"why_needed\": \"…\"}}]. \
         `category` is one of the names above; `why_needed` says in a sentence what of `after` needs it.",
        quoted.blocks
    );
    asked(system, task)
}

/// Asks a reader who sees one view and nothing else.
pub(crate) fn reading(view: &[Arc<Item>], questions: &[Question]) -> Vec<Arc<Item>> {
    let asked_for: Vec<_> =
        questions.iter().map(|question| json!({"id": question.id, "question": question.question})).collect();
    let list = pretty(&asked_for);
    let quoted = sealed(&[("context", Quoted::Items(view)), ("questions", Quoted::Text(&list))]);
    let system = format!(
        "You take over the work of an assistant. All that is left of its conversation with a person is the block \
         `context`: parts of it may be shortened or summarised.\n\n{}\n\n\
         Answer the questions in the block `questions` from `context` ONLY. Do not guess and do not infer from \
         what is usual: where it does not tell, the answer is \"{UNKNOWN}\". Where it tells a part, answer that part. \
         Be short and exact.",
        quoted.rule
    );
    let task = format!(
        "{}Answer with JSON alone: {{\"answers\": [{{\"id\": \"…\", \"answer\": \"…\"}}], \"readability\": N, \
         \"state_known\": N, \"noise_percent\": N}}. `answers` has every id once. `readability` says from 0 to 10 how \
         readable `context` is, `state_known` from 0 to 10 how sure you are of where the work stands and what comes \
         next, `noise_percent` from 0 to 100 how much of its text is of no use to you.",
        quoted.blocks
    );
    asked(system, task)
}

/// Asks for grades of answers on a sheet.
pub(crate) fn grading(sheet: &str) -> Vec<Arc<Item>> {
    let quoted = sealed(&[("sheet", Quoted::Text(sheet))]);
    let system = format!(
        "You grade answers to examination questions. The block `sheet` has for every question the key and the \
         answers of several people, in an order that says nothing.\n\n{}\n\n\
         Grade by substance, not by wording:\n\
         - score 1: the substance of the key is there.\n\
         - score 0.5: about half of it is there.\n\
         - score 0: it is not there. \"{UNKNOWN}\" is 0.\n\
         - wrong: true where the answer says something that contradicts the key. Leaving something out is not \
         wrong, and neither is \"{UNKNOWN}\". An answer that is wrong has no score of 1.\n\
         Grade every answer by itself.",
        quoted.rule
    );
    let task = format!(
        "{}Answer with JSON alone, a list with every question once: \
         [{{\"id\": \"…\", \"grades\": [{{\"score\": 1, \"wrong\": false}}]}}]. \
         `grades` are in the order of the answers, one for each.",
        quoted.blocks
    );
    asked(system, task)
}

/// Asks again, behind an answer that could not be used.
pub(crate) fn again(request: &[Arc<Item>], answer: &str, why: &str) -> Vec<Arc<Item>> {
    let mut items = request.to_vec();
    if !answer.trim().is_empty() {
        items.push(Arc::new(Item::assistant("probe-answer", vec![Part::Text(answer.into())])));
        let told = format!("That could not be used: {why}. Answer again, completely, with the JSON alone.");
        items.push(Arc::new(Item::user("probe-again", told)));
    }
    items
}

fn asked(system: String, task: String) -> Vec<Arc<Item>> {
    vec![
        Arc::new(Item::text("probe-rules", ItemKind::System, system)),
        Arc::new(Item::user("probe-task", task)),
    ]
}

pub(super) fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("questions and answers have string keys and finite numbers")
}

#[cfg(test)]
mod tests {
    use super::super::answers::tests::questions;
    use super::*;
    use crate::picture::texts;

    fn text(items: &[Arc<Item>]) -> String {
        items.iter().flat_map(|item| &item.parts).flat_map(texts).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_reader_is_given_no_answer_and_no_kind() {
        let view = [Arc::new(Item::user("u", "Mend the parser."))];
        let prompt = text(&reading(&view, &questions(3)));
        assert!(prompt.contains("Mend the parser.") && prompt.contains("What is 2?"), "{prompt}");
        assert!(!prompt.contains("the key to") && !prompt.contains("specifics"), "{prompt}");
    }

    #[test]
    fn a_writer_is_told_how_many_of_each_kind() {
        let prompt = text(&writing(&[], &[], 16));
        assert!(prompt.contains("- 4 of `user-intent/constraints`") && prompt.contains("Write 16 questions"));
    }

    #[test]
    fn an_answer_without_words_is_not_sent_back() {
        let request = grading("[]");
        assert_eq!(again(&request, " ", "it is empty").len(), request.len());
        assert_eq!(again(&request, "no", "it is short").len(), request.len() + 2);
    }
}
