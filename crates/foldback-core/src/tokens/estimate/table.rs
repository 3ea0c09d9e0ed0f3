//! The machine behind the estimate: for each state and class, what the character adds and where
//! the machine goes next.
//!
//! States follow how byte-pair tokenizers split text before merging: a word takes the one space or
//! symbol in front of it along, digits go in threes, runs of symbols and of white space stay
//! together. Every character adds zero or more, never less, so a prefix cannot cost more than the
//! whole. A line break leads to [`LINE_START`] from everywhere, so lines can be counted apart.

use super::class::{
    CLASS_COUNT, CLOSE, COMMA, CONTROL, DASH, DIGIT, JOINER, LATIN, LOWER, NEWLINE, OPEN, SAME, SCRIPT_COUNT,
    SCRIPT_FIRST, SPACE, SYMBOL, TAB, UPPER,
};

/// Weights in thousandths of a token, fitted to `o200k_base` by least relative squares on prose,
/// code, data and translated messages; words, Cyrillic and Han then corrected by hand for prose.
mod weight {
    pub(super) const WORD_AFTER_SPACE: u16 = 640;
    pub(super) const WORD_AFTER_JOINER: u16 = 185;
    pub(super) const WORD_AFTER_SYMBOL: u16 = 397;
    pub(super) const WORD_ALONE: u16 = 740;
    pub(super) const LETTERS_2_TO_4: u16 = 0;
    pub(super) const LETTERS_5_TO_8: u16 = 256;
    pub(super) const LETTERS_9_UP: u16 = 449;
    pub(super) const CAPITAL_SECOND: u16 = 315;
    pub(super) const CAPITAL_LATER: u16 = 131;
    pub(super) const LOWER_AFTER_CAPITALS: u16 = 397;
    pub(super) const LETTER_AFTER_DIGIT: u16 = 966;
    pub(super) const RANDOM_RUN: u16 = 929;
    pub(super) const RANDOM_LOWER: u16 = 492;
    pub(super) const RANDOM_CAPITAL: u16 = 797;
    pub(super) const DIGITS_AFTER_SPACE: u16 = 2011;
    pub(super) const DIGITS: u16 = 1130;
    pub(super) const DIGITS_NEXT_THREE: u16 = 930;
    pub(super) const SPACE_FIRST: u16 = 39;
    pub(super) const SPACE_SECOND: u16 = 1143;
    pub(super) const SPACE_LATER: u16 = 8;
    pub(super) const TAB_FIRST: u16 = 833;
    pub(super) const TAB_LATER: u16 = 43;
    pub(super) const LINE_BREAK: u16 = 1034;
    pub(super) const LINE_BREAK_AGAIN: u16 = 178;
    pub(super) const SYMBOL_AFTER_SPACE: u16 = 931;
    pub(super) const SYMBOL_HEAVY: u16 = 928;
    pub(super) const SYMBOL_LIGHT: u16 = 795;
    pub(super) const SYMBOL_NEXT: u16 = 108;
    pub(super) const SYMBOL_NEXT_ODD: u16 = 546;
    pub(super) const SYMBOL_REPEATED: u16 = 103;
    pub(super) const CONTROL: u16 = 1498;
    pub(super) const ACCENT_IN_WORD: u16 = 787;
    pub(super) const LETTER_AFTER_ACCENT: u16 = 283;

    /// First character of a run, the second and third, and all later ones, by class.
    pub(super) const SCRIPTS: [[u16; 3]; super::SCRIPT_COUNT] = [
        [945, 81, 341],     // Latin
        [960, 320, 70],     // Cyrillic
        [926, 287, 290],    // Greek
        [830, 148, 318],    // Arabic
        [908, 265, 266],    // Hebrew
        [767, 172, 434],    // Devanagari
        [909, 268, 406],    // Thai
        [1000, 735, 730],   // Han
        [735, 528, 522],    // Hiragana
        [909, 567, 568],    // Katakana
        [972, 595, 516],    // Hangul
        [959, 608, 608],    // full-width punctuation
        [1069, 259, 278],   // dashes, quotes, signs
        [1250, 670, 336],   // arrows, boxes
        [2040, 1641, 1641], // emoji
        [1392, 1392, 1392], // emoji modifiers
        [901, 245, 280],    // other letters
        [3031, 2509, 2500], // rare
    ];
}

