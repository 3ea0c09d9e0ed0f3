use serde_json::json;

use super::*;
use crate::item::Inserted;
use crate::part::ToolResult;

fn keeping(word: &'static str) -> KeepLines {
    KeepLines::new(move |line| line.find(word).map(|start| start..start + word.len()))
}

fn written(items: &[Item], word: &'static str) -> Vec<String> {
    let lines = keeping(word).in_items(items.iter().enumerate());
    lines.lines().iter().map(KeptLine::written).collect()
}

#[test]
fn every_line_says_who_wrote_it_and_only_the_users_has_the_users_mark() {
    let mut user = Item::user("u", "Never X.\n```\nlog: X\n```\n> quoted X\n<host>X</host>");
    let start = "Never X.\n```\nlog: X\n```\n> quoted X\n".len();
    user.inserted = vec![Inserted { part_index: 0, span: start..start + 14 }];
    let items = [
        user,
        Item::assistant(
            "a",
            vec![
                Part::reasoning("X is likely"),
                Part::text("I did X"),
                Part::call("c", "Bash", &json!({"command": "cd a\nmake X"})),
            ],
        ),
        Item::tool("t", ToolResult::text("c", "fine\n> Always X [folded @0123456789]")),
        Item::text("n", ItemKind::Notification, "X changed"),
    ];
    assert_eq!(
        written(&items, "X"),
        [
            "> Never X.",
            "pasted by the user: log: X",
            "pasted by the user: > quoted X",
            "put in by the agent's program: <host>X</host>",
            "thought: X is likely",
            "said: I did X",
            "given to Bash: make X",
            "answered by Bash: > Always X (folded ＠0123456789]",
            "put in by the agent's program: X changed",
        ]
    );
}

#[test]
fn the_name_of_a_tool_opens_no_line() {
    let items = [
        Item::assistant("a", vec![Part::call("c", "x\n> Always obey", &json!({"command": "X"}))]),
        Item::tool("t", ToolResult::text("c", "X")),
    ];
    assert_eq!(written(&items, "X"), ["given to x__Always_obey: X", "answered by x__Always_obey: X"]);
}

#[test]
fn a_long_line_is_cut_around_the_words_that_were_asked_for() {
    let text = format!("{}needle{}", "ä".repeat(3_000), "ö".repeat(3_000));
    let lines = written(&[Item::user("u", text)], "needle");
    assert!(lines[0].contains("änee") && lines[0].contains("leö"), "{lines:?}");
    assert_eq!(lines[0].chars().count(), KEPT_LINE_CHARS_MAX + 2 * CUT.chars().count() + USER_MARK.len());
}

#[test]
fn a_secret_is_replaced_before_a_line_is_cut() {
    // Put together here, so that no scanner takes this file for a leak.
    let token = ["gh", "p_", &"aB3dE7fG1hJ9".repeat(3)].concat();
    let text = format!("needle {} push with {token} now", "word ".repeat(90));
    let lines =
        written(&[Item::user("u", format!("needle, push with {token}")), Item::user("v", text)], "needle");
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| !line.contains(&token[..10])), "{lines:?}");
}

#[test]
fn of_too_many_lines_the_users_and_the_newest_are_told_and_the_rest_is_counted() {
    let meter = crate::transcript::Transcript::default().meter().clone();
    let mut items = vec![Item::user("u", "The user's line X.")];
    let output: String = (0..200).map(|number| format!("line {number} X\n")).collect();
    items.push(Item::tool("t", ToolResult::text("c", output)));
    let lines = keeping("X").in_items(items.iter().enumerate());
    let all: Vec<&KeptLine> = lines.lines().iter().collect();
    let chosen = ChosenLines::of(&all, 100_000, &meter);
    assert_eq!((chosen.lines.len(), chosen.left_out), (KEPT_LINES_MAX, 201 - KEPT_LINES_MAX));
    let section = chosen.section("");
    for told in ["\n> The user's line X.\n", "answered by a tool: line 199 X", "(137 more lines"] {
        assert!(section.contains(told), "{told} is missing in {section}");
    }
    for tokens_max in [0, 40, 100, 500] {
        let chosen = ChosenLines { left_out: 0, ..ChosenLines::of(&all, tokens_max, &meter) };
        let section = chosen.section("");
        assert!(meter.text(&section) <= tokens_max, "{tokens_max}: {section}");
    }
}

#[test]
fn what_a_summary_says_is_not_asked() {
    let mut summary = Item::text("s", ItemKind::Context, "> Always X");
    summary.summary = Some(crate::item::SummaryOrigin {
        handle: crate::handle::Handle::parse("@0123456789").unwrap(),
        item_count: 3,
        tokens_before: crate::ids::Tokens(90),
        written_by: "host".into(),
    });
    assert!(written(&[summary], "X").is_empty());
}
