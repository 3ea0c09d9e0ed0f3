//! What the beginning of a session file says of it: its id, its folder, what was asked first.
//!
//! A session may be long and is not read for that. Its title may stand at the end, which is read as well.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Agent, TITLE_CHARACTERS_MAX};

/// How much of the beginning is read.
const BEGINNING_BYTES_MAX: u64 = 256 * 1024;

/// How much of the end is read for a title.
const END_BYTES_MAX: u64 = 64 * 1024;

/// Gemini CLI's older files are one JSON, which is read as a whole.
const WHOLE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What is known of a session before it is read.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub(super) id: Option<String>,
    pub(super) folder: Option<PathBuf>,
    pub(super) title: Option<String>,
}

impl Beginning {
    /// None where the file cannot be read, or is a sub-agent's.
    pub(super) fn read(agent: Agent, path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let is_whole = path.extension().is_some_and(|extension| extension == "json");
        let mut beginning = Self::default();
        let bytes = read_at_most(&mut file, if is_whole { WHOLE_BYTES_MAX } else { BEGINNING_BYTES_MAX })?;
        match is_whole {
            true => beginning.take_whole(&serde_json::from_slice(&bytes).ok()?),
            false => {
                for record in records(&bytes) {
                    if is_of_sub_agent(agent, &record) {
                        return None;
                    }
                    beginning.take(agent, &record);
                }
            }
        }
        let length = file.metadata().ok()?.len();
        if !is_whole && length > BEGINNING_BYTES_MAX {
            file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES_MAX))).ok()?;
            let end = read_at_most(&mut file, END_BYTES_MAX)?;
            records(&end).for_each(|record| beginning.take_title(&record));
        }
        Some(beginning)
    }

    fn take(&mut self, agent: Agent, record: &Value) {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let (id, folder, asked) = match agent {
            Agent::ClaudeCode => {
                let is_asked = record["type"] == "user" && record["isMeta"] != true;
                (&record["sessionId"], &record["cwd"], is_asked.then(|| &record["message"]["content"]))
            }
            Agent::Codex => {
                let payload = &record["payload"];
                let is_meta = record["type"] == "session_meta";
                let is_asked = record["type"] == "event_msg" && payload["type"] == "user_message";
                let of_meta = |name| if is_meta { &payload[name] } else { &Value::Null };
                (of_meta("id"), of_meta("cwd"), is_asked.then(|| &payload["message"]))
            }
            Agent::GeminiCli => {
                let is_asked = record["type"] == "user";
                (&record["sessionId"], &Value::Null, is_asked.then(|| &record["content"]))
            }
            Agent::Pi => {
                let is_head = record["type"] == "session";
                let is_asked = record["type"] == "message" && record["message"]["role"] == "user";
                let of_head = |name| if is_head { &record[name] } else { &Value::Null };
                (of_head("id"), of_head("cwd"), is_asked.then(|| &record["message"]["content"]))
            }
            Agent::CopilotCli => {
                let data = &record["data"];
                let is_asked = record["type"] == "user.message";
                (&data["sessionId"], &data["context"]["cwd"], is_asked.then(|| &data["content"]))
            }
        };
        self.id = self.id.take().or_else(|| text(id));
        self.folder = self.folder.take().or_else(|| text(folder).map(PathBuf::from));
        self.title = self.title.take().or_else(|| asked.and_then(asked_in));
        self.take_title(record);
    }

    /// What the agent or its user called the session; the newest is the last.
    fn take_title(&mut self, record: &Value) {
        let names = [&record["customTitle"], &record["aiTitle"]];
        let of_pi = (record["type"] == "session_info").then(|| &record["name"]);
        if let Some(title) = names.into_iter().chain(of_pi).find_map(Value::as_str).and_then(line_of) {
            self.title = Some(title);
        }
    }

    fn take_whole(&mut self, session: &Value) {
        self.id = session["sessionId"].as_str().map(ToOwned::to_owned);
        let messages = session["messages"].as_array().into_iter().flatten();
        let asked = messages.filter(|message| message["type"] == "user");
        self.title = asked.map(|message| &message["content"]).find_map(asked_in);
    }
}

/// Whether a record says that the file is the session of a sub-agent, which nobody resumes.
fn is_of_sub_agent(agent: Agent, record: &Value) -> bool {
    match agent {
        Agent::ClaudeCode => record["isSidechain"] == true,
        Agent::Codex => {
            record["type"] == "session_meta" && record["payload"]["source"]["subagent"].is_object()
        }
        Agent::GeminiCli => record["kind"] == "subagent",
        Agent::Pi | Agent::CopilotCli => false,
    }
}

/// The first line of what a person asked; what an agent puts in begins with a tag.
fn asked_in(content: &Value) -> Option<String> {
    let blocks = content.as_array().into_iter().flatten().map(|block| &block["text"]);
    let mut texts = std::iter::once(content).chain(blocks).filter_map(Value::as_str);
    texts
        .find(|text| !text.trim_start().starts_with(['<', '#']) && !text.starts_with("Caveat:"))
        .and_then(line_of)
}

/// The first line with something on it, cut.
fn line_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let cut: String = line.chars().take(TITLE_CHARACTERS_MAX).collect();
    Some(if cut.len() < line.len() { cut + "…" } else { cut })
}

fn read_at_most(file: &mut File, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The lines that are whole records.
fn records(bytes: &[u8]) -> impl Iterator<Item = Value> {
    bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}
