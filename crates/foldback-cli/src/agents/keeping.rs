//! Where agents keep their sessions, and which files those of a folder are.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::Agent;

/// Files that are looked at for one agent; most machines have some hundred.
const FILES_MAX: usize = 20_000;

/// How deep sessions lie below an agent's folder: Codex has year, month and day.
const DEPTH_MAX: usize = 4;

/// Claude Code cuts the names of folders here, and adds a hash.
const CLAUDE_NAME_BYTES_MAX: usize = 200;

/// The folders in which agents keep sessions, one for each agent.
pub(super) struct Keeping {
    folders: Vec<(Agent, PathBuf)>,
}

/// A file in which an agent keeps a session.
pub(super) struct File {
    pub(super) agent: Agent,
    pub(super) path: PathBuf,
    pub(super) changed_at: SystemTime,
    /// Whether it lies where the agent keeps the sessions of the folder that was asked for.
    pub(super) is_of_folder: bool,
}

impl File {
    /// The id in its name, for files that do not say it in their beginning.
    pub(super) fn id(&self) -> Option<String> {
        Some(self.path.file_stem()?.to_str()?.to_owned())
    }

    /// Whether it lies where its agent keeps the sessions of `folder`.
    pub(super) fn is_kept_for(&self, folder: &Path) -> bool {
        let own = self.path.parent().and_then(|own| Some((own.parent()?, own)));
        own.is_some_and(|(kept, own)| keeps(self.agent, kept, &name_of(own), folder))
    }
}

impl Keeping {
    /// What the environment says, or where each agent keeps sessions by itself.
    pub(super) fn here() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME").or_else(|| set("USERPROFILE"));
        let below = |name: &str, of_home: &str| set(name).or_else(|| Some(home.as_ref()?.join(of_home)));
        let gemini_home = set("GEMINI_CLI_HOME").or_else(|| home.clone());
        let folders = [
            (Agent::ClaudeCode, below("CLAUDE_CONFIG_DIR", ".claude").map(|folder| folder.join("projects"))),
            (Agent::Codex, below("CODEX_HOME", ".codex").map(|folder| folder.join("sessions"))),
            (Agent::GeminiCli, gemini_home.map(|home| home.join(".gemini").join("tmp"))),
            (Agent::Pi, below("PI_CODING_AGENT_DIR", ".pi/agent").map(|folder| folder.join("sessions"))),
            (Agent::CopilotCli, below("COPILOT_HOME", ".copilot").map(|folder| folder.join("session-state"))),
        ];
        Self { folders: folders.into_iter().filter_map(|(agent, folder)| Some((agent, folder?))).collect() }
    }

    /// The files that may be sessions of these folders, which are one under several names.
    pub(super) fn files(&self, folders: &[PathBuf]) -> Vec<File> {
        let mut files = Vec::new();
        for (agent, kept) in &self.folders {
            let own = |name: &str| folders.iter().any(|folder| keeps(*agent, kept, name, folder));
            match agent {
                Agent::ClaudeCode | Agent::Pi | Agent::GeminiCli => {
                    for folder in entries(kept).filter(|path| own(&name_of(path))) {
                        let below = sessions_below(*agent, &folder);
                        files.extend(below.into_iter().map(|file| File { is_of_folder: true, ..file }));
                    }
                }
                // What folder these are of is in the files.
                Agent::Codex | Agent::CopilotCli => files.extend(sessions_below(*agent, kept)),
            }
        }
        files
    }

    /// All that there are.
    pub(super) fn all_files(&self) -> Vec<File> {
        let all = self.folders.iter().flat_map(|(agent, kept)| sessions_below(*agent, kept));
        // No folder was asked for.
        all.map(|file| File { is_of_folder: true, ..file }).collect()
    }

    /// Whether an agent finds a file among its sessions.
    pub(super) fn has(&self, agent: Agent, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let kept = self.folders.iter().filter(|(of, _)| *of == agent);
        kept.filter_map(|(_, folder)| folder.canonicalize().ok()).any(|folder| path.starts_with(folder))
    }
}

