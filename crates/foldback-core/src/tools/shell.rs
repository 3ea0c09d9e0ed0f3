//! What a command line does, where it is simple enough to tell: which files it reads, which it
//! changes, whether it looks for something.
//!
//! This is no shell. Where a construct is not understood the command is one that runs, and nothing
//! is said about what it reads.

mod lexer;

use std::ops::Range;

use super::{Action, patch, resolved};
use lexer::{Joint, Segment, segments};

/// A longer command is a script: it is only named, not read.
const COMMAND_BYTES_MAX: usize = 16 * 1024;

/// What one program of a command line does.
enum Meaning {
    /// Prints nothing that matters.
    Neutral,
    /// Reads these files, all of them in the same lines.
    Reads(Vec<String>, Option<Range<u32>>),
    /// Lets through these lines of what it is given.
    Lines(Option<Range<u32>>),
    /// Looks for something, perhaps in what it is given.
    Search { pattern: String, path: Option<String> },
    /// Lists files.
    List(String),
    /// Changes files.
    Changes(Vec<Action>),
    /// Anything else.
    Unknown,
}

/// What a command does: it is run, it changes files, and it reads, searches and lists if it does
/// nothing else.
pub(super) fn actions(command: &str, folder: Option<&str>) -> Vec<Action> {
    let mut actions = vec![Action::Run { command: command.to_owned(), folder: folder.map(str::to_owned) }];
    if command.len() > COMMAND_BYTES_MAX {
        return actions;
    }
    if command.contains(patch::OPENING) {
        actions.extend(patch::actions(command));
        return actions;
    }
    let Some(segments) = segments(command) else { return actions };
    let mut folder = folder.map(str::to_owned);
    let mut looks = Vec::new();
    let mut only_looks = true;
    for pipeline in segments.chunk_by(|first, _| first.joint == Joint::Pipe) {
        for segment in pipeline {
            let written = segment.writes.iter().map(|path| resolved(folder.as_deref(), path));
            actions.extend(written.map(|path| Action::Write { path }));
            // What goes into a file is not seen.
            only_looks &= segment.writes.is_empty();
        }
        if let [Segment { words, .. }] = pipeline
            && let [program, target] = &words[..]
            && program == "cd"
        {
            folder = Some(resolved(folder.as_deref(), target));
            continue;
        }
        match meaning_of_pipeline(pipeline, folder.as_deref()) {
            Meaning::Neutral => {}
            Meaning::Reads(paths, lines) => {
                looks.extend(paths.into_iter().map(|path| Action::Read { path, lines: lines.clone() }));
            }
            Meaning::Search { pattern, path } => looks.push(Action::Search { pattern, path }),
            Meaning::List(path) => looks.push(Action::List { path }),
            Meaning::Changes(changes) => actions.extend(changes),
            Meaning::Lines(_) | Meaning::Unknown => only_looks = false,
        }
    }
    if only_looks {
        actions.extend(looks);
    }
    actions
}

fn meaning_of_pipeline(pipeline: &[Segment], folder: Option<&str>) -> Meaning {
    let mut stages = pipeline.iter().map(|segment| meaning(&segment.words, folder));
    let first = stages.next().unwrap_or(Meaning::Neutral);
    stages.fold(first, |before, stage| match (before, stage) {
        (before @ Meaning::Reads(..), Meaning::Lines(None)) => before,
        (Meaning::Reads(paths, None), Meaning::Lines(lines)) if paths.len() == 1 => {
            Meaning::Reads(paths, lines)
        }
        (Meaning::Reads(mut paths, _), Meaning::Search { pattern, path: None }) if paths.len() == 1 => {
            Meaning::Search { pattern, path: paths.pop() }
        }
        (before @ (Meaning::Search { .. } | Meaning::List(_)), Meaning::Lines(_)) => before,
        (Meaning::Changes(mut changes), Meaning::Changes(more)) => {
            changes.extend(more);
            Meaning::Changes(changes)
        }
        (before @ Meaning::Changes(_), _) => before,
        (_, changes @ Meaning::Changes(_)) => changes,
        _ => Meaning::Unknown,
    })
}

