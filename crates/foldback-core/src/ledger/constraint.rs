//! Sentences, and whether one is a rule that somebody gave.

use std::ops::Range;

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

/// Marks after which a sentence is over, when white space or nothing follows.
const ENDS: &[char] = &['.', '!', '?', ';'];
/// Marks after which it is over whatever follows.
const FULL_ENDS: &[char] = &['。', '！', '？', '；', '।'];

/// The sentences of a text, without the white space around them. A line end ends a sentence.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut push = |start: usize, end: usize| {
        let piece = &text[start..end];
        let trimmed = piece.trim();
        if !trimmed.is_empty() {
            let at = start + (piece.len() - piece.trim_start().len());
            sentences.push(at..at + trimmed.len());
        }
    };
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let end = at + character.len_utf8();
        let next_is_space = characters.peek().is_none_or(|&(_, next)| next.is_whitespace());
        let is_end = character == '\n'
            || FULL_ENDS.contains(&character)
            || (ENDS.contains(&character) && next_is_space && !is_abbreviated(&text[start..end]));
        if is_end {
            push(start, end);
            start = end;
        }
    }
    push(start, text.len());
    sentences
}

/// Whether a dot ends an abbreviation or counts a list, rather than a sentence.
fn is_abbreviated(sentence: &str) -> bool {
    let last = sentence.rsplit(char::is_whitespace).next().unwrap_or(sentence);
    let is_known = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "z.B.", "Dr.", "Mr.", "No."].contains(&last);
    let is_number = last.len() > 1 && last[..last.len() - 1].bytes().all(|byte| byte.is_ascii_digit());
    is_known || (is_number && sentence.trim() == last)
}

/// Whether a sentence of a user is a rule: it says what must, must not, or may only be done.
pub fn is_constraint(sentence: &str) -> bool {
    let sentence = sentence.to_lowercase().replace('’', "'");
    has_cue(&sentence, CUES)
}

/// Whether a sentence in lower case has one of the cues in it.
pub(super) fn has_cue(sentence: &str, cues: &[&str]) -> bool {
    let present = bytes_in(sentence);
    let may_be_there = |cue: &str| bytes_in(cue) & !present == 0;
    cues.iter().any(|cue| may_be_there(cue) && find_cue(sentence, cue).is_some())
}

/// Which bytes a text has, in groups: a text without those of a cue need not be searched for it.
fn bytes_in(text: &str) -> u64 {
    text.bytes().fold(0, |present, byte| present | 1 << (byte & 63))
}

/// Where a cue stands in a sentence: as whole words, in scripts that have spaces.
pub(super) fn find_cue(sentence: &str, cue: &str) -> Option<usize> {
    let is_spaced = cue.chars().all(|c| matches!(c as u32, 0..=0x0fff));
    if !is_spaced {
        return sentence.find(cue);
    }
    let is_letter = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
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
