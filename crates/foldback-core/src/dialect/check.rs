//! `check`: every violation of a dialect's rules, in one pass over the items.

use std::sync::Arc;

use super::demands::{Demands, Lowered};
use super::media::MediaTally;
use super::pairing::{CallPlace, Home, Pairing};
use super::{Dialect, Rule, Violation};
use crate::item::{Item, ItemKind};
use crate::part::Part;

/// Everything that `dialect` would reject, in order; without a dialect, what all four would.
///
/// Calls that wait for their results at the very end are accepted: a transcript is in that state
/// whenever tools run. Whatever is sent behind them but results, of any kind, ends the wait. Use
/// [`check_request`] for what is about to be sent.
/// O(items + parts).
pub fn check<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>, dialect: Option<Dialect>) -> Vec<Violation> {
    let items: Vec<&Item> = items.into_iter().map(Arc::as_ref).collect();
    inspect(&items, Demands::of(dialect), Waiting::Accepted)
}

/// [`check`] for what is about to be sent: calls that still wait for their results are
/// violations too.
pub fn check_request<'a>(
    items: impl IntoIterator<Item = &'a Arc<Item>>,
    dialect: Option<Dialect>,
) -> Vec<Violation> {
    let items: Vec<&Item> = items.into_iter().map(Arc::as_ref).collect();
    inspect(&items, Demands::of(dialect), Waiting::Rejected)
}

/// What to say of calls at the very end that have no result yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Accepted,
    Rejected,
}

/// The check itself, for callers that hold the items in a slice.
pub(super) fn inspect(items: &[&Item], demands: &'static Demands, waiting: Waiting) -> Vec<Violation> {
    let mut report = Violations { items, violations: Vec::new() };
    let mut pairing = Pairing::with_capacity(demands, items.len());
    let mut media = MediaTally::new(&demands.media);
    let mut reasoning = Unfollowed { demands, places: Vec::new() };
    let mut marked = Vec::new();
    let mut is_begun = !demands.user_first;
    for (item_index, &item) in items.iter().enumerate() {
        let lowered = demands.lower(item);
        for (part_index, part) in item.parts.iter().enumerate() {
            let place = CallPlace { item_index, part_index };
            check_part(&mut report, demands, place, part);
            media.push(place, item.kind, part);
        }
        pairing.push(item_index, item, lowered);
        reasoning.push(&mut report, item_index, lowered);
        if item.cache_marker && lowered != Lowered::Nothing {
            marked.push(item_index);
        }
        if !is_begun {
            is_begun = check_first(&mut report, item_index, lowered);
        }
    }
    reasoning.flush(&mut report);
    report_pairing(&mut report, &pairing, waiting);
    for fault in media.finish() {
        let detail = format!("{} cannot be sent: {}", fault.label, fault.reason);
        report.add_content(fault.place, fault.content_index, fault.rule, detail);
    }
    let surplus = marked.len().saturating_sub(demands.cache_marker_count_max);
    for &item_index in marked.iter().take(surplus) {
        let detail = format!("{} newer cache markers are all there may be", demands.cache_marker_count_max);
        report.add_item(item_index, Rule::CacheMarkers, detail);
    }
    report.finish()
}

/// What is wrong with a part wherever in the conversation it stands.
fn check_part(report: &mut Violations<'_>, demands: &Demands, place: CallPlace, part: &Part) {
    let kind = report.items[place.item_index].kind;
    match part {
        Part::Text(text) => {
            if demands.rejects_text(text) {
                report.add(place, Rule::EmptyText, format!("{} of {kind} is blank", part.kind_name()));
            }
        }
        Part::ToolCall(_) | Part::Reasoning(_) => {
            if kind != ItemKind::Assistant {
                report.add(place, Rule::MisplacedPart, format!("{} in {kind}", part.kind_name()));
            }
        }
        Part::ToolResult(_) => {
            if kind != ItemKind::Tool {
                report.add(place, Rule::MisplacedPart, format!("{} in {kind}", part.kind_name()));
            }
        }
        Part::Media(_) | Part::File(_) | Part::Structured(_) | Part::Opaque(_) => {}
    }
}

/// Judges the first message; false while there is none yet.
fn check_first(report: &mut Violations<'_>, item_index: usize, lowered: Lowered) -> bool {
    match lowered {
        Lowered::Nothing | Lowered::Apart => false,
        Lowered::User | Lowered::Aside => true,
        Lowered::Assistant | Lowered::Results | Lowered::Instruction => {
            let kind = report.items[item_index].kind;
            report.add_item(item_index, Rule::FirstRole, format!("the conversation begins with {kind}"));
            true
        }
    }
}

