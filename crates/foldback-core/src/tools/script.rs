//! The tool of newer Codex versions: a script in JavaScript that calls other tools.

use super::{Action, patch, shell};

/// A longer script is only named, not read.
const SCRIPT_BYTES_MAX: usize = 64 * 1024;

/// Strings of one script that are looked at.
const STRINGS_MAX: usize = 256;

/// What a script does: it is run, and so are the commands and patches that it holds as strings.
pub(super) fn actions(script: &str) -> Vec<Action> {
    let mut actions = vec![Action::Run { command: script.to_owned(), folder: None }];
    if script.len() > SCRIPT_BYTES_MAX {
        return actions;
    }
    for (before, string) in strings(script) {
        if string.contains(patch::OPENING) {
            actions.extend(patch::actions(&string));
        } else if ["cmd", "command"].iter().any(|key| is_value_of(before, key)) {
            // What else the script prints is not known, so nothing is taken for a plain read.
            actions.extend(shell::actions(&string, None).into_iter().filter(Action::is_change));
        }
    }
    actions
}

/// Whether what follows `before` is the value of `key`.
fn is_value_of(before: &str, key: &str) -> bool {
    let named =
        before.trim_end().strip_suffix(':').map(|before| before.trim_end().trim_end_matches(['"', '\'']));
    named.is_some_and(|before| before.ends_with(key))
}

/// The strings of a script, unescaped, each with what stands before it.
fn strings(script: &str) -> Vec<(&str, String)> {
    let mut strings = Vec::new();
    let mut at = 0;
    while strings.len() < STRINGS_MAX {
        let Some(start) = script[at..].find(['"', '\'', '`']).map(|offset| at + offset) else { break };
        let quote = script[start..].chars().next().unwrap_or('"');
        let mut string = String::new();
        let mut is_escaped = false;
        let mut end = script.len();
        for (offset, c) in script[start + 1..].char_indices() {
            match (is_escaped, c) {
                (true, 'n') => string.push('\n'),
                (true, 't') => string.push('\t'),
                (true, c) => string.push(c),
                (false, '\\') => {}
                (false, c) if c == quote => {
                    end = start + 1 + offset + 1;
                    break;
                }
                (false, c) => string.push(c),
            }
            is_escaped = !is_escaped && c == '\\';
        }
        strings.push((&script[..start], string));
        at = end;
    }
    strings
}
