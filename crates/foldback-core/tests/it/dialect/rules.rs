//! Each rule: what it rejects and what it leaves alone, dialect by dialect.

use std::sync::Arc;

use foldback_core::Rule::{
    CacheMarkers, DuplicateCallId, DuplicateResult, EmptyText, FirstRole, MediaNotAllowed, MediaOverLimit,
    MisplacedPart, ReasoningLast, ResultNotAdjacent, ResultOrder, ResultWithoutCall, UnansweredCall,
};
use foldback_core::dialect::{
    ANTHROPIC_IMAGE_BYTES_MAX, ANTHROPIC_IMAGE_COUNT_MAX, ANTHROPIC_INLINE_BYTES_MAX, Dialect,
    GEMINI_IMAGE_COUNT_MAX, GEMINI_INLINE_BYTES_MAX, OPENAI_IMAGE_COUNT_MAX, OPENAI_INLINE_BYTES_MAX,
};
use foldback_core::{Item, ItemKind, Part, Transcript, check, repair};

use crate::dialect::shape::{
    ANTHROPIC, CHAT, COMMON, EVERY, GEMINI, RESPONSES, accepts, image, items, rejects, rejects_request,
};

#[test]
fn an_ordinary_conversation_is_valid_everywhere() {
    accepts(&EVERY, "");
    accepts(&EVERY, "s u a u a:.,+x,+y t:=x t:=y a");
    accepts(&EVERY, "s d c u a:+x,+y t:=x,=y a n u");
    accepts(&EVERY, "u a:q,.");
}

#[test]
fn a_call_is_never_left_unanswered_once_the_conversation_went_on() {
    rejects(&EVERY, "u a:+x u", &[(1, UnansweredCall)]);
    rejects(&EVERY, "u a:+x,+y t:=x u", &[(1, UnansweredCall)]);
    rejects(&EVERY, "u a:+x t:=x a:+y,+z t:=z a", &[(3, UnansweredCall)]);
}

#[test]
fn calls_at_the_very_end_may_wait_until_the_request_is_sent() {
    for shape in ["u a:+x", "u a:+x,+y t:=x", "u a:+y a:+x", "u a:+x u:", "u a:+x u: a:+y t:"] {
        accepts(&EVERY, shape);
    }
    accepts(&[COMMON, CHAT, RESPONSES], "u a:+x u:0");
    // Where instructions have a field of their own, they follow nothing.
    accepts(&[COMMON, ANTHROPIC, GEMINI], "u a:+x s d");
    accepts(&[COMMON, CHAT, RESPONSES, GEMINI], "u a:+x t");
    rejects_request(&EVERY, "u a:+x", &[(1, UnansweredCall)]);
    rejects_request(&EVERY, "u a:+x,+y t:=y", &[(1, UnansweredCall)]);
    rejects_request(&EVERY, "u a:+x t:=x", &[]);
    // Where results may come late, one of them does not excuse the others.
    accepts(&[COMMON, RESPONSES], "u a:+x u t:=x");
    rejects(&[COMMON, RESPONSES], "u a:+x,+y u t:=x", &[(1, UnansweredCall)]);
}

#[test]
fn a_call_that_something_follows_waits_no_more() {
    let over = |dialects: &[Option<Dialect>], last: &str| {
        rejects(dialects, &format!("u a:+x {last}"), &[(1, UnansweredCall)]);
        rejects(dialects, &format!("u a:+x,+y t:=x {last}"), &[(1, UnansweredCall)]);
        rejects_request(dialects, &format!("u a:+x {last}"), &[(1, UnansweredCall)]);
    };
    for last in ["u", "a", "c", "n", "a:q"] {
        over(&EVERY, last);
    }
    over(&[CHAT, RESPONSES], "s");
    over(&[CHAT, RESPONSES], "d");
    over(&[ANTHROPIC], "t");
    rejects(&EVERY, "u a:+x,+y t:=x t:=z", &[(1, UnansweredCall), (3, ResultWithoutCall)]);
}

