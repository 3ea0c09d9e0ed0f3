//! Archives of form 2: one line of JSON for each record. JSON that was recorded with line breaks kept them,
//! so a record ends with the line on which its JSON does.

/// The form of such archives.
pub(super) const FORM_OF_LINES: u32 = 2;

/// Bytes of one record: a batch of the largest items.
pub(super) const LINE_BYTES_MAX: u64 = 4 << 30;

/// Where the JSON of a record stands.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    pub(super) fn read(&mut self, json: &[u8]) {
        for byte in json {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.depth == 0 && !self.is_in_string
    }
}
