use std::collections::HashSet;

use std::path::PathBuf;
use std::sync::Mutex;

use foldback_core::{Blob, ItemId, ItemKind, View};
use foldback_testkit::recipe;
use proptest::prelude::{
    Just, Strategy as Generator, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::json;

use super::super::chunk::{all_calls, chunks};
use super::super::folding::ROOM_TOKENS_MIN;
use super::*;

const CHUNKS_MAX: usize = 16;

/// 2026-11-19 03:37:00 in UTC.
const NOW: Timestamp = Timestamp(1_795_059_420_000);

fn room(call: u64) -> Room {
    in_chunks(call, CHUNKS_MAX)
}

fn in_chunks(call: u64, chunks_max: usize) -> Room {
    let call = Tokens(call);
    Room {
        call,
        all: all_calls(call, chunks_max),
        window: call,
        is_retry: false,
        handle: Handle::parse("@0123456789").unwrap(),
        session_id: "session".into(),
        now: NOW,
    }
}

fn a_move() -> impl Generator<Value = PreTrimMove> {
    let level = prop_oneof![
        (0u64..5_000).prop_map(|tokens| Level::Tokens(Tokens(tokens))),
        (-10.0..200.0).prop_map(Level::PercentOfUsable),
        (-10.0..200.0).prop_map(Level::PercentOfWindow),
    ];
    prop_oneof![
        (0usize..60, 0u64..1_000).prop_map(|(lines_max, tokens_max)| PreTrimMove::KeepLastLines {
            lines_max,
            tokens_max: Tokens(tokens_max),
            spill: Spill::Handle,
        }),
        level.prop_map(|tokens_max| PreTrimMove::CapOutputs { tokens_max }),
        (0usize..6).prop_map(|keep| PreTrimMove::ClearOldOutputs { keep }),
        (0u32..4).prop_map(|retries_max| PreTrimMove::DropOldestAndRetry { retries_max }),
        Just(PreTrimMove::DropAgentNewestFirst),
    ]
}

fn moves() -> impl Generator<Value = PreTrim> {
    prop_oneof![Just(PreTrim::default()), prop::collection::vec(a_move(), 0..7).prop_map(PreTrim::new)]
}

fn items(pieces: &[Piece]) -> Vec<&Arc<Item>> {
    pieces.iter().flat_map(|piece| &piece.items).collect()
}

fn is_left_out_line(item: &Item) -> bool {
    item.id.as_str() == "left-out"
}

proptest! {
    #![proptest_config(foldback_testkit::costly(5))]

    /// Nothing is ever sent that a known window cannot hold.
    #[test]
    fn every_chunk_fits_one_call_and_every_piece_is_in_one_chunk(
        recipe in recipe::recipe(),
        call in ROOM_TOKENS_MIN.0..20_000,
        chunks_max in 0usize..20,
        is_retry in any::<bool>(),
        pre_trim in moves(),
    ) {
        let transcript = recipe.transcript();
        let room = Room { is_retry, ..in_chunks(call, chunks_max) };
        let pieces = pre_trim.fit(transcript.items(), &room, &transcript);
        let meter = transcript.meter();
        let expected: Vec<Arc<Item>> = items(&pieces).into_iter().cloned().collect();
        let chunks = chunks(pieces, Tokens(call));
        prop_assert!(chunks.len() <= chunks_max.max(1), "{} chunks", chunks.len());
        for chunk in &chunks {
            let tokens: Tokens = chunk.iter().map(|item| meter.item(item).total).sum();
            prop_assert!(tokens.0 <= call, "{tokens} in a call of {call}");
        }
        prop_assert_eq!(chunks.concat(), expected);
    }

    /// Role asymmetry: what people said is the durable record.
    #[test]
    fn users_are_left_out_after_everything_else(
        recipe in recipe::recipe(),
        call in ROOM_TOKENS_MIN.0..4_000,
        is_retry in any::<bool>(),
        pre_trim in moves(),
    ) {
        let transcript = recipe.transcript();
        let room = Room { is_retry, ..room(call) };
        let pieces = pre_trim.fit(transcript.items(), &room, &transcript);
        let shown: HashSet<&ItemId> = items(&pieces).into_iter().map(|item| &item.id).collect();
        let users = transcript.items().filter(|item| item.kind == ItemKind::User);
        let is_missing = |item: &&Arc<Item>| readable(item).is_some() && !shown.contains(&item.id);
        if users.filter(is_missing).count() > 0 {
            let is_last = |piece: &Piece| piece.has_user() || piece.items.iter().all(|item| is_left_out_line(item));
            prop_assert!(pieces.iter().all(is_last));
        }
    }

    /// T2 holds for what a summariser sees as well.
    #[test]
    fn a_call_is_shown_with_its_result_or_not_at_all(
        recipe in recipe::orderly(),
        call in ROOM_TOKENS_MIN.0..4_000,
        pre_trim in moves(),
    ) {
        let transcript = recipe.transcript();
        let pieces = pre_trim.fit(transcript.items(), &room(call), &transcript);
        let pending: HashSet<&str> = transcript.pending_calls().map(|(_, id)| id.as_str()).collect();
        for chunk in chunks(pieces, Tokens(call)) {
            let calls: HashSet<&str> =
                chunk.iter().flat_map(|item| item.calls()).map(|(_, call)| call.id.as_str()).collect();
            let results: HashSet<&str> =
                chunk.iter().flat_map(|item| item.results()).map(|(_, result)| result.call_id.as_str()).collect();
            prop_assert!(results.is_subset(&calls));
            prop_assert!(calls.difference(&results).all(|call| pending.contains(call)));
        }
    }

    #[test]
    fn what_fits_as_it_is_is_shown_as_it_is(recipe in recipe::recipe(), pre_trim in moves()) {
        let transcript = recipe.transcript();
        let all = View::of(&transcript).tokens().0 + ROOM_TOKENS_MIN.0;
        let pieces = pre_trim.fit(transcript.items(), &room(all), &transcript);
        let expected: Vec<Arc<Item>> = transcript.items().filter_map(readable).collect();
        let shown: Vec<Arc<Item>> = items(&pieces).into_iter().cloned().collect();
        prop_assert_eq!(shown, expected);
    }
}

#[test]
fn thoughts_and_pictures_are_not_shown_and_nothing_else_is_lost() {
    let picture = foldback_core::Media {
        media_type: "image/png".into(),
        data: Blob::Base64("AAAA".into()),
        pixels: None,
    };
    let parts = vec![Part::reasoning("hm"), Part::text("said"), Part::Media(picture)];
    let item = Arc::new(Item::assistant("a", parts));
    let shown = readable(&item).unwrap();
    assert_eq!(shown.parts, [Part::text("said"), Part::text("[image/png]")]);
    assert_eq!(readable(&Arc::new(Item::assistant("b", vec![Part::reasoning("hm")]))), None);
    let plain = Arc::new(Item::user("u", "said"));
    assert!(Arc::ptr_eq(&readable(&plain).unwrap(), &plain), "what needs no change is not copied");
}

/// A task, so many rounds of a call and an output of so many lines, and a wish behind every tenth.
fn session(rounds: usize, lines: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Read everything."));
    for number in 0..rounds {
        let call = Part::call(format!("c{number}"), "Read", &json!({"path": number.to_string()}));
        transcript.push(Item::assistant(format!("a{number}"), vec![call]));
        let output: Vec<String> = (0..lines).map(|line| format!("line {line} of output {number}")).collect();
        let output = output.join("\n");
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(format!("c{number}"), output)));
        if number % 10 == 9 {
            transcript.push(Item::user(format!("u{number}"), "Go on."));
        }
    }
    transcript
}

