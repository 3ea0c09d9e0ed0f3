//! The rules on crates as data, and the check that the workspace keeps them.
//!
//! Three tables: which of our crates may use which, everything that core may contain, and the order of
//! core's modules (in `layers`). All are lists of what is allowed, so that a new edge or a new
//! dependency is a decision made here.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Failure, adapters, cargo, layers, purity, sources};

/// Which of our crates each of our crates may use, in `[dependencies]` and
/// `[build-dependencies]`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("foldback-core", &[]),
    ("foldback-threads", &[]),
    ("foldback-tokens", &["foldback-core", "foldback-threads"]),
    ("foldback-formats", &["foldback-core"]),
    ("foldback-engine", &["foldback-core"]),
    ("foldback-backends", &["foldback-core", "foldback-engine", "foldback-formats"]),
    ("foldback-store", &["foldback-core", "foldback-engine"]),
    ("foldback-loop", &["foldback-backends", "foldback-core", "foldback-engine", "foldback-formats"]),
    ("foldback-server", &["foldback-core", "foldback-engine"]),
    ("foldback", LIBRARIES),
    (
        "foldback-cli",
        &[
            "foldback-backends",
            "foldback-core",
            "foldback-engine",
            "foldback-formats",
            "foldback-loop",
            "foldback-server",
            "foldback-store",
            "foldback-threads",
            "foldback-tokens",
        ],
    ),
    ("foldback-testkit", &["foldback-core", "foldback-engine"]),
    ("xtask", &[]),
];

/// What the facade may re-export.
const LIBRARIES: &[&str] = &[
    "foldback-backends",
    "foldback-core",
    "foldback-engine",
    "foldback-formats",
    "foldback-loop",
    "foldback-store",
    "foldback-tokens",
];

/// What every crate may use in its tests, beside its own row of [`MAY_USE`].
const IN_TESTS: &str = "foldback-testkit";

/// Every crate that may be compiled into core or for it. None of them reads files, sockets,
/// clocks or the environment, starts threads or draws random numbers (A1): before adding one
/// here, look whether that still holds.
const CORE_MAY_CONTAIN: &[&str] = &[
    "archery",
    "base64",
    "bitflags",
    "equivalent",
    "foldback-core",
    "foldhash",
    "hashbrown",
    "imagesize",
    "indexmap",
    "itoa",
    "memchr",
    "proc-macro2",
    "quote",
    "rpds",
    "serde",
    "serde_core",
    "serde_derive",
    "serde_json",
    "smallvec",
    "syn",
    "thiserror",
    "thiserror-impl",
    "triomphe",
    "unicode-ident",
    "xxhash-rust",
    "zmij",
];

/// What the agent loop must do without where a host brings its own model.
const NOT_IN_A_BARE_LOOP: &[&str] = &["hyper", "reqwest", "rustls"];

/// Prints every broken rule and fails if there is one.
pub(crate) fn run() -> Result<(), Failure> {
    let broken = broken_rules()?;
    if broken.is_empty() {
        return Ok(());
    }
    broken.iter().for_each(|rule| eprintln!("{rule}"));
    Err(Failure::Failed(format!("{} broken rules; the tables are in xtask/src/edges.rs", broken.len())))
}

/// Every rule that the workspace breaks, one line each.
fn broken_rules() -> Result<Vec<String>, Failure> {
    let metadata = cargo::metadata("Cargo.toml")?;
    let mut broken = forbidden_edges(&metadata);
    broken.extend(unused_edges(&metadata));
    broken.extend(adapters::uses_behind_the_facade()?);
    broken.extend(forbidden_in_core(&tree(&["foldback-core", "--all-features"])?));
    broken.extend(forbidden_in_bare_loop(&tree(&["foldback-loop", "--no-default-features"])?));
    broken.extend(purity::impure_sources(&cargo::root(), "crates/foldback-core/src")?);
    broken.extend(layers::out_of_order(&cargo::root())?);
    broken.extend(sources::careless_tests(&cargo::root())?);
    Ok(broken)
}

/// The crates that a build of a package compiles, as `cargo tree` prints them. Asked of cargo tree and
/// not of cargo metadata, which would count features that only other members switch on.
fn tree(package: &[&str]) -> Result<String, Failure> {
    let tree = |network: &[&str]| {
        let format = ["--target", "all", "--prefix", "none", "--format", "{p}", "--locked"];
        let arguments = ["tree", "--edges", "normal,build", "--package"];
        cargo::read(cargo::cargo(&arguments).args(package).args(format).args(network))
    };
    tree(&["--offline"]).or_else(|_| tree(&[]))
}

/// The names in what `cargo tree` printed.
fn contained(tree: &str) -> BTreeSet<&str> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

fn forbidden_in_core(tree: &str) -> Vec<String> {
    let is_forbidden = |name: &&str| !CORE_MAY_CONTAIN.contains(name);
    let complain = |name: &str| format!("foldback-core contains {name}, which is not on its list");
    contained(tree).into_iter().filter(is_forbidden).map(complain).collect()
}

