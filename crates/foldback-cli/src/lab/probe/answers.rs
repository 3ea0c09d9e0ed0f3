//! What models answer, read strictly: JSON, alone or in a fence, with everything in it that was asked for.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::questions::Question;

/// A longer answer is none: a reader that copies the view out answers nothing.
const ANSWER_CHARACTERS_MAX: usize = 2_000;

/// What a reader says where the view does not tell.
pub(crate) const UNKNOWN: &str = "unknown";

/// The JSON of an answer. A fence around all of it is taken off.
pub(crate) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(unfenced(text)).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("this is not the JSON that was asked for: {} (line {line}, column {column})", told(&error))
    })
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some(inside) = inside else { return text };
    inside.strip_prefix("json").or_else(|| inside.strip_prefix("JSON")).unwrap_or(inside).trim()
}

/// What is wrong with JSON, without the place.
pub(crate) fn told(error: &serde_json::Error) -> String {
    let whole = error.to_string();
    whole.rsplit_once(" at line ").map_or(whole.as_str(), |(what, _)| what).to_owned()
}

/// What a reader said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    /// In the order of the questions.
    pub(crate) answers: Vec<String>,
    /// From 0 to 10.
    pub(crate) readability: f64,
    /// How sure the reader is of where the work stands, from 0 to 10.
    pub(crate) state_known: f64,
    pub(crate) noise_percent: f64,
}

#[derive(Deserialize)]
struct ReadingSaid {
    answers: Vec<AnswerSaid>,
    readability: f64,
    state_known: f64,
    noise_percent: f64,
}

#[derive(Deserialize)]
struct AnswerSaid {
    id: String,
    answer: String,
}

/// What a reader said to these questions.
pub(crate) fn reading(text: &str, questions: &[Question]) -> Result<Reading, String> {
    let ReadingSaid { answers, readability, state_known, noise_percent } = parsed(text)?;
    for (name, value, most) in [
        ("readability", readability, 10.0),
        ("state_known", state_known, 10.0),
        ("noise_percent", noise_percent, 100.0),
    ] {
        if !(0.0..=most).contains(&value) {
            return Err(format!("{name} is {value} and must be from 0 to {most}"));
        }
    }
    let answers = in_order(answers, questions, |said| &said.id)?;
    let long = questions.iter().zip(&answers).find(|(_, said)| {
        said.answer.len() > ANSWER_CHARACTERS_MAX && said.answer.chars().count() > ANSWER_CHARACTERS_MAX
    });
    if let Some((question, _)) = long {
        return Err(format!(
            "the answer to {} is longer than {ANSWER_CHARACTERS_MAX} characters",
            question.id
        ));
    }
    let answers = answers.into_iter().map(|said| match said.answer.trim() {
        "" => UNKNOWN.to_owned(),
        answer => answer.to_owned(),
    });
    Ok(Reading { answers: answers.collect(), readability, state_known, noise_percent })
}

/// What was said to each question, in their order; everything must be there once and nothing else.
pub(super) fn in_order<T>(
    said: Vec<T>,
    questions: &[Question],
    id: impl Fn(&T) -> &str,
) -> Result<Vec<T>, String> {
    let mut slots: Vec<Option<T>> = questions.iter().map(|_| None).collect();
    for one in said {
        let Some(index) = questions.iter().position(|question| question.id == id(&one)) else {
            return Err(format!("there is no question with the id {}", id(&one)));
        };
        if slots[index].is_some() {
            return Err(format!("{} is there twice", id(&one)));
        }
        slots[index] = Some(one);
    }
    let missing: Vec<&str> = questions
        .iter()
        .zip(&slots)
        .filter(|(_, slot)| slot.is_none())
        .map(|(question, _)| question.id.as_str())
        .collect();
    match missing.is_empty() {
        true => Ok(slots.into_iter().flatten().collect()),
        false => Err(format!("there is nothing to {}", missing.join(", "))),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::super::questions::Kind;
    use super::*;

    pub(in super::super) fn questions(count: usize) -> Vec<Question> {
        let one = |index: usize| Question {
            id: format!("q{:02}", index + 1),
            category: Kind::ALL[index % Kind::ALL.len()],
            question: format!("What is {index}?"),
            answer: format!("the key to {index}"),
            why_needed: None,
        };
        (0..count).map(one).collect()
    }

    const READING: &str = r#"{"answers": [{"id": "q02", "answer": " two "}, {"id": "q01", "answer": ""}],
        "readability": 7, "state_known": 10, "noise_percent": 12.5}"#;

    #[test]
    fn answers_are_put_into_the_order_of_the_questions_and_nothing_said_is_unknown() {
        let read = reading(READING, &questions(2)).unwrap();
        assert_eq!(read.answers, [UNKNOWN, "two"]);
        assert_eq!((read.readability, read.state_known, read.noise_percent), (7.0, 10.0, 12.5));
    }

    #[test]
    fn a_fence_around_json_changes_nothing() {
        let plain = reading(READING, &questions(2));
        for fenced in
            [format!("```json\n{READING}\n```\n"), format!("```\n{READING}```"), format!("\n{READING} ")]
        {
            assert_eq!(reading(&fenced, &questions(2)), plain, "{fenced}");
        }
    }

    #[test]
    fn an_answer_that_is_not_what_was_asked_for_says_why() {
        let long = READING.replace(" two ", &"x".repeat(ANSWER_CHARACTERS_MAX + 1));
        for (text, what) in [
            (format!("Here it is: {READING}"), "not the JSON that was asked for"),
            (READING.replace("q02", "q01"), "q01 is there twice"),
            (READING.replace("q02", "q07"), "no question with the id q07"),
            (READING.replace("7,", "11,"), "readability is 11 and must be from 0 to 10"),
            (READING.replace("12.5", "-1"), "noise_percent is -1"),
            (READING.replace("\"state_known\": 10,", ""), "missing field `state_known`"),
            (READING.replace("10", "null"), "invalid type: null"),
            (long, "longer than 2000 characters"),
        ] {
            let why = reading(&text, &questions(2)).unwrap_err();
            assert!(why.contains(what), "{text}: {why}");
        }
        assert!(reading(READING, &questions(4)).unwrap_err().contains("nothing to q03, q04"));
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn no_answer_makes_the_parser_panic(text in ".{0,200}") {
            let _read = reading(&text, &questions(3));
        }
    }
}
