//! Programs with messages of their own type: what a compaction leaves alone comes back as it was given.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::*;
use foldback_engine::messages::{
    DueCompaction, History, HostMessage, MessageCompactor, Piece, SESSION_RECORDS_MAX,
};
use foldback_engine::*;
use foldback_testkit::{recipe, strategies};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

/// Several items as one message, with a note that foldback knows nothing of.
#[derive(Clone, Debug, PartialEq)]
struct Noted {
    note: u64,
    items: Vec<Item>,
}

/// The note of what was made from an item.
const MADE: u64 = u64::MAX;

impl HostMessage for Noted {
    fn to_items(&self) -> Vec<Item> {
        self.items.clone()
    }

    fn from_item(item: &Item) -> Self {
        Self { note: MADE, items: vec![item.clone()] }
    }

    fn with_pieces(&self, pieces: &[Piece<'_>]) -> Self {
        let mut index = 0;
        let mut items = self.items.clone();
        for item in &mut items {
            let parts = std::mem::take(&mut item.parts);
            for part in parts {
                let left = pieces.iter().find(|piece| piece.index == index);
                item.parts.extend(left.map(|piece| piece.replaced.cloned().unwrap_or(part)));
                index += 1;
            }
        }
        items.retain(|item| !item.parts.is_empty());
        Self { note: self.note, items }
    }
}

/// The items in groups of up to three, each a message.
fn grouped(items: Vec<Item>, sizes: &[usize]) -> Vec<Noted> {
    let mut sizes = sizes.iter().cycle();
    let mut items = items.into_iter().peekable();
    let mut messages = Vec::new();
    while items.peek().is_some() {
        let size = sizes.next().copied().unwrap_or(1);
        messages.push(Noted { note: messages.len() as u64, items: items.by_ref().take(size).collect() });
    }
    messages
}

fn said(note: u64) -> Noted {
    Noted { note, items: vec![Item::user("", format!("message {note} says what it says"))] }
}

/// A view as items, however it came to be. Ids are the compactor's own.
fn parts(items: impl Iterator<Item = impl AsRef<Item>>) -> Vec<(ItemKind, Vec<Part>)> {
    items
        .map(|item| (item.as_ref().kind, item.as_ref().parts.clone()))
        .filter(|(_, parts)| !parts.is_empty())
        .collect()
}

/// Compacts whenever it is asked to, with any strategy.
#[derive(Debug)]
struct Always(StrategyCompactor);

#[async_trait]
impl Compactor for Always {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        _context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        Some(CompactionReason::Manual)
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        self.0.compact(request, context).await
    }
}

fn always(strategy: impl Strategy + 'static, target: Tokens) -> Always {
    let budget = Budget::for_target(target).unwrap();
    let builder = StrategyCompactor::builder().item_count_trigger(1).strategy(strategy).budget(budget);
    Always(builder.backend(DigestBackend).build().unwrap())
}

fn keeping(count: usize) -> MessageCompactor<Noted> {
    let strategy = KeepRecentStrategy::new(count);
    MessageCompactor::new(
        StrategyCompactor::builder().item_count_trigger(4).strategy(strategy).build().unwrap(),
    )
}

const POINT: MutationPoint = MutationPoint::AfterTurnEnded;

fn due<M: HostMessage>(compactor: &MessageCompactor<M>, history: History<'_, M>) -> Option<DueCompaction> {
    compactor.due(&"s".into(), None, history, POINT)
}

