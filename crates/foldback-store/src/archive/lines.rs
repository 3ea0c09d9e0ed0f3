//! Archives of form 2: one line of JSON for each record. JSON that was recorded with line breaks kept them,
//! so a record ends with the line on which its JSON does.

/// The form of such archives.
pub(super) const FORM_OF_LINES: u32 = 2;

/// Where the JSON of a record stands.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// Objects that were begun.
    object_count: usize,
}

impl Nesting {
    pub(super) fn read(&mut self, json: &[u8]) {
        for byte in json {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => {
                    self.depth += 1;
                    self.object_count += usize::from(*byte == b'{');
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// How many objects there are in some JSON.
    pub(super) fn object_count(json: &[u8]) -> usize {
        let mut nesting = Self::default();
        nesting.read(json);
        nesting.object_count
    }

    pub(super) fn is_closed(&self) -> bool {
        self.depth == 0 && !self.is_in_string
    }
}
