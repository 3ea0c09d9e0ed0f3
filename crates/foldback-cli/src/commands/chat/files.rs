//! Tools for files: read, write, edit, list. They stay inside the working folder unless told
//! otherwise.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use foldback_loop::{Tool, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};

use super::consent::{Ask, Consent};
use crate::output::unlinked;

/// The longest file that is read at all.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Lines that one read gives where it does not say how many it wants.
const LINES_DEFAULT: usize = 400;

/// The longest answer of a read.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Entries of a folder that are listed.
const ENTRIES_MAX: usize = 500;

/// Symbolic links on the way to a file.
const LINKS_MAX: usize = 16;

/// Where tools may go.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    root: PathBuf,
    bounds: Bounds,
}

/// Whether tools may leave the working folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bounds {
    Inside,
    Anywhere,
}

impl Ground {
    /// The folder as it is without links: what is compared with it is resolved, too.
    pub(super) fn new(root: &Path, bounds: Bounds) -> io::Result<Self> {
        Ok(Self { root: root.canonicalize()?, bounds })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The file that a model means, without links. One that does not exist yet is placed in the folder
    /// that would hold it.
    fn resolve(&self, path: &str) -> Result<PathBuf, ToolError> {
        let resolved = resolved(&self.root.join(path), LINKS_MAX)
            .ok_or_else(|| ToolError::new(format!("{path} leads nowhere: too many links")))?;
        match self.bounds {
            Bounds::Inside if !resolved.starts_with(&self.root) => {
                let root = self.root.display();
                Err(ToolError::new(format!("{path} is outside {root}, where the tools must stay")))
            }
            Bounds::Inside | Bounds::Anywhere => Ok(resolved),
        }
    }

    /// The path as the person and the model know it.
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Follows links step by step, so that a link to a file that is not there cannot lead outside unseen.
fn resolved(path: &Path, links_left: usize) -> Option<PathBuf> {
    let mut done = PathBuf::new();
    let mut rest = path.components();
    while let Some(component) = rest.next() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                done.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => done.push(component),
        }
        if let Ok(target) = fs::read_link(&done) {
            done.pop();
            let onward = done.join(target).join(rest.as_path());
            return resolved(&onward, links_left.checked_sub(1)?);
        }
    }
    Some(done)
}

fn field<'v>(input: &'v Value, name: &str) -> Result<&'v str, ToolError> {
    input[name].as_str().ok_or_else(|| ToolError::new(format!("`{name}` is missing: give it as text")))
}

fn failed(path: &str, error: &io::Error) -> ToolError {
    ToolError::new(format!("{path}: {error}"))
}

fn read_text(ground: &Ground, path: &str) -> Result<(PathBuf, String), ToolError> {
    let resolved = ground.resolve(path)?;
    let file = fs::File::open(&resolved).map_err(|error| failed(path, &error))?;
    if file.metadata().map_err(|error| failed(path, &error))?.is_dir() {
        return Err(ToolError::new(format!("{path} is a folder; use `list`")));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(path, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ToolError::new(format!("{path} is longer than {FILE_BYTES_MAX} bytes; use `shell`")));
    }
    let text = String::from_utf8(bytes).map_err(|_| ToolError::new(format!("{path} is no text")))?;
    Ok((resolved, text))
}

/// Writes the file at a path without links. A link that was put there since is not followed.
fn write_text(resolved: &Path, text: &str) -> io::Result<()> {
    let file = unlinked(fs::File::options().write(true).create(true).truncate(true)).open(resolved);
    file?.write_all(text.as_bytes())
}

/// Reads lines of a file.
#[derive(Clone, Debug)]
pub(super) struct ReadFile(pub(super) Ground);

#[async_trait]
impl Tool for ReadFile {
    fn name(&self) -> &str {
        "read"
    }

    fn description(&self) -> &str {
        "Read a text file. Lines are numbered from 1."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "first_line": {"type": "integer", "description": "default 1"},
                "line_count": {"type": "integer"},
            },
            "required": ["path"],
        })
    }

    async fn call(&self, input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        let path = field(&input, "path")?;
        let (_, text) = read_text(&self.0, path)?;
        let number = |name: &str, default: usize| {
            input[name].as_u64().map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        let first = number("first_line", 1).max(1);
        let all = text.lines().count();
        let mut shown = String::new();
        let mut next = first;
        for (index, line) in
            text.lines().enumerate().skip(first - 1).take(number("line_count", LINES_DEFAULT))
        {
            if shown.len() + line.len() > READ_BYTES_MAX && !shown.is_empty() {
                break;
            }
            let line = &line[..line.floor_char_boundary(READ_BYTES_MAX)];
            // Writing into a string cannot fail.
            let _ = writeln!(shown, "{:>5}  {line}", index + 1);
            next = index + 2;
        }
        if next <= all && !shown.is_empty() {
            let _ = writeln!(shown, "({all} lines in all; go on with first_line {next})");
        }
        if shown.is_empty() {
            shown = format!("(nothing there: {all} lines in all)");
        }
        Ok(shown.into())
    }
}