async fn compacted(compactor: &MessageCompactor<Noted>, history: History<'_, Noted>) -> Option<Vec<Noted>> {
    let due = due(compactor, history)?;
    let compacted = compactor.compact(due, &CompactionContext::default()).await.unwrap()?;
    Some(compacted.messages)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

proptest! {
    #![proptest_config(foldback_testkit::costly(10))]

    /// T5: a message that a compaction leaves alone is the program's own; of others the note stays, and the
    /// list shows what the view shows. The same in a second compaction of the list that went on.
    #[test]
    fn what_is_kept_is_the_programs_own_and_the_list_shows_the_view(
        recipe in recipe::recipe(),
        sizes in prop::collection::vec(1usize..4, 1..5),
        strategy in strategies::strategy(),
        percent in 5u64..100,
        keeps_whole in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let all = grouped(recipe.items(), &sizes);
        let cut = cut.index(all.len() + 1);
        let tokens = recipe.transcript().tokens();
        let compactor =
            MessageCompactor::new(always(strategy, Tokens((tokens.0 * percent / 100).max(1))));
        let (mut list, mut said) = (Vec::new(), Vec::new());
        for new in [&all[..cut], &all[cut..]] {
            list.extend_from_slice(new);
            said.extend_from_slice(new);
            let history = if keeps_whole { History::Whole(&said) } else { History::Shown(&list) };
            let due = due(&compactor, history).unwrap();
            let work = CompactionContext::default();
            if let Ok(Some(compacted)) = runtime().block_on(compactor.compact(due, &work)) {
                list = compacted.messages;
            }
            let view = compactor.view(&"s".into()).unwrap();
            prop_assert_eq!(compactor.shown(&"s".into()).unwrap(), list.clone());
            prop_assert_eq!(parts(view.items()), parts(list.iter().flat_map(|message| &message.items).map(|item| Arc::new(item.clone()))));
            let mut notes = list.iter().map(|message| message.note).filter(|note| *note != MADE);
            prop_assert!(notes.clone().is_sorted(), "in order");
            prop_assert!(notes.all(|note| note < said.len() as u64));
            let shown: Vec<(&ItemId, &[Part])> = view.items().map(|item| (&item.id, &item.parts[..])).collect();
            let is_shown = |message: &&Noted| {
                let items: Vec<_> = message.items.iter().map(|item| (&item.id, &item.parts[..])).collect();
                shown.windows(items.len()).any(|window| window == items)
            };
            for message in said.iter().filter(is_shown) {
                prop_assert!(list.contains(message), "{:?}", message);
            }
        }
    }
}

#[tokio::test]
async fn a_list_that_goes_on_from_what_was_shown_adds_to_the_record() {
    let compactor = keeping(2);
    let mut list: Vec<Noted> = (0..5).map(said).collect();
    list = compacted(&compactor, History::Shown(&list)).await.unwrap();
    assert_eq!(list, [said(3), said(4)]);
    list.extend((5..8).map(said));
    list = compacted(&compactor, History::Shown(&list)).await.unwrap();
    assert_eq!(list, [said(6), said(7)]);
    let view = compactor.view(&"s".into()).unwrap();
    assert_eq!((view.len(), view.transcript().len()), (2, 8));
}

#[tokio::test]
async fn a_whole_history_is_shown_through_every_compaction_of_it() {
    let compactor = keeping(2);
    let mut all: Vec<Noted> = (0..5).map(said).collect();
    assert_eq!(compacted(&compactor, History::Whole(&all)).await.unwrap(), [said(3), said(4)]);
    all.push(said(5));
    assert!(due(&compactor, History::Whole(&all)).is_none());
    assert_eq!(compactor.shown(&"s".into()).unwrap(), [said(3), said(4), said(5)]);
}

/// A loop may stage a compaction and throw it away.
#[tokio::test]
async fn a_list_that_was_thrown_away_leaves_the_record_as_it_was() {
    let compactor = keeping(2);
    let list: Vec<Noted> = (0..5).map(said).collect();
    for _ in 0..3 {
        assert_eq!(compacted(&compactor, History::Shown(&list)).await.unwrap(), [said(3), said(4)]);
    }
    assert_eq!(compactor.view(&"s".into()).unwrap().transcript().len(), 5);
}

#[tokio::test]
async fn what_the_program_changed_by_itself_starts_a_new_record() {
    let compactor = keeping(2);
    let mut list: Vec<Noted> = (0..5).map(said).collect();
    list = compacted(&compactor, History::Shown(&list)).await.unwrap();
    list[0] = said(90);
    list.extend([said(91), said(92)]);
    assert!(due(&compactor, History::Shown(&list)).is_none());
    assert_eq!(compactor.shown(&"s".into()).unwrap(), list);
    assert_eq!(compactor.view(&"s".into()).unwrap().transcript().len(), 4);
}

#[tokio::test]
async fn a_session_that_has_gone_on_meanwhile_is_left_alone() {
    let compactor = keeping(2);
    let mut list: Vec<Noted> = (0..5).map(said).collect();
    let late = due(&compactor, History::Shown(&list)).unwrap();
    list.push(said(5));
    let newer = due(&compactor, History::Shown(&list)).unwrap();
    let work = CompactionContext::default();
    assert!(compactor.compact(late, &work).await.unwrap().is_none());
    assert_eq!(compactor.compact(newer, &work).await.unwrap().unwrap().messages, [said(4), said(5)]);
}

#[tokio::test]
async fn a_handle_gives_back_the_programs_own_messages_each_once() {
    let strategy = SummarizeOlderStrategy::new(1);
    let compactor = MessageCompactor::new(always(strategy, Tokens(10_000)));
    let halves = |note| {
        let half = |which| Item::user("", format!("{which} half of message {note}. ").repeat(30));
        Noted { note, items: vec![half("first"), half("second")] }
    };
    let list: Vec<Noted> = (0..4).map(halves).chain([said(4)]).collect();
    let shown = compacted(&compactor, History::Shown(&list)).await.unwrap();
    assert_eq!((shown.len(), shown[0].note, &shown[1]), (2, MADE, &said(4)));
    let handle = shown[0].items[0].summary.clone().unwrap().handle;
    assert_eq!(compactor.recall(&"s".into(), &handle).unwrap(), list[..4]);
    compactor.forget(&"s".into());
    assert_eq!(compactor.recall(&"s".into(), &handle), None);
}

#[test]
fn ids_that_are_missing_or_used_twice_are_replaced() {
    let compactor = keeping(2);
    let item = |id: &str| Noted { note: 0, items: vec![Item::user(id, "words")] };
    let list = [item("a"), item("a"), item("message-3"), item("")];
    assert!(due(&compactor, History::Shown(&list)).is_none());
    let view = compactor.view(&"s".into()).unwrap();
    let ids: Vec<&str> = view.items().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["a", "message-1", "message-3", "message-4"]);
}

#[test]
fn the_session_asked_for_longest_ago_is_forgotten_when_there_are_too_many() {
    let compactor = keeping(2);
    let ask = |session: usize| {
        compactor.due(&format!("s{session}").into(), None, History::Shown(&[said(0)]), POINT);
    };
    (0..SESSION_RECORDS_MAX).for_each(ask);
    ask(0);
    ask(SESSION_RECORDS_MAX);
    let is_known = |session: usize| compactor.view(&format!("s{session}").into()).is_some();
    assert_eq!([0, 1, 2, SESSION_RECORDS_MAX].map(is_known), [true, false, true, true]);
}

#[test]
fn what_was_asked_for_is_due_whatever_the_trigger_says() {
    let compactor = keeping(2);
    let due = compactor.asked_for(&"s".into(), History::Shown(&[said(0)]));
    assert_eq!(due.reason(), &CompactionReason::Manual);
}
