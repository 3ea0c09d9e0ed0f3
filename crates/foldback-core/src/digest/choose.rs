//! Which passages to quote and which names to list: greedily, what is likeliest to be needed again
//! for what it costs.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use memchr::memmem;

use super::passages::{NameIndex, Passages};
use super::sources::{Sources, TopicIndex};
use crate::transcript::Meter;

/// What a quoted line costs beside its words: indent, mark and line end.
const LINE_TOKENS: f64 = 2.0;

/// What a listed name costs beside itself.
const SEPARATOR_TOKENS: f64 = 1.0;

/// What is chosen.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Indices of passages, in order.
    pub(super) passages: Vec<u32>,
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
    heading_tokens: Vec<f64>,
}

struct Candidate {
    ratio: f64,
    passage: u32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ratio.total_cmp(&other.ratio).then_with(|| other.passage.cmp(&self.passage))
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
    ) -> Self {
        let tokens = |text: &str| meter.text(text) as f64;
        let text_of = |source: u32, span: std::ops::Range<usize>| &sources.texts[source as usize].text[span];
        let passage_tokens = passages.passages.iter().map(|passage| {
            tokens(text_of(passage.source, passage.span.start as usize..passage.span.end as usize)) + LINE_TOKENS
        });
        let name_tokens = passages.names.iter().map(|name| tokens(name.text) + SEPARATOR_TOKENS);
        Self {
            sources,
            passages,
            weights,
            passage_tokens: passage_tokens.collect(),
            name_tokens: name_tokens.collect(),
            heading_tokens: headings.iter().map(|heading| tokens(heading)).collect(),
        }
    }

    /// Chooses within `tokens_max`, of which `name_share` is for names without their context.
    /// Names that stand somewhere in `visible` or in what is quoted are not listed.
    pub(super) fn choose(&self, tokens_max: f64, name_share: f64, visible: &str) -> Choice {
        let mut run = Run {
            is_covered: self.weights.iter().map(|&weight| weight <= 0.0).collect(),
            is_open: vec![false; self.heading_tokens.len()],
            left: tokens_max * (1.0 - name_share),
        };
        let mut choice = Choice { passages: self.quote(&mut run), names: Vec::new() };
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

    fn gain(&self, passage: u32, run: &Run) -> f64 {
        let names = self.passages.names_in(&self.passages.passages[passage as usize]);
        let mut gain = 0.0;
        for (position, name) in names.iter().enumerate() {
            if !run.is_covered[name.0 as usize] && !names[..position].contains(name) {
                gain += self.weights[name.0 as usize];
            }
        }
        gain
    }

    fn topic_of(&self, passage: u32) -> TopicIndex {
        self.sources.texts[self.passages.passages[passage as usize].source as usize].topic
    }

    fn cost(&self, passage: u32, run: &Run) -> f64 {
        let topic = self.topic_of(passage).0 as usize;
        let heading = if run.is_open[topic] { 0.0 } else { self.heading_tokens[topic] };
        self.passage_tokens[passage as usize] + heading
    }

    fn quote(&self, run: &mut Run) -> Vec<u32> {
        let mut seen = HashSet::new();
        let mut heap: BinaryHeap<Candidate> = (0..self.passages.passages.len() as u32)
            .filter(|&passage| seen.insert(self.text(passage)))
            .filter_map(|passage| {
                let gain = self.gain(passage, run);
                (gain > 0.0).then(|| Candidate { ratio: gain / self.cost(passage, run), passage })
            })
            .collect();
        let mut chosen = Vec::new();
        while let Some(candidate) = heap.pop() {
            let passage = candidate.passage;
            let (gain, cost) = (self.gain(passage, run), self.cost(passage, run));
            if gain <= 0.0 || cost > run.left {
                continue;
            }
            let ratio = gain / cost;
            // What was chosen since may have taken from it.
            if heap.peek().is_some_and(|next| next.ratio > ratio) {
                heap.push(Candidate { ratio, passage });
                continue;
            }
            run.left -= cost;
            run.is_open[self.topic_of(passage).0 as usize] = true;
            for name in self.passages.names_in(&self.passages.passages[passage as usize]) {
                run.is_covered[name.0 as usize] = true;
            }
            chosen.push(passage);
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
            if cost <= run.left && memmem::find(visible.as_bytes(), text.as_bytes()).is_none() {
                run.left -= cost;
                visible.push_str(text);
                visible.push('\n');
                listed.push(NameIndex(name));
            }
        }
        listed
    }

    fn text(&self, passage: u32) -> &str {
        let passage = &self.passages.passages[passage as usize];
        &self.sources.texts[passage.source as usize].text[passage.span.start as usize..passage.span.end as usize]
    }
}

struct Run {
    is_covered: Vec<bool>,
    is_open: Vec<bool>,
    left: f64,
}
