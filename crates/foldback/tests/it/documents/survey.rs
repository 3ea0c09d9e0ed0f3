//! The survey of compaction in products: its strategies with their numbers, its triggers, its measure.

use std::sync::Arc;
use std::time::Duration;

use foldback::agent::{Agent, AgentBuilderCompactorExt, Tool, ToolContext, ToolError, ToolOutput};
use foldback::engine::{CompactionContext, CompactionRequest, Compactor, StrategyCompactor};
use foldback::{
    AllTrigger, AnyTrigger, Budget, BudgetTrigger, CapToolOutputsStrategy, CharsOver4Counter,
    ClearToolResultsStrategy, CompactionReason, EventKind, EveryTrigger, FnTrigger, IdleTrigger, Item,
    ItemKind, MutationPoint, NeedsFollowUpTrigger, NotTrigger, Part, PendingInputTrigger,
    PreserveRecentFractionStrategy, PreserveRecentTurnsStrategy, PreserveUserMessagesStrategy, Recalled,
    Splice, Strategy, StructuralEvent, StructuralTrigger, Timestamp, TokenBounds, TokenCounter, Tokens,
    ToolOutputTrigger, ToolResult, Transcript, Trigger, TriggerContext, TriggerExt,
    TruncateToolOutputsStrategy, View, plan,
};
use serde_json::{Value, json};

use super::{Scripted, ids, says};

/// Turns in which a short question is answered at length.
fn lectures(turns: usize) -> Transcript {
    let turn = |number: usize| {
        let answer =
            format!("Lecture {number}. {}", "It goes on and on about the history of it. ".repeat(60));
        let question = format!("Lecture {number}, please. {}", "Say it all. ".repeat(5));
        [
            Item::user(format!("ask{number}"), question),
            Item::assistant(format!("say{number}"), vec![Part::text(answer)]),
        ]
    };
    (0..turns).flat_map(turn).collect()
}

/// What the model sees after a strategy, with a summary that needs no model.
fn seen(transcript: &Transcript, strategy: &impl Strategy, budget: Option<&Budget>) -> View {
    plan(&View::of(transcript), strategy, budget).unwrap().apply_digest().view
}

fn summary_at(view: &View) -> usize {
    view.items().position(|item| item.summary.is_some()).expect("there is a summary")
}

#[test]
fn user_messages_stay_and_the_summary_stands_behind_the_last_of_them() {
    let transcript = lectures(20);
    let view = seen(&transcript, &PreserveUserMessagesStrategy::new(), None);
    let users = view.items().filter(|item| item.kind == ItemKind::User);
    assert_eq!(ids(users), (0..20).map(|n| format!("ask{n}")).collect::<Vec<_>>(), "in order, all of them");
    assert!(summary_at(&view) > view.items().position(|item| item.id.as_str() == "ask19").unwrap());
}

#[test]
fn user_messages_stay_up_to_twenty_thousand_tokens_newest_first() {
    let long =
        |n: usize| Item::user(format!("ask{n}"), "Remember what I told you about the tides. ".repeat(600));
    let transcript: Transcript = (0..10).map(long).collect();
    let each = transcript.get(0).unwrap().tokens().total.0;
    let view = seen(&transcript, &PreserveUserMessagesStrategy::new(), None);
    let whole = view.iter().filter(|entry| entry.tokens().total.0 == each).count() as u64;
    assert_eq!(whole, 20_000 / each);
    let kept: Tokens =
        view.iter().filter(|entry| entry.kind() == ItemKind::User).map(|entry| entry.tokens().total).sum();
    assert!(kept <= Tokens(20_000) && kept > Tokens(19_000), "{kept}: the last one is cut to what is left");
    assert!(ids(view.items()).contains(&"ask9".to_owned()));
}

#[test]
fn three_tenths_of_the_tokens_stay_from_a_user_message_on() {
    let transcript = lectures(20);
    let strategy = PreserveRecentFractionStrategy::default();
    assert_eq!(Ok(strategy.clone()), PreserveRecentFractionStrategy::new(0.3));
    let view = seen(&transcript, &strategy, None);
    let start = summary_at(&view) + 1;
    assert_eq!(view.get(start).unwrap().kind(), ItemKind::User);
    let share = view.tokens_of(start..view.len()).0 as f64 / transcript.tokens().0 as f64;
    assert!((0.25..=0.30).contains(&share), "{share}");
}

