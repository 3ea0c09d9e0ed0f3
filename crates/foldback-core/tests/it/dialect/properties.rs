//! T2 and T4 over random lists full of duplicates, orphans and dangling calls.

use std::collections::HashSet;
use std::sync::Arc;

use foldback_core::{Item, ItemId, Transcript, check, check_request, repair};
use foldback_testkit::recipe;
use proptest::prelude::*;

use crate::dialect::shape::{COMMON, EVERY, items, shape};

/// Words such as `a:.,+x,r` with ids from a pool so small that they collide.
fn words() -> impl Strategy<Value = String> {
    let id = || prop::sample::select(vec!["x", "y", "z"]);
    let any_part = prop_oneof![
        4 => id().prop_map(|id| format!("+{id}")),
        4 => id().prop_map(|id| format!("={id}")),
        1 => id().prop_map(|id| format!("={id}/i")),
        3 => Just(".".to_owned()),
        3 => prop::sample::select(vec!["_", "0", "r", "q", "i", "b", "f", "j", "o"]).prop_map(str::to_owned),
    ];
    let any_item = (prop::sample::select(vec!["s", "d", "u", "a", "t", "c", "n", "a", "u!", "c!"]), {
        prop::collection::vec(any_part, 0..4)
    });
    let any_item = any_item.prop_map(|(kind, parts)| format!("{kind}:{}", parts.join(",")));
    let calls = prop::collection::vec(id(), 1..4).prop_map(|ids| format!("a:+{}", ids.join(",+")));
    let results = prop::collection::vec(id(), 1..4).prop_map(|ids| format!("t:={}", ids.join(",=")));
    let plain =
        prop::sample::select(vec!["u", "a", "c", "s", "u:", "t:", "a:r", "t"]).prop_map(str::to_owned);
    let word = prop_oneof![3 => calls, 4 => results, 3 => plain, 2 => any_item];
    prop::collection::vec(word, 0..14).prop_map(|words| words.join(" "))
}

/// Items of such words, or of a conversation.
fn listed() -> impl Strategy<Value = Vec<Arc<Item>>> {
    let conversation = recipe::recipe().prop_map(|recipe| recipe.items().into_iter().map(Arc::new).collect());
    prop_oneof![words().prop_map(|text| items(&text)), conversation]
}

/// Items that no violation names, in order.
fn unnamed<'a>(items: &'a [Arc<Item>], named: &HashSet<ItemId>) -> Vec<&'a Arc<Item>> {
    items.iter().filter(|item| !named.contains(&item.id)).collect()
}

/// Lists in which every call has its own id, cut off somewhere: most of their beginnings are plain.
fn rounds() -> impl Strategy<Value = String> {
    let aside = prop::sample::select(vec!["u", "u", "c", "n", "s", "d", "a", "u!", "u:", "a:r", "a:q,."]);
    let order = prop::sample::select(vec![vec![0, 1], vec![0, 1], vec![1, 0], vec![0], vec![1]]);
    let round = (order, prop::sample::select(vec![" ", " ", " ", " c ", " s ", " u ", " a "]));
    let word = prop_oneof![
        2 => aside.prop_map(|aside| (aside.to_owned(), None)),
        3 => round.prop_map(|round| (String::new(), Some(round))),
    ];
    prop::collection::vec(word, 0..8).prop_map(|words| {
        let mut text = "u".to_owned();
        for (number, (aside, round)) in words.into_iter().enumerate() {
            text.push(' ');
            text.push_str(&aside);
            if let Some((order, between)) = round {
                let results: Vec<String> = order.iter().map(|call| format!("t:=k{number}{call}")).collect();
                text.push_str(&format!("a:.,+k{number}0,+k{number}1{between}{}", results.join(between)));
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    #[test]
    fn no_dialect_rejects_anything_of_what_is_plain(
        text in prop_oneof![words(), rounds()],
        recipe in recipe::recipe(),
    ) {
        for items in [items(&text), recipe.items().into_iter().map(Arc::new).collect()] {
            let mut transcript = Transcript::default();
            for item in items {
                transcript.push(item);
                let rejected = EVERY.map(|dialect| check_request(transcript.items(), dialect)).concat();
                prop_assert!(!transcript.is_plain() || rejected.is_empty(), "{text}: {rejected:?}");
            }
        }
    }

    #[test]
    fn a_repaired_list_is_valid_and_stays_as_it_is(items in listed()) {
        for dialect in EVERY {
            let repaired = repair(&items, dialect);
            let left = check(&repaired.items, dialect);
            prop_assert!(left.is_empty(), "{dialect:?}: {} still has {left:?}", shape(&repaired.items));
            let again = repair(&repaired.items, dialect);
            prop_assert!(again.repairs.is_empty());
            prop_assert!(again.items.iter().zip(&repaired.items).all(|(a, b)| Arc::ptr_eq(a, b)));
        }
    }

    #[test]
    fn items_that_no_violation_names_stay_as_they_are(items in listed()) {
        for dialect in EVERY {
            let violations = check(&items, dialect);
            let named: HashSet<ItemId> = violations.iter().map(|v| v.item_id.clone()).collect();
            let repaired = repair(&items, dialect);
            prop_assert_eq!(violations.is_empty(), repaired.repairs.is_empty());
            let before = unnamed(&items, &named);
            let kept: HashSet<&ItemId> = before.iter().map(|item| &item.id).collect();
            let after: Vec<_> = repaired.items.iter().filter(|item| kept.contains(&item.id)).collect();
            prop_assert_eq!(before.len(), after.len());
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(
                    Arc::ptr_eq(before, after),
                    "{:?}: {} became {}", dialect, before.id, shape(&repaired.items)
                );
            }
        }
    }

    #[test]
    fn no_item_is_lost_and_no_id_is_used_twice(text in words()) {
        let items = items(&text);
        for dialect in EVERY {
            let repaired = repair(&items, dialect);
            let ids: HashSet<&ItemId> = repaired.items.iter().map(|item| &item.id).collect();
            prop_assert_eq!(ids.len(), repaired.items.len());
            prop_assert!(items.iter().all(|item| ids.contains(&item.id)));
            for repair in &repaired.repairs {
                prop_assert_eq!(&repaired.items[repair.item_index].id, &repair.item_id);
            }
        }
    }

    #[test]
    fn what_one_dialect_accepts_breaks_no_common_rule(text in words()) {
        let items = items(&text);
        for dialect in EVERY {
            let repaired = repair(&items, dialect).items;
            prop_assert!(check(&repaired, COMMON).is_empty(), "{dialect:?}: {}", shape(&repaired));
        }
    }

    #[test]
    fn a_request_is_judged_at_least_as_strictly(text in words()) {
        let items = items(&text);
        for dialect in EVERY {
            let request = check_request(&items, dialect);
            let places: HashSet<_> = request.iter().map(|v| (v.item_index, v.part_index, v.rule)).collect();
            for violation in check(&items, dialect) {
                prop_assert!(places.contains(&(violation.item_index, violation.part_index, violation.rule)));
            }
        }
    }
}
