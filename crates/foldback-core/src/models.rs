//! What is known about models: their windows, their answers, whose dialect they speak, which vocabulary
//! they read, whether they think. Prices are those of single versions, see [`Prices`].
//!
//! As published by the providers in autumn 2026. Windows grow; a model that is not listed gets the
//! one of its family, and what a host knows better it says itself.

use std::fmt;

use crate::cost::Prices;
use crate::dialect::Dialect;
use crate::ids::Tokens;

/// What is known about a family of models. What answers in an agent loop is `foldback_loop::Model`, a trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The start of its name.
    pub family: &'static str,
    /// Input and output together.
    pub window: Tokens,
    /// The longest answer.
    pub output_max: Tokens,
    /// The dialect of its provider.
    pub dialect: Dialect,
    /// The vocabulary that its texts are read in, where it is one that can be counted exactly.
    pub encoding: Option<Encoding>,
    /// Whether it thinks whenever it is asked.
    pub thinks: bool,
}

/// How sure it is what a model's name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Its version is listed.
    Listed,
    /// Only its family is: what is known of that is assumed of it.
    Family,
}

/// A vocabulary of OpenAI's. A new one is a breaking change: whoever counts exactly has to load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// `o200k_base`: GPT-4o and everything after it.
    O200k,
    /// `cl100k_base`: GPT-4 and GPT-3.5 Turbo.
    Cl100k,
}

const fn model(family: &'static str, window: u64, output_max: u64, dialect: Dialect) -> Model {
    Model {
        family,
        window: Tokens(window),
        output_max: Tokens(output_max),
        dialect,
        encoding: None,
        thinks: false,
    }
}

impl Model {
    const fn reads(self, encoding: Encoding) -> Self {
        Self { encoding: Some(encoding), ..self }
    }

    const fn thinking(self) -> Self {
        Self { thinks: true, ..self }
    }
}

use Dialect::{Anthropic, Gemini, OpenaiChat, OpenaiResponses};
use Encoding::{Cl100k, O200k};

/// Longer names before shorter ones that they begin with.
const MODELS: &[Model] = &[
    model("claude-3-haiku", 200_000, 4_096, Anthropic),
    model("claude-3-opus", 200_000, 4_096, Anthropic),
    model("claude-3-5", 200_000, 8_192, Anthropic),
    model("claude-opus-4", 200_000, 32_000, Anthropic),
    model("claude-sonnet-4", 200_000, 64_000, Anthropic),
    model("claude-haiku-4", 200_000, 64_000, Anthropic),
    model("claude-opus-5", 1_000_000, 64_000, Anthropic),
    model("claude-fable-5", 1_000_000, 64_000, Anthropic),
    model("claude", 200_000, 64_000, Anthropic),
    model("gpt-3.5", 16_385, 4_096, OpenaiChat).reads(Cl100k),
    // What Azure calls the same model.
    model("gpt-35", 16_385, 4_096, OpenaiChat).reads(Cl100k),
    model("gpt-4-turbo", 128_000, 4_096, OpenaiChat).reads(Cl100k),
    model("chatgpt-4o", 128_000, 16_384, OpenaiChat).reads(O200k),
    model("gpt-4o", 128_000, 16_384, OpenaiChat).reads(O200k),
    model("gpt-4.1", 1_047_576, 32_768, OpenaiResponses).reads(O200k),
    model("gpt-4.5", 128_000, 16_384, OpenaiChat).reads(O200k),
    model("gpt-4", 8_192, 4_096, OpenaiChat).reads(Cl100k),
    model("gpt-5", 400_000, 128_000, OpenaiResponses).reads(O200k).thinking(),
    // Their own vocabulary adds only control tokens, which are never read from text.
    model("gpt-oss", 131_072, 32_768, OpenaiChat).reads(O200k).thinking(),
    model("codex", 200_000, 100_000, OpenaiResponses).reads(O200k),
    model("o1", 200_000, 100_000, OpenaiResponses).reads(O200k).thinking(),
    model("o3", 200_000, 100_000, OpenaiResponses).reads(O200k).thinking(),
    model("o4", 200_000, 100_000, OpenaiResponses).reads(O200k).thinking(),
    model("gemini-1.5-pro", 2_097_152, 8_192, Gemini),
    model("gemini", 1_048_576, 65_536, Gemini),
    model("deepseek-reasoner", 128_000, 8_192, OpenaiChat).thinking(),
    model("deepseek", 128_000, 8_192, OpenaiChat),
    model("qwen", 131_072, 16_384, OpenaiChat),
    model("kimi", 262_144, 16_384, OpenaiChat),
    model("glm", 200_000, 32_768, OpenaiChat),
    model("mistral", 128_000, 16_384, OpenaiChat),
    model("llama", 128_000, 8_192, OpenaiChat),
];

