//! Who writes summaries or answers, as people name them: `digest`, or a model on a server. Keys and
//! proxies come from the environment, which only this program reads (A4), and are never printed.

mod environment;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldback_backends::{Endpoint, Key, ModelBackend, ModelClient, Protocol};
use foldback_core::{Dialect, Model, Tokens};

use self::environment::{key_variable, proxy, set};
use crate::config::Origin;
use crate::failure::Failure;
use crate::terminal::{harmless, say};
use crate::values::no_such;

/// What the summaries are written with where nothing else is said.
pub(crate) const DIGEST: &str = "digest";

/// The names in front of an address.
const PROTOCOLS: [(&str, Protocol); 3] = [
    ("openai", Protocol::OpenAiChat),
    ("responses", Protocol::OpenAiResponses),
    ("anthropic", Protocol::Anthropic),
];

/// The model where a server of one's own is named without one: most serve a single model and take
/// any name.
const MODEL_UNNAMED: &str = "default";

/// Nobody waits longer for a model.
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// A model on a server, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Spec {
    /// No model: the built-in digest.
    Digest,
    /// A model.
    Served(Served),
}

/// A model on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    protocol: Protocol,
    /// The address; none is the provider's own.
    base_url: Option<String>,
    model: String,
}

/// How a server is reached, beside what its [`Spec`] says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach<'a> {
    /// The variable that holds the key.
    pub(crate) key_variable: Option<&'a str>,
    /// How long nothing may come from the server.
    pub(crate) timeout: Option<Duration>,
    /// What the model holds, where it is not known.
    pub(crate) window: Option<Tokens>,
}

/// Reads `digest`, `openai`, `openai:URL#MODEL`, `openai#MODEL`, `http://…`, or the name of a known
/// model.
pub(crate) fn spec(text: &str) -> Result<Spec, String> {
    let text = text.trim();
    if text == DIGEST {
        return Ok(Spec::Digest);
    }
    served(text).map(Spec::Served)
}

/// Whether a model's name says more than its name: a protocol or a server.
pub(crate) fn names_server(model: &str) -> bool {
    let name = model.split([':', '#']).next().unwrap_or_default().trim();
    model.contains("://") || PROTOCOLS.iter().any(|(known, _)| *known == name)
}

/// As [`spec`], for whoever must be a model.
pub(crate) fn served(text: &str) -> Result<Served, String> {
    let text = text.trim();
    let (rest, model) = match text.split_once('#') {
        Some((rest, model)) => (rest, Some(model.trim()).filter(|model| !model.is_empty())),
        None => (text, None),
    };
    let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
    let (name, base_url) = match rest.split_once(':') {
        _ if is_url(rest) => ("openai", Some(rest)),
        Some((name, url)) => (name, Some(url)),
        None => (rest, None),
    };
    let protocol = PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol);
    match (protocol, base_url) {
        (Some(_), Some(url)) if !is_url(url) => {
            Err(format!("{url} is no address: it must begin with http:// or https://"))
        }
        (Some(protocol), base_url) => {
            let unnamed = if base_url.is_some() { MODEL_UNNAMED } else { model_default(protocol) };
            let model = model.unwrap_or(unnamed).to_owned();
            Ok(Served { protocol, base_url: base_url.map(ToOwned::to_owned), model })
        }
        (None, None) => by_model(rest),
        (None, Some(_)) => Err(unknown(name)),
    }
}

/// The provider of a model that is known by its name.
fn by_model(name: &str) -> Result<Served, String> {
    let protocol = match Model::named(name).map(|model| model.dialect) {
        // Routers' names (`vendor/model`) say nothing about who serves them.
        _ if name.contains('/') => None,
        Some(Dialect::Anthropic) => Some(Protocol::Anthropic),
        Some(Dialect::OpenaiResponses) => Some(Protocol::OpenAiResponses),
        Some(Dialect::OpenaiChat) if name.starts_with("gpt-") => Some(Protocol::OpenAiChat),
        Some(Dialect::OpenaiChat | Dialect::Gemini) | None => None,
    };
    let protocol = protocol.ok_or_else(|| unknown(name))?;
    Ok(Served { protocol, base_url: None, model: name.to_owned() })
}

fn unknown(name: &str) -> String {
    let names = PROTOCOLS.iter().map(|(known, _)| *known).chain([DIGEST]);
    let told = no_such("server", name, names);
    format!("{told}; a server of your own is openai:http://127.0.0.1:8080/v1#MODEL")
}

fn model_default(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenAiChat | Protocol::OpenAiResponses => "gpt-5-mini",
        Protocol::Anthropic => "claude-haiku-4-5",
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest => f.write_str(DIGEST),
            Self::Served(served) => write!(f, "{} (model {})", served.address(), served.model),
        }
    }
}

/// Where a conversation goes, with which key, and who said so: told before anything is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) address: String,
    pub(crate) model: String,
    /// The variable that holds the key.
    pub(crate) key_variable: Option<String>,
    pub(crate) chosen_by: String,
    /// A project's file chose it.
    is_projects: bool,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, model, key_variable, chosen_by, .. } = self;
        let key =
            key_variable.as_ref().map_or_else(|| "no key".to_owned(), |name| format!("key from {name}"));
        write!(f, "sends to {address} (model {model}), {key}, chosen by {chosen_by}")
    }
}

/// What was told already.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