#[test]
fn the_last_two_turns_stay_each_within_a_quarter_of_the_room() {
    let transcript = lectures(20);
    let strategy = PreserveRecentTurnsStrategy::default();
    assert_eq!(strategy, PreserveRecentTurnsStrategy::new(2));
    let view = seen(&transcript, &strategy, None);
    assert_eq!(ids(view.items())[summary_at(&view) + 1..], ["ask18", "say18", "ask19", "say19"]);

    // Two turns of far more than any clamp: each is kept within a quarter of the room, 2,000 to 8,000 tokens.
    let mut items = vec![Item::user("first", "Begin.")];
    for turn in 0..2 {
        items.push(Item::user(format!("ask{turn}"), "Go through all of it."));
        for round in 0..40 {
            let id = format!("{turn}-{round}");
            items.push(Item::assistant(
                format!("a{id}"),
                vec![Part::call(&*id, "read", &json!({"page": round}))],
            ));
            items.push(Item::tool(
                format!("t{id}"),
                ToolResult::text(&*id, "A page of the book. ".repeat(100)),
            ));
        }
        items.push(Item::assistant(format!("say{turn}"), vec![Part::text("I read it.")]));
    }
    let transcript: Transcript = items.into_iter().collect();
    let kept = |window: u64| {
        let budget = Budget::builder(Tokens(window)).build().unwrap();
        let view = seen(&transcript, &strategy, Some(&budget));
        let tail =
            view.iter().filter(|entry| entry.item().summary.is_none() && entry.item().id.as_str() != "first");
        tail.map(|entry| entry.tokens().total).sum::<Tokens>()
    };
    let unit = transcript.tokens_of(2..4).0;
    for (window, clamp) in [(4_000, 2_000), (20_000, 5_000), (200_000, 8_000)] {
        let kept = kept(window).0;
        assert!(kept <= 2 * clamp && kept > 2 * (clamp - unit - 100), "{kept} of {window}");
    }
}

#[test]
fn whatever_the_strategy_a_pointer_and_a_summary_are_stored_and_one_loader_splices_them() {
    let transcript = lectures(20);
    let strategies: [Box<dyn Strategy>; 3] = [
        Box::new(PreserveUserMessagesStrategy::new()),
        Box::new(PreserveRecentFractionStrategy::default()),
        Box::new(PreserveRecentTurnsStrategy::default()),
    ];
    for strategy in strategies {
        let view = seen(&transcript, &strategy, None);
        let splice = Splice::of(view.overlay());
        let tail = splice.tail_start();
        assert_eq!(splice.summaries().len(), 1, "{strategy:?}");
        assert!(transcript.items().skip(tail).all(|item| ids(view.items()).contains(&item.id.to_string())));
        let history = splice.load(&transcript).unwrap();
        assert_eq!(ids(&history), ids(view.items()), "{strategy:?}");
    }
}

fn at(tokens: u64) -> TokenBounds {
    TokenBounds::exact(Tokens(tokens))
}

#[test]
fn budget_triggers_fire_when_a_measure_crosses_a_threshold() {
    let transcript = Transcript::default();
    let fires = |trigger: &dyn Trigger, tokens| {
        let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded).with_tokens(at(tokens));
        trigger.fires(&context).is_some()
    };
    let limits: [(BudgetTrigger, u64); 4] = [
        (BudgetTrigger::at_limit(Tokens(80_000)).unwrap(), 80_000),
        (BudgetTrigger::at_percent_of_window(Tokens(200_000), 50.0).unwrap(), 100_000),
        (BudgetTrigger::with_fixed_headroom(Tokens(400_000)).unwrap(), 380_000),
        (BudgetTrigger::with_fixed_headroom(Tokens(100_000)).unwrap(), 80_000),
    ];
    for (trigger, limit) in limits {
        assert!(fires(&trigger, limit) && !fires(&trigger, limit - 1), "{trigger:?}");
        let rejected = TriggerContext::new(&transcript, MutationPoint::AfterRequestRejected);
        assert_eq!(
            trigger.fires(&rejected),
            Some(CompactionReason::OverflowRejected),
            "a budget that fires late"
        );
    }
}

