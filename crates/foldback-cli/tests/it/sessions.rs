//! Sessions in a store: imported, compacted, taken back, found again, exported.

use super::*;

/// A session of so many turns in the native form.
pub(super) fn session_file(folder: &tempfile::TempDir, name: &str, turns: usize) -> String {
    let mut text = String::new();
    for turn in 0..turns {
        let said = format!("request {turn}: {}", "please look at src/parser.rs again ".repeat(20));
        let answer = format!("answer {turn}: {}", "it was the lexer all along ".repeat(20));
        text.push_str(&native(&format!("u{turn}"), "user", &said));
        text.push_str(&native(&format!("a{turn}"), "assistant", &answer));
    }
    let path = at(folder, name);
    std::fs::write(&path, text).unwrap();
    path
}

pub(super) fn native(id: &str, kind: &str, text: &str) -> String {
    let item = serde_json::json!({"id": id, "kind": kind, "parts": [{"text": text}]});
    format!("{item}\n")
}

pub(super) fn in_store(folder: &tempfile::TempDir, arguments: &[&str]) -> Output {
    let mut command = foldback(arguments);
    command.env("FOLDBACK_STORE", at(folder, "data/sessions.db"));
    command.output().unwrap()
}

pub(super) fn lines(output: &Output) -> Vec<Value> {
    assert_eq!(code(output), 0, "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_exported_session_is_the_imported_file_byte_for_byte() {
    let folder = folder();
    for (number, fixture) in [SESSION.to_owned(), session_file(&folder, "own.jsonl", 30)].iter().enumerate() {
        let id = format!("session-{number}");
        let imported = in_store(&folder, &["session", "import", "--id", &id, fixture]);
        assert_eq!(code(&imported), 0, "{}", text(&imported.stderr));
        let exported = in_store(&folder, &["session", "export", &id]);
        assert_eq!(exported.stdout, std::fs::read(fixture).unwrap(), "{fixture}");
        let again = lines(&in_store(&folder, &["session", "import", "--json", "--id", &id, fixture]));
        assert_eq!(again[0]["new_items"], 0, "what is there is not stored again");
    }
    let listed = lines(&in_store(&folder, &["session", "list", "--json"]));
    assert_eq!(listed.len(), 2);
}

/// A file of several conversations, as tau-bench writes them.
fn several_conversations(folder: &tempfile::TempDir) -> String {
    let talk = |number: usize| {
        serde_json::json!({"task_id": number, "reward": 1.0, "info": {}, "trial": 0, "traj": [
            {"role": "system", "content": "You book flights."},
            {"role": "user", "content": format!("please book flight {number}")},
            {"role": "assistant", "content": format!("flight {number} is booked")},
        ]})
    };
    let path = at(folder, "several.json");
    std::fs::write(&path, Value::Array((0..3).map(talk).collect()).to_string()).unwrap();
    path
}

#[test]
fn every_conversation_of_a_file_becomes_a_session() {
    let folder = folder();
    let file = several_conversations(&folder);
    let imported = lines(&in_store(&folder, &["session", "import", "--json", &file]));
    let names: Vec<&str> = imported.iter().map(|line| line["session"].as_str().unwrap()).collect();
    assert_eq!(names, ["several", "several#2", "several#3"]);
    let context = text(&in_store(&folder, &["session", "export", "several#3"]).stdout);
    assert!(context.contains("please book flight 2") && !context.contains("flight 1"), "{context}");
    let exported = in_store(&folder, &["session", "export", "several"]);
    assert_eq!(exported.stdout, std::fs::read(&file).unwrap(), "the first one keeps the file");
    let again = lines(&in_store(&folder, &["session", "import", "--json", &file]));
    assert!(again.iter().all(|line| line["new_items"] == 0 && line["branch"].is_null()), "{again:?}");
    let found = lines(&in_store(&folder, &["search", "booked", "--json"]));
    assert_eq!(found.len(), 3);
}

#[test]
fn files_that_share_a_name_and_nothing_else_are_two_sessions() {
    let (folder, other) = (folder(), folder());
    let one = session_file(&folder, "own.jsonl", 2);
    let two = at(&other, "own.jsonl");
    std::fs::write(&two, native("x", "user", "something else")).unwrap();
    in_store(&folder, &["import", &one]);
    let second = lines(&in_store(&folder, &["import", "--json", &two]));
    assert_eq!(second[0]["session"], "own#own");
    for (id, file) in [("own", &one), ("own#own", &two)] {
        let exported = in_store(&folder, &["session", "export", id]);
        assert_eq!(exported.stdout, std::fs::read(file).unwrap());
    }
}

/// Imports a folder: each file in it with the session that keeps it.
fn imported(store: &str, sessions: &Path) -> Vec<(String, String)> {
    let sessions = sessions.display().to_string();
    let told = lines(&run(&["import", "--json", "--store", store, &sessions]));
    let mut kept: Vec<(String, String)> = Vec::new();
    for line in &told {
        let (file, id) = (line["file"].as_str().unwrap(), line["session"].as_str().unwrap());
        assert!(line["branch"].is_null(), "{file} shares {id} with another file");
        if kept.last().is_none_or(|(last, _)| last != file) {
            kept.push((file.to_owned(), id.to_owned()));
        }
    }
    assert!(!kept.is_empty(), "{sessions} holds sessions");
    kept
}

fn every_file_comes_out(store: &str, kept: &[(String, String)]) {
    for (file, id) in kept {
        let exported = run(&["session", "export", id, "--store", store]);
        assert_eq!(code(&exported), 0, "{file}: {}", text(&exported.stderr));
        assert!(exported.stdout == std::fs::read(file).unwrap(), "{file} is exported as it was");
    }
    assert_eq!(json(&run(&["store", "verify", "--json", "--store", store]))["clean"], true);
}

fn every_file_comes_back(store: &str, sessions: &Path) {
    every_file_comes_out(store, &imported(store, sessions));
}

#[test]
fn every_fixture_is_exported_as_it_was() {
    let folder = folder();
    every_file_comes_back(&at(&folder, "sessions.db"), &fixtures());
}

/// On sessions that agents recorded.
mod recorded {
    use foldback_testkit::needs;

    use super::*;

    #[test]
    #[ignore = "needs recorded sessions"]
    fn every_file_is_exported_from_a_file_as_it_was() {
        let folder = folder();
        every_file_comes_back(&at(&folder, "sessions.db"), &needs::sessions());
    }

    #[test]
    #[ignore = "needs PostgreSQL and recorded sessions"]
    fn every_file_is_exported_from_a_server_as_it_was() {
        every_file_comes_back(&needs::postgres(), &needs::sessions());
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_server_is_a_store_like_a_file() {
    let url = foldback_testkit::needs::postgres();
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 30);
    let id = format!("cli-{}", std::process::id());
    let on_server = |arguments: &[&str]| {
        let output = foldback(arguments).args(["--store", &url]).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        output
    };
    on_server(&["session", "import", "--id", &id, &file]);
    assert_eq!(on_server(&["session", "export", &id]).stdout, std::fs::read(&file).unwrap());
    on_server(&["session", "delete", &id]);
}

#[test]
fn a_session_is_compacted_as_its_file_is() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 60);
    let figures =
        |report: &Value| ["tokens_before", "tokens_after"].map(|name| report[name].as_u64().unwrap());
    let whole = json(&run(&["stats", &file, "--json"]))["tokens_view"].as_u64().unwrap();
    for (number, percent) in [110, 100, 75, 50, 25].into_iter().enumerate() {
        let (id, target) = (format!("s{number}"), (whole * percent / 100).to_string());
        in_store(&folder, &["session", "import", "--id", &id, &file]);
        let compact = ["session", "compact", &id, "--target", &target];
        let stored = json(&in_store(&folder, &[&compact[..], &["--json"]].concat()));
        let dry = json(&run(&["compact", &file, "--target", &target, "--dry-run", "--json"]));
        assert_eq!(figures(&stored), figures(&dry["conversations"][0]), "{percent}%");
        if percent >= 100 {
            assert_eq!(stored["loops"], serde_json::json!([]), "{stored}");
            let told = text(&in_store(&folder, &compact).stdout);
            assert!(told.contains("already under the target"), "{told}");
        }
    }
    in_store(&folder, &["session", "import", "--id", "roomy", &file]);
    let done = json(&in_store(&folder, &["session", "compact", "roomy", "--json"]));
    assert_eq!(done["loops"], serde_json::json!([]), "half of the default window holds it: {done}");
}

