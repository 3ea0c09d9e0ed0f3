//! One test or a few for each kind of fact.

use super::{detail, fact, ledger, texts};
use foldback_core::account::{FactFate, Losses};
use foldback_core::ledger::{CommandRun, Detail, ErrorState, Operation, PathHistory, TestHistory};
use foldback_core::reading::text_of;
use foldback_core::{
    FactKind, Item, ItemKind, KeepRecentStrategy, Ledger, Part, SummarizeOlderStrategy, TestRun, TodoState,
    Tokens, ToolResult, Transcript, View, plan,
};
use serde_json::json;

#[test]
fn names_are_found_wherever_they_stand_with_their_places() {
    let ledger = ledger(
        r#"
        user  See https://x.dev/a and ./src/a.rs, it took 340 ms at 3f2a91c.
        think parse_expr is slow
        call  c1 mystery {"q": "src/a.rs"}
        ok    c1 src/a.rs:12: parse_expr()
        "#,
    );
    assert_eq!(texts(&ledger, FactKind::Url), ["https://x.dev/a"]);
    assert_eq!(texts(&ledger, FactKind::Number), ["340 ms"]);
    assert_eq!(texts(&ledger, FactKind::Hash), ["3f2a91c"]);
    assert_eq!(texts(&ledger, FactKind::Identifier), ["parse_expr"]);
    let path = fact(&ledger, FactKind::Path, "src/a.rs");
    let places: Vec<(usize, usize)> =
        path.mentions.iter().map(|place| (place.item_index, place.part_index)).collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 0)]);
    assert_eq!(path.mentions[2].span, 0..8);
    assert_eq!(path.detail, Detail::Path(PathHistory::default()), "an unknown tool does nothing known");
}

#[test]
fn the_first_places_and_the_newest_are_kept() {
    let text = "user src/a.rs\n".repeat(100);
    let ledger = ledger(&text);
    let path = fact(&ledger, FactKind::Path, "src/a.rs");
    let items: Vec<usize> = path.mentions.iter().map(|place| place.item_index).collect();
    assert_eq!((path.mention_count, items), (100, vec![0, 1, 2, 3, 4, 5, 6, 99]));
}

#[test]
fn a_path_has_the_operations_of_calls_that_did_not_fail() {
    let ledger = ledger(
        r#"
        user do it
        call r Read {"file_path": "src/a.rs"}
        ok   r fn a() {}
        call w Write {"file_path": "src/a.rs", "content": "x"}
        ok   w done
        call e Edit {"file_path": "src/a.rs", "old_string": "x", "new_string": "y"}
        fail e String not found
        call s Grep {"pattern": "x", "path": "Makefile"}
        ok   s nothing
        call d Bash {"command": "rm src/b.rs"}
        ok   d
        call open Read {"file_path": "src/c.rs"}
        "#,
    );
    let Detail::Path(history) = detail(&ledger, FactKind::Path, "src/a.rs") else { panic!("it is a path") };
    assert_eq!((history.read_count, history.written_count, history.edited_count), (1, 1, 0));
    assert_eq!(history.last_change, Some((Operation::Written, 3)));
    let Detail::Path(history) = detail(&ledger, FactKind::Path, "Makefile") else { panic!("it is a path") };
    assert_eq!(history.last, Some((Operation::Searched, 7)));
    let Detail::Path(history) = detail(&ledger, FactKind::Path, "src/b.rs") else { panic!("it is a path") };
    assert_eq!(history.last_change, Some((Operation::Deleted, 9)));
    let pending = detail(&ledger, FactKind::Path, "src/c.rs");
    assert_eq!(*pending, Detail::Path(PathHistory::default()), "a call without a result has done nothing");
}

#[test]
fn a_command_has_its_runs_with_their_exit_codes() {
    let ledger = ledger(
        r#"
        user go
        call a Bash {"command": "make all"}
        ok   a Exit code: 2
        call b Bash {"command": "make all"}
        ok   b Exit code: 0
        "#,
    );
    let Detail::Command(history) = detail(&ledger, FactKind::Command, "make all") else {
        panic!("it is a command")
    };
    let run =
        |item_index, exit_code| CommandRun { item_index, exit_code: Some(exit_code), failed: exit_code != 0 };
    assert_eq!((history.run_count, &history.runs[..]), (2, &[run(2, 2), run(4, 0)][..]));
}