/// What is shown of it: the ids, and the text of each output.
fn shown(transcript: &Transcript, room: &Room, pre_trim: &PreTrim) -> (Vec<String>, Vec<String>) {
    let pieces = pre_trim.fit(transcript.items(), room, transcript);
    let ids = items(&pieces).into_iter().map(|item| item.id.to_string()).collect();
    let outputs =
        items(&pieces).into_iter().flat_map(|item| item.results()).map(|(_, result)| text_of(result));
    (ids, outputs.collect())
}

fn lines_of(spill: Spill) -> PreTrimMove {
    PreTrimMove::KeepLastLines { lines_max: 40, tokens_max: Tokens(2_000), spill }
}

#[test]
fn the_defaults_are_those_of_the_documentation() {
    let moves = [
        PreTrimMove::KeepLastLines { lines_max: 50, tokens_max: Tokens(2_000), spill: Spill::Handle },
        PreTrimMove::CapOutputs { tokens_max: Level::Tokens(Tokens(50_000)) },
        PreTrimMove::ClearOldOutputs { keep: 3 },
        PreTrimMove::DropOldestAndRetry { retries_max: 4 },
        PreTrimMove::DropAgentNewestFirst,
    ];
    assert_eq!(PreTrim::default().moves(), moves);
    assert_eq!(super::super::SummaryLimits::default().pre_trim, PreTrim::default());
    assert_eq!(super::super::SummaryLimits::default().chunks_max, CHUNKS_MAX);
}

