//! One run: a transcript, a budget, a protocol and what the server does, all from one seed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use foldback_backends::{Endpoint, Key, ModelBackend, ModelClient, Protocol};
use foldback_core::{Budget, CompactionReason, Item, LadderStrategy, Part, Tokens, Transcript, View, check};
use foldback_engine::{
    BackendError, CompactionContext, CompactionError, CompactionEvent, CompactionEventKind,
    CompactionObserver, CompactionRequest, Compactor, Refusal, StrategyCompactor, SummaryFault,
    SummaryLimits,
};
use foldback_testkit::kernel::kernel_tokens;
use foldback_testkit::recipe::recipe;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::faults::logged::{self, KEY_START};
use crate::faults::script::{Fault, Scripts};

/// Answers that a server has in store for one run.
const FAULTS_MAX: usize = 6;

/// Recipes that make up one transcript.
const RECIPES_MAX: usize = 4;

/// One run in so many takes any transcript and any target, whether a summary is needed or not.
const ANY_ONE_IN: usize = 12;

/// Exchanges that are put before what a recipe gives, and how often more of them are, until what must stay
/// is small beside them.
const EXCHANGES: std::ops::Range<usize> = 30..120;
const EXCHANGES_ADDED_MAX: usize = 12;

/// Targets as a percentage of the conversation: below these, older items are folded, not only shortened.
const DEEP_PERCENT: std::ops::Range<u64> = 8..26;

/// What a summary has room for at least, beside what must stay.
const SUMMARY_ROOM: Tokens = Tokens(400);

/// How long one attempt may take, and all of them.
const TIMEOUT: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_millis(1_500);

/// What happens is that.
pub(crate) struct Run {
    seed: u64,
    index: u64,
    transcript: Transcript,
    budget: Budget,
    protocol: Protocol,
    faults: Vec<Fault>,
    /// Nobody listens at all.
    is_refused: bool,
    /// The model's window, where it is known.
    window: Option<Tokens>,
    candidates: usize,
}

/// How a run ended.
pub(crate) struct Ended {
    /// Which run it was.
    pub(crate) index: u64,
    pub(crate) how: &'static str,
    /// Whether somebody was asked for a summary.
    pub(crate) is_asked: bool,
    /// Whether nobody listened.
    pub(crate) is_refused: bool,
    /// Why answers were not taken, as the events have it.
    pub(crate) refusals: Vec<&'static str>,
    pub(crate) took: Duration,
}

#[derive(Clone, Debug, Default)]
struct Events(Arc<Mutex<Vec<CompactionEvent>>>);

