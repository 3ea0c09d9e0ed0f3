//! The sources as text, and two rules on tests that can be read off them.
//!
//! - Every property block takes its number of cases from `foldback_testkit`: one variable rules them all.
//! - A test that is not always run says what it needs, in words that `foldback_testkit::needs` explains.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// What a test may need, as its mark names it.
const NEEDS: [&str; 5] = ["PostgreSQL", "llama.cpp", "recorded sessions", "a small file system", "agents"];

/// How a property block must begin.
const CONFIGURED: [&str; 2] =
    ["#![proptest_config(foldback_testkit::config())]", "#![proptest_config(foldback_testkit::costly("];

/// One line for each test that breaks a rule.
pub(crate) fn careless_tests(root: &Path) -> Result<Vec<String>, Failure> {
    let mut sources = read_below(root, "crates")?;
    sources.extend(read_below(root, "adapters")?);
    let broken = sources.iter().flat_map(|(name, source)| {
        careless(source).into_iter().map(move |(line, what)| format!("{name}:{line}: {what}"))
    });
    Ok(broken.collect())
}

fn careless(source: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut lines = source.lines().map(str::trim).enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let next = lines.peek().map_or("", |(_, next)| *next);
        if line.starts_with("proptest! {") && !CONFIGURED.iter().any(|start| next.starts_with(start)) {
            found.push((index + 1, "begin a property block with foldback_testkit's config() or costly()"));
        }
        if line.starts_with("#[ignore") && !says_what_it_needs(line) {
            found.push((index + 1, "a test is left out only with a reason like \"needs PostgreSQL\""));
        }
    }
    found
}

fn says_what_it_needs(mark: &str) -> bool {
    let needed = mark.strip_prefix("#[ignore = \"needs ").and_then(|rest| rest.strip_suffix("\"]"));
    needed.is_some_and(|needed| needed.split(" and ").all(|name| NEEDS.contains(&name)))
}

/// Every Rust file under a folder, but for what cargo builds there, by its path from the root, with its text.
pub(crate) fn read_below(root: &Path, folder: &str) -> Result<Vec<(String, String)>, Failure> {
    let failed =
        |path: &Path, error: &std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let (mut folders, mut files) = (vec![root.join(folder)], Vec::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, &error))? {
            let path = entry.map_err(|error| failed(&folder, &error))?.path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: &PathBuf| {
        let source = fs::read_to_string(path).map_err(|error| failed(path, &error))?;
        Ok((path.strip_prefix(root).unwrap_or(path).display().to_string(), source))
    };
    files.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_block_without_the_knob_is_found() {
        let lines = |source| careless(source).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(lines("proptest! {\n    #[test]"), [1]);
        assert_eq!(lines("proptest! {\n    #![proptest_config(Config { cases: 9, ..config() })]"), [1]);
        assert!(lines("proptest! {\n    #![proptest_config(foldback_testkit::costly(9))]").is_empty());
    }

    #[test]
    fn a_test_is_left_out_only_for_what_it_needs() {
        for mark in ["#[ignore]", "#[ignore = \"slow\"]", "#[ignore = \"needs PostgreSQL and luck\"]"] {
            assert_eq!(careless(mark).len(), 1, "{mark}");
        }
        assert!(careless("#[ignore = \"needs PostgreSQL and a small file system\"]").is_empty());
    }
}
