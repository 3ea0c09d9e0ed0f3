//! The configuration file: defaults for flags, discovered and checked.

use std::path::{Path, PathBuf};

use foldback_core::{Level, Tokens};
use serde::Deserialize;

use crate::args::{Compact, CounterName, Shared};
use crate::failure::Failure;

/// The name of the file in a project.
const FILE_NAME: &str = "foldback.toml";

/// Folders above the working one that are looked into.
const ANCESTORS_MAX: usize = 64;

/// `foldback.toml`. Every field is the default of the flag with its name.
///
/// ```toml
/// counter = "o200k"          # or "cl100k", "estimate"
/// model = "claude-sonnet-4-5"
///
/// [compact]
/// window = 200000
/// target = "40%"             # of what is usable, or a number of tokens
/// policy = "ladder"          # or another of `foldback policies`, or a TOML file
/// keep = ["(?i)never edit"]
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    counter: Option<CounterName>,
    model: Option<String>,
    compact: CompactConfig,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CompactConfig {
    window: Option<Tokens>,
    target: Option<Level>,
    policy: Option<String>,
    focus: Option<String>,
    keep: Vec<String>,
}

impl Config {
    /// The file that is named, or the one that is found, or nothing.
    pub(crate) fn load(shared: &Shared) -> Result<Self, Failure> {
        let Some(path) = shared.config.clone().or_else(discover) else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(&path).map_err(|error| Failure::Read {
            path: path.clone(),
            error,
            hint: None,
        })?;
        Self::parse(&text, &path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let what = format!("{}:{line}: {}", path.display(), error.message());
            Failure::usage(what, "see `foldback compact --help` for what can be configured")
        })
    }

    /// The flags, with this file's values where they say nothing.
    pub(crate) fn under(&self, shared: Shared) -> Shared {
        Shared {
            counter: shared.counter.or(self.counter),
            model: shared.model.or_else(|| self.model.clone()),
            ..shared
        }
    }

    /// As [`under`](Self::under), for `compact`.
    pub(crate) fn compact_under(&self, compact: Compact) -> Compact {
        let CompactConfig { window, target, policy, focus, keep } = self.compact.clone();
        Compact {
            window: compact.window.or(window),
            target: compact.target.or(target),
            policy: compact.policy.or(policy),
            focus: compact.focus.or(focus),
            keep: compact.keep.into_iter().chain(keep).collect(),
            ..compact
        }
    }
}

fn discover() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let in_project = here.ancestors().take(ANCESTORS_MAX).map(|folder| folder.join(FILE_NAME));
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user_folder = variable("XDG_CONFIG_HOME")
        .or_else(|| variable("APPDATA"))
        .or_else(|| variable("HOME").map(|home| home.join(".config")));
    let of_user = user_folder.map(|folder| folder.join("foldback").join("config.toml"));
    in_project.chain(of_user).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file() {
        let text = "counter = \"estimate\"\n[compact]\ntarget = \"40%\"\nwindow = 100000\nkeep = [\"a\"]\n";
        let config = Config::parse(text, Path::new("foldback.toml")).unwrap();
        let flags = Compact { window: Some(Tokens(5)), keep: vec!["b".to_owned()], ..Compact::default() };
        let merged = config.compact_under(flags);
        assert_eq!((merged.window, merged.target), (Some(Tokens(5)), Some(Level::PercentOfUsable(40.0))));
        assert_eq!(merged.keep, ["b", "a"]);
        assert_eq!(config.under(Shared::default()).counter, Some(CounterName::Estimate));
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line() {
        let failure =
            Config::parse("counter = \"o200k\"\ntarget = 5\n", Path::new("foldback.toml")).unwrap_err();
        let Failure::Usage { what, .. } = failure else { panic!("{failure:?}") };
        assert!(what.starts_with("foldback.toml:2: unknown field `target`"), "{what}");
    }
}