/// Generations that may have come since the newest listed one; a greater number means something else.
const NEWER_GENERATIONS_MAX: u32 = 4;

impl Model {
    /// What is known about the model called `name`, or assumed of it. A router's prefix (`anthropic/claude-…`), the mark
    /// of a fine-tuned model (`ft:gpt-4o:acme`), what follows the family's name and letter case make no
    /// difference.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::recognized(name).map(|(model, _)| model)
    }

    /// The same, and how sure it is. A newer generation of a family that counts them is taken for the
    /// newest one that is listed.
    pub fn recognized(name: &str) -> Option<(&'static Self, Certainty)> {
        let name = name.trim().to_ascii_lowercase();
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = name.strip_prefix("ft:").unwrap_or(name);
        if let Some(model) = MODELS.iter().find(|model| model.has_member(name)) {
            let is_listed = model.is_version() || model.family == name || Prices::of_model(name).is_some();
            return Some((model, if is_listed { Certainty::Listed } else { Certainty::Family }));
        }
        let newest =
            MODELS.iter().filter(|model| model.is_succeeded_by(name)).max_by_key(|model| model.generation());
        newest.map(|model| (model, Certainty::Family))
    }

    /// Whether it is listed with a version, and not only as a family.
    fn is_version(&self) -> bool {
        self.family.contains(|c: char| c.is_ascii_digit())
    }

    /// The family's name without the number of its generation, and that: `gpt-` and 5.
    fn generation(&self) -> (&'static str, Option<u32>) {
        let stem = self.family.trim_end_matches(|c: char| c.is_ascii_digit());
        (stem, self.family[stem.len()..].parse().ok())
    }

    /// Whether it is the newest listed generation, and `name` one that may have come since: `gpt-6-mini`
    /// after `gpt-5`.
    fn is_succeeded_by(&self, name: &str) -> bool {
        let (stem, Some(generation)) = self.generation() else { return false };
        let Some(rest) = name.strip_prefix(stem) else { return false };
        let (digits, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let is_newer = digits
            .parse()
            .is_ok_and(|newer: u32| newer > generation && newer - generation <= NEWER_GENERATIONS_MAX);
        // A number far above means something else: `gpt-35` came before `gpt-5`.
        let later = generation + 1..=generation + NEWER_GENERATIONS_MAX;
        let is_newest = |other: &Self| other.generation().1.is_none_or(|other| !later.contains(&other));
        let of_stem = |other: &&Self| other.generation().0 == stem;
        is_newer && !rest.starts_with(char::is_alphanumeric) && MODELS.iter().filter(of_stem).all(is_newest)
    }

    /// Whether a name begins with the family's, and does not go on with another word or number: `o1-mini`
    /// and `qwen3`, not `o10` or `codexample`.
    fn has_member(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.family) else { return false };
        let ends_in_letter = self.family.ends_with(|last: char| last.is_ascii_alphabetic());
        match rest.chars().next() {
            Some(next) if next.is_ascii_digit() => ends_in_letter,
            next => !next.is_some_and(char::is_alphanumeric),
        }
    }

    /// The smallest window of a known model that holds so much: of those that speak `dialect`, or of all
    /// where none is given. None where no window is as large.
    pub fn window_holding(tokens: Tokens, dialect: Option<Dialect>) -> Option<Tokens> {
        let speaks = |model: &&Self| dialect.is_none_or(|dialect| model.dialect == dialect);
        let windows = MODELS.iter().filter(speaks).map(|model| model.window);
        windows.filter(|&window| window >= tokens).min()
    }

    /// How the names of known models begin.
    pub fn families() -> impl Iterator<Item = &'static str> {
        MODELS.iter().map(|model| model.family)
    }
}

impl Encoding {
    /// The vocabulary of the model called `name`, or none where it is not known to be one of these.
    pub fn for_model(name: &str) -> Option<Self> {
        Model::named(name)?.encoding
    }

