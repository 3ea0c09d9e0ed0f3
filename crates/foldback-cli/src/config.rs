//! Where settings come from beside the command line: the environment, then the configuration file.
//! What is wrong with one of them is told with its name and its place.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foldback_core::{Level, Tokens};
use regex::Regex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::args::chat::{Backend, Chat};
use crate::args::lab::{Eval, Explain, Probe, Replay};
use crate::args::sessions::HowToCompact;
use crate::args::{Aim, Compact, CounterName, Shared};
use crate::backend::Spec;
use crate::failure::Failure;
use crate::{backend, policy, values};

/// The name of the file in a project.
const FILE_NAME: &str = "foldback.toml";

/// Folders above the working one that are looked into.
const ANCESTORS_MAX: usize = 64;

const CONFIG_VARIABLE: &str = "FOLDBACK_CONFIG";
const WINDOW_VARIABLE: &str = "FOLDBACK_WINDOW";
const TARGET_VARIABLE: &str = "FOLDBACK_TARGET";
const POLICY_VARIABLE: &str = "FOLDBACK_POLICY";

/// Who set something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The flag, or nobody.
    #[default]
    CommandLine,
    Variable(&'static str),
    File(PathBuf),
}

impl Origin {
    /// The setting as whoever set it calls it; `flag` is its name without dashes.
    pub(crate) fn name(&self, flag: &str) -> String {
        match self {
            Self::CommandLine => format!("--{flag}"),
            Self::Variable(name) => (*name).to_owned(),
            Self::File(path) => format!("{flag} in {}", path.display()),
        }
    }
}

/// `foldback.toml`. Every field is the default of the flag with its name.
///
/// ```toml
/// counter = "o200k"          # or "cl100k", "estimate"
/// model = "claude-sonnet-4-5"
///
/// [compact]
/// window = 200000            # or "200k"
/// target = "40%"             # of what is usable, or a number of tokens
/// policy = "ladder"          # or another of `foldback policies`, or a TOML file
/// keep = ["(?i)never edit"]
/// backend = "digest"         # or a model, such as "openai:http://127.0.0.1:8080/v1#qwen3"
/// backend_key_env = "MY_KEY" # the variable that holds its key
/// backend_window = "32k"
/// backend_timeout = 60       # seconds
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(skip)]
    path: PathBuf,
    #[serde(deserialize_with = "counter")]
    counter: Option<CounterName>,
    model: Option<String>,
    compact: CompactConfig,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CompactConfig {
    #[serde(deserialize_with = "window")]
    window: Option<Tokens>,
    #[serde(deserialize_with = "target")]
    target: Option<Level>,
    #[serde(deserialize_with = "policy")]
    policy: Option<String>,
    focus: Option<String>,
    keep: Vec<Spanned<String>>,
    #[serde(deserialize_with = "backend_spec")]
    backend: Option<Spec>,
    backend_key_env: Option<String>,
    #[serde(deserialize_with = "backend_window")]
    backend_window: Option<Tokens>,
    #[serde(deserialize_with = "backend_timeout")]
    backend_timeout: Option<Duration>,
    backend_candidates: Option<u8>,
}

impl CompactConfig {
    /// The flags for who writes summaries, with the environment's value and then this file's. The key,
    /// the window and the time belong to the server that the file names, and to no other.
    fn backend_under(&self, flags: Backend) -> Result<Backend, Failure> {
        let set = or_variable(flags.backend, "FOLDBACK_BACKEND", backend::spec)?;
        let Some((backend, _)) = set else {
            return Ok(Backend {
                backend: self.backend.clone(),
                backend_key_env: flags.backend_key_env.or_else(|| self.backend_key_env.clone()),
                backend_window: flags.backend_window.or(self.backend_window),
                backend_timeout: flags.backend_timeout.or(self.backend_timeout),
                backend_candidates: flags.backend_candidates.or(self.backend_candidates),
            });
        };
        Ok(Backend { backend: Some(backend), ..flags })
    }
}

