//! The worked example of the specification, through the compactor as it is written there.

use foldback_testkit::fixture;

use crate::compactor::*;

fn pipeline() -> CompactionPipeline {
    let keep_recent =
        KeepRecentStrategy::new(8).preserve_kind(ItemKind::System).preserve_kind(ItemKind::Context);
    CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(keep_recent)
}

#[tokio::test]
async fn twenty_items_become_these_ten() {
    let view = View::of(&fixture::transcript(fixture::WORKED_EXAMPLE));
    let recorder = Recorder::default();
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(12)
        .strategy(pipeline())
        .observer(recorder.clone())
        .build()
        .unwrap();
    let reason = asks(&compactor, &view, MutationPoint::AfterTurnEnded);
    assert_eq!(reason, Some(CompactionReason::TranscriptTooLong));
    let result = compact(&compactor, &view).await;
    let places: Vec<usize> = result.transcript.iter().map(Entry::anchor).collect();
    assert_eq!(places, [0, 1, 10, 13, 14, 15, 16, 17, 18, 19]);
    assert_eq!(result.replaced_items, 11, "ten are gone, and the last lost its reasoning");
    assert_eq!(asks(&compactor, &result.transcript, MutationPoint::AfterTurnEnded), None);

    assert_eq!(recorder.names(), ["started", "ended"]);
    let report = recorder.report();
    assert_eq!(report.strategy, "drop-reasoning → drop-failed-tool-results → keep-recent(8)");
    assert_eq!((report.tokens_before, report.tokens_after), (Tokens(368), Tokens(166)));
    assert_eq!(report.first_changed, Some(2));
    assert_eq!(report.prefix_tokens_kept, view.tokens_of(0..2));
    let block = result.transcript.overlay().blocks().last().expect("it is recorded");
    assert_eq!(block.cause, Some(CompactionReason::TranscriptTooLong));
    assert!(block.created_at.is_some());
}

#[tokio::test]
async fn what_an_earlier_compaction_left_is_not_told_as_replaced_again() {
    let recorder = Recorder::default();
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(6).preserve_kind(ItemKind::System))
        .backend(DigestBackend)
        .observer(recorder.clone())
        .build()
        .unwrap();
    let first = compact(&compactor, &session(10)).await.transcript;
    assert_eq!(summaries(&first).len(), 1);
    // Nothing was said since, so there is nothing to do, although a view holds copies of summaries.
    let second = compact(&compactor, &first).await;
    assert_eq!((second.replaced_items, recorder.report().first_changed), (0, None));
    let structural =
        StrategyCompactor::builder().item_count_trigger(4).strategy(KeepRecentStrategy::new(4)).build();
    let third = compact(&structural.unwrap(), &first).await;
    assert_eq!(third.replaced_items, first.len() - third.transcript.len());
}
