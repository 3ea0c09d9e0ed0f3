//! Where settings come from beside the command line: the environment, then the project's configuration file,
//! then the user's. A project's file says where conversations go only if the person trusts it (`trust`).
//! What is wrong with one of them is told with its name and its place.

mod file;
pub(crate) mod trust;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use foldback_core::Tokens;
use toml::Spanned;

use self::file::{CompactSettings, Settings};
use crate::aim::Target;
use crate::args::chat::{Backend, Chat};
use crate::args::hook::HookCompact;
use crate::args::lab::{Eval, Explain, Probe, Replay};
use crate::args::sessions::HowToCompact;
use crate::args::{Aim, Compact, Shared, Status, Ways};
use crate::backend::Spec;
use crate::failure::Failure;
use crate::{backend, policy, terminal, values};

/// The name of the file in a project.
const FILE_NAME: &str = "foldback.toml";

/// Folders above the working one that are looked into.
const ANCESTORS_MAX: usize = 64;

const CONFIG_VARIABLE: &str = "FOLDBACK_CONFIG";
const WINDOW_VARIABLE: &str = "FOLDBACK_WINDOW";
const TARGET_VARIABLE: &str = "FOLDBACK_TARGET";
const POLICY_VARIABLE: &str = "FOLDBACK_POLICY";
const MODEL_VARIABLE: &str = "FOLDBACK_MODEL";
const BACKEND_VARIABLE: &str = "FOLDBACK_BACKEND";

/// Who set something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The flag, or nobody.
    #[default]
    CommandLine,
    Variable(&'static str),
    /// The user's own file, or one that was named.
    File(PathBuf),
    /// A file that was found in the working folder or above it.
    Project(PathBuf),
}

impl Origin {
    /// The setting as whoever set it calls it; `flag` is its name without dashes.
    pub(crate) fn name(&self, flag: &str) -> String {
        match self {
            Self::CommandLine => format!("--{flag}"),
            Self::Variable(name) => (*name).to_owned(),
            Self::File(path) | Self::Project(path) => format!("{flag} in {}", path.display()),
        }
    }

    /// The file, or nothing.
    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Project(path) => path,
            Self::CommandLine | Self::Variable(_) => Path::new(""),
        }
    }

    /// Who it was; `flag` is its name with dashes.
    pub(crate) fn who(&self, flag: &str) -> String {
        match self {
            Self::CommandLine => flag.to_owned(),
            Self::Variable(name) => (*name).to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Project(path) => format!("{}, a project's file that you trust", path.display()),
        }
    }
}

/// All configuration files that count here, the one that comes first first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    layers: Vec<Layer>,
}

/// One file.
#[derive(Clone, Debug)]
struct Layer {
    settings: Settings,
    origin: Origin,
    /// Whether it may say where conversations go.
    is_trusted: bool,
}

impl Layer {
    /// Reads a file that the person chose, or that a project has.
    fn read(origin: Origin, hint: Option<String>) -> Result<Self, Failure> {
        let path = origin.path().to_owned();
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| Failure::Read { path: path.clone(), error, hint })?;
        let settings = Settings::parse(&text, &path)?;
        let is_trusted = match &origin {
            Origin::Project(path) => trust::Trusted::load().is_ok_and(|trusted| trusted.holds(path, &text)),
            _ => true,
        };
        Ok(Self { settings, origin, is_trusted })
    }

    /// Says which of its settings are not followed, where it is not trusted.
    fn tell_ignored(&self, is_followed: impl Fn(&str) -> bool) {
        let needing_trust = self.settings.needing_trust();
        let names = needing_trust.iter().map(|(name, _)| *name).filter(|name| !is_followed(name));
        let names: Vec<&str> = names.collect();
        if self.is_trusted || names.is_empty() {
            return;
        }
        let path = terminal::harmless(&self.origin.path().display().to_string());
        let names = names.join(", ");
        terminal::note(&format!("{path} is not trusted to say where conversations go; ignored: {names}"));
        // No path: a folder's name may be made to be copied into a shell.
        terminal::hint("look at the file, then allow it with `foldback trust`");
    }
}

impl Config {
    /// The file that is named, or those that are found, or nothing.
    pub(crate) fn load(shared: &Shared) -> Result<Self, Failure> {
        let by_variable = || variable_os(CONFIG_VARIABLE).map(PathBuf::from);
        let hint = match (&shared.config, by_variable()) {
            (None, Some(_)) => Some(format!("{CONFIG_VARIABLE} names it: name a file, or unset it")),
            _ => None,
        };
        let layers = match shared.config.clone().or_else(by_variable) {
            Some(path) => vec![Layer::read(Origin::File(path), hint)?],
            None => {
                let project = project_file().map(Origin::Project);
                let found = project.into_iter().chain(user_file().map(Origin::File));
                found.map(|origin| Layer::read(origin, None)).collect::<Result<_, _>>()?
            }
        };
        Ok(Self { layers })
    }