/// The program and its arguments, without what is set up for it.
fn program(words: &[String]) -> &[String] {
    let is_setup = |word: &String| {
        matches!(word.as_str(), "sudo" | "time" | "command" | "nice")
            || word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            })
    };
    let start = words.iter().position(|word| !is_setup(word)).unwrap_or(words.len());
    match &words[start..] {
        [timeout, limit, rest @ ..]
            if timeout == "timeout" && limit.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            rest
        }
        rest => rest,
    }
}

fn meaning(words: &[String], folder: Option<&str>) -> Meaning {
    let [name, arguments @ ..] = program(words) else { return Meaning::Neutral };
    let operands = || arguments.iter().filter(|word| !is_flag(word));
    let path_of = |word: &String| resolved(folder, word);
    // A name that the shell fills in cannot be told.
    let files = operands().skip(usize::from(name == "sed"));
    let is_open = files.into_iter().any(|word| word.contains(['$', '*', '?', '{']));
    let changes = |change: fn(String) -> Action, paths: &mut dyn Iterator<Item = &String>| {
        Meaning::Changes(paths.map(|word| change(path_of(word))).collect())
    };
    match name.as_str() {
        "echo" | "printf" | "true" | "pwd" | ":" | "set" | "export" | "cd" => Meaning::Neutral,
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" => {
            let mut operands = operands();
            let Some(pattern) = operands.next().cloned() else { return Meaning::Unknown };
            Meaning::Search { pattern, path: operands.next().map(path_of) }
        }
        "ls" | "tree" | "find" | "fd" => {
            Meaning::List(operands().next().map_or_else(|| ".".to_owned(), path_of))
        }
        _ if is_open => Meaning::Unknown,
        "cat" | "bat" | "less" | "more" => reading(operands().map(path_of).collect(), None),
        "nl" => {
            let values = arguments.iter().filter(|word| !is_flag(word) && word.as_str() != "a");
            reading(values.map(path_of).collect(), None)
        }
        "head" | "tail" | "sed" => match (name.as_str(), excerpt(name, arguments)) {
            // The first operand is what to do; some systems want an empty one before it.
            ("sed", None) if arguments.iter().any(|word| word.starts_with("-i")) => {
                let files = &mut operands().filter(|word| !word.is_empty()).skip(1);
                changes(|path| Action::Edit { path }, files)
            }
            (_, Some((lines, files))) => reading(files.into_iter().map(path_of).collect(), lines),
            _ => Meaning::Unknown,
        },
        "rm" | "unlink" => changes(|path| Action::Delete { path }, &mut operands()),
        "tee" => changes(|path| Action::Write { path }, &mut operands()),
        "cp" | "mv" => match operands().collect::<Vec<_>>()[..] {
            [from, to] if name == "mv" => Meaning::Changes(vec![
                Action::Delete { path: path_of(from) },
                Action::Write { path: path_of(to) },
            ]),
            [_, to] => Meaning::Changes(vec![Action::Write { path: path_of(to) }]),
            _ => Meaning::Unknown,
        },
        "git" => match arguments {
            [verb, ..] if verb == "restore" => changes(|path| Action::Edit { path }, &mut operands().skip(1)),
            [verb, dashes, files @ ..] if verb == "checkout" && dashes == "--" => {
                changes(|path| Action::Edit { path }, &mut files.iter())
            }
            [verb, ..] if verb == "grep" => {
                let mut operands = operands().skip(1);
                let Some(pattern) = operands.next().cloned() else { return Meaning::Unknown };
                Meaning::Search { pattern, path: operands.next().map(path_of) }
            }
            _ => Meaning::Unknown,
        },
        _ => Meaning::Unknown,
    }
}

fn reading(paths: Vec<String>, lines: Option<Range<u32>>) -> Meaning {
    if paths.is_empty() { Meaning::Lines(lines) } else { Meaning::Reads(paths, lines) }
}

