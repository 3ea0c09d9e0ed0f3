//! One configuration file, as it is written. What is wrong with it is told with its line.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use foldback_core::Tokens;
use regex::Regex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::aim::Target;
use crate::args::CounterName;
use crate::backend::{self, Spec};
use crate::failure::Failure;
use crate::{policy, values};

/// `foldback.toml`. Every field is the default of the flag with its name.
///
/// ```toml
/// counter = "o200k"          # or "cl100k", "estimate"
/// model = "claude-sonnet-4-5"
///
/// [compact]
/// window = 200000            # or "200k"
/// target = "40%"             # of what the window leaves, "40% of session", or a number of tokens
/// policy = "ladder"          # or another of `foldback policies`, or a TOML file
/// keep = ["(?i)never edit"]  # lines that summaries repeat
/// pin = ["BEGIN PLAN"]       # whole messages, calls and results that stay as they are
/// backend = "digest"         # or a model, such as "openai:http://127.0.0.1:8080/v1#qwen3"
/// backend_key_env = "MY_KEY" # the variable that holds its key
/// backend_window = "32k"
/// backend_timeout = 60       # seconds
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Settings {
    #[serde(deserialize_with = "counter")]
    pub(super) counter: Option<CounterName>,
    pub(super) model: Option<String>,
    pub(super) compact: CompactSettings,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CompactSettings {
    #[serde(deserialize_with = "window")]
    pub(super) window: Option<Tokens>,
    #[serde(deserialize_with = "target")]
    pub(super) target: Option<Target>,
    #[serde(deserialize_with = "policy")]
    pub(super) policy: Option<String>,
    pub(super) focus: Option<String>,
    pub(super) keep: Vec<Spanned<String>>,
    pub(super) pin: Vec<Spanned<String>>,
    #[serde(deserialize_with = "backend_spec")]
    pub(super) backend: Option<Spec>,
    pub(super) backend_key_env: Option<String>,
    #[serde(deserialize_with = "backend_window")]
    pub(super) backend_window: Option<Tokens>,
    #[serde(deserialize_with = "backend_timeout")]
    pub(super) backend_timeout: Option<Duration>,
    pub(super) backend_candidates: Option<u8>,
}

impl Settings {
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let wrong = |at: usize, what: &str| {
            let line =
                text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1;
            let settings = "counter and model, and in [compact] window, target, policy, focus, keep, pin, \
                            backend, backend_key_env, backend_window and backend_timeout";
            let hint = format!("the configuration file may set {settings}");
            Failure::usage(format!("{}:{line}: {what}", path.display()), hint)
        };
        let read: Result<Self, toml::de::Error> = toml::from_str(text);
        let settings =
            read.map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
        let CompactSettings { keep, pin, .. } = &settings.compact;
        let patterns = [("keep", keep), ("pin", pin)];
        for (name, pattern) in patterns.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one)))
        {
            if let Err(error) = Regex::new(pattern.get_ref()) {
                return Err(wrong(pattern.span().start, &format!("{name}: {error}")));
            }
        }
        Ok(settings)
    }

    /// A model that is more than the name of one.
    pub(super) fn model_on_server(&self) -> Option<&String> {
        self.model.as_ref().filter(|model| backend::names_server(model))
    }

    /// What says where conversations go and how they are sent there, by name and value: a project's file is
    /// followed in this only if it is trusted.
    pub(super) fn needing_trust(&self) -> Vec<(&'static str, String)> {
        let CompactSettings { backend, backend_key_env, backend_window, backend_timeout, .. } = &self.compact;
        let all = [
            // To a chat, even a plain name says who is talked to.
            ("model", self.model.clone()),
            ("backend", backend.as_ref().filter(|spec| **spec != Spec::Digest).map(ToString::to_string)),
            ("backend_key_env", backend_key_env.clone()),
            ("backend_window", backend_window.map(|tokens| tokens.to_string())),
            ("backend_timeout", backend_timeout.map(|time| format!("{} s", time.as_secs()))),
            ("backend_candidates", self.compact.backend_candidates.map(|count| count.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
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

fn target<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Target>, D::Error> {
    read(deserializer, "target", values::target)
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
        let failure = Settings::parse(text, Path::new("foldback.toml")).unwrap_err();
        let Failure::Usage { what, .. } = failure else { panic!("{failure:?}") };
        what
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
