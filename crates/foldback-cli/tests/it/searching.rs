//! Searches of a store that is larger than what one search looks at.

use super::sessions::{in_store, lines, native};
use super::*;

/// Items, and bytes of each: together more than what a store looks at for one search.
const ITEMS: usize = 60;
const ITEM_BYTES: usize = 120_000;

/// A store of large items. The first has a word that no other has; each is named by its number.
fn large_store(folder: &tempfile::TempDir) {
    let said = |number: usize| {
        let word = if number == 0 { "zeppelin" } else { "balloon" };
        let noise = format!("line {number} of a long listing\n").repeat(ITEM_BYTES / 28);
        native(&format!("u{number}"), "user", &format!("{word}-{number}: {noise}"))
    };
    let path = at(folder, "large.jsonl");
    std::fs::write(&path, (0..ITEMS).map(said).collect::<String>()).unwrap();
    let imported = in_store(folder, &["session", "import", "--id", "large", &path]);
    assert_eq!(code(&imported), 0, "{}", text(&imported.stderr));
}

/// The place behind `before` in what is said about going on.
fn cursor(said: &str) -> Option<String> {
    let behind = said.split("before ").nth(1)?;
    Some(behind.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect())
}

fn ids(found: &[Value]) -> Vec<String> {
    found.iter().map(|hit| hit["item"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_lies_behind_the_first_page_is_found_without_asking_again() {
    let folder = folder();
    large_store(&folder);
    let found = in_store(&folder, &["search", "--regex", "zep+elin-0", "--json"]);
    assert_eq!(ids(&lines(&found)), ["u0"]);
    assert!(cursor(&text(&found.stderr)).is_none(), "{}", text(&found.stderr));
    let nowhere = in_store(&folder, &["search", "--regex", "zep+elin-9"]);
    assert_eq!(code(&nowhere), 1);
    assert!(cursor(&text(&nowhere.stderr)).is_none(), "all of it was looked at");
}

#[test]
fn a_search_that_has_enough_hits_goes_on_before_them() {
    let folder = folder();
    large_store(&folder);
    let (mut before, mut all) = (None::<String>, Vec::new());
    for _ in 0..=ITEMS {
        let mut arguments = vec!["search", "--regex", "balloon-\\d+", "--limit", "7", "--json"];
        arguments.extend(before.iter().flat_map(|before| ["--before", before]));
        let found = in_store(&folder, &arguments);
        let hits = lines(&found);
        assert!(!hits.is_empty() && hits.len() <= 7, "{}", hits.len());
        for hit in &hits {
            assert_eq!(hit["score"].to_string(), "0.0", "without words no item fits better than another");
        }
        all.extend(ids(&hits));
        before = cursor(&text(&found.stderr));
        if before.is_none() {
            break;
        }
    }
    let newest_first: Vec<String> = (1..ITEMS).rev().map(|number| format!("u{number}")).collect();
    assert_eq!(all, newest_first, "each once, in order");
}

#[test]
fn the_next_page_of_a_search_with_words_has_what_the_first_had_no_room_for() {
    let folder = folder();
    let said = |number: usize| {
        let text = format!("a {}kettle number {number}", "shiny ".repeat(number * 7 % 5));
        native(&format!("u{number}"), "user", &text)
    };
    let path = at(&folder, "kettles.jsonl");
    std::fs::write(&path, (0..ITEMS).map(said).collect::<String>()).unwrap();
    let imported = in_store(&folder, &["session", "import", "--id", "kettles", &path]);
    assert_eq!(code(&imported), 0, "{}", text(&imported.stderr));
    let whole = in_store(&folder, &["search", "kettle", "--limit", "100", "--json"]);
    assert!(cursor(&text(&whole.stderr)).is_none(), "{}", text(&whole.stderr));
    let (mut before, mut all) = (None::<String>, Vec::new());
    for _ in 0..=ITEMS {
        let mut arguments = vec!["search", "kettle", "--limit", "7", "--json"];
        arguments.extend(before.iter().flat_map(|before| ["--before", before]));
        let found = in_store(&folder, &arguments);
        all.extend(lines(&found));
        before = cursor(&text(&found.stderr));
        if before.is_none() {
            break;
        }
    }
    assert_eq!((all.len(), ids(&all)), (ITEMS, ids(&lines(&whole))), "as on one page");

    let mut agent = Agent::start(&folder);
    let first = agent.call("search", &serde_json::json!({"query": "kettle"}));
    let next = cursor(&first).unwrap();
    let second = agent.call("search", &serde_json::json!({"query": "kettle", "before": next}));
    let named = |said: &str, id: &str| said.contains(&format!("{id} of session"));
    let on_both = ids(&all[..20]).into_iter().filter(|id| named(&first, id) == named(&second, id)).count();
    assert_eq!(on_both, 0, "ten on the first page and the next ten on the second:\n{first}\n{second}");
    let unreadable = agent.call("search", &serde_json::json!({"query": "kettle", "before": "1-2"}));
    assert!(unreadable.contains("no place that a search named"), "{unreadable}");
}

#[test]
fn an_agent_is_told_where_to_go_on_and_comes_to_the_oldest_item() {
    let folder = folder();
    large_store(&folder);
    assert_eq!(code(&in_store(&folder, &["search", "zeppelin"])), 0, "the index is up to date");
    let mut agent = Agent::start(&folder);
    let (mut before, mut pages) = (None::<String>, 0);
    let found = loop {
        let mut arguments = serde_json::json!({"regex": "zep+elin-0"});
        if let Some(before) = &before {
            arguments["before"] = before.parse::<u64>().unwrap().into();
        }
        let said = agent.call("search", &arguments);
        pages += 1;
        if !said.starts_with("nothing was found") {
            break said;
        }
        before = cursor(&said);
        assert!(
            before.is_some() && pages < ITEMS,
            "it is there, and the answer says how to come to it: {said}"
        );
    };
    assert!(pages > 1, "a tool's answer does not take as long as it may");
    assert!(found.contains("u0 of session large"), "{found}");
}

#[test]
fn a_request_beyond_the_limits_is_refused_by_its_name_and_the_next_is_answered() {
    let folder = folder();
    let path = at(&folder, "s.jsonl");
    std::fs::write(&path, native("u", "user", "something")).unwrap();
    let imported = in_store(&folder, &["session", "import", "--id", "s", &path]);
    assert_eq!(code(&imported), 0, "{}", text(&imported.stderr));
    let mut agent = Agent::start(&folder);
    let long = "word ".repeat(2_000_000);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let of_query = |query: &str| format!(r#"{{"name":"search","arguments":{{"query":{query}}}}}"#);
    for params in [of_query(&format!("\"{long}\"")), of_query(&deep)] {
        let asked = agent.asked + 1;
        let answer = agent.ask_text("tools/call", &params);
        assert_eq!(answer["id"], asked);
        let why = answer["error"]["message"].as_str().unwrap();
        assert!(
            why.starts_with("the request is longer") || why.starts_with("the lists and objects"),
            "{why}"
        );
    }
    let words = "word ".repeat(500);
    let refused = agent.call("search", &serde_json::json!({"query": words}));
    assert!(refused.contains("at most 64 are looked for"), "{refused}");
    for argument in ["handle", "session"] {
        let mut arguments = serde_json::json!({"handle": "@0000000000"});
        arguments[argument] = "@0".repeat(100_000).into();
        let refused = agent.call("recall", &arguments);
        assert!(refused.starts_with(&format!("{argument} has 200000 bytes")), "{refused}");
    }
    let answer = agent.call("search", &serde_json::json!({"query": "nowhere"}));
    assert!(answer.starts_with("nothing was found"), "{answer}");
}

/// A client of `foldback mcp`.
pub(super) struct Agent {
    child: std::process::Child,
    stdin: std::process::ChildStdin,
    answers: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    asked: u64,
}

impl Agent {
    pub(super) fn start(folder: &tempfile::TempDir) -> Self {
        let mut command = foldback(&["mcp"]);
        command.env("FOLDBACK_STORE", at(folder, "data/sessions.db"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let answers = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut agent = Self { child, stdin, answers, asked: 0 };
        agent.ask(
            "initialize",
            &serde_json::json!({"protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}}),
        );
        let ready = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(agent.stdin, "{ready}").unwrap();
        agent
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.ask_text(method, &params.to_string())
    }

    /// The same with parameters that no value of this program could hold.
    fn ask_text(&mut self, method: &str, params: &str) -> Value {
        self.asked += 1;
        let id = self.asked;
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        writeln!(self.stdin, "{message}").unwrap();
        serde_json::from_str(&self.answers.next().unwrap().unwrap()).unwrap()
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.ask("tools/call", &serde_json::json!({"name": tool, "arguments": arguments}));
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It ends with its input; where a test has failed, nobody waits for that.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}
