//! One fold, from its items to a summary that a backend wrote.

use std::sync::Arc;
use std::time::Duration;

use foldback_core::summary::without_closing;
use foldback_core::tokens::{ITEM_OVERHEAD_TOKENS, Precision};
use foldback_core::{FoldRequest, Item, ItemKind, Ledger, Meter, Part, Tokens, digest_of, redact_item};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::candidates::{CANDIDATES_MAX, Candidate, Scale, best_first};
use super::chunk::{all_calls, chunks};
use super::demands::Demands;
use super::judge::{Frame, Measure, cut, is_refusal, judge, texts_of};
use super::pre_trim::{PreTrim, Room};
use super::retry::{Answered, Calls};
use super::staying::{STAYING_TOKENS_MAX, newest, shown};
use super::{HANDLE_KEY, PlannedFold};
use crate::backend::{BackendError, SummaryRequest, SummaryStage};
use crate::event::SummaryFault;
use crate::off_task::Large;

/// A window that a backend does not name is taken to be this large.
const WINDOW_ASSUMED: Tokens = Tokens(128_000);

/// With less room for the items a backend is not asked.
pub(super) const ROOM_TOKENS_MIN: Tokens = Tokens(256);

/// What was rejected is made to fit this share of it.
const REFIT_FRACTION: f64 = 0.5;

/// The share of the room that a model is asked to stay within: models do not count well.
const ASKED_FRACTION: f64 = 0.9;

/// A fold with less room than this for a model's words is the digest's.
const ASKED_TOKENS_MIN: Tokens = Tokens(48);

/// A second answer is asked to be this much of the first, where that one was too long.
const SHORTER_FRACTION: f64 = 0.7;

/// Lines around the sections of a summary.
const SECTION_TOKENS: Tokens = Tokens(8);

/// The share of the room that earlier summaries may take.
const PREVIOUS_DIVISOR: u64 = 2;

/// The share of the room that may be taken by what stays visible.
const STAYING_DIVISOR: u64 = 4;

/// A fold that a backend is asked about.
#[derive(Debug)]
pub(super) struct Folding<'f> {
    calls: &'f Calls<'f>,
    fold: &'f PlannedFold,
    request: FoldRequest<'f>,
    meter: &'f Meter,
    header: String,
    /// What the model is asked to stay within.
    asked: Tokens,
    ledger: Large<Ledger>,
    demands: Demands,
    /// What stays visible beside the summary, long parts shortened.
    staying: Vec<Arc<Item>>,
    digest: Arc<Item>,
    /// Where the seeds of its calls begin.
    seed: u64,
}

/// A summary that was taken, and what there is to say about how it came about.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) items: Vec<Item>,
    pub(super) report: Value,
}

/// Why there is no summary.
#[derive(Debug)]
enum Stop {
    /// The request was too long: as many tokens, as counted here, were sent.
    Overflow { limit: Option<Tokens>, sent: Tokens },
    /// The digest answers; the events say why.
    Fault,
}

impl<'f> Folding<'f> {
    pub(super) async fn new(calls: &'f Calls<'f>, fold: &'f PlannedFold, digest: Arc<Item>) -> Self {
        let ((ledger, demands), staying) = fold.off_task(|request| (demanded(request), shown(request))).await;
        let request = fold.request();
        let meter = request.view().transcript().meter();
        let tokens_max = request.fold().spec.tokens_max;
        let header = request.header();
        let closing = request.closing().map_or(0, |closing| meter.text(&closing));
        let kept: u64 = demands.kept.iter().map(|line| meter.text(&line.written()) + 1).sum();
        let around = Tokens(meter.text(&header) + closing + kept + ITEM_OVERHEAD_TOKENS) + SECTION_TOKENS;
        let asked = tokens_max.saturating_sub(around).scaled_down(ASKED_FRACTION);
        let (seed, ledger) = ((fold.index as u64) << 32, Large::new(ledger, fold.tokens()));
        Self { calls, fold, request, meter, header, asked, ledger, demands, staying, digest, seed }
    }