#[test]
fn a_compaction_is_logged_undone_and_redone() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 60);
    in_store(&folder, &["session", "import", "--id", "s", &file]);
    let shown = || {
        let context = in_store(&folder, &["session", "context", "s", "--json", "--window", "8k"]);
        json(&context)["items"].as_array().unwrap().len()
    };
    let before = shown();
    let done = json(&in_store(&folder, &["session", "compact", "s", "--window", "8k", "--json"]));
    assert!(done["tokens_after"].as_u64() < done["tokens_before"].as_u64(), "{done}");
    let after = shown();
    assert!(after < before, "{after} of {before}");
    let log = lines(&in_store(&folder, &["session", "log", "s", "--json"]));
    assert_eq!((log.len(), &log[0]["in_force"]), (1, &Value::Bool(true)));
    assert!(log[0]["strategy"].as_str().unwrap().starts_with("ladder"));
    let told = text(&in_store(&folder, &["session", "log", "s"]).stdout);
    assert!(told.contains("tokens") && told.contains("recall @"), "{told}");

    let handle = log[0]["handles"][0].as_str().unwrap();
    let recalled = in_store(&folder, &["recall", handle]);
    assert!(text(&recalled.stdout).contains("request 20"), "{}", text(&recalled.stderr));

    assert_eq!(code(&in_store(&folder, &["session", "undo", "s"])), 0);
    assert_eq!(shown(), before);
    assert_eq!(lines(&in_store(&folder, &["session", "log", "s", "--json"]))[0]["in_force"], false);
    assert_eq!(code(&in_store(&folder, &["session", "redo", "s"])), 0);
    assert_eq!(shown(), after);
    let request = in_store(&folder, &["session", "context", "s", "--for", "anthropic", "--window", "8k"]);
    let request: Value = serde_json::from_slice(&request.stdout).unwrap();
    assert!(!request["messages"].as_array().unwrap().is_empty());
}

