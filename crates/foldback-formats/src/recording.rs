//! Files that are only read.

pub(crate) mod atif;
pub(crate) mod cline;
pub(crate) mod forge;
pub(crate) mod llm_log;
pub(crate) mod mini_swe_agent;
pub(crate) mod moatless;
pub(crate) mod openhands;
pub(crate) mod pieces;
pub(crate) mod swe_agent;
pub(crate) mod tau_bench;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use crate::SessionFile;
    use crate::format::Format;

    /// The fixtures of every format that is only read.
    fn fixtures() -> Vec<(Format, Vec<u8>)> {
        let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let read_only = Format::ALL.iter().filter(|format| !format.is_writable());
        let files = read_only.flat_map(|&format| {
            let entries = std::fs::read_dir(folders.join(format.as_str())).unwrap();
            entries.map(move |entry| (format, std::fs::read(entry.unwrap().path()).unwrap()))
        });
        files.collect()
    }

    /// Where values stand in a value, those within included.
    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Array(elements) => {
                elements
                    .iter()
                    .enumerate()
                    .for_each(|(index, v)| pointers(v, &format!("{at}/{index}"), found));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, v)| pointers(v, &format!("{at}/{name}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn any_value_may_be_another_and_reading_still_ends() {
        let others = [json!(null), json!(-7), json!("x"), json!([1]), json!({"type": "x"}), json!(true)];
        for (format, bytes) in fixtures() {
            let document: Value = serde_json::from_slice(&bytes).unwrap();
            let mut places = Vec::new();
            pointers(&document, "", &mut places);
            for (place, other) in
                places.iter().flat_map(|place| others.iter().map(move |other| (place, other)))
            {
                let mut changed = document.clone();
                if let Some(value) = changed.pointer_mut(place) {
                    *value = other.clone();
                }
                let read = SessionFile::read_as(format, changed.to_string().into_bytes());
                assert!(
                    read.is_ok() || place.matches('/').count() <= 2,
                    "{format} {place} {other}: {read:?}"
                );
            }
        }
    }

    #[test]
    fn a_document_that_is_cut_off_is_an_error_with_a_place() {
        for (format, bytes) in fixtures() {
            let end = bytes.trim_ascii_end().len();
            for length in (0..end).step_by(97) {
                let error = SessionFile::read_as(format, bytes[..length].to_vec()).unwrap_err();
                assert!(error.problem().is_some(), "{format} cut at {length}: {error}");
            }
        }
    }
}