impl Config {
    /// The file that is named, or the one that is found, or nothing.
    pub(crate) fn load(shared: &Shared) -> Result<Self, Failure> {
        let by_variable = || variable_os(CONFIG_VARIABLE).map(PathBuf::from);
        let hint = match (&shared.config, by_variable()) {
            (None, Some(_)) => Some(format!("{CONFIG_VARIABLE} names it: name a file, or unset it")),
            _ => None,
        };
        let named = shared.config.clone().or_else(by_variable);
        let Some(path) = named.or_else(discover) else { return Ok(Self::default()) };
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| Failure::Read { path: path.clone(), error, hint })?;
        Self::parse(&text, &path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let wrong = |at: usize, what: &str| {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            let settings = "counter and model, and in [compact] window, target, policy, focus, keep, \
                            backend, backend_key_env, backend_window and backend_timeout";
            let hint = format!("the configuration file may set {settings}");
            Failure::usage(format!("{}:{line}: {what}", path.display()), hint)
        };
        let read: Result<Self, toml::de::Error> = toml::from_str(text);
        let config =
            read.map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
        for pattern in &config.compact.keep {
            if let Err(error) = Regex::new(pattern.get_ref()) {
                return Err(wrong(pattern.span().start, &format!("keep: {error}")));
            }
        }
        Ok(Self { path: path.to_owned(), ..config })
    }

    /// The flags, with the environment's values where they say nothing, and then this file's.
    pub(crate) fn under(&self, shared: Shared) -> Result<Shared, Failure> {
        let counter =
            or_variable(shared.counter, "FOLDBACK_COUNTER", |name| values::one_of("counter", name))?;
        let model = or_variable(shared.model, "FOLDBACK_MODEL", |name| Ok(name.to_owned()))?;
        Ok(Shared {
            counter: counter.map(|(counter, _)| counter).or(self.counter),
            model: model.map(|(model, _)| model).or_else(|| self.model.clone()),
            ..shared
        })
    }

    /// As [`under`](Self::under), for `compact`.
    pub(crate) fn compact_under(&self, compact: Compact) -> Result<Compact, Failure> {
        let CompactConfig { focus, keep, .. } = self.compact.clone();
        Ok(Compact {
            aim: self.aim_under(compact.aim)?,
            backend: self.compact.backend_under(compact.backend)?,
            focus: compact.focus.or(focus),
            keep: compact.keep.into_iter().chain(keep.into_iter().map(Spanned::into_inner)).collect(),
            ..compact
        })
    }

    /// As [`under`](Self::under), for `chat`, which compacts as `compact` does.
    pub(crate) fn chat_under(&self, chat: Chat) -> Result<Chat, Failure> {
        let (window, _) = self.window_under(chat.window)?;
        let (policy, policy_from) = self.policy_under(chat.policy)?;
        let backend = self.compact.backend_under(chat.backend)?;
        Ok(Chat { window, policy, policy_from, backend, ..chat })
    }

    /// As [`under`](Self::under), for `replay`: the policy of the file is replayed instead of all.
    pub(crate) fn replay_under(&self, replay: Replay) -> Result<Replay, Failure> {
        let (window, _) = self.window_under(replay.window)?;
        if !replay.policy.is_empty() {
            return Ok(Replay { window, ..replay });
        }
        let (policy, policy_from) = self.policy_under(None)?;
        Ok(Replay { window, policy: policy.into_iter().collect(), policy_from, ..replay })
    }

    /// As [`under`](Self::under), for `eval`.
    pub(crate) fn eval_under(&self, eval: Eval) -> Result<Eval, Failure> {
        let (window, _) = self.window_under(eval.window)?;
        let (policy, policy_from) = self.policy_under(eval.policy)?;
        Ok(Eval { window, policy, policy_from, ..eval })
    }

    /// As [`under`](Self::under), for `probe`: the policy of the file takes the default's place.
    pub(crate) fn probe_under(&self, probe: Probe) -> Result<Probe, Failure> {
        let (window, _) = self.window_under(probe.window)?;
        let backend = self.compact.backend_under(probe.backend)?;
        if !probe.policy.is_empty() {
            return Ok(Probe { window, backend, ..probe });
        }
        let (policy, policy_from) = self.policy_under(None)?;
        Ok(Probe { window, backend, policy: policy.into_iter().collect(), policy_from, ..probe })
    }

