//! The agents that foldback puts a module into: where they look for modules, and what is put there.

use std::path::{Path, PathBuf};

use crate::args::install::AgentName;
use crate::failure::Failure;

/// Stands in a module for the path of the program that it runs.
const PROGRAM_MARK: &str = "__FOLDBACK_PROGRAM__";

/// For whom a module is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    User,
    Project,
}

/// An agent, and foldback's module for it.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: AgentName,
    /// As on the command line.
    pub(super) id: &'static str,
    /// As people call it.
    pub(super) label: &'static str,
    /// The program, as it is found in `PATH`.
    pub(super) program: &'static str,
    /// The variable that names the agent's own folder, and that folder below the home folder.
    home: (&'static str, &'static str),
    /// The agent's folder in a project.
    in_project: &'static str,
    /// The module: names below the agent's folder, and what is in the files.
    files: &'static [(&'static str, &'static str)],
    /// What a person has to know about a module in a project.
    pub(super) project_note: &'static str,
}

/// A file of a module, as it is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModuleFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

pub(super) const AGENTS: [Agent; 3] = [
    Agent {
        name: AgentName::ClaudeCode,
        id: "claude-code",
        label: "Claude Code",
        program: "claude",
        home: ("CLAUDE_CONFIG_DIR", ".claude"),
        in_project: ".claude",
        files: &[
            (
                "skills/foldback/.claude-plugin/plugin.json",
                include_str!("../../../modules/claude-code/.claude-plugin/plugin.json"),
            ),
            (
                "skills/foldback/hooks/hooks.json",
                include_str!("../../../modules/claude-code/hooks/hooks.json"),
            ),
            ("skills/foldback/hooks/mod.ts", include_str!("../../../modules/claude-code/hooks/mod.ts")),
        ],
        project_note: "Claude Code loads it only in a folder that you trust: start `claude` there once and say so",
    },
    Agent {
        name: AgentName::Opencode,
        id: "opencode",
        label: "opencode",
        program: "opencode",
        home: ("OPENCODE_CONFIG_DIR", ".config/opencode"),
        in_project: ".opencode",
        files: &[("plugin/foldback.js", include_str!("../../../modules/opencode/foldback.js"))],
        project_note: "opencode loads it whenever it runs in this folder",
    },
    Agent {
        name: AgentName::Pi,
        id: "pi",
        label: "pi",
        program: "pi",
        home: ("PI_CODING_AGENT_DIR", ".pi/agent"),
        in_project: ".pi",
        files: &[("extensions/foldback.ts", include_str!("../../../modules/pi/foldback.ts"))],
        project_note: "pi loads it only in a folder that you trust: pi asks once; without a terminal say --approve",
    },
];

impl Agent {
    pub(super) fn named(name: AgentName) -> &'static Self {
        let found = AGENTS.iter().find(|agent| agent.name == name);
        found.expect("every agent has a line in the table")
    }

    /// The agent's folder for modules of this scope.
    pub(super) fn folder(&self, scope: Scope) -> Result<PathBuf, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        match scope {
            Scope::Project => {
                let here = std::env::current_dir();
                let failed = |error| Failure::Read { path: ".".into(), error, hint: None };
                here.map(|here| here.join(self.in_project)).map_err(failed)
            }
            Scope::User => {
                let (own, below_home) = self.home;
                let of_xdg = || {
                    let below = below_home.strip_prefix(".config/")?;
                    Some(variable("XDG_CONFIG_HOME")?.join(below))
                };
                let of_home = || Some(variable("HOME").or_else(|| variable("USERPROFILE"))?.join(below_home));
                let found = variable(own).or_else(of_xdg).or_else(of_home);
                let what = format!("there is no folder of {}", self.label);
                found.ok_or_else(|| Failure::usage(what, format!("set HOME or {own}")))
            }
        }
    }

    /// The module in such a folder, which runs `program`.
    pub(super) fn module(&self, folder: &Path, program: &Path) -> Vec<ModuleFile> {
        let program = serde_json::to_string(&program.display().to_string()).expect("text is JSON");
        let program = program.trim_matches('"');
        let file = |(name, text): &(&str, &str)| ModuleFile {
            path: folder.join(name),
            text: text.replace(PROGRAM_MARK, program),
        };
        self.files.iter().map(file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_runs_the_program_that_installed_it() {
        for agent in &AGENTS {
            let folder = Path::new("/agent");
            let files = agent.module(folder, Path::new("/a \"quoted\" place/foldback"));
            let run: Vec<&ModuleFile> =
                files.iter().filter(|file| file.text.contains(r#""/a \"quoted\" place/foldback""#)).collect();
            assert_eq!(run.len(), 1, "{}: one file names the program, within double quotes", agent.id);
            assert!(
                files.iter().all(|file| !file.text.contains(PROGRAM_MARK) && file.path.starts_with(folder))
            );
        }
    }
}