    /// Asks until there is a summary, or none is to be had.
    pub(super) async fn summary(&self) -> Option<Taken> {
        if self.asked < ASKED_TOKENS_MIN {
            return self.unavailable(format!("{} tokens are too few for a summary", self.asked));
        }
        let mut window = self.calls.asking.backend.window().unwrap_or(WINDOW_ASSUMED);
        let mut call_max = window;
        for refit in 0..=self.pre_trim().retries_max() {
            let Some(sheet) = self.sheet(window, call_max, refit) else {
                return self.unavailable(format!("a window of {window} tokens has no room for the items"));
            };
            match self.attempt(&sheet, refit).await {
                Ok(taken) => return Some(taken),
                Err(Stop::Fault) => return None,
                Err(Stop::Overflow { limit, sent }) => {
                    window = limit.unwrap_or(window).min(window);
                    // Even a window that is known may be counted otherwise than here.
                    call_max = sent.scaled_down(REFIT_FRACTION);
                }
            }
        }
        None
    }

    fn pre_trim(&self) -> &PreTrim {
        &self.calls.asking.limits.pre_trim
    }

    fn unavailable(&self, why: String) -> Option<Taken> {
        self.calls.refuse(SummaryFault::Backend(BackendError::Unavailable { why }), None);
        None
    }

    /// What one call can hold, and what goes into every call. `None` where there is no room.
    fn sheet(&self, window: Tokens, call_max: Tokens, refit: u32) -> Option<Sheet> {
        let factor = match self.meter.counter().precision() {
            Precision::Exact => 1.0,
            Precision::Estimate { upper_factor } => upper_factor.max(1.0),
        };
        let counted =
            window.saturating_sub(self.calls.asking.backend.prompt_tokens()).scaled_down(1.0 / factor);
        let focus = self.request.fold().spec.focus.as_ref().map_or(0, |focus| self.meter.text(focus));
        let demands: u64 = self.demands.texts().iter().map(|text| self.meter.text(text) + 1).sum();
        let room = counted.saturating_sub(self.asked + Tokens(focus + demands));
        let staying_max = STAYING_TOKENS_MAX.min(Tokens(room.0 / STAYING_DIVISOR));
        let staying = newest(&self.staying, staying_max, self.meter);
        let room = room.saturating_sub(self.tokens(&staying));
        let half = Tokens(room.0 / PREVIOUS_DIVISOR);
        let asking = self.calls.asking;
        let half = Room {
            call: half,
            all: half,
            window,
            is_retry: refit > 0,
            handle: self.request.fold().handle.clone(),
            session_id: asking.session_id.clone(),
            now: asking.now,
        };
        let like = self.request.view().transcript();
        let previous: Vec<Arc<Item>> =
            self.request.previous().map(|entry| without_closing_line(entry.item())).collect();
        let previous = self.pre_trim().fit(&previous, &half, like);
        let previous: Vec<Arc<Item>> = previous.into_iter().flat_map(|piece| piece.items).collect();
        let call = room.saturating_sub(self.tokens(&previous)).min(call_max);
        let room = Room { call, all: all_calls(call, asking.limits.chunks_max), ..half };
        (call >= ROOM_TOKENS_MIN).then_some(Sheet { room, counted, previous, staying })
    }

    fn tokens(&self, items: &[Arc<Item>]) -> Tokens {
        items.iter().map(|item| self.meter.item(item).total).sum()
    }

