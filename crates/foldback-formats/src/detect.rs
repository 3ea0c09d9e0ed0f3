//! Which format bytes are in, by their content.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldback_core::{Dialect, Model};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{FormatError, Problem};
use crate::format::Format;
use crate::jsonl;

/// Lines that are looked at.
const PROBE_LINES_MAX: usize = 60;

/// Longer lines are not looked at: what a file is shows in others.
const PROBE_LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Elements of an array that are looked at.
const PROBE_ELEMENTS_MAX: usize = 40;

/// How well content fits a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It is something else.
    No,
    /// It could be: nothing speaks against it, but others look the same.
    Possible,
    /// It shows what only this format has.
    Sure,
}

/// What detection looks at: the beginning of the content as records, and as one value.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    /// The first lines that are JSON objects.
    pub(crate) records: Vec<Value>,
    /// The content as one JSON value.
    pub(crate) document: Option<Top<'a>>,
}

/// The top level of a JSON value.
#[derive(Debug)]
pub(crate) enum Top<'a> {
    /// The fields of an object.
    Object(BTreeMap<Cow<'a, str>, &'a RawValue>),
    /// The first elements of an array, decoded.
    Array(Vec<Value>),
}

/// The first lines of the content as records.
#[derive(Debug, Default)]
struct Beginning {
    /// The lines that are JSON objects.
    records: Vec<Value>,
    first_problem: Option<Problem>,
    /// Whether a line that is no record comes before all that are.
    is_broken: bool,
}

impl Beginning {
    fn of(bytes: &[u8]) -> Self {
        let mut seen = Self::default();
        for (number, line) in (1..).zip(jsonl::lines(bytes)).take(PROBE_LINES_MAX) {
            if line.len() > PROBE_LINE_BYTES_MAX {
                continue;
            }
            match jsonl::parse::<Value>(line, number) {
                Ok(Some((_, record))) if record.is_object() => seen.records.push(record),
                Ok(_) => {}
                Err(problem) if problem.fault.loses_content() => {
                    seen.is_broken |= seen.records.is_empty();
                    seen.first_problem.get_or_insert(problem);
                }
                Err(_) => {}
            }
        }
        seen
    }

    /// A file of several records is no single value; a long one is not worth trying. But lines of
    /// a value that is laid out on several can be objects, too: its first line is then none.
    fn is_list(&self) -> bool {
        self.records.len() > 1 && !self.is_broken
    }
}

impl<'a> Probe<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let seen = Beginning::of(bytes);
        if seen.is_list() {
            return Ok(Self { records: seen.records, document: None });
        }
        let Beginning { mut records, first_problem, is_broken } = seen;
        let document = Top::of(bytes);
        if is_broken && document.is_ok() {
            records.clear();
        }
        if records.is_empty()
            && let Err(problem) = &document
        {
            let seen = first_problem.or_else(|| Some(problem.clone()));
            return Err(FormatError::Unknown { seen });
        }
        Ok(Self { records, document: document.ok() })
    }

    /// Whether some record passes a test.
    pub(crate) fn any_record(&self, test: impl Fn(&Value) -> bool) -> bool {
        self.records.iter().any(test)
    }

    /// A field of the document, if it is an object that has it.
    pub(crate) fn field(&self, name: &str) -> Option<&'a RawValue> {
        match &self.document {
            Some(Top::Object(fields)) => fields.get(name).copied(),
            Some(Top::Array(_)) | None => None,
        }
    }

    /// The first elements of an array that is a field of the document.
    pub(crate) fn elements_of(&self, name: &str) -> Vec<Value> {
        self.field(name).map_or_else(Vec::new, |array| elements(array.get()))
    }

    /// The first elements of a document that is an array.
    pub(crate) fn elements(&self) -> &[Value] {
        match &self.document {
            Some(Top::Array(elements)) => elements,
            Some(Top::Object(_)) | None => &[],
        }
    }
}

impl<'a> Top<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, Problem> {
        use crate::error::Fault;
        let not_text = |error: std::str::Utf8Error| {
            let line = memchr::memchr_iter(b'\n', &bytes[..error.valid_up_to()]).count() + 1;
            Problem { line, column: None, fault: Fault::NotUtf8 }
        };
        let text = std::str::from_utf8(bytes).map_err(not_text)?.trim_start_matches('\u{feff}');
        match text.trim_ascii_start().starts_with('[') {
            true => {
                let broken = |error: serde_json::Error| Problem::of_json(&error, 1, 0);
                let all: Vec<&RawValue> = serde_json::from_str(text).map_err(broken)?;
                Ok(Self::Array(decoded(&all)))
            }
            false => {
                serde_json::from_str(text).map(Self::Object).map_err(|error| Problem::of_json(&error, 1, 0))
            }
        }
    }
}

fn elements(array: &str) -> Vec<Value> {
    serde_json::from_str::<Vec<&RawValue>>(array).map_or_else(|_| Vec::new(), |all| decoded(&all))
}

