//! What kind of character it is, as far as tokenizers treat it differently.

/// `a` to `z`.
pub(super) const LOWER: u8 = 0;
/// `A` to `Z`.
pub(super) const UPPER: u8 = 1;
/// `0` to `9`.
pub(super) const DIGIT: u8 = 2;
/// A space.
pub(super) const SPACE: u8 = 3;
/// A tab.
pub(super) const TAB: u8 = 4;
/// A line feed or a carriage return.
pub(super) const NEWLINE: u8 = 5;
/// `_` and `.`: cheap, and mostly one token with the word that follows.
pub(super) const JOINER: u8 = 6;
/// `-`, `=`, `*`, `#` and `~`: in front of a word like a joiner, seldom merged with other symbols.
pub(super) const DASH: u8 = 7;
/// `,`, `:` and `;`.
pub(super) const COMMA: u8 = 8;
/// Slashes, quotes and opening brackets.
pub(super) const OPEN: u8 = 9;
/// Closing brackets and backslashes.
pub(super) const CLOSE: u8 = 10;
/// Every other ASCII symbol.
pub(super) const SYMBOL: u8 = 11;
/// The same ASCII symbol as the one before it.
pub(super) const SAME: u8 = 12;
/// ASCII control characters.
pub(super) const CONTROL: u8 = 13;
/// The first of the classes beyond ASCII; see [`beyond_ascii`].
pub(super) const SCRIPT_FIRST: u8 = 14;
/// Latin letters beyond ASCII.
pub(super) const LATIN: u8 = SCRIPT_FIRST;
/// How many classes lie beyond ASCII.
pub(super) const SCRIPT_COUNT: usize = 18;
/// How many classes there are.
pub(super) const CLASS_COUNT: usize = SCRIPT_FIRST as usize + SCRIPT_COUNT;

/// The class of an ASCII byte that differs from the byte before it; see also [`PAIRS`].
pub(super) static ASCII: [u8; 128] = ascii_classes();

const fn ascii_classes() -> [u8; 128] {
    let mut classes = [CONTROL; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b' ' => SPACE,
            b'\t' => TAB,
            b'\n' | b'\r' => NEWLINE,
            b'_' | b'.' => JOINER,
            b'-' | b'=' | b'*' | b'#' | b'~' => DASH,
            b',' | b':' | b';' => COMMA,
            b'/' | b'"' | b'\'' | b'`' | b'{' | b'[' | b'(' | b'<' => OPEN,
            b'}' | b']' | b')' | b'>' | b'\\' => CLOSE,
            b'!'..=b'~' => SYMBOL,
            _ => CONTROL,
        };
        byte += 1;
    }
    classes
}

/// The class of an ASCII byte together with the byte before it, whatever that is: at
/// `byte * 256 + previous`. Few pairs are common, so that few of the entries are ever touched.
pub(super) static PAIRS: [u8; 128 * 256] = pair_classes();

const fn pair_classes() -> [u8; 128 * 256] {
    let ascii = ascii_classes();
    let mut classes = [CONTROL; 128 * 256];
    let mut pair = 0;
    while pair < classes.len() {
        let (byte, previous) = (pair / 256, pair % 256);
        let is_symbol = ascii[byte] >= JOINER && ascii[byte] <= SYMBOL;
        classes[pair] = if is_symbol && byte == previous { SAME } else { ascii[byte] };
        pair += 1;
    }
    classes
}

/// The class of a character beyond ASCII. The order is that of the weights in `table`.
pub(super) fn beyond_ascii(character: char) -> u8 {
    let script = match u32::from(character) {
        0xAA | 0xBA | 0xC0..=0x24F | 0x1E00..=0x1EFF => 0, // Latin
        0x400..=0x52F => 1,                                // Cyrillic
        0x370..=0x3FF | 0x1F00..=0x1FFF => 2,              // Greek
        0x600..=0x6FF | 0x750..=0x77F | 0xFB50..=0xFDFF | 0xFE70..=0xFEFE => 3, // Arabic
        0x590..=0x5FF => 4,                                // Hebrew
        0x900..=0xDFF => 5,                                // Devanagari and its relatives
        0xE00..=0xEFF => 6,                                // Thai, Lao
        0x4E00..=0x9FFF => 7,                              // Han
        0x3040..=0x309F => 8,                              // Hiragana
        0x30A0..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F => 9, // Katakana
        0xAC00..=0xD7AF => 10,                             // Hangul
        0x3000..=0x303F | 0xFF00..=0xFF65 => 11,           // full-width punctuation
        0x80..=0xBF | 0x2010..=0x205E => 12,               // dashes, quotes, signs
        0x2100..=0x2BFF => 13,                             // arrows, mathematics, boxes, dingbats
        0x1F3FB..=0x1F3FF | 0x200B..=0x200F | 0xFE00..=0xFE0F => 15, // emoji modifiers, joiners
        0x1F000..=0x1FAFF => 14,                           // emoji
        0x250..=0x36F | 0x530..=0x58F | 0x1000..=0x109F | 0x10A0..=0x10FF => 16, // other letters
        0x1200..=0x139F | 0x1780..=0x17FF | 0x2C00..=0x2DFF => 16,
        _ => 17, // rare: mostly one token for each byte or two
    };
    SCRIPT_FIRST + script
}