/// The state after a line break, and the one to begin with.
pub(super) const LINE_START: u8 = 0;
const INDENT_FIRST: u8 = 1;
const INDENT: u8 = 2;
/// After one space that follows a word or a symbol.
pub(super) const SPACE_ONE: u8 = 3;
const SPACES: u8 = 4;
const TABS: u8 = 5;
/// One joiner, dash or comma that a word may take along.
const ONE_JOINER: u8 = 6;
/// One other symbol that a word may take along.
const ONE_SYMBOL: u8 = 7;
/// Symbols that the word after them does not take along.
pub(super) const SYMBOLS: u8 = 8;
const CONTROLS: u8 = 9;
/// How often letters, short words and digits took turns since the last space or symbol. From
/// [`MIX_MAX`] on it is a hash, an id or base64, where tokens are two or three characters.
const MIX_MAX: u8 = 3;
const MIX_COUNT: u8 = MIX_MAX + 1;
/// `DIGITS + mix * 3 + position in the group of three`.
const DIGITS: u8 = 10;
const DIGITS_END: u8 = DIGITS + MIX_COUNT * 3;
/// `LOWERS + mix * LETTERS_MAX + letters so far - 1`.
const LOWERS: u8 = DIGITS_END;
const LETTERS_MAX: u8 = 8;
const LOWERS_END: u8 = LOWERS + MIX_COUNT * LETTERS_MAX;
/// `CAPITALS + mix * 2`, plus one from the second capital on.
const CAPITALS: u8 = LOWERS_END;
const CAPITALS_END: u8 = CAPITALS + MIX_COUNT * 2;
/// `SCRIPTS + script * 3 + characters so far - 1`, at most 2.
const SCRIPTS: u8 = CAPITALS_END;
pub(super) const STATE_COUNT: usize = SCRIPTS as usize + SCRIPT_COUNT * 3;

/// A short word before a capital, as in base64; longer ones are words of an identifier.
const SHORT_WORD_LETTERS: u8 = 2;

/// Entries of the tables: a power of two, so that masking an index proves it is in range.
pub(super) const TABLE_LEN: usize = (STATE_COUNT * CLASS_COUNT).next_power_of_two();

/// What a character does, at `state * CLASS_COUNT + class`. The upper half is what it adds, in
/// thousandths of a token, the lower half where the machine goes next, as `state * CLASS_COUNT`:
/// one look-up brings both.
pub(super) static STEPS: [u32; TABLE_LEN] = steps();

const fn steps() -> [u32; TABLE_LEN] {
    let mut steps = [0; TABLE_LEN];
    let mut state = 0;
    while state < STATE_COUNT {
        let mut class = 0;
        while class < CLASS_COUNT {
            let (to, added) = step(state as u8, class as u8);
            let row = to as u16 * CLASS_COUNT as u16;
            steps[state * CLASS_COUNT + class] = (added as u32) << 16 | row as u32;
            class += 1;
        }
        state += 1;
    }
    steps
}

/// Where `class` leads from `state`, and what it adds.
const fn step(state: u8, class: u8) -> (u8, u16) {
    match class {
        LOWER => lower(state),
        UPPER => upper(state),
        DIGIT => digit(state),
        SPACE => match state {
            SPACE_ONE | TABS => (SPACES, weight::SPACE_SECOND),
            INDENT_FIRST => (INDENT, weight::SPACE_SECOND),
            SPACES | INDENT => (state, weight::SPACE_LATER),
            LINE_START => (INDENT_FIRST, 0),
            _ => (SPACE_ONE, weight::SPACE_FIRST),
        },
        TAB => (TABS, if state == TABS { weight::TAB_LATER } else { weight::TAB_FIRST }),
        NEWLINE => match state {
            LINE_START => (LINE_START, weight::LINE_BREAK_AGAIN),
            // Symbols take the line breaks behind them along.
            ONE_JOINER..=SYMBOLS => (LINE_START, 0),
            _ => (LINE_START, weight::LINE_BREAK),
        },
        SAME => (SYMBOLS, weight::SYMBOL_REPEATED),
        CONTROL => (CONTROLS, weight::CONTROL),
        JOINER..=SYMBOL => symbol(state, class),
        SCRIPT_FIRST.. => script(state, class),
    }
}

const fn lowers(mix: u8, letters: u8) -> u8 {
    LOWERS + mix * LETTERS_MAX + if letters > LETTERS_MAX { LETTERS_MAX } else { letters } - 1
}

const fn capitals(mix: u8, letters: u8) -> u8 {
    CAPITALS + mix * 2 + if letters > 1 { 1 } else { 0 }
}

const fn more_mixed(mix: u8) -> u8 {
    if mix < MIX_MAX { mix + 1 } else { MIX_MAX }
}

