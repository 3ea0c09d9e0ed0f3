//! Estimates tokens from the characters of a text, by script.
//!
//! Characters divided by four are wrong by 2 to 6 times on CJK text, bytes divided by four by a
//! third on JSON and by nearly two times on Cyrillic. This counter walks a small machine over the
//! text instead (see `table`): one pass, integers only, so every platform gives the same answer,
//! and no vocabulary to load.
//!
//! Measured against exact `o200k_base` counts (`cargo test -p foldback-core estimate_error
//! -- --nocapture` prints the table):
//!
//! | text | bytes/4 | seen: mean error | held out: mean error | worst real/estimate |
//! |---|---:|---:|---:|---:|
//! | English | +20% | 3.9% | 10.7% | 1.14 |
//! | code | +4% | 7.8% | 4.4% | 1.09 |
//! | JSON | -32% | 1.8% | 3.4% | 1.04 |
//! | Chinese | -0% | 10.1% | 10.9% | 1.16 |
//! | Japanese | +4% | 3.3% | 8.3% | 1.11 |
//! | Korean | +12% | 3.0% | 16.0% | 1.31 |
//! | Cyrillic | +80% | 14.7% | 11.1% | 1.22 |
//!
//! Errors are means over paragraphs. A few weights were corrected after a look at the seen texts;
//! the held-out ones were written afterwards and never tuned to, so they are what to expect of a
//! new text. The test holds the first under 15%, the second under 20%, and every paragraph under
//! the upper bound.
//!
//! Other vocabularies differ from `o200k_base`, some by a third: that is what
//! [`Calibration`](super::Calibration) learns from the usage that the provider reports.

mod class;
mod table;

use super::{Precision, TokenCounter};
use crate::ids::Tokens;

/// The real count is almost never above the estimate times this.
const ESTIMATE_UPPER_FACTOR: f64 = 1.35;

/// Estimates by script; loads nothing. [`CharsOver4Counter`](super::CharsOver4Counter) is the crude rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct EstimatingCounter;

impl TokenCounter for EstimatingCounter {
    fn name(&self) -> &str {
        "estimate"
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens(millitokens(text).div_ceil(1_000).max(u64::from(!text.is_empty())))
    }

    fn precision(&self) -> Precision {
        Precision::Estimate { upper_factor: ESTIMATE_UPPER_FACTOR }
    }
}

/// Texts are walked in blocks of about this many bytes, each up to a line break, so that lanes stay
/// near each other in memory.
const BLOCK_BYTES: usize = 16 * 1024;

/// Walks over one block at the same time: a walk waits for one table look-up per byte, and a
/// processor can wait for several at once.
const LANE_COUNT: usize = 4;

/// Below this many bytes a block is not worth dividing into lanes.
const LANES_BYTES_MIN: usize = 256;

/// Bytes searched for a place to begin a lane.
const LANE_SEARCH_BYTES_MAX: usize = 1024;

/// Adds up the machine's steps. Line breaks lead to one state from everywhere, so text can be cut
/// behind any of them without changing the sum.
fn millitokens(text: &str) -> u64 {
    if text.len() < LANES_BYTES_MIN {
        return walk_alone(text);
    }
    let mut rest = text;
    let mut sum = 0;
    while !rest.is_empty() {
        let found = rest.as_bytes().get(BLOCK_BYTES..).and_then(|after| memchr::memchr(b'\n', after));
        let (block, after) = rest.split_at(found.map_or(rest.len(), |index| BLOCK_BYTES + index + 1));
        sum += Lanes::of(block).walk();
        rest = after;
    }
    sum
}

/// Walks over a text that is not worth dividing.
fn walk_alone(text: &str) -> u64 {
    let Some(&first) = text.as_bytes().first() else { return 0 };
    let mut walk = Walk::from(table::LINE_START);
    let mut sum = walk.byte(u16::from(first) << 8, || character_at(text, 0));
    for (index, &pair) in text.as_bytes().array_windows::<2>().enumerate() {
        sum += walk.byte(u16::from_le_bytes(pair), || character_at(text, index + 1));
    }
    sum
}

/// Where a walk is: the state's row in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    row: u32,
}

impl Walk {
    fn from(state: u8) -> Self {
        Self { row: u32::from(state) * class::CLASS_COUNT as u32 }
    }