    /// As [`under`](Self::under), for `explain`: what `compact` would do, unless a model writes.
    pub(crate) fn explain_under(&self, explain: Explain) -> Result<Explain, Failure> {
        Ok(Explain {
            aim: self.aim_under(explain.aim)?,
            focus: self.compact.focus.clone(),
            keep: self.compact.keep.iter().map(|pattern| pattern.get_ref().clone()).collect(),
            ..explain
        })
    }

    /// As [`under`](Self::under), for `session compact`.
    pub(crate) fn session_under(&self, compact: HowToCompact) -> Result<HowToCompact, Failure> {
        let (aim, backend) = (self.aim_under(compact.aim)?, self.compact.backend_under(compact.backend)?);
        Ok(HowToCompact { aim, backend, ..compact })
    }

    fn aim_under(&self, flags: Aim) -> Result<Aim, Failure> {
        let (window, window_from) = self.window_under(flags.window)?;
        let (target, target_from) = self.target_under(flags.target)?;
        let (policy, policy_from) = self.policy_under(flags.policy)?;
        Ok(Aim { window, target, policy, window_from, target_from, policy_from })
    }

    fn window_under(&self, flag: Option<Tokens>) -> Result<(Option<Tokens>, Origin), Failure> {
        Ok(self.or_here(or_variable(flag, WINDOW_VARIABLE, values::tokens)?, self.compact.window))
    }

    fn target_under(&self, flag: Option<Level>) -> Result<(Option<Level>, Origin), Failure> {
        Ok(self.or_here(or_variable(flag, TARGET_VARIABLE, values::level)?, self.compact.target))
    }

    fn policy_under(&self, flag: Option<String>) -> Result<(Option<String>, Origin), Failure> {
        let set = or_variable(flag, POLICY_VARIABLE, policy::asked_for)?;
        Ok(self.or_here(set, self.compact.policy.clone()))
    }

    fn or_here<T>(&self, set: Option<(T, Origin)>, here: Option<T>) -> (Option<T>, Origin) {
        match (set, here) {
            (Some((value, origin)), _) => (Some(value), origin),
            (None, Some(value)) => (Some(value), Origin::File(self.path.clone())),
            (None, None) => (None, Origin::CommandLine),
        }
    }
}

