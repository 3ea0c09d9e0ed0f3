//! Sessions that are changed where they are while another program writes to them: whatever the command
//! did, nothing that the program wrote is lost. On Linux: elsewhere nobody tells who has a file open.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foldback_testkit::effort;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;

/// Runs of the program take as long as this many cheap cases.
const COST: u32 = 32;

/// A writer waits at most this long before it writes again, in turns that it leaves to others.
const TURNS_LEFT_MAX: u64 = 20_000;

/// How another program writes to a session that grows at its end.
#[derive(Clone, Copy, Debug)]
enum Writer {
    /// Opens the file for each line.
    Visits,
    /// Opens the file for some lines.
    ComesAndGoes,
}

/// How another program writes to a session that is one document.
#[derive(Clone, Copy, Debug)]
enum Author {
    /// Empties the file and writes it anew.
    Rewrites,
    /// Puts another file in its place.
    Replaces,
}

/// Draws that are the same for the same seed.
struct Draws(u64);

impl Draws {
    fn of(case: u32) -> Self {
        Self(xxh3_64_with_seed(&case.to_le_bytes(), effort::seed()))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = xxh3_64_with_seed(&self.0.to_le_bytes(), effort::seed());
        self.0 % end
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    fn pause(&mut self) {
        (0..self.below(TURNS_LEFT_MAX)).for_each(|_| thread::yield_now());
    }
}

/// A command that changes a session where it is, and the session.
struct Job {
    command: Vec<String>,
    name: String,
    session: Vec<u8>,
}

impl Job {
    /// None where the command changes nothing.
    fn new(command: &[&str], path: &str) -> Option<Self> {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let name = path.rsplit('/').next()?.to_owned();
        let mut session = std::fs::read(path).ok()?;
        if path.ends_with(".jsonl") && !session.ends_with(b"\n") {
            // What is appended begins on a line of its own.
            session.push(b'\n');
        }
        let job = Self { command, name, session };
        let folder = folder();
        let copy = job.copied_to(&folder);
        let output = job.run(&copy);
        (code(&output) == 0 && Path::new(&format!("{copy}.bak")).exists()).then_some(job)
    }

    fn copied_to(&self, folder: &tempfile::TempDir) -> String {
        let path = at(folder, &self.name);
        std::fs::write(&path, &self.session).unwrap();
        path
    }

