//! The order of core's modules, and the check that none uses one above it.
//!
//! A module may use those before it in [`ORDER`] and no others, so there is no circle, and a reader can
//! take them one by one. Tests are left out: they may use everything.

use std::path::Path;

use crate::purity::{expand, tokens, without_comments_and_literals};
use crate::{Failure, sources};

/// Where core's modules are.
const FOLDER: &str = "crates/foldback-core/src/";

/// Core's modules, lowest first.
///
/// Up to `digest` they know items, texts and a meter: what is found in them and written about them.
/// From `sequence` on they know transcripts, and from `draft` on they edit.
const ORDER: &[&str] = &[
    "ids",
    "handle",
    "part",
    "item",
    "chunked",
    "reading",
    "secrets",
    "tools",
    "holds",
    "dialect",
    "tokens",
    "written",
    "ledger",
    "keep",
    "placeholder",
    "digest",
    "sequence",
    "transcript",
    "turns",
    "tracker",
    "edit",
    "budget",
    "trigger",
    "block",
    "splice",
    "view",
    "undo",
    "change",
    "mend",
    "summary",
    "plan",
    "draft",
    "kernel",
    "strategy",
    "compaction",
    "diff",
    "cost",
    "models",
    "policy",
    "account",
    "shape",
];

/// One line for each use of a module above, and for each module that has no place in the order.
pub(crate) fn out_of_order(root: &Path) -> Result<Vec<String>, Failure> {
    let sources = sources::read_below(root, FOLDER.trim_end_matches('/'))?;
    Ok(broken(&sources, ORDER))
}

fn broken(sources: &[(String, String)], order: &[&str]) -> Vec<String> {
    let mut broken = Vec::new();
    let place = |module: &str| order.iter().position(|other| *other == module);
    for (name, source) in sources {
        let path = name.strip_prefix(FOLDER).unwrap_or(name).trim_end_matches(".rs");
        let parts: Vec<&str> = path.split('/').collect();
        if path == "lib" || parts.contains(&"tests") {
            continue;
        }
        let Some(own) = place(parts[0]) else {
            broken
                .push(format!("{name}: the module {} has no place in the order of core's modules", parts[0]));
            continue;
        };
        for (line, used) in modules_used(source, parts.len(), order) {
            match place(&used) {
                Some(other) if other <= own => {}
                Some(_) => broken
                    .push(format!("{name}:{line}: {} may not use {used}, which stands above it", parts[0])),
                None => broken.push(format!("{name}:{line}: {} uses {used}, which is no module", parts[0])),
            }
        }
    }
    let is_there = |module: &str| sources.iter().any(|(name, _)| name == &format!("{FOLDER}{module}.rs"));
    let gone = order.iter().filter(|module| !is_there(module));
    broken.extend(
        gone.map(|module| format!("{module} has a place in the order of core's modules and is none")),
    );
    broken
}

/// The first name behind `crate::`, and behind as many `super::` as lead to the root, with its line.
fn modules_used(source: &str, depth: usize, order: &[&str]) -> Vec<(usize, String)> {
    let code = without_comments_and_literals(source);
    let tokens = without_tests(&tokens(&code));
    let mut used = Vec::new();
    for (index, &(_, token)) in tokens.iter().enumerate() {
        let is_start = index == 0 || tokens[index - 1].1 != "::";
        if !is_start || !matches!(token, "crate" | "super") {
            continue;
        }
        let mut paths = Vec::new();
        expand(&tokens, index, &[], &mut paths);
        for (line, path) in paths {
            let ups = path.iter().take_while(|part| **part == "super").count();
            let name = path.get(ups.max(1)).copied();
            match name {
                Some(name) if token == "crate" => used.push((line, name.to_owned())),
                Some(name) if ups == depth && order.contains(&name) => used.push((line, name.to_owned())),
                Some(_) | None => {}
            }
        }
    }
    used
}

/// The tokens without everything that is compiled for tests only.
fn without_tests<'a>(tokens: &[(usize, &'a str)]) -> Vec<(usize, &'a str)> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut index = 0;
    while index < tokens.len() {
        let is_mark = MARK
            .iter()
            .enumerate()
            .all(|(offset, mark)| tokens.get(index + offset).is_some_and(|(_, token)| token == mark));
        if is_mark {
            index = item_end(tokens, index + MARK.len());
        } else {
            kept.push(tokens[index]);
            index += 1;
        }
    }
    kept
}

/// The index behind the item that begins at `index`: behind its `;`, or behind its braces.
fn item_end(tokens: &[(usize, &str)], mut index: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&(_, token)) = tokens.get(index) {
        index += 1;
        match token {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" if depth <= 1 => break,
            "}" => depth -= 1,
            ";" if depth == 0 => break,
            _ => {}
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken_in(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<(String, String)> =
            files.iter().map(|(name, source)| (format!("{FOLDER}{name}"), (*source).to_owned())).collect();
        broken(&sources, &["low", "high"])
    }

    #[test]
    fn a_module_that_uses_one_above_it_is_found_with_file_and_line() {
        let high = ("high.rs", "use crate::low::A;");
        let above = "crates/foldback-core/src/low.rs:2: low may not use high, which stands above it";
        for source in [
            "\nuse crate::high::A;",
            "\nuse crate::{low::B, high};",
            "\nfn f() -> crate::high::A {}",
            "\nuse super::high;",
        ] {
            assert_eq!(broken_in(&[("low.rs", source), high]), [above], "{source}");
        }
        let nested = "crates/foldback-core/src/low/deep.rs:1: low may not use high, which stands above it";
        let files = [("low.rs", ""), ("low/deep.rs", "use super::super::high; use super::high;"), high];
        assert_eq!(broken_in(&files), [nested]);
    }

    #[test]
    fn tests_and_comments_may_name_everything() {
        let source = "//! [`crate::high`]
            use crate::low::A;
            #[cfg(test)]
            const X: [u8; 2] = [crate::high::A; 2];
            #[cfg(test)]
            mod tests { use crate::high; fn f() { g(\"}\") } }
            fn g() { crate::low::b() }";
        let tests = ("low/tests.rs", "use crate::high;");
        assert!(broken_in(&[("low.rs", source), tests, ("high.rs", "")]).is_empty());
        let behind = format!("{source}\nuse crate::high;");
        assert_eq!(broken_in(&[("low.rs", &behind), ("high.rs", "")]).len(), 1);
    }

    #[test]
    fn a_module_without_a_place_and_a_place_without_a_module_are_found() {
        assert_eq!(
            broken_in(&[("low.rs", "use crate::Item;"), ("odd.rs", "")]),
            [
                "crates/foldback-core/src/low.rs:1: low uses Item, which is no module",
                "crates/foldback-core/src/odd.rs: the module odd has no place in the order of core's modules",
                "high has a place in the order of core's modules and is none",
            ]
        );
    }
}
