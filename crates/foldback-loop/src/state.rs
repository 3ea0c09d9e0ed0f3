//! What a session holds between two awaits: the view, and what was learned about it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foldback_core::tokens::CALL_OVERHEAD_TOKENS;
use foldback_core::{
    Budget, Calibration, CallId, Change, ContextTracker, Dialect, Item, ItemId, ItemKind, LastCompaction,
    Meter, StructuralEvent, Timestamp, TokenBounds, Tokens, ToolCall, ToolResult, TurnId, Usage, View,
    check_request, repair,
};
use foldback_engine::mend;
use foldback_engine::session::SessionContext;

use crate::error::{LoopError, MutationFault};
use crate::model::ToolSpec;

/// Items that may wait for the round in flight to end.
const QUEUED_ITEMS_MAX: usize = 1_024;

/// Each further rejection of the same request aims this much lower: what was believed to fit did
/// not.
pub(crate) const REJECTED_FRACTION: f64 = 0.75;

/// What stands where a tool did not get to answer.
pub(crate) const INTERRUPTED: &str =
    "interrupted before the tool answered; it may have done part of its work";

/// Where new items may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To the end of the conversation.
    Open,
    /// To the queue: an answer or results are on their way and belong before them.
    Working,
}

#[derive(Debug)]
struct OpenCall {
    call: ToolCall,
    result: Option<Arc<Item>>,
}

/// Changed only between awaits, so every await sees a conversation that is whole.
#[derive(Debug)]
pub(crate) struct State {
    view: View,
    /// What the model sees before the view: earlier loops of a stored session.
    before: Arc<SessionContext>,
    tracker: ContextTracker,
    schema_tokens: Tokens,
    phase: Phase,
    queued: VecDeque<Item>,
    open_calls: Vec<OpenCall>,
    events: Vec<StructuralEvent>,
    has_unsent_input: bool,
    turn_count: usize,
    named_count: usize,
    rejection_count: u32,
    limit: Option<Tokens>,
    firings: BTreeMap<String, Timestamp>,
    asked: BTreeMap<String, Timestamp>,
    pub(crate) last_compaction: Option<LastCompaction>,
}