fn decoded(elements: &[&RawValue]) -> Vec<Value> {
    let first = elements.iter().take(PROBE_ELEMENTS_MAX);
    first.filter_map(|element| serde_json::from_str(element.get()).ok()).collect()
}

/// The format that the content shows.
///
/// Where nothing but one format's own marks occur, that is it; where several formats look the same
/// so far, it is an error that names them.
pub fn detect(bytes: &[u8]) -> Result<Format, FormatError> {
    if bytes.trim_ascii().is_empty() {
        return Err(FormatError::Empty);
    }
    best_fit(&Probe::new(bytes)?)
}

/// What is needed of a long file to tell what it is, mostly.
pub(crate) const BEGINNING_BYTES: usize = 1024 * 1024;

/// The format that [`detect`] would find in all of a file of which these are the first bytes; none where
/// that does not show.
pub(crate) fn detect_by_beginning(bytes: &[u8]) -> Option<Format> {
    let end = memchr::memchr_iter(b'\n', bytes).nth(PROBE_LINES_MAX - 1)?;
    let seen = Beginning::of(&bytes[..=end]);
    let probe = Probe { records: seen.is_list().then_some(seen.records)?, document: None };
    best_fit(&probe).ok()
}

fn best_fit(probe: &Probe<'_>) -> Result<Format, FormatError> {
    let fits: Vec<(Fit, Format)> =
        Format::ALL.iter().map(|&format| (format.codec().fits(probe), format)).collect();
    let best = fits.iter().map(|(fit, _)| *fit).max().unwrap_or(Fit::No);
    let best_fits: Vec<Format> =
        fits.into_iter().filter(|(fit, _)| *fit == best).map(|(_, format)| format).collect();
    match (best, &best_fits[..]) {
        (Fit::No, _) => Err(FormatError::Unknown { seen: None }),
        (_, [only]) => Ok(*only),
        _ => match spoken_to(probe).filter(|format| best_fits.contains(format)) {
            Some(format) => Ok(format),
            None => Err(FormatError::Ambiguous { fits: best_fits }),
        },
    }
}

/// The format of requests to the model that the document names: short conversations look the same in
/// several.
fn spoken_to(probe: &Probe<'_>) -> Option<Format> {
    let name: String = serde_json::from_str(probe.field("model")?.get()).ok()?;
    match Model::named(&name)?.dialect {
        // Whoever names the maker as well passes requests on to many, in OpenAI's form.
        _ if name.contains('/') => Some(Format::OpenaiChat),
        // Both are spoken to the same models, and only one of them has messages.
        Dialect::OpenaiChat | Dialect::OpenaiResponses => Some(Format::OpenaiChat),
        dialect => Some(dialect.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_shows_a_format_only_where_all_of_the_file_has_it() {
        let record = "{\"type\":\"user\",\"uuid\":\"1\",\"sessionId\":\"2\",\"message\":{}}\n";
        let list = record.repeat(PROBE_LINES_MAX);
        assert_eq!(detect_by_beginning(list.as_bytes()), Some(Format::ClaudeCode));
        assert_eq!(detect_by_beginning(&list.as_bytes()[..list.len() - 1]), None, "a line is cut off");
        let laid_out = format!("{{\n{}", record.repeat(PROBE_LINES_MAX));
        assert_eq!(detect_by_beginning(laid_out.as_bytes()), None);
        let one = format!("{record}{}", "\n".repeat(PROBE_LINES_MAX));
        assert_eq!(detect_by_beginning(one.as_bytes()), None);
    }

    #[test]
    fn the_model_tells_what_messages_alone_do_not() {
        let body = |model: &str| {
            format!(
                r#"{{"model":"{model}","messages":[{{"role":"user","content":"hello"}},{{"role":"assistant","content":"hi"}}]}}"#
            )
        };
        for (model, format) in [
            ("gpt-4o", Format::OpenaiChat),
            ("gpt-5.1", Format::OpenaiChat),
            ("claude-sonnet-4-5", Format::Anthropic),
            ("anthropic/claude-sonnet-4-5", Format::OpenaiChat),
        ] {
            assert_eq!(detect(body(model).as_bytes()).unwrap(), format, "{model}");
        }
        let unknown = detect(body("somebody's model").as_bytes());
        assert!(matches!(unknown, Err(FormatError::Ambiguous { .. })), "{unknown:?}");
    }

    #[test]
    fn a_value_laid_out_on_lines_is_no_list_of_records() {
        let laid_out = b"{\n \"a\": [\n  {\"b\": 1}\n ],\n \"c\": [\n  {\"d\": 2}\n ]\n}\n";
        let probe = Probe::new(laid_out).unwrap();
        assert!(probe.records.is_empty() && probe.field("c").is_some());
        let cut_at_the_front = b"\"a\":1}\n{\"b\":1}\n{\"c\":1}\n";
        assert_eq!(Probe::new(cut_at_the_front).unwrap().records.len(), 2);
    }
}