#[test]
fn a_result_is_never_left_without_its_call() {
    rejects(&EVERY, "u a t:=x", &[(2, ResultWithoutCall)]);
    rejects(&EVERY, "u a:+x t:=x,=y", &[(2, ResultWithoutCall)]);
    rejects(&[COMMON, RESPONSES], "u t:=x a:+x t:=x", &[(1, ResultWithoutCall)]);
}

#[test]
fn a_call_is_answered_once() {
    rejects(&EVERY, "u a:+x t:=x t:=x", &[(3, DuplicateResult)]);
    rejects(&EVERY, "u a:+x t:=x,=x a", &[(2, DuplicateResult)]);
    rejects(&[COMMON, CHAT, GEMINI], "u a:+x t:=x a:+x t:=x,=x", &[(4, DuplicateResult)]);
}

#[test]
fn a_call_id_is_not_used_again_where_that_is_rejected() {
    let again = "u a:+x t:=x a:+x t:=x";
    accepts(&[COMMON, CHAT, GEMINI], again);
    rejects(&[ANTHROPIC, RESPONSES], again, &[(3, DuplicateCallId), (4, DuplicateCallId)]);
}

#[test]
fn two_open_calls_never_share_an_id() {
    let both = [(1, DuplicateCallId), (2, DuplicateCallId)];
    rejects(&[COMMON, ANTHROPIC, CHAT, RESPONSES], "u a:+x,+x t:=x t:=x", &both);
}

#[test]
fn a_repeated_id_in_flight_waits_for_the_result_that_bears_it() {
    accepts(&EVERY, "u a:+x t:=x a:+x");
    let waiting = [(3, UnansweredCall), (3, DuplicateCallId)];
    rejects_request(&[ANTHROPIC, RESPONSES], "u a:+x t:=x a:+x", &waiting);
}

#[test]
fn results_directly_follow_their_message() {
    let far = "u a:+x u t:=x";
    accepts(&[COMMON, RESPONSES], far);
    rejects(&[ANTHROPIC, CHAT, GEMINI], far, &[(3, ResultNotAdjacent)]);
    let next_round = "u a:+x,+y t:=x a:+z t:=y,=z";
    accepts(&[COMMON, RESPONSES], next_round);
    rejects(&[ANTHROPIC, CHAT, GEMINI], next_round, &[(4, ResultNotAdjacent)]);
    // Consecutive assistant items are one message.
    accepts(&EVERY, "u a:+x a:+y t:=x t:=y");
    accepts(&EVERY, "u a:+x u: a:+y t:=x t: t:=y");
}

#[test]
fn an_aside_between_a_call_and_its_result_matters_to_chat_only() {
    for shape in ["u a:+x c t:=x", "u a:+x n t:=x", "u a:+x s t:=x", "u a:+x d t:=x"] {
        accepts(&[COMMON, ANTHROPIC, RESPONSES, GEMINI], shape);
        rejects(&[CHAT], shape, &[(3, ResultNotAdjacent)]);
    }
    // Between two assistant items it makes two messages of them.
    rejects(&[ANTHROPIC, CHAT, GEMINI], "u a:+x c a:+y t:=x t:=y", &[(4, ResultNotAdjacent)]);
    accepts(&[ANTHROPIC, GEMINI], "u a:+x s a:+y t:=x t:=y");
}

#[test]
fn results_come_in_the_order_of_their_calls_in_gemini() {
    for shape in ["u a:+x,+y t:=y t:=x", "u a:+x,+y,+z t:=z t:=y t:=x a"] {
        accepts(&[COMMON, ANTHROPIC, CHAT, RESPONSES], shape);
    }
    rejects(&[GEMINI], "u a:+x,+y t:=y t:=x", &[(2, ResultOrder), (3, ResultOrder)]);
    rejects(&[GEMINI], "u a:+x,+y,+z t:=z t:=y t:=x a", &[(2, ResultOrder), (4, ResultOrder)]);
    rejects(&[GEMINI], "u a:+x,+y t:=y,=x", &[(2, ResultOrder), (2, ResultOrder)]);
    // One is missing in the middle of an item.
    rejects(&[GEMINI], "u a:+x,+y,+z t:=x,=z u", &[(1, UnansweredCall), (2, ResultOrder)]);
    accepts(&[GEMINI], "u a:+x,+y,+z t:=x,=z");
}