    /// The first file's value for a setting, and that file.
    fn first<'c, T>(&'c self, setting: impl Fn(&'c Settings) -> Option<T>) -> Option<(T, Origin)> {
        self.layers.iter().find_map(|layer| Some((setting(&layer.settings)?, layer.origin.clone())))
    }

    fn trusted(&self) -> impl Iterator<Item = &Layer> + Clone {
        self.layers.iter().filter(|layer| layer.is_trusted)
    }

    /// The flags, with the environment's values where they say nothing, and then the files'.
    pub(crate) fn under(&self, shared: Shared) -> Result<Shared, Failure> {
        let counter =
            or_variable(shared.counter, "FOLDBACK_COUNTER", |name| values::one_of("counter", name))?;
        let model = or_variable(shared.model, MODEL_VARIABLE, |name| Ok(name.to_owned()))?;
        let follows = |layer: &&Layer, model: &str| layer.is_trusted || !backend::names_server(model);
        let of_files = || {
            self.layers.iter().find_map(|layer| {
                let model = layer.settings.model.clone().filter(|model| follows(&layer, model))?;
                Some((model, layer.origin.clone()))
            })
        };
        let (model, model_from) = match model.or_else(of_files) {
            Some((model, origin)) => (Some(model), origin),
            None => (None, Origin::CommandLine),
        };
        let counter = counter.or_else(|| self.first(|file| file.counter)).map(|(counter, _)| counter);
        Ok(Shared { counter, model, model_from, ..shared })
    }

    /// As [`under`](Self::under), for `compact`.
    pub(crate) fn compact_under(&self, compact: Compact) -> Result<Compact, Failure> {
        Ok(Compact {
            aim: self.aim_under(compact.aim)?,
            backend: self.backend_under(compact.backend)?,
            ways: self.ways_under(compact.ways),
            ..compact
        })
    }

    /// As [`under`](Self::under), for `status`.
    pub(crate) fn status_under(&self, status: Status) -> Result<Status, Failure> {
        Ok(Status { window: self.window_under(status.window)?.0, ..status })
    }

    /// As [`under`](Self::under), for `hook compact`.
    pub(crate) fn hook_under(&self, hook: HookCompact) -> Result<HookCompact, Failure> {
        Ok(HookCompact {
            aim: self.aim_under(hook.aim)?,
            backend: self.backend_under(hook.backend)?,
            ways: self.ways_under(hook.ways),
        })
    }

    /// As [`under`](Self::under), for `chat`, which compacts as `compact` does. `model` is the flag. Even a
    /// model's plain name says whose server is talked to, so no file that is not trusted chooses it.
    pub(crate) fn chat_under(&self, chat: Chat, model: Option<String>) -> Result<Chat, Failure> {
        let (window, _) = self.window_under(chat.window)?;
        let (policy, policy_from) = self.policy_under(chat.policy)?;
        let backend = self.backend_under(chat.backend)?;
        let of_files =
            || self.trusted().find_map(|layer| Some((layer.settings.model.clone()?, layer.origin.clone())));
        let model = or_variable(model, MODEL_VARIABLE, |name| Ok(name.to_owned()))?.or_else(of_files);
        let plain = self.layers.iter().filter(|layer| layer.settings.model_on_server().is_none());
        if model.is_none() {
            plain.for_each(|layer| layer.tell_ignored(|setting| setting != "model"));
        }
        Ok(Chat { window, policy, policy_from, backend, model, ..chat })
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
        let backend = self.backend_under(probe.backend)?;
        if !probe.policy.is_empty() {
            return Ok(Probe { window, backend, ..probe });
        }
        let (policy, policy_from) = self.policy_under(None)?;
        Ok(Probe { window, backend, policy: policy.into_iter().collect(), policy_from, ..probe })
    }

    /// As [`under`](Self::under), for `explain`: what `compact` would do, unless a model writes.
    pub(crate) fn explain_under(&self, explain: Explain) -> Result<Explain, Failure> {
        Ok(Explain { aim: self.aim_under(explain.aim)?, ways: self.ways_under(explain.ways), ..explain })
    }

    fn ways_under(&self, ways: Ways) -> Ways {
        let keep = ways.keep.into_iter().chain(self.patterns(|compact| &compact.keep)).collect();
        let pin = ways.pin.into_iter().chain(self.patterns(|compact| &compact.pin)).collect();
        Ways { focus: ways.focus.or_else(|| self.focus()), keep, pin, ..ways }
    }

