//! What every compaction should keep, whether it is needed again or not: the user's rules, which
//! files were changed, the last error.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use foldback_core::ledger::{Detail, Fact};
use foldback_core::reading::fields;
use foldback_core::{FactKind, Item, ItemKind, Ledger, Part, ToolCall};

use super::lines::{folded, view_text};

/// Words in the names of tools that change files.
const CHANGING: &[&str] = &["create", "edit", "insert", "patch", "replace", "write"];

/// Keys under which tools are given a file.
const FILE_KEYS: &[&str] =
    &["absolute_path", "file", "filePath", "file_path", "filename", "notebook_path", "path", "target_file"];

/// What stands before the name of a file in a patch.
const PATCH_MARKS: &[&str] = &["*** Update File: ", "*** Add File: ", "*** Delete File: "];

/// Files that are asked for at most, in the order in which they were changed.
const FILES_MAX: usize = 10_000;

/// So much of the first line of an error tells which one it was.
const ERROR_CHARACTERS: usize = 120;

/// What should be kept at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keepsakes {
    constraints: Vec<String>,
    files: Vec<String>,
    last_error: Option<String>,
}

/// How much of it a view holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The user's rules, verbatim.
    pub constraints: Share,
    /// The files that were changed.
    pub files: Share,
    /// Whether the last error is told; none where there was none.
    pub last_error: Option<bool>,
}

/// How many there were, and how many are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many there were.
    pub asked: usize,
    /// How many of them are kept.
    pub kept: usize,
}

impl Share {
    /// The share that is kept; none where there were none.
    pub fn share(&self) -> Option<f64> {
        (self.asked > 0).then(|| self.kept as f64 / self.asked as f64)
    }
}

impl Keepsakes {
    /// What should be kept of these items: the rules that their ledger has of users, and those that
    /// are known otherwise.
    pub fn of<'i>(
        items: impl IntoIterator<Item = &'i Arc<Item>>,
        ledger: &Ledger,
        constraints: &[&str],
    ) -> Self {
        let is_users = |fact: &&Fact| fact.detail == Detail::Constraint { given_by: ItemKind::User };
        let found = ledger.of_kind(FactKind::Constraint).filter(is_users).map(|fact| &*fact.text);
        let rules: BTreeSet<String> = found.chain(constraints.iter().copied()).map(folded).collect();
        let mut keepsakes = Self { constraints: rules.into_iter().collect(), ..Self::default() };
        let mut seen = HashSet::new();
        for part in items.into_iter().flat_map(|item| &item.parts) {
            match part {
                Part::ToolCall(call) => {
                    let room = FILES_MAX.saturating_sub(keepsakes.files.len());
                    let new = changed_files(call).into_iter().filter(|file| seen.insert(file.clone()));
                    keepsakes.files.extend(new.take(room));
                }
                Part::ToolResult(result) if result.is_error => {
                    let line = folded(result.first_line());
                    keepsakes.last_error = Some(line.chars().take(ERROR_CHARACTERS).collect());
                }
                Part::ToolResult(_)
                | Part::Text(_)
                | Part::Reasoning(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Structured(_)
                | Part::Opaque(_) => {}
            }
        }
        keepsakes
    }

    /// How much of it a view of these items holds.
    pub fn kept<'i>(&self, view: impl IntoIterator<Item = &'i Arc<Item>>) -> Kept {
        let view = view_text(view);
        let holds = |text: &String| view.contains(text.as_str());
        let of =
            |all: &[String]| Share { asked: all.len(), kept: all.iter().filter(|text| holds(text)).count() };
        Kept {
            constraints: of(&self.constraints),
            files: of(&self.files),
            last_error: self.last_error.as_ref().map(holds),
        }
    }
}

/// The files that a call changes, as it names them.
fn changed_files(call: &ToolCall) -> Vec<String> {
    let name = call.name.to_ascii_lowercase();
    if !CHANGING.iter().any(|word| name.contains(word)) {
        return Vec::new();
    }
    let fields = fields(call);
    // One tool of several commands reads as well.
    if fields.iter().any(|field| field.key == "command" && field.value == "view") {
        return Vec::new();
    }
    let mut files = Vec::new();
    for field in fields {
        if FILE_KEYS.contains(&field.key.as_str()) {
            files.push(folded(&field.value));
            continue;
        }
        let marked = |line: &str| PATCH_MARKS.iter().find_map(|mark| line.strip_prefix(mark).map(folded));
        files.extend(field.value.lines().filter_map(marked));
    }
    files.retain(|file| !file.is_empty());
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{ToolResult, Transcript};
    use serde_json::json;

    #[test]
    fn files_and_the_last_error_are_looked_for_by_name() {
        let call =
            |id: &str, name: &str, input| Arc::new(Item::assistant(id, vec![Part::call(id, name, &input)]));
        let patch = "*** Begin Patch\n*** Update File: src/b.rs\n@@\n-x\n+y\n*** End Patch";
        let items = [
            call("1", "Write", json!({"file_path": "src/a.rs", "content": "x"})),
            call("2", "apply_patch", json!({"input": patch})),
            call("3", "str_replace_editor", json!({"command": "view", "path": "src/c.rs"})),
            call("4", "Read", json!({"file_path": "src/d.rs"})),
            Arc::new(Item::tool("5", ToolResult::error("4", "\n first error\nmore"))),
            Arc::new(Item::tool("6", ToolResult::error("4", "no  such file"))),
        ];
        let share = |asked, kept| Share { asked, kept };
        let keepsakes = Keepsakes::of(&items, &Ledger::new(), &["never touch\nthe lexer"]);
        let all = keepsakes.kept(&items);
        assert_eq!(all, Kept { constraints: share(1, 0), files: share(2, 2), last_error: Some(true) });
        let view = [Arc::new(Item::user("u", "never touch the lexer; see src/b.rs: first error"))];
        let some = keepsakes.kept(&view);
        assert_eq!(some, Kept { constraints: share(1, 1), files: share(2, 1), last_error: Some(false) });
        assert_eq!(Keepsakes::of(&view, &Ledger::new(), &[]).kept(&view), Kept::default());
    }

    #[test]
    fn rules_are_the_users_own_and_asked_for_once() {
        let items = [
            Item::text("s", ItemKind::System, "Never guess."),
            Item::user("u", "Fix it. Never touch the lexer."),
            Item::tool("t", ToolResult::text("c", "You must obey.")),
        ];
        let transcript: Transcript = items.into_iter().collect();
        let keepsakes = Keepsakes::of(
            transcript.items(),
            &Ledger::of(&transcript),
            &["Never touch the lexer.", "use tabs"],
        );
        assert_eq!(keepsakes.constraints, ["Never touch the lexer.", "use tabs"]);
        assert_eq!(keepsakes.kept(transcript.items()).constraints, Share { asked: 2, kept: 1 });
    }
}