#[test]
fn structural_triggers_fire_because_something_happened() {
    let transcript = Transcript::default();
    let happened = [
        (EventKind::NewItem, StructuralEvent::NewItem, CompactionReason::NewItem),
        (EventKind::ToolOutput, StructuralEvent::ToolOutput, CompactionReason::ToolOutput),
        (
            EventKind::CompactionCompleted,
            StructuralEvent::CompactionCompleted,
            CompactionReason::CompactionCompleted,
        ),
        (EventKind::AskedByUser, StructuralEvent::AskedByUser, CompactionReason::Manual),
    ];
    for (kind, event, reason) in happened {
        let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded);
        assert_eq!(StructuralTrigger::on(kind).fires(&context), None);
        let events = [event];
        assert_eq!(StructuralTrigger::on(kind).fires(&context.with_events(&events)), Some(reason));
    }
}

#[test]
fn temporal_triggers_fire_because_time_has_passed() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let mut transcript = Transcript::default();
    transcript.push(Item { created_at: Some(Timestamp(0)), ..Item::user("ask", "hello") });
    let after = |count: i64| {
        TriggerContext::new(&transcript, MutationPoint::BetweenTurns).at(Timestamp(60_000 * count))
    };
    let every = EveryTrigger::new(minutes(5)).unwrap();
    assert_eq!(every.fires(&after(4)), None);
    assert_eq!(every.fires(&after(5)), Some(CompactionReason::Interval));
    assert_eq!(every.fires(&after(9).last_fired_at(Timestamp(300_000))), None);
    let idle = IdleTrigger::new(minutes(30)).unwrap();
    assert_eq!(idle.fires(&after(29)), None);
    assert_eq!(idle.fires(&after(30)), Some(CompactionReason::Idle));
}

#[test]
fn triggers_compose() {
    let transcript = Transcript::default();
    let context =
        |tokens| TriggerContext::new(&transcript, MutationPoint::AfterToolResult).with_tokens(at(tokens));
    let limit = || BudgetTrigger::at_limit(Tokens(80_000)).unwrap();
    let quoted = limit().and(NeedsFollowUpTrigger.or(PendingInputTrigger));
    assert_eq!(quoted.fires(&context(90_000)), None, "the turn is about to end by itself");
    assert!(quoted.fires(&context(90_000).needing_follow_up()).is_some());
    assert!(quoted.fires(&context(90_000).with_pending_input()).is_some());
    assert_eq!(quoted.fires(&context(70_000).needing_follow_up()), None);
    let spelled_out = AllTrigger::new(vec![
        Box::new(limit()),
        Box::new(AnyTrigger::new(vec![Box::new(NeedsFollowUpTrigger), Box::new(PendingInputTrigger)])),
    ]);
    assert!(spelled_out.fires(&context(90_000).needing_follow_up()).is_some());
    let quiet = NotTrigger::new(NeedsFollowUpTrigger, CompactionReason::Custom("quiet".into()));
    assert!(limit().and(quiet).fires(&context(90_000)).is_some());
    let own = FnTrigger::new("empty", |context: &TriggerContext<'_>| {
        context.is_empty().then_some(CompactionReason::Manual)
    });
    assert!(own.fires(&context(0)).is_some());
}

/// Prints far more than anybody reads.
#[derive(Debug)]
struct Print;

#[async_trait::async_trait]
impl Tool for Print {
    fn name(&self) -> &str {
        "print"
    }

