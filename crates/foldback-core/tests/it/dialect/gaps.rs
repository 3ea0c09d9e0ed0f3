//! T2 with every kind of item in every gap between calls and results.

use std::collections::HashSet;
use std::sync::Arc;

use foldback_core::dialect::Dialect;
use foldback_core::{
    Budget, CallId, Item, ItemKind, Part, Rule, SummarizeOlderStrategy, SummaryPlacement, Tokens, ToolResult,
    Transcript, View, Violation, check, check_request, mend, plan, repair,
};
use foldback_testkit::strategies;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::dialect::shape::{ANTHROPIC, EVERY, items, shape};

/// What may stand in a gap: nothing, every kind, items of which nothing is sent, results of nobody's.
const FILLINGS: [&str; 18] = [
    "", "s", "d", "u", "a", "t", "c", "n", "u:", "a:", "u:0", "u:_", "a:q", "c n", "u: n", "s u:", "t:=z",
    "c:.,f",
];

/// Rounds with gaps; the calls of each are named by another letter.
const ROUNDS: [&str; 9] = [
    "a:+k0 _ t:=k0 _",
    "a:+k0,+k1 _ t:=k0 _ t:=k1 _",
    "a:+k0,+k1 _ t:=k1 _ t:=k0 _",
    "a:+k0 _ a:+k1 _ t:=k0 _ t:=k1 _",
    "a:+k0 _",
    "a:+k0,+k1 _ t:=k0 _",
    "a:+k0,+k1 _ t:=k1 _",
    "a:+k0 _ a:+k1 _",
    "a:+k0 _ a:+k1 _ t:=k0 _",
];

/// The rounds with the gaps filled in turn.
fn filled(rounds: &[&str], mut fillings: impl Iterator<Item = &'static str>) -> String {
    let mut text = "u".to_owned();
    for (round, name) in rounds.iter().zip(["k", "l", "m"]) {
        for word in round.split(' ') {
            text.push(' ');
            match word {
                "_" => text.push_str(fillings.next().unwrap_or_default()),
                word => text.push_str(&word.replace('k', name)),
            }
        }
    }
    text
}

/// Rounds in which anything stands in the gaps.
fn gaps() -> impl Strategy<Value = String> {
    let rounds = prop::collection::vec(prop::sample::select(ROUNDS.to_vec()), 1..=3);
    let fillings = prop::collection::vec(prop::sample::select(FILLINGS.to_vec()), 15);
    (rounds, fillings).prop_map(|(rounds, fillings)| filled(&rounds, fillings.into_iter()))
}

/// Whether anything of an item is sent among the messages. Without a dialect: whether it is in each.
fn is_sent(item: &Item, dialect: Option<Dialect>) -> bool {
    let has_own_field = matches!(dialect, None | Some(Dialect::Anthropic | Dialect::Gemini));
    let has_place = |part: &Part| match part {
        Part::Text(text) if dialect == ANTHROPIC => !text.trim().is_empty(),
        Part::Text(text) => !text.is_empty(),
        _ => true,
    };
    match item.kind {
        ItemKind::System | ItemKind::Developer if has_own_field => false,
        ItemKind::Tool if dialect != ANTHROPIC => item.results().next().is_some(),
        _ => item.parts.iter().any(has_place),
    }
}

/// Calls without a result, and whether they wait: nothing that is sent follows but other calls of their
/// message and results of calls.
fn unanswered(items: &[Arc<Item>], dialect: Option<Dialect>) -> Vec<(CallId, bool)> {
    let sent: Vec<&Item> = items.iter().map(Arc::as_ref).filter(|item| is_sent(item, dialect)).collect();
    let calls = |item: &&Item| item.calls().map(|(_, call)| call.id.clone()).collect::<Vec<_>>();
    let called: HashSet<CallId> = sent.iter().flat_map(calls).collect();
    let answered: HashSet<&CallId> =
        sent.iter().flat_map(|item| item.results()).map(|(_, result)| &result.call_id).collect();
    let answers = |item: &&Item| {
        let mut results = item.results();
        item.results().next().is_some() && results.all(|(_, result)| called.contains(&result.call_id))
    };
    let mut found = Vec::new();
    for (index, item) in sent.iter().enumerate() {
        let has_calls = |item: &&&Item| item.calls().next().is_some();
        let waits = sent[index + 1..].iter().skip_while(has_calls).all(answers);
        let open = item.calls().filter(|(_, call)| !answered.contains(&call.id));
        found.extend(open.map(|(_, call)| (call.id.clone(), waits)));
    }
    found
}

/// The calls that violations of this rule name.
fn named(violations: &[Violation], items: &[Arc<Item>]) -> Vec<CallId> {
    let unanswered = violations.iter().filter(|violation| violation.rule == Rule::UnansweredCall);
    let call = |violation: &Violation| match &items[violation.item_index].parts[violation.part_index.unwrap()]
    {
        Part::ToolCall(call) => call.id.clone(),
        other => panic!("{other:?} is no call"),
    };
    unanswered.map(call).collect()
}

/// Whether a result stands where its dialect wants it.
fn is_adjacent(items: &[Arc<Item>], index: usize, dialect: Option<Dialect>) -> bool {
    use ItemKind::{Context, Notification, Tool};
    let between: &[ItemKind] = match dialect {
        None | Some(Dialect::OpenaiResponses) => return true,
        Some(Dialect::OpenaiChat) => &[Tool],
        Some(Dialect::Anthropic | Dialect::Gemini) => &[Tool, Context, Notification],
    };
    let before = items[..index].iter().rev().filter(|item| is_sent(item, dialect));
    let message = before.skip_while(|item| between.contains(&item.kind));
    let mut message = message.take_while(|item| item.kind == ItemKind::Assistant);
    let is_called = |item: &Arc<Item>| {
        items[index].results().all(|(_, result)| item.calls().any(|(_, call)| call.id == result.call_id))
    };
    message.any(is_called)
}

