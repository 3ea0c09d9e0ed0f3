//! Names of records. They are compared very often, and the bytes of a long file are far away: a uuid in
//! its usual form is kept as the number that it is.

use foldback_core::Text;

/// What a record is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Uuid(u128),
    /// Anything that is no uuid in its usual form.
    Text(Box<str>),
}

/// A name to look up: two are equal where their texts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'n> {
    Uuid(u128),
    Text(&'n str),
}

impl Name {
    pub(super) fn new(text: &str) -> Self {
        uuid(text).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }

    pub(super) fn key(&self) -> Key<'_> {
        match self {
            Self::Uuid(number) => Key::Uuid(*number),
            Self::Text(text) => Key::Text(text),
        }
    }

    pub(super) fn to_text(&self) -> Text {
        match self {
            Self::Uuid(number) => {
                let digits = format!("{number:032x}");
                let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
                groups.join("-").into()
            }
            Self::Text(text) => Text::from(&**text),
        }
    }
}

impl<'n> From<&'n str> for Key<'n> {
    fn from(text: &'n str) -> Self {
        uuid(text).map_or(Self::Text(text), Self::Uuid)
    }
}

/// Marks bytes that are no digits of uuids.
const NO_DIGIT: u8 = 0x80;

/// What each byte is worth as a digit.
static DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

/// The number that a uuid writes, where it is written in lower case, with its four dashes.
fn uuid(text: &str) -> Option<u128> {
    let bytes: &[u8; 36] = text.as_bytes().try_into().ok()?;
    if [8, 13, 18, 23].iter().any(|&dash| bytes[dash] != b'-') {
        return None;
    }
    // What is no digit shows once, at the end.
    let mut seen = 0;
    let mut digits = |range: std::ops::Range<usize>| {
        bytes[range].iter().fold(0_u64, |number, &byte| {
            let digit = DIGITS[usize::from(byte)];
            seen |= digit;
            number << 4 | u64::from(digit & 0xF)
        })
    };
    let high = digits(0..8) << 32 | digits(9..13) << 16 | digits(14..18);
    let low = digits(19..23) << 48 | digits(24..36);
    if seen & NO_DIGIT != 0 {
        return None;
    }
    Some(u128::from(high) << 64 | u128::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_equal_where_their_texts_are_and_nowhere_else() {
        let texts = [
            "01234567-89ab-cdef-0123-456789abcdef",
            "01234567-89ab-cdef-0123-456789abcdee",
            "01234567-89AB-cdef-0123-456789abcdef",
            "0123456789ab-cdef-0123-456789abcdef0",
            "01234567-89ab-cdef-0123-456789abcde",
            "01234567-89ab-cdef-0123+456789abcdef",
            "a",
            "",
        ];
        for one in texts {
            for other in texts {
                let names = (Name::new(one), Name::new(other));
                assert_eq!(names.0 == names.1, one == other, "{one} {other}");
                assert_eq!(Key::from(one) == names.1.key(), one == other, "{one} {other}");
            }
        }
        assert!(texts.iter().all(|text| &*Name::new(text).to_text() == *text));
        assert_eq!(uuid(texts[0]), Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        assert!(texts[2..].iter().all(|text| uuid(text).is_none()));
    }
}
