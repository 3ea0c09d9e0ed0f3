//! `foldback trust`: a project's configuration file that may say where conversations go.

use std::fmt::Write;

use serde::Serialize;
use serde_json::json;

use crate::args::{Shared, Trust};
use crate::config::trust::{ProjectFile, State, Trusted, path_of};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::terminal::{STRONG, harmless, styled};

pub(crate) fn run(shared: &Shared, arguments: &Trust) -> Result<Exit, Failure> {
    match arguments {
        Trust { list: true, .. } => list(shared),
        Trust { revoke: true, .. } => revoke(shared, arguments),
        Trust { .. } => allow(shared, arguments),
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    file: &'a str,
    state: State,
}

fn list(shared: &Shared) -> Result<Exit, Failure> {
    let trusted = Trusted::load()?;
    let mut text = String::new();
    for entry in &trusted.entries {
        let state = entry.state();
        if shared.json {
            output::print_json(&Listed { file: &entry.path, state })?;
            continue;
        }
        let told = match state {
            State::Trusted => "",
            State::Changed => "  has changed since, and is not trusted",
            State::Gone => "  cannot be read any more",
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}{told}", harmless(&entry.path));
    }
    match (shared.json, trusted.entries.is_empty()) {
        (true, _) => {}
        (false, true) => output::print("no file is trusted\n")?,
        (false, false) => output::print(&text)?,
    }
    Ok(Exit::Success)
}

fn revoke(shared: &Shared, arguments: &Trust) -> Result<Exit, Failure> {
    let path = path_of(arguments.file.as_deref())?;
    let was_trusted = Trusted::load()?.revoke(&path)?;
    let file = path.display().to_string();
    match (shared.json, was_trusted) {
        (true, _) => output::print_json(&json!({"file": file, "was_trusted": was_trusted}))?,
        (false, true) => output::print(&format!("{} is not trusted any more\n", harmless(&file)))?,
        (false, false) => output::print(&format!("{} was not trusted\n", harmless(&file)))?,
    }
    Ok(Exit::Success)
}

fn allow(shared: &Shared, arguments: &Trust) -> Result<Exit, Failure> {
    let file = ProjectFile::read(arguments.file.as_deref())?;
    let needs = !file.needing_trust().is_empty();
    if needs {
        Trusted::load()?.allow(&file)?;
    }
    let path = file.path().display().to_string();
    if shared.json {
        let allowed: serde_json::Map<_, _> =
            file.needing_trust().iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        output::print_json(&json!({"file": path, "allowed": allowed}))?;
        return Ok(Exit::Success);
    }
    let path = harmless(&path);
    if !needs {
        output::print(&format!("{path} says nothing that needs trust\n"))?;
        return Ok(Exit::Success);
    }
    let mut text = format!("{} may now decide:\n", styled(STRONG, &path));
    let columns = file.needing_trust().iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in file.needing_trust() {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {name:<columns$}  {}", harmless(value));
    }
    text.push_str("It is asked about again when it changes; `foldback trust --revoke` takes this back.\n");
    output::print(&text)?;
    Ok(Exit::Success)
}