impl CompactionObserver for Events {
    fn on_event(&self, event: &CompactionEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

impl Run {
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index);
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        let generator = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), generator);
        let mut recipe = || recipe().new_tree(&mut runner).expect("recipes reject nothing").current();
        let items: Vec<Item> = (0..random.usize(1..=RECIPES_MAX)).flat_map(|_| recipe().items()).collect();
        let (transcript, target) = match random.usize(..ANY_ONE_IN) {
            0 => anything(items, &mut random),
            _ => in_need_of_a_summary(&items, &mut random),
        };
        let protocol = Protocol::ALL[random.usize(..Protocol::ALL.len())];
        let faults = faults(&mut random);
        Self {
            seed,
            index,
            transcript,
            budget: Budget::for_target(target).expect("a target above zero is a budget"),
            protocol,
            faults,
            is_refused: random.usize(..12) == 0,
            window: random.bool().then(|| Tokens(random.u64(2_000..60_000))),
            candidates: random.usize(1..=2),
        }
    }

    fn key(&self) -> String {
        format!("{KEY_START}{}-{}", self.seed, self.index)
    }

    fn compactor(&self, base: &str, events: Events) -> StrategyCompactor {
        let endpoint = Endpoint::new(base).unwrap().key(Key::new(self.key()));
        let client = ModelClient::new(endpoint, self.protocol, "scripted").unwrap();
        let mut backend = ModelBackend::new(client);
        if let Some(window) = self.window {
            backend = backend.window(window);
        }
        let limits = SummaryLimits {
            timeout: TIMEOUT,
            deadline: DEADLINE,
            retries_max: 2,
            backoff_first: Duration::from_millis(1),
            backoff_max: Duration::from_millis(4),
            candidates: self.candidates,
            ..SummaryLimits::default()
        };
        StrategyCompactor::builder()
            .item_count_trigger(0)
            .strategy(LadderStrategy::new())
            .budget(self.budget)
            .dialect(self.protocol.dialect())
            .backend(backend)
            .limits(limits)
            .observer(events)
            .build()
            .unwrap()
    }

    /// Compacts, and looks at everything that came of it.
    pub(crate) async fn play(self, scripts: &Scripts, url: &str, refused: &str) -> Ended {
        scripts.add(self.index, &self.faults);
        let base = format!("{}/run/{}/v1", if self.is_refused { refused } else { url }, self.index);
        let events = Events::default();
        let compactor = self.compactor(&base, events.clone());
        let before = View::of(&self.transcript);
        let request = CompactionRequest::new("faults", before.clone(), CompactionReason::Manual);
        let started = Instant::now();
        let result = compactor.compact(request, &CompactionContext::default()).await;
        let took = started.elapsed();
        logged::search(&format!("{compactor:?} {result:?}"));
        let events = events.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for event in &events {
            logged::search(&format!("{event:?}"));
        }
        let (served, has_key) = scripts.take(self.index);
        assert!(has_key, "{self}: a request came without its key");
        self.judge_events(&events, &served);
        let how = match result {
            Ok(result) => {
                self.judge_view(&before, &result.transcript);
                how_it_ended(&events)
            }
            Err(CompactionError::Refused(Refusal::BudgetInfeasible(error))) => {
                assert!(error.kernel_tokens > self.budget.target(), "{self}");
                "infeasible"
            }
            Err(error) => panic!("{self}: {error}"),
        };
        assert!(before.items().eq(self.transcript.items()), "{self}: the view it began with changed");
        let is_asked =
            |event: &CompactionEvent| matches!(event.kind, CompactionEventKind::SummaryAsked { .. });
        let is_asked = events.iter().any(is_asked);
        let Self { index, is_refused, .. } = self;
        Ended { index, how, is_asked, is_refused, refusals: refusals(&events), took }
    }

    /// T1, T2, and the first promise: it fits, it is valid, and the record is what it was.
    fn judge_view(&self, before: &View, after: &View) {
        assert_eq!(check(after.items(), Some(self.protocol.dialect())), [], "{self}");
        assert!(after.tokens() <= self.budget.target(), "{self}: {} tokens", after.tokens());
        let recorded = after.transcript();
        assert!(recorded.len() >= before.transcript().len(), "{self}: items are gone");
        let pairs = recorded.items().zip(before.transcript().items());
        assert!(pairs.into_iter().all(|(now, then)| now == then), "{self}: recorded items changed");
    }

    /// What the server did is told, and every compaction that begins is said to end.
    fn judge_events(&self, events: &[CompactionEvent], served: &[Fault]) {
        let count = |is_kind: fn(&CompactionEventKind) -> bool| {
            events.iter().filter(|event| is_kind(&event.kind)).count()
        };
        let refused = count(|kind| matches!(kind, CompactionEventKind::SummaryRefused { .. }));
        let asked = count(|kind| matches!(kind, CompactionEventKind::SummaryAsked { .. }));
        let useless = served.iter().any(|fault| fault.is_useless());
        let must_tell = useless || (self.is_refused && asked > 0);
        assert!(refused > 0 || !must_tell, "{self}: {served:?} is not in the events: {events:?}");
        let begun = count(|kind| matches!(kind, CompactionEventKind::CompactionStarted { .. }));
        let over = count(|kind| {
            let is_failed = matches!(kind, CompactionEventKind::CompactionFailed { .. });
            is_failed || matches!(kind, CompactionEventKind::CompactionEnded(_))
        });
        assert_eq!((begun, over), (1, 1), "{self}: {events:?}");
    }
}

/// What the server does, one request after the other. In half of the runs every other answer is a good one,
/// so that whoever asks again is helped.
fn faults(random: &mut fastrand::Rng) -> Vec<Fault> {
    let count = random.usize(1..=FAULTS_MAX);
    let any: Vec<Fault> = (0..count).map(|_| Fault::ALL[random.usize(..Fault::ALL.len())]).collect();
    match random.bool() {
        true => any.into_iter().flat_map(|fault| [fault, Fault::Good]).collect(),
        false => any,
    }
}

