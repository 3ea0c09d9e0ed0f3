//! The events of a stream, from bytes that come in any pieces. Each byte is looked at once, and an event
//! that does not end is not kept for ever.

use std::collections::VecDeque;

/// Bytes of one event: the last one of some protocols repeats the whole answer.
pub(super) const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What some servers begin with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Why bytes are no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventFault {
    /// A line has other bytes than text.
    NotText,
    /// A line or an event does not end.
    TooLong,
}

/// Takes bytes, gives the data of events. Their names and ids are not asked for, nor are comments.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The beginning of a line.
    line: Vec<u8>,
    /// The data of an event that is not over.
    data: Option<String>,
    whole: VecDeque<String>,
    /// Whether the last byte was a carriage return, which ends a line with or without a line feed.
    was_return: bool,
    has_begun: bool,
}

impl Events {
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), EventFault> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.was_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.as_ref().map_or(0, String::len) + piece.len() > EVENT_BYTES_MAX {
                return Err(EventFault::TooLong);
            }
            self.line.extend_from_slice(piece);
            bytes = rest;
            if let Some((end, rest)) = rest.split_first() {
                self.was_return = *end == b'\r';
                self.end_line()?;
                bytes = rest;
            }
        }
        Ok(())
    }

    /// The data of the next event that is whole.
    pub(super) fn next(&mut self) -> Option<String> {
        self.whole.pop_front()
    }

    fn end_line(&mut self) -> Result<(), EventFault> {
        let mut line = self.line.as_slice();
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let line = std::str::from_utf8(line).map_err(|_| EventFault::NotText)?;
        match line.split_once(':').unwrap_or((line, "")) {
            ("", "") if line.is_empty() => self.whole.extend(self.data.take()),
            ("data", value) => {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut self.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => self.data = Some(value.to_owned()),
                }
            }
            _ => {}
        }
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<String>, EventFault> {
        let mut events = Events::default();
        pieces.iter().try_for_each(|piece| events.push(piece))?;
        Ok(std::iter::from_fn(|| events.next()).collect())
    }

    #[test]
    fn lines_of_data_are_one_event_and_everything_else_is_none() {
        let stream = "\u{feff}data: a\r\n\r\n: comment\n\nevent: x\nid: 7\nretry: 9\ndata\ndata:b:c\n\ndata:  d\r\rdata: e";
        assert_eq!(read(&[stream.as_bytes()]).unwrap(), ["a", "\nb:c", " d"]);
        assert_eq!(read(&[b"data: \xff\n"]), Err(EventFault::NotText));
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn events_are_the_same_wherever_the_bytes_are_cut(
            lines in prop::collection::vec("(data|: ?|event:)?[a-zé\u{feff}: ]{0,6}(\n|\r|\r\n){1,2}", 0..12),
            piece in 1usize..9,
        ) {
            let bytes = lines.concat().into_bytes();
            prop_assert_eq!(read(&bytes.chunks(piece).collect::<Vec<_>>()), read(&[&bytes]));
        }
    }

    #[test]
    fn neither_a_line_nor_an_event_without_end_is_kept() {
        let word = [b'x'; 64];
        for endless in [&word[..], b"data: and more\n", b"data: and more\r"] {
            let mut events = Events::default();
            let pushed = (0..=2 * EVENT_BYTES_MAX / endless.len()).find_map(|_| events.push(endless).err());
            assert_eq!(pushed, Some(EventFault::TooLong));
            assert!(events.line.len() + events.data.map_or(0, |data| data.len()) <= EVENT_BYTES_MAX);
        }
        // What is no data is forgotten line by line: it ends with the answer's bytes or its time.
        assert_eq!(read(&[": keep-alive\n\n".repeat(10_000).as_bytes()]).unwrap(), Vec::<String>::new());
    }
}