    /// As [`under`](Self::under), for `session compact`.
    pub(crate) fn session_under(&self, compact: HowToCompact) -> Result<HowToCompact, Failure> {
        let (aim, backend) = (self.aim_under(compact.aim)?, self.backend_under(compact.backend)?);
        Ok(HowToCompact { aim, ways: self.ways_under(compact.ways), backend })
    }

    fn aim_under(&self, flags: Aim) -> Result<Aim, Failure> {
        let (window, window_from) = self.window_under(flags.window)?;
        let (target, target_from) = self.target_under(flags.target)?;
        let (policy, policy_from) = self.policy_under(flags.policy)?;
        Ok(Aim { window, target, policy, window_from, target_from, policy_from })
    }

    fn window_under(&self, flag: Option<Tokens>) -> Result<(Option<Tokens>, Origin), Failure> {
        Ok(self.chosen(or_variable(flag, WINDOW_VARIABLE, values::tokens)?, |file| file.compact.window))
    }

    fn target_under(&self, flag: Option<Target>) -> Result<(Option<Target>, Origin), Failure> {
        Ok(self.chosen(or_variable(flag, TARGET_VARIABLE, values::target)?, |file| file.compact.target))
    }

    fn policy_under(&self, flag: Option<String>) -> Result<(Option<String>, Origin), Failure> {
        let set = or_variable(flag, POLICY_VARIABLE, policy::asked_for)?;
        Ok(self.chosen(set, |file| file.compact.policy.clone()))
    }

    fn chosen<T>(
        &self,
        set: Option<(T, Origin)>,
        of_file: impl Fn(&Settings) -> Option<T>,
    ) -> (Option<T>, Origin) {
        match set.or_else(|| self.first(of_file)) {
            Some((value, origin)) => (Some(value), origin),
            None => (None, Origin::CommandLine),
        }
    }

    fn focus(&self) -> Option<String> {
        self.first(|file| file.compact.focus.clone()).map(|(focus, _)| focus)
    }

    /// The patterns of all files: what the user keeps everywhere is kept in a project, too.
    fn patterns(
        &self,
        setting: impl Fn(&CompactSettings) -> &Vec<Spanned<String>>,
    ) -> impl Iterator<Item = String> {
        let patterns = self.layers.iter().flat_map(move |layer| setting(&layer.settings.compact));
        patterns.map(|pattern| pattern.get_ref().clone())
    }