    /// The name the vocabulary is published under, such as `o200k_base`.
    pub fn name(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_the_longest_family_its_name_begins_with() {
        let window = |name: &str| Model::named(name).map(|model| model.window.0);
        assert_eq!(window("gpt-4o-mini"), Some(128_000));
        assert_eq!(window("gpt-4-0613"), Some(8_192));
        assert_eq!(window("anthropic/claude-sonnet-4-5"), Some(200_000));
        assert_eq!(window("somebody's model"), None);
        for (index, model) in MODELS.iter().enumerate() {
            let hidden = MODELS[..index].iter().any(|earlier| earlier.has_member(model.family));
            assert!(!hidden, "{} can never be found", model.family);
        }
    }

    #[test]
    fn a_window_that_holds_a_context_is_the_next_one_that_a_model_has() {
        let holding = |tokens, dialect| Model::window_holding(Tokens(tokens), dialect).map(|window| window.0);
        assert_eq!(holding(200_000, Some(Anthropic)), Some(200_000));
        assert_eq!(holding(200_001, Some(Anthropic)), Some(1_000_000));
        assert_eq!(holding(200_001, None), Some(262_144));
        assert_eq!(holding(90_000_000, None), None);
    }

    #[test]
    fn a_newer_model_of_a_known_family_is_taken_for_one_of_it() {
        let recognized =
            |name: &str| Model::recognized(name).map(|(model, certainty)| (model.family, certainty));
        for (name, family) in [
            ("gpt-6", "gpt-5"),
            ("gpt-6.1-codex", "gpt-5"),
            ("openai/gpt-7-mini", "gpt-5"),
            ("o5-mini", "o4"),
            ("claude-opus-6-1", "claude"),
            ("claude-novel-1", "claude"),
            ("gemini-9-ultra", "gemini"),
        ] {
            assert_eq!(recognized(name), Some((family, Certainty::Family)), "{name}");
        }
        for (name, family) in [
            ("claude-opus-5-5", "claude-opus-5"),
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4"),
            ("claude-sonnet-5-5", "claude"),
            ("gemini-2.5-pro", "gemini"),
            ("gpt-5.3-codex", "gpt-5"),
        ] {
            assert_eq!(recognized(name), Some((family, Certainty::Listed)), "{name}");
        }
        for name in ["clade-sonet", "gpt-40", "gpt-3", "o10", "gpt", "our-own-model"] {
            assert_eq!(recognized(name), None, "{name}");
        }
    }

    #[test]
    fn models_from_gpt_4o_on_read_o200k() {
        for name in [
            "gpt-4o",
            "gpt-4o-2024-08-06",
            "gpt-4o-mini",
            "chatgpt-4o-latest",
            "gpt-4.1",
            "gpt-4.1-nano",
            "gpt-4.5-preview",
            "gpt-5",
            "gpt-5-mini",
            "gpt-5.1-codex-max",
            "gpt-5-codex",
            "codex-mini-latest",
            "o1",
            "o1-preview",
            "o3-mini",
            "o4-mini-high",
            "gpt-oss-120b",
            "openai/gpt-4o",
            "OpenAI/GPT-5",
            "openrouter/openai/o3:free",
            "ft:gpt-4o-mini-2024-07-18:acme::9abc",
        ] {
            assert_eq!(Encoding::for_model(name), Some(Encoding::O200k), "{name}");
        }
    }

    #[test]
    fn models_before_gpt_4o_read_cl100k() {
        for name in [
            "gpt-4",
            "gpt-4-0613",
            "gpt-4-32k",
            "gpt-4-turbo",
            "gpt-4-turbo-2024-04-09",
            "gpt-3.5-turbo",
            "gpt-3.5-turbo-16k",
            "gpt-35-turbo",
            "ft:gpt-3.5-turbo:acme",
        ] {
            assert_eq!(Encoding::for_model(name), Some(Encoding::Cl100k), "{name}");
        }
    }

    #[test]
    fn models_of_others_and_unknown_ones_have_no_encoding() {
        for name in [
            "",
            "/",
            "claude-sonnet-4-5",
            "gemini-2.5-pro",
            "llama-3.3-70b",
            "qwen3-coder",
            "text-davinci-003",
            "text-embedding-3-small",
            "code-davinci-002",
            "gpt-3",
            "gpt-2",
            "gpt-40",
            "o10",
            "o2",
            "codexample",
            "phi-4o",
        ] {
            assert_eq!(Encoding::for_model(name), None, "{name}");
        }
    }
}