    fn run(&self, path: &str) -> Output {
        let words = self.command.iter().map(String::as_str);
        run(&words.chain([path, "--in-place"]).collect::<Vec<_>>())
    }
}

/// Half of what the model sees, which is a target that compacts something.
fn half(path: &str) -> String {
    let stats = json(&run(&["stats", path, "--json", "-q"]));
    (stats["tokens_view"].as_u64().unwrap() / 2).to_string()
}

/// A session with a call that nothing answers.
fn unanswered(folder: &tempfile::TempDir) -> String {
    let path = at(folder, "unanswered.jsonl");
    let call = r#"{"tool_call":{"id":"c","name":"ls","input":{"json":{}}}}"#;
    let items = ["user", "assistant", "user"].map(|kind| {
        let part = if kind == "assistant" { call } else { r#"{"text":"go on"}"# };
        format!("{{\"kind\":\"{kind}\",\"parts\":[{part}]}}\n")
    });
    std::fs::write(&path, items.concat()).unwrap();
    path
}

/// Compactions of every format that takes records at its end, and other ways to add some.
fn jobs_that_add() -> Vec<Job> {
    let folder = folder();
    let fixtures = ["claude-code/compacted.jsonl", "codex/compacted.jsonl", "gemini-cli/session-log.jsonl"]
        .into_iter()
        .chain(["pi/linear.jsonl", "copilot-cli/events.jsonl", "native/session.jsonl"]);
    let mut jobs = Vec::new();
    for session in fixtures.map(fixtures_path) {
        let target = half(&session);
        let compact = ["compact", "-q", "--uncalibrated", "--target", &target];
        let Some(job) = Job::new(&compact, &session) else { continue };
        let compacted = at(&folder, &job.name);
        let output = run(&[&compact[..], &[&session, "-o", &compacted]].concat());
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        jobs.push(job);
        if !session.contains("/native/") && !session.contains("/claude-code/") {
            continue;
        }
        jobs.extend(Job::new(&["undo", "-q"], &compacted));
        let undone = at(&folder, "undone.jsonl");
        if code(&run(&["undo", "-q", &compacted, "-o", &undone])) == 0 {
            jobs.extend(Job::new(&["redo", "-q"], &undone));
        }
    }
    jobs.extend(Job::new(&["check", "--fix", "-q", "--for", "anthropic"], &unanswered(&folder)));
    assert!(jobs.len() > 8, "{}", jobs.len());
    jobs
}

fn fixtures_path(name: &str) -> String {
    fixtures().join(name).display().to_string()
}

/// A line that means nothing to any format.
fn line(number: usize) -> String {
    format!("{{\"type\":\"progress\",\"number\":{number}}}\n")
}

/// Writes lines until it is told to stop; how many.
fn write_lines(
    path: &str,
    writer: Writer,
    draws: &mut Draws,
    is_over: &AtomicBool,
    line: fn(usize) -> String,
) -> usize {
    let open = || std::fs::File::options().append(true).open(path).unwrap();
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        draws.pause();
        let in_a_row = match writer {
            Writer::Visits => 1,
            Writer::ComesAndGoes => draws.below(9) + 1,
        };
        let mut file = open();
        for _ in 0..in_a_row {
            file.write_all(line(count).as_bytes()).unwrap();
            count += 1;
            if matches!(writer, Writer::ComesAndGoes) {
                (0..draws.below(200)).for_each(|_| thread::yield_now());
            }
        }
    }
    count
}

/// Runs a command beside something else; what came of both.
fn beside<T: Send>(run: impl FnOnce() -> Output, other: impl FnOnce(&AtomicBool) -> T + Send) -> (Output, T) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| other(&is_over));
        let output = run();
        is_over.store(true, Ordering::Relaxed);
        (output, other.join().unwrap())
    })
}

/// The lines of a file that mean something, apart from those that a writer wrote.
fn others(file: &str, written: &[String]) -> Vec<String> {
    let is_other = |line: &&str| !line.trim().is_empty() && !written.contains(&format!("{line}\n"));
    file.lines().filter(is_other).map(str::to_owned).collect()
}

#[test]
fn a_session_that_grows_while_it_is_changed_holds_every_line_that_was_written() {
    effort::tell();
    let jobs = jobs_that_add();
    for case in 0..effort::cases(COST) {
        let mut draws = Draws::of(case);
        let (job, writer) = (draws.one_of(&jobs), *draws.one_of(&[Writer::Visits, Writer::ComesAndGoes]));
        let folder = folder();
        let path = job.copied_to(&folder);
        let write = |is_over: &AtomicBool| write_lines(&path, writer, &mut draws, is_over, line);
        let (output, count) = beside(|| job.run(&path), write);
        let told = format!("{:?} {writer:?} {count}: {}", job.command, text(&output.stderr));
        let written: Vec<String> = (0..count).map(line).collect();
        let now = std::fs::read_to_string(&path).unwrap();
        let found = now.split_inclusive('\n').filter(|line| line.contains("\"progress\",\"number\""));
        assert!(found.eq(written.iter()), "{told}");
        let (before, after) = (String::from_utf8(job.session.clone()).unwrap(), others(&now, &written));
        let before = others(&before, &[]);
        match code(&output) {
            0 => {
                assert!(after.starts_with(&before) && after.len() > before.len(), "{told}");
                assert_eq!(names(&folder), [job.name.clone(), format!("{}.bak", job.name)], "{told}");
            }
            5 => {
                assert_eq!(after, before, "{told}");
                assert_eq!(names(&folder), [job.name.as_str()], "{told}");
            }
            _ => panic!("{told}"),
        }
    }
}

/// Something that a user says.
fn said(number: usize) -> String {
    format!("{{\"id\":\"w{number}\",\"kind\":\"user\",\"parts\":[{{\"text\":\"late {number}\"}}]}}\n")
}

