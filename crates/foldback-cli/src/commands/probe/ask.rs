//! Asks the model: from the cache first, behind the guard, again where an answer cannot be used.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use foldback_backends::{
    Delta, ModelAnswer, ModelBackend, ModelClient, ModelRequest, answer_text, summary_prompt,
};
use foldback_core::cost::Call;
use foldback_core::{FinishReason, Item, ItemKind, Prices, Strategy, Timestamp, Tokens, Usage, View};
use foldback_engine::{
    BackendError, BackendGuard, Backoff, Clock, CompactionBackend, CompactionContext, CompactionEvent,
    CompactionEventKind, CompactionObserver, CompactionRequest, GuardedBackend, Spend, SummaryLimits,
    SummaryRequest, SummaryResult, compact_asking,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cache::Cache;
use crate::args::Shared;
use crate::args::chat::Backend;
use crate::backend::{Route, Served};
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::lab::probe::prompts::{REASKS_MAX, again};
use crate::lab::probe::scores::Bill;
use crate::picture::texts;
use crate::terminal::{self, FAINT, harmless, say, styled};

/// How long one answer may take, retries included: a model that reads a whole session and thinks takes
/// minutes.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How long the summaries of one compaction may take, where nobody said how long.
const COMPACTION_TIMEOUT: Duration = Duration::from_secs(900);

/// What is told of what is wrong with an answer: it may quote the answer.
const WHY_CHARACTERS_MAX: usize = 300;

/// Bytes of a request that a token holds, at least; for what may be spent.
const BYTES_PER_TOKEN: u64 = 3;

/// What is asked for, and for which session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) file: &'a str,
    pub(super) what: &'a str,
}

/// Whoever asks the model, with all that is known of it.
pub(super) struct Asker {
    route: Route,
    is_quiet: bool,
    line: Line,
    /// Writes summaries.
    backend: ModelBackend,
    limits: SummaryLimits,
    cache: Cache,
    interrupts: Interrupts,
    /// Whether a person waits and wants to know for what.
    is_shown: bool,
}

impl Asker {
    pub(super) fn new(
        shared: &Shared,
        flags: &Backend,
        served: &Served,
        cache: Cache,
    ) -> Result<Self, Failure> {
        let reach = flags.reach();
        let backend = served.backend("--backend", &reach)?;
        let prices = CompactionBackend::prices(&backend);
        let bill = SharedBill::default();
        bill.lock().dollars = prices.map(|_| 0.0);
        let timeout = flags.backend_timeout.unwrap_or(TIMEOUT);
        let client = served.client("--backend", &reach)?;
        Ok(Self {
            route: served.route("--backend", &reach, &flags.backend_from),
            is_quiet: shared.quiet,
            line: Line { client, guard: BackendGuard::default(), bill, prices, timeout },
            backend,
            // One that is asked for several at once would have them all from the cache.
            limits: SummaryLimits {
                candidates: 1,
                timeout,
                deadline: flags.backend_timeout.unwrap_or(COMPACTION_TIMEOUT),
                ..flags.limits()
            },
            cache,
            interrupts: Interrupts::new(),
            is_shown: !shared.quiet && terminal::stderr_is_terminal(),
        })
    }

    /// The protocol and the model.
    pub(super) fn name(&self) -> &str {
        self.line.client.name()
    }

    /// What the model reads and writes together, where that is known.
    pub(super) fn window(&self) -> Option<Tokens> {
        CompactionBackend::window(&self.backend)
    }

    pub(super) fn bill(&self) -> Bill {
        self.line.bill.lock().clone()
    }

    fn tell(&self, subject: Subject<'_>) {
        self.route.tell(self.is_quiet);
        if self.is_shown {
            let Subject { file, what } = subject;
            say(&styled(FAINT, harmless(&format!("{file}: asking {} for {what}", self.name()))));
        }
    }

    /// Asks until an answer can be read, and keeps that one.
    pub(super) async fn ask<T>(
        &mut self,
        subject: Subject<'_>,
        request: Vec<Arc<Item>>,
        tokens_max: Tokens,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let key = self.cache.key(&request, Some(tokens_max));
        if let Some(answer) = self.cache.get(&key)
            && let Ok(read) = read(&answer)
        {
            self.line.bill.lock().from_cache += 1;
            return Ok(read);
        }
        self.tell(subject);
        let mut asked = request.clone();
        let mut why = String::new();
        for _ in 0..=REASKS_MAX {
            let answer = self.answer(subject, &asked, tokens_max).await?;
            let text = answer_text(&answer);
            let usable = match answer.finish {
                Some(FinishReason::Length) => Err(format!("it was cut off at {tokens_max} tokens")),
                Some(FinishReason::ContentFilter) => Err("the provider withheld it".to_owned()),
                _ if text.is_empty() => Err("it is empty".to_owned()),
                _ => read(&text),
            };
            match usable {
                Ok(read) => {
                    self.cache.put(&key, &text)?;
                    return Ok(read);
                }
                Err(wrong) => {
                    why = wrong.chars().take(WHY_CHARACTERS_MAX).collect();
                    asked = again(&request, &text, &why);
                }
            }
        }
        let hint = "run it again, or name a more capable model with --backend";
        Err(self.failed(subject, &format!("no usable answer in {} attempts: {why}", REASKS_MAX + 1), hint))
    }

