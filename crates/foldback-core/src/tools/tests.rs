use super::*;
use crate::part::{Part, ToolResult};
use serde_json::{Value, json};

fn call(name: &str, input: &Value) -> ToolCall {
    match Part::call("c", name, input) {
        Part::ToolCall(call) => call,
        other => unreachable!("it was made a call: {other:?}"),
    }
}

fn of(name: &str, input: &Value) -> Vec<Action> {
    Action::of(&call(name, input))
}

fn free(name: &str, text: &str) -> Vec<Action> {
    let mut call = call(name, &json!({}));
    call.input = ToolInput::Text(text.into());
    Action::of(&call)
}

fn read(path: &str, lines: Option<Range<u32>>) -> Action {
    Action::Read { path: path.into(), lines }
}

fn run(command: &str) -> Action {
    Action::Run { command: command.into(), folder: None }
}

/// What a command does beside being run.
fn beside(command: &str) -> Vec<Action> {
    let mut actions = of("bash", &json!({"command": command}));
    assert_eq!(actions.remove(0), run(command));
    actions
}

#[test]
fn the_table_is_sorted_so_that_it_can_be_searched() {
    assert!(table::TOOLS.is_sorted_by_key(|(name, _)| *name));
}

#[test]
fn every_agents_way_to_read_a_file_is_a_read() {
    let range = Some(135..165);
    assert_eq!(
        of("Read", &json!({"file_path": "/w/a.go", "offset": 135, "limit": 30})),
        [read("/w/a.go", range)]
    );
    assert_eq!(of("read", &json!({"filePath": "./a.ts"})), [read("a.ts", None)]);
    assert_eq!(of("read", &json!({"path": "a.ts", "limit": 5})), [read("a.ts", Some(1..6))]);
    assert_eq!(
        of("read_file", &json!({"file_path": "a", "start_line": 3, "end_line": "9"})),
        [read("a", Some(3..10))]
    );
    assert_eq!(of("mcp__fs__read_file", &json!({"path": "a"})), [read("a", None)]);
    assert_eq!(
        of("str_replace_editor", &json!({"command": "view", "path": "/a.py", "view_range": [5, -1]})),
        [read("/a.py", Some(5..u32::MAX))]
    );
    let files = json!({"files": [{"path": "a", "start_line": 1, "end_line": 2}, {"path": "b"}]});
    assert_eq!(of("read_files", &files), [read("a", Some(1..3)), read("b", None)]);
    assert_eq!(of("read_many_files", &json!({"paths": ["a", "src/*.rs"]})), [read("a", None)]);
}

#[test]
fn every_agents_way_to_change_a_file_is_a_change() {
    let path = || "a.rs".to_owned();
    for (name, input) in [
        ("Edit", json!({"file_path": "a.rs", "old_string": "x", "new_string": "y"})),
        ("MultiEdit", json!({"file_path": "a.rs", "edits": []})),
        ("replace", json!({"file_path": "a.rs", "instruction": "do"})),
        ("patch", json!({"path": "a.rs", "operation": "replace", "search": "x", "content": "y"})),
        ("replace_in_file", json!({"path": "a.rs", "diff": "<<<<<<< SEARCH"})),
        ("str_replace_based_edit_tool", json!({"command": "insert", "path": "a.rs"})),
        ("acme_update_document", json!({"path": "a.rs", "text": "x"})),
    ] {
        assert_eq!(of(name, &input), [Action::Edit { path: path() }], "{name}");
    }
    for (name, input) in [
        ("Write", json!({"file_path": "a.rs", "content": "x"})),
        ("write_to_file", json!({"path": "a.rs", "content": "x"})),
        ("create", json!({"filename": "a.rs"})),
        ("saveFile", json!({"path": "a.rs"})),
    ] {
        assert_eq!(of(name, &input), [Action::Write { path: path() }], "{name}");
    }
    assert_eq!(of("delete_file", &json!({"target_file": "a.rs"})), [Action::Delete { path: path() }]);
}

