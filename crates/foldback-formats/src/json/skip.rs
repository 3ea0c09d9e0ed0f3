//! Over values that nobody asked for: what is skipped is JSON, and that is all that is found out.

use super::marks::Marks;

/// Containers within each other that are followed, one bit for each.
const DEPTH_MAX: u32 = 100;

/// A place in JSON that has no control characters.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    /// The next byte.
    pub(super) at: usize,
    marks: Marks<'a>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, marks: Marks::of(bytes) }
    }

    /// Goes to the next quote or backslash, and tells which it is.
    #[inline(always)]
    pub(super) fn go_to_mark(&mut self) -> Option<u8> {
        self.at = self.marks.next(self.at)?;
        self.bytes.get(self.at).copied()
    }

    /// Goes over one value, with the spaces before it.
    pub(super) fn skip_value(&mut self) -> Option<()> {
        // A bit is set where the container is an object.
        let (mut objects, mut depth) = (0_u128, 0_u32);
        loop {
            match self.next()? {
                b'"' => self.string()?,
                open @ (b'{' | b'[') => {
                    let is_object = open == b'{';
                    if !self.closes(is_object)? {
                        depth += 1;
                        if depth > DEPTH_MAX {
                            return None;
                        }
                        objects = objects << 1 | u128::from(is_object);
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                first => self.number(first)?,
            }
            // A value is over: whatever it ends goes with it.
            loop {
                if depth == 0 {
                    return Some(());
                }
                let is_object = objects & 1 == 1;
                match self.next()? {
                    b',' if is_object => {
                        self.key()?;
                        break;
                    }
                    b',' => break,
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ => return None,
                }
                (objects, depth) = (objects >> 1, depth - 1);
            }
        }
    }

    /// The next byte that is no space, taken.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            if byte != b' ' {
                return Some(byte);
            }
        }
    }

    /// Whether a container that was just opened is empty; then it is closed, too.
    fn closes(&mut self, is_object: bool) -> Option<bool> {
        let opened_at = self.at;
        let is_empty = self.next()? == if is_object { b'}' } else { b']' };
        if !is_empty {
            self.at = opened_at;
        }
        Some(is_empty)
    }

    fn key(&mut self) -> Option<()> {
        if self.next()? != b'"' {
            return None;
        }
        self.string()?;
        (self.next()? == b':').then_some(())
    }

    /// Goes over the rest of a string whose opening quote was taken.
    fn string(&mut self) -> Option<()> {
        loop {
            if self.go_to_mark()? == b'"' {
                self.at += 1;
                return Some(());
            }
            match self.bytes.get(self.at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                b'u' => {
                    hex(self.bytes.get(self.at + 2..self.at + 6)?)?;
                    self.at += 6;
                }
                _ => return None,
            }
        }
    }

    fn word(&mut self, rest: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(rest).then_some(())?;
        self.at += rest.len();
        Some(())
    }

    fn number(&mut self, first: u8) -> Option<()> {
        let first = match first {
            b'-' => {
                self.at += 1;
                *self.bytes.get(self.at - 1)?
            }
            first => first,
        };
        match first {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        // A digit behind a leading zero is no number.
        (!self.bytes.get(self.at).is_some_and(u8::is_ascii_digit)).then_some(())
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Option<()> {
        let start = self.at;
        self.digits();
        (self.at > start).then_some(())
    }
}

/// Four hexadecimal digits.
pub(super) fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))
}