    async fn attempt(&self, sheet: &Sheet, refit: u32) -> Result<Taken, Stop> {
        let (pre_trim, room) = (self.pre_trim().clone(), sheet.room.clone());
        let mut chunks = self.fold.off_task(move |request| fitted(request, &pre_trim, &room)).await;
        let chunk_count = chunks.len();
        let seed = self.seed | u64::from(refit) << 24;
        let mut request = match chunk_count {
            1 => self.ask_of(chunks.remove(0), SummaryStage::Whole),
            _ => self.ask_of(self.chunk_summaries(&chunks, sheet, seed).await?, SummaryStage::Merge),
        };
        request.previous.clone_from(&sheet.previous);
        request.staying.clone_from(&sheet.staying);
        request.demands = self.demands.texts();
        let left = sheet.room.call.saturating_sub(self.tokens(&request.items));
        request.digest = (self.meter.item(&self.digest).total <= left).then(|| Arc::clone(&self.digest));
        if refit == 0 && chunk_count == 1 {
            request.prefix = self.prefix(sheet);
        }
        self.choose(request, chunk_count, seed).await
    }

    fn ask_of(&self, items: Vec<Arc<Item>>, stage: SummaryStage) -> SummaryRequest {
        let asking = self.calls.asking;
        let mut request = SummaryRequest::new(asking.session_id.clone(), items, asking.reason.clone());
        request.turn_id = asking.turn_id.cloned();
        request.metadata = asking.metadata.clone();
        request.tokens_max = Some(self.asked);
        request.focus.clone_from(&self.request.fold().spec.focus);
        request.stage = stage;
        request
    }

    /// The conversation up to the last folded item, where all of it fits one call.
    fn prefix(&self, sheet: &Sheet) -> Option<Vec<Arc<Item>>> {
        let (fold, view) = (self.request.fold(), self.request.view());
        let folded = view.iter().enumerate().filter(|(_, entry)| fold.hides(entry.span().start));
        let end = view.cut_at_or_after(folded.last()?.0 + 1);
        let tokens = view.tokens_of(0..end) + self.asked + self.tokens(&sheet.staying);
        (tokens <= sheet.counted).then(|| view.items().take(end).cloned().collect())
    }

    /// The summaries of all chunks, which fit one call together. Where a backend fails at one of
    /// them, a digest of the chunk takes its place.
    async fn chunk_summaries(
        &self,
        chunks: &[Vec<Arc<Item>>],
        sheet: &Sheet,
        seed: u64,
    ) -> Result<Vec<Arc<Item>>, Stop> {
        let count = chunks.len();
        let tokens_max = Tokens(sheet.room.call.0 / count as u64)
            .min(self.asked)
            .saturating_sub(Tokens(ITEM_OVERHEAD_TOKENS));
        let asks = chunks.iter().enumerate().map(|(index, chunk)| async move {
            let mut request = self.ask_of(chunk.clone(), SummaryStage::Chunk { index, count });
            request.tokens_max = Some(tokens_max);
            let seed = seed | 1 << 16 | index as u64;
            let answered = self.ask(&request, seed).await?;
            let text = texts_of(&answered.result).map(|texts| texts.join("\n"));
            let told = text.and_then(|text| match cut(&text, tokens_max, self.meter) {
                _ if is_refusal(&text) => Err(SummaryFault::Refused),
                // One line, and longer than there is room for.
                "" => Err(SummaryFault::Inflated { tokens: Tokens(self.meter.text(&text)), tokens_max }),
                told => Ok(told.to_owned()),
            });
            match told {
                Ok(told) => Ok(told),
                Err(fault) => {
                    self.calls.refuse(fault, None);
                    Err(Stop::Fault)
                }
            }
        });
        let mut summaries = Vec::with_capacity(count);
        let mut written = 0;
        for (chunk, told) in chunks.iter().zip(join_all(asks).await) {
            let told = match told {
                Err(overflow @ Stop::Overflow { .. }) => return Err(overflow),
                Err(Stop::Fault) => None,
                Ok(text) => Some(text),
            };
            written += usize::from(told.is_some());
            summaries.push(told.or_else(|| digest_of(chunk, tokens_max, self.meter)).unwrap_or_default());
        }
        let is_said = |(_, text): &(usize, String)| !text.is_empty();
        let item = |(index, text): (usize, String)| {
            Arc::new(Item::text(format!("chunk-{index}"), ItemKind::Context, text))
        };
        match written {
            0 => Err(Stop::Fault),
            _ => Ok(summaries.into_iter().enumerate().filter(is_said).map(item).collect()),
        }
    }

