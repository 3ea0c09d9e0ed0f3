//! Which model a command works for, how large its window is, and who says so: one place for all commands.

use std::fmt;

use foldback_core::{Certainty, Dialect, Model, Prices, Tokens};
use serde::Serialize;

use crate::args::Shared;
use crate::config::Origin;
use crate::failure::Failure;
use crate::terminal::{self, number};
use crate::values::{is_typing_error, most_similar};

/// The window where neither the command line nor the session says which model it is.
pub(crate) const WINDOW_DEFAULT: Tokens = Tokens(200_000);

/// Names of models that are suggested for one that is not known.
const SUGGESTIONS_MAX: usize = 3;

/// The model that a command works for, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChosenModel {
    /// What is known, and what it goes by.
    known: Option<KnownModel>,
    /// A name that was set and says nothing.
    unknown: Option<(String, Origin)>,
    /// The window that the session says its model has.
    window_of_session: Option<Tokens>,
}

#[derive(Clone, Debug)]
struct KnownModel {
    name: String,
    model: &'static Model,
    certainty: Certainty,
    /// Who named it; none where the session does.
    origin: Option<Origin>,
}

/// A window, and who says that it is as large as that.
#[derive(Clone, Debug)]
pub(crate) struct ChosenWindow {
    pub(crate) tokens: Tokens,
    pub(crate) source: WindowSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WindowSource {
    /// The flag, its variable or the configuration file.
    Set,
    /// The model.
    Model,
    /// The session.
    Session,
    /// Usage that was reported: a smaller window would not have held it.
    Reported,
    /// Nobody: most windows are at least as large.
    Assumed,
}

/// The model as reports tell it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModelReport {
    name: String,
    /// `--model`, its variable, the configuration file or the session.
    named_by: String,
    /// `listed`, `family`: what is known of its family is assumed of it; or `unknown`.
    known: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    family: Option<&'static str>,
}

/// The window as reports tell it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WindowReport {
    pub(crate) tokens: u64,
    pub(crate) source: WindowSource,
}

impl ChosenModel {
    /// The one that was set or, where nothing is known of that, the one that the session names.
    pub(crate) fn of(shared: &Shared, of_session: Option<&str>) -> Self {
        let known = |name: &str, origin: Option<Origin>| {
            let (model, certainty) = Model::recognized(name)?;
            Some(KnownModel { name: name.to_owned(), model, certainty, origin })
        };
        let by_session = || known(of_session?, None);
        let Some(set) = shared.model.as_deref().and_then(name_in) else {
            return Self { known: by_session(), ..Self::default() };
        };
        match known(set, Some(shared.model_from.clone())) {
            Some(model) => Self { known: Some(model), ..Self::default() },
            None => {
                let unknown = Some((set.to_owned(), shared.model_from.clone()));
                Self { known: by_session(), unknown, ..Self::default() }
            }
        }
    }

    /// The same for a session that says which window its model has.
    #[must_use]
    pub(crate) fn with_window(mut self, of_session: Option<Tokens>) -> Self {
        self.window_of_session = of_session;
        self
    }