    /// Goes on by a character of this class; what it adds.
    #[inline(always)]
    fn class(&mut self, class: u8) -> u64 {
        let index = (self.row as usize + usize::from(class)) & (table::TABLE_LEN - 1);
        let step = table::STEPS[index];
        self.row = step & 0xFFFF;
        u64::from(step >> 16)
    }

    /// Goes on by an ASCII byte, given with the byte before it in the lower half.
    #[inline(always)]
    fn ascii(&mut self, pair: u16) -> u64 {
        self.class(class::PAIRS[usize::from(pair) & (class::PAIRS.len() - 1)])
    }

    /// Goes on by any byte; `character` tells which character begins there.
    #[inline(always)]
    fn byte(&mut self, pair: u16, character: impl FnOnce() -> char) -> u64 {
        match pair >> 8 {
            0..0x80 => self.ascii(pair),
            // A character counts where it begins.
            0x80..0xC0 => 0,
            _ => self.class(class::beyond_ascii(character())),
        }
    }
}

/// A block divided into lanes.
struct Lanes<'t> {
    text: &'t str,
    /// Where each lane begins; never at the first byte, which has none before it.
    starts: [usize; LANE_COUNT],
    /// Each lane with the byte before it.
    bytes: [&'t [u8]; LANE_COUNT],
    walks: [Walk; LANE_COUNT],
    /// What the first byte added.
    sum: u64,
}

impl<'t> Lanes<'t> {
    /// Divides a block, which is not empty.
    fn of(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let mut walks = [Walk::from(table::LINE_START); LANE_COUNT];
        let sum = walks[0].byte(u16::from(bytes[0]) << 8, || character_at(text, 0));
        let mut starts = [bytes.len(); LANE_COUNT];
        starts[0] = 1;
        if bytes.len() >= LANES_BYTES_MIN {
            for lane in 1..LANE_COUNT {
                let from = (bytes.len() * lane / LANE_COUNT).max(starts[lane - 1]);
                let Some((start, walk)) = lane_start(bytes, from) else { break };
                (starts[lane], walks[lane]) = (start, walk);
            }
        }
        let end_of = |lane: usize| starts.get(lane + 1).copied().unwrap_or(bytes.len());
        let bytes = std::array::from_fn(|lane| &bytes[starts[lane] - 1..end_of(lane)]);
        Self { text, starts, bytes, walks, sum }
    }

    /// Walks all lanes, as far as the shortest goes together.
    fn walk(self) -> u64 {
        let Self { text, starts, bytes, walks, mut sum } = self;
        let shared_len = bytes.iter().map(|lane| lane.len()).min().unwrap_or(0);
        let [mut one, mut two, mut three, mut four] = walks;
        let [a, b, c, d] = bytes.map(|lane| lane[..shared_len].array_windows::<2>());
        for (index, (((&a, &b), &c), &d)) in a.zip(b).zip(c).zip(d).enumerate() {
            let (a, b) = (u16::from_le_bytes(a), u16::from_le_bytes(b));
            let (c, d) = (u16::from_le_bytes(c), u16::from_le_bytes(d));
            if (a | b | c | d) < 0x8000 {
                sum += one.ascii(a) + two.ascii(b) + three.ascii(c) + four.ascii(d);
            } else {
                sum += one.byte(a, || character_at(text, starts[0] + index));
                sum += two.byte(b, || character_at(text, starts[1] + index));
                sum += three.byte(c, || character_at(text, starts[2] + index));
                sum += four.byte(d, || character_at(text, starts[3] + index));
            }
        }
        let walked = shared_len.saturating_sub(1);
        for ((mut walk, lane), start) in [one, two, three, four].into_iter().zip(bytes).zip(starts) {
            for (index, &pair) in lane[walked..].array_windows::<2>().enumerate() {
                sum += walk.byte(u16::from_le_bytes(pair), || character_at(text, start + walked + index));
            }
        }
        sum
    }
}

