//! What must hold for every transcript and every strategy. The rules (T1 to T9) are in ARCHITECTURE.md.

use std::sync::Arc;

use foldback_core::{Strategy, *};
use foldback_testkit::kernel::kernel_tokens;
use foldback_testkit::recipe::{Recipe, recipe};
use foldback_testkit::strategies;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// A budget whose target is some share of what the transcript costs.
fn budget(transcript: &Transcript, percent: u64) -> Budget {
    let target = Tokens((transcript.tokens().0 * percent / 100).max(1));
    Budget::for_target(target).expect("a target of at least one token")
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), TestCaseError> {
    if holds { Ok(()) } else { Err(TestCaseError::fail(what())) }
}

/// T4: pins and the newest user item as they were, the unit in flight item by item. A newest user
/// item that is the first one too may be shortened once somebody works on it.
fn keeps_what_is_protected(before: &View, after: &View) -> Result<(), TestCaseError> {
    // What was shortened earlier is made anew: the same item, though not the same memory.
    let is_there = |item: &Arc<Item>| after.items().any(|kept| Arc::ptr_eq(kept, item) || kept == item);
    for item in before.items().filter(|item| item.is_pinned()) {
        ensure(is_there(item), || format!("the pinned item {} is gone or changed", item.id))?;
    }
    if let Some((position, user)) = before.newest_user().and_then(|user| Some((user, before.get(user)?))) {
        let mut later = before.range(position + 1..before.len());
        let may_shrink = before.turn_starts().next() == Some(position)
            && later.any(|entry| entry.item().kind == ItemKind::Assistant);
        let is_kept = |kept: &Entry| kept.anchor() == user.anchor() && kept.item().kind == ItemKind::User;
        let stays = is_there(user.item()) || (may_shrink && after.iter().any(is_kept));
        ensure(stays, || format!("the newest user item {} is gone", user.item().id))?;
    }
    if let Some(unit) = before.unit_in_flight() {
        let ids = |view: &View, range| view.range(range).map(|e| e.item().id.clone()).collect::<Vec<_>>();
        let expected = ids(before, unit.clone());
        let start = after.len().saturating_sub(unit.len());
        ensure(ids(after, start..after.len()) == expected, || "the unit in flight is not whole".into())?;
    }
    Ok(())
}

/// Kept units of the loop in flight keep their reasoning byte for byte.
fn keeps_reasoning_in_flight(before: &View, after: &View) -> Result<(), TestCaseError> {
    let reasoning = |item: &Item| {
        let parts = item.parts.iter().filter(|part| matches!(part, Part::Reasoning(_)));
        parts.cloned().collect::<Vec<_>>()
    };
    let Some(range) = before.loop_in_flight() else { return Ok(()) };
    for entry in before.range(range).filter(|entry| entry.item().summary.is_none()) {
        let kept = after.iter().find(|kept| kept.anchor() == entry.anchor() && kept.item().summary.is_none());
        let same = kept.is_none_or(|kept| reasoning(kept.item()) == reasoning(entry.item()));
        ensure(same, || format!("{} lost reasoning in flight", entry.item().id))?;
    }
    Ok(())
}

/// T2: valid in each dialect whose input was valid.
fn stays_valid(before: &View, after: &View) -> Result<(), TestCaseError> {
    for dialect in Dialect::ALL.into_iter().map(Some).chain([None]) {
        if dialect::check(before.items(), dialect).is_empty() {
            let violations = dialect::check(after.items(), dialect);
            ensure(violations.is_empty(), || {
                format!("{dialect:?}: {violations:?}\nbefore:\n{}after:\n{}", before.shape(), after.shape())
            })?;
        }
    }
    Ok(())
}

/// T5: undo restores the view, and storage gives the same view back.
fn can_be_undone(before: &View, plan: &Plan, compacted: &Compacted) -> Result<(), TestCaseError> {
    let (view, transcript) = (&compacted.view, before.transcript());
    if plan.is_empty() {
        return Ok(());
    }
    let (undone, _) = view.overlay().undo().expect("a block was added");
    let restored = View::through(transcript, &undone).expect("it was in force before");
    ensure(restored.items().eq(before.items()), || "undo does not restore the view".into())?;
    let stored = serde_json::to_string(&*compacted.block).expect("a block is JSON");
    let loaded: CompactionBlock = serde_json::from_str(&stored).expect("what was stored loads");
    ensure(loaded == *compacted.block, || "a stored block loads differently".into())?;
    let reloaded = View::through(transcript, &before.overlay().with(loaded)).expect("it applied before");
    ensure(reloaded.items().eq(view.items()), || "the stored view differs".into())
}

