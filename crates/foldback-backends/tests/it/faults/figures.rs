//! What all runs came to, and how much of each thing there must have been: a test whose runs ask nobody, or
//! meet no faults, tests nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::faults::run::Ended;
use crate::faults::script::Fault;

type Counts = BTreeMap<&'static str, usize>;

/// Thousandths of all runs in which a backend must have been asked.
const ASKED_MIN: usize = 800;

/// Thousandths of all runs in which nobody must have listened when one was asked.
const UNHEARD_MIN: usize = 40;

/// Thousandths of all answers that each thing a server does must have been.
const ANSWER_MIN: usize = 20;

/// Thousandths of all runs that must have ended so.
const ENDS_MIN: [(&str, usize); 2] = [("summary by the digest", 300), ("summary by the model", 200)];

/// Runs, in thousandths of all, in whose events each of these reasons must stand.
const REFUSALS_MIN: [(&str, usize); 10] = [
    ("connection", 80),
    ("timeout", 80),
    ("overflow", 80),
    ("unauthorized", 50),
    ("rate limited", 80),
    ("server", 80),
    ("malformed", 50),
    ("empty", 50),
    ("truncated", 50),
    ("inflated", 20),
];

#[derive(Debug)]
pub(crate) struct Figures {
    run_count: usize,
    asked: usize,
    unheard: usize,
    ends: Counts,
    /// In how many runs the events have each reason.
    refusals: Counts,
    /// What the server did how often.
    answers: Counts,
    slowest: (Duration, u64),
}

impl Figures {
    pub(crate) fn of(ended: &[Ended], answers: Counts) -> Self {
        let (mut ends, mut refusals) = (Counts::new(), Counts::new());
        for ended in ended {
            *ends.entry(ended.how).or_default() += 1;
            let mut reasons = ended.refusals.clone();
            reasons.sort_unstable();
            reasons.dedup();
            reasons.into_iter().for_each(|reason| *refusals.entry(reason).or_default() += 1);
        }
        Self {
            run_count: ended.len(),
            asked: ended.iter().filter(|ended| ended.is_asked).count(),
            unheard: ended.iter().filter(|ended| ended.is_asked && ended.is_refused).count(),
            ends,
            refusals,
            answers,
            slowest: ended.iter().map(|ended| (ended.took, ended.index)).max().unwrap_or_default(),
        }
    }

    /// Whether there was enough of everything.
    pub(crate) fn judge(&self) {
        let runs = |what: &str, count: usize, least: usize| at_least(what, count, self.run_count, least);
        runs("runs that asked", self.asked, ASKED_MIN);
        runs("runs that nobody heard", self.unheard, UNHEARD_MIN);
        let count = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or_default();
        for (how, least) in ENDS_MIN {
            runs(how, count(&self.ends, how), least);
        }
        for (reason, least) in REFUSALS_MIN {
            runs(reason, count(&self.refusals, reason), least);
        }
        let answer_count = self.answers.values().sum();
        for fault in Fault::ALL {
            at_least(fault.name(), count(&self.answers, fault.name()), answer_count, ANSWER_MIN);
        }
    }
}

fn at_least(what: &str, count: usize, all: usize, thousandths: usize) {
    assert!(
        count * 1_000 >= all * thousandths,
        "{what}: only {count} of {all}, at least {thousandths}‰ must be"
    );
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, unheard, ends, refusals, answers, slowest: (slowest, number), .. } = self;
        writeln!(f, "{asked} asked, {unheard} of them where nobody listens; {ends:?}")?;
        writeln!(f, "the slowest took {slowest:.1?}, run {number}")?;
        writeln!(f, "answers: {answers:?}")?;
        write!(f, "runs with events of: {refusals:?}")
    }
}