#[test]
fn a_session_is_rewound_forked_shown_and_deleted() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 5);
    in_store(&folder, &["session", "import", "--id", "s", &file]);
    let branch = json(&in_store(&folder, &["session", "rewind", "s", "4", "--json"]));
    let context = json(&in_store(&folder, &["session", "context", "s", "--json"]));
    assert_eq!(context["items"].as_array().unwrap().len(), 4);
    let shown = json(&in_store(&folder, &["session", "show", "s", "--json"]));
    assert_eq!((shown["loops"].as_array().unwrap().len(), &shown["current_loop"]), (2, &branch["loop"]));
    assert_eq!(code(&in_store(&folder, &["session", "fork", "s", "900"])), 2);
    assert_eq!(code(&in_store(&folder, &["session", "undo", "s"])), 2);
    assert_eq!(code(&in_store(&folder, &["session", "delete", "s"])), 0);
    let gone = in_store(&folder, &["session", "show", "s"]);
    assert_eq!(code(&gone), 3);
    assert!(text(&gone.stderr).contains("there is no session s"), "{}", text(&gone.stderr));
}

#[test]
fn what_was_said_is_found_with_a_handle_that_recalls_it() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 30);
    in_store(&folder, &["session", "import", "--id", "s", &file]);
    let found = lines(&in_store(&folder, &["search", "lexer", "--limit", "3", "--json"]));
    assert_eq!(found.len(), 3);
    let handle = found[0]["handle"].as_str().unwrap();
    let recalled = in_store(&folder, &["recall", handle, "--session", "s"]);
    assert!(text(&recalled.stdout).contains("it was the lexer all along"), "{}", text(&recalled.stderr));
    assert_eq!(code(&in_store(&folder, &["search", "zeppelin"])), 1, "nothing is there");
    assert_eq!(code(&in_store(&folder, &["search"])), 2);
    assert_eq!(code(&in_store(&folder, &["recall", "@short"])), 2);
}

