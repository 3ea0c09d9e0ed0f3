//! `foldback probe`: what a model can still answer from compacted sessions.

mod ask;
mod cache;

use std::io;
use std::path::Path;
use std::sync::Arc;

use foldback_backends::summary_prompt_tokens;
use foldback_core::{Budget, CompactionReason, Item, Level, Strategy, Tokens, Transcript, View};
use foldback_engine::replay::ReplayPolicy;
use foldback_engine::replay::measure::{beginning, cut_at};
use foldback_engine::{CompactionError, CompactionRequest, compact};
use serde::Serialize;

use self::ask::{Asker, Subject, is_interrupted};
use self::cache::Cache;
use crate::args::Shared;
use crate::args::lab::Probe;
use crate::backend::Spec;
use crate::failure::{Exit, Failure};
use crate::lab::policies::Chosen;
use crate::lab::probe::answers::{Reading, reading};
use crate::lab::probe::questions::{self, Question};
use crate::lab::probe::scores::{Arm, Bill, ProbedArm, ProbedSession, Read, Total, table, totals};
use crate::lab::probe::{fit, page, prompts, sheet};
use crate::lab::{Recording, recordings, room, window};
use crate::model::WINDOW_DEFAULT;
use crate::output::{self, Readers};
use crate::{counting, input, store, terminal};

/// What is compared with the default policy where nothing else is named: cutting off the oldest.
const COMPARED: &str = "truncate";

/// What an answer may cost, for each question that it writes, answers, or grades in one arm.
const WRITING_TOKENS: u64 = 250;
const READING_TOKENS: u64 = 200;
const GRADING_TOKENS: u64 = 30;

/// What an answer may cost besides: models think before they write.
const THINKING_TOKENS: u64 = 8_192;

/// The part of the room in a window that is filled: another vocabulary counts up to a fifth more.
const ROOM_PERCENT: u64 = 80;

/// A larger file holds no questions.
const QUESTIONS_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Serialize)]
struct ProbeReport<'a> {
    counter: &'a str,
    /// Who wrote the questions, answered and graded.
    model: &'a str,
    at_percent: u64,
    seed: u64,
    cost: Bill,
    totals: Vec<Total>,
    sessions: Vec<ProbedSession>,
}

pub(crate) fn run(shared: &Shared, arguments: &Probe) -> Result<Exit, Failure> {
    let Some(Spec::Served(served)) = &arguments.backend.backend else {
        let hint = "name one, such as --backend openai:http://127.0.0.1:8080/v1#MODEL";
        return Err(Failure::usage("probe asks a model, and none is named", hint));
    };
    let own = arguments.questions.as_deref().map(own_questions).transpose()?;
    let (cases, exit) = cases(shared, arguments)?;
    if own.is_some() && cases.len() > 1 {
        let what = format!("--questions is about one conversation, and there are {}", cases.len());
        return Err(Failure::usage(what, "name one session file"));
    }
    let cache = Cache::open(arguments.cache.as_deref(), served.identity())?;
    let probed = store::block_on(async {
        let mut asker = Asker::new(shared, &arguments.backend, served, cache)?;
        let done = probe_all(&mut asker, &cases, arguments, own.as_deref()).await;
        Ok((done, asker.bill(), asker.name().to_owned()))
    });
    let (done, bill, model) = probed?;
    let (sessions, failed) = done.inspect_err(|_| tell_bill(shared, &bill))?;
    if sessions.is_empty() {
        tell_bill(shared, &bill);
        return Ok(exit.max(failed));
    }
    let totals = totals(&sessions);
    if let Some(path) = &arguments.html {
        output::to_file(path, page::draw(&sessions, &totals, &bill, &model).as_bytes(), Readers::Owner)?;
    }
    match shared.json {
        true => output::print_json(&ProbeReport {
            counter: counting::counter(shared).name(),
            model: &model,
            at_percent: arguments.at,
            seed: arguments.seed,
            cost: bill,
            totals,
            sessions,
        })?,
        false => output::print(&table(&sessions, &totals, &bill, &model))?,
    }
    Ok(exit.max(failed))
}

/// What was asked in vain is paid all the same.
fn tell_bill(shared: &Shared, bill: &Bill) {
    if bill.requests > 0 && !shared.quiet {
        terminal::note(&bill.told());
    }
}

/// The questions of a file.
fn own_questions(path: &Path) -> Result<Vec<Question>, Failure> {
    let read = || match std::fs::metadata(path)?.len() {
        0..=QUESTIONS_BYTES_MAX => std::fs::read_to_string(path),
        _ => Err(io::Error::other("this is too long for a file of questions")),
    };
    let text = read().map_err(|error| Failure::Read { path: path.to_owned(), error, hint: None })?;
    questions::of_file(&text).map_err(|mistake| {
        let names: Vec<&str> = questions::Kind::ALL.iter().map(|kind| kind.name()).collect();
        let what = format!("{}:{}: {}", path.display(), mistake.place, mistake.what);
        let hint = format!(
            "give a JSON list of objects with id, category, question and answer; a category is one of {}",
            names.join(", ")
        );
        Failure::usage(terminal::harmless(&what), hint)
    })
}