    /// One answer, whatever is in it. Failures of the server are tried again as for summaries.
    async fn answer(
        &mut self,
        subject: Subject<'_>,
        items: &[Arc<Item>],
        tokens_max: Tokens,
    ) -> Result<ModelAnswer, Failure> {
        let SummaryLimits { retries_max, backoff_first, backoff_max, .. } = self.limits;
        let mut backoff = Backoff::new(retries_max, backoff_first, backoff_max, None);
        let begun = Instant::now();
        loop {
            let left = self.line.timeout.saturating_sub(begun.elapsed());
            let error = tokio::select! {
                answer = self.line.attempt(items, tokens_max, left) => match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                },
                () = self.interrupts.pressed() => return Err(self.interrupted()),
            };
            let Some(wait) = backoff
                .after(&error)
                .filter(|&wait| wait < self.line.timeout.saturating_sub(begun.elapsed()))
            else {
                let hint = match error {
                    BackendError::Overflow { .. } => {
                        "say what the model holds with --backend-window, or give a smaller --target"
                    }
                    BackendError::Timeout { .. } => "give it longer with --backend-timeout",
                    _ => "what was answered is kept: run the same command again to go on",
                };
                return Err(self.failed(subject, &error.to_string(), hint));
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.interrupts.pressed() => return Err(self.interrupted()),
            }
        }
    }

    /// Compacts with summaries by the model, or says why there is no such view: one that the digest had to
    /// write would be another arm's.
    pub(super) async fn compact(
        &mut self,
        subject: Subject<'_>,
        strategy: Arc<dyn Strategy>,
        request: &CompactionRequest,
    ) -> Result<Result<View, String>, Failure> {
        self.tell(subject);
        let (backend, cache, bill) = (self.backend.clone(), self.cache.clone(), self.line.bill.clone());
        let backend = GuardedBackend::from(Remembering { backend, cache, bill, wanted: Mutex::default() });
        let refused = Refused::default();
        let context = CompactionContext {
            limits: self.limits.clone(),
            clock: Arc::new(Standing::at_the_end_of(request.view())),
            observer: Some(Arc::new(refused.clone())),
            ..CompactionContext::default().with_backend(backend.guarded_by(self.line.guard.clone()))
        };
        let asked = tokio::select! {
            asked = compact_asking(strategy, request, &context, None) => asked,
            () = self.interrupts.pressed() => return Err(self.interrupted()),
        };
        Ok(match asked {
            Ok(asked) if asked.written_by().all(|by| by == self.name()) => Ok(asked.outcome.view),
            Ok(_) => Err(format!("no summary by {}{}", self.name(), refused.told())),
            Err(error) => Err(error.to_string()),
        })
    }

    fn failed(&self, Subject { file, what }: Subject<'_>, why: &str, hint: &str) -> Failure {
        let told = harmless(&format!("{} was asked for {what}: {why}", self.name()));
        Failure::Read {
            path: harmless(file).into(),
            error: io::Error::other(told),
            hint: Some(hint.to_owned()),
        }
    }

    fn interrupted(&self) -> Failure {
        let folder = harmless(&self.cache.folder().display().to_string());
        let hint = Some(format!("what was answered is in {folder}: run the same command again to go on"));
        let error = io::Error::new(io::ErrorKind::Interrupted, "interrupted");
        Failure::Read { path: "probe".into(), error, hint }
    }
}

/// Whether a person ended it, so that nothing else is begun.
pub(super) fn is_interrupted(failure: &Failure) -> bool {
    matches!(failure, Failure::Read { error, .. } if error.kind() == io::ErrorKind::Interrupted)
}

/// The way to the model, behind its guard, with the bill.
struct Line {
    client: ModelClient,
    guard: BackendGuard,
    bill: SharedBill,
    prices: Option<&'static Prices>,
    timeout: Duration,
}