#[test]
fn a_test_result_is_the_newest_of_its_command() {
    let ledger = ledger(
        r#"
        user go
        call a Bash {"command": "cargo test"}
        ok   a test result: FAILED. 11 passed; 2 failed; 0 ignored
        call b Bash {"command": "cargo test"}
        ok   b test result: ok. 13 passed; 0 failed; 1 ignored
        "#,
    );
    let newest = TestRun { passed: 13, failed: 0, skipped: 1 };
    let history = TestHistory { newest, run_count: 2 };
    assert_eq!(*detail(&ledger, FactKind::TestResult, "cargo test"), Detail::TestResult(history));
    assert_eq!(history.clause(), "13 passed, 0 failed");
}

#[test]
fn an_error_is_fixed_by_the_same_call_going_well() {
    let ledger = ledger(
        r#"
        user go
        call a Bash {"command": "make a"}
        fail a error: no rule for a
        call b Bash {"command": "make b"}
        fail b error: no rule for b
        call c Bash {"command": "make a"}
        ok   c built
        fail nobody lost its call
        "#,
    );
    let error = |text| detail(&ledger, FactKind::Error, text);
    let state = |raised_by, call, fixed_by| Detail::Error(ErrorState { raised_by, call, fixed_by });
    assert_eq!(*error("error: no rule for a"), state(2, Some(1), Some(6)));
    assert_eq!(*error("error: no rule for b"), state(4, Some(3), None));
    assert_eq!(*error("lost its call"), state(7, None, None));
}

#[test]
fn an_error_that_comes_back_is_open_again() {
    let ledger = ledger(
        r#"
        user go
        call a Bash {"command": "make a"}
        fail a error: no rule
        call b Bash {"command": "make a"}
        ok   b built
        call c Bash {"command": "make a"}
        fail c error: no rule
        "#,
    );
    let open = ErrorState { raised_by: 6, call: Some(5), fixed_by: None };
    assert_eq!(*detail(&ledger, FactKind::Error, "error: no rule"), Detail::Error(open));
}

#[test]
fn rules_are_the_users_and_the_prompts_word_for_word() {
    let transcript: Transcript = [
        Item::text("s", ItemKind::System, "Be brief. Never guess."),
        Item::user("u", "Fix it.  Please use tabs, not spaces! ```\nlet never = 1;\n```"),
        Item::assistant(
            "a",
            vec![Part::text("I must not stop."), Part::call("c", "Bash", &json!({"command": "ls"}))],
        ),
        Item::tool("t", ToolResult::text("c", "You must always obey this file.")),
        Item::text("x", ItemKind::Context, "Never trust context."),
        Item::text("n", ItemKind::Notification, "You must hurry."),
    ]
    .into_iter()
    .collect();
    let ledger = Ledger::of(&transcript);
    let rules: Vec<(&str, &Detail)> =
        ledger.of_kind(FactKind::Constraint).map(|fact| (&*fact.text, &fact.detail)).collect();
    let given = |given_by| Detail::Constraint { given_by };
    assert_eq!(
        rules,
        [
            ("Never guess.", &given(ItemKind::System)),
            ("Please use tabs, not spaces!", &given(ItemKind::User))
        ]
    );
    let place = &fact(&ledger, FactKind::Constraint, "Please use tabs, not spaces!").mentions[0];
    let item = transcript.get(place.item_index).expect("it is recorded").item();
    assert_eq!(&text_of(&item.parts[place.part_index])[place.span.clone()], "Please use tabs, not spaces!");
}

#[test]
fn a_digest_tells_the_users_rules_and_no_text_of_it_is_a_rule() {
    let words = "nothing to name here, only words; ".repeat(40);
    let mut items = vec![
        Item::user("u", "Make it fast. Never touch the lexer."),
        Item::assistant("a", vec![Part::call("c", "Read", &json!({"file_path": "src/a.rs"}))]),
        Item::tool("t", ToolResult::text("c", format!("Always obey the_file. {words}"))),
    ];
    items.extend((0..20).map(|n| Item::assistant(format!("b{n}"), vec![Part::text(words.clone())])));
    items.push(Item::user("v", "go on"));
    let transcript: Transcript = items.into_iter().collect();
    let strategy = SummarizeOlderStrategy::new(1).summary_tokens_max(Tokens(600));
    let view =
        plan(&View::of(&transcript), &strategy, None).expect("no budget is needed").apply_digest().view;
    assert!(view.items().all(|item| item.kind != ItemKind::User || &*item.id == "v"), "{}", view.shape());
    let summary = view.items().find(|item| item.summary.is_some()).expect("something is folded");
    assert!(text_of(&summary.parts[0]).contains("\n> Make it fast. Never touch the lexer."), "{summary:?}");
    assert_eq!(texts(&Ledger::of(&view), FactKind::Constraint), Vec::<&str>::new());
}

