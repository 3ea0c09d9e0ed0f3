//! When each preset compacts.

use foldback_core::{Trigger, *};

use crate::presets::{begun, policy, push_user, words};

fn fires(trigger: &dyn Trigger, tokens: u64) -> bool {
    let transcript = Transcript::default();
    let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded)
        .with_tokens(TokenBounds::exact(Tokens(tokens)));
    trigger.fires(&context).is_some()
}

#[track_caller]
fn assert_fires_at(name: &str, room: Room, level: u64) {
    let policy = policy(name);
    let trigger = policy.trigger(&policy.budget(room).expect("the window is large enough"));
    assert!(!fires(&*trigger, level - 1), "{name} does not fire below {level}");
    assert!(fires(&*trigger, level), "{name} fires at {level}");
}

#[test]
fn each_preset_fires_where_its_system_does() {
    let room = |thousands: u64| Room::new(Tokens(thousands * 1_000));
    let levels = [
        ("ladder", room(100), 85_000),
        ("phi", room(100).overhead(Tokens(4_000)), 81_001),
        ("codex", room(200), 180_000),
        ("codex-remote", room(200), 180_000),
        ("gemini", room(1_000), 500_000),
        ("opencode", room(200).output_max(Tokens(64_000)), 180_000),
        ("opencode", room(200).output_max(Tokens(8_000)), 192_000),
        ("goose", room(100), 80_000),
        ("anthropic-edit", room(200), 100_000),
        ("lcm", room(100), 75_000),
        ("openhands", room(100), 100_000),
        ("truncate", room(100), 100_000),
    ];
    levels.iter().for_each(|&(name, room, level)| assert_fires_at(name, room, level));
    for policy in Policy::all() {
        let is_listed = levels.iter().any(|(name, ..)| *name == policy.name());
        assert!(is_listed || policy.name() == "agentkit", "{} goes by tokens at no level", policy.name());
    }
}

#[test]
fn two_presets_count_items() {
    for (name, items_max) in [("agentkit", 12), ("openhands", 80)] {
        let policy = policy(name);
        let trigger = policy.trigger(&policy.budget(Room::new(Tokens(200_000))).unwrap());
        let mut transcript: Transcript = (0..items_max).map(|id| Item::user(id.to_string(), "hi")).collect();
        let asked = |transcript: &Transcript| {
            trigger.fires(&TriggerContext::new(transcript, MutationPoint::AfterToolResult))
        };
        assert_eq!(asked(&transcript), None, "{name}");
        push_user(&mut transcript, "one more");
        assert_eq!(asked(&transcript), Some(CompactionReason::TranscriptTooLong), "{name}");
    }
}

#[test]
fn goose_is_asked_once_for_each_prompt_and_the_others_inside_a_tool_loop_too() {
    let mut transcript = begun();
    push_user(&mut transcript, &words(2_000));
    for policy in Policy::all() {
        let trigger = policy.trigger(&policy.budget(Room::new(Tokens(1_000))).unwrap());
        let at = |point| trigger.fires(&TriggerContext::new(&transcript, point)).is_some();
        let goes_by_tokens = policy.name() != "agentkit";
        assert_eq!(at(MutationPoint::AfterTurnEnded), goes_by_tokens, "{}", policy.name());
        let in_loop = goes_by_tokens && policy.name() != "goose";
        assert_eq!(at(MutationPoint::AfterToolResult), in_loop, "{}", policy.name());
        assert!(at(MutationPoint::AfterRequestRejected), "{}", policy.name());
    }
}

#[test]
fn reported_usage_can_be_a_trigger_of_ones_own() {
    let rule = PolicyTrigger::Reported { percent: 80.0 };
    let own = Policy::new("own", vec![rule], vec![LadderStrategy::new().into()]).unwrap();
    let trigger = own.trigger(&own.budget(Room::new(Tokens(1_000))).unwrap());
    let transcript = Transcript::default();
    let context = TriggerContext::new(&transcript, MutationPoint::AfterToolResult);
    let reporting = |tokens| Usage { cached_tokens: Tokens(tokens), ..Usage::default() };
    assert_eq!(trigger.fires(&context.clone().with_reported(reporting(799))), None);
    assert!(trigger.fires(&context.with_reported(reporting(800))).is_some());
}
