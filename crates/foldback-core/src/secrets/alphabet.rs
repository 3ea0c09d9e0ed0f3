//! The characters that keys are made of, as sets of classes; and whether a value looks drawn.

/// A set of classes of bytes.
pub(super) type Alphabet = u16;

const DIGIT: Alphabet = 1;
const LOWER_TO_F: Alphabet = 1 << 1;
const LOWER_FROM_G: Alphabet = 1 << 2;
const UPPER_TO_F: Alphabet = 1 << 3;
const UPPER_FROM_G: Alphabet = 1 << 4;
const UNDERSCORE: Alphabet = 1 << 5;
const DASH: Alphabet = 1 << 6;
const DOT: Alphabet = 1 << 7;
const PLUS_OR_SLASH: Alphabet = 1 << 8;
const EQUALS: Alphabet = 1 << 9;
const TILDE: Alphabet = 1 << 10;
const PERCENT: Alphabet = 1 << 11;

const LOWER: Alphabet = LOWER_TO_F | LOWER_FROM_G;
const UPPER: Alphabet = UPPER_TO_F | UPPER_FROM_G;

pub(super) const DIGITS: Alphabet = DIGIT;
pub(super) const HEX: Alphabet = DIGIT | LOWER_TO_F | UPPER_TO_F;
pub(super) const CAPITALS: Alphabet = DIGIT | UPPER;
pub(super) const SMALL: Alphabet = DIGIT | LOWER;
pub(super) const LETTERS: Alphabet = DIGIT | LOWER | UPPER;
/// What a word is made of, which is also base64 for addresses.
pub(super) const WORD: Alphabet = LETTERS | UNDERSCORE | DASH;
pub(super) const HEX_DASH: Alphabet = HEX | DASH;
pub(super) const BASE64: Alphabet = LETTERS | PLUS_OR_SLASH | EQUALS;
pub(super) const DOTTED: Alphabet = WORD | DOT | EQUALS;
pub(super) const DOTTED_OR_TILDE: Alphabet = DOTTED | TILDE;
pub(super) const ESCAPED: Alphabet = LETTERS | PERCENT;
pub(super) const PATH: Alphabet = WORD | PLUS_OR_SLASH;
/// What follows `Bearer`.
pub(super) const CREDENTIAL: Alphabet = WORD | DOT | PLUS_OR_SLASH | EQUALS | TILDE;

const CLASSES: [Alphabet; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => LOWER_TO_F,
            b'g'..=b'z' => LOWER_FROM_G,
            b'A'..=b'F' => UPPER_TO_F,
            b'G'..=b'Z' => UPPER_FROM_G,
            b'_' => UNDERSCORE,
            b'-' => DASH,
            b'.' => DOT,
            b'+' | b'/' => PLUS_OR_SLASH,
            b'=' => EQUALS,
            b'~' => TILDE,
            b'%' => PERCENT,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

pub(super) fn is_in(byte: u8, alphabet: Alphabet) -> bool {
    CLASSES[usize::from(byte)] & alphabet != 0
}

/// How many bytes of the alphabet stand at the beginning, counted up to `bytes_max`.
pub(super) fn run(bytes: &[u8], alphabet: Alphabet, bytes_max: usize) -> usize {
    bytes.iter().take(bytes_max).take_while(|byte| is_in(**byte, alphabet)).count()
}

/// Different characters that a drawn value has at least, and a short one; a run of `x` has fewer.
const DISTINCT_MIN: u32 = 8;
const DISTINCT_SHORT_MIN: u32 = 6;

/// Neighbours of different classes in a hundred that a value without digits has at least. In
/// names a class lasts for a word.
const CHANGES_PERCENT_MIN: usize = 40;

/// The same for a long value with a digit.
const LONG_CHANGES_PERCENT_MIN: usize = 25;
const LONG_BYTES_MIN: usize = 20;

/// The same for a value of several pieces, such as `client_id_2024`.
const PIECES_CHANGES_PERCENT_MIN: usize = 15;

/// Shorter values without digits are names of types: `EcPrivateKey`.
const WITHOUT_DIGITS_BYTES_MIN: usize = 24;

/// Whether a value looks drawn rather than written: letters and digits, many different ones.
pub(super) fn is_drawn(value: &str) -> bool {
    // Of twelve drawn characters some are the same.
    let distinct_min = DISTINCT_MIN.min((value.len() as u32 / 2 + 1).max(DISTINCT_SHORT_MIN));
    distinct_count(value) >= distinct_min
        && (has_digits_and_letters(value) || changes_percent(value) >= changes_percent_min(value))
}

/// A long value with a digit needs fewer changes to be no name.
fn changes_percent_min(value: &str) -> usize {
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    if has_digit && value.len() >= LONG_BYTES_MIN { LONG_CHANGES_PERCENT_MIN } else { CHANGES_PERCENT_MIN }
}

/// Whether a value that only its name tells of looks drawn. Names of things have digits too, at their
/// end or between underscores.
pub(super) fn is_drawn_and_no_name(value: &str) -> bool {
    let has_pieces = value.bytes().any(|byte| is_in(byte, UNDERSCORE | DASH | DOT) || byte == b':');
    let is_long = value.len() >= WITHOUT_DIGITS_BYTES_MIN;
    is_drawn(value)
        && (is_long || has_digits_and_letters(value))
        && (!has_pieces || changes_percent(value) >= PIECES_CHANGES_PERCENT_MIN)
}

/// Whether the characters of a key of a known form are different ones. Drawn ones are more often the same than
/// one would think.
pub(super) fn is_varied(value: &str) -> bool {
    distinct_count(value) >= DISTINCT_MIN.min(value.len() as u32 / 3)
}

fn has_digits_and_letters(value: &str) -> bool {
    let count = |alphabet| value.bytes().filter(|byte| is_in(*byte, alphabet)).take(2).count();
    count(DIGIT) == 2 && count(LOWER | UPPER) == 2
}

/// How often a digit, a small letter and a capital stand side by side.
fn changes_percent(value: &str) -> usize {
    let class = |byte: u8| [DIGIT, LOWER, UPPER].into_iter().position(|alphabet| is_in(byte, alphabet));
    let classes = || value.bytes().filter_map(class);
    let (count, changes) =
        (classes().count(), classes().zip(classes().skip(1)).filter(|(one, next)| one != next));
    if count < 2 { 0 } else { changes.count() * 100 / (count - 1) }
}

pub(super) fn distinct_count(value: &str) -> u32 {
    let seen = value.bytes().fold(0_u128, |seen, byte| seen | 1 << (byte & 127));
    seen.count_ones()
}
