//! What each preset keeps, and in which order.

use foldback_core::*;
use foldback_testkit::fixture::transcript;

use crate::presets::*;

/// A prompt of some tokens, a round, an answer.
fn push_turn(transcript: &mut Transcript, prompt_tokens: usize) {
    push_user(transcript, &words(prompt_tokens));
    push_round(transcript, &words(300));
    push_answer(transcript, &words(100));
}

#[test]
fn ladder_comes_down_to_half_of_what_is_usable_and_keeps_task_and_prompt() {
    let mut transcript = begun();
    (0..60).for_each(|_| push_turn(&mut transcript, 50));
    push_user(&mut transcript, "and now?");
    let after = compacted_in(&View::of(&transcript), "ladder", Room::new(Tokens(20_000)));
    assert!(after.tokens() <= Tokens(10_000) && after.tokens() > Tokens(8_000), "{}", after.tokens());
    assert!(order(&after).starts_with("s0 u1 ") && order(&after).ends_with("u241"), "{}", order(&after));
}

#[test]
fn agentkit_drops_reasoning_failed_pairs_and_all_but_the_newest_eight() {
    let transcript = transcript(
        r#"
        system  You are careful.
        context One crate.
        user    What is there?
        call    c3 list {}
        ok      c3 lib.rs
        say     One file.
        user    Change it
        call    c7 edit {"old":"a"}
        fail    c7 not found
        say     Again.
        call    c9 edit {"old":"b"}
        ok      c9 done
        call    c11 check {}
        ok      c11 fine
        say     It is changed.
        user    Now the tests
        think   One for each case.
        say     I will write them.
    "#,
    );
    let after = compacted(&transcript, "agentkit");
    assert_eq!(order(&after), "s0 c1 u6 a9 t10 a11 t12 a13 u14 a15");
    assert_eq!(after.items().last().unwrap().parts.len(), 1, "without its reasoning");
}

#[test]
fn phi_keeps_two_turns_verbatim_ten_with_fifty_lines_and_a_summary_between() {
    let mut transcript = begun();
    let lines: String = (0..120).map(|number| format!("line {number}\n")).collect();
    for _ in 0..16 {
        push_user(&mut transcript, &words(200));
        push_round(&mut transcript, lines.trim_end());
        push_answer(&mut transcript, "done");
    }
    let after = compacted(&transcript, "phi");
    // Turns are four items: the first two end before 9, the last ten begin at 25.
    let mut indices: Vec<String> = order(&after).split(' ').map(ToOwned::to_owned).collect();
    assert_eq!(indices.remove(9), "S");
    let numbers: Vec<usize> = indices.iter().map(|label| label[1..].parse().unwrap()).collect();
    assert_eq!(numbers, (0..9).chain(25..65).collect::<Vec<_>>());
    let summary = after.iter().find(|entry| entry.item().summary.is_some()).unwrap();
    assert!(summary.tokens().total <= Tokens(2_000));
    // Of 50 lines some are set aside for errors in what is hidden; here are none.
    for (anchor, lines_kept) in [(3, 120..=120), (7, 120..=120), (27, 46..=50), (63, 46..=50)] {
        let text = text_at(&after, anchor);
        assert!(lines_kept.contains(&text.lines().count()), "{anchor}: {}", text.lines().count());
        assert!(text.starts_with("line 0\n") && text.ends_with("line 119"), "head and tail of {anchor}");
    }
}