fn report_pairing(report: &mut Violations<'_>, pairing: &Pairing<'_>, waiting: Waiting) {
    for stray in &pairing.strays {
        let detail = match stray.rule {
            Rule::DuplicateResult => format!("call {} has been answered before", stray.id),
            _ => format!("no call {} before this result", stray.id),
        };
        report.add(stray.place, stray.rule, detail);
    }
    for call in &pairing.calls {
        let is_rejected_wait = waiting == Waiting::Rejected && pairing.is_pending(call);
        if is_rejected_wait {
            report.add(call.place, Rule::UnansweredCall, format!("call {} waits for its result", call.id));
        }
        if pairing.needs_other_id(call) || (is_rejected_wait && call.is_repeat) {
            let places = [Some(call.place), call.answer.map(|answer| answer.place)];
            for place in places.into_iter().flatten() {
                report.add(place, Rule::DuplicateCallId, format!("another call is named {} too", call.id));
            }
        }
    }
    for (call, home) in pairing.homeless() {
        match call.answer {
            None => report.add(call.place, Rule::UnansweredCall, format!("call {} has no result", call.id)),
            Some(answer) => {
                let detail = format!("the result of call {} does not follow its message", call.id);
                report.add(answer.place, Rule::ResultNotAdjacent, detail);
            }
        }
        if let Home::Before(place) = home {
            report.add(place, Rule::ResultOrder, format!("the result of call {} belongs before it", call.id));
        }
    }
    for displaced in pairing.out_of_order() {
        let detail = "results are not in the order of their calls".to_owned();
        report.add(displaced.found, Rule::ResultOrder, detail);
    }
}

/// Sealed reasoning of the current message that nothing has followed yet.
struct Unfollowed {
    demands: &'static Demands,
    places: Vec<CallPlace>,
}

impl Unfollowed {
    fn push(&mut self, report: &mut Violations<'_>, item_index: usize, lowered: Lowered) {
        match lowered {
            Lowered::Nothing | Lowered::Apart => {}
            Lowered::Assistant if self.demands.reasoning_followed => {
                for (part_index, part) in report.items[item_index].parts.iter().enumerate() {
                    self.push_part(CallPlace { item_index, part_index }, part);
                }
            }
            Lowered::Assistant => {}
            Lowered::Instruction | Lowered::User | Lowered::Results | Lowered::Aside => self.flush(report),
        }
    }

    fn push_part(&mut self, place: CallPlace, part: &Part) {
        match part {
            Part::Reasoning(reasoning) if reasoning.is_sealed() => self.places.push(place),
            Part::Reasoning(_) => {}
            Part::Text(text) if self.demands.rejects_text(text) => {}
            Part::Text(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => self.places.clear(),
        }
    }

    fn flush(&mut self, report: &mut Violations<'_>) {
        for place in self.places.drain(..) {
            let detail = "nothing follows this sealed reasoning in its message".to_owned();
            report.add(place, Rule::ReasoningLast, detail);
        }
    }
}

/// Violations found so far.
struct Violations<'a> {
    items: &'a [&'a Item],
    violations: Vec<Violation>,
}

impl Violations<'_> {
    fn add(&mut self, place: CallPlace, rule: Rule, detail: String) {
        self.add_content(place, None, rule, detail);
    }

    fn add_content(&mut self, place: CallPlace, content_index: Option<usize>, rule: Rule, detail: String) {
        self.violations.push(Violation {
            item_index: place.item_index,
            item_id: self.items[place.item_index].id.clone(),
            part_index: Some(place.part_index),
            content_index,
            rule,
            detail,
        });
    }

    fn add_item(&mut self, item_index: usize, rule: Rule, detail: String) {
        let item_id = self.items[item_index].id.clone();
        let (part_index, content_index) = (None, None);
        self.violations.push(Violation { item_index, item_id, part_index, content_index, rule, detail });
    }

    fn finish(mut self) -> Vec<Violation> {
        let key = |violation: &Violation| {
            (violation.item_index, violation.part_index, violation.content_index, violation.rule)
        };
        self.violations.sort_by_key(key);
        self.violations.dedup_by_key(|violation| key(violation));
        self.violations
    }
}