#[test]
fn the_first_message_has_a_users_authority() {
    for shape in ["a", "s a u", "a:+x t:=x", "u: a"] {
        let first = shape.split(' ').position(|word| word.starts_with('a')).unwrap();
        accepts(&[COMMON, CHAT, RESPONSES], shape);
        rejects(&[ANTHROPIC, GEMINI], shape, &[(first, FirstRole)]);
    }
    accepts(&EVERY, "c a");
    accepts(&EVERY, "s d n a");
}

#[test]
fn no_text_is_empty() {
    rejects(&[ANTHROPIC, GEMINI], "u:0,. a:.,0", &[(0, EmptyText), (1, EmptyText)]);
    accepts(&[COMMON, CHAT, RESPONSES], "u:0,. a:.,0");
    rejects(&[ANTHROPIC], "u:_,.", &[(0, EmptyText)]);
    accepts(&[COMMON, CHAT, RESPONSES, GEMINI], "u:_,.");
    // An item of nothing else will not be sent, so it comes between nothing.
    rejects(&[ANTHROPIC], "u a:+x u:_ t:=x", &[(2, EmptyText)]);
}

#[test]
fn parts_stand_where_they_belong() {
    rejects(&EVERY, "u:.,+x a", &[(0, MisplacedPart)]);
    rejects(&EVERY, "u:.,=x a", &[(0, MisplacedPart)]);
    rejects(&EVERY, "u a:.,=x", &[(1, MisplacedPart)]);
    rejects(&EVERY, "u:.,q", &[(0, MisplacedPart)]);
    rejects(&EVERY, "u a:+x t:=x,r", &[(2, MisplacedPart)]);
    rejects(&EVERY, "s:.,=x u", &[(0, MisplacedPart)]);
    // A misplaced half of a pair is no half of a pair.
    rejects(&EVERY, "u:.,+x t:=x", &[(0, MisplacedPart), (1, ResultWithoutCall)]);
}

#[test]
fn sealed_reasoning_is_followed_by_what_it_led_to() {
    accepts(&EVERY, "u a:r,.");
    accepts(&EVERY, "u a:r a:+x t:=x");
    for shape in ["u a:.,r", "u a:.,r,q u", "u a:.,r c a"] {
        accepts(&[COMMON, CHAT, GEMINI], shape);
        rejects(&[ANTHROPIC, RESPONSES], shape, &[(1, ReasoningLast)]);
    }
    accepts(&EVERY, "u a:.,q");
    accepts(&[ANTHROPIC], "u a:r s a");
    rejects(&[RESPONSES], "u a:r s a", &[(1, ReasoningLast)]);
    rejects(&[ANTHROPIC], "u a:.,r a:_", &[(1, ReasoningLast), (2, EmptyText)]);
}

#[test]
fn media_stands_where_it_is_accepted() {
    accepts(&EVERY, "u:.,i a");
    accepts(&[COMMON, GEMINI], "u a:.,i");
    rejects(&[ANTHROPIC, CHAT, RESPONSES], "u a:.,i", &[(1, MediaNotAllowed)]);
    accepts(&[COMMON, ANTHROPIC, RESPONSES, GEMINI], "u a:+x t:=x/i");
    rejects(&[CHAT], "u a:+x t:=x/i", &[(2, MediaNotAllowed)]);
    accepts(&[COMMON, CHAT, RESPONSES, GEMINI], "u:.,b");
    rejects(&[ANTHROPIC], "u:.,b", &[(0, MediaNotAllowed)]);
}

fn with_image(bytes: usize) -> Arc<Item> {
    Arc::new(Item::new("i", ItemKind::User, vec![Part::Media(image("image/png", bytes))]))
}

