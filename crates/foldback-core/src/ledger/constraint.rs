//! Sentences, and whether one is a rule that somebody gave.

use std::ops::Range;
use std::sync::LazyLock;

/// Words that make a sentence a rule, in lower case. Those of scripts without spaces are found
/// anywhere, the others only as whole words.
const CUES: &[&str] = &[
    // English
    "never",
    "always",
    "must",
    "mustn't",
    "don't",
    "dont",
    "do not",
    "only",
    "not",
    "no",
    "instead of",
    "rather than",
    "avoid",
    "make sure",
    "ensure",
    "should",
    "shouldn't",
    "cannot",
    "can't",
    "without",
    "except",
    "unless",
    "until",
    "prefer",
    "stick to",
    "at most",
    "at least",
    "no more than",
    "required",
    "require",
    "requires",
    "forbidden",
    "prohibited",
    "off limits",
    "off-limits",
    "allowed",
    "have to",
    "has to",
    "need to",
    "needs to",
    "refrain",
    "remember",
    "keep",
    "leave",
    "under no circumstances",
    "exactly",
    "every time",
    "whenever",
    "from now on",
    "going forward",
    "stay",
    "limit",
    "maximum",
    "minimum",
    "mandatory",
    "rule",
    "frozen",
    "read-only",
    "untouched",
    "won't",
    "before",
    "after",
    // German
    "nie",
    "niemals",
    "immer",
    "muss",
    "müssen",
    "darf",
    "dürfen",
    "nur",
    "nicht",
    "kein",
    "keine",
    "keinen",
    "ohne",
    "statt",
    "bitte",
    "unbedingt",
    "soll",
    "sollen",
    "ausschließlich",
    // French
    "jamais",
    "toujours",
    "doit",
    "doivent",
    "pas",
    "seulement",
    "uniquement",
    "il faut",
    "sans",
    "veuillez",
    "interdit",
    "évite",
    "évitez",
    "n'utilise",
    "n'utilisez",
    // Spanish, Portuguese, Italian
    "nunca",
    "siempre",
    "sempre",
    "debe",
    "deben",
    "deve",
    "devem",
    "devono",
    "solo",
    "sólo",
    "só",
    "solamente",
    "somente",
    "apenas",
    "soltanto",
    "sin",
    "sem",
    "senza",
    "não",
    "non",
    "mai",
    "jamás",
    "evita",
    "evitar",
    "prohibido",
    "proibido",
    "vietato",
    "obligatorio",
    "obrigatório",
    // Dutch, Polish, Turkish, Swedish
    "nooit",
    "altijd",
    "moet",
    "niet",
    "geen",
    "alleen",
    "nigdy",
    "zawsze",
    "musi",
    "nie wolno",
    "tylko",
    "asla",
    "her zaman",
    "sadece",
    "yalnızca",
    "aldrig",
    "alltid",
    "måste",
    "inte",
    "bara",
    // Russian, Ukrainian
    "никогда",
    "всегда",
    "нельзя",
    "должен",
    "должна",
    "должны",
    "только",
    "не",
    "без",
    "обязательно",
    "запрещено",
    "ніколи",
    "завжди",
    "не можна",
    "повинен",
    "повинні",
    "тільки",
    "лише",
    "обов'язково",
    // Chinese, Japanese, Korean
    "不要",
    "必须",
    "必須",
    "禁止",
    "只能",
    "只用",
    "务必",
    "務必",
    "一定",
    "不得",
    "请勿",
    "勿",
    "始终",
    "总是",
    "總是",
    "绝不",
    "絕不",
    "不能",
    "不可",
    "应该",
    "應該",
    "仅",
    "ないで",
    "必ず",
    "絶対",
    "だけ",
    "てください",
    "ません",
    "のみ",
    "べき",
    "하지 마",
    "반드시",
    "항상",
    "절대",
    "말고",
    "만 사용",
    "해야",
    "금지",
    "않",
    "마세요",
    // Hindi, Arabic
    "कभी",
    "हमेशा",
    "केवल",
    "मत",
    "لا",
    "دائما",
    "فقط",
    "يجب",
];

/// Marks after which a sentence is over whatever follows; three bytes each, with one of three first.
/// After `.`, `!`, `?` and `;` it is over where white space or nothing follows.
const FULL_ENDS: &[&str] = &["。", "！", "？", "；", "।"];