    /// The flags for who writes summaries, with the environment's value and then that of the first trusted
    /// file that names a backend. The key, the window and the time belong to the server that is named with
    /// them, and to no other.
    fn backend_under(&self, flags: Backend) -> Result<Backend, Failure> {
        if let Some((backend, from)) = or_variable(flags.backend.clone(), BACKEND_VARIABLE, backend::spec)? {
            return Ok(Backend { backend: Some(backend), backend_from: from, ..flags });
        }
        for layer in &self.layers {
            let is_name = layer.settings.model_on_server().is_none();
            layer.tell_ignored(|setting| setting == "model" && is_name);
        }
        // The digest is nobody that anything is sent to.
        let may_name = |layer: &Layer, spec: &Spec| layer.is_trusted || *spec == Spec::Digest;
        let names = |layer: &&Layer| {
            layer.settings.compact.backend.as_ref().is_some_and(|spec| may_name(layer, spec))
        };
        let naming = self.layers.iter().find(names);
        let says = |layer: &&Layer| !layer.settings.needing_trust().is_empty();
        let Some(layer) = naming.or_else(|| self.trusted().find(says)) else { return Ok(flags) };
        let CompactSettings {
            backend,
            backend_key_env,
            backend_window,
            backend_timeout,
            backend_candidates,
            ..
        } = layer.settings.compact.clone();
        Ok(Backend {
            backend,
            backend_key_env: flags.backend_key_env.or(backend_key_env),
            backend_window: flags.backend_window.or(backend_window),
            backend_timeout: flags.backend_timeout.or(backend_timeout),
            backend_candidates: flags.backend_candidates.or(backend_candidates),
            backend_from: layer.origin.clone(),
        })
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

/// The nearest `foldback.toml`, in the working folder or above it.
fn project_file() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().take(ANCESTORS_MAX).map(|folder| folder.join(FILE_NAME)).find(|path| path.is_file())
}

/// The user's own configuration.
fn user_file() -> Option<PathBuf> {
    let folder = |name| variable_os(name).map(PathBuf::from);
    let user_folder = folder("XDG_CONFIG_HOME")
        .or_else(|| folder("APPDATA"))
        .or_else(|| folder("HOME").map(|home| home.join(".config")));
    user_folder.map(|folder| folder.join("foldback").join("config.toml")).filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use foldback_core::Level;

    use super::*;

    use std::time::Duration;

    use crate::args::CounterName;

    fn layer(text: &str, origin: Origin, is_trusted: bool) -> Layer {
        Layer { settings: Settings::parse(text, origin.path()).unwrap(), origin, is_trusted }
    }

    fn config(text: &str) -> Config {
        Config { layers: vec![layer(text, Origin::File("foldback.toml".into()), true)] }
    }

    #[test]
    fn flags_win_over_the_file() {
        let text = "counter = \"estimate\"\n[compact]\ntarget = \"40%\"\nwindow = \"100k\"\nkeep = [\"a\"]\n\
                    pin = [\"p\"]\n";
        let config = config(text);
        let aim = Aim { window: Some(Tokens(5)), ..Aim::default() };
        let ways = Ways { keep: vec!["b".to_owned()], ..Ways::default() };
        let flags = Compact { aim, ways, ..Compact::default() };
        let merged = config.compact_under(flags).unwrap();
        let aim = merged.aim;
        assert_eq!(
            (aim.window, aim.target),
            (Some(Tokens(5)), Some(Target::Level(Level::PercentOfUsable(40.0))))
        );
        assert_eq!(aim.window_from.name("window"), "--window");
        assert_eq!(aim.target_from.name("target"), "target in foldback.toml");
        assert_eq!(merged.ways.keep, ["b", "a"]);
        assert_eq!(merged.ways.pin, ["p"]);
        assert_eq!(config.under(Shared::default()).unwrap().counter, Some(CounterName::Estimate));
    }

    #[test]
    fn the_key_in_the_file_is_for_the_server_in_the_file() {
        let text =
            "[compact]\nbackend = \"openai:http://h/v1\"\nbackend_key_env = \"K\"\nbackend_timeout = 9\n";
        let config = config(text);
        let of_file = config.compact_under(Compact::default()).unwrap().backend;
        assert_eq!(of_file.backend, Some(backend::spec("openai:http://h/v1").unwrap()));
        assert_eq!(of_file.backend_key_env.as_deref(), Some("K"));
        assert_eq!(of_file.backend_timeout, Some(Duration::from_secs(9)));
        let named = Backend { backend: backend::spec("http://other/v1").ok(), ..Backend::default() };
        let flags = Compact { backend: named, ..Compact::default() };
        assert_eq!(config.compact_under(flags).unwrap().backend.backend_key_env, None);
    }

    #[test]
    fn a_project_says_how_and_only_if_trusted_where() {
        let project = "model = \"openai:http://p/v1#m\"\n[compact]\ntarget = 7000\nkeep = [\"a\"]\n\
                       backend = \"openai:http://p/v1\"\nbackend_key_env = \"P\"\n";
        let own = "model = \"claude-sonnet-4-5\"\n[compact]\ntarget = 9000\nwindow = 50000\nkeep = [\"b\"]\n\
                   backend = \"openai:http://own/v1\"\n";
        for is_trusted in [false, true] {
            let (project_at, own_at) = (Origin::Project("p".into()), Origin::File("own".into()));
            let layers =
                vec![layer(project, project_at.clone(), is_trusted), layer(own, own_at.clone(), true)];
            let config = Config { layers };
            let compact = config.compact_under(Compact::default()).unwrap();
            assert_eq!(compact.aim.target, Some(Target::Level(Level::Tokens(Tokens(7_000)))));
            assert_eq!(compact.aim.window, Some(Tokens(50_000)));
            assert_eq!(compact.ways.keep, ["a", "b"]);
            let chat = config.chat_under(Chat::default(), None).unwrap();
            let shared = config.under(Shared::default()).unwrap();
            let (url, key, model, from) = match is_trusted {
                true => ("http://p/v1", Some("P"), "openai:http://p/v1#m", project_at),
                false => ("http://own/v1", None, "claude-sonnet-4-5", own_at),
            };
            for backend in [compact.backend, chat.backend] {
                assert_eq!(backend.backend, backend::spec(url).ok());
                assert_eq!(backend.backend_key_env.as_deref(), key);
                assert_eq!(backend.backend_from, from);
            }
            assert_eq!(chat.model, Some((model.to_owned(), from)));
            assert_eq!(shared.model.as_deref(), Some(model));
        }
    }

    #[test]
    fn a_plain_name_of_an_untrusted_project_is_a_model_and_nobody_to_talk_to() {
        let project = layer("model = \"gpt-5\"\n", Origin::Project("p".into()), false);
        let config = Config { layers: vec![project] };
        assert_eq!(config.under(Shared::default()).unwrap().model.as_deref(), Some("gpt-5"));
        assert_eq!(config.chat_under(Chat::default(), None).unwrap().model, None);
    }
}