#[test]
fn a_patch_touches_all_its_files() {
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-x\n+*** y\n*** Add File: b.md\n+b\n\
                 *** Delete File: c\n*** End Patch";
    let expected = [
        Action::Edit { path: "src/a.rs".into() },
        Action::Write { path: "b.md".into() },
        Action::Delete { path: "c".into() },
    ];
    assert_eq!(free("apply_patch", patch), expected);
    assert_eq!(of("apply_patch", &json!({"patchText": patch})), expected);
    let diff = "--- a/x.py\t2024\n+++ b/x.py\n@@ -1 +1 @@\n--- /dev/null\n+++ b/new.py\n";
    assert_eq!(
        of("apply_patch", &json!({"patch": diff})),
        [Action::Edit { path: "x.py".into() }, Action::Write { path: "new.py".into() }]
    );
    let script =
        "const r = await tools.apply_patch(\"*** Begin Patch\\n*** Delete File: d\\n*** End Patch\");";
    assert_eq!(free("exec", script), [run(script), Action::Delete { path: "d".into() }]);
    let heredoc = format!("apply_patch <<'EOF'\n{patch}\nEOF");
    assert_eq!(beside(&heredoc), expected);
}

#[test]
fn a_command_that_only_shows_a_file_is_a_read_of_it() {
    assert_eq!(beside("cat src/a.rs"), [read("src/a.rs", None)]);
    assert_eq!(beside("sed -n '1,80p' foo.rs"), [read("foo.rs", Some(1..81))]);
    assert_eq!(beside("cd /w/x && nl -ba ../a.rs | sed -n '5,$p'"), [read("/w/a.rs", Some(5..u32::MAX))]);
    assert_eq!(
        beside("head -20 a; echo ---; tail -n +7 b"),
        [read("a", Some(1..21)), read("b", Some(7..u32::MAX))]
    );
    assert_eq!(beside("cat 'a b.md' 2>/dev/null"), [read("a b.md", None)]);
    let search =
        |pattern: &str, path: &str| Action::Search { pattern: pattern.into(), path: Some(path.into()) };
    assert_eq!(beside("rg -n 'a|b' src/ | head -5"), [search("a|b", "src")]);
    assert_eq!(beside("cat log | grep -i error"), [search("error", "log")]);
    assert_eq!(beside("ls -la src"), [Action::List { path: "src".into() }]);
    let workdir = of("exec_command", &json!({"cmd": "cat a.rs", "workdir": "/w"}));
    let there = Action::Run { command: "cat a.rs".into(), folder: Some("/w".into()) };
    assert_eq!(workdir, [there, read("/w/a.rs", None)]);
    let argv = of("shell", &json!({"command": ["bash", "-lc", "cat a.rs"]}));
    assert_eq!(argv, [run("cat a.rs"), read("a.rs", None)]);
    let commands = of("run_commands", &json!({"commands": ["cat a", "pwd"]}));
    assert_eq!(commands, [run("cat a"), read("a", None), run("pwd")]);
}

#[test]
fn a_command_that_does_more_than_look_reads_nothing() {
    for command in [
        "cat a && cargo test",
        "cat $(git ls-files)",
        "cat *.rs",
        "cat a | wc -l",
        "for f in a b; do cat $f; done",
        "tail -5 a",
        "head -c 100 a",
        "sed 's/a/b/' a",
        "cat 'unended",
        "cat a &",
        "",
    ] {
        assert_eq!(beside(command), [], "{command}");
    }
}