#[test]
fn the_defaults_take_away_more_the_less_room_there_is() {
    let transcript = session(40, 900);
    let shown = |call: u64| shown(&transcript, &room(call), &PreTrim::default());
    let cleared = |outputs: &[String]| outputs.iter().filter(|text| text.contains(" cleared at ")).count();
    let (ids, outputs) = shown(100_000);
    assert_eq!((ids.len(), outputs.len(), cleared(&outputs)), (85, 40, 0), "last lines are enough");
    let (ids, outputs) = shown(3_000);
    assert_eq!((ids.len(), outputs.len()), (85, 40), "several calls hold every item");
    assert!(outputs.iter().all(|text| text.contains("[folded @0123456789: ")));
    let (ids, outputs) = shown(1_500);
    assert!(ids.len() == 85 && (1..=37).contains(&cleared(&outputs)), "{}", cleared(&outputs));
    let (ids, _) = shown(400);
    assert!(ids.len() < 85 && ids[0] == "task", "{ids:?}");
    assert_eq!(ids.last().unwrap(), "left-out");
    assert!(ids.contains(&"u39".to_owned()), "the user's messages stay: {ids:?}");
}

#[test]
fn the_last_lines_of_every_output_stay_and_say_where_the_original_is() {
    let transcript = session(3, 900);
    let (ids, outputs) = shown(&transcript, &room(4_000), &PreTrim::new([lines_of(Spill::Handle)]));
    assert_eq!(ids.len(), 7);
    for (number, text) in outputs.iter().enumerate() {
        assert!(text.lines().count() <= 40, "{}", text.lines().count());
        assert!(text.starts_with("[folded @0123456789: "), "{text}");
        assert!(text.ends_with(&format!("line 899 of output {number}")), "{text}");
    }
    let long_line = [
        Item::assistant("a", vec![Part::call("c", "Read", &json!({}))]),
        Item::tool("t", ToolResult::text("c", "word ".repeat(60_000))),
    ];
    let (_, outputs) =
        shown(&long_line.into_iter().collect(), &room(4_000), &PreTrim::new([lines_of(Spill::Handle)]));
    assert!(Transcript::default().meter().text(&outputs[0]) <= 2_000, "one long line is cut as well");
}