/// Any conversation with any target.
fn anything(items: Vec<Item>, random: &mut fastrand::Rng) -> (Transcript, Tokens) {
    let transcript: Transcript = items.into_iter().collect();
    let tokens = View::of(&transcript).tokens().0;
    (transcript, Tokens((tokens * random.u64(5..80) / 100).max(1)))
}

/// A conversation with so much talk at its beginning that no target this deep is reached by shortening what
/// tools answered, and a target that leaves room for a summary of it.
fn in_need_of_a_summary(items: &[Item], random: &mut fastrand::Rng) -> (Transcript, Tokens) {
    let percent = random.u64(DEEP_PERCENT);
    let mut talk = Vec::new();
    let mut made = None;
    for _ in 0..=EXCHANGES_ADDED_MAX {
        talk.extend((0..random.usize(EXCHANGES)).flat_map(|_| exchange(random)));
        let ending = Item::user("ending", "Go on with what is left.");
        let all = talk.iter().chain(items).cloned().chain([ending]);
        let transcript: Transcript = all.collect();
        let tokens = View::of(&transcript).tokens().0;
        let target = Tokens(tokens * percent / 100);
        let must_stay = kernel_tokens(&transcript, target);
        made = Some((transcript, target.max(must_stay + SUMMARY_ROOM)));
        if must_stay + SUMMARY_ROOM <= target {
            break;
        }
    }
    made.expect("the loop runs at least once")
}

/// Something that was asked and answered.
fn exchange(random: &mut fastrand::Rng) -> [Item; 2] {
    let number = random.u32(..1_000_000);
    let asked = format!("What became of step {number} in src/engine_{}.rs?", number % 97);
    let sentence = format!("Step {number} was looked at again and its cause lies in part {}. ", number % 13);
    [
        Item::user(format!("ask-{number}"), asked),
        Item::assistant(format!("say-{number}"), vec![Part::text(sentence.repeat(random.usize(1..6)))]),
    ]
}

fn refusals(events: &[CompactionEvent]) -> Vec<&'static str> {
    let fault = |event: &CompactionEvent| match &event.kind {
        CompactionEventKind::SummaryRefused { why, .. } => Some(match why {
            SummaryFault::Backend(error) => match error {
                BackendError::Cancelled => "cancelled",
                BackendError::Overflow { .. } => "overflow",
                BackendError::RateLimited { .. } => "rate limited",
                BackendError::Server { .. } => "server",
                BackendError::Connection { .. } => "connection",
                BackendError::Timeout { .. } => "timeout",
                BackendError::Unauthorized { .. } => "unauthorized",
                BackendError::Rejected { .. } => "rejected",
                BackendError::Malformed { .. } => "malformed",
                BackendError::Unavailable { .. } => "unavailable",
                BackendError::Failed(_) => "failed",
                _ => "a failure without a name here",
            },
            SummaryFault::Empty => "empty",
            SummaryFault::Truncated => "truncated",
            SummaryFault::Refused => "refused",
            SummaryFault::Inflated { .. } => "inflated",
            SummaryFault::Incomplete { .. } => "incomplete",
            SummaryFault::NotText { .. } => "no text",
            _ => "a fault without a name here",
        }),
        _ => None,
    };
    events.iter().filter_map(fault).collect()
}

fn how_it_ended(events: &[CompactionEvent]) -> &'static str {
    let mut written_by = events.iter().filter_map(|event| match &event.kind {
        CompactionEventKind::SummaryTaken { written_by, .. } => Some(written_by.as_str()),
        _ => None,
    });
    match (written_by.next(), written_by.any(|by| by.contains("scripted"))) {
        (None, _) => "no summary needed",
        (Some(by), _) if by.contains("scripted") => "summary by the model",
        (_, true) => "summary by the model",
        (Some(_), false) => "summary by the digest",
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, index, protocol, faults, .. } = self;
        let faults: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
        write!(f, "run {index} of seed {seed} ({protocol}, {faults:?}, refused: {})", self.is_refused)
    }
}