/// The bytes that a mark may begin with after which a sentence is over.
const MAY_END: [bool; 256] = {
    let mut may_end = [false; 256];
    let mut rest: &[u8] = b"\n.!?;\xe0\xe3\xef";
    while let [byte, more @ ..] = rest {
        may_end[*byte as usize] = true;
        rest = more;
    }
    may_end
};

/// The sentences of a text, without the white space around them. A line end ends a sentence.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    each_sentence(text, |span| sentences.push(span));
    sentences
}

/// Calls `found` for each of them, in order.
pub(super) fn each_sentence(text: &str, mut found: impl FnMut(Range<usize>)) {
    let mut start = 0;
    let mut push = |start: usize, end: usize| {
        let piece = text[start..end].trim_end();
        let trimmed = piece.trim_start();
        if !trimmed.is_empty() {
            found(start + (piece.len() - trimmed.len())..start + piece.len());
        }
    };
    let bytes = text.as_bytes();
    let mut next = 0;
    while let Some(found) = bytes[next..].iter().position(|&byte| MAY_END[usize::from(byte)]) {
        let at = next + found;
        next = at + 1;
        let end = match bytes[at] {
            b'\n' => at + 1,
            b'.' | b'!' | b'?' | b';' if is_space_at(text, at + 1) && !is_abbreviated(&text[start..=at]) => {
                at + 1
            }
            0xe0 | 0xe3 | 0xef => match FULL_ENDS.iter().find(|end| text[at..].starts_with(**end)) {
                Some(end) => at + end.len(),
                None => continue,
            },
            _ => continue,
        };
        push(start, end);
        start = end;
    }
    push(start, text.len());
}

/// Whether white space or nothing stands at the beginning of a character.
fn is_space_at(text: &str, at: usize) -> bool {
    match text.as_bytes().get(at) {
        Some(byte) if byte.is_ascii() => char::from(*byte).is_whitespace(),
        Some(_) => text[at..].starts_with(char::is_whitespace),
        None => true,
    }
}

/// Whether a dot ends an abbreviation or counts a list, rather than a sentence.
fn is_abbreviated(sentence: &str) -> bool {
    let last = sentence.rsplit(char::is_whitespace).next().unwrap_or(sentence);
    let is_known = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "z.B.", "Dr.", "Mr.", "No."].contains(&last);
    let is_number = last.len() > 1 && last[..last.len() - 1].bytes().all(|byte| byte.is_ascii_digit());
    is_known || (is_number && sentence.trim() == last)
}

/// Whether a sentence of a user is a rule: it says what must, must not, or may only be done.
pub(crate) fn is_constraint(sentence: &str) -> bool {
    static INDEX: LazyLock<Cues> = LazyLock::new(|| Cues::new(CUES));
    INDEX.are_in(sentence)
}

