//! The files that a patch touches: the form that Codex writes, and unified diffs.

use super::Action;

/// Begins a patch in the form that Codex writes.
pub(super) const OPENING: &str = "*** Begin Patch";

/// Files of one patch that are named.
const FILES_MAX: usize = 256;

/// What a patch does, in order; nothing where the text is no patch. Paths are as written.
pub(super) fn actions(patch: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut old_path = "";
    let is_diff = !patch.contains(OPENING);
    for line in patch.lines() {
        if actions.len() >= FILES_MAX {
            break;
        }
        if is_diff {
            if let Some(path) = line.strip_prefix("--- ") {
                old_path = path;
            } else if let Some(path) = line.strip_prefix("+++ ") {
                actions.push(diffed(old_path, path));
            }
        } else if let Some((verb, path)) = line.strip_prefix("*** ").and_then(|line| line.split_once(": ")) {
            let path = path.trim().to_owned();
            match verb {
                "Add File" | "Move to" => actions.push(Action::Write { path }),
                "Update File" => actions.push(Action::Edit { path }),
                "Delete File" => actions.push(Action::Delete { path }),
                _ => {}
            }
        }
    }
    actions
}

fn diffed(old_path: &str, new_path: &str) -> Action {
    let name = |path: &str, side: &str| {
        // A time may follow after a tab.
        let path = path.split('\t').next().unwrap_or(path).trim();
        path.strip_prefix(side).unwrap_or(path).to_owned()
    };
    match (name(old_path, "a/"), name(new_path, "b/")) {
        (path, gone) if gone == "/dev/null" => Action::Delete { path },
        (none, path) if none == "/dev/null" => Action::Write { path },
        (_, path) => Action::Edit { path },
    }
}