#[test]
fn codex_keeps_user_messages_newest_first_up_to_20k_then_the_summary() {
    let mut transcript = begun();
    transcript.push(Item::text("i1", ItemKind::Context, "One crate."));
    (0..5).for_each(|_| push_turn(&mut transcript, 6_000));
    let after = compacted(&transcript, "codex");
    // The oldest prompt is gone; of the next, what is left of 20,000 tokens.
    assert_eq!(order(&after), "s0 c1 u6 u10 u14 u18 S");
    let users = after.iter().filter(|entry| entry.kind() == ItemKind::User);
    let users: Tokens = users.map(|entry| entry.tokens().total).sum();
    assert!(users <= Tokens(20_000) && users > Tokens(19_500), "{users}");
    let cut = text_at(&after, 6);
    let (head, tail) = cut.split_once("[folded @").expect("it was cut in its middle");
    assert!(head.starts_with("word word") && tail.ends_with("word word"));
    assert!(head.len().abs_diff(tail.len()) < cut.len() / 4, "{} and {}", head.len(), tail.len());
    for whole in [10, 14, 18] {
        assert_eq!(text_at(&after, whole), words(6_000));
    }
}

#[test]
fn codex_remote_keeps_64k_of_user_messages() {
    let mut transcript = begun();
    (0..14).for_each(|_| push_turn(&mut transcript, 6_000));
    let after = compacted_in(&View::of(&transcript), "codex-remote", Room::new(Tokens(400_000)));
    let users = after.iter().filter(|entry| entry.kind() == ItemKind::User);
    let users: Tokens = users.map(|entry| entry.tokens().total).sum();
    assert!(users <= Tokens(64_000) && users > Tokens(63_500), "{users}");
    assert!(order(&after).ends_with(" u49 u53 S"), "{}", order(&after));
}

#[test]
fn codex_keeps_the_unit_in_flight_because_of_t4() {
    let mut transcript = begun();
    (0..3).for_each(|_| push_turn(&mut transcript, 100));
    push_user(&mut transcript, "go on");
    (0..4).for_each(|_| push_round(&mut transcript, &words(500)));
    assert_eq!(order(&compacted(&transcript, "codex")), "s0 u1 u5 u9 u13 S a20 t21");
}

#[test]
fn gemini_keeps_the_tail_from_the_first_user_message_at_or_after_70_percent() {
    let mut transcript = begun();
    (0..10).for_each(|_| push_turn(&mut transcript, 200));
    // Ten equal turns of four items: 70% lie before the eighth.
    let after = compacted(&transcript, "gemini");
    assert_eq!(order(&after), format!("s0 S {}", range("auat", 29..41)));
}

#[test]
fn gemini_takes_its_share_of_the_view_also_the_second_time() {
    let mut transcript = begun();
    (0..20).for_each(|_| push_turn(&mut transcript, 200));
    let first = compacted(&transcript, "gemini");
    assert!(compacted_in(&first, "gemini", Room::new(Tokens(200_000))).items().eq(first.items()));
    (0..4).for_each(|_| push_turn(&mut transcript, 200));
    let grown = View::through(&transcript, first.overlay()).unwrap();
    let second = compacted_in(&grown, "gemini", Room::new(Tokens(200_000)));
    let tail = second.iter().filter(|entry| entry.item().summary.is_none() && entry.anchor() > 0);
    let tail: Tokens = tail.map(|entry| entry.tokens().total).sum();
    let share = tail.0 as f64 / grown.tokens().0 as f64;
    assert!((0.2..=0.3).contains(&share), "{share}");
}

#[test]
fn gemini_leaves_a_running_tool_loop_without_a_user_message_in_its_tail_alone() {
    let mut transcript = begun();
    push_user(&mut transcript, "do it all");
    (0..50).for_each(|_| push_round(&mut transcript, &words(300)));
    let running = compacted(&transcript, "gemini");
    assert_eq!(running.len(), transcript.len());
    push_answer(&mut transcript, &words(20));
    assert_eq!(order(&compacted(&transcript, "gemini")), "s0 u1 S a102", "over, it is folded");
}

