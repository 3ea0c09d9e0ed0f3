//! What a digest is made of: the folded items, and what is hidden of the items beside them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::FoldRequest;
use crate::digest::{Hidden, Material, Reach, Reading, Told};
use crate::edit::Edit;
use crate::ids::Text;
use crate::part::Part;
use crate::reading::text_of;
use crate::sequence::Entry;
use crate::view::covers;

impl<'p> FoldRequest<'p> {
    pub(super) fn material(&self, covered: &[Range<usize>]) -> Material<'p> {
        let transcript = self.view.transcript();
        let told =
            self.previous().filter(|entry| !self.is_regenerated(entry) && !self.is_recorded_summary(entry));
        let previous = |entry: &'p Entry| Told::new(entry.anchor(), entry.item(), Hidden::Whole);
        let mut items: Vec<Told<'p>> = told.map(previous).collect();
        let folded = covered.iter().cloned().flatten();
        items.reserve(covered.iter().map(ExactSizeIterator::len).sum());
        items.extend(folded.filter_map(|index| transcript.told(index, Hidden::Whole)));
        let beside = self.hidden_beside().into_iter();
        items.extend(beside.filter_map(|(index, parts)| transcript.told(index, Hidden::Parts(parts))));
        items.sort_by_key(|told| told.index);
        let focus = self.fold.spec.focus.as_deref();
        Material { items, kept: self.kept_texts(), focus, now: transcript.len() }
    }

    /// What of the folded items its digest will look into and nobody has read yet, the newest first:
    /// [`Transcript::read`](crate::Transcript::read) reads it, on any thread.
    pub fn unread(&self) -> Vec<Reading> {
        let transcript = self.view.transcript();
        let covered = self.covered();
        let newest_first = covered.iter().rev().flat_map(|range| range.clone().rev());
        let mut reach = Reach::new();
        let reading = |index: usize| {
            let entry = transcript.get(index)?;
            let depth = reach.depth_of(entry.kind(), entry.item());
            Reading::new(index, depth, entry.kind(), entry.holds()).filter(|_| !transcript.is_read(index))
        };
        newest_first.filter_map(reading).collect()
    }

    /// What stays visible beside the summary, as far as it can be read.
    pub fn kept_texts(&self) -> Vec<Text> {
        let replaced = self.replaced();
        let mut texts = Vec::new();
        for entry in self.visible() {
            for (part_index, part) in entry.item().parts.iter().enumerate() {
                let place = (entry.anchor(), entry.recorded_part(part_index));
                let part = replaced.get(&place).copied().unwrap_or(Some(part));
                texts.extend(part.map(|part| Text::from(&*text_of(part))));
            }
        }
        texts
    }

    /// The parts of visible items that are shown shortened or not at all, by the transcript index of
    /// their item. Beside them, without parts, whatever else is in their unit: a result is about what
    /// its call asked for.
    fn hidden_beside(&self) -> BTreeMap<usize, Vec<usize>> {
        let transcript = self.view.transcript();
        let replaced = self.replaced();
        let mut hidden: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for entry in self.visible() {
            let Some(recorded) = transcript.get(entry.anchor()).map(Entry::item) else { continue };
            let is_as_recorded = Arc::ptr_eq(recorded, entry.item());
            let shown: BTreeSet<usize> = (entry.item().parts.iter().enumerate())
                .map(|(part_index, part)| (entry.recorded_part(part_index), part))
                .filter(|&(index, part)| is_as_recorded || recorded.parts.get(index) == Some(part))
                .map(|(index, _)| index)
                .filter(|&index| !replaced.contains_key(&(entry.anchor(), index)))
                .collect();
            let parts: Vec<usize> =
                (0..recorded.parts.len()).filter(|index| !shown.contains(index)).collect();
            if !parts.is_empty() && entry.item().summary.is_none() {
                let (first, last) = transcript.unit_ends(entry.anchor());
                for index in first..=last {
                    hidden.entry(index).or_default();
                }
                hidden.insert(entry.anchor(), parts);
            }
        }
        hidden.retain(|&index, _| !self.fold.hides(index));
        hidden
    }

    /// The entries of the view that the fold and its neighbours leave visible.
    fn visible(&self) -> impl Iterator<Item = &'p Entry> {
        let dropped = self.edits.iter().filter_map(|edit| match edit {
            Edit::Drop(drop) => Some(drop.range.clone()),
            Edit::Rewrite(_) | Edit::Fold(_) => None,
        });
        let (fold, mut dropped): (_, Vec<Range<usize>>) = (self.fold, dropped.collect());
        dropped.sort_by_key(|range| range.start);
        let is_hidden = move |index: usize| fold.hides(index) || covers(&dropped, index);
        self.view.iter().filter(move |entry| !is_hidden(entry.span().start))
    }

    /// What stands in the place of parts, by the item and the part as they were recorded.
    fn replaced(&self) -> HashMap<(usize, usize), Option<&'p Part>> {
        let rewrite = |edit: &'p Edit| match edit {
            Edit::Rewrite(rewrite) => {
                Some(((rewrite.item_index, rewrite.part_index), rewrite.replacement.as_ref()))
            }
            Edit::Drop(_) | Edit::Fold(_) => None,
        };
        self.edits.iter().filter_map(rewrite).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::digest::Depth;
    use crate::ids::Tokens;
    use crate::item::{Item, ItemKind};
    use crate::part::{Part, ToolResult};
    use crate::reading::text_of;
    use crate::strategy::LadderStrategy;
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    #[test]
    fn a_digest_tells_what_is_cut_out_of_the_result_in_flight() {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("task", "Make the linker faster."));
        for number in 0..30 {
            let call = format!("c{number}");
            let asked = vec![Part::call(call.clone(), "read", &json!({"n": number}))];
            transcript.push(Item::assistant(format!("a{number}"), asked));
            let answer = "a line of some output\n".repeat(40);
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, answer)));
        }
        transcript.push(Item::assistant("a", vec![Part::call("fresh", "read", &json!({}))]));
        let filler = "nothing to see here\n".repeat(200);
        let answer = format!("{filler}fn resolve_symbols(table: &Table)\n{filler}");
        transcript.push(Item::tool("t", ToolResult::text("fresh", answer)));
        let budget = Budget::for_target(Tokens(1_000)).unwrap();
        let plan = plan(&View::of(&transcript), &LadderStrategy::new(), Some(&budget)).unwrap();
        let view = plan.apply_digest().view;
        let tells = |item: &Item| item.parts.iter().any(|part| text_of(part).contains("resolve_symbols"));
        let telling: Vec<bool> =
            view.items().filter(|item| tells(item)).map(|item| item.summary.is_some()).collect();
        assert_eq!(telling, [true]);
    }
    /// Tool rounds of a long remark, a call and its answer, behind a few messages.
    fn rounds(count: usize) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("task", "Make src/parser.rs faster. Never touch src/lexer.rs."));
        transcript.push(Item::assistant("plan", vec![Part::text("First src/scan.rs, then the rest.")]));
        transcript.push(Item::user("aside", "The weather is fine today, by the way."));
        transcript.push(Item::user("newest", "Go on."));
        for number in 0..count {
            let (call, path) = (format!("c{number}"), format!("src/module_{}.rs", number % 97));
            let asked = Part::call(call.clone(), "write", &json!({"path": path}));
            let remark = Part::text("Next is the rest of it. ".repeat(30));
            transcript.push(Item::assistant(format!("a{number}"), vec![remark, asked]));
            let answer = format!("fn scan_{number}() in {path} took {number} ms\n").repeat(30);
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, answer)));
        }
        transcript
    }

    #[test]
    fn of_what_happened_long_ago_only_words_and_calls_are_read() {
        let transcript = rounds(2_000);
        let budget = Budget::for_target(Tokens(20_000)).unwrap();
        let plan = plan(&View::of(&transcript), &LadderStrategy::new(), Some(&budget)).unwrap();
        let request = plan.requests().next().unwrap();
        let unread = request.unread();
        assert!(unread.windows(2).all(|two| two[1].index < two[0].index), "the newest first, each once");
        let has = |index: usize, depth: Depth| unread.contains(&Reading { index, depth });
        let newest = unread[0].index;
        assert!(has(newest, Depth::Whole) && has(newest - 1, Depth::Whole), "an answer and its call");
        let is_answer = |index: &usize| transcript.get(*index).unwrap().kind() == ItemKind::Tool;
        let oldest_answer = unread.iter().rev().map(|reading| reading.index).find(is_answer).unwrap();
        assert!((newest / 4..newest).contains(&oldest_answer), "{oldest_answer} of {newest}");
        assert!(has(oldest_answer - 3, Depth::Whole), "before that, what the agent wrote");
        assert!(has(4, Depth::Old), "long ago, calls that may have changed something");
        assert!(has(2, Depth::Old), "and the aside; the task and the newest message stay visible");
        assert!(unread.last().unwrap().index == 2, "what the agent said before it is not read");
    }

    #[test]
    fn a_digest_looks_into_what_was_to_be_read_and_nothing_else() {
        let budget = Budget::for_target(Tokens(20_000)).unwrap();
        let plan = plan(&View::of(&rounds(2_000)), &LadderStrategy::new(), Some(&budget)).unwrap();
        let request = plan.requests().next().unwrap();
        let transcript = request.view().transcript();
        let folded: Vec<usize> = request.fold().folded().flatten().collect();
        let looked_into = || folded.iter().copied().filter(|&index| transcript.is_read(index)).count();
        let unread = request.unread();
        unread.iter().for_each(|&reading| transcript.read(reading));
        assert_eq!(looked_into(), unread.len());
        assert_eq!(request.unread(), []);
        request.digest();
        assert_eq!(looked_into(), unread.len());
    }
}
