//! What must hold for every ledger.

use foldback_core::reading::text_of;
use foldback_core::*;
use foldback_testkit::recipe::recipe;
use foldback_testkit::strategies;
use proptest::prelude::*;

/// Everything that can be read behind a handle.
fn recalled(view: &View, handle: &Handle) -> String {
    let read = |item: &Item| item.parts.iter().map(|part| text_of(part) + "\n").collect::<String>();
    match view.recall(handle) {
        Some(view::Recalled::Items(items)) => items.iter().map(|item| read(item)).collect(),
        Some(view::Recalled::Part(part)) => text_of(&part).into_owned(),
        None => String::new(),
    }
}

fn holds_name(text: &str, fact: &Fact) -> bool {
    text.contains(&*fact.text)
}

/// Kinds whose text stands as it is wherever the fact does.
fn is_name(fact: &Fact) -> bool {
    matches!(fact.kind, FactKind::Identifier | FactKind::Number | FactKind::Url | FactKind::Hash)
}

/// A sentence that is a rule, for each number another one.
fn rule(number: usize) -> String {
    format!("Never touch the module called number {number}.")
}

fn said(kind: ItemKind, number: usize) -> Item {
    let (id, text) = (format!("i{number}"), rule(number));
    match kind {
        ItemKind::Tool => Item::tool(id, ToolResult::text("c", text)),
        kind => Item::text(id, kind, text),
    }
}

proptest! {
    #![proptest_config(foldback_testkit::costly(10))]

    /// The ledger is a function of the items, however they arrive, and a copy goes on alone.
    #[test]
    fn a_ledger_that_grew_is_the_ledger_of_the_whole(recipe in recipe(), at in any::<prop::sample::Index>()) {
        let transcript = recipe.transcript();
        let cut = if transcript.is_empty() { 0 } else { at.index(transcript.len()) };
        let (mut grown, mut copy) = (Ledger::new(), Ledger::new());
        for (index, item) in transcript.items().enumerate() {
            if index == cut {
                copy = grown.clone();
            }
            grown.push(index, item);
        }
        transcript.items().enumerate().skip(cut).for_each(|(index, item)| copy.push(index, item));
        let whole = Ledger::of(&transcript);
        prop_assert_eq!(&grown, &whole);
        prop_assert_eq!(&copy, &whole);
        for fact in whole.facts() {
            for place in &fact.mentions {
                let entry = transcript.get(place.item_index).expect("a place is in the transcript");
                let text = text_of(&entry.item().parts[place.part_index]).into_owned();
                prop_assert!(text.get(place.span.clone()).is_some(), "{fact:?}");
            }
        }
    }

    /// Every fact that was told has exactly one fate; what is kept can be read, what is recoverable
    /// is behind its handle, and only a drop loses anything.
    #[test]
    fn an_account_adds_up_and_its_fates_are_true(
        recipe in recipe(),
        strategy in strategies::strategy(),
        percent in 5u64..90,
    ) {
        let transcript = recipe.transcript();
        let before = View::of(&transcript);
        let target = Tokens((transcript.tokens().0 * percent / 100).max(1));
        let budget = Budget::for_target(target).expect("a target of at least one token");
        let Ok(planned) = plan(&before, &strategy, Some(&budget)) else { return Ok(()) };
        let ledger = Ledger::of(&transcript);
        let after = planned.apply_digest().view;
        let account = ledger.account(&before, &after);
        let current = ledger.facts().iter().filter(|fact| fact.is_current());
        prop_assert_eq!(account.total().total(), current.count(), "the whole transcript was told");
        let has_drops = planned.edits().iter().any(|edit| matches!(edit, Edit::Drop(_)));
        prop_assert!(has_drops || account.total().lost == 0, "{:?}", account.lost().collect::<Vec<_>>());
        let shown: String = after.items().flat_map(|item| &item.parts).map(|part| text_of(part) + "\n").collect();
        for one in account.listed.iter().filter(|one| is_name(one.fact)) {
            match &one.fate {
                FactFate::Kept => prop_assert!(holds_name(&shown, one.fact), "{one:?}"),
                FactFate::Recoverable(handle) => {
                    prop_assert!(holds_name(&recalled(&after, handle), one.fact), "{one:?}");
                }
                FactFate::Lost => {}
            }
        }
        prop_assert_eq!(ledger.account(&before, &before).total().kept, account.total().total());
    }

    /// Whoever speaks: only users, systems and developers give rules.
    #[test]
    fn a_rule_is_never_taken_from_a_tool_or_the_agent(
        kinds in prop::collection::vec(prop::sample::select(ItemKind::ALL.to_vec()), 0..24),
    ) {
        let items: Vec<Item> = kinds.iter().enumerate().map(|(n, &kind)| said(kind, n)).collect();
        let ledger = Ledger::of(&items.into_iter().collect::<Transcript>());
        let gives_rules = |kind: &ItemKind| {
            matches!(kind, ItemKind::User | ItemKind::System | ItemKind::Developer)
        };
        let expected = kinds.iter().enumerate().filter(|(_, kind)| gives_rules(kind)).map(|(n, _)| rule(n));
        let found = ledger.of_kind(FactKind::Constraint).map(|fact| fact.text.to_string());
        prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
