//! Times as session files write them.

use std::ops::Range;

use foldback_core::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Milliseconds since the epoch, where the text is a time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let time = usual(text.as_bytes()).or_else(|| text.parse().ok())?;
    Some(Timestamp(time.as_millisecond()))
}

/// A time in the form of [`print`], which nearly all records have: every one of a long file has a time,
/// and reading any form that there is takes longer than reading the rest of a short record.
fn usual(text: &[u8]) -> Option<jiff::Timestamp> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let is_form =
        |(&byte, &form): (&u8, &u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    if !text.iter().zip(b"0000-00-00T00:00:00.000Z").all(is_form) {
        return None;
    }
    let digits =
        |range: Range<usize>| text[range].iter().fold(0, |sum, byte| sum * 10 + i16::from(byte - b'0'));
    let two = |at: usize| digits(at..at + 2) as i8;
    let nanoseconds = i32::from(digits(20..23)) * 1_000_000;
    let time = DateTime::new(digits(0..4), two(5), two(8), two(11), two(14), two(17), nanoseconds).ok()?;
    Offset::UTC.to_timestamp(time).ok()
}

/// The time with milliseconds, in UTC: `2026-11-15T08:30:00.000Z`.
pub(crate) fn print(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(time.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_printed_as_it_was_read() {
        for text in ["2026-11-15T08:30:00.000Z", "1999-12-31T23:59:59.999Z"] {
            assert_eq!(parse(text).map(print).as_deref(), Some(text));
        }
        assert_eq!(parse("2026-11-15T08:30:00+01:00"), parse("2026-11-15T07:30:00Z"));
        assert_eq!(parse("yesterday"), None);
    }

    #[test]
    fn a_time_in_the_usual_form_is_what_any_reader_makes_of_it() {
        let times = [0, 1, 951_827_696_789, 1_709_251_199_999, 1_709_164_800_000, 253_402_207_199_999, -1];
        for time in times.map(Timestamp) {
            let text = print(time);
            assert_eq!(usual(text.as_bytes()), text.parse().ok(), "{text}");
            assert_eq!(parse(&text), Some(time));
        }
        for text in ["2026-02-30T08:30:00.000Z", "2026-11-15T24:30:00.000Z", "2026-11-15T08:30:60.000Z"] {
            assert_eq!(usual(text.as_bytes()), None, "{text}");
            assert_eq!(
                parse(text),
                text.parse().ok().map(|time: jiff::Timestamp| Timestamp(time.as_millisecond()))
            );
        }
    }
}