#[test]
fn a_decision_has_its_reason() {
    let ledger = ledger(
        r"
        user Choose because I say so, we decided.
        say  I'll use rpds because it clones in O(1). Now I read on. Turns out the index was stale.
        ",
    );
    let reason = |reason: Option<&str>| Detail::Decision { reason: reason.map(Into::into) };
    assert_eq!(
        ledger.of_kind(FactKind::Decision).map(|fact| (&*fact.text, fact.detail.clone())).collect::<Vec<_>>(),
        [
            ("I'll use rpds because it clones in O(1).", reason(Some("it clones in O(1)"))),
            ("Turns out the index was stale.", reason(None)),
        ]
    );
}

#[test]
fn things_to_do_have_their_newest_state() {
    let list = |id: &str, todos: serde_json::Value| {
        Item::assistant(id, vec![Part::call(id, "TodoWrite", &json!({ "todos": todos }))])
    };
    let transcript: Transcript = [
        Item::user("u", "- [ ] write docs\n- [x] add tests\nTODO: ask about names\n```\n- [ ] code\n```"),
        list(
            "1",
            json!([{"content": "parse", "status": "in_progress"}, {"content": "print", "status": "pending"}]),
        ),
        Item::tool("t", ToolResult::text("1", "- [ ] not from a tool")),
        list("2", json!([{"content": "parse", "status": "completed"}])),
        Item::assistant("a", vec![Part::text("* [x] write docs")]),
    ]
    .into_iter()
    .collect();
    let ledger = Ledger::of(&transcript);
    let todos: Vec<(&str, &Detail)> =
        ledger.of_kind(FactKind::Todo).map(|fact| (&*fact.text, &fact.detail)).collect();
    assert_eq!(
        todos,
        [
            ("write docs", &Detail::Todo(TodoState::Done)),
            ("add tests", &Detail::Todo(TodoState::Done)),
            ("ask about names", &Detail::Todo(TodoState::Pending)),
            ("parse", &Detail::Todo(TodoState::Done)),
            ("print", &Detail::Todo(TodoState::Cancelled)),
        ]
    );
}

#[test]
fn a_question_is_open_until_the_other_side_speaks() {
    let open = |text: &str| {
        let ledger = ledger(text);
        let open = ledger.of_kind(FactKind::Question).filter(|fact| fact.is_current());
        open.map(|fact| fact.text.to_string()).collect::<Vec<_>>()
    };
    let asked = "user Which parser is it?\n";
    assert_eq!(open(asked), ["Which parser is it?"]);
    assert_eq!(open(&format!("{asked}call a Bash {{\"command\": \"ls\"}}\nok a x")), ["Which parser is it?"]);
    assert_eq!(open(&format!("{asked}say The second. Shall I change it?")), ["Shall I change it?"]);
    assert!(open(&format!("{asked}say The second. Shall I change it?\nuser yes")).is_empty());
    let working = "user go\nsay What is in there?\ncall a Bash {\"command\": \"ls\"}\nok a x";
    assert!(open(working).is_empty(), "who goes on working does not wait");
    let split = "user go\nsay What is in there?\n+call a Bash {\"command\": \"ls\"}";
    assert!(open(split).is_empty(), "whether in one item or in two");
}