#[test]
fn originals_go_to_the_files_that_the_host_writes_and_only_those_of_shortened_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().to_owned();
    let spill = Spill::to(move |output: &SpilledOutput<'_>| {
        assert_eq!(output.session_id.as_str(), "session");
        let path = into.join(format!("{}.txt", output.call_id));
        std::fs::write(&path, output.text)?;
        Ok(path)
    });
    let mut transcript = session(2, 900);
    transcript.push(Item::assistant("short", vec![Part::call("short", "Read", &json!({}))]));
    transcript.push(Item::tool("shorter", ToolResult::text("short", "no more than a line")));
    let (_, outputs) = shown(&transcript, &room(4_000), &PreTrim::new([lines_of(spill)]));
    for (number, text) in outputs[..2].iter().enumerate() {
        let path = folder.path().join(format!("c{number}.txt"));
        let first = text.lines().next().unwrap();
        assert_eq!(first, format!("[the whole output is in {}]", path.display()));
        assert!(text.contains("[folded @0123456789: "), "{text}");
        let original = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            original,
            text_of(transcript.get(number * 2 + 2).unwrap().item().results().next().unwrap().1)
        );
        assert!(Transcript::default().meter().text(text) <= 2_000);
    }
    assert_eq!(outputs[2], "no more than a line");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_sink_that_fails_leaves_the_handle() {
    let spill = Spill::to(|_: &SpilledOutput<'_>| Err(std::io::Error::other("the disk is full")));
    let (_, outputs) = shown(&session(2, 900), &room(4_000), &PreTrim::new([lines_of(spill)]));
    assert!(outputs.iter().all(|text| text.starts_with("[folded @0123456789: ")), "{outputs:?}");
}

#[test]
fn all_outputs_together_keep_so_many_tokens_or_a_share_of_the_window_the_newest_first() {
    let transcript = session(20, 20);
    let kept = |tokens_max: Level, window: u64| {
        let room = Room { window: Tokens(window), ..room(2_000) };
        let (ids, outputs) =
            shown(&transcript, &room, &PreTrim::new([PreTrimMove::CapOutputs { tokens_max }]));
        assert_eq!(ids.len(), transcript.len());
        let is_kept: Vec<bool> = outputs.iter().map(|text| text.starts_with("line 0 of output")).collect();
        assert!(is_kept.is_sorted(), "the newest are kept: {is_kept:?}");
        let cleared = outputs.iter().filter(|text| !text.starts_with("line"));
        for text in cleared {
            let line = "tokens cleared at 2026-11-19T03:37:00Z, @0123456789]";
            assert!(text.starts_with("[output of ") && text.ends_with(line), "{text}");
        }
        is_kept.iter().filter(|is_kept| **is_kept).count()
    };
    let one = transcript.meter().part(&transcript.get(2).unwrap().item().parts[0]);
    assert_eq!(kept(Level::Tokens(Tokens(u64::from(one) * 5 + 10)), 9_000), 5);
    assert_eq!(kept(Level::PercentOfWindow(25.0), u64::from(one) * 40 + 100), 10);
    assert_eq!(kept(Level::PercentOfUsable(0.0), 9_000), 0);
}

#[test]
fn old_outputs_are_cleared_until_the_rest_fits_and_the_newest_never() {
    let transcript = session(20, 20);
    let cleared = |call: u64, keep: usize| {
        let pre_trim = PreTrim::new([PreTrimMove::ClearOldOutputs { keep }]);
        let (_, outputs) = shown(&transcript, &in_chunks(call, 1), &pre_trim);
        let is_cleared: Vec<bool> = outputs
            .iter()
            .map(|text| text.ends_with("tokens cleared at 2026-11-19T03:37:00Z, @0123456789]"))
            .collect();
        assert!(is_cleared.is_sorted_by(|older, newer| older >= newer), "the oldest first: {is_cleared:?}");
        is_cleared.iter().filter(|is_cleared| **is_cleared).count()
    };
    let all = transcript.tokens().0;
    assert_eq!(cleared(all, 3), 0);
    let half = cleared(all / 2, 3);
    assert!((8..=17).contains(&half), "{half}");
    assert_eq!(cleared(1_000, 17), 3, "the newest are not cleared, whatever must go instead");
}

#[test]
fn agent_items_go_from_the_newest_and_after_a_refusal_from_the_oldest() {
    let transcript = session(20, 20);
    let room = in_chunks(transcript.tokens().0 / 2, 1);
    let agents = |room: &Room, moves: &[PreTrimMove]| -> Vec<usize> {
        let (ids, _) = shown(&transcript, room, &PreTrim::new(moves.iter().cloned()));
        for user in ["task", "u9", "u19", "left-out"] {
            assert!(ids.iter().any(|id| id == user), "{ids:?}");
        }
        ids.iter().filter_map(|id| id.strip_prefix('a')?.parse().ok()).collect()
    };
    let is_from = |range: std::ops::Range<usize>, kept: &[usize]| {
        assert!((4..15).contains(&kept.len()), "{kept:?}");
        assert_eq!(kept, range.collect::<Vec<_>>());
    };
    let (newest, oldest) =
        (PreTrimMove::DropAgentNewestFirst, PreTrimMove::DropOldestAndRetry { retries_max: 1 });
    let kept = agents(&room, std::slice::from_ref(&newest));
    is_from(0..kept.len(), &kept);
    let refused = Room { is_retry: true, ..room.clone() };
    let kept = agents(&refused, std::slice::from_ref(&oldest));
    is_from(20 - kept.len()..20, &kept);
    // Before any refusal nothing is known to be too long but by the window.
    let kept = agents(&room, &[oldest.clone(), newest.clone()]);
    is_from(0..kept.len(), &kept);
    let kept = agents(&refused, &[oldest.clone(), newest.clone()]);
    is_from(20 - kept.len()..20, &kept);
    let kept = agents(&refused, &[newest, oldest]);
    is_from(0..kept.len(), &kept);
}

#[test]
fn moves_are_made_in_the_hosts_order_and_none_once_everything_fits() {
    let transcript = session(20, 200);
    let spilled: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&spilled);
    let lines = lines_of(Spill::to(move |output: &SpilledOutput<'_>| {
        into.lock().unwrap().push(output.call_id.to_string());
        Ok(PathBuf::from("/spilled"))
    }));
    let cap = PreTrimMove::CapOutputs { tokens_max: Level::Tokens(Tokens(5_000)) };
    let room = in_chunks(8_000, 1);
    let (_, capped) = shown(&transcript, &room, &PreTrim::new([cap.clone(), lines.clone()]));
    assert_eq!(spilled.lock().unwrap().len(), 0, "the cap was enough");
    assert!(capped.last().unwrap().starts_with("line 0 of output 19"));
    let (_, cut) = shown(&transcript, &room, &PreTrim::new([lines, cap]));
    assert_eq!(spilled.lock().unwrap().len(), 20, "every output was long");
    assert!(cut.last().unwrap().starts_with("[the whole output is in /spilled]"));
}

#[test]
fn a_single_enormous_message_is_shortened_whatever_the_moves() {
    let mut transcript = session(2, 5);
    transcript.push(Item::user("huge", "a wish and its reasons. ".repeat(50_000)));
    for pre_trim in [PreTrim::new([]), PreTrim::default(), PreTrim::new([PreTrimMove::DropAgentNewestFirst])]
    {
        let room = in_chunks(4_000, 1);
        let pieces = pre_trim.fit(transcript.items(), &room, &transcript);
        assert!(total(&pieces) <= room.call, "{}", total(&pieces));
        let huge = items(&pieces).into_iter().find(|item| item.id.as_str() == "huge").unwrap();
        assert!(transcript.meter().item(huge).total > Tokens(1_000), "much of it is there");
    }
}
