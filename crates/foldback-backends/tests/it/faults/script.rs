//! What the server does to each run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldback_testkit::server::{Answer, Request, Said, Spoken, Step, required};

/// One thing that a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Never answers.
    Hang,
    /// Begins to answer, slowly, and breaks off.
    SlowCut,
    /// Says that the request is too long.
    Overflow,
    /// Refuses the key, and repeats it.
    Unauthorized,
    /// Asks to wait, briefly.
    RateLimited,
    /// Asks to wait for longer than there is time.
    RateLimitedLong,
    /// Fails.
    ServerError,
    /// Is overloaded.
    Overloaded,
    /// Answers with what is no JSON.
    InvalidJson,
    /// Answers with the page of a proxy.
    Page,
    /// Answers with nothing.
    Empty,
    /// Answers with more than it was given.
    TooLong,
    /// Answers with half a summary.
    CutOff,
    /// Answers in another language.
    OtherLanguage,
    /// Does its job.
    Good,
}

impl Fault {
    pub(crate) const ALL: [Self; 15] = [
        Self::Hang,
        Self::SlowCut,
        Self::Overflow,
        Self::Unauthorized,
        Self::RateLimited,
        Self::RateLimitedLong,
        Self::ServerError,
        Self::Overloaded,
        Self::InvalidJson,
        Self::Page,
        Self::Empty,
        Self::TooLong,
        Self::CutOff,
        Self::OtherLanguage,
        Self::Good,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hang => "hang",
            Self::SlowCut => "slow stream, cut",
            Self::Overflow => "400 overflow",
            Self::Unauthorized => "401",
            Self::RateLimited => "429, wait briefly",
            Self::RateLimitedLong => "429, wait long",
            Self::ServerError => "500",
            Self::Overloaded => "529",
            Self::InvalidJson => "invalid JSON",
            Self::Page => "a page",
            Self::Empty => "empty",
            Self::TooLong => "too long",
            Self::CutOff => "cut off",
            Self::OtherLanguage => "another language",
            Self::Good => "good",
        }
    }

    /// Whether nothing of such an answer can ever be used, so that the events must tell of it.
    pub(crate) fn is_useless(self) -> bool {
        !matches!(self, Self::TooLong | Self::OtherLanguage | Self::Good)
    }

    fn answer(self, request: &Request) -> Answer {
        let spoken = Spoken::of(request).expect("a backend asks on a path of its protocol");
        let says = |said: &Said<'_>| spoken.answer(request, said);
        match self {
            Self::Hang => Answer::hang(),
            Self::SlowCut => says(&Said::Text(SUMMARY)).slowly(Duration::from_millis(2)).cut_after(3),
            Self::Overflow => spoken.overflow(9_000, 8_192),
            Self::Unauthorized => {
                let key = request.header("authorization").or(request.header("x-api-key")).unwrap_or_default();
                spoken.error(401, "authentication_error", &format!("Incorrect API key provided: {key}"))
            }
            Self::RateLimited => {
                spoken.error(429, "rate_limit_error", "slow down").header("retry-after-ms", "3")
            }
            Self::RateLimitedLong => {
                spoken.error(429, "rate_limit_error", "slow down").header("retry-after", "3600")
            }
            Self::ServerError => spoken.error(500, "api_error", "something broke"),
            Self::Overloaded => spoken.error(529, "overloaded_error", "Overloaded"),
            Self::InvalidJson => {
                let kind =
                    if request.json()["stream"] == true { "text/event-stream" } else { "application/json" };
                Answer::status(200).header("content-type", kind).body("data: {\"choices\": [{\n\n{\"output\"")
            }
            Self::Page => {
                Answer::status(200).header("content-type", "text/html").body("<html>Welcome</html>")
            }
            Self::Empty => says(&Said::Text("")),
            Self::TooLong => {
                let bytes = (request.body.len() * 2).min(TOO_LONG_BYTES_MAX);
                says(&Said::Text(&SUMMARY.repeat(bytes / SUMMARY.len() + 1)))
            }
            Self::CutOff => says(&Said::CutOff(&SUMMARY[..60])),
            Self::OtherLanguage => {
                says(&Said::Text(&format!("{ANDERS}{}{}", files(request), required(request))))
                    .first(Step::Wait(Duration::from_millis(1)))
            }
            Self::Good => says(&Said::Text(&format!("{SUMMARY}{}{}", files(request), required(request)))),
        }
    }
}

/// Longer ones only take time.
const TOO_LONG_BYTES_MAX: usize = 256 * 1024;

const SUMMARY: &str = "## Task\nThe engine folds what it has read.\n## State\nDone: steps were run, \
    some of them failed with code 2. Next: look at the failed steps again.\n";

const ANDERS: &str = "## Aufgabe\nDie Maschine faltet, was sie gelesen hat.\n## Stand\nErledigt: \
    Schritte sind gelaufen, einige sind fehlgeschlagen. Weiter: die fehlgeschlagenen ansehen.\n";

/// Files that a summary names.
const FILES_MAX: usize = 6;

/// The files that a request speaks of, as far as a summary names them: one that tells nothing of what it
/// stands for is not taken.
fn files(request: &Request) -> String {
    let body = String::from_utf8_lossy(&request.body);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.');
    let mut names: Vec<&str> =
        body.split(|c: char| !is_name(c)).filter(|word| word.starts_with("src/")).collect();
    names.dedup();
    names.truncate(FILES_MAX);
    format!("## Files\n{}\n", names.join("\n"))
}

/// The scripts of all runs, by the run's number in the path.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    runs: Mutex<HashMap<u64, Script>>,
    served: Mutex<BTreeMap<&'static str, usize>>,
}

/// What one run meets; it begins again where it ends.
#[derive(Debug)]
struct Script {
    faults: Vec<Fault>,
    served: Vec<Fault>,
    has_key: bool,
}

impl Scripts {
    pub(crate) fn add(&self, run: u64, faults: &[Fault]) {
        let script = Script { faults: faults.to_vec(), served: Vec::new(), has_key: true };
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(run, script);
    }

    /// What the server did to a run, and whether every request brought the key.
    pub(crate) fn take(&self, run: u64) -> (Vec<Fault>, bool) {
        let script = self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&run).unwrap();
        (script.served, script.has_key)
    }

    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let run = request.path.split('/').nth(2).and_then(|number| number.parse::<u64>().ok());
        let run = run.expect("the path of a request names its run");
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that has ended may have left a request on its way.
        let Some(script) = runs.get_mut(&run) else { return Answer::status(500) };
        let fault = script.faults[script.served.len() % script.faults.len()];
        script.served.push(fault);
        let sent = request.header("authorization").or(request.header("x-api-key")).unwrap_or_default();
        script.has_key &= sent.contains(crate::faults::logged::KEY_START);
        drop(runs);
        *self.served.lock().unwrap_or_else(PoisonError::into_inner).entry(fault.name()).or_default() += 1;
        fault.answer(request)
    }

    /// How often the server did what.
    pub(crate) fn served(&self) -> BTreeMap<&'static str, usize> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
