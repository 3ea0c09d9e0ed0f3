//! `repair`: turns what `check` rejects into something it accepts.
//!
//! Rules are repaired in stages, one per pass, with a fresh check in between. The order of the
//! stages is what makes it converge without touching an item that no violation names: first what
//! changes parts in place, then results that no call asked for, then ids, then where results
//! stand, and last what depends on all of it.

mod bench;
mod results;

use std::sync::Arc;

use self::bench::Bench;
use super::demands::Demands;
use super::media::MediaTally;
use super::{Dialect, Repaired, Rule, Violation};
use crate::item::{Item, ItemKind};
use crate::part::{Part, ResultPart, ToolCall, ToolResult};

/// Every stage settles its rules in one pass, and no stage brings back the rules of an earlier
/// one more than once.
const PASS_COUNT_MAX: usize = 32;

const NOT_SHOWN: &str = "Earlier conversation is not shown.";

/// Items that `dialect` accepts (without a dialect: that hold to what all four demand), and what
/// was done to get there.
///
/// Items that no violation names stay the same `Arc`s in the same order, and a valid list comes
/// back as it is. Nothing is lost silently: what cannot stay where it is becomes quoted text or a
/// placeholder, and whatever is removed is recorded. Calls at the very end keep waiting.
pub fn repair<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>, dialect: Option<Dialect>) -> Repaired {
    let mut bench = Bench::new(items.into_iter().cloned(), Demands::of(dialect));
    for _ in 0..PASS_COUNT_MAX {
        let mut violations = bench.inspect();
        let Some(stage) = violations.iter().map(|violation| Stage::of(violation.rule)).min() else {
            return bench.finish();
        };
        violations.retain(|violation| Stage::of(violation.rule) == stage);
        stage.run(&mut bench, &violations);
        bench.settle();
    }
    debug_assert!(bench.inspect().is_empty(), "repair did not converge: {:?}", bench.inspect());
    bench.finish()
}

/// What is repaired in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// First, while everything is where the check saw it: limits name the oldest.
    Media,
    Misplaced,
    EmptyText,
    Reasoning,
    /// Before results change places: a stray must not become the answer of a call.
    Strays,
    CallIds,
    Homes,
    Order,
    CacheMarkers,
    /// Last: what comes first depends on everything before.
    FirstRole,
}

impl Stage {
    fn of(rule: Rule) -> Self {
        match rule {
            Rule::MediaNotAllowed | Rule::MediaOverLimit => Self::Media,
            Rule::MisplacedPart => Self::Misplaced,
            Rule::EmptyText => Self::EmptyText,
            Rule::ReasoningLast => Self::Reasoning,
            Rule::DuplicateCallId => Self::CallIds,
            Rule::UnansweredCall | Rule::ResultNotAdjacent => Self::Homes,
            Rule::ResultOrder => Self::Order,
            Rule::ResultWithoutCall | Rule::DuplicateResult => Self::Strays,
            Rule::CacheMarkers => Self::CacheMarkers,
            Rule::FirstRole => Self::FirstRole,
        }
    }

    fn run(self, bench: &mut Bench, named: &[Violation]) {
        match self {
            Self::Media => omit_media(bench),
            Self::Misplaced => replace_misplaced(bench, named),
            Self::EmptyText => remove_parts(bench, named, "removed a blank text"),
            Self::Reasoning => remove_parts(bench, named, "removed sealed reasoning that nothing follows"),
            Self::Strays => quote_strays(bench, named),
            Self::CallIds => results::rename_repeats(bench),
            Self::Homes => results::bring_home(bench),
            Self::Order => results::put_in_order(bench),
            Self::CacheMarkers => clear_cache_markers(bench, named),
            Self::FirstRole => say_what_is_not_shown(bench, named),
        }
    }
}

fn omit_media(bench: &mut Bench) {
    for fault in MediaTally::of(&bench.demands().media, &bench.items()) {
        let placeholder = format!("[{} omitted: {}]", fault.label, fault.reason);
        let detail = format!("omitted {}: {}", fault.label, fault.reason);
        let item = bench.rewrite(fault.place.item_index, fault.rule, detail);
        let part = &mut item.parts[fault.place.part_index];
        match (part, fault.content_index) {
            (Part::ToolResult(result), Some(content_index)) => {
                result.content[content_index] = ResultPart::Text(placeholder.into());
            }
            (part, _) => *part = Part::text(placeholder),
        }
    }
}