impl Route {
    /// Tells it on stderr, once in a run. Whoever wants to hear little hears what a project chose.
    pub(crate) fn tell(&self, is_quiet: bool) {
        let line = harmless(&self.to_string());
        let is_wanted = !is_quiet || self.is_projects;
        if is_wanted && TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
            say(&line);
        }
    }
}

impl Served {
    /// The address, the provider's own where none was named.
    fn address(&self) -> &str {
        let of_provider = match self.protocol {
            Protocol::OpenAiChat | Protocol::OpenAiResponses => "https://api.openai.com/v1",
            Protocol::Anthropic => "https://api.anthropic.com/v1",
        };
        self.base_url.as_deref().unwrap_or(of_provider)
    }

    /// The server and the model, for telling them from others. It may hold a password: it is no text for
    /// people.
    pub(crate) fn identity(&self) -> String {
        format!("{} {}#{}", self.protocol, self.address(), self.model)
    }

    /// What the model is called.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// The variable that holds the key: the one that is named, or the provider's own, which goes to the
    /// provider's own servers only. Whoever runs another server must not be sent it by accident.
    fn key_variable<'r>(&self, reach: &Reach<'r>) -> Option<&'r str> {
        let of_provider = self.base_url.is_none().then(|| key_variable(self.protocol));
        reach.key_variable.or(of_provider)
    }

    /// Where a conversation with it goes. `flag` or another `origin` named it.
    pub(crate) fn route(&self, flag: &str, reach: &Reach<'_>, origin: &Origin) -> Route {
        Route {
            // What stands behind a question mark may be a secret.
            address: self.address().split('?').next().unwrap_or_default().to_owned(),
            model: self.model.clone(),
            key_variable: self.key_variable(reach).map(ToOwned::to_owned),
            chosen_by: origin.who(flag),
            is_projects: matches!(origin, Origin::Project(_)),
        }
    }

    /// A client for it. `flag` is what named it, for messages.
    pub(crate) fn client(&self, flag: &str, reach: &Reach<'_>) -> Result<ModelClient, Failure> {
        let hint = "give it as openai:http://127.0.0.1:8080/v1#MODEL";
        let wrong =
            |error: foldback_backends::EndpointError| Failure::usage(format!("{flag}: {error}"), hint);
        let mut endpoint = Endpoint::new(self.address()).map_err(wrong)?;
        if let Some(name) = self.key_variable(reach) {
            let secret = set(name).ok_or_else(|| Failure::usage(
                format!("the environment variable {name} holds no key"),
                format!("set {name}, name another variable with --backend-key-env, or use a server of your own"),
            ))?;
            endpoint = endpoint.key(Key::new(secret));
        }
        if let Some(proxy) = proxy(self.address()) {
            endpoint = endpoint.proxy(proxy);
        }
        if let Some(timeout) = reach.timeout {
            endpoint = endpoint.idle_timeout(timeout).connect_timeout(timeout);
        }
        ModelClient::new(endpoint, self.protocol, self.model.as_str()).map_err(wrong)
    }

    /// A backend that writes summaries with it.
    pub(crate) fn backend(&self, flag: &str, reach: &Reach<'_>) -> Result<ModelBackend, Failure> {
        let backend = ModelBackend::new(self.client(flag, reach)?);
        Ok(match reach.window {
            Some(window) => backend.window(window),
            None => backend,
        })
    }
}

/// A whole number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches('s').parse().ok();
    let number = number.filter(|number| (1..=SECONDS_MAX).contains(number));
    let wanted = || format!("give a whole number of seconds above zero, at most {SECONDS_MAX} (a day)");
    number.map(Duration::from_secs).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Protocol, String, String) {
        let served = served(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        (served.protocol, served.address().to_owned(), served.model)
    }

    #[test]
    fn servers_are_named_by_protocol_address_and_model() {
        let local = "http://127.0.0.1:8080/v1";
        let chat = Protocol::OpenAiChat;
        assert_eq!(spec("digest"), Ok(Spec::Digest));
        assert_eq!(read("openai:http://127.0.0.1:8080/v1#qwen3"), (chat, local.into(), "qwen3".into()));
        assert_eq!(read("http://127.0.0.1:8080/v1"), (chat, local.into(), "default".into()));
        assert_eq!(read("openai#gpt-4o"), (chat, "https://api.openai.com/v1".into(), "gpt-4o".into()));
        let anthropic = "https://api.anthropic.com/v1".to_owned();
        let haiku = "claude-haiku-4-5";
        assert_eq!(read("anthropic"), (Protocol::Anthropic, anthropic.clone(), haiku.into()));
        assert_eq!(read("claude-opus-4-1"), (Protocol::Anthropic, anthropic, "claude-opus-4-1".into()));
        assert_eq!(read("responses:https://h/v1").0, Protocol::OpenAiResponses);
    }

    #[test]
    fn a_name_that_is_no_server_is_told_with_those_there_are() {
        for wrong in ["opnai", "opnai:http://h", "llama", "qwen/qwen3", ""] {
            let why = spec(wrong).unwrap_err();
            assert!(why.contains("openai, responses, anthropic, digest"), "{wrong}: {why}");
        }
        assert!(spec("openai:127.0.0.1:8080").unwrap_err().contains("must begin with http://"));
    }

    #[test]
    fn times_are_whole_seconds_above_zero() {
        assert_eq!(seconds("90"), Ok(Duration::from_secs(90)));
        assert_eq!(seconds("5s"), Ok(Duration::from_secs(5)));
        for wrong in ["0", "-1", "soon", "", "86401", "18446744073709551615"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