/// One conversation, cut, and compacted in every way that needs no model.
struct Case {
    recording: Recording,
    past: Transcript,
    tries: Vec<Try>,
}

/// One way to compact it.
struct Try {
    arm: Arm,
    strategy: Arc<dyn Strategy>,
    request: CompactionRequest,
    view: Result<View, CompactionError>,
    /// Whether there is a summary that a model could write as well.
    is_summarised: bool,
}

/// The conversations of all sessions that can be cut.
fn cases(shared: &Shared, arguments: &Probe) -> Result<(Vec<Case>, Exit), Failure> {
    let mut names = arguments.policy.clone();
    if arguments.is_compared() {
        names.extend(names.is_empty().then(|| foldback_core::Policy::default().name().to_owned()));
        names.push(COMPARED.to_owned());
    }
    let chosen = Chosen::of(&names, &arguments.policy_from)?;
    let counter = counting::counter(shared);
    let (cases, exit) = input::in_parallel(shared, &arguments.inputs, |opened| {
        let policies = chosen.at(room(shared, window(shared, arguments.window, opened)?, opened))?;
        let cut = |recording| Case::of(recording, &policies, arguments);
        let cases: Vec<Case> = recordings(opened, &counter).filter_map(cut).collect();
        match cases.is_empty() {
            false => Ok(cases),
            true => {
                let why = format!("there is no place near {}% with something on either side", arguments.at);
                let hint = Some("give another --at, or a longer session".to_owned());
                Err(Failure::Read { path: opened.path.clone(), error: io::Error::other(why), hint })
            }
        }
    })?;
    Ok((cases.into_iter().flatten().collect(), exit))
}

impl Case {
    /// None where there is nothing before the cut or nothing behind it.
    fn of(recording: Recording, policies: &[ReplayPolicy], arguments: &Probe) -> Option<Self> {
        let cut_index = cut_at(&recording.history, arguments.at)?;
        let past = beginning(&recording.history, cut_index);
        let mut tries: Vec<Try> = Vec::new();
        for policy in policies {
            for &target in &arguments.target {
                let one = Try::of(policy, target, &past, &recording);
                if tries.iter().all(|earlier| earlier.arm != one.arm) {
                    tries.push(one);
                }
            }
        }
        Some(Self { recording, past, tries })
    }

    fn items_after(&self) -> Vec<Arc<Item>> {
        let history = &self.recording.history;
        history.range(self.past.len()..history.len()).map(|entry| Arc::clone(entry.item())).collect()
    }
}

impl Try {
    fn of(policy: &ReplayPolicy, target: Level, past: &Transcript, recording: &Recording) -> Self {
        let (size, target) = match target {
            Level::Tokens(tokens) => (tokens, terminal::number(tokens.0)),
            Level::PercentOfUsable(percent) | Level::PercentOfWindow(percent) => {
                (Tokens((past.tokens().0 as f64 * percent / 100.0) as u64), format!("{percent}%"))
            }
        };
        let budget = Budget::for_target(size.max(Tokens(1))).expect("a target above zero is a budget");
        let mut request =
            CompactionRequest::new("probe", View::of(past), CompactionReason::Manual).with_budget(budget);
        request.dialect = recording.dialect;
        let strategy = policy.sized();
        let outcome = compact(request.execution(Arc::clone(&strategy)));
        let is_summarised = outcome.as_ref().is_ok_and(|outcome| outcome.summaries().next().is_some());
        let view = outcome.map(|outcome| outcome.view);
        let arm = Arm {
            arm: format!("{} {target}", policy.name),
            policy: policy.name.clone(),
            target,
            summary_by: crate::backend::DIGEST.to_owned(),
        };
        Self { arm, strategy, request, view, is_summarised }
    }
}

/// Probes one conversation after the other. One that fails is reported, and the others still run.
async fn probe_all(
    asker: &mut Asker,
    cases: &[Case],
    arguments: &Probe,
    own: Option<&[Question]>,
) -> Result<(Vec<ProbedSession>, Exit), Failure> {
    let (mut sessions, mut worst) = (Vec::new(), Exit::Success);
    for case in cases {
        match probe(asker, case, arguments, own).await {
            Ok(probed) => sessions.push(probed),
            Err(failure) if cases.len() == 1 || is_interrupted(&failure) => return Err(failure),
            Err(failure) => {
                failure.report();
                worst = worst.max(failure.exit());
            }
        }
    }
    Ok((sessions, worst))
}

