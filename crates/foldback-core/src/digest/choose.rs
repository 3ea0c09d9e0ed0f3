//! Which passages to quote and which names to list: greedily, what is likeliest to be needed again
//! for what it costs.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use foldhash::{HashSet, HashSetExt};
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
    /// What each passage that is a candidate costs.
    passage_tokens: Vec<f64>,
    /// What there is to choose from at the start.
    candidates: Vec<Candidate>,
    /// None of them costs less, whatever is chosen before.
    cost_min: f64,
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
#[derive(Clone, Copy)]
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
        let heading_of = |(text, topic): (&String, &Topic)| {
            let mut names = Vec::new();
            passages.known_in(text, |name| names.push(name));
            Heading { tokens: tokens(text), names, weight: weigh::topic_weight(topic, now) }
        };
        let name_tokens = passages.names.iter().map(|name| tokens(name.text) + SEPARATOR_TOKENS);
        let mut chooser = Self {
            sources,
            passages,
            weights,
            passage_tokens: vec![0.0; passages.passages.len()],
            candidates: Vec::new(),
            cost_min: f64::INFINITY,
            name_tokens: name_tokens.collect(),
            headings: headings.iter().zip(&sources.topics).map(heading_of).collect(),
        };
        chooser.find_candidates(tokens);
        chooser
    }

    /// Every attempt starts with the same candidates: passages that gain something, each text once,
    /// and headings.
    fn find_candidates(&mut self, tokens: impl Fn(&str) -> f64) {
        let run = self.start(0.0);
        let mut seen = HashSet::new();
        let passage_count = self.passages.passages.len() as u32;
        let mut candidates = Vec::new();
        for index in 0..passage_count + self.headings.len() as u32 {
            let text = (index < passage_count).then(|| text_of(self.sources, self.passages, index));
            if text.is_some_and(|text| !seen.insert(text)) {
                continue;
            }
            let gain = self.gain(index, &run);
            if gain <= 0.0 {
                continue;
            }
            if let Some(text) = text {
                self.passage_tokens[index as usize] = tokens(text) + LINE_TOKENS;
            }
            let alone = self.passage_tokens.get(index as usize).copied();
            self.cost_min = self.cost_min.min(alone.unwrap_or_else(|| self.cost(index, &run)));
            candidates.push(Candidate { ratio: gain / self.cost(index, &run), index });
        }
        self.candidates = candidates;
    }

    fn start(&self, left: f64) -> Run {
        Run {
            is_covered: self.weights.iter().map(|&weight| weight <= 0.0).collect(),
            is_open: vec![false; self.headings.len()],
            left,
        }
    }

    /// Chooses within `tokens_max`, of which `name_share` is for names without their context.
    /// Names that stand somewhere in `visible` or in what is quoted are not listed.
    pub(super) fn choose(&self, tokens_max: f64, name_share: f64, visible: &str) -> Choice {
        let mut run = self.start(tokens_max * (1.0 - name_share));
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
        let passage_count = self.passages.passages.len() as u32;
        let mut heap: BinaryHeap<Candidate> = self.candidates.iter().copied().collect();
        let mut chosen = Vec::new();
        while let Some(candidate) = heap.pop().filter(|_| run.left >= self.cost_min) {
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
        let least = order.iter().map(|&name| self.name_tokens[name as usize]).fold(f64::INFINITY, f64::min);
        let mut grams = Grams::of(&visible);
        let mut listed = Vec::new();
        for name in order {
            if run.left < least {
                break;
            }
            let (cost, text) = (self.name_tokens[name as usize], self.passages.names[name as usize].text);
            if cost > run.left {
                continue;
            }
            let is_searched = visible.len() <= SEARCHED_BYTES_MAX && grams.may_hold(text);
            if is_searched && memmem::find(visible.as_bytes(), text.as_bytes()).is_some() {
                continue;
            }
            run.left -= cost;
            grams.add(text);
            visible.push_str(text);
            visible.push('\n');
            listed.push(NameIndex(name));
        }
        listed
    }

    fn text(&self, passage: u32) -> &str {
        text_of(self.sources, self.passages, passage)
    }
}

fn text_of<'c>(sources: &'c Sources<'_>, passages: &'c Passages<'_>, passage: u32) -> &'c str {
    let passage = &passages.passages[passage as usize];
    let span = passage.span.start as usize..passage.span.end as usize;
    &sources.texts[passage.source as usize].text[span]
}

struct Run {
    is_covered: Vec<bool>,
    is_open: Vec<bool>,
    left: f64,
}

/// Which sequences of four bytes a text has, as far as a hash tells them apart: most names that do
/// not stand in it are known by that, without a search.
struct Grams(Vec<u64>);

/// Bits of the table: a few for each byte of what is searched.
const GRAM_BITS: u32 = 20;

impl Grams {
    fn of(text: &str) -> Self {
        let mut grams = Self(vec![0; 1 << (GRAM_BITS - u64::BITS.ilog2())]);
        grams.add(text);
        grams
    }

    fn places(text: &str) -> impl Iterator<Item = (usize, u64)> {
        text.as_bytes().windows(4).map(|four| {
            let gram = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            let place = gram.wrapping_mul(0x9e37_79b1) >> (u32::BITS - GRAM_BITS);
            ((place / u64::BITS) as usize, 1 << (place % u64::BITS))
        })
    }

    /// Adds a text that stands alone: no name goes on behind it.
    fn add(&mut self, text: &str) {
        Self::places(text).for_each(|(word, bit)| self.0[word] |= bit);
    }

    /// Whether a text may stand in what was added.
    fn may_hold(&self, text: &str) -> bool {
        Self::places(text).all(|(word, bit)| self.0[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_text_may_be_held_by_its_grams() {
        let text = "src/parser.rs: fn parse_rule(input: &str) größer";
        let mut grams = Grams::of(text);
        for start in (0..text.len()).filter(|&start| text.is_char_boundary(start)) {
            assert!(grams.may_hold(&text[start..]));
        }
        assert!(!grams.may_hold("scan_token"));
        grams.add("scan_token");
        assert!(grams.may_hold("scan_token"));
    }
}