fn forbidden_in_bare_loop(tree: &str) -> Vec<String> {
    let is_forbidden = |name: &&str| NOT_IN_A_BARE_LOOP.contains(name);
    let complain = |name: &str| format!("foldback-loop without its feature `http` contains {name}");
    contained(tree).into_iter().filter(is_forbidden).map(complain).collect()
}

/// `metadata` is what `cargo metadata --no-deps` prints: the declared dependencies, optional ones
/// and those of other platforms included.
fn forbidden_edges(metadata: &Value) -> Vec<String> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let ours: BTreeSet<&str> = packages().filter_map(|package| package["name"].as_str()).collect();
    let mut broken = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = MAY_USE.iter().find(|(user, _)| *user == name) else {
            broken.push(format!("{name} has no row in the table of crates"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_in_tests = dependency["kind"] == "dev" && used == IN_TESTS;
            if ours.contains(used) && !allowed.contains(&used) && !is_in_tests {
                broken.push(format!("{name} may not use {used}"));
            }
        }
    }
    broken
}

/// What the table allows and no crate does: whoever begins to should decide it anew.
fn unused_edges(metadata: &Value) -> Vec<String> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let mut unused = Vec::new();
    for (user, allowed) in MAY_USE {
        let Some(package) = packages().find(|package| package["name"] == *user) else {
            unused.push(format!("{user} has a row in the table of crates and is none"));
            continue;
        };
        let uses = || package["dependencies"].as_array().into_iter().flatten();
        let is_unused = |name: &&&str| !uses().any(|dependency| dependency["name"] == **name);
        let complain = |name: &&str| format!("{user} may use {name} and does not");
        unused.extend(allowed.iter().filter(is_unused).map(complain));
    }
    unused
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(dependency: &str, kind: &Value) -> Value {
        json!({"packages": [
            {"name": "foldback-core", "dependencies": [
                {"name": "serde", "kind": null},
                {"name": dependency, "kind": kind},
            ]},
            {"name": "foldback-engine", "dependencies": [
                {"name": "foldback-core", "kind": null},
            ]},
            {"name": "foldback-testkit", "dependencies": [{"name": "foldback-core", "kind": null}]},
        ]})
    }

    #[test]
    fn the_workspace_keeps_its_rules() {
        assert_eq!(broken_rules(), Ok(Vec::new()));
    }

    #[test]
    fn a_forbidden_edge_is_found_of_whatever_kind() {
        for kind in [json!(null), json!("build"), json!("dev")] {
            let broken = forbidden_edges(&workspace("foldback-engine", &kind));
            assert_eq!(broken, ["foldback-core may not use foldback-engine"]);
        }
    }

    #[test]
    fn the_testkit_may_be_used_in_tests_only() {
        assert!(forbidden_edges(&workspace("foldback-testkit", &json!("dev"))).is_empty());
        let broken = forbidden_edges(&workspace("foldback-testkit", &json!(null)));
        assert_eq!(broken, ["foldback-core may not use foldback-testkit"]);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let metadata = json!({"packages": [{"name": "foldback-util", "dependencies": []}]});
        assert_eq!(forbidden_edges(&metadata), ["foldback-util has no row in the table of crates"]);
    }

    #[test]
    fn a_row_that_no_crate_needs_is_found() {
        let unused = unused_edges(&workspace("serde", &json!(null)));
        let of = |user: &str| -> Vec<&String> {
            unused.iter().filter(|line| line.starts_with(&format!("{user} "))).collect()
        };
        assert!(of("foldback-core").is_empty() && of("foldback-engine").is_empty(), "{unused:?}");
        assert_eq!(of("foldback-testkit"), ["foldback-testkit may use foldback-engine and does not"]);
        assert_eq!(of("foldback-tokens"), ["foldback-tokens has a row in the table of crates and is none"]);
    }

    #[test]
    fn a_dependency_that_is_not_on_cores_list_is_found() {
        let tree = "foldback-core v0.1.0 (/somewhere)\nserde v1.0.0\nrand v0.9.0\nserde v1.0.0 (*)\nrand v0.9.0 (*)\n";
        assert_eq!(forbidden_in_core(tree), ["foldback-core contains rand, which is not on its list"]);
    }

    #[test]
    fn an_http_client_in_a_loop_without_one_is_found() {
        let tree = "foldback-loop v0.1.0 (/somewhere)\ntokio v1.0.0\nrustls v0.23.0\nreqwest v0.13.0 (*)\n";
        assert_eq!(
            forbidden_in_bare_loop(tree),
            ["reqwest", "rustls"]
                .map(|name| format!("foldback-loop without its feature `http` contains {name}"))
        );
    }

    #[test]
    fn the_tables_name_only_crates_with_a_row() {
        let names: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
        let used = MAY_USE.iter().flat_map(|(_, used)| *used).chain([&IN_TESTS]);
        used.for_each(|name| assert!(names.contains(name), "{name}"));
    }
}