/// The folder that one works in, under each name that it has: a link is another name.
pub(super) fn working_folders() -> Vec<PathBuf> {
    let Ok(here) = std::env::current_dir() else { return Vec::new() };
    let by_shell = std::env::var_os("PWD").map(PathBuf::from);
    let is_here =
        |folder: &PathBuf| *folder != here && folder.canonicalize().ok() == here.canonicalize().ok();
    let by_shell = by_shell.filter(is_here);
    std::iter::once(here).chain(by_shell).collect()
}

/// Whether stdin is a pipe or a file, from which something is to be read.
#[cfg(unix)]
pub(super) fn stdin_has_data() -> bool {
    use rustix::fs::{FileType, fstat};
    let stdin = std::io::stdin();
    let kind = fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    !stdin.is_terminal() && kind.is_ok_and(|kind| kind != FileType::CharacterDevice)
}

#[cfg(not(unix))]
pub(super) fn stdin_has_data() -> bool {
    !std::io::stdin().is_terminal()
}

/// Whether an agent keeps the sessions of `folder` below its own folder of this name.
fn keeps(agent: Agent, kept: &Path, name: &str, folder: &Path) -> bool {
    let Some(folder) = folder.to_str() else { return false };
    match agent {
        Agent::ClaudeCode => {
            let own: String = folder.encode_utf16().map(letter_or_dash).collect();
            match own.get(..CLAUDE_NAME_BYTES_MAX).filter(|_| own.len() > CLAUDE_NAME_BYTES_MAX) {
                // What follows is a hash; the file says which folder it is.
                Some(beginning) => name.strip_prefix(beginning).is_some_and(|rest| rest.starts_with('-')),
                None => name == own,
            }
        }
        Agent::Pi => {
            let bare = folder.strip_prefix(['/', '\\']).unwrap_or(folder);
            name == format!("--{}--", bare.replace(['/', '\\', ':'], "-"))
        }
        Agent::GeminiCli => {
            let hash: String =
                Sha256::digest(folder.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            let marked = || std::fs::read_to_string(kept.join(name).join(".project_root"));
            name == hash || marked().is_ok_and(|root| root.trim_end() == folder)
        }
        Agent::Codex | Agent::CopilotCli => false,
    }
}

fn letter_or_dash(unit: u16) -> char {
    match u8::try_from(unit).map(char::from) {
        Ok(letter) if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    }
}

/// The sessions below a folder of an agent.
fn sessions_below(agent: Agent, folder: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for path in entries(&folder) {
            let Ok(metadata) = path.metadata() else { continue };
            if metadata.is_dir() && depth < DEPTH_MAX && name_of(&path) != "subagents" {
                folders.push((path, depth + 1));
            } else if metadata.is_file() && is_session(agent, &path) && files.len() < FILES_MAX {
                let changed_at = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(File { agent, path, changed_at, is_of_folder: false });
            }
        }
    }
    files
}

/// Whether an agent gives such names to sessions. What foldback keeps of one has another ending.
fn is_session(agent: Agent, path: &Path) -> bool {
    let (name, is) = (name_of(path), |ending: &str| path.extension().is_some_and(|own| own == ending));
    match agent {
        Agent::ClaudeCode => is("jsonl") && !name.starts_with("agent-"),
        Agent::Codex => is("jsonl") && name.starts_with("rollout-"),
        Agent::GeminiCli => name.starts_with("session-") && (is("json") || is("jsonl")),
        Agent::Pi => is("jsonl"),
        Agent::CopilotCli => name == "events.jsonl",
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(FILES_MAX);
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_name_their_folders_after_the_working_folder_each_in_its_way() {
        let keeps =
            |agent, name: &str, folder: &str| keeps(agent, Path::new("/none"), name, Path::new(folder));
        assert!(keeps(Agent::ClaudeCode, "-home-ana-my-app-v2", "/home/ana/my_app.v2"));
        let long = format!("/{}", "deep/".repeat(60));
        let name = format!("{}-1k2j3h", long.replace('/', "-").get(..200).unwrap());
        assert!(keeps(Agent::ClaudeCode, &name, &long));
        assert!(keeps(Agent::Pi, "--home-ana-my_app.v2--", "/home/ana/my_app.v2"));
        let hash = "9997adee761e8c2e2d02b4a0aa6da0bb29e09fe6a5a847a0be7109ce0ed8fba6";
        assert!(keeps(Agent::GeminiCli, hash, "/home/ana"));
    }
}