    /// One call, with its retries.
    async fn ask(&self, request: &SummaryRequest, seed: u64) -> Result<Answered, Stop> {
        let sent = self.tokens(&request.items);
        let beside = self.tokens(&request.previous) + self.tokens(&request.staying);
        let answered = self.calls.ask(request, sent + beside, seed).await;
        answered.map_err(|error| match error {
            BackendError::Overflow { limit } => Stop::Overflow { limit, sent },
            BackendError::Cancelled
            | BackendError::RateLimited { .. }
            | BackendError::Server { .. }
            | BackendError::Connection { .. }
            | BackendError::Timeout { .. }
            | BackendError::Unauthorized { .. }
            | BackendError::Rejected { .. }
            | BackendError::Malformed { .. }
            | BackendError::Failed(_)
            | BackendError::Unavailable { .. } => Stop::Fault,
        })
    }

    /// Asks for as many answers as are wanted and takes the best; once more where none can be taken.
    async fn choose(&self, request: SummaryRequest, chunk_count: usize, seed: u64) -> Result<Taken, Stop> {
        let scale = Scale::new(&self.ledger, &self.demands);
        let wanted = self.calls.asking.limits.candidates.clamp(1, CANDIDATES_MAX);
        let asks = (0..wanted as u64).map(|number| self.candidate(&request, &scale, seed | number));
        let (candidates, mut faults) = sorted(join_all(asks).await)?;
        let taken = self.take(&candidates, chunk_count, &mut faults);
        let again = if taken.is_none() { asked_again(&request, &faults) } else { None };
        let retry_in = again.is_some().then_some(Duration::ZERO);
        faults.into_iter().for_each(|fault| self.calls.refuse(fault, retry_in));
        let Some(again) = again else { return taken.ok_or(Stop::Fault) };
        let answer = self.candidate(&again, &scale, seed | CANDIDATES_MAX as u64).await;
        let (candidates, mut faults) = sorted(vec![answer])?;
        let taken = self.take(&candidates, chunk_count, &mut faults);
        faults.into_iter().for_each(|fault| self.calls.refuse(fault, None));
        taken.ok_or(Stop::Fault)
    }

    async fn candidate(
        &self,
        request: &SummaryRequest,
        scale: &Scale<'_>,
        seed: u64,
    ) -> Result<Result<Candidate, SummaryFault>, Stop> {
        let Answered { result, dollars } = self.ask(request, seed).await?;
        let judged = texts_of(&result).and_then(|texts| {
            let text = texts.join("\n");
            let score = scale.score(&text);
            let measure = Measure {
                demands: &self.demands,
                fact_count: scale.fact_count,
                asked: self.asked,
                meter: self.meter,
            };
            judge(&text, score.told_count, &measure)?;
            let tokens = Tokens(self.meter.text(&text));
            let dollars = self.calls.asking.backend.prices().map(|_| dollars);
            Ok(Candidate { texts, score: score.score, tokens, dollars, metadata: result.metadata })
        });
        Ok(judged)
    }