impl Line {
    /// One request, if the guard lets it through.
    async fn attempt(
        &self,
        items: &[Arc<Item>],
        tokens_max: Tokens,
        left: Duration,
    ) -> Result<ModelAnswer, BackendError> {
        let bytes: usize = items.iter().flat_map(|item| &item.parts).flat_map(texts).map(str::len).sum();
        let input_tokens = Tokens(bytes as u64 / BYTES_PER_TOKEN);
        let most = Usage { input_tokens, output_tokens: tokens_max, ..Usage::default() };
        let admission = self.guard.admit(spend(&most, self.prices))?;
        self.bill.lock().requests += 1;
        let cancellation = CancellationToken::new();
        let request = ModelRequest::new(items).tokens_max(Some(tokens_max));
        let mut heard = |_: Delta<'_>| {};
        let asked = self.client.ask(&request, &mut heard, &cancellation);
        let answer = tokio::time::timeout(left, asked).await;
        match answer.unwrap_or(Err(BackendError::Timeout { after: self.timeout })) {
            Ok(answer) => {
                // A limit is kept with the most that it may have been, a bill tells what was reported.
                let reported = answer.usage.unwrap_or_default();
                self.bill.add(&reported, spend(&reported, self.prices).dollars);
                admission.answered(spend(&answer.usage.unwrap_or(most), self.prices));
                Ok(answer)
            }
            Err(error) => {
                admission.failed(&error);
                Err(error)
            }
        }
    }
}

/// What a call took, at list prices where they are known.
fn spend(usage: &Usage, prices: Option<&Prices>) -> Spend {
    let fresh = usage.input_tokens + usage.cache_write_tokens;
    let call = Call { cached: usage.cached_tokens, fresh, output: usage.output_tokens };
    Spend { tokens: usage.context_tokens(), dollars: prices.map_or(0.0, |prices| prices.cost(&call).total()) }
}

/// A clock that stands still at the end of a conversation: what a model is shown may hold the time, and an
/// answer is in the cache only for the same bytes.
#[derive(Debug)]
struct Standing(Timestamp);

impl Standing {
    fn at_the_end_of(view: &View) -> Self {
        let newest = view.transcript().items().filter_map(|item| item.created_at).max();
        Self(newest.unwrap_or(Timestamp(0)))
    }
}

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// The bill of all who ask.
#[derive(Clone, Debug, Default)]
struct SharedBill(Arc<Mutex<Bill>>);

impl SharedBill {
    /// A count that is off is better than none.
    fn lock(&self) -> MutexGuard<'_, Bill> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, usage: &Usage, dollars: f64) {
        let mut bill = self.lock();
        bill.input_tokens += usage.prompt_tokens().0;
        bill.output_tokens += usage.output_tokens.0;
        bill.dollars = bill.dollars.map(|sum| sum + dollars);
    }
}

/// Why the newest summary was not taken.
#[derive(Clone, Debug, Default)]
struct Refused(Arc<Mutex<Option<String>>>);

impl Refused {
    fn told(&self) -> String {
        let why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        why.as_ref().map_or_else(String::new, |why| format!(": {why}"))
    }
}

impl CompactionObserver for Refused {
    fn on_event(&self, event: &CompactionEvent) {
        if let CompactionEventKind::SummaryRefused { why, .. } = &event.kind {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_string());
        }
    }
}

/// A backend that asks for no summary that was given before. What is wanted again for the same view was no
/// use, and is asked for.
#[derive(Debug)]
struct Remembering {
    backend: ModelBackend,
    cache: Cache,
    bill: SharedBill,
    wanted: Mutex<HashSet<String>>,
}

#[async_trait]
impl CompactionBackend for Remembering {
    async fn summarize(
        &self,
        request: SummaryRequest,
        cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let key = self.cache.key(&summary_prompt(&request), request.tokens_max);
        let is_first = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        if let Some(text) = self.cache.get(&key).filter(|_| is_first) {
            self.bill.lock().from_cache += 1;
            let items = vec![Item::text("summary", ItemKind::Context, text)];
            return Ok(SummaryResult { items, usage: Some(Usage::default()), ..SummaryResult::default() });
        }
        self.bill.lock().requests += 1;
        let result = self.backend.summarize(request, cancellation).await?;
        let usage = result.usage.unwrap_or_default();
        self.bill.add(&usage, spend(&usage, self.prices()).dollars);
        let texts: Vec<&str> = result.items.iter().flat_map(|item| &item.parts).flat_map(texts).collect();
        if matches!(result.finish, None | Some(FinishReason::Stop)) && !texts.is_empty() {
            // A summary that is not kept is asked for again, which costs but harms nothing.
            if let Err(failure) = self.cache.put(&key, &texts.join("\n")) {
                terminal::warning(&harmless(&failure.what()));
            }
        }
        Ok(result)
    }

    fn name(&self) -> &str {
        CompactionBackend::name(&self.backend)
    }

    fn window(&self) -> Option<Tokens> {
        CompactionBackend::window(&self.backend)
    }

    fn prompt_tokens(&self) -> Tokens {
        CompactionBackend::prompt_tokens(&self.backend)
    }

    fn prices(&self) -> Option<&'static Prices> {
        CompactionBackend::prices(&self.backend)
    }
}
