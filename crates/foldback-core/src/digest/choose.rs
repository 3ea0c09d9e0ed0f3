//! Which passages to quote and which names to list: greedily, what is likeliest to be needed again
//! for what it costs.
//!
//! A name that is quoted in its context is worth all of its weight, one that is only listed a part
//! of it. Quotations and listed names compete for the same room.

mod queue;

use foldhash::{HashMap, HashMapExt};

use super::passages::{Name, NameCounter, NameIndex, Passages};
use super::sources::{Sources, Subject, Topic, TopicIndex};
use super::visible::Visible;
use super::weigh::Weights;
use crate::tokens::Meter;
use queue::{Candidate, Queue, Ranked, Which};

/// What a quoted line costs beside its words: indent, mark and line end.
const LINE_TOKENS: f64 = 1.5;

/// The part of a name's weight that is its context's: a name without it may be found again, but not
/// what it was about. The fewer of the names there is room for, the more they have to tell.
const CONTEXT_FRACTION: f64 = 0.16;
const CONTEXT_FRACTION_MAX: f64 = 0.4;

/// Where there is room for this share of the names that are wanted, there is for commas and whole
/// sentences as well.
pub(super) const AMPLE_FRACTION: f64 = 0.9;
const COMMA_TOKENS: f64 = 1.0;

/// A name this long is its own context; so is a command of the names in it.
const TELLING_CHARACTERS_MIN: usize = 40;

/// What is chosen.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Indices of passages, in order.
    pub(super) passages: Vec<u32>,
    /// For each topic whether its heading is written.
    pub(super) is_open: Vec<bool>,
    /// Names that are listed, in order.
    pub(super) names: Vec<NameIndex>,
    /// Of the names that are wanted, the share there is room for.
    pub(super) room_share: f64,
}

/// What there is to choose from, weighed once for every attempt.
pub(super) struct Chooser<'c, 's> {
    sources: &'c Sources<'s>,
    passages: &'c Passages<'c>,
    weights: Vec<f64>,
    /// What each passage that is a candidate costs.
    passage_tokens: Vec<f64>,
    /// What there is to choose from at the start, the best first.
    candidates: Ranked,
    /// None of them costs less, whatever is chosen before.
    cost_min: f64,
    context_share: f64,
    room_share: f64,
    name_tokens: Vec<f64>,
    headings: Vec<Heading>,
}

/// What the line above a topic's passages says and costs.
struct Heading {
    tokens: f64,
    names: Vec<NameIndex>,
    /// How its names are seen in it.
    shown: Shown,
    /// What it is worth to have the heading itself: a command may be run again.
    weight: f64,
}

impl Heading {
    fn of(topic: &Topic<'_>, weight: f64, text: &str, passages: &Passages<'_>, meter: &Meter) -> Self {
        let mut names = Vec::new();
        passages.known_in(text, |name| {
            if !names.contains(&name) {
                names.push(name);
            }
        });
        let shown = match &topic.subject {
            Subject::Command(command) if command.len() >= TELLING_CHARACTERS_MIN => Shown::Quoted,
            _ => Shown::Named,
        };
        Self { tokens: meter.text(text) as f64, names, shown, weight }
    }
}

/// How a name can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Nowhere,
    /// By itself, in a list or a heading.
    Named,
    /// In its context, or somewhere beside the digest.
    Quoted,
}

/// What is chosen so far.
struct Run {
    shown: Vec<Shown>,
    is_listed: Vec<bool>,
    is_open: Vec<bool>,
    passages: Vec<u32>,
    left: f64,
}

impl<'c, 's> Chooser<'c, 's> {
    /// Weighs everything. Names that stay visible have no weight; `tokens_max` is about how much room there is.
    pub(super) fn new(
        sources: &'c Sources<'s>,
        passages: &'c Passages<'c>,
        weights: Weights,
        headings: &[String],
        meter: &Meter,
        tokens_max: f64,
    ) -> Self {
        let weight_of = weights.topics.iter().zip(&sources.topics).zip(headings);
        let headings = weight_of
            .map(|((&weight, topic), text)| Heading::of(topic, weight, text, passages, meter))
            .collect();
        let weights = weights.names;
        let mut counter = NameCounter::new(meter);
        let tokens_of = |name: &Name<'_>| name.tokens(|text| counter.count(text)) as f64;
        let mut name_tokens: Vec<f64> = passages.names.iter().map(tokens_of).collect();
        let room_share = room_share(&weights, &name_tokens, tokens_max);
        if room_share >= AMPLE_FRACTION {
            name_tokens.iter_mut().for_each(|tokens| *tokens += COMMA_TOKENS);
        }
        let mut chooser = Self {
            sources,
            passages,
            passage_tokens: vec![0.0; passages.passages.len()],
            candidates: Ranked::default(),
            cost_min: f64::INFINITY,
            context_share: CONTEXT_FRACTION_MAX + (CONTEXT_FRACTION - CONTEXT_FRACTION_MAX) * room_share,
            room_share,
            weights,
            name_tokens,
            headings,
        };
        chooser.find_candidates(meter);
        chooser
    }

