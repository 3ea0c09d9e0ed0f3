//! T2 with every kind of item in every gap between calls and results.

use std::collections::HashSet;
use std::sync::Arc;

use foldback_core::dialect::Dialect;
use foldback_core::{
    Budget, CallId, Item, ItemKind, Part, Rule, Tokens, Transcript, View, Violation, check, check_request,
    mend, plan, repair,
};
use foldback_testkit::strategies;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::dialect::shape::{EVERY, items, shape};

/// What may stand in a gap: nothing, every kind, and items of which nothing is sent.
const FILLINGS: [&str; 10] = ["", "s", "d", "u", "a", "t", "c", "n", "u:", "c n"];

/// Rounds with gaps, all calls of the first named `k`, of the second `l`.
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

/// Calls without a result, and whether they wait at the very end: nothing follows but the rest of their
/// message and results, and the last of that is a call or a result.
fn unanswered(items: &[Arc<Item>]) -> Vec<(CallId, bool)> {
    let sent: Vec<&Item> = items.iter().map(Arc::as_ref).filter(|item| !item.parts.is_empty()).collect();
    let answered: HashSet<&CallId> =
        sent.iter().flat_map(|item| item.results()).map(|(_, result)| &result.call_id).collect();
    let has_results = |item: &&Item| item.results().next().is_some();
    let mut found = Vec::new();
    for (index, item) in sent.iter().enumerate() {
        let mut behind = sent[index + 1..].iter().skip_while(|item| item.kind == ItemKind::Assistant);
        let ends_open = sent.last().is_some_and(|last| has_results(last) || last.calls().next().is_some());
        let waits = ends_open && behind.all(has_results);
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

/// Where a dialect wants results, `check` finds those elsewhere.
fn is_adjacent(items: &[Arc<Item>], index: usize, dialect: Option<Dialect>) -> bool {
    use ItemKind::{Context, Developer, Notification, System, Tool};
    let kinds: &[ItemKind] = match dialect {
        None | Some(Dialect::OpenaiResponses) => return true,
        Some(Dialect::OpenaiChat) => &[Tool],
        Some(Dialect::Anthropic | Dialect::Gemini) => &[Tool, Context, Notification, System, Developer],
    };
    let before = items[..index].iter().rev().filter(|item| !item.parts.is_empty());
    let mut message = before.skip_while(|item| kinds.contains(&item.kind));
    let is_called = |item: &&Arc<Item>| {
        items[index].results().all(|(_, result)| item.calls().any(|(_, call)| call.id == result.call_id))
    };
    // Instructions of a field of their own split no message.
    let joins = |item: &&Arc<Item>| match item.kind {
        ItemKind::Assistant => true,
        System | Developer => dialect != Some(Dialect::OpenaiChat),
        _ => false,
    };
    message.by_ref().take_while(joins).any(|item| is_called(&item))
}

fn judge(text: &str) -> Result<(), TestCaseError> {
    let items = items(text);
    let unanswered = unanswered(&items);
    for dialect in EVERY {
        let found = check(&items, dialect);
        let over = unanswered.iter().filter(|(_, waits)| !waits).map(|(id, _)| id.clone());
        prop_assert_eq!(named(&found, &items), over.collect::<Vec<_>>(), "{:?}: {}", dialect, text);
        let all: Vec<CallId> = unanswered.iter().map(|(id, _)| id.clone()).collect();
        prop_assert_eq!(named(&check_request(&items, dialect), &items), all, "{:?}: {}", dialect, text);
        for (index, item) in items.iter().enumerate().filter(|(_, item)| item.results().next().is_some()) {
            let is_named = found.iter().any(|v| v.rule == Rule::ResultNotAdjacent && v.item_index == index);
            prop_assert_eq!(
                is_named,
                !is_adjacent(&items, index, dialect),
                "{:?}: {}: {}",
                dialect,
                text,
                item.id
            );
        }
        let repaired = repair(&items, dialect);
        let shown = shape(&repaired.items);
        prop_assert_eq!(check(&repaired.items, dialect), [], "{:?}: {} became {}", dialect, text, shown);
        prop_assert_eq!(found.is_empty(), repaired.repairs.is_empty());
        if found.is_empty() {
            prop_assert!(repaired.items.iter().zip(&items).all(|(one, other)| Arc::ptr_eq(one, other)));
        }
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
            let Ok(plan) = plan(&mended, &strategy, Budget::for_target(target).ok().as_ref()) else { continue };
            let view = plan.apply_digest().view;
            prop_assert_eq!(check(view.items(), dialect), [], "{:?}: {}\n{}", dialect, text, view.shape());
        }
    }
}
