//! Puts the commit into `foldback --version`, where there is one.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown commit".to_owned());
    println!("cargo::rustc-env=FOLDBACK_COMMIT={commit}");
    // The commit changes with HEAD and with the branch it points to.
    let paths = ["HEAD".to_owned()].into_iter().chain(git(&["symbolic-ref", "HEAD"]));
    for path in paths.filter_map(|name| git(&["rev-parse", "--git-path", &name])) {
        println!("cargo::rerun-if-changed={path}");
    }
}
