//! What is known about models: their windows, their answers, whose dialect they speak.
//!
//! As published by the providers in autumn 2026. Windows grow; a model that is not listed gets the
//! one of its family, and what a host knows better it says itself.

use crate::dialect::Dialect;
use crate::ids::Tokens;

/// What a model can hold.
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
}

const fn model(family: &'static str, window: u64, output_max: u64, dialect: Dialect) -> Model {
    Model { family, window: Tokens(window), output_max: Tokens(output_max), dialect }
}

use Dialect::{Anthropic, Gemini, OpenaiChat, OpenaiResponses};

/// Longer names before shorter ones that they begin with.
const MODELS: &[Model] = &[
    model("claude-3-haiku", 200_000, 4_096, Anthropic),
    model("claude-3-opus", 200_000, 4_096, Anthropic),
    model("claude-3-5", 200_000, 8_192, Anthropic),
    model("claude-opus-4", 200_000, 32_000, Anthropic),
    model("claude", 200_000, 64_000, Anthropic),
    model("gpt-3.5", 16_385, 4_096, OpenaiChat),
    model("gpt-4-turbo", 128_000, 4_096, OpenaiChat),
    model("gpt-4o", 128_000, 16_384, OpenaiChat),
    model("gpt-4.1", 1_047_576, 32_768, OpenaiResponses),
    model("gpt-4", 8_192, 4_096, OpenaiChat),
    model("gpt-5", 400_000, 128_000, OpenaiResponses),
    model("gpt-oss", 131_072, 32_768, OpenaiChat),
    model("codex", 200_000, 100_000, OpenaiResponses),
    model("o1", 200_000, 100_000, OpenaiResponses),
    model("o3", 200_000, 100_000, OpenaiResponses),
    model("o4", 200_000, 100_000, OpenaiResponses),
    model("gemini-1.5-pro", 2_097_152, 8_192, Gemini),
    model("gemini", 1_048_576, 65_536, Gemini),
    model("deepseek", 128_000, 8_192, OpenaiChat),
    model("qwen", 131_072, 16_384, OpenaiChat),
    model("kimi", 262_144, 16_384, OpenaiChat),
    model("glm", 200_000, 32_768, OpenaiChat),
    model("mistral", 128_000, 16_384, OpenaiChat),
    model("llama", 128_000, 8_192, OpenaiChat),
];

impl Model {
    /// What is known about the model called `name`. A router's prefix (`anthropic/claude-…`) and
    /// letter case make no difference.
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.trim().to_ascii_lowercase();
        let name = name.rsplit('/').next().unwrap_or_default();
        MODELS.iter().find(|model| name.starts_with(model.family))
    }

    /// How the names of known models begin.
    pub fn families() -> impl Iterator<Item = &'static str> {
        MODELS.iter().map(|model| model.family)
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
            let hidden = MODELS[..index].iter().any(|earlier| model.family.starts_with(earlier.family));
            assert!(!hidden, "{} can never be found", model.family);
        }
    }
}