impl State {
    pub(crate) fn new(view: View, before: Arc<SessionContext>, specs: &[ToolSpec]) -> Self {
        let meter = view.transcript().meter();
        let schema_tokens = schema_tokens(meter, specs);
        let overhead = schema_tokens + before.tokens;
        let calibration = Calibration::new(meter.counter().precision()).with_overhead(overhead);
        let mut tracker = ContextTracker::with_calibration(calibration);
        match view.overlay().blocks().is_empty() {
            true => tracker.observe(&view),
            // Reports of items that an earlier compaction kept are about a prefix that is gone.
            false => tracker.reset(&view),
        }
        let (turn_count, named_count) = (view.transcript().turn_count(), view.transcript().len());
        let mut state = Self {
            view,
            before,
            tracker,
            schema_tokens,
            phase: Phase::Open,
            queued: VecDeque::new(),
            open_calls: Vec::new(),
            events: Vec::new(),
            has_unsent_input: false,
            turn_count,
            named_count,
            rejection_count: 0,
            limit: None,
            firings: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_compaction: None,
        };
        state.answer_pending();
        state
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// What is sent next: what comes before the view, and the view. Where one does not go with the other, it
    /// is repaired for this request.
    pub(crate) fn request(&mut self, dialect: Option<Dialect>) -> Vec<Arc<Item>> {
        self.mend(dialect);
        if self.before.items.is_empty() {
            return self.view.items().cloned().collect();
        }
        let items = self.before.followed_by(self.view.items());
        match check_request(&items, dialect).is_empty() {
            true => items,
            false => repair(&items, dialect).items,
        }
    }

    /// Whether the model saw a call of this name.
    pub(crate) fn has_call(&self, call_id: &CallId) -> bool {
        let mut calls = self.before.items.iter().flat_map(|item| item.calls());
        self.view.transcript().call(call_id).is_some() || calls.any(|(_, call)| call.id == *call_id)
    }

    /// The earlier loops are seen in another way.
    pub(crate) fn set_before(&mut self, before: &Arc<SessionContext>) {
        if Arc::ptr_eq(&self.before, before) {
            return;
        }
        self.before = Arc::clone(before);
        let calibration = self.tracker.calibration().clone().with_overhead(self.overhead());
        self.tracker = ContextTracker::with_calibration(calibration);
        self.tracker.reset(&self.view);
    }

    /// What every request costs beside the view.
    fn overhead(&self) -> Tokens {
        self.schema_tokens + self.before.tokens
    }

    /// What the next request costs, tool schemas included.
    pub(crate) fn context(&self) -> TokenBounds {
        self.tracker.bounds(&self.view)
    }

    /// What the view costs.
    pub(crate) fn tokens(&self) -> TokenBounds {
        self.context().without(self.overhead())
    }

    pub(crate) fn reported(&self) -> Option<Usage> {
        self.tracker.reported()
    }

    /// When the mutator of this label worked last.
    pub(crate) fn last_firing(&self, label: &str) -> Option<Timestamp> {
        self.firings.get(label).copied()
    }

    /// When the mutator of this label was last asked by the clock, or worked.
    pub(crate) fn last_asked(&self, label: &str) -> Option<Timestamp> {
        self.last_firing(label).max(self.asked.get(label).copied())
    }

    pub(crate) fn note_firing(&mut self, label: &str, now: Timestamp) {
        self.firings.insert(label.to_owned(), now);
    }

    pub(crate) fn note_asked(&mut self, label: &str, now: Timestamp) {
        self.asked.insert(label.to_owned(), now);
    }

    pub(crate) fn rejection_count(&self) -> u32 {
        self.rejection_count
    }

    pub(crate) fn limit(&self) -> Option<Tokens> {
        self.limit
    }

    /// From here on an answer or results are on their way.
    pub(crate) fn close(&mut self) {
        self.phase = Phase::Working;
    }

    /// The conversation is whole again: what waited is appended, in the order it came.
    pub(crate) fn reopen(&mut self) -> Vec<Arc<Item>> {
        self.phase = Phase::Open;
        std::mem::take(&mut self.queued).into_iter().map(|item| self.record(item)).collect()
    }

    pub(crate) fn next_turn(&mut self) -> TurnId {
        self.turn_count += 1;
        format!("turn-{}", self.turn_count).into()
    }

    /// A name that no item of this transcript was given by the loop before.
    pub(crate) fn next_id(&mut self, kind: ItemKind) -> ItemId {
        self.named_count += 1;
        format!("{kind}-{}", self.named_count).into()
    }

    /// Takes note of what happened since the last mutation point; the same thing twice is once.
    pub(crate) fn note(&mut self, event: StructuralEvent) {
        if !self.events.contains(&event) {
            self.events.push(event);
        }
    }

    pub(crate) fn take_events(&mut self) -> Vec<StructuralEvent> {
        std::mem::take(&mut self.events)
    }

    /// Appends to the conversation.
    pub(crate) fn record(&mut self, item: impl Into<Arc<Item>>) -> Arc<Item> {
        let item = item.into();
        self.note(StructuralEvent::NewItem);
        match item.kind {
            ItemKind::Tool => self.note(StructuralEvent::ToolOutput),
            ItemKind::User => self.has_unsent_input = true,
            ItemKind::System
            | ItemKind::Developer
            | ItemKind::Assistant
            | ItemKind::Context
            | ItemKind::Notification => {}
        }
        self.view.push(Arc::clone(&item));
        self.tracker.observe(&self.view);
        item
    }

    /// Appends now if that leaves the conversation in order, else as soon as it does. `None` where it
    /// waits.
    pub(crate) fn push(&mut self, item: Item) -> Result<Option<Arc<Item>>, LoopError> {
        match self.phase {
            Phase::Open => Ok(Some(self.record(item))),
            Phase::Working if self.queued.len() >= QUEUED_ITEMS_MAX => {
                Err(LoopError::QueueFull { items_max: QUEUED_ITEMS_MAX })
            }
            Phase::Working => {
                self.queued.push_back(item);
                Ok(None)
            }
        }
    }

    /// Whether the person has said something that no request has carried yet.
    pub(crate) fn has_pending_input(&self) -> bool {
        self.has_unsent_input || self.queued.iter().any(|item| item.kind == ItemKind::User)
    }

    pub(crate) fn mark_sent(&mut self) {
        self.has_unsent_input = false;
    }

    pub(crate) fn on_accepted(&mut self) {
        self.rejection_count = 0;
    }

    pub(crate) fn on_rejected(&mut self, limit: Option<Tokens>) {
        self.rejection_count += 1;
        self.limit = limit.or(self.limit);
        self.note(StructuralEvent::RequestRejectedForLength);
    }

    /// Remembers the calls of the answer just recorded, so that each gets its result whatever
    /// happens to the turn.
    pub(crate) fn open_calls(&mut self, calls: &[ToolCall]) {
        self.open_calls = calls.iter().map(|call| OpenCall { call: call.clone(), result: None }).collect();
    }

    pub(crate) fn set_result(&mut self, call_index: usize, item: Arc<Item>) {
        if let Some(open) = self.open_calls.get_mut(call_index) {
            open.result = Some(item);
        }
    }

    /// Records the results in the order of their calls; a call without one was interrupted.
    pub(crate) fn close_calls(&mut self) {
        for open in std::mem::take(&mut self.open_calls) {
            match open.result {
                Some(result) => self.record(result),
                None => self.record_interrupted(open.call.id),
            };
        }
    }

    fn answer_pending(&mut self) {
        let pending: Vec<_> = self.view.pending_calls().map(|(_, call_id)| call_id.clone()).collect();
        for call_id in pending {
            self.record_interrupted(call_id);
        }
    }

    fn record_interrupted(&mut self, call_id: CallId) -> Arc<Item> {
        let id = self.next_id(ItemKind::Tool);
        self.record(Item::tool(id, ToolResult::error(call_id, INTERRUPTED)))
    }

    /// Repairs what a provider would reject, as a block like any other: answers and recorded sessions
    /// hold such things, and no mutation is to blame for them.
    pub(crate) fn mend(&mut self, dialect: Option<Dialect>) {
        if !check_request(self.view.items(), dialect).is_empty() {
            let mended = mend(&self.view, dialect);
            self.replace(mended.view);
        }
    }

    /// How much room there is, in counted tokens.
    pub(crate) fn room(&self, budget: Option<Budget>) -> Option<Budget> {
        let budget = match (budget, self.limit) {
            (Some(budget), Some(limit)) if limit < budget.window() => within(&budget, limit),
            (None, Some(limit)) => Budget::builder(limit).overhead(self.overhead()).build().ok()?,
            (budget, _) => budget?,
        };
        let budget = budget.calibrated(self.tracker.calibration());
        // The first time the compactor may know by itself how much lower to aim.
        let Some(again) = i32::try_from(self.rejection_count).ok().filter(|count| *count > 1) else {
            return Some(budget);
        };
        let believed = budget.target().min(self.view.tokens());
        let target = believed.scaled_down(REJECTED_FRACTION.powi(again - 1)).max(Tokens(1));
        let lowered = Budget::builder(budget.window())
            .output_reserve(budget.output_reserve())
            .overhead(budget.overhead())
            .trigger(budget.trigger())
            .target(target)
            .build();
        Some(lowered.unwrap_or(budget))
    }

    /// Puts a mutated view in the place of `base`, the view it was made from, with everything that
    /// was recorded since behind it. Refuses what changes the record or would be rejected, and then
    /// nothing has changed.
    pub(crate) fn commit(
        &mut self,
        base: &View,
        view: View,
        dialect: Option<Dialect>,
        now: Timestamp,
    ) -> Result<(), MutationFault> {
        let has_blocks = view.overlay().blocks().len() > base.overlay().blocks().len();
        let unread = self.view.unread().start;
        let first_changed = self.adopt(base.transcript().len(), view, dialect)?;
        // What only changed before any call read it leaves the context as it was.
        if has_blocks && first_changed.is_some_and(|first| first < unread) {
            self.note(StructuralEvent::CompactionCompleted);
            self.last_compaction = Some(LastCompaction {
                tokens_after: self.tokens().upper,
                at: Some(now),
                item_count: self.view.len(),
            });
        }
        Ok(())
    }

    /// Puts another view of the first `recorded_count` items in place, with everything that was recorded since
    /// behind it. Refuses what changes the record or would be rejected, and then nothing has changed. Says where
    /// the first change is.
    pub(crate) fn adopt(
        &mut self,
        recorded_count: usize,
        mut view: View,
        dialect: Option<Dialect>,
    ) -> Result<Option<usize>, MutationFault> {
        let is_same =
            |(before, after): (&Arc<Item>, &Arc<Item>)| Arc::ptr_eq(before, after) || before == after;
        let keeps_record = view.transcript().len() >= recorded_count
            && self
                .view
                .transcript()
                .items()
                .take(recorded_count)
                .zip(view.transcript().items())
                .all(is_same);
        if !keeps_record {
            return Err(MutationFault::RecordChanged);
        }
        let since: Vec<Arc<Item>> = self.view.transcript().items().skip(recorded_count).cloned().collect();
        since.into_iter().for_each(|item| view.push(item));
        let violations = check_request(view.items(), dialect);
        if !violations.is_empty() {
            return Err(MutationFault::Invalid { violations });
        }
        Ok(self.replace(view))
    }

    /// Another view of the same transcript. What was reported of a prompt that is another now is forgotten.
    /// Says where the first change is.
    pub(crate) fn replace(&mut self, view: View) -> Option<usize> {
        let change = Change::between(&self.view, &view);
        self.view = view;
        self.tracker.changed_from(change.first_changed.unwrap_or(self.view.len()), &self.view);
        change.first_changed
    }
}

/// The same levels in a smaller window.
fn within(budget: &Budget, window: Tokens) -> Budget {
    let share = window.0 as f64 / budget.window().0 as f64;
    let scaled = |tokens: Tokens| tokens.scaled_down(share).max(Tokens(1));
    Budget::builder(window)
        .output_reserve(scaled(budget.output_reserve()))
        .overhead(budget.overhead())
        .trigger(scaled(budget.trigger()))
        .target(scaled(budget.target()))
        .build()
        .or_else(|_| Budget::builder(window).build())
        .unwrap_or(*budget)
}

/// What the tool schemas add to every request.
pub(crate) fn schema_tokens(meter: &Meter, specs: &[ToolSpec]) -> Tokens {
    let tokens = |spec: &ToolSpec| {
        let texts = [&*spec.name, &*spec.description, &*spec.input_schema.to_string()];
        CALL_OVERHEAD_TOKENS + texts.iter().map(|text| meter.text(text)).sum::<u64>()
    };
    Tokens(specs.iter().map(tokens).sum())
}