    /// The best candidate as the summary of the fold, with what it leaves out added. Where that has no
    /// room, the next one.
    fn take(
        &self,
        candidates: &[Candidate],
        chunk_count: usize,
        faults: &mut Vec<SummaryFault>,
    ) -> Option<Taken> {
        let written_by = self.calls.asking.backend.name();
        for taken in best_first(candidates) {
            let chosen = &candidates[taken];
            let (request, header, demands) = (&self.request, self.header.as_str(), &self.demands);
            let repaired = match (Frame { request, header, demands, written_by }).repaired(&chosen.texts) {
                Ok(repaired) => repaired,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            let report = json!({
                HANDLE_KEY: self.request.fold().handle,
                "written_by": written_by,
                "chunks": chunk_count,
                "candidates": candidates.iter().map(Candidate::report).collect::<Vec<Value>>(),
                "taken": taken,
                "added": repaired.added,
                "backend": Value::Object(chosen.metadata.clone()),
            });
            return Some(Taken { items: repaired.items, report });
        }
        None
    }
}

/// What was found in the folded items, and what of it a summary must tell.
fn demanded(request: &FoldRequest<'_>) -> (Ledger, Demands) {
    let mut ledger = Ledger::new();
    // Facts are cut from items: their secrets are replaced before.
    request.recorded().enumerate().for_each(|(index, item)| ledger.push(index, &redact_item(item)));
    let meter = request.view().transcript().meter();
    let demands = Demands::of(&ledger, &request.kept_texts(), request.fold().spec.tokens_max, meter);
    let (transcript, mut later) = (request.view().transcript(), Ledger::new());
    let behind = transcript.range(request.fold().range.end..transcript.len());
    behind.enumerate().for_each(|(index, entry)| later.push(index, &redact_item(entry.item())));
    let demands = demands.without_solved(&later).keeping(request.chosen_lines());
    (ledger, demands)
}

/// An earlier summary without what it says of messages that stood behind it then.
fn without_closing_line(item: &Arc<Item>) -> Arc<Item> {
    let mut item = Arc::clone(item);
    let is_closed =
        |part: &Part| matches!(part, Part::Text(text) if without_closing(text).len() < text.len());
    if item.parts.iter().any(is_closed) {
        for part in &mut Arc::make_mut(&mut item).parts {
            if let Part::Text(text) = part {
                *text = without_closing(text).into();
            }
        }
    }
    item
}

/// The folded items, as much of them as there is room for.
fn fitted(request: &FoldRequest<'_>, pre_trim: &PreTrim, room: &Room) -> Vec<Vec<Arc<Item>>> {
    let entries = request.entries().filter(|entry| entry.item().summary.is_none());
    let like = request.view().transcript();
    chunks(pre_trim.fit(entries.map(|entry| entry.item()), room, like), room.call)
}

/// What every call of one attempt is made with.
#[derive(Debug)]
struct Sheet {
    /// Tokens of items that the calls hold.
    room: Room,
    /// All that one call holds beside the backend's own prompt, answer included.
    counted: Tokens,
    previous: Vec<Arc<Item>>,
    staying: Vec<Arc<Item>>,
}

type Asked = Result<Result<Candidate, SummaryFault>, Stop>;

/// Answers that can be taken and faults of those that cannot. Calls that failed are no more than
/// calls that failed, unless all of them did.
fn sorted(asked: Vec<Asked>) -> Result<(Vec<Candidate>, Vec<SummaryFault>), Stop> {
    let (mut candidates, mut faults, mut stop) = (Vec::new(), Vec::new(), None);
    for one in asked {
        match one {
            Ok(Ok(candidate)) => candidates.push(candidate),
            Ok(Err(fault)) => faults.push(fault),
            Err(overflow @ Stop::Overflow { .. }) => stop = Some(overflow),
            Err(Stop::Fault) => stop = stop.or(Some(Stop::Fault)),
        }
    }
    match stop {
        Some(stop) if candidates.is_empty() && faults.is_empty() => Err(stop),
        _ => Ok((candidates, faults)),
    }
}

/// The request once more, where another answer may be better than the one that was not taken.
fn asked_again(request: &SummaryRequest, faults: &[SummaryFault]) -> Option<SummaryRequest> {
    let mut again = None;
    for fault in faults {
        let share = match fault {
            SummaryFault::Truncated | SummaryFault::Inflated { .. } => SHORTER_FRACTION,
            SummaryFault::Empty | SummaryFault::Incomplete { .. } => 1.0,
            SummaryFault::Backend(_) | SummaryFault::Refused | SummaryFault::NotText { .. } => continue,
        };
        let mut request = request.clone();
        request.tokens_max = request.tokens_max.map(|tokens_max| tokens_max.scaled_down(share));
        again = again.or(Some(request));
    }
    again
}
