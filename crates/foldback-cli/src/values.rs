//! Values as people write them: on the command line, in the environment, in the configuration file.
//! Whoever got one wrong is told what is allowed.

use std::ops::Range;

use clap::ValueEnum;
use foldback_core::{Dialect, FactKind, Level, Timestamp, Tokens};
use foldback_formats::Format;

use crate::aim::Target;

/// Names closer than this are suggested.
const SIMILARITY_MIN: f64 = 0.75;

/// At least this share of a name is typed as meant, where only typing errors are to be found.
const TYPED_AS_MEANT_MIN: f64 = 0.7;

/// Whether `name` is `known` but for a few wrong, missing or swapped characters.
pub(crate) fn is_typing_error(name: &str, known: &str) -> bool {
    strsim::normalized_damerau_levenshtein(name, known) >= TYPED_AS_MEANT_MIN
}

/// The one of `names` that was probably meant.
pub(crate) fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}

/// The most similar of `names`, the best first.
pub(crate) fn most_similar<'a>(
    name: &str,
    names: impl Iterator<Item = &'a str>,
    count_max: usize,
) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> =
        names.map(|known| (strsim::jaro_winkler(name, known), known)).collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0));
    scored
        .into_iter()
        .filter(|(score, _)| *score >= SIMILARITY_MIN)
        .map(|(_, known)| known)
        .take(count_max)
        .collect()
}

/// What to tell whoever wrote `name`, which is none of `names`.
pub(crate) fn no_such<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let meant =
        similar(name, names.clone()).map_or_else(String::new, |known| format!("did you mean {known}? "));
    let all: Vec<&str> = names.collect();
    format!("no such {what}; {meant}there are {}", all.join(", "))
}

pub(crate) fn format_named(name: &str) -> Result<Format, String> {
    let names = Format::ALL.iter().map(|format| format.as_str());
    name.parse().map_err(|_| no_such("format", name, names))
}

pub(crate) fn dialect_named(name: &str) -> Result<Dialect, String> {
    let found = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name);
    found.ok_or_else(|| no_such("dialect", name, Dialect::ALL.iter().map(|dialect| dialect.as_str())))
}

/// One of the names of `T`, which is `what` to people.
pub(crate) fn one_of<T: ValueEnum>(what: &str, name: &str) -> Result<T, String> {
    let possible: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
    let names = possible.iter().map(clap::builder::PossibleValue::get_name);
    T::from_str(name, false).map_err(|_| no_such(what, name, names))
}

const TOKENS_WANTED: &str = "give a whole number of tokens above zero, such as 128000 or 128k";

/// A number of tokens, as it is or short.
pub(crate) fn tokens(text: &str) -> Result<Tokens, String> {
    short_number(text).ok_or_else(|| TOKENS_WANTED.to_owned())
}

fn short_number(text: &str) -> Option<Tokens> {
    let plain = text.replace(['_', ','], "").to_ascii_lowercase();
    let (number, factor) = match (plain.strip_suffix('k'), plain.strip_suffix('m')) {
        (Some(number), _) => (number, 1_000.0),
        (_, Some(number)) => (number, 1_000_000.0),
        _ => (plain.as_str(), 1.0),
    };
    let tokens = number.parse::<f64>().ok()? * factor;
    (tokens.fract() == 0.0 && (1.0..1e15).contains(&tokens)).then_some(Tokens(tokens as u64))
}

/// A number of bytes, as it is or short.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wanted = || "give a whole number of bytes above zero, such as 500M or 20G".to_owned();
    let plain = text.trim().to_ascii_lowercase();
    let units = [("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];
    let unit = units.iter().find_map(|(name, factor)| Some((plain.strip_suffix(name)?, *factor)));
    let (number, factor) = unit.unwrap_or((&plain, 1));
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(wanted)
}

/// A number of tokens, or a share.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    let wanted = || {
        "give a whole number of tokens above zero, such as 8000 or 8k, or a share of what is usable above \
         0% and up to 100%, such as 40%"
            .to_owned()
    };
    if !text.contains('%') {
        return short_number(text).map(Level::Tokens).ok_or_else(wanted);
    }
    match text.parse() {
        Ok(Level::PercentOfUsable(percent) | Level::PercentOfWindow(percent))
            if !(percent > 0.0 && percent <= 100.0) =>
        {
            Err(wanted())
        }
        Ok(level) => Ok(level),
        Err(_) => Err(wanted()),
    }
}