const fn lower(state: u8) -> (u8, u16) {
    match state {
        LOWERS..LOWERS_END => {
            let (mix, letters) = ((state - LOWERS) / LETTERS_MAX, (state - LOWERS) % LETTERS_MAX + 1);
            let added = match letters {
                _ if mix == MIX_MAX => weight::RANDOM_LOWER,
                0..=3 => weight::LETTERS_2_TO_4,
                4..LETTERS_MAX => weight::LETTERS_5_TO_8,
                LETTERS_MAX.. => weight::LETTERS_9_UP,
            };
            (lowers(mix, letters + 1), added)
        }
        CAPITALS..CAPITALS_END => {
            let (mix, letters) = ((state - CAPITALS) / 2, (state - CAPITALS) % 2 + 1);
            let added = match letters {
                _ if mix == MIX_MAX => weight::RANDOM_LOWER,
                1 => weight::LETTERS_2_TO_4,
                _ => weight::LOWER_AFTER_CAPITALS,
            };
            (lowers(mix, letters + 1), added)
        }
        DIGITS..DIGITS_END => {
            let mix = more_mixed((state - DIGITS) / 3);
            (lowers(mix, 1), if mix == MIX_MAX { weight::RANDOM_RUN } else { weight::LETTER_AFTER_DIGIT })
        }
        _ if is_script(state, LATIN) => (lowers(0, 4), weight::LETTER_AFTER_ACCENT),
        _ => (lowers(0, 1), word_start(state)),
    }
}

const fn upper(state: u8) -> (u8, u16) {
    match state {
        LOWERS..LOWERS_END => {
            let (mix, letters) = ((state - LOWERS) / LETTERS_MAX, (state - LOWERS) % LETTERS_MAX + 1);
            let mix = if letters <= SHORT_WORD_LETTERS { more_mixed(mix) } else { mix };
            (capitals(mix, 1), if mix == MIX_MAX { weight::RANDOM_RUN } else { weight::WORD_ALONE })
        }
        CAPITALS..CAPITALS_END => {
            let (mix, letters) = ((state - CAPITALS) / 2, (state - CAPITALS) % 2 + 1);
            let added = match letters {
                _ if mix == MIX_MAX => weight::RANDOM_CAPITAL,
                1 => weight::CAPITAL_SECOND,
                _ => weight::CAPITAL_LATER,
            };
            (capitals(mix, letters + 1), added)
        }
        DIGITS..DIGITS_END => {
            let mix = more_mixed((state - DIGITS) / 3);
            (capitals(mix, 1), if mix == MIX_MAX { weight::RANDOM_RUN } else { weight::LETTER_AFTER_DIGIT })
        }
        _ => (capitals(0, 1), word_start(state)),
    }
}

const fn word_start(state: u8) -> u16 {
    match state {
        INDENT_FIRST | INDENT | SPACE_ONE | SPACES => weight::WORD_AFTER_SPACE,
        ONE_JOINER => weight::WORD_AFTER_JOINER,
        ONE_SYMBOL => weight::WORD_AFTER_SYMBOL,
        _ => weight::WORD_ALONE,
    }
}

const fn digit(state: u8) -> (u8, u16) {
    let mix = match state {
        DIGITS..DIGITS_END => {
            let position = ((state - DIGITS) % 3 + 1) % 3;
            let group = state - (state - DIGITS) % 3;
            return (group + position, if position == 0 { weight::DIGITS_NEXT_THREE } else { 0 });
        }
        LOWERS..LOWERS_END => more_mixed((state - LOWERS) / LETTERS_MAX),
        CAPITALS..CAPITALS_END => more_mixed((state - CAPITALS) / 2),
        // Digits take no space along, so the space is a token of its own.
        INDENT_FIRST..=TABS => return (DIGITS, weight::DIGITS_AFTER_SPACE),
        _ => 0,
    };
    (DIGITS + mix * 3, if mix == MIX_MAX { weight::RANDOM_RUN } else { weight::DIGITS })
}

const fn symbol(state: u8, class: u8) -> (u8, u16) {
    match state {
        INDENT_FIRST..=TABS => (SYMBOLS, weight::SYMBOL_AFTER_SPACE),
        ONE_JOINER..=SYMBOLS => match class {
            DASH | SYMBOL => (SYMBOLS, weight::SYMBOL_NEXT_ODD),
            _ => (SYMBOLS, weight::SYMBOL_NEXT),
        },
        _ => match class {
            JOINER => (ONE_JOINER, weight::SYMBOL_LIGHT),
            DASH | COMMA => (ONE_JOINER, weight::SYMBOL_HEAVY),
            CLOSE => (ONE_SYMBOL, weight::SYMBOL_HEAVY),
            OPEN | SYMBOL => (ONE_SYMBOL, weight::SYMBOL_LIGHT),
            _ => panic!("step passes the classes of symbols only"),
        },
    }
}

const fn is_script(state: u8, class: u8) -> bool {
    state >= SCRIPTS && (state - SCRIPTS) / 3 == class - SCRIPT_FIRST
}

const fn script(state: u8, class: u8) -> (u8, u16) {
    let script = class - SCRIPT_FIRST;
    let weights = weight::SCRIPTS[script as usize];
    let first = SCRIPTS + script * 3;
    match state {
        LOWERS..CAPITALS_END if class == LATIN => (first + 1, weight::ACCENT_IN_WORD),
        _ if is_script(state, class) => match state - first {
            0 => (first + 1, weights[1]),
            1 => (first + 2, weights[1]),
            _ => (first + 2, weights[2]),
        },
        _ => (first, weights[0]),
    }
}
