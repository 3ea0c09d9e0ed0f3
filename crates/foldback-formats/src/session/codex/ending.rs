//! How a rollout ends, as far as records that are added behind it have to fit.
//!
//! Newer versions number their records and refuse a file whose last one has no number. After a
//! compaction Codex tells the model anew what it works in (permissions, skills, the environment),
//! unless records behind the compaction say what was told already.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::jsonl;

/// Changes of what was told that are followed back to where it was told in full.
const CHANGE_COUNT_MAX: usize = 256;

/// The end of a rollout.
#[derive(Debug, Default)]
pub(super) struct Ending<'a> {
    /// The number of the last record, in a file whose records are numbered.
    pub(super) ordinal: Option<u64>,
    /// What says which context the model was told of, oldest first, as types and payloads. Nothing
    /// where it is not known in full.
    pub(super) told: Vec<(&'static str, &'a str)>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    ordinal: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl Line<'_> {
    fn ordinal(&self) -> Option<u64> {
        serde_json::from_str(self.ordinal?.get()).ok()
    }
}

impl<'a> Ending<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let mut last: Option<Line<'a>> = None;
        let (mut turn, mut changes, mut is_full) = (None, Vec::new(), false);
        for text in lines_from_the_end(bytes) {
            let is_sought = TYPES.iter().any(|kind| memchr::memmem::find(text, kind.as_bytes()).is_some());
            if last.is_some() && !is_sought {
                continue;
            }
            let Ok(Some((_, line))) = jsonl::parse::<Line<'a>>(text, 1) else { continue };
            match line.kind {
                COMPACTED => {
                    last.get_or_insert(line);
                    break;
                }
                TURN_CONTEXT => turn = turn.or(Some(line.payload.get())),
                WORLD_STATE if !is_full => {
                    is_full = is_whole(line.payload);
                    changes.push((WORLD_STATE, line.payload.get()));
                }
                _ => {}
            }
            let is_done = turn.is_some() && is_full || changes.len() > CHANGE_COUNT_MAX;
            last.get_or_insert(line);
            if is_done {
                break;
            }
        }
        changes.reverse();
        let told = match turn {
            Some(turn) if is_full || changes.is_empty() => {
                changes.into_iter().chain([(TURN_CONTEXT, turn)]).collect()
            }
            _ => Vec::new(),
        };
        Self { ordinal: last.and_then(|last| last.ordinal()), told }
    }
}

const COMPACTED: &str = "compacted";
const TURN_CONTEXT: &str = "turn_context";
const WORLD_STATE: &str = "world_state";

/// Types of records that matter wherever they stand.
const TYPES: [&str; 3] = [COMPACTED, TURN_CONTEXT, WORLD_STATE];

/// The number of a record.
pub(super) fn ordinal_of(record: &str) -> Option<u64> {
    serde_json::from_str::<Line<'_>>(record).ok()?.ordinal()
}

fn is_whole(payload: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct State {
        #[serde(default)]
        full: bool,
    }
    serde_json::from_str::<State>(payload.get()).is_ok_and(|state| state.full)
}

fn lines_from_the_end(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let body = rest.strip_suffix(b"\n").unwrap_or(rest);
        let start = memchr::memrchr(b'\n', body).map_or(0, |newline| newline + 1);
        rest = &rest[..start];
        Some(&body[start..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Vec<(&'static str, String)> {
        let text = lines.join("\n");
        Ending::of(text.as_bytes())
            .told
            .iter()
            .map(|(kind, payload)| (*kind, (*payload).to_owned()))
            .collect()
    }

    const TURN: &str = r#"{"type":"turn_context","payload":{"model":"m"}}"#;
    const WHOLE: &str = r#"{"type":"world_state","payload":{"full":true,"state":{"a":1}}}"#;
    const CHANGE: &str = r#"{"type":"world_state","payload":{"state":{"a":2}}}"#;
    const COMPACTION: &str = r#"{"type":"compacted","payload":{"message":"","replacement_history":[]}}"#;
    const SAID: &str = r#"{"type":"response_item","payload":{"note":"no turn_context"}}"#;

    #[test]
    fn what_was_told_is_known_from_where_it_was_told_in_full() {
        let kinds = |lines: &[&str]| told(lines).iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
        assert_eq!(kinds(&[WHOLE, TURN, SAID, CHANGE, TURN, SAID]), [WORLD_STATE, WORLD_STATE, TURN_CONTEXT]);
        assert_eq!(told(&[WHOLE, CHANGE, TURN])[1].1, r#"{"state":{"a":2}}"#);
        assert_eq!(kinds(&[TURN, SAID]), [TURN_CONTEXT], "older versions know it by the turn");
        assert_eq!(kinds(&[CHANGE, TURN]), [""; 0]);
        assert_eq!(kinds(&[WHOLE, TURN, COMPACTION, SAID]), [""; 0], "the compaction took it away");
        assert_eq!(kinds(&[WHOLE, TURN, COMPACTION, WHOLE, TURN]), [WORLD_STATE, TURN_CONTEXT]);
    }

    #[test]
    fn the_number_is_that_of_the_last_whole_record() {
        let ordinal = |text: &str| Ending::of(text.as_bytes()).ordinal;
        let numbered = r#"{"ordinal":7,"type":"event_msg","payload":{}}"#;
        assert_eq!(ordinal(&format!("{SAID}\n{numbered}\r\n\n{{\"ordinal\":8,\"ty")), Some(7));
        assert_eq!(ordinal(&format!("{numbered}\n{SAID}\n")), None);
        assert_eq!(ordinal(&format!("{}\n", COMPACTION.replacen('{', r#"{"ordinal":9,"#, 1))), Some(9));
        assert_eq!(ordinal(""), None);
    }
}
