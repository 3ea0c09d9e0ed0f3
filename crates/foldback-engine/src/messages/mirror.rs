//! One session's messages beside their record: which item is which message, and what the program was given.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldback_core::{Entry, Item, ItemId, Part, Transcript, View};

use super::{History, HostMessage, Piece};

/// A message that was recorded.
#[derive(Debug)]
struct Told<M> {
    message: Arc<M>,
    piece_count: usize,
}

/// Where an item of the record comes from: its message, and the message's pieces before the item.
type Source<M> = Option<(Arc<Told<M>>, usize)>;

/// What was recorded, and what is shown of it.
#[derive(Debug)]
struct State<M> {
    view: View,
    /// For every item of the transcript; none for summaries and repairs.
    sources: Vec<Source<M>>,
    /// Everything that was said.
    said: Vec<Arc<M>>,
    /// What the model sees of it.
    shown: Vec<Arc<M>>,
}

impl<M> Clone for State<M> {
    fn clone(&self) -> Self {
        Self {
            view: self.view.clone(),
            sources: self.sources.clone(),
            said: self.said.clone(),
            shown: self.shown.clone(),
        }
    }
}

/// The record of one session.
#[derive(Debug)]
pub(super) struct Mirror<M> {
    current: State<M>,
    /// What was shown before the newest compaction, until the program goes on from that: it may throw away
    /// what it was given.
    previous: Option<State<M>>,
    ids: HashSet<ItemId>,
    version: u64,
    /// When it was asked for last.
    pub(super) used_at: u64,
}

impl<M: HostMessage> Mirror<M> {
    pub(super) fn new(empty: &Transcript) -> Self {
        Self { current: State::new(empty), previous: None, ids: HashSet::new(), version: 0, used_at: 0 }
    }

    pub(super) fn view(&self) -> &View {
        &self.current.view
    }

    /// Another number whenever the view is another.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Makes these the session's messages. Whether there are new ones.
    pub(super) fn take_in(&mut self, history: History<'_, M>, empty: &Transcript) -> bool {
        let known_count = self.known_count(history).unwrap_or_else(|| {
            *self = Self { version: self.version + 1, used_at: self.used_at, ..Self::new(empty) };
            0
        });
        let new = &history.messages()[known_count..];
        new.iter().for_each(|message| self.push(message));
        !new.is_empty()
    }

    /// How many messages of the list are known. `None` where the known ones are not the list's first.
    fn known_count(&mut self, history: History<'_, M>) -> Option<usize> {
        let previous = self.previous.take();
        match history {
            History::Whole(messages) => {
                is_start(&self.current.said, messages).then_some(self.current.said.len())
            }
            History::Shown(messages) => {
                if !is_start(&self.current.shown, messages) {
                    self.current = previous.filter(|state| is_start(&state.shown, messages))?;
                    self.version += 1;
                }
                Some(self.current.shown.len())
            }
        }
    }

    fn push(&mut self, message: &M) {
        self.version += 1;
        let items = message.to_items();
        let piece_count = items.iter().map(|item| item.parts.len()).sum();
        let message = Arc::new(message.clone());
        let told = Arc::new(Told { message: Arc::clone(&message), piece_count });
        let mut pieces_before = 0;
        for mut item in items {
            item.id = self.unused(item.id);
            self.current.sources.push(Some((Arc::clone(&told), pieces_before)));
            pieces_before += item.parts.len();
            self.current.view.push(item);
        }
        self.current.said.push(Arc::clone(&message));
        self.current.shown.push(message);
    }

    /// The id itself, or another where it is empty or was used.
    fn unused(&mut self, id: ItemId) -> ItemId {
        let index = self.current.view.transcript().len();
        let numbered = (index..).map(|number| ItemId::from(format!("message-{number}")));
        let given = Some(id).filter(|id| !id.is_empty());
        let id = given.into_iter().chain(numbered).find(|id| !self.ids.contains(id));
        let id = id.expect("numbers do not end");
        self.ids.insert(id.clone());
        id
    }

    /// Goes on with this view of the same record, and gives the messages that show it. `None` where those
    /// are the ones there were.
    pub(super) fn show(&mut self, view: View) -> Option<Vec<M>> {
        let mut sources = self.current.sources.clone();
        // A repair records items again, behind the others.
        if sources.len() < view.transcript().len() {
            let known = self.known();
            let again = view.transcript().items().skip(sources.len());
            sources.extend(again.map(|item| known.get(&Arc::as_ptr(item)).cloned().flatten()));
        }
        let shown = shown(&view, &sources);
        if shown == self.current.shown {
            return None;
        }
        self.version += 1;
        let said = self.current.said.clone();
        self.previous = Some(std::mem::replace(&mut self.current, State { view, sources, said, shown }));
        Some(self.shown())
    }