#[test]
fn opencode_keeps_whole_turns_within_a_quarter_and_splits_the_one_that_does_not_fit() {
    let mut transcript = begun();
    for _ in 0..8 {
        push_user(&mut transcript, &words(1_000));
        (0..4).for_each(|_| push_round(&mut transcript, &words(480)));
    }
    push_answer(&mut transcript, "done");
    // 25% of 32,000 usable is 8,000: two turns of about 3,000 and some units of a third.
    let room = Room::new(Tokens(40_000)).output_max(Tokens(8_000));
    let after = compacted_in(&View::of(&transcript), "opencode", room);
    let tail: Vec<usize> =
        after.iter().filter(|entry| entry.item().summary.is_none()).map(Entry::anchor).skip(1).collect();
    let start = tail[0];
    assert_eq!(tail, (start..transcript.len()).collect::<Vec<_>>(), "one tail without gaps");
    assert_eq!(order(&after)[..5], *"s0 S ", "{}", order(&after));
    let end = transcript.len();
    assert!(transcript.tokens_of(start..end) <= Tokens(8_000));
    assert!(transcript.tokens_of(start - 2..end) > Tokens(8_000), "one more unit would have fit");
    assert_eq!(after.get(2).unwrap().kind(), ItemKind::Assistant, "the split turn lost its prompt");
}

#[test]
fn opencode_clamps_its_tail_to_2k_and_15k() {
    let mut transcript = begun();
    (0..80).for_each(|_| push_turn(&mut transcript, 100));
    for (window, tokens_max) in [(1_000_000, 15_000), (4_000, 2_000)] {
        let after = compacted_in(&View::of(&transcript), "opencode", Room::new(Tokens(window)));
        let tail = after.iter().filter(|entry| entry.item().summary.is_none() && entry.anchor() > 0);
        let tail: u64 = tail.map(|entry| entry.tokens().total.0).sum();
        assert!(tail <= tokens_max && tail > tokens_max - 500, "{tail} of {tokens_max}");
    }
}

#[test]
fn goose_keeps_a_summary_and_the_last_user_text() {
    let mut transcript = begun();
    (0..6).for_each(|_| push_turn(&mut transcript, 100));
    push_user(&mut transcript, "and now?");
    assert_eq!(order(&compacted(&transcript, "goose")), "s0 S u25");
}

#[test]
fn openhands_keeps_four_items_a_summary_and_comes_down_to_half_of_eighty() {
    let mut transcript = begun();
    push_user(&mut transcript, "do it all");
    (0..39).for_each(|_| push_round(&mut transcript, &words(50)));
    push_answer(&mut transcript, "done");
    assert_eq!(transcript.len(), 81);
    let after = compacted(&transcript, "openhands");
    assert_eq!(order(&after), format!("s0 u1 a2 t3 S {}", range("at", 46..81)));
    assert_eq!(after.len(), 40);
}

#[test]
fn openhands_cuts_only_at_legal_positions() {
    let mut transcript = begun();
    push_user(&mut transcript, "do it all");
    (0..40).for_each(|_| push_round(&mut transcript, &words(50)));
    assert_eq!(transcript.len(), 82);
    // The newest 35 begin with a result at 47, whose call stays with it.
    let after = compacted(&transcript, "openhands");
    assert_eq!(order(&after), format!("s0 u1 a2 t3 S {}", range("at", 46..82)));
}

#[test]
fn lcm_keeps_the_newest_64_messages_behind_one_summary() {
    let mut transcript = begun();
    (0..30).for_each(|_| push_turn(&mut transcript, 100));
    let after = compacted(&transcript, "lcm");
    assert_eq!(after.len(), 1 + 1 + 64);
    assert!(order(&after).starts_with("s0 S u57 a58 t59 a60 "), "{}", order(&after));
}

#[test]
fn truncate_keeps_the_newest_messages_that_fit_the_window() {
    let mut transcript = begun();
    (0..10).for_each(|_| push_turn(&mut transcript, 100));
    let (system, last_two) = (transcript.tokens_of(0..1), transcript.tokens_of(33..41));
    let after = compacted_in(&View::of(&transcript), "truncate", Room::new(system + last_two));
    assert_eq!(order(&after), format!("s0 {}", range("auat", 33..41)));
    let after = compacted_in(&View::of(&transcript), "truncate", Room::new(transcript.tokens()));
    assert_eq!(after.len(), transcript.len());
}