/// What the flag says, or else the environment.
fn or_variable<T>(
    flag: Option<T>,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<(T, Origin)>, Failure> {
    if let Some(value) = flag {
        return Ok(Some((value, Origin::CommandLine)));
    }
    let Some(text) = variable_os(name) else { return Ok(None) };
    let wrong = |why: String| {
        let what = format!("the environment variable {name} is {}: {why}", text.display());
        Failure::usage(what, format!("correct {name}, or unset it"))
    };
    let value = text.to_str().ok_or_else(|| "this is no UTF-8".to_owned()).and_then(&parse).map_err(wrong)?;
    Ok(Some((value, Origin::Variable(name))))
}

/// A variable that is set; to nothing is not set.
fn variable_os(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn discover() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let in_project = here.ancestors().take(ANCESTORS_MAX).map(|folder| folder.join(FILE_NAME));
    let folder = |name| variable_os(name).map(PathBuf::from);
    let user_folder = folder("XDG_CONFIG_HOME")
        .or_else(|| folder("APPDATA"))
        .or_else(|| folder("HOME").map(|home| home.join(".config")));
    let of_user = user_folder.map(|folder| folder.join("foldback").join("config.toml"));
    in_project.chain(of_user).find(|path| path.is_file())
}

/// A number or a text: both are read as the flag reads them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Whole(i64),
    Fraction(f64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Fraction(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    setting: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let wrong = |why: String| D::Error::custom(format!("{setting}: {why}"));
    let Ok(written) = Scalar::deserialize(deserializer) else {
        return Err(wrong("this is neither a number nor a text".to_owned()));
    };
    parse(&written.to_string()).map(Some).map_err(|why| wrong(format!("{written}: {why}")))
}

fn counter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CounterName>, D::Error> {
    read(deserializer, "counter", |name| values::one_of("counter", name))
}

fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tokens>, D::Error> {
    read(deserializer, "window", values::tokens)
}

fn target<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Level>, D::Error> {
    read(deserializer, "target", values::level)
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    read(deserializer, "policy", policy::asked_for)
}

fn backend_spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Spec>, D::Error> {
    read(deserializer, "backend", backend::spec)
}

fn backend_window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tokens>, D::Error> {
    read(deserializer, "backend_window", values::tokens)
}

fn backend_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    read(deserializer, "backend_timeout", backend::seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        let failure = Config::parse(text, Path::new("foldback.toml")).unwrap_err();
        let Failure::Usage { what, .. } = failure else { panic!("{failure:?}") };
        what
    }

    #[test]
    fn flags_win_over_the_file() {
        let text = "counter = \"estimate\"\n[compact]\ntarget = \"40%\"\nwindow = \"100k\"\nkeep = [\"a\"]\n";
        let config = Config::parse(text, Path::new("foldback.toml")).unwrap();
        let aim = Aim { window: Some(Tokens(5)), ..Aim::default() };
        let flags = Compact { aim, keep: vec!["b".to_owned()], ..Compact::default() };
        let merged = config.compact_under(flags).unwrap();
        let aim = merged.aim;
        assert_eq!((aim.window, aim.target), (Some(Tokens(5)), Some(Level::PercentOfUsable(40.0))));
        assert_eq!(aim.window_from.name("window"), "--window");
        assert_eq!(aim.target_from.name("target"), "target in foldback.toml");
        assert_eq!(merged.keep, ["b", "a"]);
        assert_eq!(config.under(Shared::default()).unwrap().counter, Some(CounterName::Estimate));
    }

    #[test]
    fn the_key_in_the_file_is_for_the_server_in_the_file() {
        let text =
            "[compact]\nbackend = \"openai:http://h/v1\"\nbackend_key_env = \"K\"\nbackend_timeout = 9\n";
        let config = Config::parse(text, Path::new("foldback.toml")).unwrap();
        let of_file = config.compact_under(Compact::default()).unwrap().backend;
        assert_eq!(of_file.backend, Some(backend::spec("openai:http://h/v1").unwrap()));
        assert_eq!(of_file.backend_key_env.as_deref(), Some("K"));
        assert_eq!(of_file.backend_timeout, Some(Duration::from_secs(9)));
        let named = Backend { backend: backend::spec("http://other/v1").ok(), ..Backend::default() };
        let flags = Compact { backend: named, ..Compact::default() };
        assert_eq!(config.compact_under(flags).unwrap().backend.backend_key_env, None);
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line_and_what_is_allowed() {
        let unknown = mistake("counter = \"o200k\"\ntarget = 5\n");
        assert!(unknown.starts_with("foldback.toml:2: unknown field `target`"), "{unknown}");
        let counter = mistake("model = \"m\"\ncounter = \"word\"\n");
        assert!(counter.starts_with("foldback.toml:2: counter: word: no such counter"), "{counter}");
        assert!(counter.contains("o200k, cl100k, estimate"), "{counter}");
        let window = mistake("\n[compact]\nwindow = \"wide\"\n");
        assert!(window.starts_with("foldback.toml:3: window: wide: give a whole number"), "{window}");
        let target = mistake("[compact]\ntarget = 0\n");
        assert!(target.starts_with("foldback.toml:2: target: 0: give a whole number"), "{target}");
        let typed = mistake("[compact]\npolicy = [1]\n");
        assert!(typed.starts_with("foldback.toml:2: policy: this is neither"), "{typed}");
        let backend = mistake("[compact]\nbackend = \"opnai\"\n");
        assert!(backend.starts_with("foldback.toml:2: backend: opnai: no such server"), "{backend}");
        let keep = mistake("[compact]\nkeep = [\n  \"fine\",\n  \"(\",\n]\n");
        assert!(keep.starts_with("foldback.toml:4: keep: regex parse error"), "{keep}");
    }
}