#[test]
fn a_file_that_grows_is_gone_on_with_and_one_that_changed_becomes_a_branch() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 3);
    let import = || lines(&in_store(&folder, &["import", "--json", &file]))[0].clone();
    assert_eq!(import()["new_items"], 6);
    session_file(&folder, "own.jsonl", 5);
    let grown = import();
    assert_eq!((&grown["new_items"], &grown["branch"]), (&Value::from(4), &Value::Null));
    let text = std::fs::read_to_string(&file).unwrap().replace("answer 3", "another answer");
    std::fs::write(&file, text).unwrap();
    let changed = import();
    assert_eq!(changed["new_items"], 3, "from the first item that is not the same");
    assert!(changed["branch"].is_string());
    let exported = in_store(&folder, &["session", "export", changed["session"].as_str().unwrap()]);
    assert_eq!(exported.stdout, std::fs::read(&file).unwrap());
}

#[test]
fn a_folder_is_followed_as_it_grows() {
    let folder = folder();
    let sessions = folder.path().join("agents");
    std::fs::create_dir(&sessions).unwrap();
    let inner = tempfile::Builder::new().tempdir_in(&sessions).unwrap();
    session_file(&inner, "one.jsonl", 2);
    session_file(&inner, "two.jsonl", 4);
    let path = sessions.display().to_string();
    let watched = in_store(&folder, &["import", "--watch", "--every", "1", "--rounds", "3", "--json", &path]);
    assert_eq!(lines(&watched).len(), 2, "each file is told of once");
    assert_eq!(lines(&in_store(&folder, &["session", "list", "--json"])).len(), 2);
}

#[test]
fn a_store_is_verified_backed_up_and_restored() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 20);
    in_store(&folder, &["session", "import", "--id", "s", &file]);
    let verified = json(&in_store(&folder, &["store", "verify", "--json"]));
    assert_eq!((&verified["clean"], &verified["items"]), (&Value::Bool(true), &Value::from(40)));
    let backup = at(&folder, "backup");
    assert_eq!(code(&in_store(&folder, &["store", "backup", &backup])), 0);
    let again = in_store(&folder, &["store", "backup", &backup]);
    assert_eq!(code(&again), 5, "a backup is not written over");
    assert!(text(&again.stderr).contains("another name"), "{}", text(&again.stderr));
    let other = at(&folder, "other.db");
    let restored = run(&["store", "restore", &backup, "--store", &other]);
    assert_eq!(code(&restored), 0, "{}", text(&restored.stderr));
    let exported = run(&["session", "export", "s", "--store", &other]);
    assert_eq!(exported.stdout, std::fs::read(&file).unwrap());
    assert_eq!(code(&in_store(&folder, &["store", "gc"])), 0);
    assert_eq!(json(&in_store(&folder, &["store", "verify", "--json"]))["clean"], true);
}

#[test]
fn sessions_are_removed_for_good_only_where_somebody_says_so() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 5);
    in_store(&folder, &["session", "import", "--id", "s", &file]);
    let listed = || text(&in_store(&folder, &["session", "list"]).stdout);
    let refused = in_store(&folder, &["store", "gc", "--older-than", "0"]);
    assert_eq!(code(&refused), 2);
    assert!(text(&refused.stderr).contains("1 session for good") && text(&refused.stderr).contains("--yes"));
    let looked = in_store(&folder, &["store", "gc", "--older-than", "0", "--dry-run"]);
    assert_eq!((code(&looked), text(&looked.stdout)), (0, "s\n1 session would be removed\n".to_owned()));
    let kept = in_store(&folder, &["store", "gc", "--older-than", "0", "--keep", "s", "--dry-run", "--json"]);
    assert_eq!(json(&kept)["sessions"].as_array().unwrap().len(), 0);
    assert!(listed().contains('s'));
    assert_eq!(code(&in_store(&folder, &["store", "gc", "--older-than", "7"])), 0, "nothing is that old");
    assert_eq!(code(&in_store(&folder, &["store", "gc", "--older-than", "0", "--yes"])), 0);
    assert_eq!(code(&in_store(&folder, &["session", "show", "s"])), 3);
}