/// Cues by how they begin: a sentence is looked at word by word, once for all of them.
#[derive(Debug)]
pub(super) struct Cues {
    /// For the first letter of a word, which second ones a cue of a script with spaces may have: most
    /// words are none by that.
    second_letters: [u32; LETTERS_MAX],
    spaced: [Vec<&'static str>; BUCKETS],
    /// Those of scripts without spaces, which may stand anywhere.
    unspaced: [Vec<&'static str>; BUCKETS],
}

const BUCKETS: usize = 256;

/// As many letters are told apart by the lower bits of a byte, whatever their case.
const LETTERS_MAX: usize = 32;

fn letter(byte: u8) -> usize {
    usize::from(byte) % LETTERS_MAX
}

/// Where cues are kept that begin with these two bytes, in lower case.
fn bucket(first: u8, second: u8) -> usize {
    usize::from(first.wrapping_mul(37) ^ second)
}

impl Cues {
    pub(super) fn new(cues: &[&'static str]) -> Self {
        let mut index = Self {
            second_letters: [0; LETTERS_MAX],
            spaced: [const { Vec::new() }; BUCKETS],
            unspaced: [const { Vec::new() }; BUCKETS],
        };
        for &cue in cues {
            let &[first, second, ..] = cue.as_bytes() else { panic!("{cue} is too short for a cue") };
            if is_spaced(cue) {
                index.second_letters[letter(first)] |= 1 << letter(second);
                index.spaced[bucket(first, second)].push(cue);
            } else {
                index.unspaced[bucket(first, second)].push(cue);
            }
        }
        index
    }

    /// Whether a sentence has one of them in it, in any case, as [`find_cue`] finds them in lower case.
    pub(super) fn are_in(&self, sentence: &str) -> bool {
        match sentence.is_ascii() {
            true => self.are_in_ascii(sentence.as_bytes()),
            false => self.are_in_lowered(&sentence.to_lowercase().replace('’', "'")),
        }
    }

    fn are_in_ascii(&self, sentence: &[u8]) -> bool {
        let mut at = 0;
        while let Some(&[first, second]) = sentence.get(at..at + 2) {
            let rest = &sentence[at..];
            let begins = |cue: &&str| {
                rest.get(..cue.len()).is_some_and(|start| start.eq_ignore_ascii_case(cue.as_bytes()))
                    && !rest.get(cue.len()).is_some_and(|&next| is_ascii_letter(next))
            };
            let may_begin = self.second_letters[letter(first)] >> letter(second) & 1 == 1;
            let bucket = || bucket(first.to_ascii_lowercase(), second.to_ascii_lowercase());
            if may_begin && self.spaced[bucket()].iter().any(begins) {
                return true;
            }
            // On to the next word.
            at += rest.iter().position(|&byte| !is_ascii_letter(byte)).unwrap_or(rest.len()) + 1;
        }
        false
    }

    fn are_in_lowered(&self, sentence: &str) -> bool {
        let mut is_inside_word = false;
        for (at, character) in sentence.char_indices() {
            let rest = &sentence[at..];
            let &[first, second, ..] = rest.as_bytes() else { break };
            let bucket = bucket(first, second);
            let begins =
                |cue: &&str| rest.strip_prefix(*cue).is_some_and(|rest| !rest.starts_with(is_letter));
            if self.unspaced[bucket].iter().any(|cue| rest.starts_with(cue))
                || (!is_inside_word && self.spaced[bucket].iter().any(begins))
            {
                return true;
            }
            is_inside_word = is_letter(character);
        }
        false
    }
}

fn is_ascii_letter(byte: u8) -> bool {
    LETTERS[usize::from(byte)]
}

const LETTERS: [bool; 256] = {
    let mut letters = [false; 256];
    let mut byte = 0;
    while byte < letters.len() {
        letters[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'_' | b'\'');
        byte += 1;
    }
    letters
};

fn is_spaced(cue: &str) -> bool {
    cue.chars().all(|c| matches!(c as u32, 0..=0x0fff))
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '\''
}

/// Where a cue stands in a sentence: as whole words, in scripts that have spaces.
pub(super) fn find_cue(sentence: &str, cue: &str) -> Option<usize> {
    if !is_spaced(cue) {
        return sentence.find(cue);
    }
    let found = sentence.match_indices(cue).find(|(at, _)| {
        let before = sentence[..*at].chars().next_back();
        let after = sentence[at + cue.len()..].chars().next();
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    });
    found.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_finds_the_cues_that_one_by_one_are_found() {
        let words = [
            "never",
            "nevertheless",
            "don't",
            "dont",
            "must",
            "_must",
            "use",
            "必须",
            "ok",
            "only,",
            "(always)",
        ];
        let index = Cues::new(CUES);
        for first in words {
            for second in words {
                for sentence in
                    [format!("{first} {second}"), format!("{first}{second}"), format!("a {first}.")]
                {
                    let one_by_one = CUES.iter().any(|cue| find_cue(&sentence, cue).is_some());
                    assert_eq!(index.are_in(&sentence), one_by_one, "{sentence}");
                }
            }
        }
    }

    #[test]
    fn sentences_end_where_they_end() {
        let text = "Fix it, e.g. in src/a.rs. Never touch v1.2 files!\n1. Use tabs\n第一。必须用中文。";
        let found: Vec<&str> = sentences(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(
            found,
            ["Fix it, e.g. in src/a.rs.", "Never touch v1.2 files!", "1. Use tabs", "第一。", "必须用中文。"]
        );
    }

    #[test]
    fn rules_are_told_from_other_sentences_in_several_languages() {
        for rule in [
            "Never commit to main.",
            "Use pnpm, not npm.",
            "Bitte nur Tabs verwenden.",
            "Никогда не удаляй тесты.",
            "不要修改配置文件",
            "N'utilise jamais eval.",
            "The public API is frozen.",
        ] {
            assert!(is_constraint(rule), "{rule}");
        }
        for other in ["Thanks, that looks great.", "What does this file do?", "Read the notes again."] {
            assert!(!is_constraint(other), "{other}");
        }
    }
}