    /// Every attempt starts with the same candidates: passages that gain something, each text once,
    /// headings, and names.
    fn find_candidates(&mut self, meter: &Meter) {
        let run = self.start(0.0);
        let names = (0..self.weights.len() as u32).map(NameIndex);
        let quoted: Vec<f64> =
            names.clone().map(|name| self.value_with_parts(name, Shown::Quoted, &run)).collect();
        let mut piece_tokens: (u32, f64) = (u32::MAX, 0.0);
        let mut seen: HashMap<u64, u32> = HashMap::with_capacity(self.passages.passages.len());
        let passages = (0..self.passages.passages.len() as u32).map(Which::Passage);
        let headings = (0..self.headings.len() as u32).map(|topic| Which::Heading(TopicIndex(topic)));
        let mut candidates = Vec::with_capacity(passages.len() + headings.len() + names.len());
        for which in passages.chain(headings).chain(names.map(Which::Name)) {
            let gain = self.gain_where(which, &run, |name| quoted[name.0 as usize]);
            if gain <= 0.0 {
                continue;
            }
            if let Which::Passage(index) = which {
                if self.is_repeated(index, &mut seen) {
                    continue;
                }
                self.passage_tokens[index as usize] = self.count(index, &mut piece_tokens, meter);
            }
            let cost = self.cost(which, &run);
            let cost_min = match which {
                Which::Passage(index) => self.passage_tokens[index as usize],
                Which::Heading(_) | Which::Name(_) => cost,
            };
            self.cost_min = self.cost_min.min(cost_min);
            candidates.push(Candidate { ratio: gain / cost, cost_min, which });
        }
        self.candidates = Ranked::of(candidates);
    }

    /// Whether a passage says what one of those `seen` before says, by their hashes.
    fn is_repeated(&self, index: u32, seen: &mut HashMap<u64, u32>) -> bool {
        let first = *seen.entry(self.passages.passages[index as usize].hash).or_insert(index);
        let text = |index| text_of(self.sources, self.passages, index);
        first != index && text(first) == text(index)
    }

    /// What a passage costs: a window by its share of its piece, the last of which is `counted`.
    fn count(&self, index: u32, counted: &mut (u32, f64), meter: &Meter) -> f64 {
        let passage = &self.passages.passages[index as usize];
        if counted.0 != passage.piece {
            let tokens = self.passages.piece_tokens(self.sources, passage.piece, |text| meter.text(text));
            *counted = (passage.piece, tokens as f64);
        }
        let whole = self.passages.pieces[passage.piece as usize].span.len();
        let share = passage.span.len() as f64 / whole as f64;
        counted.1 * share + LINE_TOKENS
    }

    fn start(&self, left: f64) -> Run {
        let shown = |&weight: &f64| if weight <= 0.0 { Shown::Quoted } else { Shown::Nowhere };
        Run {
            shown: self.weights.iter().map(shown).collect(),
            is_listed: vec![false; self.weights.len()],
            is_open: vec![false; self.headings.len()],
            passages: Vec::new(),
            left,
        }
    }

    /// Chooses within `tokens_max`. Names that stand somewhere in `visible` or in what is quoted are
    /// not listed.
    pub(super) fn choose(&mut self, tokens_max: f64, visible: &str) -> Choice {
        let mut run = self.start(tokens_max);
        let mut visible = Visible::of(visible);
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut queue = Queue::new(&mut candidates);
        while let Some(candidate) = queue.pop().filter(|_| run.left >= self.cost_min) {
            if candidate.cost_min > run.left {
                continue;
            }
            let which = candidate.which;
            let (gain, cost) = (self.gain(which, &run), self.cost(which, &run));
            if gain <= 0.0 || cost > run.left {
                continue;
            }
            let ratio = gain / cost;
            // What was chosen since may have taken from it.
            if queue.peek().is_some_and(|next| next.ratio > ratio) {
                queue.waiting.push(Candidate { ratio, ..candidate });
                continue;
            }
            self.take(which, cost, &mut run, &mut visible);
        }
        self.candidates = candidates;
        run.passages.sort_unstable();
        let listed = (0..self.weights.len() as u32).filter(|&name| run.is_listed[name as usize]);
        Choice {
            names: listed.map(NameIndex).collect(),
            passages: run.passages,
            is_open: run.is_open,
            room_share: self.room_share,
        }
    }

    fn take(&self, which: Which, cost: f64, run: &mut Run, visible: &mut Visible) {
        match which {
            Which::Name(name) => {
                let text = self.passages.names[name.0 as usize].text;
                if !visible.holds(text) {
                    run.left -= cost;
                    run.is_listed[name.0 as usize] = true;
                    visible.add(text);
                }
                self.show(name, Shown::Named, run);
                for &part in self.passages.parts_of(name) {
                    self.show(part, Shown::Named, run);
                }
            }
            Which::Passage(index) => {
                run.left -= cost;
                self.open(self.topic_of(index), run);
                for &name in self.passages.names_of(index) {
                    self.tell(name, Shown::Quoted, run);
                }
                run.passages.push(index);
                visible.add(text_of(self.sources, self.passages, index));
            }
            Which::Heading(topic) => {
                run.left -= cost;
                self.open(topic, run);
            }
        }
    }

