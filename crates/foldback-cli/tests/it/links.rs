//! Links, names, owners and modes: nothing is written where nobody said, and nobody reads what he could not
//! read before.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn with_mode(path: &str, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn copy(folder: &tempfile::TempDir, name: &str) -> String {
    let path = at(folder, name);
    fs::write(&path, fs::read(SESSION).unwrap()).unwrap();
    path
}

/// A document: it is replaced as a whole.
fn document(folder: &tempfile::TempDir, name: &str) -> String {
    let path = at(folder, name);
    let body: String = (0..40)
        .map(|index| {
            let role = if index % 2 == 0 { "user" } else { "assistant" };
            format!(r#",{{"role":"{role}","content":"{} {index}"}}"#, "so many words ".repeat(40))
        })
        .collect();
    fs::write(&path, format!(r#"[{{"role":"system","content":"s"}}{body}]"#)).unwrap();
    path
}

fn compact(path: &str, more: &[&str]) -> Output {
    run(&[&["compact", path, "--target", "4000", "-q"], more].concat())
}

fn is_session(path: &str) -> bool {
    fs::read(path).unwrap() == fs::read(SESSION).unwrap()
}

#[test]
fn in_place_never_leaves_the_folder_that_was_named() {
    let (folder, outside) = (folder(), folder());
    let (inner, other) = (copy(&folder, "inner.jsonl"), copy(&outside, "other.jsonl"));
    let session = copy(&outside, "also.json");
    symlink(&other, at(&folder, "out.jsonl")).unwrap();
    symlink("inner.jsonl", at(&folder, "again.jsonl")).unwrap();
    symlink(at(&outside, "nothing.jsonl"), at(&folder, "nothing.jsonl")).unwrap();
    symlink(outside.path(), at(&folder, "folder")).unwrap();
    let output = compact(&folder.path().display().to_string(), &["--in-place"]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 5, "{told}");
    assert!(told.contains("out.jsonl: this link leads out of"), "{told}");
    assert!(is_session(&other) && is_session(&session));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
    assert!(!is_session(&inner), "what is in the folder is done");
    assert!(is_session(&format!("{inner}.bak")) && !Path::new(&format!("{inner}.bak1")).exists());
    // A link that is named is meant.
    assert_eq!(code(&compact(&at(&folder, "out.jsonl"), &["--in-place"])), 0);
    assert!(!is_session(&other));
}

#[test]
fn a_link_that_leads_to_nothing_is_not_written_through() {
    let (folder, outside) = (folder(), folder());
    let session = copy(&folder, "session.jsonl");
    let link = |name: &str| {
        let link = at(&folder, name);
        symlink(at(&outside, name), &link).unwrap();
        link
    };
    let refused = |output: &Output| {
        let told = text(&output.stderr);
        assert_eq!(code(output), 5, "{told}");
        assert!(told.contains("a link that leads to nothing"), "{told}");
    };
    let out = link("out");
    refused(&compact(&session, &["-o", &out]));
    refused(&run(&["convert", &session, "--to", "anthropic", "-q", "-o", &out]));
    refused(&run(&["stats", &session, "--svg", &out]));
    refused(&run(&["replay", &session, "--window", "16k", "--policy", "truncate", "--html", &out]));
    link("session.jsonl.bak");
    refused(&compact(&session, &["--in-place"]));
    refused(&compact(&session, &["--in-place", "--fresh"]));
    assert!(is_session(&session));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_backup_never_takes_the_place_of_something_else() {
    let (folder, outside) = (folder(), folder());
    let session = copy(&folder, "session.jsonl");
    let taken = at(&outside, "taken");
    fs::write(&taken, "mine").unwrap();
    symlink(&taken, format!("{session}.bak")).unwrap();
    assert_eq!(code(&compact(&session, &["--in-place"])), 0);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
    assert!(is_session(&format!("{session}.bak1")));
}

#[test]
fn a_folder_of_results_is_not_left_through_links_in_it() {
    let (input, folder, outside) = (folder(), folder(), folder());
    fs::create_dir(input.path().join("sub")).unwrap();
    for name in ["a.jsonl", "b.jsonl", "sub/c.jsonl"] {
        copy(&input, name);
    }
    let taken = at(&outside, "taken");
    fs::write(&taken, "mine").unwrap();
    symlink(&taken, at(&folder, "a.jsonl")).unwrap();
    symlink(outside.path(), at(&folder, "sub")).unwrap();
    let (from, to) = (input.path().display().to_string(), folder.path().display().to_string());
    let output = compact(&from, &["-o", &to]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 5, "{told}");
    assert!(told.contains("a.jsonl: this leads out of") && told.contains("sub: this leads out of"), "{told}");
    assert!(!is_session(&at(&folder, "b.jsonl")));
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn owner_group_and_mode_are_kept_also_by_the_backup() {
    let folder = folder();
    let other = copy(&folder, "target.jsonl");
    let session = copy(&folder, "session.jsonl");
    let paths = [session.clone(), document(&folder, "document.json"), other.clone()];
    for path in &paths {
        with_mode(path, 0o640);
        // Only root gives files away, others can give them to a group.
        let _not_permitted = std::os::unix::fs::chown(path, Some(4711), Some(4712));
    }
    let told = |path: &str| fs::metadata(path).map(|now| (now.uid(), now.gid(), now.mode())).unwrap();
    let before = told(&paths[0]);
    for path in &paths[..2] {
        assert_eq!(code(&compact(path, &["--in-place"])), 0);
        assert_eq!((told(path), told(&format!("{path}.bak"))), (before, before));
    }
    assert_eq!(code(&compact(&session, &["--fresh", "-o", &other])), 0);
    assert_eq!(told(&other), before);
}

#[test]
fn a_file_of_several_names_stays_one_file() {
    let folder = folder();
    let (session, other) = (copy(&folder, "session.jsonl"), at(&folder, "other.jsonl"));
    fs::hard_link(&session, &other).unwrap();
    for target in ["8000", "4000"] {
        let output = run(&["compact", &session, "--target", target, "-q", "--in-place"]);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    }
    assert!(!is_session(&session) && fs::read(&session).unwrap() == fs::read(&other).unwrap());
    let undone = run(&["undo", &folder.path().display().to_string(), "--in-place", "-q"]);
    assert_eq!(code(&undone), 5);
    assert!(text(&undone.stderr).contains("another name of a session"), "{}", text(&undone.stderr));
    let (one, two) = (document(&folder, "one.json"), at(&folder, "two.json"));
    fs::hard_link(&one, &two).unwrap();
    let before = fs::read(&one).unwrap();
    let refused = compact(&one, &["--in-place"]);
    assert_eq!(code(&refused), 5);
    assert!(text(&refused.stderr).contains("2 names"), "{}", text(&refused.stderr));
    assert!(fs::read(&one).unwrap() == before && fs::read(&two).unwrap() == before);
}

#[test]
fn what_is_made_of_sessions_is_its_owners_alone() {
    let folder = folder();
    let session = copy(&folder, "session.jsonl");
    with_mode(&session, 0o644);
    let store = at(&folder, "store.db");
    let stored = |arguments: &[&str]| {
        let output = foldback(arguments).env("FOLDBACK_STORE", &store).output().unwrap();
        assert_eq!(code(&output), 0, "{arguments:?}: {}", text(&output.stderr));
    };
    stored(&["import", &session, "--id", "s"]);
    let [compacted, fresh, converted, picture, page, exported, backup] =
        ["compacted", "fresh", "converted", "picture", "page", "exported", "backup"]
            .map(|name| at(&folder, name));
    stored(&["compact", &session, "--target", "4000", "-o", &compacted]);
    stored(&["compact", &session, "--target", "4000", "--fresh", "-o", &fresh]);
    stored(&["convert", &session, "--to", "anthropic", "-o", &converted]);
    stored(&["stats", &session, "--svg", &picture]);
    stored(&["replay", &session, "--window", "16k", "--policy", "truncate", "--html", &page]);
    stored(&["session", "export", "s", "-o", &exported]);
    stored(&["store", "backup", &backup]);
    for path in [&compacted, &fresh, &converted, &picture, &page, &exported, &backup, &store] {
        assert_eq!(mode(path), 0o600, "{path}");
    }
    let out = at(&folder, "out");
    fs::create_dir(&out).unwrap();
    stored(&["undo", &compacted, "-o", &out]);
    assert_eq!(mode(&format!("{out}/compacted")), 0o600);
    // A manual holds nothing of anybody.
    let (manual, any) = (at(&folder, "man"), at(&folder, "any"));
    stored(&["man", "compact", "-o", &manual]);
    fs::write(&any, "").unwrap();
    assert_eq!(mode(&format!("{manual}/foldback-compact.1")), mode(&any));
}

#[test]
fn a_file_that_is_there_keeps_its_mode_as_far_as_the_session_allows() {
    let folder = folder();
    let (session, out) = (copy(&folder, "session.jsonl"), at(&folder, "out"));
    for (of_session, of_file, expected) in
        [(0o600, 0o644, 0o600), (0o644, 0o644, 0o644), (0o644, 0o640, 0o640), (0o640, 0o666, 0o640)]
    {
        fs::write(&out, "").unwrap();
        with_mode(&session, of_session);
        with_mode(&out, of_file);
        assert_eq!(code(&compact(&session, &["-o", &out])), 0);
        assert_eq!(mode(&out), expected, "{of_session:o} {of_file:o}");
    }
    let page = at(&folder, "page");
    fs::write(&page, "").unwrap();
    with_mode(&page, 0o644);
    assert_eq!(code(&run(&["stats", &session, "--svg", &page])), 0);
    assert_eq!(mode(&page), 0o600);
}
