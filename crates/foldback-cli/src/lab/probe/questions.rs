//! Questions with their answers: those a model writes, and those a person brings.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::answers;

/// Questions that one session may have: all of them, with all answers, are graded in one request.
pub(crate) const COUNT_MAX: usize = 64;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    #[serde(rename = "user-intent/constraints")]
    Wants,
    #[serde(rename = "state-of-work/next-step")]
    State,
    #[serde(rename = "decisions-and-reasons")]
    Decisions,
    #[serde(rename = "specifics")]
    Specifics,
    #[serde(rename = "errors-and-failed-attempts")]
    Errors,
}

use Kind::{Decisions, Errors, Specifics, State, Wants};

/// The kinds in the order in which a model is asked for them: of any number of questions, every kind has
/// about its share of sixteen, which is 4, 3, 3, 4 and 2.
const PATTERN: [Kind; 16] = [
    Wants, State, Decisions, Specifics, Errors, Wants, Specifics, State, Decisions, Wants, Specifics, State,
    Decisions, Errors, Wants, Specifics,
];

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Wants, State, Decisions, Specifics, Errors];

    /// The name in question files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Wants => "user-intent/constraints",
            State => "state-of-work/next-step",
            Decisions => "decisions-and-reasons",
            Specifics => "specifics",
            Errors => "errors-and-failed-attempts",
        }
    }

    /// The name over a column.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Wants => "wants",
            State => "state",
            Decisions => "decisions",
            Specifics => "specifics",
            Errors => "errors",
        }
    }

    /// What a model is told about it.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Wants => "what the user wants, prefers and forbids",
            State => "what is done, what is in progress, what comes next",
            Decisions => "what was decided, and why",
            Specifics => "exact names, paths, commands, numbers and values",
            Errors => "what failed, how, and what was tried in vain",
        }
    }

    /// How many of so many questions are of this kind.
    pub(crate) fn count_of(self, count: usize) -> usize {
        PATTERN.iter().cycle().take(count).filter(|&&kind| kind == self).count()
    }
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) category: Kind,
    pub(crate) question: String,
    pub(crate) answer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why_needed: Option<String>,
}

/// What is wrong with a file of questions, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// `line:column`, or the question.
    pub(crate) place: String,
    pub(crate) what: String,
}

/// The questions of a file.
pub(crate) fn of_file(text: &str) -> Result<Vec<Question>, Mistake> {
    let questions: Vec<Question> = serde_json::from_str(text).map_err(|error| Mistake {
        place: format!("{}:{}", error.line(), error.column()),
        what: answers::told(&error),
    })?;
    let whole = |what: String| Mistake { place: "1".to_owned(), what };
    match questions.len() {
        0 => return Err(whole("there is no question in it".to_owned())),
        count if count > COUNT_MAX => {
            return Err(whole(format!("{count} questions are more than {COUNT_MAX}")));
        }
        _ => {}
    }
    let mut ids = HashSet::new();
    for (index, question) in questions.iter().enumerate() {
        let wrong = |what: String| Mistake { place: format!("question {}", index + 1), what };
        if let Some(field) = question.blank() {
            return Err(wrong(format!("the {field} is empty")));
        }
        if !ids.insert(question.id.as_str()) {
            return Err(wrong(format!("the id {} is there twice", question.id)));
        }
    }
    Ok(questions)
}

impl Question {
    /// The first field in which nothing stands.
    fn blank(&self) -> Option<&'static str> {
        let fields = [("id", &self.id), ("question", &self.question), ("answer", &self.answer)];
        fields.into_iter().find(|(_, text)| text.trim().is_empty()).map(|(name, _)| name)
    }
}

/// A question as a model writes it: ids are given here.
#[derive(Deserialize)]
struct Written {
    category: Kind,
    question: String,
    answer: String,
    #[serde(default)]
    why_needed: Option<String>,
}

/// The questions that a model wrote, which must be so many.
pub(crate) fn of_model(text: &str, count: usize) -> Result<Vec<Question>, String> {
    let written: Vec<Written> = answers::parsed(text)?;
    if written.len() != count {
        return Err(format!("{} questions were written and {count} asked for", written.len()));
    }
    let numbered = written.into_iter().enumerate().map(|(index, written)| {
        let Written { category, question, answer, why_needed } = written;
        let question = Question { id: format!("q{:02}", index + 1), category, question, answer, why_needed };
        match question.blank() {
            Some(field) => Err(format!("the {field} of question {} is empty", index + 1)),
            None => Ok(question),
        }
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_questions_are_four_three_three_four_and_two_and_five_are_one_of_each() {
        let counts = |count| Kind::ALL.map(|kind| kind.count_of(count));
        assert_eq!(counts(16), [4, 3, 3, 4, 2]);
        assert_eq!(counts(5), [1; 5]);
        assert_eq!(counts(32), [8, 6, 6, 8, 4]);
    }

    #[test]
    fn a_kind_is_written_in_files_under_the_name_that_it_is_told_by() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    const ONE: &str = r#"{"id": "a", "category": "specifics", "question": "Q?", "answer": "A", "more": 1}"#;

    #[test]
    fn a_file_of_questions_may_say_more_than_is_read() {
        let read = of_file(&format!("[{ONE}]")).unwrap();
        assert_eq!((read.len(), read[0].category, read[0].answer.as_str()), (1, Kind::Specifics, "A"));
    }

    #[test]
    fn a_mistake_in_a_file_of_questions_has_its_place() {
        let many = format!("[{}]", vec![ONE; COUNT_MAX + 1].join(","));
        for (text, place, what) in [
            ("[", "1:1", "EOF"),
            ("{}", "1:0", "expected a sequence"),
            ("[\n {\"id\": \"a\"}]", "2:12", "missing field `category`"),
            (&ONE.replace("specifics", "colour"), "1:1", "expected a sequence"),
            (&format!("[{}]", ONE.replace("specifics", "colour")), "1:33", "unknown variant `colour`"),
            ("[]", "1", "no question"),
            (&many, "1", "more than 64"),
            (&format!("[{ONE}, {ONE}]"), "question 2", "the id a is there twice"),
            (&format!("[{}]", ONE.replace("Q?", "  ")), "question 1", "the question is empty"),
            (&format!("[{ONE}, 5]"), "1:92", "invalid type"),
        ] {
            let mistake = of_file(text).unwrap_err();
            assert!(mistake.what.contains(what), "{text}: {mistake:?}");
            assert!(!mistake.what.contains(" at line "), "{mistake:?}");
            assert_eq!(mistake.place.contains(':'), place.contains(':'), "{text}: {mistake:?}");
            assert!(place.contains(':') || mistake.place == place, "{text}: {mistake:?}");
        }
        let second_line = of_file("[\n {\"id\": \"a\"}]").unwrap_err();
        assert!(second_line.place.starts_with("2:"), "{second_line:?}");
    }

    #[test]
    fn a_model_must_write_as_many_questions_as_were_asked_for_and_they_are_numbered() {
        let two = format!("[{ONE}, {ONE}]");
        let read = of_model(&two, 2).unwrap();
        assert_eq!(read.iter().map(|question| question.id.as_str()).collect::<Vec<_>>(), ["q01", "q02"]);
        assert!(of_model(&two, 3).unwrap_err().contains("2 questions were written and 3 asked for"));
        assert!(of_model(&two.replace("\"A\"", "\"\""), 2).unwrap_err().contains("the answer of question 1"));
    }
}