    fn open(&self, topic: TopicIndex, run: &mut Run) {
        let topic = topic.0 as usize;
        if !std::mem::replace(&mut run.is_open[topic], true) {
            let heading = &self.headings[topic];
            for &name in &heading.names {
                self.tell(name, heading.shown, run);
            }
        }
    }

    /// Shows a name outside of a list, and the names in it: none of them need be listed as well.
    fn tell(&self, name: NameIndex, shown: Shown, run: &mut Run) {
        for &name in [name].iter().chain(self.passages.parts_of(name)) {
            self.show(name, shown, run);
            if std::mem::replace(&mut run.is_listed[name.0 as usize], false) {
                run.left += self.name_tokens[name.0 as usize];
            }
        }
    }

    fn show(&self, name: NameIndex, shown: Shown, run: &mut Run) {
        let index = name.0 as usize;
        run.shown[index] = self.shown_as(name, shown).max(run.shown[index]);
    }

    fn shown_as(&self, name: NameIndex, shown: Shown) -> Shown {
        let is_telling = self.passages.names[name.0 as usize].text.len() >= TELLING_CHARACTERS_MIN;
        if is_telling { shown.max(Shown::Quoted) } else { shown }
    }

    /// What is gained by showing a name.
    fn value(&self, name: NameIndex, shown: Shown, run: &Run) -> f64 {
        let weight = self.weights[name.0 as usize];
        match (run.shown[name.0 as usize], self.shown_as(name, shown)) {
            (Shown::Nowhere, Shown::Quoted) => weight,
            (Shown::Nowhere, Shown::Named) => weight * (1.0 - self.context_share),
            (Shown::Named, Shown::Quoted) => weight * self.context_share,
            (Shown::Quoted, _) | (Shown::Named, Shown::Named) | (_, Shown::Nowhere) => 0.0,
        }
    }

    /// The same, with the names that stand in it.
    fn value_with_parts(&self, name: NameIndex, shown: Shown, run: &Run) -> f64 {
        let parts = self.passages.parts_of(name).iter();
        self.value(name, shown, run) + parts.map(|&part| self.value(part, shown, run)).sum::<f64>()
    }

    /// What is gained by a candidate: what its names gain by it, its heading's included.
    fn gain(&self, which: Which, run: &Run) -> f64 {
        self.gain_where(which, run, |name| self.value_with_parts(name, Shown::Quoted, run))
    }

    /// The same, where it is known what is gained by quoting a name.
    fn gain_where(&self, which: Which, run: &Run, quoted: impl Fn(NameIndex) -> f64) -> f64 {
        let (names, topic): (&[NameIndex], TopicIndex) = match which {
            Which::Name(name) => return self.value_with_parts(name, Shown::Named, run),
            Which::Passage(index) => (self.passages.names_of(index), self.topic_of(index)),
            Which::Heading(topic) => (&[], topic),
        };
        let mut gain = 0.0;
        for (position, &name) in names.iter().enumerate() {
            if !names[..position].contains(&name) {
                gain += quoted(name);
            }
        }
        let topic = topic.0 as usize;
        if !run.is_open[topic] {
            let heading = &self.headings[topic];
            gain += heading.weight;
            for &name in heading.names.iter().filter(|name| !names.contains(name)) {
                gain += self.value(name, heading.shown, run);
            }
        }
        gain
    }

    fn topic_of(&self, passage: u32) -> TopicIndex {
        let piece = &self.passages.pieces[self.passages.passages[passage as usize].piece as usize];
        self.sources.texts[piece.source as usize].topic
    }

    fn cost(&self, which: Which, run: &Run) -> f64 {
        let heading = |TopicIndex(topic): TopicIndex| match run.is_open[topic as usize] {
            true => 0.0,
            false => self.headings[topic as usize].tokens,
        };
        match which {
            Which::Passage(index) => self.passage_tokens[index as usize] + heading(self.topic_of(index)),
            Which::Heading(topic) => heading(topic),
            Which::Name(name) => self.name_tokens[name.0 as usize],
        }
    }
}

/// Of the names that are wanted, the share there is room for in `tokens_max`.
fn room_share(weights: &[f64], name_tokens: &[f64], tokens_max: f64) -> f64 {
    let wanted = weights.iter().zip(name_tokens).filter(|(weight, _)| **weight > 0.0);
    let all_tokens: f64 = wanted.map(|(_, tokens)| tokens).sum();
    (tokens_max / all_tokens.max(1.0)).min(1.0)
}

fn text_of<'c>(sources: &'c Sources<'_>, passages: &'c Passages<'_>, passage: u32) -> &'c str {
    let passage = &passages.passages[passage as usize];
    let source = passages.pieces[passage.piece as usize].source;
    &sources.texts[source as usize].text[passage.span.start as usize..passage.span.end as usize]
}
