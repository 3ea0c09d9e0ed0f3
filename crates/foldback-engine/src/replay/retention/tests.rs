use foldback_core::{Part, ToolResult};
use serde_json::json;

use super::*;

fn arc(items: Vec<Item>) -> Vec<Arc<Item>> {
    items.into_iter().map(Arc::new).collect()
}

fn said(id: &str, text: &str) -> Item {
    Item::assistant(id, vec![Part::text(text)])
}

fn answered(id: &str, text: &str) -> Item {
    Item::tool(id, ToolResult::text("c", text))
}

fn needed<'h>(needs: &'h Needs<'_>) -> Vec<(FactKind, &'h str)> {
    needs.facts().collect()
}

#[test]
fn what_is_needed_was_there_before_and_is_not_told_again_before_its_use() {
    use FactKind::{Identifier, Number, Path};
    let items = arc(vec![
        Item::user("u", "Fix parse_expr in src/parser.rs; the limit is 340, see src/old.rs"),
        answered("t", "read_all at src/lexer.rs:17, 512 tokens"),
        // The cut.
        said("a1", "I will edit src/parser.rs and new_name"),
        answered("t2", "src/lexer.rs is fine, and parse_expr too"),
        said("a2", "src/lexer.rs, parse_expr, read_all and 340 again src/parser.rs"),
        answered("t3", "512"),
        said("a3", "it was 512"),
    ]);
    let history = History::of(&items);
    let needs = Needs::at(&history, 2, HORIZON_ITEMS);
    assert_eq!(needed(&needs), [(Path, "src/parser.rs"), (Identifier, "read_all"), (Number, "340")]);
    assert_eq!(needed(&Needs::at(&history, 2, 1)), [(Path, "src/parser.rs")], "only within the horizon");
}

#[test]
fn a_fact_is_found_inside_a_longer_name_only_at_its_joints() {
    let items = arc(vec![Item::user("u", "at 13405 in src/lexer.rs:17"), said("a", "3405 and src/lexer.rs")]);
    let history = History::of(&items);
    assert_eq!(needed(&Needs::at(&history, 1, 10)), [(FactKind::Path, "src/lexer.rs")]);
}

#[test]
fn a_bare_list_tells_nothing() {
    let long = "error: the function parse_expr in src/parser.rs never returns for an empty input";
    let items = arc(vec![
        Item::user("u", long),
        Item::user("v", "see   max_depth\n\nport 8080"),
        said("a", "parse_expr src/parser.rs max_depth 8080"),
    ]);
    let history = History::of(&items);
    let needs = Needs::at(&history, 2, 10);
    let total = |view: &str| {
        let total = needs.retention(&arc(vec![Item::user("s", view)])).total();
        (total.needed, total.told)
    };
    assert_eq!(total("nothing"), (4, 0));
    assert_eq!(total("parse_expr, src/parser.rs, max_depth, 8080"), (4, 0));
    // 40 characters around each of the two: the line is cut at both ends, and wrapped.
    let around = &long[12..74];
    assert_eq!(around, "unction parse_expr in src/parser.rs never returns for an empty");
    assert_eq!(total(&around.replace(' ', "\n  ")), (4, 2));
    // 39 characters hold both names, one more than that would be enough.
    let short = &long[17..56];
    assert_eq!(short, "on parse_expr in src/parser.rs never re");
    assert_eq!(total(short), (4, 0));
    assert_eq!(total(&long[16..56]), (4, 2));
    // Lines shorter than that count whole.
    assert_eq!(total("- see max_depth\n- port 8080 is free"), (4, 2));
    assert_eq!(total("max_depth, 8080"), (4, 0));
}

#[test]
fn characters_are_counted_and_not_bytes() {
    let line = "ошибка в файле src/разбор.rs при чтениях пустого ввода";
    let items = arc(vec![Item::user("u", line), said("a", "src/разбор.rs")]);
    let history = History::of(&items);
    let needs = Needs::at(&history, 1, 10);
    let in_context = |characters: usize| {
        let view: String = line.chars().take(characters).collect();
        needs.retention(&arc(vec![Item::user("s", view)])).total().told
    };
    assert_eq!((in_context(39), in_context(40)), (0, 1));
}

#[test]
fn a_command_counts_where_it_was_run_before_and_is_run_again() {
    let run = |id: &str, command: &str| {
        Item::assistant(id, vec![Part::call(id, "bash", &json!({"command": command}))])
    };
    let items = arc(vec![
        run("1", "cargo test --lib\n"),
        answered("2", "try: make check all"),
        run("3", "cargo  test --lib"),
        run("4", "make check all"),
    ]);
    let history = History::of(&items);
    let needs = Needs::at(&history, 2, 10);
    assert_eq!(needed(&needs), [(FactKind::Command, "cargo test --lib")]);
    let retention = needs.retention(&items[..1]);
    let tally = Tally { needed: 1, told: 1 };
    assert_eq!(retention.by_kind, BTreeMap::from([(FactKind::Command, tally)]));
    let lost = needs.lost(&arc(vec![Item::user("u", "cargo test")]));
    assert_eq!(lost, [(FactKind::Command, "cargo test --lib")]);
}

#[test]
fn tool_inputs_are_compared_without_their_escapes() {
    let write = |id: &str, content: &str| {
        Item::assistant(id, vec![Part::call(id, "write", &json!({"content": content}))])
    };
    let items = arc(vec![write("1", "let s = \"max_depth\";\nlet other_name = 1;"), said("2", "max_depth")]);
    let history = History::of(&items);
    let needs = Needs::at(&history, 1, 10);
    assert_eq!(needs.retention(&items[..1]).total(), Tally { needed: 1, told: 1 });
    let quoted = arc(vec![Item::user("s", "let s = \"max_depth\";")]);
    assert_eq!(needs.retention(&quoted).total().told, 1);
}

#[test]
fn where_nothing_was_needed_there_is_no_recall() {
    for items in [vec![], vec![Item::user("u", "hello")], vec![said("a", "hi"), said("b", "src/new.rs")]] {
        let items = arc(items);
        let history = History::of(&items);
        for cut in [0, 1, 99] {
            let needs = Needs::at(&history, cut, HORIZON_ITEMS);
            assert!(needs.is_empty());
            let total = needs.retention(&items).total();
            assert_eq!(total.retention(), None);
        }
    }
}
