//! Sessions that are long enough to be written by a thread of their own.

use super::*;

/// A native session above the size from which its records are written while it is compacted.
fn long_session(folder: &tempfile::TempDir) -> String {
    let path = at(folder, "long.jsonl");
    let output = "a line that a tool might write, number 17, about src/parser.rs\\n".repeat(60);
    let mut file = String::from("{\"id\":\"u\",\"kind\":\"user\",\"parts\":[{\"text\":\"go\"}]}\n");
    while file.len() < 9 * 1024 * 1024 {
        let number = file.len();
        file.push_str(&format!(
            "{{\"id\":\"a{number}\",\"kind\":\"assistant\",\"parts\":[{{\"text\":\"{output}\"}}]}}\n\
             {{\"id\":\"u{number}\",\"kind\":\"user\",\"parts\":[{{\"text\":\"on\"}}]}}\n"
        ));
    }
    std::fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_long_session_is_written_the_same_wherever_it_goes() {
    let folder = folder();
    let session = long_session(&folder);
    let compact = |more: &[&str]| {
        let common = ["compact", &session, "--counter", "estimate", "--target", "4000", "-q"];
        let output = run(&[&common[..], more].concat());
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        output.stdout
    };
    let original = std::fs::read(&session).unwrap();
    let to_stdout = compact(&[]);
    assert!(to_stdout.starts_with(&original) && to_stdout.len() > original.len());
    let (out, fresh) = (at(&folder, "out.jsonl"), at(&folder, "fresh.jsonl"));
    compact(&["-o", &out]);
    assert!(std::fs::read(&out).unwrap() == to_stdout, "the file differs from what goes to stdout");
    compact(&["--fresh", "-o", &fresh]);
    assert!(!std::fs::read(&fresh).unwrap().starts_with(&original), "a fresh file holds no old records");
    compact(&["--in-place"]);
    assert!(std::fs::read(&session).unwrap() == to_stdout, "in place differs from what goes to stdout");
    assert!(std::fs::read(at(&folder, "long.jsonl.bak")).unwrap() == original, "the backup differs");
    assert_eq!(names(&folder), ["fresh.jsonl", "long.jsonl", "long.jsonl.bak", "out.jsonl"]);
}

#[test]
fn a_long_session_that_cannot_be_compacted_leaves_nothing_behind() {
    let folder = folder();
    let session = long_session(&folder);
    let out = at(&folder, "out.jsonl");
    let refused = run(&["compact", &session, "--counter", "estimate", "--target", "1", "-o", &out]);
    assert_ne!(code(&refused), 0);
    assert_eq!(names(&folder), ["long.jsonl"]);
}

/// A session of Claude Code that is long enough to be read piece by piece, with a line in it that is no
/// record, and a last one that is cut off.
fn long_claude_code_session() -> Vec<u8> {
    let output = "a line that a tool might write, number 17, about src/parser.rs\\n".repeat(60);
    let mut file = String::new();
    let mut number = 0;
    while file.len() < 9 * 1024 * 1024 {
        number += 1;
        let kind = if number % 2 == 1 { "user" } else { "assistant" };
        let parent = number - 1;
        file.push_str(&format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"r{number}\",\"parentUuid\":\"r{parent}\",\"sessionId\":\"s\",\
             \"message\":{{\"role\":\"{kind}\",\"content\":\"{output}\"}}}}\n"
        ));
        if number == 1_000 {
            file.push_str("no record\n");
        }
    }
    file.truncate(file.len() - 10);
    file.into_bytes()
}

#[test]
fn a_long_session_read_in_pieces_says_what_it_says_when_it_is_read_whole() {
    let folder = folder();
    let (path, bytes) = (at(&folder, "long.jsonl"), long_claude_code_session());
    std::fs::write(&path, &bytes).unwrap();
    let told = |output: &Output, file: &str| {
        assert_eq!(code(output), 0, "{}", text(&output.stderr));
        let without_file = |bytes: &[u8]| text(bytes).replace(file, "FILE");
        (without_file(&output.stdout), without_file(&output.stderr))
    };
    for command in [&["stats", "--json", "--counter", "estimate"][..], &["show", "--shape"]] {
        let in_pieces = run(&[command, &[path.as_str()]].concat());
        let mut whole = foldback(&[command, &["-"]].concat());
        let mut whole =
            whole.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        whole.stdin.take().unwrap().write_all(&bytes).unwrap();
        let (in_pieces, whole) = (told(&in_pieces, &path), told(&whole.wait_with_output().unwrap(), "stdin"));
        assert!(in_pieces == whole, "{command:?}: {} and {}", in_pieces.1, whole.1);
        assert!(in_pieces.1.contains("FILE:1001"), "{}", in_pieces.1);
    }
}
