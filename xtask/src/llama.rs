//! A llama.cpp server on loopback: `cargo xtask llama` for people, and for the tests that want a real
//! server with a small window. It is installed from PyPI into the target folder, once.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::cargo::{root, target_folder};
use crate::{Failure, tools};

/// Where tests find the server's address.
pub(crate) const URL_VARIABLE: &str = "FOLDBACK_LLAMA_URL";

/// The window of the server that the tests are run against; they are written for it.
pub(crate) const CONTEXT_DEFAULT: u32 = 4_096;

const SCRIPT: &str = "xtask/llama/serve.py";
const REQUIREMENTS: &str = "xtask/llama/requirements.txt";

/// A server that is not ready by then never will be; the first start writes the model.
const READY_TIME_MAX: Duration = Duration::from_secs(180);

/// How much of its log is shown when the server does not start.
const LOG_LINES_MAX: usize = 20;

/// Which model it serves, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// A name that the script knows.
    pub(crate) model: String,
    /// The window in tokens.
    pub(crate) context: u32,
    /// The port; 0 takes a free one.
    pub(crate) port: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { model: "parrot".to_owned(), context: CONTEXT_DEFAULT, port: 0 }
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Llama {
    child: Child,
    /// The script ends when this is closed, also where we are killed.
    stdin: Option<ChildStdin>,
    url: String,
}

impl Llama {
    /// Installs what is missing, starts the server and waits until it answers.
    pub(crate) fn start(options: &Options) -> Result<Self, Failure> {
        let folder = folder()?;
        let python = tools::python(&folder, REQUIREMENTS)?;
        let log_path = folder.join("server.log");
        let failed = |error: std::io::Error| Failure::Failed(format!("{SCRIPT}: {error}"));
        let mut child = Command::new(python)
            .arg(root().join(SCRIPT))
            .args(["--model", &options.model])
            .args(["--context", &options.context.to_string()])
            .args(["--port", &options.port.to_string()])
            .arg("--folder")
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log_path).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut llama = Self { child, stdin, url: String::new() };
        let (sender, address) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            // An end without an address is told by the channel's.
            if stdout.is_some_and(|stdout| BufReader::new(stdout).read_line(&mut line).is_ok_and(|n| n > 0)) {
                let _ = sender.send(line.trim().to_owned());
            }
        });
        llama.url = address.recv_timeout(READY_TIME_MAX).map_err(|_| {
            let log = tail(&log_path);
            Failure::Failed(format!("the llama.cpp server did not start; the end of its log:\n{log}"))
        })?;
        Ok(llama)
    }

    /// Where it listens, without a path.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It has nothing to save: a server that is busy is not waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the server until the person ends it.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let llama = Llama::start(options)?;
    println!("{} with a window of {} tokens is at {}", options.model, options.context, llama.url());
    println!("  {URL_VARIABLE}={} cargo test -p foldback-cli", llama.url());
    println!("enter ends it");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| Failure::Failed(format!("stdin: {error}")))?;
    Ok(())
}

/// What is installed and written stays here.
fn folder() -> Result<PathBuf, Failure> {
    let folder = target_folder()?.join("llama");
    fs::create_dir_all(&folder).map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())))?;
    Ok(folder)
}

fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}