/// What a session is to come down to: a level, or a share of what it has now.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let of_session = text.trim().strip_suffix("session").map(|share| share.trim_end().trim_end_matches("of"));
    let Some(share) = of_session else {
        return level(text)
            .map(Target::Level)
            .map_err(|why| format!("{why}; or of the session, such as 40% of session"));
    };
    let percent = share.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match percent {
        Some(percent) if percent > 0.0 && percent <= 100.0 => Ok(Target::PercentOfSession(percent)),
        _ => Err("give a share of the session above 0% and up to 100%, such as 40% of session".to_owned()),
    }
}

/// Positions of items; either end may be left open.
pub(crate) fn range(text: &str) -> Result<Range<usize>, String> {
    let wrong = || "give a range of items such as 10..40, 10.. or ..40".to_owned();
    let (start, end) = text.split_once("..").ok_or_else(wrong)?;
    let bound = |text: &str, open: usize| match text.trim() {
        "" => Ok(open),
        number => number.parse().map_err(|_| wrong()),
    };
    let range = bound(start, 0)?..bound(end, usize::MAX)?;
    match range.is_empty() {
        true => Err(format!(
            "nothing is in it: A..B begins at item A and ends before item B, so A must be below B; {}",
            wrong()
        )),
        false => Ok(range),
    }
}

/// The number of a turn.
pub(crate) fn turn(text: &str) -> Result<usize, String> {
    let wanted = "turns are counted from 1: give a whole number of 1 or more";
    text.parse().ok().filter(|&turn| turn > 0).ok_or_else(|| wanted.to_owned())
}

/// How many of something.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "give a whole number of 0 or more".to_owned())
}

/// A kind of fact.
pub(crate) fn fact_kind(name: &str) -> Result<FactKind, String> {
    let found = FactKind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| no_such("kind of fact", name, FactKind::ALL.iter().map(|kind| kind.name())))
}

/// A point in time, with its zone.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let time = text.parse::<jiff::Timestamp>();
    let wanted = |_| "give a time with its zone, such as 2026-11-15T08:30:00Z".to_owned();
    time.map(|time| Timestamp(time.as_millisecond())).map_err(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::CounterName;

    #[test]
    fn a_target_may_be_a_share_of_the_session() {
        for text in ["25%session", "25% of session", " 25 % of session"] {
            assert_eq!(target(text), Ok(Target::PercentOfSession(25.0)), "{text}");
        }
        assert_eq!(target("25%"), Ok(Target::Level(Level::PercentOfUsable(25.0))));
        assert_eq!(target("25% of window"), Ok(Target::Level(Level::PercentOfWindow(25.0))));
        for text in ["session", "0% of session", "101% of session", "25 of session", "%session"] {
            assert!(target(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_that_only_end_alike_are_no_typing_errors() {
        assert!(is_typing_error("sesion.jsonl", "session.jsonl"));
        assert!(is_typing_error("rollout-9.jsonl", "rollout-8.jsonl"));
        assert!(!is_typing_error("nofile.jsonl", "old.json"));
        assert!(!is_typing_error("plan.jsonl", "events.jsonl"));
    }

    #[test]
    fn token_counts_may_be_written_short() {
        assert_eq!(tokens("128k"), Ok(Tokens(128_000)));
        assert_eq!(tokens("1.5M"), Ok(Tokens(1_500_000)));
        assert_eq!(tokens("32_000"), Ok(Tokens(32_000)));
        for wrong in ["0", "-5", "many", "1.5", "k", "1e300", "nan", ""] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
        assert_eq!(level("40%"), Ok(Level::PercentOfUsable(40.0)));
        for wrong in ["0%", "101%", "-1%", "nan%", "%", "40% of it", "10x"] {
            assert!(level(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_may_be_open() {
        assert_eq!(range("3..9"), Ok(3..9));
        assert_eq!(range("..9"), Ok(0..9));
        assert_eq!(range("3.."), Ok(3..usize::MAX));
        assert!(range("9..3").is_err() && range("3").is_err());
    }

    #[test]
    fn a_mistyped_name_gets_a_suggestion() {
        assert!(format_named("claude").unwrap_err().contains("did you mean claude-code?"));
        assert!(dialect_named("openai").unwrap_err().contains("openai-chat"));
        let counter = one_of::<CounterName>("counter", "estimat").unwrap_err();
        assert_eq!(counter, "no such counter; did you mean estimate? there are o200k, cl100k, estimate");
    }
}
