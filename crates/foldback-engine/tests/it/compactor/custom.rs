//! Strategies of a host's own: what they return is edits, or nothing.

use crate::compactor::*;

/// Returns what a function makes of the items.
struct Custom(fn(Vec<Arc<Item>>) -> Vec<Arc<Item>>);

impl std::fmt::Debug for Custom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("mine")
    }
}

#[async_trait]
impl CompactionStrategy for Custom {
    async fn compact(
        &self,
        request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let items = (self.0)(request.transcript.items().cloned().collect());
        let mut result = CompactionResult::from_items(&request, &items)?;
        result.metadata.insert("said".into(), "custom".into());
        Ok(result)
    }

    fn describe(&self) -> String {
        "mine".into()
    }
}

fn without_oldest_turn(mut items: Vec<Arc<Item>>) -> Vec<Arc<Item>> {
    items.drain(1..5);
    items
}

fn built(strategy: impl CompactionStrategy + 'static) -> StrategyCompactor {
    StrategyCompactor::builder().item_count_trigger(4).strategy(strategy).build().expect("it is complete")
}

#[tokio::test]
async fn what_a_custom_strategy_does_can_be_explained_and_undone() {
    let view = session(4);
    let result = compact(&built(Custom(without_oldest_turn)), &view).await;
    assert_eq!((result.transcript.len(), result.replaced_items), (view.len() - 4, 4));
    assert_eq!(result.metadata["said"], "custom");
    let block = result.transcript.overlay().blocks().last().unwrap();
    assert_eq!(block.strategy.as_str(), "mine");
    assert_eq!(block.cause, Some(CompactionReason::TranscriptTooLong));
    assert!(block.created_at.is_some());
    let (overlay, _) = result.transcript.overlay().undo().unwrap();
    assert!(View::through(view.transcript(), &overlay).unwrap().items().eq(view.items()));
}

#[tokio::test]
async fn a_pipeline_mixes_both_kinds_and_sums_what_they_did() {
    let view = session(6);
    let pipeline = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(Custom(without_oldest_turn))
        .with_strategy(KeepRecentStrategy::new(6).preserve_kind(ItemKind::System))
        .with_strategy(TruncateToolOutputsStrategy::by_lines(4).unwrap());
    assert_eq!(
        format!("{pipeline:?}"),
        "drop-reasoning → mine → keep-recent(6) → truncate-tool-outputs(4 lines)".replace(
            "truncate-tool-outputs(4 lines)",
            &Strategy::describe(&TruncateToolOutputsStrategy::by_lines(4).unwrap())
        )
    );
    let result = compact(&built(pipeline), &view).await;
    let blocks = result.transcript.overlay().blocks();
    assert_eq!(blocks.len(), 3, "pure steps in a row are one compaction");
    let dropped = view.len() - result.transcript.len();
    assert!(result.replaced_items >= dropped + 6, "each of six thoughts counts: {}", result.replaced_items);
    assert_eq!(result.metadata["said"], "custom");
}