/// Calls and results become text where they stand. Out of instructions they are taken altogether:
/// what a tool wrote must not gain the operator's authority. Reasoning is removed: in anyone
/// else's mouth it is not the model's.
fn replace_misplaced(bench: &mut Bench, named: &[Violation]) {
    let positions = bench.quote_positions();
    // A quote behind calls that wait would be the end of their waiting.
    let position_max = bench.with_pairing(|pairing| pairing.waiting_message()).unwrap_or(usize::MAX);
    for of_item in named.chunk_by(|a, b| a.item_index == b.item_index) {
        let item_index = of_item[0].item_index;
        let item = Arc::clone(bench.item(item_index));
        let mut quoted = Vec::new();
        let mut parts = Vec::with_capacity(item.parts.len());
        for (part_index, part) in item.parts.iter().enumerate() {
            let is_named = of_item.iter().any(|violation| violation.part_index == Some(part_index));
            match quote(part) {
                _ if !is_named => parts.push(part.clone()),
                quote if item.kind.is_instruction() => quoted.extend(quote),
                quote => parts.extend(quote),
            }
        }
        let detail = format!("replaced {} of {}", list_kinds(&item, of_item), item.kind);
        bench.rewrite(item_index, Rule::MisplacedPart, detail).parts = parts;
        if !quoted.is_empty() {
            let detail = format!("quoted what {} held", item.id);
            let position = positions[item_index].min(position_max);
            bench.insert(position, &item, ItemKind::Context, quoted, Rule::MisplacedPart, detail);
        }
    }
}

fn list_kinds(item: &Item, named: &[Violation]) -> String {
    let parts = named.iter().filter_map(|violation| item.parts.get(violation.part_index?));
    parts.map(Part::kind_name).collect::<Vec<_>>().join(", ")
}

fn remove_parts(bench: &mut Bench, named: &[Violation], detail: &str) {
    // From the back, so that the indices of what is still to be removed stay right.
    for violation in named.iter().rev() {
        let item = bench.rewrite(violation.item_index, violation.rule, detail.to_owned());
        if let Some(part_index) = violation.part_index {
            item.parts.remove(part_index);
        }
    }
}

/// Results that no call asked for move to a context item behind the results they stand among, so
/// that nothing comes between a message and its results.
fn quote_strays(bench: &mut Bench, named: &[Violation]) {
    let positions = bench.quote_positions();
    for of_item in named.chunk_by(|a, b| a.item_index == b.item_index) {
        let Violation { item_index, rule, .. } = of_item[0];
        let item = Arc::clone(bench.item(item_index));
        let is_stray = |part_index: usize| of_item.iter().any(|v| v.part_index == Some(part_index));
        let (strays, kept): (Vec<_>, Vec<_>) =
            item.parts.iter().enumerate().partition(|(part_index, _)| is_stray(*part_index));
        let quoted = strays.into_iter().flat_map(|(_, part)| quote(part)).collect();
        let detail = format!("took out {} that no call asked for", list_kinds(&item, of_item));
        bench.rewrite(item_index, rule, detail).parts =
            kept.into_iter().map(|(_, part)| part.clone()).collect();
        let detail = format!("quoted the results that {} held", item.id);
        bench.insert(positions[item_index], &item, ItemKind::Context, quoted, rule, detail);
    }
}

fn clear_cache_markers(bench: &mut Bench, named: &[Violation]) {
    for violation in named {
        let detail = "cleared its cache marker".to_owned();
        bench.rewrite(violation.item_index, violation.rule, detail).cache_marker = false;
    }
}

fn say_what_is_not_shown(bench: &mut Bench, named: &[Violation]) {
    for violation in named {
        let first = Arc::clone(bench.item(violation.item_index));
        let parts = vec![Part::text(NOT_SHOWN)];
        let detail = format!("put a context item before {}, which came first", first.id);
        bench.insert(violation.item_index, &first, ItemKind::Context, parts, violation.rule, detail);
    }
}

/// A part that may not stand here, in parts that may stand anywhere.
fn quote(part: &Part) -> Vec<Part> {
    match part {
        Part::ToolCall(call) => vec![quote_call(call)],
        Part::ToolResult(result) => quote_result(result),
        Part::Reasoning(_) => Vec::new(),
        Part::Text(_) | Part::Media(_) | Part::File(_) | Part::Structured(_) | Part::Opaque(_) => {
            vec![part.clone()]
        }
    }
}

fn quote_call(call: &ToolCall) -> Part {
    Part::text(format!("[call {} of {}: {}]", call.id, call.name, call.input.as_str()))
}

fn quote_result(result: &ToolResult) -> Vec<Part> {
    let outcome = if result.is_error { "error" } else { "result" };
    let mut parts = vec![Part::text(format!("[{outcome} of call {}]", result.call_id))];
    parts.extend(result.content.iter().filter_map(|content| match content {
        ResultPart::Text(text) => (!text.trim_start().is_empty()).then(|| Part::Text(text.clone())),
        ResultPart::Media(media) => Some(Part::Media(media.clone())),
        ResultPart::File(file) => Some(Part::File(file.clone())),
        ResultPart::Structured(json) => Some(Part::Structured(json.clone())),
        // Whatever it is, a provider knows it as a piece of a tool result only.
        ResultPart::Opaque(opaque) => Some(Part::text(opaque.json.as_str())),
    }));
    parts
}
