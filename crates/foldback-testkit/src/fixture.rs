//! A small language for conversations: one line per item.
//!
//! ```text
//! system  You are careful.
//! user    Read parser.rs
//! call    c1 read {"path":"parser.rs"}
//! ok      c1 fn parse() {}
//! fail    c2 no such file
//! say     Here it is.
//! think   hm
//! pin user never touch main
//! ```
//!
//! `think`, `say` and `call` lines that follow each other directly make one assistant item; a `+`
//! before one of them begins a new item all the same. Ids are `i0`, `i1`, …

use foldback_core::{Item, ItemKind, Part, ToolResult, Transcript};

/// The worked example of the specification: twenty items, numbered as in its table.
pub const WORKED_EXAMPLE: &str = r#"
    system  You are a careful Rust engineer.
    context The workspace has one crate with src/parser.rs.
    user    What files are in src/?
    think   I should list the directory.
    say     Let me look.
    call    c3 fs_list_directory {"path":"src"}
    ok      c3 lib.rs parser.rs
    say     There are two files: lib.rs and parser.rs.
    user    Read parser.rs
    call    c7 fs_read_file {"path":"src/parser.rs"}
    ok      c7 pub fn parse(text: &str) -> Ast { Ast {} }
    say     It has one function, parse, which does nothing yet.
    user    Add error handling
    call    c11 fs_replace_in_file {"path":"src/parser.rs","old":"-> Ast","new":"-> Result<Ast>"}
    fail    c11 the text to replace occurs twice
    say     I will name the whole line.
    call    c13 fs_replace_in_file {"path":"src/parser.rs","old":"pub fn parse(text: &str) -> Ast"}
    ok      c13 replaced 1 occurrence
    call    c15 shell_exec {"command":"cargo check"}
    ok      c15 Finished dev profile in 0.8s
    say     parse now returns a Result.
    user    Now add tests
    think   One for each variant of the error.
    say     I will write one test per error.
"#;

/// Reads a conversation written in the fixture language; panics with the line that it cannot read.
pub fn items(text: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (line, is_pinned) = match line.strip_prefix("pin ") {
            Some(rest) => (rest.trim(), true),
            None => (line, false),
        };
        let (line, is_new) = match line.strip_prefix('+') {
            Some(rest) => (rest.trim(), true),
            None => (line, false),
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        let id = format!("i{}", items.len());
        let item = match word {
            "system" => Item::text(id, ItemKind::System, rest),
            "developer" => Item::text(id, ItemKind::Developer, rest),
            "context" => Item::text(id, ItemKind::Context, rest),
            "note" => Item::text(id, ItemKind::Notification, rest),
            "user" => Item::user(id, rest),
            "ok" | "fail" => {
                let (call, output) = rest.split_once(' ').unwrap_or((rest, ""));
                let mut result = ToolResult::text(call, output);
                result.is_error = word == "fail";
                Item::tool(id, result)
            }
            "say" | "think" | "call" => {
                let part = assistant_part(word, rest);
                match items.last_mut() {
                    Some(last) if last.kind == ItemKind::Assistant && !is_new && !is_pinned => {
                        last.parts.push(part);
                        continue;
                    }
                    _ => Item::assistant(id, vec![part]),
                }
            }
            other => panic!("fixture line {line:?} begins with {other:?}"),
        };
        items.push(if is_pinned { item.pinned() } else { item });
    }
    items
}

fn assistant_part(word: &str, rest: &str) -> Part {
    match word {
        "say" => Part::text(rest),
        "think" => Part::reasoning(rest),
        _ => {
            let mut words = rest.splitn(3, ' ');
            let call = words.next().unwrap_or("c");
            let tool = words.next().unwrap_or("tool");
            let input = words.next().unwrap_or("{}");
            let input = serde_json::from_str(input).expect("a fixture's call input is JSON");
            Part::call(call, tool, &input)
        }
    }
}

/// The same as a transcript that counts by estimate.
pub fn transcript(text: &str) -> Transcript {
    items(text).into_iter().collect()
}

/// The ids of items, in order.
pub fn ids<'a>(items: impl IntoIterator<Item = &'a std::sync::Arc<Item>>) -> Vec<String> {
    items.into_iter().map(|item| item.id.to_string()).collect()
}