/// T1, T5: rebuilds every recorded item from the view and what its handles recall.
fn expands_to(view: &View, originals: &[Arc<Item>]) -> Result<(), TestCaseError> {
    let fates = view.fates();
    prop_assert_eq!(fates.len(), originals.len());
    let visible: Vec<&Entry> = view.iter().filter(|entry| entry.item().summary.is_none()).collect();
    prop_assert_eq!(visible.len(), fates.iter().filter(|fate| fate.is_visible()).count());
    for (index, (fate, original)) in fates.iter().zip(originals).enumerate() {
        let seen = visible.iter().find(|entry| entry.anchor() == index);
        let rebuilt = match fate {
            Fate::Visible => seen.is_some_and(|entry| Arc::ptr_eq(entry.item(), original)),
            Fate::Rewritten => seen.is_some() && is_rebuilt(view, index, original),
            Fate::Dropped(_) => seen.is_none(),
            Fate::Folded(handle) => match view.recall(handle) {
                Some(Recalled::Items(items)) => {
                    seen.is_none() && items.iter().any(|item| Arc::ptr_eq(item, original))
                }
                Some(Recalled::Part(_)) | None => false,
            },
        };
        ensure(rebuilt, || format!("{} ({fate:?}) cannot be rebuilt", original.id))?;
    }
    Ok(())
}

/// Whether the parts of a rewritten item, each kept or recalled, are the original's.
fn is_rebuilt(view: &View, index: usize, original: &Item) -> bool {
    let rewrites = view.overlay().blocks().iter().flat_map(|block| &block.edits);
    let mut parts: Vec<Option<Part>> = vec![None; original.parts.len()];
    for edit in rewrites {
        if let Edit::Rewrite(rewrite) = edit
            && rewrite.item_index == index
            && let Some(Recalled::Part(part)) = view.recall(&rewrite.handle)
        {
            parts[rewrite.part_index] = Some(part);
        }
    }
    parts
        .iter()
        .zip(&original.parts)
        .all(|(part, original)| part.as_ref().is_none_or(|part| part == original))
        && parts.iter().any(Option::is_some)
}

/// T6: everything before the first changed index is byte-stable.
fn keeps_the_prefix(before: &View, plan: &Plan, after: &View) -> Result<(), TestCaseError> {
    let first_changed = plan.first_changed().unwrap_or(before.len());
    let kept = before.items().take(first_changed).zip(after.items());
    ensure(kept.clone().count() == first_changed, || "the prefix is shorter".into())?;
    ensure(kept.clone().all(|(a, b)| a == b), || "the prefix changed".into())?;
    let tokens: Tokens = before.iter().take(first_changed).map(|entry| entry.tokens().total).sum();
    ensure(plan.prefix_tokens_kept() == tokens, || "the kept prefix is counted wrongly".into())
}

/// A view that grew item by item is the one that is made at once.
fn is_same_view(pushed: &View, made: &View) -> Result<(), TestCaseError> {
    let places = |view: &View| view.iter().map(|entry| (entry.anchor(), entry.span())).collect::<Vec<_>>();
    prop_assert!(pushed.items().eq(made.items()), "{}{}", pushed.shape(), made.shape());
    prop_assert!(pushed.transcript().items().eq(made.transcript().items()));
    prop_assert_eq!(places(pushed), places(made));
    prop_assert_eq!(pushed.tokens(), made.tokens());
    prop_assert_eq!(pushed.cuts().collect::<Vec<_>>(), made.cuts().collect::<Vec<_>>());
    prop_assert_eq!(pushed.unit_in_flight(), made.unit_in_flight());
    Ok(())
}

