//! What repairs look like.

use std::sync::Arc;

use foldback_core::{Part, RepairAction, ResultPart, Rule, ToolResult, repair};

use crate::dialect::shape::{ANTHROPIC, CHAT, COMMON, EVERY, GEMINI, RESPONSES, items, repaired, shape};

#[test]
fn an_unanswered_call_gets_an_error_next_to_it() {
    for dialect in EVERY {
        let repaired = repair(&items("u a:+x,+y t:=x u"), dialect);
        let answered = match dialect {
            COMMON | RESPONSES => "u a:+x,+y t:=y t:=x u",
            _ => "u a:+x,+y t:=x t:=y u",
        };
        assert_eq!(shape(&repaired.items), answered);
        let results = repaired.items.iter().flat_map(|item| item.results());
        let errors: Vec<_> = results.filter(|(_, result)| result.is_error).collect();
        assert_eq!(errors[0].1, &ToolResult::error("y", "no result was recorded for this call"));
    }
}

#[test]
fn a_stray_result_is_quoted_behind_the_results_it_stands_among() {
    let repaired = repair(&items("u a:+x,+y t:=x t:=z t:=y a"), CHAT);
    assert_eq!(shape(&repaired.items), "u a:+x,+y t:=x t: t:=y c:.,. a");
    let quote = &repaired.items[5];
    assert_eq!(quote.id.as_str(), "i3.repair-1");
    assert_eq!(quote.parts, [Part::text("[result of call z]"), Part::text("answer to z")]);
    let [taken, quoted] = &repaired.repairs[..] else { panic!("{:?}", repaired.repairs) };
    assert_eq!((taken.item_index, taken.action), (3, RepairAction::Rewritten));
    assert_eq!((quoted.item_index, quoted.action), (5, RepairAction::Inserted));
    assert_eq!(quoted.rule, Rule::ResultWithoutCall);
    assert_eq!(
        quoted.to_string(),
        "result-without-call: quoted the results that i3 held (item i3.repair-1 at index 5)"
    );
}

#[test]
fn a_repeated_id_is_renamed_in_the_call_and_in_its_result() {
    assert_eq!(
        repaired("u a:+x t:=x a:+x,+x-2 t:=x t:=x-2", ANTHROPIC),
        "u a:+x t:=x a:+x-3,+x-2 t:=x-3 t:=x-2"
    );
}

#[test]
fn a_distant_result_moves_up_as_it_is() {
    let items = items("u a:+x,+y t:=x u t:=y a");
    let repaired = repair(&items, ANTHROPIC);
    assert_eq!(shape(&repaired.items), "u a:+x,+y t:=x t:=y u a");
    assert!(Arc::ptr_eq(&items[4], &repaired.items[3]));
    assert_eq!(repaired.repairs.len(), 1);
    assert_eq!(repaired.repairs[0].action, RepairAction::Moved);
}

#[test]
fn a_distant_result_leaves_its_companions_where_they_are() {
    assert_eq!(repaired("u a:+x,+y t:=x a:+z t:=y,=z", ANTHROPIC), "u a:+x,+y t:=x t:=y a:+z t:=z");
    assert_eq!(repaired("u a:+x,+y u t:=x,=y", CHAT), "u a:+x,+y t:=x,=y u");
}

#[test]
fn results_change_places_where_gemini_counts_them() {
    assert_eq!(repaired("u a:+x,+y t:=y t:=x", GEMINI), "u a:+x,+y t:=x t:=y");
    assert_eq!(repaired("u a:+x,+y t:=y,=x a", GEMINI), "u a:+x,+y t:=x,=y a");
    assert_eq!(repaired("u a:+x,+y,+z t:=x,=z u", GEMINI), "u a:+x,+y,+z t:=x,=y,=z u");
    assert_eq!(repaired("u a:+x,+y t:=y u t:=x", GEMINI), "u a:+x,+y t:=x t:=y u");
}

#[test]
fn an_assistant_first_is_introduced() {
    assert_eq!(repaired("s a u", ANTHROPIC), "s c a u");
    assert_eq!(repaired("t:=x a", GEMINI), "t: c:.,. a");
}

#[test]
fn what_a_tool_wrote_never_gains_the_operators_authority() {
    for dialect in EVERY {
        assert_eq!(repaired("s:.,=x u a", dialect), "s c:.,. u a");
        assert_eq!(repaired("u:.,=x a", dialect), "u:.,.,. a");
    }
}

#[test]
fn a_quote_never_splits_a_message() {
    assert_eq!(repaired("u a:+x s:.,=z a:+y t:=x t:=y", ANTHROPIC), "u a:+x s a:+y t:=x t:=y c:.,.");
}

#[test]
fn blank_text_and_trailing_reasoning_are_removed() {
    assert_eq!(repaired("u:_,. a:.,r,_", ANTHROPIC), "u a");
    assert_eq!(repaired("u a:r u", RESPONSES), "u a: u");
}

#[test]
fn media_in_a_result_leaves_a_placeholder() {
    let repaired = repair(&items("u a:+x t:=x/i"), CHAT);
    let (_, result) = repaired.items[2].results().next().unwrap();
    let placeholder = "[image/png omitted: tool results hold text only]";
    assert_eq!(result.content[1], ResultPart::Text(placeholder.into()));
}

#[test]
fn surplus_cache_markers_are_cleared() {
    assert_eq!(repaired("s! u! a! u! a u!", ANTHROPIC), "s u! a! u! a u!");
}

#[test]
fn a_new_item_never_takes_the_id_of_another() {
    let mut given = items("u a:+x u u");
    Arc::make_mut(&mut given[3]).id = "i1.repair-1".into();
    let repaired = repair(&given, ANTHROPIC);
    assert_eq!(repaired.items[2].id.as_str(), "i1.repair-2");
}

#[test]
fn calls_at_the_very_end_are_not_answered() {
    for dialect in EVERY {
        assert_eq!(repaired("u a:+x,+y t:=x", dialect), "u a:+x,+y t:=x");
        assert_eq!(repaired("u a:+x u a:+y", dialect), "u a:+x t:=x u a:+y");
    }
    assert_eq!(repaired("u a:+x s:=z a:+y", ANTHROPIC), "u c:.,. a:+x s: a:+y");
}

#[test]
fn what_arrived_while_a_call_ran_stays_behind_the_call() {
    assert_eq!(repaired("u a:+x n", ANTHROPIC), "u a:+x t:=x n");
    assert_eq!(repaired("u a:+x n t:=x", ANTHROPIC), "u a:+x n t:=x", "the format puts the result first");
    assert_eq!(repaired("u a:+x n t:=x", CHAT), "u a:+x t:=x n");
    // The result that came after the repair is quoted.
    assert_eq!(repaired("u a:+x t:=x n t:=x", ANTHROPIC), "u a:+x t:=x n t: c:.,.");
}