    /// The messages that the model sees.
    pub(super) fn shown(&self) -> Vec<M> {
        self.current.shown.iter().map(|message| M::clone(message)).collect()
    }

    /// The messages that these recorded items were made from, each once.
    pub(super) fn originals(&self, items: &[Arc<Item>]) -> Vec<M> {
        let known = self.known();
        let mut last: Option<Arc<Told<M>>> = None;
        let mut messages = Vec::new();
        for item in items {
            let source = known.get(&Arc::as_ptr(item)).cloned().flatten();
            match &source {
                None => messages.push(M::from_item(item)),
                Some((told, _)) if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, told)) => {}
                Some((told, _)) => messages.push(M::clone(&told.message)),
            }
            last = source.map(|(told, _)| told);
        }
        messages
    }

    fn known(&self) -> HashMap<*const Item, Source<M>> {
        let items = self.current.view.transcript().items();
        items.map(Arc::as_ptr).zip(self.current.sources.iter().cloned()).collect()
    }
}

impl<M: HostMessage> State<M> {
    fn new(empty: &Transcript) -> Self {
        Self { view: View::of(empty), sources: Vec::new(), said: Vec::new(), shown: Vec::new() }
    }
}

/// Whether a list begins with these messages.
fn is_start<M: PartialEq>(known: &[Arc<M>], messages: &[M]) -> bool {
    let start = messages.get(..known.len());
    start.is_some_and(|start| known.iter().zip(start).all(|(known, given)| **known == *given))
}

/// What is left of a message.
struct Left<'v, M> {
    told: &'v Arc<Told<M>>,
    pieces: Vec<Piece<'v>>,
}

impl<M: HostMessage> Left<'_, M> {
    fn message(&self) -> Arc<M> {
        let is_whole = self.pieces.len() == self.told.piece_count
            && self.pieces.iter().all(|piece| piece.replaced.is_none());
        match is_whole {
            true => Arc::clone(&self.told.message),
            false => Arc::new(self.told.message.with_pieces(&self.pieces)),
        }
    }

    /// Whether an item that begins behind so many pieces is a later one of the same message.
    fn goes_on_in(&self, told: &Arc<Told<M>>, pieces_before: usize) -> bool {
        Arc::ptr_eq(self.told, told) && self.pieces.last().is_none_or(|last| last.index < pieces_before)
    }
}

/// The messages that show a view.
fn shown<M: HostMessage>(view: &View, sources: &[Source<M>]) -> Vec<Arc<M>> {
    let mut shown = Vec::new();
    let mut open: Option<Left<'_, M>> = None;
    for entry in view.range(0..view.len()) {
        let source = recorded(view, entry).and_then(|item| {
            let (told, pieces_before) = sources.get(entry.anchor())?.as_ref()?;
            Some((told, *pieces_before, pieces(entry, item, *pieces_before)))
        });
        match source {
            None => {
                shown.extend(open.take().map(|left| left.message()));
                shown.push(Arc::new(M::from_item(entry.item())));
            }
            Some((told, pieces_before, pieces)) => match &mut open {
                Some(left) if left.goes_on_in(told, pieces_before) => left.pieces.extend(pieces),
                _ => shown.extend(open.replace(Left { told, pieces }).map(|left| left.message())),
            },
        }
    }
    shown.extend(open.map(|left| left.message()));
    shown
}

/// The recorded item that an entry shows; none for a summary.
fn recorded<'v>(view: &'v View, entry: &Entry) -> Option<&'v Arc<Item>> {
    let item = view.transcript().get(entry.anchor())?.item();
    (entry.span().len() == 1 && entry.item().id == item.id).then_some(item)
}

/// What is left of one item's part of a message.
fn pieces<'v>(entry: &'v Entry, recorded: &Arc<Item>, pieces_before: usize) -> Vec<Piece<'v>> {
    let piece = |(part_index, part): (usize, &'v Part)| {
        let recorded_index = entry.recorded_part(part_index);
        let is_same = Arc::ptr_eq(entry.item(), recorded) || recorded.parts.get(recorded_index) == Some(part);
        Piece { index: pieces_before + recorded_index, replaced: (!is_same).then_some(part) }
    };
    entry.item().parts.iter().enumerate().map(piece).collect()
}