    /// What is known of it.
    pub(crate) fn model(&self) -> Option<&'static Model> {
        self.known.as_ref().map(|known| known.model)
    }

    /// Whose rules are kept where the session says nothing of that: those of the model that was set.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        let set = self.known.as_ref().filter(|known| known.origin.is_some());
        set.map(|known| known.model.dialect)
    }

    /// How large the window is: as large as was set; or as the session says of its model; or the model's,
    /// but where a context of `reported` tokens was larger, the next one that models have. A model that
    /// was set and is not known has none that could be guessed.
    pub(crate) fn window(&self, set: Option<Tokens>, reported: Tokens) -> Result<ChosenWindow, Failure> {
        let chosen = |tokens, source| Ok(ChosenWindow { tokens, source });
        let held = |tokens, source| {
            let dialect = self.model().map(|model| model.dialect);
            match Model::window_holding(reported, dialect).or(Model::window_holding(reported, None)) {
                Some(proven) if reported > tokens => chosen(proven, WindowSource::Reported),
                None => chosen(reported, WindowSource::Reported),
                Some(_) => chosen(tokens, source),
            }
        };
        let by_session = self.window_of_session.filter(|_| self.is_of_session());
        match (set.or(by_session), &self.known, &self.unknown) {
            (Some(tokens), ..) if set.is_some() => chosen(tokens, WindowSource::Set),
            (Some(tokens), ..) => held(tokens, WindowSource::Session),
            (None, Some(known), _) => held(known.model.window, WindowSource::Model),
            (None, None, None) => held(WINDOW_DEFAULT, WindowSource::Assumed),
            (None, None, Some((name, origin))) => {
                let what = format!("{} {name}: no such model is known", origin.name("model"));
                let hint = format!("{}say how large its window is: --window 128k", meant(name));
                Err(Failure::usage(what, hint))
            }
        }
    }

    /// Whether nobody but the session names the model.
    fn is_of_session(&self) -> bool {
        self.unknown.is_none() && self.known.as_ref().is_none_or(|known| known.origin.is_none())
    }

    /// Says what is not known of the model, and what is taken to be so instead.
    pub(crate) fn tell(&self, dialect: Option<Dialect>, window: Option<&ChosenWindow>) {
        let rules = dialect.map_or("the rules that all providers share", Dialect::as_str);
        let size = window.map(|window| (number(window.tokens.0), window.source));
        if let Some((name, origin)) = &self.unknown {
            let window = match (size, &self.known) {
                (Some((tokens, WindowSource::Model)), Some(known)) => {
                    format!("the window of {}, {tokens} tokens, which the session names, and ", known.name)
                }
                (Some((tokens, _)), _) => format!("a window of {tokens} tokens and "),
                (None, _) => String::new(),
            };
            let (origin, meant) = (origin.name("model"), meant(name));
            terminal::note(&format!(
                "{origin}: the model {name} is not known; {window}{rules} are taken for it; {meant}--window \
                 says how large its window is"
            ));
        } else if let Some(known) = self.known.as_ref().filter(|known| known.certainty == Certainty::Family) {
            let family = known.model.family;
            let window = size.map_or_else(String::new, |(tokens, source)| match source {
                WindowSource::Model => format!(", with a window of {tokens} tokens"),
                WindowSource::Set
                | WindowSource::Session
                | WindowSource::Reported
                | WindowSource::Assumed => String::new(),
            });
            terminal::note(&format!(
                "the model {} is not known; it is taken for one of {family}{window}",
                known.name
            ));
        }
    }

    pub(crate) fn report(&self) -> Option<ModelReport> {
        match (&self.unknown, &self.known) {
            (Some((name, origin)), _) => Some(ModelReport {
                name: name.clone(),
                named_by: origin.name("model"),
                known: "unknown",
                family: None,
            }),
            (None, Some(known)) => Some(ModelReport {
                name: known.name.clone(),
                named_by: known.origin.as_ref().map_or("session".to_owned(), |by| by.name("model")),
                known: match known.certainty {
                    Certainty::Listed => "listed",
                    Certainty::Family => "family",
                },
                family: Some(known.model.family),
            }),
            (None, None) => None,
        }
    }
}

impl fmt::Display for ModelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.named_by.as_str() {
            "session" => "the session's own",
            by => by,
        };
        write!(f, "{} ({by})", self.name)
    }
}

impl fmt::Display for WindowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.source {
            WindowSource::Set => "as set",
            WindowSource::Model => "the model's",
            WindowSource::Session => "the session's own",
            WindowSource::Reported => "as large a context was reported",
            WindowSource::Assumed => "assumed: --window or --model says how large it is",
        };
        write!(f, "window {} ({by})", number(self.tokens))
    }
}

impl From<&ChosenWindow> for WindowReport {
    fn from(window: &ChosenWindow) -> Self {
        Self { tokens: window.tokens.0, source: window.source }
    }
}

/// The model's name in what was set, which for `chat` may be a server: `openai:http://127.0.0.1/v1#qwen3`.
fn name_in(set: &str) -> Option<&str> {
    match set.split_once('#') {
        Some((_, name)) => Some(name.trim()).filter(|name| !name.is_empty()),
        None => Some(set).filter(|set| !set.contains("://")),
    }
}

/// The names that were probably meant, as the beginning of a hint.
fn meant(name: &str) -> String {
    let first_word = |name: &str| name.split(|c: char| !c.is_ascii_alphabetic()).next().map(str::to_owned);
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let is_near = |known: &&str| {
        let words = first_word(&name).zip(first_word(known));
        words.is_some_and(|(word, known)| !word.is_empty() && is_typing_error(&word, &known))
    };
    let priced = Prices::ALL.iter().map(|prices| prices.name).filter(|name| !name.ends_with("-1h"));
    let near = most_similar(&name, priced.filter(is_near), SUGGESTIONS_MAX);
    match (&near[..], Model::families().find(is_near)) {
        ([], None) => String::new(),
        ([], Some(family)) => format!("did you mean {family}…? "),
        (names, _) => format!("did you mean {}? ", names.join(", ")),
    }
}
