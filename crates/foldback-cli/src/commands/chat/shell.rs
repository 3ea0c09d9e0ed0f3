//! The tool that runs commands.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use foldback_loop::{Tool, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use super::consent::{Ask, Consent};

/// How much of the output's beginning and of its end is kept.
const CLIP_BYTES: usize = 24 * 1024;

/// How long output is waited for after the command has ended: something it started may hold the pipe.
const DRAIN_TIME: Duration = Duration::from_millis(300);

/// How long a command may take.
const TIME_MAX: Duration = Duration::from_secs(600);

/// Runs commands in the working folder.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    pub(super) folder: PathBuf,
    pub(super) consent: Consent,
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn description(&self) -> &str {
        "Run a shell command in the working folder. The answer is its output and its exit code."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})
    }

    async fn call(&self, input: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let command = input["command"].as_str();
        let command = command.ok_or_else(|| ToolError::new("`command` is missing: give it as text"))?;
        self.consent.ask(Ask::Run { command }).await?;
        let mut running = Running::start(command, &self.folder)?;
        let ended = tokio::select! {
            biased;
            () = context.cancellation.cancelled() => None,
            ended = running.until_end() => Some(ended),
        };
        let printed = running.printed.text();
        match ended {
            None => Err(ToolError::new(format!("the person stopped it; so far it printed:\n{printed}"))),
            Some(Err(error)) => Err(ToolError::new(format!("the command could not be watched: {error}"))),
            Some(Ok(status)) if status.success() => Ok(format!("{printed}exit code 0").into()),
            Some(Ok(status)) => Err(ToolError::new(format!("{printed}{}", how_it_ended(status)))),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        Some(TIME_MAX)
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// A command that runs. Dropped before its end, it is stopped with everything it started; what a
/// command that ended left running on purpose goes on.
struct Running {
    child: Child,
    printed: Clip,
}

impl Running {
    fn start(command: &str, folder: &PathBuf) -> Result<Self, ToolError> {
        let mut shell = shell(command);
        shell.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        // On a terminal, what a command starts must not ask the person anything or draw over the chat.
        shell.stderr(Stdio::null());
        #[cfg(unix)]
        shell.process_group(0);
        let child = shell.spawn().map_err(|error| ToolError::new(format!("no shell: {error}")))?;
        Ok(Self { child, printed: Clip::default() })
    }

    /// Collects what is printed until the command ends.
    async fn until_end(&mut self) -> std::io::Result<ExitStatus> {
        let mut stdout = self.child.stdout.take();
        let mut buffer = vec![0; 8 * 1024];
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            let drained = ended.map_or_else(|| Instant::now() + TIME_MAX, |(_, until)| until);
            tokio::select! {
                read = read(&mut stdout, &mut buffer) => match read? {
                    0 => stdout = None,
                    count => self.printed.push(&buffer[..count]),
                },
                status = self.child.wait(), if ended.is_none() => {
                    ended = Some((status?, Instant::now() + DRAIN_TIME));
                }
                () = sleep_until(drained), if ended.is_some() => stdout = None,
            }
            if let (Some((status, _)), None) = (ended, &stdout) {
                return Ok(status);
            }
        }
    }
}

/// Never ready where there is nothing to read from any more.
async fn read(stdout: &mut Option<tokio::process::ChildStdout>, buffer: &mut [u8]) -> std::io::Result<usize> {
    match stdout {
        Some(stdout) => stdout.read(buffer).await,
        None => std::future::pending().await,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The shell itself is killed with the child; this is for what it started. A child that has
        // ended has no id any more.
        #[cfg(unix)]
        if let Some(group) =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    // Errors stand among the other output, where they happened.
    shell.arg("-c").arg(format!("exec 2>&1\n{command}"));
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").arg(format!("({command}) 2>&1"));
    shell
}

/// The beginning and the end of an output.
#[derive(Debug, Default)]
struct Clip {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    skipped: usize,
}

impl Clip {
    fn push(&mut self, bytes: &[u8]) {
        let room = CLIP_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(CLIP_BYTES);
        self.tail.drain(..excess);
        self.skipped += excess;
    }

    /// As text, a line of its own for what was left out, a line break at its end.
    fn text(&self) -> String {
        let (one, other) = self.tail.as_slices();
        let tail = [one, other].concat();
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        let mut text = match self.skipped {
            0 => format!("{head}{tail}"),
            skipped => format!("{head}\n({skipped} bytes left out)\n{tail}"),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_output_both_ends_are_kept() {
        let mut clip = Clip::default();
        let all: Vec<u8> = (0..3 * CLIP_BYTES).map(|index| b'a' + (index % 26) as u8).collect();
        all.chunks(1_000).for_each(|piece| clip.push(piece));
        let text = clip.text();
        assert!(text.contains(&format!("({CLIP_BYTES} bytes left out)")), "{}", text.len());
        assert!(text.starts_with(std::str::from_utf8(&all[..CLIP_BYTES]).unwrap()));
        assert!(text.trim_end().ends_with(std::str::from_utf8(&all[2 * CLIP_BYTES..]).unwrap()));
        let mut short = Clip::default();
        short.push(b"one\n");
        assert_eq!(short.text(), "one\n");
        assert_eq!(Clip::default().text(), "");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn output_and_errors_come_in_order_with_the_exit_code() {
        let folder = std::env::temp_dir();
        let mut running = Running::start("echo one; echo two >&2; echo three; exit 3", &folder).unwrap();
        let status = running.until_end().await.unwrap();
        assert_eq!(running.printed.text(), "one\ntwo\nthree\n");
        assert_eq!(how_it_ended(status), "exit code 3");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_a_command_leaves_running_is_not_waited_for() {
        let folder = std::env::temp_dir();
        let mut running = Running::start("sleep 1000 & echo $!", &folder).unwrap();
        running.until_end().await.unwrap();
        let left_behind: i32 = running.printed.text().trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(left_behind).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}
