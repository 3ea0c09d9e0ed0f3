//! What an answer in JSON says, in words: the short values of its objects.

use serde_json::Value;

/// A longer text in JSON is a document, not a value.
const VALUE_BYTES_MAX: usize = 120;

/// Answers with more JSON than this are not read.
const JSON_BYTES_MAX: usize = 1 << 18;

/// Objects within objects are looked into this deep.
const DEPTH_MAX: usize = 3;

/// Names of values that say what an object is and how far it is, in any order; they are told first.
const TELLING: &[&str] = &[
    "id",
    "number",
    "name",
    "title",
    "state",
    "status",
    "merged",
    "conclusion",
    "reason",
    "error",
    "message",
    "url",
    "path",
];

/// The short values in an answer that is JSON, with their names. `None` where it is none, or holds none.
pub(super) fn fields_of_json(answer: &str, bytes_max: usize) -> Option<String> {
    let start = answer.find(['{', '['])?;
    // Behind what an agent writes around an output, JSON begins a line.
    let begins_line =
        answer[..start].trim_end_matches([' ', '\t']).ends_with('\n') || answer[..start].trim().is_empty();
    if !begins_line || answer.len() > JSON_BYTES_MAX {
        return None;
    }
    let value = serde_json::Deserializer::from_str(&answer[start..]).into_iter::<Value>().next()?.ok()?;
    let mut told = Vec::new();
    collect(&value, DEPTH_MAX, &mut told);
    told.sort_by_key(|(is_telling, number, _)| (!is_telling, *number));
    let (mut used, mut chosen) = (0, Vec::new());
    for (_, number, text) in told {
        used += text.len() + 2;
        if used <= bytes_max {
            chosen.push((number, text));
        }
    }
    chosen.sort_by_key(|(number, _)| *number);
    let texts: Vec<String> = chosen.into_iter().map(|(_, text)| text).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Values in their order, each with whether its name is telling.
fn collect(value: &Value, depth: usize, told: &mut Vec<(bool, usize, String)>) {
    match value {
        Value::Object(fields) if depth > 0 => {
            for (name, value) in fields {
                match value {
                    Value::Object(_) | Value::Array(_) => collect(value, depth - 1, told),
                    Value::String(text)
                        if text.is_empty() || text.len() > VALUE_BYTES_MAX || text.contains('\n') => {}
                    Value::Null => {}
                    _ => {
                        let lower = name.to_lowercase();
                        let is_telling = TELLING.iter().any(|known| lower.contains(known));
                        let plain = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                        told.push((is_telling, told.len(), format!("{name}: {plain}")));
                    }
                }
            }
        }
        Value::Array(values) if depth > 0 => values.iter().for_each(|value| collect(value, depth - 1, told)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_object_is_and_how_far_it_is_comes_before_the_rest() {
        let answer = "Output:\n[{\"author\":\"ann\",\"body\":\"long\\ntext\",\"number\":12,\"state\":\"MERGED\",\"title\":\"Fix it\"}]\n";
        assert_eq!(
            fields_of_json(answer, 400).unwrap(),
            "author: ann, number: 12, state: MERGED, title: Fix it"
        );
        assert_eq!(fields_of_json(answer, 50).unwrap(), "number: 12, state: MERGED, title: Fix it");
        assert_eq!(fields_of_json("no json", 50), None);
        assert_eq!(fields_of_json("see {this", 50), None);
    }
}
