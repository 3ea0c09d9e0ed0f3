//! `foldback` as a person has it: in a pseudo terminal, which util-linux's `script` opens.

use std::io::Read;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::RecvTimeoutError::Disconnected;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use foldback_testkit::server::{Answer, Request, Said, Server, Spoken, Step};
use serde_json::json as value;

use super::chat::long_lines;
use super::sessions::session_file;
use super::*;

/// Long past everything that is done with a server on loopback: what takes longer hangs.
const HANG: Duration = Duration::from_secs(60);

/// The key that interrupts.
const CTRL_C: &str = "\u{3}";

/// What stands before the cursor when it is the person's turn. What is typed earlier, the agent reads.
const PROMPT: &str = "\u{1b}[1m>";

/// A program in a terminal.
pub(super) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// What was shown and not waited for yet.
    shown: String,
    /// All that was shown.
    all: Vec<u8>,
}

impl Terminal {
    /// A chat.
    pub(super) fn open(folder: &tempfile::TempDir, arguments: &str) -> Self {
        Self::run(folder, |program| format!("exec '{program}' chat {arguments}"))
    }

    /// What a shell makes of a line.
    pub(super) fn run(folder: &tempfile::TempDir, line: impl FnOnce(&str) -> String) -> Self {
        let program = foldback(&[]);
        let line = line(&program.get_program().display().to_string());
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(folder.path());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, screen, shown: String::new(), all: Vec::new() }
    }

    /// Waits until this is shown, behind what was waited for before.
    pub(super) fn sees(&mut self, wanted: &str) {
        loop {
            if let Some(at) = self.shown.find(wanted) {
                self.shown.drain(..at + wanted.len());
                return;
            }
            let more = self.screen.recv_timeout(HANG);
            let more = more.unwrap_or_else(|_| panic!("no {wanted:?} in {:?}", self.shown));
            self.all.extend_from_slice(&more);
            self.shown.push_str(&String::from_utf8_lossy(&more));
        }
    }

    pub(super) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the prompt, and says this.
    pub(super) fn says(&mut self, line: &str) {
        self.sees(PROMPT);
        self.types(&format!("{line}\n"));
    }

    fn quits(mut self) -> i32 {
        self.says("/quit");
        self.ends()
    }

    fn ends(mut self) -> i32 {
        self.rest();
        self.child.wait().unwrap().code().unwrap()
    }

    /// All that was shown, when the program has ended.
    pub(super) fn all(mut self) -> String {
        self.rest();
        String::from_utf8(std::mem::take(&mut self.all)).unwrap()
    }

    fn rest(&mut self) {
        // The screen is closed when the program has ended.
        loop {
            match self.screen.recv_timeout(HANG) {
                Ok(more) => self.all.extend(more),
                Err(error) => return assert_eq!(error, Disconnected),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test it may still be running.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn last_message(request: &Request) -> Value {
    request.json()["messages"].as_array().unwrap().last().unwrap().clone()
}

#[test]
fn a_person_is_asked_before_a_command_runs_and_may_say_no() {
    let url = Server::apart(|request: &Request| -> Answer {
        let input = value!({"command": "echo made > made.txt"});
        match last_message(request)["role"] == "tool" {
            true => Spoken::Chat.answer(request, &Said::Text("That is what came of it.")),
            false => Spoken::Chat.answer(request, &Said::Call { id: "c1", name: "shell", input: &input }),
        }
    });
    let folder = folder();
    let made = folder.path().join("made.txt");
    let mut terminal = Terminal::open(&folder, &format!("--model 'openai:{url}/v1#m'"));
    terminal.says("do it");
    terminal.sees("run `echo made > made.txt`? [y/N]");
    assert!(!made.exists(), "nobody has said yes");
    terminal.types("n\n");
    terminal.sees("That is what came of it.");
    assert!(!made.exists(), "the person said no");
    terminal.says("do it now");
    terminal.sees("run `echo made > made.txt`? [y/N]");
    terminal.types("y\n");
    terminal.sees("That is what came of it.");
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "made\n");
    assert_eq!(terminal.quits(), 0);
}

#[test]
fn an_interrupted_answer_ends_the_turn_and_not_the_conversation() {
    let url = Server::apart(|request: &Request| -> Answer {
        let said = last_message(request)["content"].to_string();
        if !said.contains("never ends") {
            return Spoken::Chat.answer(request, &Said::Text("Here I am again."));
        }
        // All of an answer but its end, which is three events.
        let mut events = Spoken::Chat.events(&Said::Text("The beginning of an answer"), 1);
        events.truncate(events.len() - 3);
        Answer::events(events).step(Step::Hang)
    });
    let folder = folder();
    let mut terminal = Terminal::open(&folder, &format!("--model 'openai:{url}/v1#m' --save chat.jsonl"));
    terminal.says("say something that never ends");
    terminal.sees("The beginning");
    terminal.types(CTRL_C);
    terminal.sees("interrupted");
    terminal.says("are you there");
    terminal.sees("Here I am again.");
    assert_eq!(terminal.quits(), 0);
    let saved = at(&folder, "chat.jsonl");
    assert_eq!(code(&run(&["check", &saved, "--for", "openai-chat"])), 0);
    let stats = json(&run(&["stats", &saved, "--json"]));
    assert_eq!(stats["conversations"][0]["turns"], 2, "both turns are kept: {stats}");
}

#[test]
fn a_compaction_and_its_undoing_are_shown_and_one_that_fails_is_shown_too() {
    let url = Server::apart(|request: &Request| -> Answer {
        Spoken::Chat.answer(request, &Said::Text("Understood."))
    });
    let folder = folder();
    let arguments = "--window 1500 --no-tools --backend digest";
    let mut terminal = Terminal::open(&folder, &format!("--model 'openai:{url}/v1#m' {arguments}"));
    for line in long_lines(6) {
        terminal.says(&line);
        terminal.sees("Understood.");
    }
    terminal.says("/compact");
    terminal.sees("compacted:");
    terminal.sees("tokens of prefix kept, summary by ");
    terminal.says("/context");
    terminal.sees("items through 1 compaction");
    terminal.says("/undo");
    terminal.sees("undone: what was folded from");
    terminal.says("/context");
    terminal.sees("the model sees 13 of 13 items through 0 compactions");
    // Said in one breath, it leaves no room for anything else.
    terminal.says(&"The parser reads one token too many; ".repeat(100));
    terminal.sees("Understood.");
    terminal.says("/compact");
    terminal.sees("not compacted:");
    terminal.says("are you still there");
    terminal.sees("Understood.");
    assert_eq!(terminal.quits(), 0);
}

async fn connected(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn an_interrupted_search_ends_by_itself_and_leaves_the_terminal_as_it_was() {
    let url = foldback_testkit::needs::postgres();
    let database = format!("interrupted_{}", std::process::id());
    connected(&url).await.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
    let url = format!("{}/{database}", url.rsplit_once('/').unwrap().0);
    let folder = folder();
    let file = session_file(&folder, "own.jsonl", 30);
    for arguments in [["session", "import", &file], ["search", "request", "--quiet"]] {
        let output = foldback(&arguments).args(["--store", &url]).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    }
    // Whoever looks for items waits until this is over.
    let client = connected(&url).await;
    client.batch_execute("BEGIN; LOCK TABLE foldback.items IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut terminal = Terminal::run(&folder, |program| {
        let search = format!("'{program}' search request --store '{url}' > found");
        // The key reaches the shell too.
        format!("trap : INT; stty -g > before; {search}; echo $? > code; stty -g > after")
    });
    let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'foldback.items'::regclass";
    let begun = Instant::now();
    while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(begun.elapsed() < HANG, "the search does not wait: {}", terminal.shown);
    }
    terminal.types(CTRL_C);
    terminal.sees("the search was interrupted before it found anything");
    terminal.ends();
    client.batch_execute("ROLLBACK").await.unwrap();
    let left = |name: &str| std::fs::read_to_string(at(&folder, name)).unwrap();
    assert_eq!((left("code").trim(), left("found").as_str()), ("1", ""), "nothing was found until then");
    assert_eq!(left("before"), left("after"));
}
