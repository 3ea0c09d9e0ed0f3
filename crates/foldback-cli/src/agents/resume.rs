//! How an agent is told to go on with a session.

use std::path::Path;

use foldback_formats::{Contents, Format};

use super::beginning::Beginning;
use super::keeping::{Keeping, working_folders};
use super::{Agent, is_id};

/// The command that goes on with the session in a file. None where its agent would not find it there.
pub(crate) fn resume_command(path: &Path, session: &Contents) -> Option<String> {
    if session.format() == Format::Opencode {
        let id = session.session_id().filter(|id| is_id(id))?;
        return Some(format!("opencode import {} && opencode -s {id}", shell_word(path)?));
    }
    let agent = Agent::of(session.format())?;
    if session.sub_agent_of().is_some() {
        return None;
    }
    if agent == Agent::Pi {
        // pi takes any file, and goes on in the folder that it names.
        return Some(format!("pi --session {}", shell_word(path)?));
    }
    if !Keeping::here().has(agent, path) {
        return None;
    }
    let beginning = Beginning::read(agent, path)?;
    let id = beginning.id.filter(|id| is_id(id))?;
    let command = match agent {
        Agent::ClaudeCode => format!("claude --resume {id}"),
        Agent::Codex => format!("codex resume {id}"),
        Agent::GeminiCli => format!("gemini --resume {id}"),
        Agent::CopilotCli => format!("copilot --resume={id}"),
        Agent::Pi => return None,
    };
    // These look for a session among those of the folder they are started in.
    let elsewhere = beginning.folder.filter(|folder| !working_folders().contains(folder) && folder.is_dir());
    match elsewhere {
        Some(folder) => Some(format!("cd {} && {command}", shell_word(&folder)?)),
        None => Some(command),
    }
}

/// A path as a shell reads it; none where no line of a shell should hold it.
pub(crate) fn shell_word(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control))?;
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@:".contains(c);
    // A word that begins with a dash is an option.
    let text = if text.starts_with('-') { format!("./{text}") } else { text.to_owned() };
    match text.chars().all(is_plain) {
        true => Some(text),
        false => Some(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word(Path::new("/a/b-c.jsonl")).unwrap(), "/a/b-c.jsonl");
        assert_eq!(shell_word(Path::new("/a b/$(x)'y")).unwrap(), r"'/a b/$(x)'\''y'");
        assert_eq!(shell_word(Path::new("-rf")).unwrap(), "./-rf");
        assert_eq!(shell_word(Path::new("/a\n/b")), None);
    }
}