#[test]
fn a_session_that_is_written_anew_holds_every_line_that_was_written_since_it_was_read() {
    effort::tell();
    let fresh = ["compact", "-q", "--fresh", "--target", "6000"];
    let job = Job::new(&fresh, SESSION).unwrap();
    for case in 0..effort::cases(COST) {
        let mut draws = Draws::of(case);
        let writer = *draws.one_of(&[Writer::Visits, Writer::ComesAndGoes]);
        let folder = folder();
        let path = job.copied_to(&folder);
        let write = |is_over: &AtomicBool| write_lines(&path, writer, &mut draws, is_over, said);
        let (output, count) = beside(|| job.run(&path), write);
        let told = format!("{writer:?} {count}: {}", text(&output.stderr));
        let now = std::fs::read(&path).unwrap();
        let lines = |range: Range<usize>| range.map(said).collect::<String>().into_bytes();
        match code(&output) {
            0 => {
                let (backup, again) = (format!("{path}.bak"), at(&folder, "again.jsonl"));
                let read = std::fs::read(&backup).unwrap();
                let count_read = read[job.session.len()..].split_inclusive(|byte| *byte == b'\n').count();
                assert_eq!(read, [job.session.clone(), lines(0..count_read)].concat(), "{told}");
                assert_eq!(code(&run(&[&fresh[..], &[&backup, "-o", &again]].concat())), 0);
                let made_of_it = std::fs::read(&again).unwrap();
                assert_eq!(now, [made_of_it, lines(count_read..count)].concat(), "{told}");
            }
            5 => {
                assert_eq!(now, [job.session.clone(), lines(0..count)].concat(), "{told}");
                assert_eq!(names(&folder), [job.name.as_str()], "{told}");
            }
            _ => panic!("{told}"),
        }
    }
}

#[test]
fn a_document_that_is_written_anew_while_it_is_changed_is_the_one_that_was_written_last() {
    effort::tell();
    let documents = ["gemini-cli/session.json", "opencode/kept-tail.json", "openai-chat/body.json"];
    let jobs = documents.map(|name| {
        let path = fixtures_path(name);
        Job::new(&["compact", "-q", "--uncalibrated", "--target", &half(&path)], &path).unwrap()
    });
    for case in 0..effort::cases(COST) {
        let mut draws = Draws::of(case);
        let (job, author) = (draws.one_of(&jobs), *draws.one_of(&[Author::Rewrites, Author::Replaces]));
        let folder = folder();
        let path = job.copied_to(&folder);
        let mut document: Value = serde_json::from_slice(&job.session).unwrap();
        let (output, count) = beside(
            || job.run(&path),
            |is_over| {
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    draws.pause();
                    count += 1;
                    document["written"] = count.into();
                    let aside = format!("{path}.new");
                    match author {
                        Author::Rewrites => std::fs::write(&path, document.to_string()).unwrap(),
                        Author::Replaces => {
                            std::fs::write(&aside, document.to_string()).unwrap();
                            std::fs::rename(&aside, &path).unwrap();
                        }
                    }
                }
                count
            },
        );
        let told = format!("{} {author:?} {count}: {}", job.name, text(&output.stderr));
        // Half a document is none.
        assert!([0, 3, 5].contains(&code(&output)), "{told}");
        let now: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(now["written"].as_u64().unwrap_or(0), count, "{told}");
    }
}

#[test]
fn a_session_that_a_program_keeps_open_is_left_alone_and_the_program_is_named() {
    let jobs = jobs_that_add();
    let fresh = Job::new(&["compact", "-q", "--fresh", "--target", "6000"], SESSION);
    for job in jobs.iter().chain(&fresh) {
        let folder = folder();
        let path = job.copied_to(&folder);
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        let refused = job.run(&path);
        let told = text(&refused.stderr);
        assert_eq!(code(&refused), 5, "{:?}: {told}", job.command);
        assert!(told.contains("has it open for writing") && told.contains("hint: "), "{told}");
        assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
        file.write_all(line(0).as_bytes()).unwrap();
        let expected = [job.session.clone(), line(0).into_bytes()].concat();
        assert!(std::fs::read(&path).unwrap() == expected, "{:?}", job.command);
        assert_eq!(names(&folder), [job.name.as_str()]);
        drop(file);
        assert_eq!(code(&job.run(&path)), 0, "{:?}", job.command);
    }
}