    fn description(&self) -> &str {
        "Prints a lot."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn call(&self, _input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok((0..4_000).map(|line| format!("line {line} of the log\n")).collect::<String>().into())
    }
}

#[tokio::test]
async fn a_fresh_output_is_small_before_pressure_builds() {
    let eager = StrategyCompactor::builder()
        .compaction_trigger(ToolOutputTrigger::of_at_least(Tokens(2_000)))
        .strategy(TruncateToolOutputsStrategy::by_lines(24).unwrap().shorten_fresh())
        .build()
        .unwrap();
    let model = Scripted::new(|number| match number {
        0 => vec![Part::call("c", "print", &json!({}))],
        _ => vec![Part::text("I see.")],
    });
    let agent = Agent::builder().model(model.clone()).tool(Print).compactor(eager).build().unwrap();
    let session = agent.session("s");
    session.send("What does the log say?").await.unwrap();
    let sent = model.sent();
    let output = says(sent[1].last().unwrap());
    assert!(output.lines().count() <= 26, "{} lines", output.lines().count());
    assert!(session.view().tokens() < Tokens(1_000));
    assert!(session.view().transcript().tokens() > Tokens(20_000), "the record has all of it");
}

/// Rounds in which a tool answers at length.
fn rounds(count: usize, lines: usize) -> Transcript {
    let round = |n: usize| {
        let output = (0..lines).map(|line| format!("{n}: line {line}\n")).collect::<String>();
        [
            Item::user(format!("u{n}"), "and then?"),
            Item::assistant(format!("a{n}"), vec![Part::call(format!("c{n}"), "print", &json!({"n": n}))]),
            Item::tool(format!("t{n}"), ToolResult::text(format!("c{n}"), output)),
            Item::assistant(format!("e{n}"), vec![Part::text("I see.")]),
        ]
    };
    (0..count).flat_map(round).collect()
}

#[test]
fn old_tool_outputs_are_shortened_capped_or_cleared_and_stay_queryable() {
    let transcript = rounds(30, 1_000);
    let results = |view: &View| -> Tokens {
        view.iter().filter(|entry| entry.kind() == ItemKind::Tool).map(|entry| entry.tokens().total).sum()
    };
    let whole = results(&View::of(&transcript));
    let lines = seen(&transcript, &TruncateToolOutputsStrategy::by_lines(36).unwrap(), None);
    assert!(results(&lines).0 * 10 < whole.0, "{} of {whole}", results(&lines));
    let capped = seen(&transcript, &CapToolOutputsStrategy::new(Tokens(50_000), 400).unwrap(), None);
    assert!(results(&capped) < Tokens(60_000) && whole > Tokens(100_000), "{}", results(&capped));
    let cleared = seen(&transcript, &ClearToolResultsStrategy::new(3), None);
    let is_whole =
        |entry: &&foldback::Entry| entry.kind() == ItemKind::Tool && entry.tokens().total > Tokens(1_000);
    assert_eq!(cleared.iter().filter(is_whole).count(), 3);
    let oldest = cleared.get(2).unwrap();
    let handle = foldback::Handle::of_part(2, &oldest.item().id, 0);
    let Some(Recalled::Part(Part::ToolResult(result))) = cleared.recall(&handle) else {
        panic!("{}", says(oldest.item()))
    };
    assert!(result.call_id.as_str() == "c0");
}

#[test]
fn four_characters_are_a_token_in_the_crude_measure() {
    assert_eq!(CharsOver4Counter.count(&"x".repeat(400)), Tokens(100));
    assert_eq!(CharsOver4Counter.count("überall"), Tokens(2), "characters, not bytes");
    assert_eq!(CharsOver4Counter.count(""), Tokens(0));
    let mut transcript = Transcript::new(Arc::new(CharsOver4Counter));
    transcript.push(Item::user("u", "y".repeat(4_000)));
    assert!((1_000..1_010).contains(&transcript.tokens().0));
    assert_eq!(transcript.meter().counter().name(), "chars/4");
}

#[tokio::test]
async fn each_strategy_of_the_survey_is_one_that_a_compactor_takes() {
    for strategy in [
        Arc::new(PreserveUserMessagesStrategy::new()) as Arc<dyn Strategy>,
        Arc::new(PreserveRecentFractionStrategy::default()),
        Arc::new(PreserveRecentTurnsStrategy::default()),
    ] {
        let compactor = StrategyCompactor::builder()
            .item_count_trigger(10)
            .strategy(strategy)
            .backend(super::Counting::default())
            .build()
            .unwrap();
        let view = View::of(&lectures(20));
        let request = CompactionRequest::new("s", view, CompactionReason::Manual);
        let result = compactor.compact(request, &CompactionContext::default()).await.unwrap();
        assert_eq!(result.written_by, ["host"]);
        assert!(
            says(result.transcript.get(summary_at(&result.transcript)).unwrap().item())
                .contains("a summary of")
        );
    }
}