/// The same items with a result for every call that has none, at the end.
fn answered(items: &[Arc<Item>], open: &[CallId]) -> Vec<Arc<Item>> {
    let results =
        open.iter().map(|id| Item::tool(format!("late {id}"), ToolResult::text(id.clone(), "done")));
    items.iter().cloned().chain(results.map(Arc::new)).collect()
}

fn judge(text: &str) -> Result<(), TestCaseError> {
    let items = items(text);
    let is_stray = |item: &Item| item.results().any(|(_, result)| &*result.call_id == "z");
    for dialect in EVERY {
        let open = unanswered(&items, dialect);
        let found = check(&items, dialect);
        let over: Vec<CallId> = open.iter().filter(|(_, waits)| !waits).map(|(id, _)| id.clone()).collect();
        prop_assert_eq!(&named(&found, &items), &over, "{:?}: {}", dialect, text);
        let all: Vec<CallId> = open.into_iter().map(|(id, _)| id).collect();
        prop_assert_eq!(&named(&check_request(&items, dialect), &items), &all, "{:?}: {}", dialect, text);
        let holds_answers = |item: &Item| item.results().next().is_some() && !is_stray(item);
        for (index, item) in items.iter().enumerate().filter(|(_, item)| holds_answers(item)) {
            let is_named = found.iter().any(|v| v.rule == Rule::ResultNotAdjacent && v.item_index == index);
            let is_wanted = !is_adjacent(&items, index, dialect);
            prop_assert_eq!(is_named, is_wanted, "{:?}: {}: {}", dialect, text, &item.id);
        }
        let repaired = repair(&items, dialect);
        let shown = shape(&repaired.items);
        prop_assert_eq!(check(&repaired.items, dialect), [], "{:?}: {} became {}", dialect, text, shown);
        prop_assert_eq!(found.is_empty(), repaired.repairs.is_empty());
        if found.is_empty() {
            prop_assert!(repaired.items.iter().zip(&items).all(|(one, other)| Arc::ptr_eq(one, other)));
        }
        // What waits has only to be answered.
        let waiting: Vec<CallId> =
            unanswered(&repaired.items, dialect).into_iter().map(|(id, _)| id).collect();
        let mut left = check_request(&answered(&repaired.items, &waiting), dialect);
        left.retain(|violation| violation.rule != Rule::ResultOrder);
        prop_assert_eq!(left, [], "{:?}: {} became {}", dialect, text, shown);
    }
    Ok(())
}

#[test]
fn every_kind_in_every_gap_is_judged_by_one_rule_and_mended() {
    for round in ROUNDS {
        let gap_count = round.matches('_').count();
        for gap in 0..gap_count {
            for filling in FILLINGS {
                for next in [None, Some("u"), Some("a:+l0 t:=l0"), Some("a:+l0")] {
                    let fillings = (0..gap_count).map(|index| if index == gap { filling } else { "" });
                    let text = filled(&[round], fillings);
                    judge(&format!("{text} {}", next.unwrap_or_default())).unwrap();
                }
            }
        }
    }
}

/// Behind the newest call stands a user item of which nothing is sent.
#[test]
fn no_summary_is_put_behind_a_call_that_waits() {
    let text = "u a:+k0 a:+k1 t:=k0 t:=k1 a:+l0 a:+l1 t:=l0 s a:+m0 a a:+m1 u:";
    let strategy = SummarizeOlderStrategy::new(2).summary_placement(SummaryPlacement::AfterTail);
    for dialect in EVERY {
        let view = View::of(&items(text).into_iter().collect::<Transcript>());
        let mended = mend(&view, dialect).view;
        let view = plan(&mended, &strategy, None).unwrap().apply_digest().view;
        assert!(view.items().any(|item| item.summary.is_some()), "{}", view.shape());
        assert_eq!(check(view.items(), dialect), [], "{dialect:?}\n{}", view.shape());
        assert_eq!(view.pending_calls().count(), 1);
    }
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    #[test]
    fn whatever_stands_in_the_gaps_is_judged_by_one_rule_and_mended(text in gaps()) {
        judge(&text)?;
    }

    #[test]
    fn one_view_is_mended_for_every_dialect_in_turn(text in gaps()) {
        let mut view = View::of(&items(&text).into_iter().collect::<Transcript>());
        for dialect in EVERY {
            view = mend(&view, dialect).view;
        }
        for dialect in EVERY {
            prop_assert_eq!(check(view.items(), dialect), [], "{:?}: {}\n{}", dialect, text, view.shape());
        }
    }

    #[test]
    fn what_was_mended_stays_valid_when_it_is_compacted(
        text in gaps(),
        strategy in strategies::pipeline(),
        percent in 1u64..120,
    ) {
        for dialect in EVERY {
            let view = View::of(&items(&text).into_iter().collect::<Transcript>());
            let mended = mend(&view, dialect).view;
            let target = Tokens((mended.tokens().0 * percent / 100).max(1));
            let waiting = |view: &View| -> Vec<CallId> {
                let items: Vec<Arc<Item>> = view.items().cloned().collect();
                unanswered(&items, dialect).into_iter().map(|(id, _)| id).collect()
            };
            let Ok(plan) = plan(&mended, &strategy, Budget::for_target(target).ok().as_ref()) else { continue };
            let view = plan.apply_digest().view;
            prop_assert_eq!(check(view.items(), dialect), [], "{:?}: {}\n{}", dialect, text, view.shape());
            prop_assert_eq!(waiting(&view), waiting(&mended), "{:?}: {}\n{}", dialect, text, view.shape());
        }
    }
}
