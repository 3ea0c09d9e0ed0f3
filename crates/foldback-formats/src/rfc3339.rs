//! Times as session files write them.

use foldback_core::Timestamp;

/// Milliseconds since the epoch, where the text is a time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|time| Timestamp(time.as_millisecond()))
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
}
