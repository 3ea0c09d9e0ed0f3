//! `foldback install`, `uninstall` and `doctor`: nothing but foldback's own files is ever touched.

use std::collections::BTreeMap;

use super::*;

const AGENTS: [&str; 3] = ["claude-code", "opencode", "pi"];

/// A person with a home folder and a project.
struct Person {
    folder: tempfile::TempDir,
}

impl Person {
    fn new() -> Self {
        let person = Self { folder: folder() };
        for (name, content) in [
            ("home/.claude/settings.json", "{}"),
            ("home/.claude/skills/other/SKILL.md", "# Other"),
            ("home/.pi/agent/settings.json", "{}"),
            ("project/.opencode/opencode.json", "{}"),
        ] {
            let path = person.folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        person
    }

    fn foldback(&self, arguments: &[&str]) -> Output {
        let mut command = foldback(arguments);
        command.env_remove("CLAUDE_CONFIG_DIR").env_remove("OPENCODE_CONFIG_DIR");
        command.env_remove("PI_CODING_AGENT_DIR").env_remove("XDG_CONFIG_HOME");
        command.env("HOME", at(&self.folder, "home")).env("XDG_DATA_HOME", at(&self.folder, "data"));
        command.env("PATH", "").current_dir(at(&self.folder, "project")).output().unwrap()
    }

    /// Everything in the home and the project: folders, and files with what is in them.
    fn everything(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![self.folder.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let is_folder = path.is_dir();
                if is_folder && path.ends_with("data") {
                    continue;
                }
                found.insert(path.clone(), (!is_folder).then(|| std::fs::read(&path).unwrap()));
                folders.extend(is_folder.then_some(path));
            }
        }
        found
    }
}

fn scopes() -> [&'static [&'static str]; 2] {
    [&[], &["--project"]]
}

#[test]
fn uninstall_leaves_the_folders_as_they_were_byte_for_byte() {
    let person = Person::new();
    let before = person.everything();
    for agent in AGENTS {
        for scope in scopes() {
            let install = [&["install", agent, "--yes"], scope].concat();
            for _ in 0..2 {
                assert_eq!(code(&person.foldback(&install)), 0);
            }
        }
    }
    let installed = person.everything();
    assert!(
        before.iter().all(|(path, content)| installed.get(path) == Some(content)),
        "what was there stays"
    );
    let program = env!("CARGO_BIN_EXE_foldback");
    let running = installed.values().flatten().filter(|file| text(file).contains(program)).count();
    assert_eq!(running, 6, "each module runs this program");
    for agent in AGENTS {
        for scope in scopes() {
            assert_eq!(code(&person.foldback(&[&["uninstall", agent, "--yes"], scope].concat())), 0);
        }
    }
    assert_eq!(person.everything(), before);
    assert_eq!(code(&person.foldback(&["uninstall", "pi", "--yes"])), 1, "there is nothing to take out");
}

#[test]
fn without_a_yes_nothing_is_written() {
    let person = Person::new();
    let before = person.everything();
    let refused = person.foldback(&["install", "pi"]);
    assert_eq!(code(&refused), 2);
    assert!(text(&refused.stderr).contains("foldback.ts") && text(&refused.stderr).contains("--yes"));
    assert_eq!(code(&person.foldback(&["install", "pi", "--dry-run"])), 0);
    assert_eq!(person.everything(), before);
}

#[test]
fn a_file_of_somebody_else_is_neither_written_over_nor_removed() {
    let person = Person::new();
    let own = person.folder.path().join("home/.pi/agent/extensions/foldback.ts");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "// mine").unwrap();
    let refused = person.foldback(&["install", "pi", "--yes"]);
    assert_eq!(code(&refused), 5, "{}", text(&refused.stderr));
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "// mine");

    std::fs::remove_file(&own).unwrap();
    assert_eq!(code(&person.foldback(&["install", "pi", "--yes"])), 0);
    std::fs::write(&own, "// changed").unwrap();
    assert_eq!(code(&person.foldback(&["doctor", "pi"])), 1);
    assert_eq!(code(&person.foldback(&["install", "pi", "--yes"])), 5);
    let left = person.foldback(&["uninstall", "pi", "--yes"]);
    assert!(text(&left.stderr).contains("is left as it is"), "{}", text(&left.stderr));
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "// changed");
}

#[test]
fn the_doctor_says_what_is_installed_and_what_is_missing() {
    let person = Person::new();
    assert_eq!(code(&person.foldback(&["doctor"])), 0, "nothing installed is nothing wrong");
    assert_eq!(code(&person.foldback(&["install", "claude-code", "--yes", "--project"])), 0);
    let told = person.foldback(&["doctor", "claude-code", "--json"]);
    assert_eq!(code(&told), 1, "there is no claude in PATH");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let healths: Vec<&Value> =
        told["agents"][0]["modules"].as_array().unwrap().iter().map(|module| &module["health"]).collect();
    assert_eq!(healths, ["absent", "current"]);
}