#[test]
fn what_a_command_writes_is_a_change() {
    let write = |path: &str| Action::Write { path: path.into() };
    assert_eq!(beside("cat > out.txt <<'EOF'\ncat secret.txt\nEOF\n"), [write("out.txt")]);
    assert_eq!(beside("make 2>&1 | tee log.txt"), [write("log.txt")]);
    assert_eq!(beside("sed -i 's/a/b/' x.rs"), [Action::Edit { path: "x.rs".into() }]);
    assert_eq!(beside("sed -i '' 's/a/b/' x.rs"), [Action::Edit { path: "x.rs".into() }]);
    assert_eq!(beside("rm -f old.rs && cargo build"), [Action::Delete { path: "old.rs".into() }]);
    assert_eq!(beside("mv a b"), [Action::Delete { path: "a".into() }, write("b")]);
}

#[test]
fn todo_lists_of_every_shape_are_read() {
    let entry = |text: &str, state| TodoEntry { text: text.into(), state };
    let expected = [Action::Todo(vec![
        entry("one", TodoState::Done),
        entry("two", TodoState::InProgress),
        entry("three", TodoState::Pending),
    ])];
    let list = |text: &str| json!([{text: "one", "status": "completed"}, {text: "two", "status": "in_progress"}, {text: "three"}]);
    assert_eq!(of("TodoWrite", &json!({"todos": list("content")})), expected);
    assert_eq!(of("update_plan", &json!({"explanation": "x", "plan": list("step")})), expected);
    assert_eq!(of("write_todos", &json!({"todos": list("description")})), expected);
    assert_eq!(of("todowrite", &json!({"todos": "- [x] one\n- [~] two\n- [ ] three"})), expected);
}

#[test]
fn the_other_tools_are_known_too() {
    assert_eq!(
        of("WebFetch", &json!({"url": "https://x.dev"})),
        [Action::Fetch { url: "https://x.dev".into() }]
    );
    let prompt = json!({"prompt": "Extract it from https://x.dev/a now"});
    assert_eq!(of("web_fetch", &prompt), [Action::Fetch { url: "https://x.dev/a".into() }]);
    assert_eq!(of("write_stdin", &json!({"session_id": 7})), [Action::Wait { job: "7".into() }]);
    assert_eq!(of("wait_agent", &json!({"targets": ["a1"]})), [Action::Wait { job: "a1".into() }]);
    assert_eq!(
        of("Task", &json!({"description": "look", "prompt": "p"})),
        [Action::Agent { task: "look".into() }]
    );
    assert_eq!(
        of("Grep", &json!({"pattern": "x", "path": "src/"})),
        [Action::Search { pattern: "x".into(), path: Some("src".into()) }]
    );
}

#[test]
fn little_is_said_about_tools_that_nobody_knows() {
    assert_eq!(of("get_user_details", &json!({"user_id": "u1"})), []);
    assert_eq!(of("update_reservation", &json!({"reservation_id": "x"})), []);
    assert_eq!(of("acme_read_doc", &json!({"path": "a", "start_line": 2})), [read("a", Some(2..u32::MAX))]);
    assert_eq!(of("acme_read_nodes", &json!({"path": "a", "nodes": [1]})), [], "it may read only some of it");
    assert_eq!(
        of("acme_runner", &json!({"command": "ls x"})),
        [run("ls x"), Action::List { path: "x".into() }]
    );
    assert_eq!(of("read", &json!([1, 2])), []);
    assert_eq!(free("read", "not json"), []);
}

#[test]
fn tests_and_builds_are_told_from_other_commands() {
    for command in [
        "cargo test -p core 2>&1 | tail -20",
        "cd x && RUST_LOG=1 cargo +nightly clippy",
        "npm run test:unit",
        "pnpm --filter a build",
        "npx tsc --noEmit",
        "python -m pytest tests/",
        "uv run pytest -q",
        "timeout 60 go test ./...",
        "./gradlew assemble",
        "make",
    ] {
        assert!(is_check(command), "{command}");
    }
    for command in
        ["cargo add serde", "npm install", "git status", "ls test", "cat build.rs", "go get x", "echo make"]
    {
        assert!(!is_check(command), "{command}");
    }
}

fn outcome(text: &str) -> Outcome {
    Outcome::of(&ToolResult::text("c", text), &[run("x")])
}

