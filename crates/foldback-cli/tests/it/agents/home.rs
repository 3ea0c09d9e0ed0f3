//! A home and a working folder that only one agent has, and programs that run in them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// An agent that has not ended by then never will: it is killed, and the test fails.
pub(super) const AGENT_TIME_MAX: Duration = Duration::from_secs(180);

/// Where nobody listens: what an agent asks of the network beside the model is refused at once.
const NOWHERE: &str = "http://127.0.0.1:9";

/// Folders below a temporary one, which go with this.
#[derive(Debug)]
pub(super) struct Home {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// What a program printed until it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Home {
    /// An empty home, and an empty working folder.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Self { folder, variables: Vec::new() };
        fs::create_dir(home.path()).unwrap();
        fs::create_dir(home.work()).unwrap();
        home
    }

    /// The folder that `HOME` names.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The folder that the agent works in.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file of the home, and the folders above it.
    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Sets a variable for whatever runs in it.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// A program in the working folder. It sees none of the machine's variables but the path, and nothing of the
    /// network but loopback.
    fn command(&self, program: &[PathBuf], words: &[&str]) -> Command {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args(words).current_dir(self.work());
        command.env_clear().env("HOME", self.path()).env("PATH", std::env::var_os("PATH").unwrap());
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, NOWHERE);
        }
        command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1").env("NPM_CONFIG_OFFLINE", "true");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.process_group(0);
        command
    }

    /// Runs a program in the working folder and waits for its end, whatever it is.
    pub(super) fn run(&self, program: &[PathBuf], words: &[&str]) -> Ended {
        let (stdout, stderr) = (self.folder.path().join("stdout"), self.folder.path().join("stderr"));
        let mut command = self.command(program, words);
        // Files, because what a program leaves running in the background would keep a pipe open.
        command
            .stdin(Stdio::null())
            .stdout(File::create(&stdout).unwrap())
            .stderr(File::create(&stderr).unwrap());
        let status = wait(&mut command);
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let (stdout, stderr) = (read(&stdout), read(&stderr));
        let status = status.unwrap_or_else(|| panic!("killed after {AGENT_TIME_MAX:?}:\n{stdout}\n{stderr}"));
        Ended { status, stdout, stderr }
    }

    /// Starts a program that reads lines of JSON, and prints such lines. Any other line is heard as a string.
    pub(super) fn talk(&self, program: &[PathBuf], words: &[&str]) -> Talk {
        let stderr = File::create(self.folder.path().join("stderr")).unwrap();
        let mut command = self.command(program, words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let (sender, said) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            let lines = lines.map(|line| serde_json::from_str(&line).unwrap_or_else(|_| line.into()));
            lines.map_while(|line| sender.send(line).ok()).count()
        });
        Talk { child, said, heard: Vec::new() }
    }
}

/// A program that is spoken to. It is killed with everything it started when this goes.
#[derive(Debug)]
pub(super) struct Talk {
    child: Child,
    said: Receiver<serde_json::Value>,
    /// Everything that it said so far.
    pub(super) heard: Vec<serde_json::Value>,
}

impl Talk {
    pub(super) fn say(&mut self, line: &serde_json::Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line like this.
    ///
    /// # Panics
    /// Where none comes in time.
    pub(super) fn until(&mut self, is_it: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let until = Instant::now() + AGENT_TIME_MAX;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.said.recv_timeout(left).unwrap_or_else(|error| {
                let newest = self.heard.iter().rev().take(3).map(ToString::to_string);
                panic!("{error} behind {:?}", newest.collect::<Vec<_>>())
            });
            self.heard.push(line.clone());
            if is_it(&line) {
                return line;
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Waits for the end of a program, which is killed with everything it started where it takes too long.
fn wait(command: &mut Command) -> Option<ExitStatus> {
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let group = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    let waiting = thread::spawn(move || sender.send(child.wait().unwrap()));
    let status = ended.recv_timeout(AGENT_TIME_MAX).ok();
    // Also after an end by itself: nothing stays behind. There may be nobody left to kill.
    let _ = kill_process_group(group, Signal::KILL);
    waiting.join().unwrap().ok();
    status
}

impl Ended {
    /// The same, if the program ended well.
    ///
    /// # Panics
    /// With what it printed, if it did not.
    pub(super) fn well(self) -> Self {
        assert!(self.status.success(), "{}:\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// The lines of its output that are JSON.
    pub(super) fn lines(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}