#[test]
fn what_only_reads_makes_no_store_of_a_mistyped_name() {
    let folder = folder();
    let mistyped = at(&folder, "sesions.db");
    for command in [
        &["session", "list"][..],
        &["search", "parser"],
        &["recall", "@6hjhb91nxq"],
        &["store", "verify"],
        &["store", "gc"],
        &["mcp"],
    ] {
        let refused = run(&[command, &["--store", &mistyped]].concat());
        assert_eq!(code(&refused), 3, "{command:?}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("foldback import"), "{}", text(&refused.stderr));
        assert!(!std::fs::exists(&mistyped).unwrap(), "{command:?}");
    }
}

#[test]
fn every_fixture_survives_a_backup() {
    let folder = folder();
    let (store, other, backup) = (at(&folder, "one.db"), at(&folder, "other.db"), at(&folder, "backup"));
    let kept = imported(&store, &fixtures());
    let written = json(&run(&["store", "backup", &backup, "--store", &store, "--json"]));
    let restored = json(&run(&["store", "restore", &backup, "--store", &other, "--json"]));
    assert_eq!(written["backed_up"], restored["restored"]);
    every_file_comes_out(&other, &kept);
    let items = |store: &str| json(&run(&["store", "verify", "--json", "--store", store]))["items"].clone();
    assert_eq!(items(&store), items(&other));
}

#[test]
fn a_damaged_backup_is_told_by_its_name_and_nothing_of_it_is_restored() {
    let folder = folder();
    let (store, other, backup) = (at(&folder, "one.db"), at(&folder, "other.db"), at(&folder, "backup"));
    imported(&store, &fixtures().join("opencode"));
    assert_eq!(code(&run(&["store", "backup", &backup, "--store", &store])), 0);
    let whole = std::fs::read(&backup).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for bytes in [&whole[..whole.len() - 1], &flipped, b"these are notes"] {
        let damaged = at(&folder, "damaged");
        std::fs::write(&damaged, bytes).unwrap();
        let refused = run(&["store", "restore", &damaged, "--store", &other]);
        let told = text(&refused.stderr);
        assert_eq!(code(&refused), 3, "{told}");
        assert!(told.contains(&damaged) && told.contains("backup"), "{told}");
        assert!(!told.contains("the store is damaged"), "{told}");
        assert_eq!(json(&run(&["store", "verify", "--json", "--store", &other]))["sessions"], 0);
    }
    assert_eq!(code(&run(&["store", "restore", &backup, "--store", &other])), 0);
    let again = run(&["store", "restore", &backup, "--store", &other]);
    assert_eq!(code(&again), 2, "{}", text(&again.stderr));
}

#[test]
fn a_backup_that_fails_leaves_no_file() {
    let folder = folder();
    let (store, target) = (at(&folder, "one.db"), folder.path().join("target"));
    imported(&store, &fixtures().join("opencode"));
    std::fs::create_dir(&target).unwrap();
    // What is read is not what its name says.
    let database = rusqlite::Connection::open(&store).unwrap();
    database.execute("UPDATE packs SET data = zeroblob(length(data))", []).unwrap();
    let backup = target.join("backup").display().to_string();
    let failed = run(&["store", "backup", &backup, "--store", &store]);
    assert_eq!(code(&failed), 3, "{}", text(&failed.stderr));
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_store_that_is_none_is_told_with_what_to_do() {
    let folder = folder();
    let wrong = at(&folder, "notes.txt");
    std::fs::write(&wrong, "these are my notes and no database at all, whatever the name may be ".repeat(40))
        .unwrap();
    let refused = run(&["session", "list", "--store", &wrong]);
    assert_eq!(code(&refused), 3, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("no store of foldback"), "{}", text(&refused.stderr));
    assert_eq!(code(&run(&["session", "list", "--store", "redis://somewhere/1"])), 2);
}

/// What an MCP client sends and is answered, one message on each line.
#[test]
fn an_agent_finds_and_recalls_its_folded_past_over_mcp() {
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 60);
    in_store(&folder, &["session", "import", "--id", "s", &file]);
    in_store(&folder, &["session", "compact", "s", "--window", "8k"]);
    let log = lines(&in_store(&folder, &["session", "log", "s", "--json"]));
    let handle = log[0]["handles"][0].as_str().unwrap();
    let messages = [
        serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}),
        serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        serde_json::json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        serde_json::json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": {"name": "recall", "arguments": {"handle": handle}}}),
        serde_json::json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call",
            "params": {"name": "search", "arguments": {"query": "lexer", "limit": 2}}}),
        serde_json::json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
            "params": {"name": "recall", "arguments": {"handle": "nonsense"}}}),
    ];
    let mut client = foldback(&["mcp"]);
    client.env("FOLDBACK_STORE", at(&folder, "data/sessions.db"));
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut answered = Vec::new();
    for message in &messages {
        writeln!(stdin, "{message}").unwrap();
        if message.get("id").is_some() {
            answered.push(serde_json::from_str::<Value>(&answers.next().unwrap().unwrap()).unwrap());
        }
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let names: Vec<&Value> =
        answered[1]["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["recall", "search"]);
    let said = |number: usize| answered[number]["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(said(2).contains("request 10"), "{}", said(2));
    assert!(said(2).ends_with("call again with offset 20000]"), "a long answer comes in pieces");
    assert!(said(3).contains('@') && said(3).contains("lexer"), "{}", said(3));
    assert_eq!(answered[4]["result"]["isError"], true);
    assert!(said(4).contains("no handle"), "{}", said(4));
}

#[test]
fn a_list_says_which_session_is_which_and_its_short_ids_are_understood() {
    let folder = folder();
    for id in ["aaaaaaaa-one", "aaaaaaaa-two", "bbbbbbbb-three"] {
        let file = session_file(&folder, "own.jsonl", 2);
        assert_eq!(code(&in_store(&folder, &["session", "import", "--id", id, &file])), 0);
    }
    let listed = lines(&in_store(&folder, &["session", "list", "--json"]));
    assert!(listed.iter().all(|one| one["tokens"].as_u64().unwrap() > 100), "{listed:?}");
    assert!(listed[0]["first_prompt"].as_str().unwrap().starts_with("request 0: please look"), "{listed:?}");
    let told = text(&in_store(&folder, &["session", "list"]).stdout);
    assert!(told.contains("bbbbbbbb  ") && told.contains("aaaaaaaa-t  "), "{told}");
    assert!(told.contains("request 0: please look") && told.contains(" tokens in 4 items"), "{told}");
    let shown = json(&in_store(&folder, &["session", "show", "bb", "--json"]));
    assert_eq!(shown["id"], "bbbbbbbb-three");
    for (short, says) in [("aaaa", "2 session ids"), ("cc", "no session")] {
        for arguments in [&["session", "show", short][..], &["store", "gc", "--dry-run", "--keep", short]] {
            let refused = in_store(&folder, arguments);
            let told = text(&refused.stderr);
            assert!(code(&refused) != 0 && told.contains(says), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn a_title_that_the_agent_gave_is_kept_and_followed() {
    let folder = folder();
    let path = at(&folder, "session.jsonl");
    let said = serde_json::json!({"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "s1",
        "timestamp": "2026-11-01T10:00:00.000Z", "message": {"role": "user", "content": "Make it blue."}});
    let titled =
        |title: &str| serde_json::json!({"type": "custom-title", "customTitle": title, "sessionId": "s1"});
    for title in ["Colours", "Colours of the page"] {
        std::fs::write(&path, format!("{said}\n{}\n", titled(title))).unwrap();
        assert_eq!(code(&in_store(&folder, &["import", &path])), 0);
        let listed = lines(&in_store(&folder, &["session", "list", "--json"]));
        let one = listed.iter().find(|one| one["title"] == title);
        assert!(one.is_some_and(|one| one["began_at"] == "2026-11-01T10:00:00Z"), "{listed:?}");
    }
}