#[test]
fn exit_codes_are_found_in_every_form() {
    for (text, code) in [
        ("Exit code 2\nsomething went wrong", 2),
        ("Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nexit code 9", 0),
        ("{\"output\":\"x\\n\",\"metadata\":{\"exit_code\":101,\"duration_seconds\":0.1}}", 101),
        ("<returncode>1</returncode>\n<output>\n</output>", 1),
        ("Output: x\nError: (none)\nExit Code: 127\nSignal: 0", 127),
        ("out\n<shellId: 3 completed with exit code 0>", 0),
        ("[The command completed with exit code -1.]", -1),
        ("out\n\nCommand exited with code 3", 3),
        ("<shell_output\n  exit_code=\"4\"\n>", 4),
    ] {
        assert_eq!(outcome(text).exit_code, Some(code), "{text}");
        assert_eq!(outcome(text).failed, code != 0, "{text}");
    }
    assert_eq!(outcome("nothing about exit codes").exit_code, None);
    assert_eq!(outcome("Exit Code: (none)").exit_code, None);
}

#[test]
fn test_summaries_are_read_in_every_form() {
    for (text, passed, failed, skipped) in [
        (
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\nx\ntest result: FAILED. 1 passed; 2 failed; 0 ignored;",
            4,
            2,
            1,
        ),
        ("===== 3 failed, 10 passed, 1 skipped in 2.31s =====", 10, 3, 1),
        ("7 passed in 0.10s", 7, 0, 0),
        ("== 2 passed, 1 error in 0.10s ==", 2, 1, 0),
        ("Tests:       1 failed, 24 passed, 25 total\nTime: 3 s", 24, 1, 0),
        (" Test Files  1 passed (1)\n      Tests  2 failed | 30 passed (32)", 30, 2, 0),
        ("     Summary [   0.1s] 10 tests run: 9 passed, 1 failed, 0 skipped", 9, 1, 0),
        ("  12 passing (3s)\n  1 failing\n", 12, 1, 0),
        (" 5 pass\n 1 fail\nRan 6 tests across 1 file", 5, 1, 0),
        ("Ran 12 tests in 0.1s\n\nFAILED (failures=1, errors=2)", 9, 3, 0),
        ("ok  \tx/a\t0.3s\nFAIL\tx/b\t0.1s\nFAIL", 1, 1, 0),
    ] {
        assert_eq!(outcome(text).tests, Some(TestRun { passed, failed, skipped }), "{text}");
        assert_eq!(outcome(text).failed, failed > 0);
    }
    assert_eq!(outcome("I passed 3 arguments, which failed").tests, None);
}

#[test]
fn an_answer_that_is_only_an_error_is_a_failure() {
    let edit = [Action::Edit { path: "a".into() }];
    let failed = |text: &str| Outcome::of(&ToolResult::text("c", text), &edit).failed;
    assert!(failed("Error: old_string was not found"));
    assert!(!failed("Updated a"));
    assert!(!failed(&format!("error.rs\n{}", "line\n".repeat(100))), "a file that begins with the word");
    assert!(Outcome::of(&ToolResult::error("c", "x"), &edit).failed);
}

#[test]
fn any_text_is_read_without_a_panic() {
    for text in ["", "\\", "'", "\"", "<<", "<<<", "a <<E", ">", "2>", "&>", "|", "ü >ß", "\"$(", "x\\"] {
        beside(text);
        is_check(text);
        outcome(text);
        free("exec", text);
    }
}

#[test]
fn a_path_that_leads_nowhere_else_stays_as_it_is() {
    for path in ["a", "/a/b.rs", "src/a b.rs", "~/x", "C:/x", "/", "..", ".", "./a", ".env", "a/.env", "a..b"]
    {
        let around = format!("{path}/./");
        assert_eq!(resolved(None, path), resolved(None, &around), "{path}");
    }
}