fn is_flag(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// The lines that `head`, `tail` or `sed -n` let through, and the files they are given.
fn excerpt<'w>(name: &str, arguments: &'w [String]) -> Option<(Option<Range<u32>>, Vec<&'w String>)> {
    let number = |text: &str| text.parse::<u32>().ok();
    let is_silent = arguments.first().is_some_and(|flag| flag == "-n");
    let (value, files) = match arguments {
        [flag, value, files @ ..] if flag == "-n" => (value.as_str(), files),
        [flag, files @ ..] if flag.starts_with("-n") => (&flag[2..], files),
        [flag, files @ ..] if is_flag(flag) => (&flag[1..], files),
        files if name == "head" => ("10", files),
        _ => return None,
    };
    let lines = match name {
        "head" => 1..number(value)?.saturating_add(1),
        "tail" => number(value.strip_prefix('+')?)?..u32::MAX,
        _ if is_silent => {
            let (first, last) = match value.strip_suffix('p')?.split_once(',') {
                Some(ends) => ends,
                None => (value.strip_suffix('p')?, value.strip_suffix('p')?),
            };
            let end = if last == "$" { u32::MAX } else { number(last)?.saturating_add(1) };
            number(first)?..end
        }
        _ => return None,
    };
    let files: Vec<&String> = files.iter().collect();
    // More flags than these are not understood.
    files.iter().all(|word| !is_flag(word)).then_some((Some(lines), files))
}

/// Programs that test or build, with the verbs that make them do it; any, if there is none.
const CHECKS: &[(&str, &[&str])] = &[
    ("biome", &[]),
    ("bun", &["test"]),
    ("cargo", &["test", "build", "check", "clippy", "nextest", "fmt", "bench", "doc"]),
    ("cmake", &["--build"]),
    ("ctest", &[]),
    ("deno", &["test", "check", "lint"]),
    ("dotnet", &["test", "build"]),
    ("eslint", &[]),
    ("go", &["test", "build", "vet"]),
    ("golangci-lint", &[]),
    ("gradle", &[]),
    ("gradlew", &[]),
    ("jest", &[]),
    ("make", &[]),
    ("mix", &["test", "compile"]),
    ("mocha", &[]),
    ("mvn", &[]),
    ("mypy", &[]),
    ("ninja", &[]),
    ("nox", &[]),
    ("phpunit", &[]),
    ("py.test", &[]),
    ("pyright", &[]),
    ("pytest", &[]),
    ("rspec", &[]),
    ("ruff", &[]),
    ("swift", &["test", "build"]),
    ("tox", &[]),
    ("tsc", &[]),
    ("unittest", &[]),
    ("vitest", &[]),
    ("xcodebuild", &[]),
];

/// Programs that run others, or scripts that are named by what they do.
const RUNNERS: &[&str] = &[
    "npm", "pnpm", "yarn", "bun", "npx", "bunx", "uv", "poetry", "python", "python3", "mise", "just", "task",
];

/// What is in the name of a script that tests or builds.
const SCRIPT_SIGNS: &[&str] = &["test", "build", "lint", "check", "compile", "tsc"];

/// Runs of a script's name that say what it does; more words are its arguments.
const RUNNER_WORDS_MAX: usize = 4;

/// Whether a command tests or builds: run again, the newer answer is the one that counts.
pub(crate) fn is_check(command: &str) -> bool {
    if command.len() > COMMAND_BYTES_MAX {
        return false;
    }
    let Some(segments) = segments(command) else { return false };
    segments.iter().any(|segment| is_check_program(program(&segment.words)))
}

fn is_check_program(words: &[String]) -> bool {
    let [name, arguments @ ..] = words else { return false };
    let name = name.rsplit('/').next().unwrap_or(name);
    if let Ok(index) = CHECKS.binary_search_by(|(known, _)| (*known).cmp(name)) {
        let verbs = CHECKS[index].1;
        // A toolchain or a flag may stand before the verb.
        if verbs.is_empty() || arguments.iter().take(3).any(|word| verbs.contains(&word.as_str())) {
            return true;
        }
    }
    RUNNERS.contains(&name)
        && arguments.iter().take(RUNNER_WORDS_MAX).enumerate().any(|(index, word)| {
            let is_script = !word.starts_with('-') && !word.contains(['/', '.', ' ']);
            (is_script && SCRIPT_SIGNS.iter().any(|sign| word.contains(sign)))
                || CHECKS.iter().any(|(known, verbs)| known == word && verbs.is_empty())
                || (name == "uv" && is_check_program(&arguments[index + 1..]))
        })
}