#[tokio::test]
async fn what_would_be_invalid_larger_or_unfounded_is_refused_and_the_view_stands() {
    let half_a_pair: fn(Vec<Arc<Item>>) -> Vec<Arc<Item>> = |mut items| {
        items.remove(3);
        items
    };
    let added: fn(Vec<Arc<Item>>) -> Vec<Arc<Item>> = |mut items| {
        items.push(Arc::new(Item::user("new", "do something else")));
        items
    };
    let larger: fn(Vec<Arc<Item>>) -> Vec<Arc<Item>> = |mut items| {
        items.splice(1..5, [Arc::new(Item::text("s", ItemKind::Context, "much more to say ".repeat(900)))]);
        items
    };
    let view = session(4);
    for (strategy, why) in [(half_a_pair, "one half"), (added, "new"), (larger, "larger")] {
        let refused = built(Custom(strategy)).compact(request(&view), &CompactionContext::default()).await;
        let error = refused.map(|result| result.transcript.shape()).unwrap_err();
        assert!(matches!(&error, CompactionError::Failed(_)), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(view.overlay().blocks().is_empty());
}

/// T2: the last look before a commit. Dropping a prompt breaks no pair, but a rule of this provider.
#[tokio::test]
async fn what_the_provider_would_reject_is_not_committed() {
    let without_first_prompt: fn(Vec<Arc<Item>>) -> Vec<Arc<Item>> = |mut items| {
        items.remove(1);
        items
    };
    let asked = request(&session(4)).with_dialect(Dialect::Anthropic);
    let refused = built(Custom(without_first_prompt)).compact(asked, &CompactionContext::default()).await;
    let refused = refused.map(|result| result.transcript.shape());
    let Err(CompactionError::Refused(Refusal::Invalid { violations, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(violations[0].rule, Rule::FirstRole, "{violations:?}");
}

/// T8 and the first promise: whoever made the view, what is handed out fits.
#[tokio::test]
async fn what_a_custom_strategy_leaves_above_the_window_is_brought_to_the_target() {
    let view = session(20);
    let budget = Budget::builder(Tokens(view.tokens().0 / 2)).build().unwrap();
    let pipeline = || CompactionPipeline::new().with_strategy(Custom(without_oldest_turn));
    for compactor in [built(Custom(without_oldest_turn)), built(pipeline())] {
        let asked = request(&view).with_budget(budget);
        let result = compactor.compact(asked, &CompactionContext::default()).await.unwrap();
        assert!(result.transcript.tokens() <= budget.target(), "{}", result.transcript.tokens());
        let blocks = result.transcript.overlay().blocks();
        let strategies: Vec<&str> = blocks.iter().map(|block| block.strategy.as_str()).collect();
        assert_eq!(strategies, ["mine", "ladder"], "each says what it did");
        assert_eq!(result.metadata["said"], "custom");
    }
}

#[tokio::test]
async fn what_a_structural_strategy_leaves_above_the_window_is_brought_to_the_target_too() {
    let view = session(20);
    let budget = Budget::builder(Tokens(view.tokens().0 / 2)).build().unwrap();
    let asked = request(&view).with_budget(budget);
    let compactor = built(KeepRecentStrategy::new(76));
    let result = compactor.compact(asked, &CompactionContext::default()).await.unwrap();
    assert!(result.transcript.tokens() <= budget.target(), "{}", result.transcript.tokens());
}

#[tokio::test]
async fn what_a_custom_strategy_leaves_within_the_window_is_left_as_it_is() {
    let view = session(20);
    let budget = budget_at(&view, 100);
    let asked = request(&view).with_budget(budget);
    let compactor = built(Custom(without_oldest_turn));
    let result = compactor.compact(asked, &CompactionContext::default()).await.unwrap();
    assert!(result.transcript.tokens() > budget.target());
    assert_eq!(result.transcript.len(), view.len() - 4);
}

#[tokio::test]
async fn after_a_rejection_a_custom_strategy_is_held_to_what_the_next_request_may_take() {
    let view = session(20);
    let budget = budget_at(&view, 40);
    let mut asked = request(&view).with_budget(budget);
    asked.reason = CompactionReason::OverflowRejected;
    let compactor = built(Custom(without_oldest_turn));
    let result = compactor.compact(asked, &CompactionContext::default()).await.unwrap();
    assert!(result.transcript.tokens().0 <= view.tokens().0 * 80 / 100, "{}", result.transcript.tokens());
}

#[tokio::test]
async fn a_budget_that_no_strategy_can_reach_is_an_error_that_names_what_must_stay() {
    let mut view = session(20);
    view.push(Item::user("pinned", "never forget this ".repeat(900)).pinned());
    let budget = Budget::builder(Tokens(2_000)).build().unwrap();
    let asked = request(&view).with_budget(budget);
    let refused = built(Custom(without_oldest_turn)).compact(asked, &CompactionContext::default()).await;
    let error = refused.map(|result| result.transcript.shape()).unwrap_err();
    assert!(matches!(&error, CompactionError::Refused(Refusal::BudgetInfeasible(_))), "{error}");
    assert!(error.to_string().contains("pinned"), "{error}");
    assert!(view.overlay().blocks().is_empty());
}

/// Throws away what was recorded and keeps only what is visible.
#[derive(Debug)]
struct Forgetful;

#[async_trait]
impl CompactionStrategy for Forgetful {
    async fn compact(
        &self,
        request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let newest: Transcript = request.transcript.items().skip(5).cloned().collect();
        Ok(CompactionResult::new(View::of(&newest), 5))
    }

    fn describe(&self) -> String {
        "forgetful".into()
    }
}

#[tokio::test]
async fn a_strategy_that_throws_recorded_items_away_is_refused() {
    let view = session(4);
    let refused = built(Forgetful).compact(request(&view), &CompactionContext::default()).await;
    assert!(matches!(refused, Err(CompactionError::Failed(_))));
}

#[tokio::test]
async fn a_summary_nobody_writes_is_an_error_only_where_a_host_composed_it() {
    let view = session(8);
    let composed = built(SummarizeOlderStrategy::new(4));
    let refused = composed.compact(request(&view), &CompactionContext::default()).await;
    assert!(matches!(refused, Err(CompactionError::MissingBackend(_))));
    let room = Room::new(view.tokens());
    for policy in Policy::all() {
        let compactor = StrategyCompactor::builder().policy(&policy, room).build().unwrap();
        let outcome = compactor.compact(request(&view), &CompactionContext::default()).await;
        assert!(!matches!(outcome, Err(CompactionError::MissingBackend(_))), "{}", policy.name());
    }
}
