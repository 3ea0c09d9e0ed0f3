//! `foldback doctor`: whether the modules in agents are there, current, and able to run foldback.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::agent::{AGENTS, Agent, Scope};
use super::record::{Record, State};
use super::this_program;
use crate::args::Shared;
use crate::args::install::Doctor;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::terminal::{FAINT, GREEN, RED, STRONG, harmless, styled};

/// How a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    /// As this release writes it, for this program.
    Current,
    /// As another release or another program wrote it.
    Outdated,
    /// Somebody changed or removed one of its files.
    Changed,
    Absent,
}

#[derive(Serialize)]
struct Module {
    scope: Scope,
    folder: PathBuf,
    health: Health,
}

#[derive(Serialize)]
struct Finding {
    agent: &'static str,
    /// Where the agent's program is; none where `PATH` has none.
    program: Option<PathBuf>,
    modules: Vec<Module>,
    /// What is wrong, and what to do.
    problems: Vec<String>,
}

pub(crate) fn run(shared: &Shared, arguments: &Doctor) -> Result<Exit, Failure> {
    let program = this_program()?;
    let record = Record::load()?;
    let asked = AGENTS.iter().filter(|agent| arguments.agent.is_none_or(|name| agent.name == name));
    let findings =
        asked.map(|agent| examine(agent, &record, &program)).collect::<Result<Vec<_>, Failure>>()?;
    // A configuration that does not load makes every hook fail.
    let configuration = Config::load(shared).err().map(|failure| failure.what());
    let is_well = configuration.is_none() && findings.iter().all(|finding| finding.problems.is_empty());
    match shared.json {
        true => output::print_json(&serde_json::json!({
            "program": program, "configuration": configuration, "agents": findings
        }))?,
        false => output::print(&text(&findings, configuration.as_deref(), &program))?,
    }
    Ok(if is_well { Exit::Success } else { Exit::Negative })
}

fn examine(agent: &'static Agent, record: &Record, program: &Path) -> Result<Finding, Failure> {
    let found = in_path(agent.program);
    let (mut modules, mut problems) = (Vec::new(), Vec::new());
    for scope in [Scope::User, Scope::Project] {
        let folder = agent.folder(scope)?;
        let health = health(agent, record, &folder, program)?;
        let again = format!(
            "`foldback install {}{}`",
            agent.id,
            if scope == Scope::Project { " --project" } else { "" }
        );
        match health {
            Health::Outdated => problems.push(format!(
                "the module in {} is of another release or for another program: run {again}",
                harmless(&folder.display().to_string())
            )),
            Health::Changed => problems.push(format!(
                "the module in {} was changed or lost a file: run `foldback uninstall`, and {again}",
                harmless(&folder.display().to_string())
            )),
            Health::Current | Health::Absent => {}
        }
        modules.push(Module { scope, folder, health });
    }
    let is_there = modules.iter().any(|module| module.health != Health::Absent);
    if is_there && found.is_none() {
        problems.push(format!("there is no `{}` in PATH, so nothing uses the module", agent.program));
    }
    Ok(Finding { agent: agent.id, program: found, modules, problems })
}

fn health(agent: &Agent, record: &Record, folder: &Path, program: &Path) -> Result<Health, Failure> {
    let files = agent.module(folder, program);
    let current =
        files.iter().all(|file| std::fs::read(&file.path).is_ok_and(|bytes| bytes == file.text.as_bytes()));
    let Some(installed) = record.find(agent.id, folder) else {
        return Ok(if current { Health::Current } else { Health::Absent });
    };
    if current {
        return Ok(Health::Current);
    }
    let states = installed.files.iter().map(|put| put.state()).collect::<Result<Vec<_>, _>>()?;
    Ok(match states.iter().all(|state| *state == State::AsWritten) {
        true => Health::Outdated,
        false => Health::Changed,
    })
}

/// The first program of this name in `PATH`.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = [name.to_owned(), format!("{name}.exe"), format!("{name}.cmd")];
    std::env::split_paths(&path)
        .find_map(|folder| names.iter().map(|name| folder.join(name)).find(|file| file.is_file()))
}

fn text(findings: &[Finding], configuration: Option<&str>, program: &Path) -> String {
    let mut text = format!("foldback is {}\n", harmless(&program.display().to_string()));
    if let Some(why) = configuration {
        text.push_str(&format!("{} the configuration cannot be used: {}\n", styled(RED, "✗"), harmless(why)));
    }
    for finding in findings {
        let program = finding.program.as_ref().map(|program| harmless(&program.display().to_string()));
        let program = program.unwrap_or_else(|| "not found in PATH".to_owned());
        text.push_str(&format!("{}  {}\n", styled(STRONG, finding.agent), styled(FAINT, program)));
        for module in &finding.modules {
            let scope = match module.scope {
                Scope::User => "for the user",
                Scope::Project => "in this project",
            };
            let state = match module.health {
                Health::Current => styled(GREEN, "installed"),
                Health::Absent => "not installed".to_owned(),
                Health::Outdated | Health::Changed => styled(RED, "needs attention"),
            };
            text.push_str(&format!("  {scope}: {state}\n"));
        }
        for problem in &finding.problems {
            text.push_str(&format!("  {} {problem}\n", styled(RED, "✗")));
        }
    }
    text
}