/// Writes a file.
#[derive(Clone, Debug)]
pub(super) struct WriteFile(pub(super) Ground, pub(super) Consent);

#[async_trait]
impl Tool for WriteFile {
    fn name(&self) -> &str {
        "write"
    }

    fn description(&self) -> &str {
        "Write a text file, whole. Folders that are missing are made."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            "required": ["path", "text"],
        })
    }

    async fn call(&self, input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        let (path, text) = (field(&input, "path")?, field(&input, "text")?);
        let resolved = self.0.resolve(path)?;
        let shown = self.0.shown(&resolved);
        self.1.ask(Ask::Write { path: &shown, bytes: text.len() }).await?;
        // Asking takes time: the links may be others now.
        let resolved = self.0.resolve(path)?;
        let made = resolved.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| write_text(&resolved, text));
        written.map_err(|error| failed(path, &error))?;
        Ok(format!("wrote {} bytes to {shown}", text.len()).into())
    }
}

/// Replaces one passage of a file.
#[derive(Clone, Debug)]
pub(super) struct EditFile(pub(super) Ground, pub(super) Consent);

#[async_trait]
impl Tool for EditFile {
    fn name(&self) -> &str {
        "edit"
    }

    fn description(&self) -> &str {
        "Replace a passage of a text file. `old` must occur exactly once."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}},
            "required": ["path", "old", "new"],
        })
    }

    async fn call(&self, input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        let (path, old, new) = (field(&input, "path")?, field(&input, "old")?, field(&input, "new")?);
        let (resolved, text) = read_text(&self.0, path)?;
        match text.matches(old).count() {
            _ if old.is_empty() => return Err(ToolError::new("`old` is empty; use `write`")),
            1 => {}
            0 => return Err(ToolError::new(format!("{path} has no such passage; read it again"))),
            count => {
                return Err(ToolError::new(format!("{path} has it {count} times; give more around it")));
            }
        }
        let shown = self.0.shown(&resolved);
        self.1.ask(Ask::Write { path: &shown, bytes: new.len() }).await?;
        let (resolved, now) = read_text(&self.0, path)?;
        if now != text {
            return Err(ToolError::new(format!("{path} was changed meanwhile; read it again")));
        }
        write_text(&resolved, &text.replacen(old, new, 1)).map_err(|error| failed(path, &error))?;
        Ok(format!("edited {shown}").into())
    }
}

/// Lists a folder.
#[derive(Clone, Debug)]
pub(super) struct ListFolder(pub(super) Ground);

#[async_trait]
impl Tool for ListFolder {
    fn name(&self) -> &str {
        "list"
    }

    fn description(&self) -> &str {
        "List a folder: names and sizes; folders end in a slash."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string", "description": "default: the working folder"}}})
    }

    async fn call(&self, input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        let path = input["path"].as_str().unwrap_or(".");
        let resolved = self.0.resolve(path)?;
        let entries = fs::read_dir(&resolved).map_err(|error| failed(path, &error))?;
        let mut lines: Vec<String> = entries
            .flatten()
            .take(ENTRIES_MAX + 1)
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => format!("{name}/"),
                    Ok(metadata) => format!("{name}  {} bytes", metadata.len()),
                    Err(_) => name,
                }
            })
            .collect();
        lines.sort();
        if lines.len() > ENTRIES_MAX {
            lines.truncate(ENTRIES_MAX);
            lines.push(format!("(more than {ENTRIES_MAX} entries)"));
        }
        if lines.is_empty() {
            lines.push("(an empty folder)".to_owned());
        }
        Ok(lines.join("\n").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(folder: &tempfile::TempDir, bounds: Bounds) -> Ground {
        Ground::new(folder.path(), bounds).unwrap()
    }

    #[test]
    fn no_path_and_no_link_leads_outside() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ground = ground(&folder, Bounds::Inside);
        let elsewhere = outside.path().display().to_string();
        fs::create_dir(folder.path().join("in")).unwrap();
        #[cfg(unix)]
        {
            let link = |target: &Path, name: &str| {
                std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
            };
            link(outside.path(), "out");
            // A link to a file that is not there yet: writing through it would make one outside.
            link(&outside.path().join("new.txt"), "dangling");
            link(Path::new("../in/../../x"), "in/up");
            link(Path::new("circle"), "circle");
            for path in ["out/a.txt", "dangling", "in/up", "circle", "in/../out/x"] {
                assert!(ground.resolve(path).is_err(), "{path}");
            }
        }
        for path in ["..", "../x", "in/../../x", "/etc/passwd", elsewhere.as_str()] {
            assert!(ground.resolve(path).is_err(), "{path}");
        }
        for path in ["a.txt", "./in/b.txt", "in/../a.txt", "new/deep/c.txt", "."] {
            assert!(ground.resolve(path).is_ok(), "{path}");
        }
        let free = Ground { bounds: Bounds::Anywhere, ..ground };
        assert!(free.resolve("../x").is_ok());
    }
}
