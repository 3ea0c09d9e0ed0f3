//! Which passages to quote and which names to list: greedily, what is likeliest to be needed again
//! for what it costs.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use memchr::memmem;

use super::passages::{NameIndex, Passages};
use super::sources::{Sources, Topic, TopicIndex};
use super::weigh;
use crate::transcript::Meter;

/// What a quoted line costs beside its words: indent, mark and line end.
const LINE_TOKENS: f64 = 2.0;

/// What a listed name costs beside itself.
const SEPARATOR_TOKENS: f64 = 1.0;

/// A digest longer than this is not searched for each name: some are then listed that stand in it.
const SEARCHED_BYTES_MAX: usize = 256 << 10;

/// What is chosen.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Indices of passages, in order.
    pub(super) passages: Vec<u32>,
    /// For each topic whether its heading is written.
    pub(super) is_open: Vec<bool>,
    /// Names that are listed, in order.
    pub(super) names: Vec<NameIndex>,
}

/// What there is to choose from, weighed once for every attempt.
pub(super) struct Chooser<'c, 's> {
    sources: &'c Sources<'s>,
    passages: &'c Passages<'c>,
    weights: Vec<f64>,
    passage_tokens: Vec<f64>,
    name_tokens: Vec<f64>,
    headings: Vec<Heading>,
}

/// What the line above a topic's passages says and costs.
struct Heading {
    tokens: f64,
    names: Vec<NameIndex>,
    /// What it is worth to have the heading itself: a command may be run again.
    weight: f64,
}

/// A passage or, counted on from the last of them, a topic of which only the heading is written.
struct Candidate {
    ratio: f64,
    index: u32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ratio.total_cmp(&other.ratio).then_with(|| other.index.cmp(&self.index))
    }
}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Candidate {}

impl<'c, 's> Chooser<'c, 's> {
    /// Weighs everything. `weights` has the weight of each name, nothing for what stays visible.
    pub(super) fn new(
        sources: &'c Sources<'s>,
        passages: &'c Passages<'c>,
        weights: Vec<f64>,
        headings: &[String],
        meter: &Meter,
        now: usize,
    ) -> Self {
        let tokens = |text: &str| meter.text(text) as f64;
        let text_of = |source: u32, span: std::ops::Range<usize>| &sources.texts[source as usize].text[span];
        let passage_tokens = passages.passages.iter().map(|passage| {
            tokens(text_of(passage.source, passage.span.start as usize..passage.span.end as usize))
                + LINE_TOKENS
        });
        let heading_of = |(text, topic): (&String, &Topic)| {
            let mut names = Vec::new();
            passages.known_in(text, |name| names.push(name));
            Heading { tokens: tokens(text), names, weight: weigh::topic_weight(topic, now) }
        };
        let name_tokens = passages.names.iter().map(|name| tokens(name.text) + SEPARATOR_TOKENS);
        Self {
            sources,
            passages,
            weights,
            passage_tokens: passage_tokens.collect(),
            name_tokens: name_tokens.collect(),
            headings: headings.iter().zip(&sources.topics).map(heading_of).collect(),
        }
    }

    /// Chooses within `tokens_max`, of which `name_share` is for names without their context.
    /// Names that stand somewhere in `visible` or in what is quoted are not listed.
    pub(super) fn choose(&self, tokens_max: f64, name_share: f64, visible: &str) -> Choice {
        let mut run = Run {
            is_covered: self.weights.iter().map(|&weight| weight <= 0.0).collect(),
            is_open: vec![false; self.headings.len()],
            left: tokens_max * (1.0 - name_share),
        };
        let passages = self.quote(&mut run);
        let mut choice = Choice { passages, is_open: run.is_open.clone(), names: Vec::new() };
        run.left += tokens_max * name_share;
        let mut visible = visible.to_owned();
        for &passage in &choice.passages {
            visible.push_str(self.text(passage));
            visible.push('\n');
        }
        choice.names = self.list(&mut run, visible);
        choice.passages.sort_unstable();
        choice.names.sort_unstable();
        choice
    }

    fn names_of(&self, index: u32) -> &[NameIndex] {
        let passage = self.passages.passages.get(index as usize);
        passage.map_or(&[], |passage| self.passages.names_in(passage))
    }