/// Asks for questions, then each arm's reader for answers, then for grades.
async fn probe(
    asker: &mut Asker,
    case: &Case,
    arguments: &Probe,
    own: Option<&[Question]>,
) -> Result<ProbedSession, Failure> {
    let views = views(asker, case, arguments).await?;
    let file = case.recording.file.as_str();
    let questions = match own {
        Some(own) => own.to_vec(),
        None => written(asker, case, arguments.count).await?,
    };
    let mut readings: Vec<Option<Reading>> = Vec::new();
    for (arm, view) in &views {
        readings.push(match view {
            Ok(view) => {
                let view: Vec<Arc<Item>> = view.items().map(Arc::clone).collect();
                let what = format!("answers from {}", arm.arm);
                let (subject, request) = (Subject { file, what: &what }, prompts::reading(&view, &questions));
                let tokens_max = answer_max(asker, READING_TOKENS * questions.len() as u64);
                Some(asker.ask(subject, request, tokens_max, |text| reading(text, &questions)).await?)
            }
            Err(_) => None,
        });
    }
    let answers: Vec<&[String]> =
        readings.iter().flatten().map(|reading| reading.answers.as_slice()).collect();
    let (subject, seed) = (Subject { file, what: "grades" }, arguments.seed);
    let request = prompts::grading(&sheet::sheet(&questions, &answers, seed));
    let tokens_max = answer_max(asker, GRADING_TOKENS * (questions.len() * answers.len()) as u64);
    let count = answers.len();
    let read = |text: &str| sheet::grades(text, &questions, count, seed);
    let mut grades = asker.ask(subject, request, tokens_max, read).await?.into_iter();
    let arms = views.into_iter().zip(readings).map(|((arm, view), reading)| ProbedArm {
        arm,
        tokens: view.as_ref().ok().map(|view| view.tokens().0),
        error: view.err(),
        read: reading.map(|reading| {
            let grades = grades.next().expect("every reading was graded");
            Read::new(&questions, reading, &grades)
        }),
    });
    Ok(ProbedSession {
        file: file.to_owned(),
        format: case.recording.format,
        tokens: case.recording.history.tokens().0,
        cut_index: case.past.len(),
        tokens_before: case.past.tokens().0,
        arms: arms.collect(),
        questions,
    })
}

type Views = Vec<(Arm, Result<View, String>)>;

/// The view of every arm, or why there is none; at least one has a view.
async fn views(asker: &mut Asker, case: &Case, arguments: &Probe) -> Result<Views, Failure> {
    let mut views = Vec::new();
    for tried in &case.tries {
        views.push((tried.arm.clone(), tried.view.clone().map_err(|error| error.to_string())));
        if arguments.with_summary && tried.is_summarised {
            let arm = Arm {
                arm: format!("{}+model {}", tried.arm.policy, tried.arm.target),
                summary_by: asker.name().to_owned(),
                ..tried.arm.clone()
            };
            let what = format!("the summary of {}", arm.arm);
            let subject = Subject { file: &case.recording.file, what: &what };
            let view = asker.compact(subject, Arc::clone(&tried.strategy), &tried.request).await?;
            views.push((arm, view));
        }
    }
    if let Some(error) = case.tries.iter().find_map(|tried| tried.view.as_ref().err())
        && views.iter().all(|(_, view)| view.is_err())
    {
        let (path, error) = (case.recording.file.clone().into(), Box::new(error.clone()));
        return Err(Failure::Compaction { path, error, items: Vec::new() });
    }
    for (arm, why) in views.iter().filter_map(|(arm, view)| Some((arm, view.as_ref().err()?))) {
        let told = format!("{}: there is no view of {}: {why}", case.recording.file, arm.arm);
        terminal::warning(&terminal::harmless(&told));
    }
    Ok(views)
}

/// So many questions that the model writes.
async fn written(asker: &mut Asker, case: &Case, count: usize) -> Result<Vec<Question>, Failure> {
    let window = asker.window().unwrap_or(WINDOW_DEFAULT);
    let tokens_max = answer_max(asker, WRITING_TOKENS * count as u64);
    let room = window.saturating_sub(tokens_max).saturating_sub(summary_prompt_tokens(Some(window)));
    let room = Tokens(room.0 * ROOM_PERCENT / 100);
    let past: Vec<Arc<Item>> = case.past.items().map(Arc::clone).collect();
    let [past, after] = fit::fitted(&past, &case.items_after(), room, case.past.meter());
    let what = terminal::counted(count, "question");
    let subject = Subject { file: &case.recording.file, what: &what };
    let request = prompts::writing(&past, &after, count);
    asker.ask(subject, request, tokens_max, |text| questions::of_model(text, count)).await
}

/// What an answer may cost that takes about `tokens` to write, thinking included.
fn answer_max(asker: &Asker, tokens: u64) -> Tokens {
    let half = asker.window().unwrap_or(WINDOW_DEFAULT).0 / 2;
    Tokens((tokens + THINKING_TOKENS).min(half.max(1)))
}
