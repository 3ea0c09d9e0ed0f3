//! What somebody is told who got a flag, a variable or the configuration wrong.

use std::process::{Output, Stdio};

use super::{SESSION, at, code, foldback, folder, run, text};

/// Fails for its usage, with all of `expected` on stderr.
fn assert_refused(output: &Output, expected: &[&str]) {
    let told = text(&output.stderr);
    assert_eq!(code(output), 2, "{told}");
    assert!(output.stdout.is_empty(), "{told}");
    expected.iter().for_each(|expected| assert!(told.contains(expected), "no {expected:?} in {told}"));
}

#[test]
fn a_wrong_value_of_a_flag_is_told_with_what_is_allowed() {
    let tokens = "a whole number of tokens above zero";
    let cases: [(&[&str], &[&str]); 11] = [
        (&["compact", "--target", "0"], &["--target", "'0'", tokens, "40%"]),
        (&["compact", "--target", "10x"], &["--target", "'10x'", tokens, "40%"]),
        (&["compact", "--target", "-5"], &["--target", "'-5'", tokens]),
        (&["compact", "--target", "150%"], &["--target", "up to 100%"]),
        (&["compact", "--window", "abc"], &["--window", "'abc'", tokens]),
        (&["compact", "--range", "9..3"], &["--range", "'9..3'", "A must be below B", "10..40"]),
        (&["compact", "--range", "3"], &["--range", "10..40"]),
        (&["show", "--at=-1"], &["--at", "'-1'", "counted from 1"]),
        (&["show", "--at", "0"], &["--at", "'0'", "counted from 1"]),
        (&["show", "--at", "99999999999999"], &["no turn 99999999999999", "turns 1 to 5"]),
        (&["stats", "--top", "-1"], &["--top", "'-1'", "0 or more"]),
    ];
    for (arguments, expected) in cases {
        let all: Vec<&str> = arguments.iter().copied().chain([SESSION]).collect();
        assert_refused(&run(&all), expected);
    }
}

#[test]
fn a_wrong_value_in_the_environment_is_blamed_on_its_variable() {
    let cases = [
        ("FOLDBACK_TARGET", "soon", "40%"),
        ("FOLDBACK_WINDOW", "wide", "128k"),
        ("FOLDBACK_POLICY", "laddr", "no such policy; did you mean ladder?"),
        ("FOLDBACK_COUNTER", "words", "o200k, cl100k, estimate"),
    ];
    for (variable, value, allowed) in cases {
        let wrong = format!("the environment variable {variable} is {value}: ");
        for arguments in [&["compact", SESSION, "--dry-run"][..], &["explain", SESSION]] {
            let output = foldback(arguments).env(variable, value).output().unwrap();
            assert_refused(&output, &[&wrong, allowed]);
            assert!(!text(&output.stderr).contains("--help"), "{}", text(&output.stderr));
        }
        let unset = foldback(&["compact", SESSION, "--dry-run"]).env(variable, "").output().unwrap();
        assert_eq!(code(&unset), 0, "what is empty is not set: {}", text(&unset.stderr));
    }
    let mut others = foldback(&["stats", SESSION]);
    let others = others.env("FOLDBACK_TARGET", "soon").output().unwrap();
    assert_eq!(code(&others), 0, "a command is not stopped by what it does not use");
    let mut flag = foldback(&["compact", SESSION, "--dry-run", "--target", "9000"]);
    assert_eq!(code(&flag.env("FOLDBACK_TARGET", "soon").output().unwrap()), 0, "the flag wins");
}

#[test]
fn a_configuration_that_cannot_be_read_or_followed_is_named() {
    let folder = folder();
    let config = at(&folder, "foldback.toml");
    let compact = |text: &str| {
        std::fs::write(&config, text).unwrap();
        foldback(&["compact", SESSION, "--dry-run"]).current_dir(folder.path()).output().unwrap()
    };
    let expected = ["foldback.toml:2: policy: rope: no such policy", "ladder"];
    assert_refused(&compact("[compact]\npolicy = \"rope\"\n"), &expected);
    assert_refused(&compact("[compact]\nkeep = [\"(\"]\n"), &["foldback.toml:2: keep: regex parse error"]);
    assert_refused(&compact("[compact\n"), &["foldback.toml:1:"]);
    let above = compact("[compact]\nwindow = 50000\ntarget = 90000\n");
    assert_refused(&above, &["90,000", "target in", "window in", "foldback.toml"]);
    let mut above = foldback(&["compact", SESSION, "--dry-run", "--window", "50k"]);
    assert_refused(&above.env("FOLDBACK_TARGET", "90k").output().unwrap(), &["FOLDBACK_TARGET", "--window"]);
    let missing = foldback(&["stats", SESSION]).env("FOLDBACK_CONFIG", "/nowhere.toml").output().unwrap();
    assert_eq!(code(&missing), 3);
    let told = text(&missing.stderr);
    assert!(told.contains("/nowhere.toml") && told.contains("FOLDBACK_CONFIG"), "{told}");
}