fn compaction_holds(before: &View, strategy: &dyn Strategy, budget: &Budget) -> Result<View, TestCaseError> {
    let Ok(plan) = foldback_core::plan(before, strategy, Some(budget)) else { return Ok(before.clone()) };
    let again =
        foldback_core::plan(before, strategy, Some(budget)).expect("it could be planned a moment ago");
    ensure(plan.edits() == again.edits(), || "two plans of one view differ".into())?;
    let compacted = plan.apply_floor();
    let after = &compacted.view;
    stays_valid(before, after)?;
    keeps_what_is_protected(before, after)?;
    keeps_reasoning_in_flight(before, after)?;
    keeps_the_prefix(before, &plan, after)?;
    ensure(after.tokens() <= before.tokens(), || {
        format!("grew from {} to {}", before.tokens(), after.tokens())
    })?;
    ensure(after.tokens() <= plan.tokens_after(), || "cost more than the plan said".into())?;
    ensure(plan.is_empty() || after.tokens() < before.tokens(), || "edits that save nothing".into())?;
    can_be_undone(before, &plan, &compacted)?;
    let second = foldback_core::plan(after, strategy, Some(budget));
    let is_settled = second.as_ref().is_ok_and(Plan::is_empty);
    ensure(is_settled, || {
        let second = second.map(|plan| plan.shape());
        format!("a second run proposes {second:?}\nfirst:\n{}after:\n{}", plan.shape(), after.shape())
    })?;
    Ok(compacted.view)
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    /// T2, T4, T5, T6, T7 for any strategy on any transcript, which expands to the original items.
    #[test]
    fn any_pipeline_keeps_every_rule(
        recipe in recipe(), pipeline in strategies::pipeline(), percent in 1u64..120,
    ) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let transcript: Transcript = items.iter().cloned().collect();
        let view = compaction_holds(&View::of(&transcript), &pipeline, &budget(&transcript, percent))?;
        expands_to(&view, &items)?;
    }

    /// The same for every policy, at the budget that it makes of a window.
    #[test]
    fn every_policy_keeps_every_rule(
        recipe in recipe(), policy in strategies::policy(), percent in 2u64..300,
    ) {
        let transcript = recipe.transcript();
        let window = Tokens((transcript.tokens().0 * percent / 100).max(2));
        let budget = policy.budget(Room::new(window)).expect("a window of two tokens has a target");
        compaction_holds(&View::of(&transcript), &*policy.strategy(), &budget)?;
    }

    /// The same for a conversation that goes on between compactions: blocks on top of blocks.
    #[test]
    fn compactions_on_top_of_compactions_keep_every_rule(
        recipe in recipe(),
        pipelines in prop::collection::vec(strategies::pipeline(), 2..4),
        percent in 5u64..100,
    ) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let share = items.len().div_ceil(pipelines.len()).max(1);
        let mut transcript = Transcript::default();
        let mut view = View::of(&transcript);
        for (pipeline, items) in pipelines.iter().zip(items.chunks(share)) {
            transcript.extend(items.iter().cloned());
            let before = View::through(&transcript, view.overlay()).expect("the transcript only grew");
            let mut pushed = view.clone();
            items.iter().for_each(|item| pushed.push(Arc::clone(item)));
            is_same_view(&pushed, &before)?;
            view = compaction_holds(&before, pipeline, &budget(&transcript, percent))?;
        }
        expands_to(&view, &items[..transcript.len()])?;
    }

    /// T2, T6, T7: what is done to results as they come changes nothing that a call has read, and is done once.
    #[test]
    fn what_is_done_to_fresh_results_leaves_what_was_read_alone(
        recipe in recipe(), pipeline in strategies::pipeline(), lines_max in 1usize..20, percent in 1u64..120,
    ) {
        let transcript = recipe.transcript();
        let view = View::of(&transcript);
        let shorten = TruncateToolOutputsStrategy::by_lines(lines_max).expect("a line at least").shorten_fresh();
        let fresh = FreshOnlyStrategy::new(pipeline.with_strategy(shorten));
        let budget = budget(&transcript, percent);
        let Ok(planned) = plan(&view, &fresh, Some(&budget)) else { return Ok(()) };
        let after = planned.apply_floor().view;
        let unread = view.unread().start;
        prop_assert_eq!(after.len(), view.len());
        prop_assert!(view.items().zip(after.items()).take(unread).all(|(one, other)| Arc::ptr_eq(one, other)));
        prop_assert!(view.items().zip(after.items()).all(|(one, other)| one.kind == other.kind && one.id == other.id));
        let calls = |view: &View| view.pending_calls().map(|(_, id)| id.clone()).collect::<Vec<_>>();
        prop_assert_eq!(calls(&view), calls(&after));
        if !fresh.needs_budget() {
            prop_assert!(plan(&after, &fresh, Some(&budget)).expect("it aims at nothing").is_empty());
        }
    }

    /// Where every result follows its call, nothing keeps the summary from standing after the last
    /// user item, unless it has to come first because an assistant item would.
    #[test]
    fn preserved_user_messages_come_before_the_summary(recipe in recipe(), tokens in 0u64..2_000) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let transcript: Transcript = dialect::repair(&items, Some(Dialect::Anthropic)).items.into_iter().collect();
        let strategy = PreserveUserMessagesStrategy::new().tokens_max(Tokens(tokens));
        let view = plan(&View::of(&transcript), &strategy, None).expect("no budget").apply_floor().view;
        let fates = view.fates();
        let stands_for_hidden = |entry: &Entry| !fates[entry.span().start].is_visible();
        let Some(summary) = view.iter().position(stands_for_hidden) else { return Ok(()) };
        let is_spoken = |item: &&Arc<Item>| !item.kind.is_instruction() && !item.parts.is_empty();
        let mut recorded = view.iter().filter(|entry| !stands_for_hidden(entry)).map(Entry::item);
        let must_lead = recorded.find(is_spoken).is_some_and(|item| !item.kind.has_user_authority());
        let is_sent = |&user: &usize| view.get(user).is_some_and(|entry| entry.part_count() > 0);
        let last_user = view.turn_starts().rev().find(is_sent);
        prop_assert!(must_lead || last_user < Some(summary), "{}", view.shape());
    }

    /// Property 2: the ladder reaches its target, or the kernel is larger than it. No third outcome.
    #[test]
    fn the_ladder_fits_unless_the_kernel_does_not(recipe in recipe(), percent in 0u64..110) {
        let transcript = recipe.transcript();
        let budget = budget(&transcript, percent);
        let kernel = kernel_tokens(&transcript, budget.target());
        match plan(&View::of(&transcript), &LadderStrategy::new(), Some(&budget)) {
            Ok(plan) => {
                for after in [plan.apply_floor().view, plan.apply_digest().view] {
                    ensure(after.tokens() <= budget.target(), || {
                        format!("{} tokens, target {}\n{}", after.tokens(), budget.target(), after.shape())
                    })?;
                }
                ensure(plan.is_empty() || kernel <= budget.target(), || {
                    format!("kernel {kernel}, target {}", budget.target())
                })?;
            }
            Err(PlanError::BudgetInfeasible(infeasible)) => {
                prop_assert_eq!(infeasible.kernel_tokens, kernel);
                prop_assert!(kernel > budget.target(), "{} fits {}", kernel, budget.target());
                prop_assert_eq!(infeasible.kernel.iter().map(|item| item.tokens).sum::<Tokens>(), kernel);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    /// Taking back any one step of the ladder would leave the target: it gives up nothing without need.
    /// Where it folds, that holds once the size of the summary is known.
    #[test]
    fn the_ladder_gives_up_no_part_without_need(recipe in recipe(), percent in 5u64..100) {
        let transcript = recipe.transcript();
        let (view, budget) = (View::of(&transcript), budget(&transcript, percent));
        let Ok(plan) = plan(&view, &LadderStrategy::new(), Some(&budget)) else { return Ok(()) };
        if plan.folds().next().is_some() {
            return Ok(());
        }
        let unused = budget.target().saturating_sub(plan.tokens_after());
        for edit in plan.edits() {
            let Edit::Rewrite(rewrite) = edit else { continue };
            let Some(entry) = view.get(rewrite.item_index).filter(|_| rewrite.replacement.is_some()) else {
                continue;
            };
            let saved = entry.tokens().parts()[rewrite.part_index] - rewrite.tokens;
            ensure(Tokens(saved.into()) > unused, || {
                format!("{saved} tokens of {} fit into {unused}\n{}", entry.item().id, plan.shape())
            })?;
        }
    }

    /// What a transcript keeps up to date on push is what one would compute from scratch.
    #[test]
    fn the_index_agrees_with_a_naive_one(recipe in recipe()) {
        index_is_right(&recipe)?;
    }
}

/// The naive computation is cubic.
const NAIVE_ITEMS_MAX: usize = 100;

fn index_is_right(recipe: &Recipe) -> Result<(), TestCaseError> {
    let transcript: Transcript = recipe.items().into_iter().take(NAIVE_ITEMS_MAX).collect();
    let items: Vec<&Arc<Item>> = transcript.items().collect();
    let total: Tokens = items.iter().map(|item| transcript.meter().item(item).total).sum();
    prop_assert_eq!(transcript.tokens(), total);
    let users: Vec<usize> = (0..items.len()).filter(|&i| items[i].kind == ItemKind::User).collect();
    prop_assert_eq!(transcript.turn_starts().collect::<Vec<_>>(), users);
    let is_thinking = |&i: &usize| items[i].parts.iter().any(|part| matches!(part, Part::Reasoning(_)));
    let thinking: Vec<usize> = (0..items.len()).filter(is_thinking).collect();
    prop_assert_eq!(transcript.with_reasoning().collect::<Vec<_>>(), thinking);
    let units: Vec<usize> = (0..items.len()).map(|index| transcript.unit_start(index)).collect();
    for (index, &unit) in units.iter().enumerate() {
        let members: Vec<usize> = (0..items.len()).filter(|&other| units[other] == unit).collect();
        prop_assert_eq!(transcript.unit_members(index).collect::<Vec<_>>(), members);
    }
    let is_legal =
        |cut: usize| (0..cut).all(|before| (cut..items.len()).all(|after| units[before] != units[after]));
    let legal: Vec<usize> = (1..items.len()).filter(|&cut| is_legal(cut)).collect();
    prop_assert_eq!(transcript.cuts().collect::<Vec<_>>(), legal);
    for index in 0..=items.len() {
        let before = (0..=index).rev().find(|&cut| is_legal(cut)).unwrap_or(0);
        prop_assert_eq!(transcript.cut_at_or_before(index), before);
    }
    Ok(())
}