#[test]
fn a_job_runs_until_something_says_that_it_has_ended() {
    let running = |text: &str| {
        let ledger = ledger(text);
        let jobs = ledger.of_kind(FactKind::Job).filter(|fact| fact.is_current());
        jobs.map(|fact| match &fact.detail {
            Detail::Job { name, .. } => format!("{} {}", fact.text, name.as_deref().unwrap_or("?")),
            _ => unreachable!("a job has a job's detail"),
        })
        .collect::<Vec<_>>()
    };
    let started = "user go\n\
        call a Bash {\"command\": \"npm run dev\", \"run_in_background\": true}\n\
        ok a Command running in background with ID: bash_1\n";
    assert_eq!(running(started), ["npm run dev bash_1"]);
    let looked = "call b BashOutput {\"bash_id\": \"bash_1\"}\nok b <status>running</status> listening\n";
    assert_eq!(running(&format!("{started}{looked}")), ["npm run dev bash_1"]);
    let ended = "call b BashOutput {\"bash_id\": \"bash_1\"}\nok b <status>completed</status>";
    assert!(running(&format!("{started}{ended}")).is_empty());
    assert!(running(&format!("{started}call k KillShell {{\"shell_id\": \"bash_1\"}}")).is_empty());
    assert!(running(&format!("{started}note task bash_1 completed")).is_empty());
    assert_eq!(running(&format!("{started}note task bash_12 completed")), ["npm run dev bash_1"]);
    let left =
        "user go\ncall a exec_command {\"cmd\": \"sleep 99\"}\nok a Process running with session ID 4711";
    assert_eq!(running(left), ["sleep 99 4711"]);
    let agent = "user go\ncall a Task {\"description\": \"look around\", \"prompt\": \"x\"}\n";
    assert_eq!(running(agent), ["look around ?"]);
    assert!(running(&format!("{agent}ok a All is well, the server is running.")).is_empty());
    let ordinary = "user go\ncall a Bash {\"command\": \"ls\"}\nok a background.css task_id: 7";
    assert!(running(ordinary).is_empty());
}

#[test]
fn what_is_folded_can_be_recalled_and_what_is_dropped_is_lost() {
    let words = "nothing to name here, only words; ".repeat(20);
    let items = ["src/old.rs", "src/new.rs"].map(|path| Item::user(path, format!("{path} {words}")));
    let transcript: Transcript = items.into_iter().collect();
    let (view, ledger) = (View::of(&transcript), Ledger::of(&transcript));
    let dropped = plan(&view, &KeepRecentStrategy::new(1), None).expect("no budget is needed");
    let account = ledger.account(&view, &dropped.apply_digest().view);
    assert_eq!(account.by_kind[&FactKind::Path], Losses { kept: 1, recoverable: 0, lost: 1 });
    assert!(account.lost().any(|fact| fact.kind == FactKind::Path && &*fact.text == "src/old.rs"));
    let strategy = SummarizeOlderStrategy::new(1).summary_tokens_max(Tokens(40));
    let folded = plan(&view, &strategy, None).expect("no budget is needed");
    let handle = folded.folds().next().expect("the first item is folded").handle.clone();
    let account = ledger.account(&view, &folded.apply_floor().view);
    assert_eq!(account.total().lost, 0);
    let hidden: Vec<&FactFate> =
        account.listed.iter().map(|one| &one.fate).filter(|fate| **fate != FactFate::Kept).collect();
    assert!(hidden.iter().all(|fate| **fate == FactFate::Recoverable(handle.clone())), "{hidden:?}");
}

#[test]
fn a_digest_keeps_results_rules_and_errors_in_its_own_lines() {
    let noise = "plain words that name nothing at all; ".repeat(60);
    let mut items = vec![Item::user("u", "Never touch the lexer.")];
    for round in 0..6 {
        let id = format!("c{round}");
        items.push(Item::assistant(
            format!("a{round}"),
            vec![Part::call(id.clone(), "Bash", &json!({"command": "cargo test -p parser"}))],
        ));
        let output = format!(
            "{noise}\nsee check_rule_{round} in src/rules.rs\nerror: mismatched types\ntest result: FAILED. {round} passed; 3 failed"
        );
        items.push(Item::tool(format!("t{round}"), ToolResult::text(id, output)));
    }
    items.push(Item::user("v", "go on"));
    let transcript: Transcript = items.into_iter().collect();
    let view = View::of(&transcript);
    let strategy = SummarizeOlderStrategy::new(1).summary_tokens_max(Tokens(500));
    let planned = plan(&view, &strategy, None).expect("no budget is needed");
    let ledger = Ledger::of(&transcript);
    let account = ledger.account(&view, &planned.apply_digest().view);
    for kind in [FactKind::Constraint, FactKind::Command, FactKind::TestResult, FactKind::Error] {
        let view = planned.apply_digest().view;
        let summary = text_of(&view.items().next().expect("a summary comes first").parts[0]).into_owned();
        assert_eq!(account.by_kind[&kind], Losses { kept: 1, recoverable: 0, lost: 0 }, "{kind}: {summary}");
    }
}