#[test]
#[cfg(target_os = "linux")]
fn help_for_a_full_disk_is_an_error_and_for_a_closed_pipe_none() {
    let asked: [&[&str]; 5] =
        [&["--help"], &["--version"], &["compact", "--help"], &["man"], &["completions", "bash"]];
    for arguments in asked {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = foldback(arguments).stdout(full).output().unwrap();
        assert_eq!(code(&output), 5, "{arguments:?}");
        assert!(text(&output.stderr).contains("stdout"), "{arguments:?}: {}", text(&output.stderr));
        let mut child = foldback(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), text(&output.stderr).as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn the_manual_has_the_flags_of_every_command() {
    let manual = text(&run(&["man"]).stdout);
    for flag in ["in\\-place", "strict", "shape", "svg", "fix"] {
        assert!(manual.contains(flag), "no {flag}");
    }
    let page = text(&run(&["man", "show"]).stdout);
    assert!(page.contains("shape") && page.contains("foldback\\-show") && !page.contains("strict"), "{page}");
    let folder = folder();
    let pages = at(&folder, "man1");
    assert_eq!(code(&run(&["man", "--out", &pages])), 0);
    let mut names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 30, "{names:?}");
    assert!(names.contains(&"foldback.1".to_owned()) && names.contains(&"foldback-compact.1".to_owned()));
    let broken = at(&folder, "foldback.toml");
    std::fs::write(broken, "countr = 1\n").unwrap();
    let output = foldback(&["man"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(code(&output), 0, "the manual needs no configuration");
}

#[test]
fn a_result_for_a_folder_that_is_not_there_is_refused_with_its_name() {
    let folder = folder();
    let output = run(&["compact", SESSION, "--target", "9000", "-q", "-o", &at(&folder, "no/out.jsonl")]);
    assert_eq!(code(&output), 5);
    let told = text(&output.stderr);
    assert!(told.contains(&format!("there is no folder {}", at(&folder, "no"))), "{told}");
    assert!(told.contains("hint:") && !told.contains(".foldback-"), "{told}");
}

#[test]
fn a_model_that_is_not_known_needs_a_window_and_gets_a_suggestion() {
    let told = |arguments: &[&str]| run(&[&["compact", SESSION, "--dry-run"], arguments].concat());
    let refused = told(&["--model", "clade-sonet"]);
    assert_refused(&refused, &["--model clade-sonet", "did you mean claude-sonnet-", "--window"]);
    assert_refused(&told(&["--model", "our-own-model"]), &["our-own-model", "--window 128k"]);
    assert!(!text(&told(&["--model", "our-own-model"]).stderr).contains("did you mean"));
    for enough in [["--window", "64k"], ["--target", "9000"]] {
        let done = told(&[&["--model", "clade-sonet"], &enough[..]].concat());
        let note = text(&done.stderr);
        assert_eq!(code(&done), 0, "{note}");
        assert!(note.contains("clade-sonet is not known") && note.contains("did you mean"), "{note}");
    }
    let mut by_variable = foldback(&["compact", SESSION, "--dry-run"]);
    let by_variable = by_variable.env("FOLDBACK_MODEL", "clade-sonet").output().unwrap();
    assert_refused(&by_variable, &["FOLDBACK_MODEL clade-sonet", "claude-sonnet-"]);
    let folder = folder();
    std::fs::write(at(&folder, "foldback.toml"), "model = \"clade-sonet\"\n").unwrap();
    let mut by_file = foldback(&["explain", SESSION]);
    let by_file = by_file.env("FOLDBACK_CONFIG", at(&folder, "foldback.toml")).output().unwrap();
    assert_refused(&by_file, &["model in ", "foldback.toml clade-sonet"]);
}

#[test]
fn a_newer_model_of_a_known_family_is_assumed_to_be_like_it_and_that_is_told() {
    let arguments = ["compact", SESSION, "--dry-run", "--json", "--model", "gpt-6-mini"];
    let done = run(&arguments);
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["model"]["known"], "family", "{report}");
    assert_eq!((&report["model"]["family"], &report["window"]["source"]), (&"gpt-5".into(), &"model".into()));
    let note = text(&done.stderr);
    assert!(note.contains("gpt-6-mini is not known") && note.contains("gpt-5"), "{note}");
    let known = run(&["compact", SESSION, "--dry-run", "--model", "gpt-5-mini"]);
    assert!(!text(&known.stderr).contains("not known"), "{}", text(&known.stderr));
}

#[test]
fn sessions_of_one_name_in_a_folder_keep_their_folders() {
    let folder = folder();
    for name in ["in/a", "in/b"] {
        std::fs::create_dir_all(at(&folder, name)).unwrap();
        std::fs::copy(SESSION, at(&folder, &format!("{name}/session.jsonl"))).unwrap();
    }
    let output = run(&["compact", &at(&folder, "in"), "--target", "9000", "-q", "-o", &at(&folder, "out")]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    for name in ["a", "b"] {
        assert!(std::fs::exists(at(&folder, &format!("out/{name}/session.jsonl"))).unwrap(), "{name}");
    }
    std::fs::write(at(&folder, "file"), "").unwrap();
    let refused = run(&["compact", &at(&folder, "in"), "--target", "9000", "-o", &at(&folder, "file")]);
    assert_refused(&refused, &["is no folder", "give the name of a folder"]);
}
