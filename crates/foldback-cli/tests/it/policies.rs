//! Policies as a person or a script meets them.

use super::*;

const NAMES: [&str; 12] = [
    "ladder",
    "agentkit",
    "phi",
    "codex",
    "codex-remote",
    "gemini",
    "opencode",
    "goose",
    "anthropic-edit",
    "openhands",
    "lcm",
    "truncate",
];

#[test]
fn every_policy_is_listed_with_when_to_choose_it() {
    let listed = text(&run(&["policies"]).stdout);
    assert!(!listed.contains('\u{1b}'), "colour is for terminals");
    let told = json(&run(&["policies", "--json"]));
    let names: Vec<&str> = told.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, NAMES);
    for one in told.as_array().unwrap() {
        assert!(listed.contains(one["name"].as_str().unwrap()));
        assert!(one["choose_when"].as_str().unwrap().starts_with("Choose it"), "{one}");
        assert!(!one["compacts_when"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_printed_policy_is_a_file_that_compacts_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        let explained = text(&run(&["policies", name]).stdout);
        assert!(explained.contains(&format!("foldback policies {name} --toml")), "{explained}");
        let printed = run(&["policies", name, "--toml"]);
        assert_eq!(code(&printed), 0);
        let toml = text(&printed.stdout);
        assert_eq!(
            toml.parse::<toml::Table>().unwrap()["name"].as_str(),
            Some(name),
            "only the file is printed"
        );
        // One that aims at a size, and one that does not: a unit test reads every preset again.
        if !["ladder", "goose"].contains(&name) {
            continue;
        }
        let file = folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, toml).unwrap();
        let with = |policy: &str| {
            let arguments =
                ["compact", SESSION, "--window", "16k", "--policy", policy, "--dry-run", "--json"];
            json(&run(&arguments))
        };
        let named = with(name);
        assert_eq!(named["policy"], name);
        assert_eq!(named, with(&file.display().to_string()), "{name}");
    }
}

#[test]
fn a_policy_of_ones_own_needs_a_name_and_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(&file, "name = \"own\"\n[[steps]]\nstrategy = \"clear-tool-results\"\nkeep = 0\n")
        .unwrap();
    let file = file.display().to_string();
    let told = json(&run(&["compact", SESSION, "--policy", &file, "--dry-run", "--json"]));
    assert_eq!(told["policy"], "own");
    let folded = &told["conversations"][0];
    assert!(folded["rewritten"].as_u64().unwrap() > 0 && folded["folded"] == 0, "{folded}");
    assert_eq!(told["target"], Value::Null, "it does not aim at a size");
    assert!(text(&run(&["policies", &file]).stdout).contains("clear-tool-results(keep 0)"));
}

#[test]
fn the_policy_in_the_readme_can_be_used() {
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once("for `--policy mine.toml`:\n\n```toml\n").unwrap();
    let (own, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, own).unwrap();
    let told = json(&run(&["policies", &file.display().to_string(), "--json"]));
    assert_eq!(told["pipeline"], "drop-reasoning → ladder");
    assert_eq!(told["compacts_when"][0], "the request reaches 70% of the window");
}

#[test]
fn an_unknown_policy_gets_a_suggestion_and_the_list() {
    for arguments in [&["policies", "codx"][..], &["compact", SESSION, "--policy", "codx"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.contains("did you mean codex?") && told.contains("anthropic-edit"), "{told}");
    }
    let missing = run(&["compact", SESSION, "--policy", "nowhere/own.toml"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("nowhere/own.toml"), "{}", text(&missing.stderr));
}

#[test]
fn a_policy_that_does_not_aim_at_a_size_is_brought_to_what_fits() {
    let asked = ["compact", SESSION, "--policy", "goose", "--target", "4000", "--dry-run"];
    let output = run(&asked);
    assert!(text(&output.stderr).contains("has no effect"), "{}", text(&output.stderr));
    let told = json(&run(&[&asked[..], &["--json"]].concat()));
    assert!(told["conversations"][0]["tokens_after"].as_u64().unwrap() <= 4_000, "{told}");
}
