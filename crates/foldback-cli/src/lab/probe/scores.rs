//! What came of a probe: for scripts, as means over all sessions, and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::answers::Reading;
use super::questions::{Kind, Question};
use super::sheet::Grade;
use crate::lab::runs::{dollars, share};
use crate::terminal::{FAINT, STRONG, counted, harmless, number, styled};

/// A way to compact that is compared with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Arm {
    /// Tells it from all others.
    pub(crate) arm: String,
    pub(crate) policy: String,
    /// As it was asked for: a share of the tokens before the cut, or tokens.
    pub(crate) target: String,
    /// Who writes its summary, `digest` or the model.
    pub(crate) summary_by: String,
}

/// One conversation and what readers knew of it.
#[derive(Debug, Serialize)]
pub(crate) struct ProbedSession {
    pub(crate) file: String,
    pub(crate) format: &'static str,
    pub(crate) tokens: u64,
    /// How many items are before the cut.
    pub(crate) cut_index: usize,
    pub(crate) tokens_before: u64,
    pub(crate) questions: Vec<Question>,
    pub(crate) arms: Vec<ProbedArm>,
}

/// One arm in one conversation.
#[derive(Debug, Serialize)]
pub(crate) struct ProbedArm {
    #[serde(flatten)]
    pub(crate) arm: Arm,
    /// What the view costs; none where there is no view.
    pub(crate) tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(flatten)]
    pub(crate) read: Option<Read>,
}

/// What the reader of an arm said, graded.
#[derive(Debug, Serialize)]
pub(crate) struct Read {
    readability: f64,
    state_known: f64,
    noise_percent: f64,
    pub(crate) answers: Vec<GradedAnswer>,
}

#[derive(Debug, Serialize)]
pub(crate) struct GradedAnswer {
    id: String,
    #[serde(skip)]
    kind: Kind,
    pub(crate) answer: String,
    #[serde(flatten)]
    pub(crate) grade: Grade,
}

impl Read {
    pub(crate) fn new(questions: &[Question], reading: Reading, grades: &[Grade]) -> Self {
        let Reading { answers, readability, state_known, noise_percent } = reading;
        let graded = questions.iter().zip(answers).zip(grades).map(|((question, answer), grade)| {
            GradedAnswer { id: question.id.clone(), kind: question.category, answer, grade: *grade }
        });
        Self { answers: graded.collect(), readability, state_known, noise_percent }
    }
}

/// One arm over all conversations.
#[derive(Debug, Serialize)]
pub(crate) struct Total {
    #[serde(flatten)]
    pub(crate) arm: Arm,
    /// Conversations in which a reader answered from its view.
    pub(crate) sessions: usize,
    /// Conversations in which there is no view.
    pub(crate) failed: usize,
    /// The mean of the views.
    pub(crate) tokens: Option<u64>,
    /// The mean over all questions.
    pub(crate) score: Option<f64>,
    pub(crate) by_kind: BTreeMap<&'static str, f64>,
    pub(crate) readability: Option<f64>,
    pub(crate) state_known: Option<f64>,
    pub(crate) noise_percent: Option<f64>,
    pub(crate) wrong: usize,
}

/// What asking took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Bill {
    pub(crate) requests: u64,
    pub(crate) from_cache: u64,
    /// As far as the server reports it.
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// None where the prices are not known.
    pub(crate) dollars: Option<f64>,
}

/// Every arm over all conversations, in the order in which they were read.
pub(crate) fn totals(sessions: &[ProbedSession]) -> Vec<Total> {
    let mut arms: Vec<&Arm> = Vec::new();
    for probed in sessions.iter().flat_map(|session| &session.arms) {
        if !arms.contains(&&probed.arm) {
            arms.push(&probed.arm);
        }
    }
    let total = |arm: &Arm| {
        let probed = sessions.iter().flat_map(|session| &session.arms);
        Total::of(arm, &probed.filter(|probed| probed.arm == *arm).collect::<Vec<_>>())
    };
    arms.into_iter().map(total).collect()
}

impl Total {
    fn of(arm: &Arm, probed: &[&ProbedArm]) -> Self {
        let reads: Vec<&Read> = probed.iter().filter_map(|probed| probed.read.as_ref()).collect();
        let answers = || reads.iter().flat_map(|read| &read.answers);
        let score = |kind: Kind| {
            let of_kind = answers().filter(|answer| answer.kind == kind);
            mean(of_kind.map(|answer| answer.grade.score)).map(|score| (kind.name(), score))
        };
        let tokens = probed.iter().filter_map(|probed| probed.tokens.filter(|_| probed.read.is_some()));
        Self {
            arm: arm.clone(),
            sessions: reads.len(),
            failed: probed.len() - reads.len(),
            tokens: mean(tokens.map(|tokens| tokens as f64)).map(|mean| mean.round() as u64),
            score: mean(answers().map(|answer| answer.grade.score)),
            by_kind: Kind::ALL.into_iter().filter_map(score).collect(),
            readability: mean(reads.iter().map(|read| read.readability)),
            state_known: mean(reads.iter().map(|read| read.state_known)),
            noise_percent: mean(reads.iter().map(|read| read.noise_percent)),
            wrong: answers().filter(|answer| answer.grade.wrong).count(),
        }
    }
}

fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = figures.fold((0.0, 0_u64), |(sum, count), figure| (sum + figure, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// The table for people.
pub(crate) fn table(sessions: &[ProbedSession], totals: &[Total], bill: &Bill, model: &str) -> String {
    let mut text = String::new();
    let (tokens, questions) = sessions.iter().fold((0, 0), |(tokens, questions), session| {
        (tokens + session.tokens_before, questions + session.questions.len())
    });
    let (conversations, questions) =
        (counted(sessions.len(), "conversation"), counted(questions, "question"));
    let (tokens, model) = (number(tokens), harmless(model));
    let _ = writeln!(
        text,
        "{conversations}, {tokens} tokens before the cut; {questions}, answered and graded by {model}"
    );
    let names: Vec<String> = totals.iter().map(|total| harmless(&total.arm.arm)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("arm".len());
    let mut heading = format!("{:<width$}   tokens  score", "arm");
    for kind in Kind::ALL {
        let _ = write!(heading, "  {:>9}", kind.title());
    }
    heading.push_str("  readable  noise  sure  wrong");
    let _ = writeln!(text, "  {}", styled(FAINT, heading));
    for (total, name) in totals.iter().zip(names) {
        let tokens = total.tokens.map_or_else(|| "-".to_owned(), number);
        let score = share(total.score);
        let _ = write!(text, "  {} {tokens:>8}  {score:>5}", styled(STRONG, format!("{name:<width$}")));
        for kind in Kind::ALL {
            let _ = write!(text, "  {:>9}", share(total.by_kind.get(kind.name()).copied()));
        }
        let noise = total.noise_percent.map_or_else(|| "-".to_owned(), |noise| format!("{noise:.0}%"));
        let (readable, sure) = (tenth(total.readability), tenth(total.state_known));
        let _ = write!(text, "  {readable:>8}  {noise:>5}  {sure:>4}  {:>5}", total.wrong);
        if total.failed > 0 {
            let _ = write!(text, "  {}", styled(FAINT, format!("{} could not be compacted", total.failed)));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "  {}", bill.told());
    text
}

/// A figure from 0 to 10, or a dash where there is none.
pub(super) fn tenth(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.1}"))
}

impl Bill {
    /// The bill in words.
    pub(crate) fn told(&self) -> String {
        let money = self.dollars.map_or_else(|| "price not known".to_owned(), dollars);
        let requests = counted(usize::try_from(self.requests).unwrap_or(usize::MAX), "request");
        let (input, output) = (number(self.input_tokens), number(self.output_tokens));
        format!(
            "{requests}, {} from the cache; {input} tokens in, {output} out; {money}",
            number(self.from_cache)
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::answers::tests::questions;
    use super::*;

    fn arm(name: &str) -> Arm {
        let (policy, target) = name.split_once(' ').unwrap();
        let text = str::to_owned;
        Arm { arm: text(name), policy: text(policy), target: text(target), summary_by: text("digest") }
    }

    pub(in super::super) fn session(file: &str, scores: &[(&str, Option<f64>)]) -> ProbedSession {
        let questions = questions(4);
        let probed = |&(name, score): &(&str, Option<f64>)| ProbedArm {
            arm: arm(name),
            tokens: score.map(|_| 1_000),
            error: score.is_none().then(|| "too small".to_owned()),
            read: score.map(|score| {
                let answers = vec!["some answer".to_owned(); questions.len()];
                let reading = Reading { answers, readability: 8.0, state_known: 6.0, noise_percent: 20.0 };
                Read::new(&questions, reading, &vec![Grade { score, wrong: score == 0.0 }; questions.len()])
            }),
        };
        ProbedSession {
            file: file.to_owned(),
            format: "native",
            tokens: 50_000,
            cut_index: 60,
            tokens_before: 30_000,
            arms: scores.iter().map(probed).collect(),
            questions: questions.clone(),
        }
    }

    #[test]
    fn a_score_is_the_mean_over_questions_and_an_arm_without_a_view_counts_in_none() {
        let sessions = [
            session("one", &[("ladder 10%", Some(1.0)), ("ladder 5%", None)]),
            session("two", &[("ladder 10%", Some(0.5)), ("ladder 5%", Some(0.0))]),
        ];
        let totals = totals(&sessions);
        let figures = |index: usize| {
            (totals[index].score, totals[index].sessions, totals[index].failed, totals[index].wrong)
        };
        assert_eq!(figures(0), (Some(0.75), 2, 0, 0));
        assert_eq!(figures(1), (Some(0.0), 1, 1, 4));
        assert_eq!(totals[0].by_kind.get("specifics"), Some(&0.75));
        assert_eq!(totals[0].by_kind.get("errors-and-failed-attempts"), None, "nobody asked for one");
    }

    #[test]
    fn a_table_has_a_line_for_each_arm_and_the_bill_and_no_order_for_a_terminal() {
        let sessions = [session("one", &[("own\u{1b}[2J 10%", Some(0.5)), ("truncate 5%", None)])];
        let bill =
            Bill { requests: 1, from_cache: 3, input_tokens: 1_234, output_tokens: 5, dollars: Some(0.25) };
        let table = table(&sessions, &totals(&sessions), &bill, "openai:m\u{7}");
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 5, "{table}");
        assert!(lines[0].contains("1 conversation, 30,000 tokens before the cut; 4 questions"), "{table}");
        assert!(
            lines[2].contains("1,000  0.500") && lines[3].contains("1 could not be compacted"),
            "{table}"
        );
        assert!(lines[4].ends_with("1 request, 3 from the cache; 1,234 tokens in, 5 out; $0.25"), "{table}");
        assert!(!table.contains("\u{1b}[2J") && !table.contains('\u{7}'), "{table:?}");
    }

    #[test]
    fn money_that_nobody_knows_is_not_nothing() {
        assert!(Bill::default().told().ends_with("price not known"));
    }
}
