//! What a session, a server or a file name holds for a terminal does not reach one: in a real pseudo terminal.

use foldback_testkit::server::{Answer, Request, Said, Server, Spoken};
use serde_json::json as value;

use super::terminal::Terminal;
use super::*;

/// Clears the screen, sets the title, hides and colours what follows, turns the line around, writes over it,
/// and what nobody sees.
const HOSTILE: &str =
    "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}8m\u{202e}\u{200b}\u{e0041}\u{ad}\u{8}\u{7f}\r\u{1b}[31mred\u{2028}";

/// What foldback's own styles are made of: bold, dim, reverse, colours, and their ends.
const OWN_STYLES: &str = r"\x1b\[(0|1|2|7|27|3[1-6])m";

/// Fields that say what a record is, or that are read as something else than text.
const KEPT_FIELDS: [&str; 12] = [
    "type",
    "role",
    "kind",
    "status",
    "timestamp",
    "created_at",
    "media_type",
    "mimeType",
    "subtype",
    "event",
    "phase",
    "data",
];

/// Puts the hostile text behind every text.
fn plant(json: &mut Value) {
    match json {
        Value::String(text) => text.push_str(HOSTILE),
        Value::Array(values) => values.iter_mut().for_each(plant),
        Value::Object(fields) => {
            fields.iter_mut().filter(|(name, _)| !KEPT_FIELDS.contains(&name.as_str())).for_each(
                |(_, value)| {
                    plant(value);
                },
            );
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The file, hostile in every text that it holds.
fn planted(bytes: &str) -> String {
    if let Ok(mut document) = serde_json::from_str(bytes) {
        plant(&mut document);
        return document.to_string();
    }
    let line = |line: &str| match serde_json::from_str(line) {
        Ok(mut record) => {
            plant(&mut record);
            format!("{record}\n")
        }
        Err(_) => format!("{line}\n"),
    };
    bytes.lines().map(line).collect()
}

/// Fails where a terminal was given more than text and foldback's own styles.
fn assert_tame(shown: &str) {
    let tame = regex::Regex::new(OWN_STYLES).unwrap().replace_all(shown, "").replace("\r\n", "\n");
    let hidden =
        regex::Regex::new(r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}--[\n\t]]").unwrap();
    if let Some(found) = hidden.find(&tame) {
        let beginning: String = tame[..found.start()].chars().rev().take(300).collect();
        let beginning: String = beginning.chars().rev().collect();
        panic!("{:?} behind {beginning:?}", found.as_str());
    }
    assert!(!shown.contains("\u{1b}[31mred"), "a style of the content: {shown:?}");
    assert!(shown.contains("\\u{1b}") && shown.contains("\\u{202e}"), "nothing was hostile: {shown}");
}

/// Runs commands in a terminal, one after the other, with `$FOLDBACK` for the program.
fn shown(folder: &tempfile::TempDir, commands: &str) -> String {
    std::fs::write(folder.path().join("commands.sh"), format!("stty rows 5 cols 80\n{commands}\ntrue\n"))
        .unwrap();
    let environment = "FOLDBACK_PAGER=cat FOLDBACK_STORE=store/s.db FOLDBACK_COUNTER=estimate TERM=xterm";
    Terminal::run(folder, |program| format!("{environment} FOLDBACK='{program}' sh commands.sh")).all()
}

const EVERY_COMMAND: &str = r#"
for file in sessions/*; do
    $FOLDBACK stats "$file"
    $FOLDBACK stats --json "$file"
    $FOLDBACK show "$file"
    $FOLDBACK show --json "$file"
    $FOLDBACK show --shape "$file"
    $FOLDBACK show --plain "$file"
    $FOLDBACK check "$file"
    $FOLDBACK explain --target 600 "$file"
    $FOLDBACK explain --target 600 --json "$file"
    $FOLDBACK convert --to openai-chat "$file" -o converted
    $FOLDBACK compact --target 600 "$file"
    $FOLDBACK compact --target 600 "$file" -o -
    $FOLDBACK compact --target 600 "$file" -o compacted
    $FOLDBACK compact --target 1 "$file"
    $FOLDBACK show compacted
    $FOLDBACK diff "$file" compacted
    $FOLDBACK diff compacted
    $FOLDBACK log compacted
    $FOLDBACK undo compacted -o undone
    for handle in $(grep -o '@[0-9a-z]\{10\}' compacted | sort -u | head -3); do
        $FOLDBACK recall "$handle" "$file" compacted
    done
    $FOLDBACK replay "$file"
    $FOLDBACK eval "$file" --min-retention 100
    $FOLDBACK import "$file"
done
$FOLDBACK stats --quiet sessions/*
"#;

#[test]
fn nothing_in_a_session_gives_a_terminal_an_order() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("sessions")).unwrap();
    let wanted = [
        "native/",
        "claude-code/compacted",
        "codex/compacted",
        "openai-chat/body",
        "anthropic/request",
        "opencode/compacted",
        "pi/tree",
    ];
    let mut count = 0;
    for path in files_below(&fixtures()) {
        let name = path.display().to_string();
        if let Some(wanted) = wanted.iter().find(|wanted| name.contains(**wanted)) {
            let name = format!("sessions/{}{HOSTILE}", wanted.replace('/', "-"));
            std::fs::write(folder.path().join(name), planted(&std::fs::read_to_string(path).unwrap()))
                .unwrap();
            count += 1;
        }
    }
    assert_eq!(count, wanted.len());
    assert_tame(&shown(&folder, EVERY_COMMAND));
    // A progress bar writes over its line.
    let progress = shown(&folder, "$FOLDBACK stats sessions/*");
    assert!(progress.contains('█'), "{progress}");
    assert_tame(&progress.replace('\r', "").replace("\u{1b}[2K", ""));
}

#[test]
fn nothing_in_a_store_gives_a_terminal_an_order() {
    let folder = folder();
    let item = |id: &str, kind: &str, text: &str| value!({"id": format!("{id}{HOSTILE}"), "kind": kind, "parts": [{"text": format!("{text} zeppelin {HOSTILE}")}]});
    let session: String = (0..40)
        .map(|index| {
            format!(
                "{}\n",
                item(
                    &index.to_string(),
                    if index % 2 == 0 { "user" } else { "assistant" },
                    &"parser ".repeat(40)
                )
            )
        })
        .collect();
    std::fs::write(folder.path().join("session.jsonl"), session).unwrap();
    let commands = format!(
        "id=$(printf '{}')\n{}",
        HOSTILE.bytes().map(|byte| format!("\\{byte:03o}")).collect::<String>(),
        r#"
$FOLDBACK import session.jsonl --id "$id"
$FOLDBACK session list
$FOLDBACK session show "$id"
$FOLDBACK session compact "$id" --target 900
$FOLDBACK session log "$id"
$FOLDBACK session context "$id"
$FOLDBACK session context "$id" --for anthropic
$FOLDBACK session context "$id" --json
$FOLDBACK session export "$id"
$FOLDBACK session undo "$id"
$FOLDBACK session redo "$id"
$FOLDBACK session fork "$id" 3
$FOLDBACK session rewind "$id" 2
$FOLDBACK session compact "$id" --later
$FOLDBACK session work
$FOLDBACK search zeppelin
$FOLDBACK search zeppelin --json
$FOLDBACK search "$id"
$FOLDBACK store verify
$FOLDBACK store backup "$id"
$FOLDBACK store restore "$id"
$FOLDBACK store gc --older-than 0 --dry-run
$FOLDBACK session delete "$id"
$FOLDBACK session delete "$id"
"#
    );
    assert_tame(&shown(&folder, &commands));
}

#[test]
fn nothing_that_is_named_wrongly_gives_a_terminal_an_order() {
    let folder = folder();
    let octal: String = HOSTILE.bytes().map(|byte| format!("\\{byte:03o}")).collect();
    std::fs::write(folder.path().join("policy.toml"), format!("name = {}\nsteps = []\n", value!(HOSTILE)))
        .unwrap();
    let own = format!(
        "name = {name}\nabout = {name}\nchoose_when = {name}\n[[steps]]\nstrategy = \"keep-recent\"\ncount = 3\n",
        name = toml_text(HOSTILE)
    );
    std::fs::write(folder.path().join("own.toml"), own).unwrap();
    std::fs::create_dir(folder.path().join("project")).unwrap();
    let config = format!(
        "model = {name}\n[compact]\nbackend = \"openai:http://127.0.0.1:1/v1#{name_in}\"\nbackend_key_env = {name}\n",
        name = toml_text(HOSTILE),
        name_in = toml_text(HOSTILE).trim_matches('"')
    );
    std::fs::write(folder.path().join("project/foldback.toml"), config).unwrap();
    std::fs::write(folder.path().join("wrong.toml"), format!("{} = 1\n", toml_text(HOSTILE))).unwrap();
    std::fs::copy(SESSION, folder.path().join("session.jsonl")).unwrap();
    let commands = format!(
        "x=$(printf '{octal}')\n{}",
        r#"
$FOLDBACK "$x"
$FOLDBACK stats "--$x"
$FOLDBACK stats --format "$x" session.jsonl
$FOLDBACK stats "$x"
$FOLDBACK stats session.jsonl --model "$x"
$FOLDBACK compact session.jsonl --target "$x"
$FOLDBACK compact session.jsonl --policy "$x" -o out
$FOLDBACK compact session.jsonl --keep "($x" -o out
$FOLDBACK compact session.jsonl --target 3000 --backend "$x" -o out
$FOLDBACK compact session.jsonl --target 3000 -o "no/$x"
$FOLDBACK compact session.jsonl --target 3000 -o "$x"
$FOLDBACK check session.jsonl --for "$x"
$FOLDBACK recall "$x"
$FOLDBACK search --regex "($x"
$FOLDBACK session show "$x" --store "$x/s.db"
$FOLDBACK policies policy.toml
$FOLDBACK policies own.toml
$FOLDBACK policies "$x"
$FOLDBACK policies own.toml --json
$FOLDBACK stats session.jsonl --config wrong.toml
$FOLDBACK stats session.jsonl --config "$x"
$FOLDBACK man "$x"
FOLDBACK_TARGET="$x" $FOLDBACK compact session.jsonl --dry-run
FOLDBACK_BACKEND="$x" $FOLDBACK compact session.jsonl --dry-run
cd project
export XDG_DATA_HOME="$PWD/data"
$FOLDBACK compact ../session.jsonl --target 3000 -o ../out
$FOLDBACK trust
$FOLDBACK trust --json
$FOLDBACK trust --list
$FOLDBACK compact ../session.jsonl --target 3000 -o ../out
$FOLDBACK chat
"#
    );
    assert_tame(&shown(&folder, &commands));
}

/// A text as TOML has it, which knows the same escapes as JSON and wants all controls escaped.
fn toml_text(text: &str) -> String {
    let escaped = |c: char| match u32::from(c) {
        code @ (0..0x20 | 0x7f..) => format!("\\U{code:08x}"),
        _ => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[test]
fn nothing_that_a_server_says_gives_a_terminal_an_order() {
    let url = Server::apart(|request: &Request| -> Answer {
        let body = request.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let said = last["content"].to_string();
        let input = value!({"command": format!("echo made > made.txt{HOSTILE}\necho more")});
        match (last["role"] == "tool", said.contains("fail")) {
            (true, _) => Spoken::Chat.answer(request, &Said::Text(&format!("done {HOSTILE} 👩‍💻"))),
            (_, true) => {
                Answer::status(400).body(format!("{{\"error\":{{\"message\":{}}}}}", value!(HOSTILE)))
            }
            _ => Spoken::Chat.answer(request, &Said::Call { id: "c1", name: "shell", input: &input }),
        }
    });
    let folder = folder();
    let mut terminal = Terminal::open(&folder, &format!("--model 'openai:{url}/v1#m'"));
    terminal.says("do it");
    terminal.sees("run `echo made > made.txt");
    terminal.sees("echo more`? [y/N]");
    terminal.types("y\n");
    terminal.sees("👩‍💻");
    terminal.says("fail");
    terminal.sees("error:");
    terminal.says("/compact");
    terminal.says(&format!("/wrong{}", '\u{202e}'));
    terminal.says("/quit");
    let chat = terminal.all();
    // The terminal itself repeats what is typed.
    assert_tame(&chat.replace("/wrong\u{202e}\r\n", "").replace("👩‍💻", ""));

    std::fs::copy(SESSION, folder.path().join("session.jsonl")).unwrap();
    let failing = Server::apart(|_| Answer::status(400).body(format!("it failed {HOSTILE}")));
    let commands = format!(
        "$FOLDBACK compact session.jsonl --target 3000 -o out --backend 'openai:{failing}/v1#m'\n\
         $FOLDBACK probe session.jsonl --cache cache --backend 'openai:{failing}/v1#m'\n"
    );
    assert_tame(&shown(&folder, &commands));
}

#[test]
fn a_pipe_gets_the_bytes_of_data_and_a_document_is_escaped_for_everyone() {
    let folder = folder();
    let session = at(&folder, "session.jsonl");
    let item = |id: usize| value!({"id": id.to_string(), "kind": "user", "parts": [{"text": format!("{HOSTILE}{}", "word ".repeat(200))}]});
    std::fs::write(&session, (0..20).map(|id| format!("{}\n", item(id))).collect::<String>()).unwrap();
    let compacted = run(&["compact", &session, "--target", "900"]);
    assert!(compacted.stdout.starts_with(&std::fs::read(&session).unwrap()), "{}", text(&compacted.stderr));
    let report = text(&compacted.stdout);
    let handle = regex::Regex::new("@[0-9a-z]{10}").unwrap().find(&report).unwrap().as_str();
    let recalled = text(&run(&["recall", handle, &session]).stdout);
    assert!(recalled.contains(HOSTILE), "{recalled}");
    let file = std::fs::read(&session).unwrap();
    let store = at(&folder, "s.db");
    assert_eq!(code(&run(&["import", &session, "--id", "s", "--store", &store])), 0);
    assert_eq!(run(&["session", "export", "s", "--store", &store]).stdout, file);
    let shown = json(&run(&["show", &session, "--json"]));
    assert!(shown.to_string().contains(&value!(HOSTILE).to_string().trim_matches('"')[..12]), "{shown}");
    for arguments in [&["show", "--plain"][..], &["show"], &["stats"]] {
        let document = text(&run(&[arguments, &[&session]].concat()).stdout);
        assert!(!document.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']), "{arguments:?}: {document}");
    }
}