/// The character that begins at a place in a text.
fn character_at(text: &str, at: usize) -> char {
    text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The first place at or after `offset` where the machine's state is known without walking there.
fn lane_start(text: &[u8], offset: usize) -> Option<(usize, Walk)> {
    let end = text.len().min(offset + LANE_SEARCH_BYTES_MAX);
    text.get(offset..end)?.array_windows().enumerate().find_map(|(index, &[first, second])| {
        let state = state_after(first, second)?;
        Some((offset + index + 2, Walk::from(state)))
    })
}

/// The state after two bytes, if it is the same whatever came before them.
fn state_after(first: u8, second: u8) -> Option<u8> {
    use class::{DIGIT, JOINER, LOWER, NEWLINE, SPACE, SYMBOL};
    let class_of = |byte: u8| class::ASCII.get(usize::from(byte)).copied();
    match (class_of(first)?, class_of(second)?) {
        (_, NEWLINE) => Some(table::LINE_START),
        (LOWER..=DIGIT | JOINER..=SYMBOL, SPACE) => Some(table::SPACE_ONE),
        (JOINER..=SYMBOL, JOINER..=SYMBOL) => Some(table::SYMBOLS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Walks character by character.
    fn walk(text: &str) -> u64 {
        let mut walk = Walk::from(table::LINE_START);
        let mut previous = 0;
        let mut sum = 0;
        for character in text.chars() {
            let byte = u8::try_from(character).ok().filter(u8::is_ascii);
            sum += match byte {
                Some(byte) => walk.ascii(pair(previous, byte)),
                None => walk.class(class::beyond_ascii(character)),
            };
            previous = byte.unwrap_or(0);
        }
        sum
    }

    fn pair(previous: u8, byte: u8) -> u16 {
        u16::from_le_bytes([previous, byte])
    }

    fn count(text: &str) -> u64 {
        EstimatingCounter.count(text).0
    }

    #[test]
    fn nothing_costs_nothing_and_anything_costs_at_least_one() {
        assert_eq!(count(""), 0);
        for text in [" ", "\n", "a", "\u{0}", "、", "🙂", "\u{10FFFF}"] {
            assert!(count(text) >= 1, "{text:?}");
        }
    }

    #[test]
    fn chinese_costs_far_more_than_a_quarter_of_its_characters() {
        let text = "上下文窗口快满的时候,需要把旧的内容折叠起来。";
        let characters = text.chars().count() as u64;
        assert!(count(text) * 10 > characters * 6, "{} for {characters} characters", count(text));
    }

    #[test]
    fn a_hash_costs_more_than_twice_the_words_of_its_length() {
        let hash = "9f86d081884c7d659a2feaa0c55ad0";
        let words = "the window is full, fold older";
        assert_eq!(hash.len(), words.len());
        assert!(count(hash) > 2 * count(words), "{} and {}", count(hash), count(words));
    }

    #[test]
    fn walking_in_lanes_changes_nothing() {
        let line = "    let total = items.iter().map(|item| item.tokens()).sum::<u64>(); // 0x1f3a\n";
        let text = line.repeat(2 * BLOCK_BYTES / line.len());
        let json = r#"{"path":"src/lib.rs","lines":[1,22,333],"ok":true},"#.repeat(200);
        for text in [&text, &text[..BLOCK_BYTES + 7], &text.replace('\n', " "), &json, &"x".repeat(9_000)] {
            assert_eq!(millitokens(text), walk(text));
        }
    }

    #[test]
    fn a_lane_begins_in_the_state_that_every_walk_reaches_there() {
        for (first, second) in (0..128).flat_map(|first| (0..128).map(move |second| (first, second))) {
            let Some(known) = state_after(first, second) else { continue };
            for state in 0..table::STATE_COUNT as u8 {
                for previous in [0, first] {
                    let mut walk = Walk::from(state);
                    walk.ascii(pair(previous, first));
                    walk.ascii(pair(first, second));
                    assert_eq!(walk, Walk::from(known), "{first} {second} from {state}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn a_prefix_never_costs_more_than_the_whole(text in "\\PC{0,80}|[a-zA-Z0-9_. \n\t\"{}-]{0,200}") {
            let whole = count(&text);
            let mut before = 0;
            for (end, _) in text.char_indices() {
                let prefix = count(&text[..end]);
                prop_assert!(before <= prefix && prefix <= whole, "{:?}", &text[..end]);
                before = prefix;
            }
        }

        #[test]
        fn lanes_and_lines_add_up_to_one_walk(
            text in "([a-zA-Z0-9_.,é中\t{}: \"-]{0,40}\r?\n{1,2}){0,60}"
        ) {
            prop_assert_eq!(millitokens(&text), walk(&text));
            let repeated = text.repeat(8);
            prop_assert_eq!(millitokens(&repeated), walk(&repeated));
            let unbroken = text.replace(['\r', '\n', 'é', '中'], "").repeat(3);
            prop_assert_eq!(millitokens(&unbroken), walk(&unbroken));
            let by_line: u64 = text.split_inclusive('\n').map(walk).sum();
            prop_assert_eq!(by_line, walk(&text));
        }
    }
}
