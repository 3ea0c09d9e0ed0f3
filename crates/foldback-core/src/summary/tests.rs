use super::*;
use crate::part::ToolResult;
use crate::plan::Plan;
use crate::strategy::SummarizeOlderStrategy;
use crate::strategy::plan;
use crate::transcript::Transcript;
use crate::view::Recalled;
use serde_json::json;

fn rounds(count: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("u", "Make the parser faster, and never touch the lexer"));
    for number in 0..count {
        let (call, tool) = (format!("c{number}"), if number % 3 == 0 { "shell" } else { "read_file" });
        transcript.push(Item::assistant(
            format!("a{number}"),
            vec![Part::call(call.clone(), tool, &json!({"n": number}))],
        ));
        let output = format!("line of round {number}\n{}", "more\n".repeat(40));
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, output)));
    }
    transcript.push(Item::user("v", "thanks"));
    transcript
}

fn fold(transcript: &Transcript, tokens_max: u64) -> Plan {
    let strategy = SummarizeOlderStrategy::new(1).summary_tokens_max(Tokens(tokens_max));
    plan(&View::of(transcript), &strategy, None).unwrap()
}

fn text(item: &Item) -> &str {
    match &item.parts[0] {
        Part::Text(text) => text,
        part => panic!("{part:?}"),
    }
}

#[test]
fn a_digest_is_the_same_each_time_it_is_written() {
    let written = |transcript: &Transcript| {
        let budget = crate::budget::Budget::for_target(Tokens(2_000)).unwrap();
        let ladder = crate::strategy::LadderStrategy::new();
        let plan = crate::strategy::plan(&View::of(transcript), &ladder, Some(&budget)).unwrap();
        let requests: Vec<Item> = plan.requests().map(|request| request.digest()).collect();
        assert!(!requests.is_empty(), "something is folded");
        requests
    };
    let cold = rounds(200);
    let first = written(&cold);
    assert_eq!(written(&cold), first, "read by the digest before");
    let mut grown = cold;
    grown.push(Item::user("more", "Never touch src/lexer.rs."));
    let fresh: Transcript = grown.items().cloned().collect();
    assert_eq!(written(&grown), written(&fresh), "read in part");
}

#[test]
fn a_floor_summary_has_a_line_for_each_unit_where_there_is_room() {
    let transcript = rounds(10);
    let plan = fold(&transcript, 2_000);
    let floor = plan.requests().next().unwrap().floor();
    let lines: Vec<&str> = text(&floor).lines().collect();
    assert_eq!(lines.len(), 1 + 11, "{}", text(&floor));
    assert!(lines[1].contains("user: Make the parser faster"), "{}", lines[1]);
    assert!(lines[2].contains("shell: line of round 0"), "{}", lines[2]);
    let handle = Handle::parse(lines[3].split(' ').next().unwrap()).unwrap();
    let Some(Recalled::Items(items)) = plan.apply_floor().view.recall(&handle) else { panic!("{handle}") };
    assert_eq!(items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["a1", "t1"]);
}

#[test]
fn lines_are_merged_until_the_whole_range_fits() {
    let transcript = rounds(400);
    for tokens_max in [SUMMARY_TOKENS_MIN, 60, 100, 300, 1_000] {
        let plan = fold(&transcript, tokens_max);
        let floor = plan.requests().next().unwrap().floor();
        let tokens = transcript.meter().item(&floor).total;
        assert!(tokens <= Tokens(tokens_max), "{tokens} of {tokens_max}");
        assert!(text(&floor).contains("801") || tokens_max < 300, "{}", text(&floor));
    }
    let plan = fold(&transcript, 1_000);
    let floor = plan.requests().next().unwrap().floor();
    assert!(text(&floor).contains("read_file ×"), "{}", text(&floor));
}

#[test]
fn what_a_model_wrote_before_is_carried_on_when_the_floor_takes_over() {
    let mut transcript = rounds(30);
    let first = fold(&transcript, 500);
    let request = first.requests().next().unwrap();
    let written = request.item("The parser is slow because of the regex in scan().", "model");
    let compacted = first.apply(vec![vec![written]]).unwrap();
    for number in 0..20 {
        transcript.push(Item::user(format!("w{number}"), "and another thing to think about, please"));
    }
    let view = View::through(&transcript, compacted.view.overlay()).unwrap();
    let second = plan(&view, &SummarizeOlderStrategy::new(1), None).unwrap();
    let floor = second.requests().next().unwrap().floor();
    assert!(text(&floor).contains("because of the regex in scan()"), "{}", text(&floor));
    assert!(!text(&floor).contains("line of round"), "told already: {}", text(&floor));
    assert_eq!(second.apply_floor().view.items().filter(|item| item.summary.is_some()).count(), 1);
}

#[test]
fn a_floor_summary_that_was_recorded_is_quoted_line_by_line() {
    let folded = fold(&rounds(60), 800).apply_floor();
    // A host takes the compacted view as its new history.
    let mut transcript: Transcript = folded.view.items().cloned().collect();
    for tokens_max in [700, 400, 120] {
        transcript.push(Item::user(format!("w{tokens_max}"), "and another thing to think about ".repeat(30)));
        transcript.push(Item::user(format!("x{tokens_max}"), "thanks again, and go on with the rest of it"));
        let again = fold(&transcript, tokens_max).apply_floor();
        let summary = again.view.items().find(|item| item.summary.is_some()).unwrap();
        let text = text(summary);
        assert_eq!(text.matches("[Summary of").count(), 1, "{text}");
        assert!(summary.summary.as_ref().unwrap().item_count > 121, "{text}");
        let is_told =
            |line: &str| line.starts_with('@') || line.starts_with("| ") || line.starts_with("# An earlier");
        assert!(text.lines().skip(1).all(is_told), "{text}");
        assert!(tokens_max < 400 || text.contains("\n| @"), "{text}");
        transcript = again.view.items().cloned().collect();
    }
}

#[test]
fn a_summary_that_acts_and_a_missing_one_are_refused() {
    let transcript = rounds(30);
    let plan = fold(&transcript, 300);
    let acting = Item::new("s", ItemKind::Context, vec![Part::call("x", "rm", &json!({}))]);
    assert!(matches!(plan.apply(vec![vec![acting]]), Err(SummaryError::WrongPart { .. })));
    assert!(matches!(plan.apply(Vec::new()), Err(SummaryError::Count { expected: 1, given: 0 })));
}

#[test]
fn a_summary_says_what_it_stands_for_whoever_wrote_it() {
    let transcript = rounds(30);
    let plan = fold(&transcript, 300);
    let bare = Item::text("note", ItemKind::Context, "Thirty rounds of reading.").pinned();
    let compacted = plan.apply(vec![vec![bare]]).unwrap();
    let summary = compacted.view.items().find(|item| item.summary.is_some()).unwrap();
    assert_eq!(summary.summary.as_ref().unwrap().item_count, 61);
    assert!(!summary.is_pinned(), "the next fold must be able to take it in");
}
