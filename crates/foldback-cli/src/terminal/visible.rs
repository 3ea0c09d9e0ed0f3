//! Text as a terminal may have it: what would move the cursor, change colours, turn a line around or not be
//! seen at all stands there as an escape. Styles of foldback's own pass, because they carry a number that no
//! content can know: it is drawn anew for each run.

use std::borrow::Cow;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use anstyle::Style;
use regex::Regex;

/// What begins a style, before it is sealed.
const CSI: &str = "\u{1b}[";

/// What begins a style of this program.
static SEAL: LazyLock<String> =
    LazyLock::new(|| format!("{CSI}{};", RandomState::new().hash_one(std::process::id())));

/// Controls, line and paragraph separators, and whatever shows nothing itself: joiners, marks of direction,
/// selectors, tags, fillers, soft hyphens. Marks in front of Arabic numbers are seen.
static HIDDEN: LazyLock<Regex> = LazyLock::new(|| {
    let all = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]";
    let shown = r"[\n\t\p{Prepended_Concatenation_Mark}]";
    Regex::new(&format!("[{all}--{shown}]")).expect("the classes are valid")
});

/// The escapes of hidden characters stand in reverse, so that nobody takes them for the same letters typed.
const REVERSE: &str = "7";
const FORWARD: &str = "27";

/// The text in a style of foldback's own.
pub(super) fn sealed(style: Style, text: impl std::fmt::Display) -> String {
    format!("{}{text}{}", adopted(&style.to_string()), adopted(&style.render_reset().to_string()))
}

/// Text that foldback or its libraries wrote themselves, whose styles may pass.
pub(super) fn adopted(own: &str) -> String {
    own.replace(CSI, &SEAL)
}

/// The text for a terminal. `previous` is the character that is shown before it.
pub(super) fn shown(previous: Option<char>, text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut done = 0;
    for found in HIDDEN.find_iter(text) {
        let (at, rest) = (found.start(), &text[found.start()..]);
        let before = text[..at].chars().next_back().or(previous);
        let c = rest.chars().next().unwrap_or_default();
        if joins(before, c) {
            continue;
        }
        shown.push_str(&text[done..at]);
        done = found.end();
        match rest.strip_prefix(SEAL.as_str()).and_then(|rest| rest.split_once('m')) {
            Some((style, after)) => {
                done = text.len() - after.len();
                // Writing into a string cannot fail.
                let _ = write!(shown, "{CSI}{style}m");
            }
            // The end of a line, as some systems write it.
            None if rest.starts_with("\r\n") => {}
            None => {
                let _ = write!(shown, "{CSI}{REVERSE}m{}{CSI}{FORWARD}m", c.escape_default());
            }
        }
    }
    if done == 0 {
        return text.into();
    }
    shown.push_str(&text[done..]);
    shown.into()
}

/// Whether a character that shows nothing does its work in a script or an emoji, behind something that is
/// seen and no ASCII. A second one in a row would have no work to do.
fn joins(before: Option<char>, c: char) -> bool {
    const EMOJI_STYLE: char = '\u{fe0f}';
    let Some(before) = before.filter(|before| !before.is_ascii()) else { return false };
    match c {
        '\u{200c}' | '\u{200d}' => before == EMOJI_STYLE || !is_hidden(before),
        '\u{fe00}'..='\u{fe0f}' => !is_hidden(before),
        _ => false,
    }
}

fn is_hidden(c: char) -> bool {
    HIDDEN.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Text from elsewhere on one line, with everything that is hidden in it as escapes.
pub(crate) fn harmless(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c == '\n' || c == '\t' || is_hidden(c) {
            true => {
                let _ = write!(line, "{}{REVERSE}m{}{}{FORWARD}m", *SEAL, c.escape_default(), *SEAL);
            }
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;
    use proptest::prelude::*;

    fn plain(text: &str) -> String {
        strip_str(&shown(None, text)).to_string()
    }

    #[test]
    fn nothing_from_elsewhere_gives_a_terminal_an_order() {
        let hostile = "é\u{1b}[2J\u{9b}1m\u{202e}x\u{7f}\u{200b}\u{e0041}\u{ad}\u{2028}\rz\u{3164}";
        let seen = "é\\u{1b}[2J\\u{9b}1m\\u{202e}x\\u{7f}\\u{200b}\\u{e0041}\\u{ad}\\u{2028}\\rz\\u{3164}";
        assert_eq!(plain(hostile), seen);
        assert_eq!(plain("\u{1b}]0;title\u{7}"), "\\u{1b}]0;title\\u{7}");
    }

    #[test]
    fn a_style_of_content_is_no_style_of_ours() {
        let text = sealed(Style::new().bold(), "\u{1b}[8mhidden\u{1b}[0m");
        assert_eq!(plain(&text), "\\u{1b}[8mhidden\\u{1b}[0m");
        assert!(shown(None, &text).starts_with("\u{1b}[1m\u{1b}[7m\\u{1b}"), "{text:?}");
        assert_eq!(shown(None, "no styles"), "no styles");
    }

    #[test]
    fn lines_tabs_scripts_and_emoji_are_shown_as_they_are() {
        for fine in ["a\n\tb", "👩‍💻 ❤️‍🔥 ✔️", "می‌خواهم", "क्‍ष", "עברית", "\u{600}12"]
        {
            assert_eq!(shown(None, fine), fine);
        }
        assert_eq!(shown(None, "one\r\ntwo"), "one\ntwo");
        for smuggled in ["r\u{200d}m", "👩\u{200d}\u{200d}", "é\u{fe01}\u{fe02}", "\u{200d}x"] {
            assert_ne!(shown(None, smuggled), smuggled);
        }
        assert_eq!(shown(Some('👩'), "\u{200d}💻"), "\u{200d}💻");
    }

    #[test]
    fn what_stands_on_one_line_is_escaped_once() {
        let line = harmless("é\u{1b}[2J\n\t\u{9b}1m\u{202e}x👩\u{200d}");
        assert_eq!(plain(&line), "é\\u{1b}[2J\\n\\t\\u{9b}1m\\u{202e}x👩\\u{200d}");
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn only_our_styles_are_left_of_any_text(
            texts in proptest::collection::vec("[\\x00-\\x20\\x7f-\\x9f\\[\\];m0-9\u{202e}\u{200d}é👩]*", 0..4)
        ) {
            let styled: String = texts.iter().map(|text| sealed(Style::new().bold(), text)).collect();
            let seen = shown(None, &styled).replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
            let seen = seen.replace("\u{1b}[7m", "").replace("\u{1b}[27m", "");
            prop_assert!(!seen.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{seen:?}");
        }
    }
}
