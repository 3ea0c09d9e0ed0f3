//! The answers of all readers in one sheet, so mixed that a grader cannot tell the arms apart.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::answers::{in_order, parsed};
use super::prompts::pretty;
use super::questions::Question;

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grade {
    /// 1, 0.5 or 0.
    pub(crate) score: f64,
    /// Whether it contradicts the key.
    pub(crate) wrong: bool,
}

/// The order in which the answers of so many arms to a question are graded.
pub(crate) fn order(question: &Question, arm_count: usize, seed: u64) -> Vec<usize> {
    let mut arms: Vec<usize> = (0..arm_count).collect();
    let place = |arm: &usize| (xxh3_64_with_seed(format!("{arm} {}", question.id).as_bytes(), seed), *arm);
    arms.sort_by_cached_key(place);
    arms
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    question: &'a str,
    key: &'a str,
    answers: Vec<&'a str>,
}

/// What a grader sees of the answers of all arms, each in the order of the questions.
pub(crate) fn sheet(questions: &[Question], arms: &[&[String]], seed: u64) -> String {
    let rows = questions.iter().enumerate().map(|(index, question)| Row {
        id: &question.id,
        question: &question.question,
        key: &question.answer,
        answers: order(question, arms.len(), seed).into_iter().map(|arm| arms[arm][index].as_str()).collect(),
    });
    pretty(&rows.collect::<Vec<_>>())
}

#[derive(Deserialize)]
struct Graded {
    id: String,
    grades: Vec<Grade>,
}

/// What a grader said, for each arm in the order of the questions.
pub(crate) fn grades(
    text: &str,
    questions: &[Question],
    arm_count: usize,
    seed: u64,
) -> Result<Vec<Vec<Grade>>, String> {
    let graded = in_order(parsed::<Vec<Graded>>(text)?, questions, |graded| &graded.id)?;
    let mut of_arms = vec![vec![Grade { score: 0.0, wrong: false }; questions.len()]; arm_count];
    for (index, (question, graded)) in questions.iter().zip(&graded).enumerate() {
        if graded.grades.len() != arm_count {
            let count = graded.grades.len();
            return Err(format!("{} has {count} grades and {arm_count} answers", question.id));
        }
        for (arm, grade) in order(question, arm_count, seed).into_iter().zip(&graded.grades) {
            if ![0.0, 0.5, 1.0].contains(&grade.score) {
                return Err(format!("a score of {} is {} and must be 1, 0.5 or 0", question.id, grade.score));
            }
            if grade.wrong && grade.score == 1.0 {
                return Err(format!("an answer to {} is wrong and has a score of 1", question.id));
            }
            of_arms[arm][index] = *grade;
        }
    }
    Ok(of_arms)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::answers::tests::questions;
    use super::*;

    /// Grades every answer on a sheet by the arm's own number, which only the answer tells.
    fn graded(sheet: &str) -> String {
        let rows: Vec<Value> = serde_json::from_str(sheet).unwrap();
        let grade = |answer: &Value| match answer.as_str().unwrap().split(' ').next().unwrap() {
            "0" => json!({"score": 1, "wrong": false}),
            "1" => json!({"score": 0.5, "wrong": true}),
            _ => json!({"score": 0, "wrong": false}),
        };
        let grades = |row: &Value| row["answers"].as_array().unwrap().iter().map(grade).collect::<Vec<_>>();
        let rows = rows.iter().map(|row| json!({"id": row["id"], "grades": grades(row)}));
        Value::from(rows.collect::<Vec<_>>()).to_string()
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn grades_come_back_to_the_arm_whose_answer_was_graded(seed: u64, count in 1..9_usize, arms in 1..6_usize) {
            let questions = questions(count);
            let answers: Vec<Vec<String>> =
                (0..arms).map(|arm| (0..count).map(|index| format!("{arm} of {index}")).collect()).collect();
            let answers: Vec<&[String]> = answers.iter().map(Vec::as_slice).collect();
            let graded = grades(&graded(&sheet(&questions, &answers, seed)), &questions, arms, seed).unwrap();
            for (arm, grades) in graded.iter().enumerate() {
                let score = [1.0, 0.5, 0.0][arm.min(2)];
                prop_assert!(grades.iter().all(|grade| grade.score == score && grade.wrong == (arm == 1)));
            }
        }
    }

    #[test]
    fn an_order_is_that_of_its_seed_and_no_arm_is_always_first() {
        let orders = |seed| questions(40).iter().map(|one| order(one, 4, seed)).collect::<Vec<_>>();
        assert_eq!(orders(1), orders(1));
        assert_ne!(orders(1), orders(2));
        for arm in 0..4 {
            let first = orders(1).iter().filter(|order| order[0] == arm).count();
            assert!((1..40).contains(&first), "arm {arm} is first {first} times");
        }
    }

    #[test]
    fn grades_that_were_not_asked_for_are_refused() {
        let questions = questions(1);
        let grades = |text: &str| grades(text, &questions, 1, 1).unwrap_err();
        let with = |inside: &str| format!(r#"[{{"id": "q01", "grades": [{inside}]}}]"#);
        let good = r#"{"score": 1, "wrong": false}"#;
        for (text, what) in [
            ("[]".to_owned(), "nothing to q01"),
            (with(""), "q01 has 0 grades and 1 answers"),
            (with(&format!("{good}, {good}")), "q01 has 2 grades and 1 answers"),
            (with(r#"{"score": 0.7, "wrong": false}"#), "0.7 and must be 1, 0.5 or 0"),
            (with(r#"{"score": 1, "wrong": true}"#), "wrong and has a score of 1"),
            (with(r#"{"score": 1}"#), "missing field `wrong`"),
        ] {
            assert!(grades(&text).contains(what), "{text}: {}", grades(&text));
        }
    }
}
