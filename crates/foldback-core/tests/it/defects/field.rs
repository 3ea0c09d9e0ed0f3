//! What the field complains about, whatever the system.

use std::sync::Arc;

use crate::defects::*;

/// The field: rules and constraints lost.
#[test]
fn a_pinned_rule_survives_every_strategy_as_it_was_written() {
    let rule = Item::user("rule", "never push to main").pinned();
    let mut transcript = session(2, 2);
    transcript.push(rule);
    let rule = Arc::clone(transcript.items().next_back().unwrap());
    transcript.push(Item::assistant("yes", vec![Part::text("understood")]));
    transcript.extend(session_in_flight(3, 2).items().skip(1).map(|item| {
        let id = format!("later-{}", item.id);
        let later = |id: &CallId| CallId::from(format!("later-{id}"));
        let parts = item.parts.iter().cloned().map(|part| match part {
            Part::ToolCall(call) => Part::ToolCall(ToolCall { id: later(&call.id), ..call }),
            Part::ToolResult(result) => {
                Part::ToolResult(ToolResult { call_id: later(&result.call_id), ..result })
            }
            other => other,
        });
        Item::new(id, item.kind, parts.collect())
    }));
    for strategy in every_strategy() {
        let mut view = View::of(&transcript);
        for target in [6_000, 4_000, 3_000] {
            view = compact(&view, &strategy, &budget(target));
        }
        assert!(view.items().any(|item| Arc::ptr_eq(item, &rule)), "{}", strategy.describe());
    }
}

/// The field: CJK is counted 2 to 6 times too low, because a quarter of the characters is taken.
#[test]
fn chinese_japanese_and_korean_are_not_counted_far_too_low() {
    let exact = bpe_openai::o200k_base();
    for text in [
        include_str!("../estimate_error/held_out/chinese.txt"),
        include_str!("../estimate_error/held_out/japanese.txt"),
        include_str!("../estimate_error/held_out/korean.txt"),
    ] {
        let (quarter, counted) = (text.chars().count() / 4, exact.count(text));
        assert!(counted > 2 * quarter, "a quarter of the characters is too low: {quarter} for {counted}");
        let estimated = EstimatingCounter.count(text).0 as usize;
        assert!(estimated * 10 >= counted * 8, "{estimated} for {counted}");
        let upper = EstimatingCounter.precision();
        let Precision::Estimate { upper_factor } = upper else { panic!("{upper:?}") };
        assert!(estimated as f64 * upper_factor >= counted as f64, "the upper bound covers it");
    }
}

/// The field: images stay in the context for ever.
#[test]
fn images_become_lines_that_recall_them() {
    let mut transcript = Transcript::default();
    for number in 0..6 {
        let parts = vec![Part::text("what is this?"), Part::Media(image())];
        transcript.push(Item::new(format!("u{number}"), ItemKind::User, parts));
        let call = format!("c{number}");
        transcript.push(Item::assistant(
            format!("a{number}"),
            vec![Part::call(call.as_str(), "screenshot", &json!({}))],
        ));
        let mut result = ToolResult::text(call, "a window");
        result.content.push(ResultPart::Media(image()));
        transcript.push(Item::tool(format!("t{number}"), result));
        transcript.push(Item::assistant(format!("end{number}"), vec![Part::text("a window")]));
    }
    let is_media = |part: &ResultPart| matches!(part, ResultPart::Media(_));
    let shows_media = |item: &Item| {
        item.parts.iter().any(|part| match part {
            Part::Media(_) => true,
            Part::ToolResult(result) => result.content.iter().any(is_media),
            _ => false,
        })
    };
    let before = View::of(&transcript);
    for strategy in [StrategyConfig::from(ReplaceMediaStrategy::new(0)), LadderStrategy::new().into()] {
        let after = compact(&before, &strategy, &budget(before.tokens().0 / 4));
        let left = after.items().filter(|item| shows_media(item)).count();
        assert_eq!(left, 1, "only the newest message keeps its own, {}", strategy.describe());
        let rewrites = after.overlay().blocks().iter().flat_map(|block| &block.edits);
        for edit in rewrites {
            let Edit::Rewrite(rewrite) = edit else { continue };
            let recorded = &transcript.get(rewrite.item_index).unwrap().item().parts[rewrite.part_index];
            assert_eq!(after.recall(&rewrite.handle), Some(Recalled::Part(recorded.clone())));
        }
    }
}

/// The field: nobody sees what was dropped.
#[test]
fn every_hidden_item_can_be_named_with_who_hid_it_and_why() {
    let transcript = session_in_flight(4, 2);
    let pipeline = StrategyPipeline::new()
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(SummarizeOlderStrategy::new(8));
    let view = compact(&View::of(&transcript), &pipeline, &budget(1));
    for (item, fate) in transcript.items().zip(view.fates()) {
        match fate {
            Fate::Visible | Fate::Rewritten => {}
            Fate::Dropped(reason) => assert!(!reason.why.is_empty() && reason.strategy.contains("drop")),
            Fate::Folded(handle) => {
                let Some(Recalled::Items(items)) = view.recall(handle) else { panic!("{}", item.id) };
                assert!(items.iter().any(|recalled| Arc::ptr_eq(recalled, item)), "{}", item.id);
            }
        }
    }
    let hidden = view.fates().iter().filter(|fate| !fate.is_visible()).count();
    let shown = view.items().filter(|item| item.summary.is_none()).count();
    assert_eq!(hidden + shown, transcript.len());
}
