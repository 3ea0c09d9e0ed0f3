//! The lines that come in, within limits. The protocol's library drops what is too long or too deep without
//! a word, and the other end would wait for an answer for ever; here such a line becomes a request that is
//! refused in its name.

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// Bytes of one line. A question is a few hundred.
pub(super) const LINE_BYTES_MAX: usize = 1024 * 1024;

/// How deep the lists and objects of a line may stand in each other.
pub(super) const LINE_DEPTH_MAX: usize = 64;

/// The method of a request that stands for such a line.
pub(super) const REFUSED: &str = "foldback/refused";

/// Bytes of the beginning and of the end of a line that are kept to find out which request it is.
const NAMED_BYTES_MAX: usize = 512;

/// Why a line is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    TooLong,
    TooDeep,
}

impl Refusal {
    fn why(self) -> String {
        match self {
            Self::TooLong => {
                format!("the request is longer than {LINE_BYTES_MAX} bytes; ask for less, or in words")
            }
            Self::TooDeep => {
                format!("the lists and objects of the request are more than {LINE_DEPTH_MAX} deep")
            }
        }
    }
}

/// A line, as far as it was read.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    /// Of a line that is too long, what was read last.
    end: Vec<u8>,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    refusal: Option<Refusal>,
}

impl Line {
    fn push(&mut self, piece: &[u8]) {
        if self.refusal.is_none() {
            self.look(piece);
        }
        match self.refusal {
            None if self.bytes.len() + piece.len() <= LINE_BYTES_MAX => self.bytes.extend_from_slice(piece),
            refusal => {
                self.refusal = refusal.or(Some(Refusal::TooLong));
                let room = NAMED_BYTES_MAX.saturating_sub(self.bytes.len());
                self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                self.end.extend_from_slice(&piece[piece.len().saturating_sub(NAMED_BYTES_MAX)..]);
                self.end.drain(..self.end.len().saturating_sub(NAMED_BYTES_MAX));
            }
        }
    }

    fn look(&mut self, piece: &[u8]) {
        for byte in piece {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if self.depth > LINE_DEPTH_MAX {
                self.refusal = Some(Refusal::TooDeep);
                return;
            }
        }
    }

    /// What is passed on.
    fn finish(self) -> Vec<u8> {
        let Some(refusal) = self.refusal else { return self.bytes };
        // A notification is answered by nobody, and a request without a name by an error without one.
        let id = self.id().unwrap_or("null".to_owned());
        let why = serde_json::Value::from(refusal.why());
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{REFUSED}","params":{{"why":{why}}}}}"#).into_bytes()
    }

    /// The name of the request, where it stands before or behind everything that may be long.
    fn id(&self) -> Option<String> {
        let head = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(NAMED_BYTES_MAX)]);
        let end = String::from_utf8_lossy(&self.end);
        let before = head.split("\"params\"").next().and_then(|head| head.split_once("\"id\""));
        let behind = end.trim_end().strip_suffix('}').and_then(|end| {
            let end = end.strip_suffix(r#","jsonrpc":"2.0""#).unwrap_or(end);
            end.rsplit_once("\"id\"").filter(|(_, id)| !id.contains(['{', '}', ',']))
        });
        let (_, text) = before.or(behind)?;
        let text = text.trim_start().strip_prefix(':')?;
        let mut values = serde_json::Deserializer::from_str(text);
        let id = <&RawValue>::deserialize(&mut values).ok()?;
        let is_name = id.get().starts_with('"') || id.get().parse::<i64>().is_ok();
        is_name.then(|| id.get().to_owned())
    }
}

/// Passes lines on until there are no more, or nobody reads them.
pub(super) async fn pass_on(read: impl AsyncRead + Unpin, mut write: impl AsyncWrite + Unpin) {
    let mut read = BufReader::new(read);
    let mut line = Line::default();
    loop {
        let Ok(available) = read.fill_buf().await else { return };
        let end = available.iter().position(|byte| *byte == b'\n');
        let (piece, used) = match end {
            Some(end) => (&available[..end], end + 1),
            None => (available, available.len()),
        };
        if used == 0 {
            return;
        }
        line.push(piece);
        read.consume(used);
        if end.is_some() {
            let mut bytes = std::mem::take(&mut line).finish();
            bytes.push(b'\n');
            if write.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pieces: &[&[u8]]) -> String {
        let mut line = Line::default();
        pieces.iter().for_each(|piece| line.push(piece));
        assert!(line.bytes.len() <= LINE_BYTES_MAX && line.end.len() <= NAMED_BYTES_MAX);
        String::from_utf8(line.finish()).unwrap()
    }

    #[test]
    fn a_line_within_the_limits_is_passed_on_as_it_is() {
        let line =
            format!(r#"{{"id":1,"a":{}{}}}"#, "[".repeat(LINE_DEPTH_MAX - 1), "]".repeat(LINE_DEPTH_MAX - 1));
        assert_eq!(passed(&[line.as_bytes()]), line);
        let brackets = format!(r#"{{"a":"\"{}"}}"#, "[".repeat(500));
        assert_eq!(passed(&[brackets.as_bytes()]), brackets);
    }

    #[test]
    fn a_line_beyond_the_limits_becomes_a_request_of_the_same_name() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        let deep = "[".repeat(LINE_DEPTH_MAX + 1);
        let cases: [(&str, &[u8], &str, &str); 6] = [
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":""#, &long, r#""}}"#, "7"),
            (r#"{"jsonrpc":"2.0","method":"m","params":{"a":""#, &long, r#""},"id":"b"}"#, r#""b""#),
            (r#"{"method":"m","params":{"a":""#, &long, r#""},"id": 8,"jsonrpc":"2.0"}"#, "8"),
            (r#"{"method":"m","params":{"id":9,"a":""#, &long, r#"","id":9}}"#, "null"),
            (r#"{"id":-3,"params":"#, deep.as_bytes(), "", "-3"),
            ("", &long, "", "null"),
        ];
        for (start, middle, end, id) in cases {
            let pieces = [start.as_bytes(), middle, end.as_bytes()];
            let whole = passed(&[&pieces.concat()]);
            let passed = passed(&pieces);
            assert_eq!(whole, passed);
            let request: serde_json::Value = serde_json::from_str(&passed).unwrap();
            assert_eq!((request["id"].to_string(), &request["method"]), (id.to_owned(), &REFUSED.into()));
            assert!(request["params"]["why"].as_str().unwrap().contains("the request"), "{passed}");
        }
    }
}
