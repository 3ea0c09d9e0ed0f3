use std::collections::HashSet;

use foldback_core::{ItemId, View};
use foldback_testkit::recipe;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::super::chunk::{CHUNKS_MAX, all_calls, chunks};
use super::super::folding::ROOM_TOKENS_MIN;
use super::*;

fn room(call: u64, handle: &Handle) -> Room<'_> {
    Room { call: Tokens(call), all: all_calls(Tokens(call)), handle }
}

fn handle() -> Handle {
    Handle::parse("@0123456789").unwrap()
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
    ) {
        let (transcript, handle) = (recipe.transcript(), handle());
        let pieces = fit(transcript.items(), &room(call, &handle), &transcript);
        let meter = transcript.meter();
        let expected: Vec<Arc<Item>> = items(&pieces).into_iter().cloned().collect();
        let chunks = chunks(pieces, Tokens(call));
        prop_assert!(chunks.len() <= CHUNKS_MAX, "{} chunks", chunks.len());
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
    ) {
        let (transcript, handle) = (recipe.transcript(), handle());
        let pieces = fit(transcript.items(), &room(call, &handle), &transcript);
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
    ) {
        let (transcript, handle) = (recipe.transcript(), handle());
        let pieces = fit(transcript.items(), &room(call, &handle), &transcript);
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
    fn what_fits_as_it_is_is_shown_as_it_is(recipe in recipe::recipe()) {
        let (transcript, handle) = (recipe.transcript(), handle());
        let all = View::of(&transcript).tokens().0 + ROOM_TOKENS_MIN.0;
        let pieces = fit(transcript.items(), &room(all, &handle), &transcript);
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

#[test]
fn long_outputs_are_cut_before_old_ones_and_old_ones_before_anything_is_left_out() {
    let handle = handle();
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Read everything."));
    for number in 0..40 {
        let call = Part::call(format!("c{number}"), "Read", &serde_json::json!({"path": number.to_string()}));
        transcript.push(Item::assistant(format!("a{number}"), vec![call]));
        let output = format!("line {number} of the output\n").repeat(900);
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(format!("c{number}"), output)));
    }
    let shown = |call: u64| {
        let pieces = fit(transcript.items(), &room(call, &handle), &transcript);
        let texts: Vec<String> = items(&pieces).iter().map(|item| format!("{:?}", item.parts)).collect();
        (pieces.len(), texts)
    };
    let (count, texts) = shown(100_000);
    assert_eq!(count, 41);
    assert!(texts.iter().all(|text| !text.contains("left out")), "cutting each output is enough");
    let (count, texts) = shown(60_000);
    assert_eq!(count, 41);
    assert!(texts[2].contains("left out") && !texts[80].contains("left out"), "the newest are kept");
    let (count, texts) = shown(400);
    assert!(count < 41 && texts[0].contains("Read everything."), "{count}");
    assert!(texts.last().unwrap().contains("items are left out"));
}