#[test]
fn an_image_is_not_larger_than_its_limit() {
    let at_limit = [with_image(ANTHROPIC_IMAGE_BYTES_MAX)];
    let over_limit = [with_image(ANTHROPIC_IMAGE_BYTES_MAX + 1)];
    assert!(check(&at_limit, ANTHROPIC).is_empty());
    assert_eq!(check(&over_limit, ANTHROPIC)[0].rule, MediaOverLimit);
    assert!(check(&over_limit, CHAT).is_empty());
    let repaired = repair(&over_limit, ANTHROPIC);
    let Part::Text(placeholder) = &repaired.items[0].parts[0] else { panic!("not a placeholder") };
    assert_eq!(placeholder.as_str(), "[image/png omitted: larger than 5242880 bytes]");
}

#[test]
fn where_there_are_too_many_images_the_oldest_are_named() {
    let over = |count_max: usize, dialect: Option<Dialect>| {
        let items = vec![with_image(8); count_max + 2];
        let named: Vec<usize> = check(&items, dialect).iter().map(|v| v.item_index).collect();
        assert_eq!(named, [0, 1]);
        assert!(check(&items[2..], dialect).is_empty());
    };
    for dialect in Dialect::ALL {
        let count_max = match dialect {
            Dialect::Anthropic => ANTHROPIC_IMAGE_COUNT_MAX,
            Dialect::OpenaiChat | Dialect::OpenaiResponses => OPENAI_IMAGE_COUNT_MAX,
            Dialect::Gemini => GEMINI_IMAGE_COUNT_MAX,
        };
        over(count_max, Some(dialect));
    }
}

#[test]
fn inline_data_stays_within_the_request() {
    for dialect in Dialect::ALL {
        let bytes_max = match dialect {
            Dialect::Anthropic => ANTHROPIC_INLINE_BYTES_MAX,
            Dialect::OpenaiChat | Dialect::OpenaiResponses => OPENAI_INLINE_BYTES_MAX,
            Dialect::Gemini => GEMINI_INLINE_BYTES_MAX,
        };
        // Small enough that no single one is too large for Anthropic.
        let eighths = vec![with_image(bytes_max / 8); 8];
        assert!(check(&eighths, Some(dialect)).is_empty(), "{dialect:?}");
        let over: Vec<_> = eighths.iter().cloned().chain([with_image(8)]).collect();
        let named: Vec<_> = check(&over, Some(dialect)).iter().map(|v| (v.item_index, v.rule)).collect();
        assert_eq!(named, [(0, MediaOverLimit)], "{dialect:?}");
    }
}

#[test]
fn the_newest_four_cache_markers_count() {
    let five = "s! u! a! u! a u!";
    rejects(&[ANTHROPIC], five, &[(0, CacheMarkers)]);
    accepts(&[COMMON, CHAT, RESPONSES, GEMINI], five);
    accepts(&[ANTHROPIC], "s! u! a! u! a u");
    accepts(&[ANTHROPIC], "s! u! a! u! u!: a");
}

#[test]
fn a_violation_says_what_and_where() {
    let violations = check(&items("u a:.,+x u"), ANTHROPIC);
    assert_eq!(
        violations[0].to_string(),
        "unanswered-call: call x has no result (part 1 of item i1 at index 1)"
    );
}

#[test]
fn conversations_as_agents_have_them_are_plain_and_odd_ones_are_not() {
    let is_plain = |text: &str| items(text).into_iter().collect::<Transcript>().is_plain();
    for text in [
        "",
        "s u a",
        "s c u a:q,.,+x t:=x a:. u! a",
        "u a:+x,+y t:=x,=y a:+z u: t:=z a",
        "u a:+x a:+y t:=x t:=y c n u a:r a:.",
    ] {
        assert!(is_plain(text), "{text}");
    }
    for text in [
        "a u",
        "u a:+x",
        "u a:+x u t:=x",
        "u a:+x,+y t:=y,=x",
        "u a:+x t:=x a:+x t:=x",
        "u a:. t:=x",
        "u a:+x t:=x/i",
        "u:_ a",
        "u a:q u",
        "u:+x",
        "u! u! u! u! u!",
    ] {
        assert!(!is_plain(text), "{text}");
    }
}