    /// What is gained by the names of a candidate that nothing shows yet, its heading's included.
    fn gain(&self, index: u32, run: &Run) -> f64 {
        let names = self.names_of(index);
        let topic = self.topic_of(index).0 as usize;
        let heading: &[NameIndex] = if run.is_open[topic] { &[] } else { &self.headings[topic].names };
        let mut gain = if run.is_open[topic] { 0.0 } else { self.headings[topic].weight };
        for (position, name) in names.iter().enumerate() {
            if !run.is_covered[name.0 as usize] && !names[..position].contains(name) {
                gain += self.weights[name.0 as usize];
            }
        }
        for (position, name) in heading.iter().enumerate() {
            let is_new = !heading[..position].contains(name) && !names.contains(name);
            if is_new && !run.is_covered[name.0 as usize] {
                gain += self.weights[name.0 as usize];
            }
        }
        gain
    }

    fn topic_of(&self, index: u32) -> TopicIndex {
        match self.passages.passages.get(index as usize) {
            Some(passage) => self.sources.texts[passage.source as usize].topic,
            None => TopicIndex(index - self.passages.passages.len() as u32),
        }
    }

    fn cost(&self, index: u32, run: &Run) -> f64 {
        let topic = self.topic_of(index).0 as usize;
        let heading = if run.is_open[topic] { 0.0 } else { self.headings[topic].tokens };
        self.passage_tokens.get(index as usize).copied().unwrap_or(0.0) + heading
    }

    fn quote(&self, run: &mut Run) -> Vec<u32> {
        let mut seen = HashSet::new();
        let passage_count = self.passages.passages.len() as u32;
        let distinct = (0..passage_count).filter(|&passage| seen.insert(self.text(passage)));
        let headings = (0..self.headings.len() as u32).map(|topic| passage_count + topic);
        let candidate = |index: u32| {
            let gain = self.gain(index, run);
            (gain > 0.0).then(|| Candidate { ratio: gain / self.cost(index, run), index })
        };
        let mut heap: BinaryHeap<Candidate> = distinct.chain(headings).filter_map(candidate).collect();
        let mut chosen = Vec::new();
        while let Some(candidate) = heap.pop() {
            let index = candidate.index;
            let (gain, cost) = (self.gain(index, run), self.cost(index, run));
            if gain <= 0.0 || cost > run.left {
                continue;
            }
            let ratio = gain / cost;
            // What was chosen since may have taken from it.
            if heap.peek().is_some_and(|next| next.ratio > ratio) {
                heap.push(Candidate { ratio, index });
                continue;
            }
            run.left -= cost;
            let topic = self.topic_of(index).0 as usize;
            run.is_open[topic] = true;
            for name in self.names_of(index).iter().chain(&self.headings[topic].names) {
                run.is_covered[name.0 as usize] = true;
            }
            if index < passage_count {
                chosen.push(index);
            }
        }
        chosen
    }

    fn list(&self, run: &mut Run, mut visible: String) -> Vec<NameIndex> {
        let mut order: Vec<u32> =
            (0..self.weights.len() as u32).filter(|&name| !run.is_covered[name as usize]).collect();
        let ratio = |name: u32| self.weights[name as usize] / self.name_tokens[name as usize];
        order.sort_by(|&a, &b| ratio(b).total_cmp(&ratio(a)).then(a.cmp(&b)));
        let mut listed = Vec::new();
        for name in order {
            let (cost, text) = (self.name_tokens[name as usize], self.passages.names[name as usize].text);
            if cost > run.left {
                continue;
            }
            let is_searched = visible.len() <= SEARCHED_BYTES_MAX;
            if is_searched && memmem::find(visible.as_bytes(), text.as_bytes()).is_some() {
                continue;
            }
            run.left -= cost;
            visible.push_str(text);
            visible.push('\n');
            listed.push(NameIndex(name));
        }
        listed
    }

    fn text(&self, passage: u32) -> &str {
        let passage = &self.passages.passages[passage as usize];
        &self.sources.texts[passage.source as usize].text
            [passage.span.start as usize..passage.span.end as usize]
    }
}

struct Run {
    is_covered: Vec<bool>,
    is_open: Vec<bool>,
    left: f64,
}
