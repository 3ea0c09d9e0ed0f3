//! Undo after the agent went on: what was compacted is there again, and what was said since stands behind it.

use foldback_formats::Format;
use serde_json::{Value, json as value};

use super::history::as_log;
use super::{SESSION, at, code, fixtures, folder, run, text};

/// Turns that are said after a compaction.
const TURNS: usize = 10;

/// More compactions than any fixture has.
const UNDOS_MAX: usize = 10;

fn question(turn: usize) -> String {
    format!("Question {turn} after the compaction?")
}

fn answer(turn: usize) -> String {
    format!("Answer {turn}, given after the compaction.")
}

/// The same file with more turns, as its agent records them.
fn with_turns(format: Format, file: &str) -> String {
    if format == Format::Opencode {
        let mut session: Value = serde_json::from_str(file).unwrap();
        for turn in 0..TURNS {
            for (role, said) in [("user", question(turn)), ("assistant", answer(turn))] {
                let id = format!("msg_ffff{turn:02}{role}");
                let part = value!({"type": "text", "text": said, "id": format!("prt_{id}"), "messageID": id});
                let time = 1_990_000_000_000_u64 + turn as u64;
                let info = value!({"role": role, "id": id, "time": {"created": time, "completed": time}});
                session["messages"].as_array_mut().unwrap().push(value!({"info": info, "parts": [part]}));
            }
        }
        return session.to_string();
    }
    let mut file = file.trim_end().to_owned() + "\n";
    for turn in 0..TURNS {
        for (role, said) in [("user", question(turn)), ("assistant", answer(turn))] {
            let record = record(format, &file, role, turn, &said);
            file += &format!("{record}\n");
        }
    }
    file
}

fn record(format: Format, file: &str, role: &str, turn: usize, said: &str) -> Value {
    let (id, time) = (format!("late-{role}-{turn}"), "2030-01-01T00:00:00.000Z");
    let newest = |name: &str| {
        let records = file.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.into_iter().find_map(|record| record[name].as_str().map(str::to_owned)).unwrap()
    };
    let blocks = value!([{"type": "text", "text": said}]);
    match format {
        Format::ClaudeCode => {
            value!({"type": role, "uuid": id, "parentUuid": newest("uuid"), "timestamp": time,
            "sessionId": newest("sessionId"), "isSidechain": false,
            "message": {"role": role, "id": id, "content": blocks}})
        }
        Format::Codex => {
            let kind = if role == "user" { "input_text" } else { "output_text" };
            value!({"timestamp": time, "type": "response_item", "payload":
                {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}})
        }
        Format::Pi => value!({"type": "message", "id": id, "parentId": newest("id"), "timestamp": time,
            "message": {"role": role, "content": blocks}}),
        Format::GeminiCli => {
            let kind = if role == "user" { "user" } else { "gemini" };
            value!({"id": id, "timestamp": time, "type": kind, "content": said})
        }
        Format::CopilotCli => {
            let kind = format!("{role}.message");
            let data = value!({"content": said, "messageId": id, "toolRequests": []});
            value!({"type": kind, "data": data, "id": id, "parentId": newest("id"), "timestamp": time})
        }
        Format::Native => value!({"id": id, "kind": role, "parts": [{"text": said}]}),
        other => panic!("no agent writes {other}"),
    }
}

/// What the model sees, or all there is.
fn plain(path: &str, more: &[&str]) -> String {
    let shown = run(&[&["show", path, "--plain", "-q"], more].concat());
    assert_eq!(code(&shown), 0, "{}", text(&shown.stderr));
    text(&shown.stdout)
}

/// What the turns look like.
fn told_turns() -> String {
    (0..TURNS).map(|turn| format!("[user]\n{}\n[assistant]\n{}\n", question(turn), answer(turn))).collect()
}

#[test]
fn undo_after_ten_more_turns_gives_the_history_back_with_the_turns_behind_it() {
    let folder = folder();
    let (path, out) = (at(&folder, "session"), at(&folder, "compacted"));
    for format in Format::ALL.iter().filter(|format| format.is_writable() && format.dialect().is_none()) {
        let converted = run(&["convert", SESSION, "--to", format.as_str(), "-q", "-o", &path]);
        assert_eq!(code(&converted), 0, "{format}: {}", text(&converted.stderr));
        if *format == Format::GeminiCli {
            std::fs::write(&path, as_log(&std::fs::read_to_string(&path).unwrap())).unwrap();
        }
        let before = plain(&path, &[]);
        let compacted = run(&["compact", &path, "--target", "4500", "-q", "-o", &out]);
        assert_eq!(code(&compacted), 0, "{format}: {}", text(&compacted.stderr));
        assert_ne!(plain(&out, &[]), before, "{format}");
        std::fs::write(&out, with_turns(*format, &std::fs::read_to_string(&out).unwrap())).unwrap();
        assert!(plain(&out, &[]).ends_with(&told_turns()), "{format}: {}", plain(&out, &[]));

        let undone = run(&["undo", &out, "--in-place", "-q"]);
        assert_eq!(code(&undone), 0, "{format}: {}", text(&undone.stderr));
        assert_eq!(plain(&out, &[]), before.clone() + &told_turns(), "{format}");
        assert_eq!(
            code(&run(&["undo", &out, "--in-place", "-q"])),
            2,
            "{format}: nothing else was compacted"
        );
        let redone = run(&["redo", &out, "--in-place", "-q"]);
        assert_eq!(code(&redone), 0, "{format}: {}", text(&redone.stderr));
        assert!(plain(&out, &[]).ends_with(&told_turns()), "{format}");
    }
}

#[test]
fn compactions_that_the_agent_made_are_undone_after_ten_more_turns_as_well() {
    let compacted = [
        (Format::ClaudeCode, "claude-code/compacted.jsonl"),
        (Format::Codex, "codex/compacted.jsonl"),
        (Format::Opencode, "opencode/compacted.json"),
        (Format::Opencode, "opencode/kept-tail.json"),
        (Format::Pi, "pi/tree.jsonl"),
    ];
    let folder = folder();
    let path = at(&folder, "session");
    for (format, fixture) in compacted {
        let file = std::fs::read_to_string(fixtures().join(fixture)).unwrap();
        std::fs::write(&path, with_turns(format, &file)).unwrap();
        let history = plain(&path, &["--from", "history"]);
        assert!(history.ends_with(&told_turns()), "{fixture}: {history}");
        let mut undone = 0;
        while code(&run(&["undo", &path, "--in-place", "-q"])) == 0 && undone < UNDOS_MAX {
            undone += 1;
        }
        assert!((1..UNDOS_MAX).contains(&undone), "{fixture}: {undone}");
        let seen = plain(&path, &[]);
        assert!(seen.ends_with(&told_turns()), "{fixture}: {seen}");
        assert_eq!(seen, history, "{fixture}");
    }
}
