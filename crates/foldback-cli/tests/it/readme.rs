//! The README tells the truth.

use super::*;

#[test]
fn the_first_command_prints_what_the_readme_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let line = readme.lines().find(|line| line.starts_with("cargo run -p foldback-cli -- ")).unwrap();
    let written = "target/compacted.jsonl";
    let words: Vec<&str> = line.split(' ').skip_while(|word| *word != "--").skip(1).collect();
    assert!(words.ends_with(&["-o", written]), "{line}");
    let folder = folder();
    let output = at(&folder, "compacted.jsonl");
    let words: Vec<&str> = words.iter().map(|word| if *word == written { &*output } else { word }).collect();
    let done = foldback(&words).current_dir(&root).output().unwrap();
    let printed = text(&done.stderr).replace(&output, written);
    assert!(
        done.status.success() && readme.contains(printed.trim()),
        "the README shows another output than\n{printed}"
    );
}
