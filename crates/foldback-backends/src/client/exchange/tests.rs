//! Streams in any pieces, and bytes that are no stream.

use foldback_core::{FinishReason, Part};
use futures_util::stream;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A stream as it stands on the wire, with what servers put between events.
fn wire(text: &str, line_end: &str) -> Vec<u8> {
    let chunk = |content: &str| json!({"id":"a1","choices":[{"delta":{"content":content}}]}).to_string();
    let end = json!({"id":"a1","choices":[{"delta":{},"finish_reason":"stop"}]}).to_string();
    let lines = [
        ": keep-alive".to_owned(),
        String::new(),
        format!("data: {}", chunk(text)),
        String::new(),
        "event: ping".to_owned(),
        format!("data:{}", chunk("é→🦀")),
        String::new(),
        format!("data: {end}"),
        String::new(),
        "data: [DONE]".to_owned(),
        String::new(),
        String::new(),
    ];
    lines.join(line_end).into_bytes()
}

fn read(pieces: Vec<Vec<u8>>) -> (Result<Answer, Fault>, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut told = String::new();
    let mut on_delta = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            told.push_str(text);
        }
    };
    let bytes = stream::iter(pieces.into_iter().map(Ok));
    let idle_timeout = Duration::from_secs(60);
    let answer = runtime.block_on(read_events(Protocol::OpenAiChat, bytes, idle_timeout, &mut on_delta));
    (answer, told)
}

/// Cuts bytes at these places, wherever they are.
fn pieces(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    #[test]
    fn a_stream_is_the_same_answer_wherever_it_is_cut_into_pieces(
        text in ".{0,12}",
        line_end in prop::sample::select(vec!["\n", "\r\n"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = wire(&text, line_end);
        let (answer, told) = read(pieces(&bytes, &cuts));
        let answer = answer.expect("the stream is complete");
        let all = format!("{text}é→🦀");
        prop_assert_eq!(&told, &all);
        prop_assert_eq!(answer.item.parts, [Part::text(all.as_str())]);
        prop_assert_eq!(answer.finish, Some(FinishReason::Stop));
    }

    #[test]
    fn a_stream_that_is_cut_short_is_no_answer(cut in any::<prop::sample::Index>()) {
        let bytes = wire("text", "\n");
        let finish = bytes.windows(6).position(|window| window == b"\"stop\"").expect("it has an end");
        let (answer, _) = read(vec![bytes[..cut.index(finish)].to_vec()]);
        prop_assert!(matches!(answer, Err(Fault::Answer(AnswerError::Malformed { .. }))), "{answer:?}");
    }

    #[test]
    fn bytes_that_are_no_stream_are_an_error(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
        let (answer, _) = read(chunks);
        prop_assert!(answer.is_err());
    }
}

#[test]
fn an_event_that_does_not_end_is_an_error_that_says_so() {
    let (answer, _) = read(vec![vec![b'x'; 4_096]; EVENT_BYTES_MAX / 4_096 + 1]);
    let Err(Fault::Answer(AnswerError::Malformed { why })) = answer else { panic!("{answer:?}") };
    assert_eq!(why, format!("an event of it does not end within {EVENT_BYTES_MAX} bytes"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_shows_that_it_is_alive_is_not_waited_for() {
    let every = Duration::from_secs(15);
    let alive = stream::repeat(()).then(|()| async move {
        tokio::time::sleep(every).await;
        Ok(b": keep-alive\n\n")
    });
    let (idle_timeout, begun) = (Duration::from_secs(60), Instant::now());
    let answer = read_events(Protocol::OpenAiChat, alive, idle_timeout, &mut |_| {}).await;
    assert!(matches!(answer, Err(Fault::TooLate)), "{answer:?}");
    assert!(begun.elapsed() <= idle_timeout + every, "{:?}", begun.elapsed());
}
