//! Policies by name and from TOML files, and as TOML.

use std::fmt::Write;
use std::path::Path;

use foldback_core::{Policy, Strategy};
use serde_json::{Map, Value};

use crate::config::Origin;
use crate::failure::Failure;
use crate::values::no_such;

/// A larger file is no policy.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The policy that was asked for, by `origin`: a preset, the one in a file, or the default.
pub(crate) fn chosen(asked: Option<&str>, origin: &Origin) -> Result<Policy, Failure> {
    let Some(asked) = asked else { return Ok(Policy::default()) };
    if let Some(policy) = Policy::named(asked) {
        return Ok(policy);
    }
    match asked_for(asked) {
        Ok(path) => read(Path::new(&path)),
        Err(why) => {
            let what = format!("{} {asked}: {why}", origin.name("policy"));
            Err(Failure::usage(what, "name one of them, or a TOML file of your own"))
        }
    }
}

/// What may be asked for: the name of a preset, or what looks like a file.
pub(crate) fn asked_for(name: &str) -> Result<String, String> {
    let path = Path::new(name);
    let is_path = path.extension().is_some_and(|extension| extension == "toml")
        || path.components().count() > 1
        || path.is_file();
    match is_path || Policy::names().any(|known| known == name) {
        true => Ok(name.to_owned()),
        false => Err(no_such("policy", name, Policy::names())),
    }
}

/// Whether a policy works towards a size.
pub(crate) fn aims(policy: &Policy) -> bool {
    policy.strategy().needs_budget()
}

/// Whether a policy asks for summaries, which can attend to something.
pub(crate) fn asks_for_summaries(policy: &Policy) -> bool {
    policy.clone().with_focus("one thing") != policy.clone().with_focus("another")
}

fn read(path: &Path) -> Result<Policy, Failure> {
    let failed = |error| Failure::Read {
        path: path.to_owned(),
        error,
        hint: Some("`foldback policies` lists the names that need no file".to_owned()),
    };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        let what = format!("{}: {length} bytes are too many for a policy", path.display());
        return Err(Failure::usage(what, "give a TOML file such as `foldback policies ladder` prints"));
    }
    parse(&std::fs::read_to_string(path).map_err(failed)?, path)
}

fn parse(text: &str, path: &Path) -> Result<Policy, Failure> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let what = format!("{}:{line}: {}", path.display(), error.message());
        Failure::usage(what, "`foldback policies NAME` prints a policy to start from")
    })
}

/// The policy as a file that [`chosen`] reads: a start for one's own.
pub(crate) fn to_toml(policy: &Policy) -> String {
    let written = serde_json::to_value(policy).expect("a policy is plain data");
    let fields = written.as_object().expect("a policy is a table");
    let mut text = String::new();
    let plain = ["name", "about", "choose_when", "checked", "target", "economy"];
    for (name, value) in plain.iter().filter_map(|&name| Some((name, fields.get(name)?))) {
        push_field(&mut text, name, value);
    }
    for name in ["triggers", "when_recorded", "steps"] {
        for table in fields.get(name).and_then(Value::as_array).into_iter().flatten() {
            let _ = write!(text, "\n[[{name}]]\n");
            let table = table.as_object().expect("triggers and steps are tables");
            tagged_first(table).for_each(|(name, value)| push_field(&mut text, name, value));
        }
    }
    text
}

/// What a table is comes before how.
fn tagged_first(table: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let is_tag = |name: &str| name == "strategy" || name == "rule";
    let tags = table.iter().filter(move |(name, _)| is_tag(name));
    tags.chain(table.iter().filter(move |(name, _)| !is_tag(name)))
}

fn push_field(text: &mut String, name: &str, value: &Value) {
    // TOML has no null: what is not set is not written.
    if !value.is_null() {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name} = {}", inline(value));
    }
}

/// A value on one line. Strings, numbers and truth values read the same in JSON and TOML.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            format!("[{}]", values.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(table) => {
            let fields = table.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(name, value)| format!("{name} = {}", inline(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_read_from_the_toml_it_is_printed_as() {
        for policy in Policy::all() {
            let text = to_toml(&policy);
            let again = parse(&text, Path::new("own.toml"));
            assert_eq!(again.unwrap_or_else(|failure| panic!("{failure:?}\n{text}")), policy);
        }
    }

    #[test]
    fn a_mistake_in_a_file_is_named_with_its_line() {
        let mistake = |text: &str| match parse(text, Path::new("own.toml")) {
            Err(Failure::Usage { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        let told = mistake("name = \"own\"\nfocus = 5\nsteps = []\n");
        assert!(told.starts_with("own.toml:2: unknown field `focus`"), "{told}");
        let told = mistake("name = \"own\"\nsteps = []\n");
        assert!(told.contains("no steps"), "{told}");
        let told = mistake("name = \"own\"\n[[steps]]\nstrategy = \"keep-recent\"\nn = -1\n");
        assert!(told.starts_with("own.toml:"), "{told}");
    }
}
