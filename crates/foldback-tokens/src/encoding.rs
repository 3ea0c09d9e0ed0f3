//! Which vocabulary a model reads.

use std::fmt;

/// A vocabulary of OpenAI's that is compiled into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// `o200k_base`: GPT-4o and everything after it.
    O200k,
    /// `cl100k_base`: GPT-4, GPT-3.5 Turbo and the embedding models.
    Cl100k,
}

/// Where a rule ends within a model's name.
#[derive(Clone, Copy)]
enum Matches {
    /// The name is the family's own, or goes on after a hyphen: `o1`, `o1-preview`, not `o10`.
    Family,
    /// Whatever follows: `gpt-5`, `gpt-5.1-codex`, `gpt-5-mini`.
    AnySuffix,
}

/// Families by the start of their names; no name matches two of them.
const MODELS: &[(&str, Matches, Encoding)] = &[
    ("gpt-5", Matches::AnySuffix, Encoding::O200k),
    ("gpt-4o", Matches::Family, Encoding::O200k),
    ("gpt-4.1", Matches::Family, Encoding::O200k),
    ("gpt-4.5", Matches::Family, Encoding::O200k),
    ("chatgpt-4o", Matches::Family, Encoding::O200k),
    ("o1", Matches::Family, Encoding::O200k),
    ("o3", Matches::Family, Encoding::O200k),
    ("o4", Matches::Family, Encoding::O200k),
    ("codex", Matches::Family, Encoding::O200k),
    // Their own vocabulary adds only control tokens, which are never read from text.
    ("gpt-oss", Matches::Family, Encoding::O200k),
    ("gpt-4", Matches::Family, Encoding::Cl100k),
    ("gpt-3.5-turbo", Matches::Family, Encoding::Cl100k),
    // What Azure calls the same model.
    ("gpt-35-turbo", Matches::Family, Encoding::Cl100k),
    ("text-embedding-3", Matches::Family, Encoding::Cl100k),
    ("text-embedding-ada-002", Matches::Family, Encoding::Cl100k),
];

impl Encoding {
    /// The vocabulary of the model called `name`, or none where it is not OpenAI's or not one of
    /// these. A router's prefix (`openai/gpt-4o`), the mark of a fine-tuned model
    /// (`ft:gpt-4o:acme`), a date or a size after the family's name, and letter case make no
    /// difference.
    pub fn for_model(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = name.strip_prefix("ft:").unwrap_or(name);
        let name = name.split(':').next().unwrap_or_default();
        MODELS.iter().find_map(|&(family, matches, encoding)| {
            let rest = name.strip_prefix(family)?;
            match matches {
                Matches::AnySuffix => true,
                Matches::Family => rest.is_empty() || rest.starts_with('-'),
            }
            .then_some(encoding)
        })
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
            "text-embedding-3-small",
            "text-embedding-3-large",
            "text-embedding-ada-002",
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
