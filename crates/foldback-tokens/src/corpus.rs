//! Texts to count in tests: messages composed from word lists by seed, and the texts of recorded
//! sessions.

use std::fs;
use std::path::Path;

use foldback_core::Encoding;

/// The other implementation of each encoding.
pub(crate) fn peers() -> [(Encoding, &'static bpe_openai::Tokenizer); 2] {
    [(Encoding::O200k, bpe_openai::o200k_base()), (Encoding::Cl100k, bpe_openai::cl100k_base())]
}

/// An endless supply of texts; the same seed gives the same texts.
pub(crate) struct Corpus {
    state: u64,
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "the", "of", "compaction", "summary", "agent", "should", "keep", "recent", "turns", "because", "it",
    "won't", "we've", "I'd", "they'll", "DON'T", "It’s", "user's", "transcript", "cannot", "budget",
    "naïve", "façade", "tokenizer", "idempotent", "reconfigured", "antidisestablishmentarianism", "if",
    "a", "Then", "However", "e.g.", "O'Brien", "rock'n'roll", "state-of-the-art", "café", "Straße",
    "señor", "Łódź", "İstanbul",
];
#[rustfmt::skip]
const IDENTIFIERS: &[&str] = &[
    "self", "count_item", "TokenCounter", "HashMap", "parseHTTPResponse", "i", "MAX_RETRIES", "tmp0",
    "__init__", "getElementById", "x86_64", "fn", "let", "mut", "return", "impl", "async", "await",
    "XMLHttpRequest", "é_var", "snake_case_name", "TConfig", "iOS", "vec2", "b64", "utf8", "ERR", "std",
    "io",
];
#[rustfmt::skip]
const OPERATORS: &[&str] = &[
    " = ", " == ", "::", ".", "->", " => ", " != ", "&&", " || ", "+=", "..=", "?", "!", " << ", "/*",
    "*/", "//", "<|", "|>", "#[", "]", "${", "}", "@", "%", "\\n", "\\\"", "'", "\"", "`", "```", "~",
    "^", ";", ", ",
];
const LEVELS: &[&str] = &["INFO", "WARN", "ERROR", "debug", "[trace]", "E0425", "FAILED", "ok"];
#[rustfmt::skip]
const CHINESE: &[&str] = &[
    "我们", "压缩", "历史", "记录", "因此", "不会", "丢失", "工具", "调用", "结果", "，", "。", "、", "“",
    "”", "的", "龘", "𠮷", "！", "？", "（", "）", "第一", "3", "API",
];
#[rustfmt::skip]
const JAPANESE: &[&str] = &[
    "会話", "を", "短く", "する", "ために", "トークン", "ファイル", "です", "。", "「", "」", "ー", "、",
    "カ\u{3099}", "ｶﾞ", "ありがとう",
];
#[rustfmt::skip]
const OTHER_SCRIPTS: &[&str] = &[
    "대화", "기록을", "압축합니다", "สวัสดี", "ครับ", "ไม่มีช่องว่าง", "مرحبا", "بالعالم", "٣٤٥", "שלום",
    "עולם", "नमस्ते", "दुनिया", "ক্ষ", "ελληνικά", "Ωμέγα", "ქართული", "Հայերեն", "አማርኛ", "ᚠᛇᚻ", "ǅungla",
    "ʰʷ", "Ⅷ", "½", "²³", "①",
];
#[rustfmt::skip]
const CYRILLIC: &[&str] = &[
    "Сжатие", "истории", "не", "должно", "терять", "ошибку", "Ещё", "ЁЛКА", "їжак", "і", "програма",
    "файлы", "№", "переменная", "съешь", "булок", "й", "словѣ҃нскъ",
];
#[rustfmt::skip]
const EMOJI: &[&str] = &[
    "🙂", "🚀", "👩‍💻", "🇺🇦", "👍🏽", "❤️", "✅", "❌", "⚠️", "🧑‍🤝‍🧑", "→", "…", "—", "•", "│", "├──",
    "█", "⠋", "½", "™", "\u{fe0f}",
];
#[rustfmt::skip]
const SPACES: &[&str] = &[
    " ", "  ", "    ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", " \t ", "\u{a0}",
    "\u{3000}", "\u{2009}", "\u{200b}", "\u{2028}", "\u{85}", "\u{b}", "\u{c}", "\u{feff}", "        ",
    "\n\n\n\n", "\n/", "//\n",
];
#[rustfmt::skip]
const CONTROLS: &[&str] = &[
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|start|>assistant<|channel|>",
    "</s>", "[INST]", "\u{1b}[31m", "\u{1b}[0m", "\0", "\u{7f}", "\u{fffd}",
];

/// How texts are composed; one of each in turn.
const KINDS: &[fn(&mut Corpus, &mut String)] = &[
    Corpus::prose,
    Corpus::code,
    Corpus::json,
    Corpus::log,
    |corpus, out| corpus.run_on(CHINESE, out),
    |corpus, out| corpus.run_on(JAPANESE, out),
    |corpus, out| corpus.spaced(OTHER_SCRIPTS, out),
    |corpus, out| corpus.spaced(CYRILLIC, out),
    |corpus, out| corpus.spaced(EMOJI, out),
    Corpus::odd_white_space,
    Corpus::encoded,
    Corpus::any_characters,
];

impl Corpus {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// `count` texts of the size of messages: most a few hundred bytes, some a few thousand.
    pub(crate) fn chunks(mut self, count: usize) -> impl Iterator<Item = String> {
        (0..count).map(move |index| {
            let bytes = match self.below(10) {
                0 => self.below(40),
                1..=7 => 40 + self.below(800),
                _ => 800 + self.below(4_000),
            };
            let mut text = String::new();
            while text.len() < bytes {
                // Every tenth text is a mixture of all kinds.
                let kind = if index % 10 == 9 { self.below(KINDS.len()) } else { index % KINDS.len() };
                KINDS[kind](&mut self, &mut text);
            }
            text
        })
    }

    /// `count` characters of `alphabet`.
    pub(crate) fn draw_from(&mut self, alphabet: &[char], count: usize) -> String {
        (0..count).map(|_| self.pick(alphabet)).collect()
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn prose(&mut self, out: &mut String) {
        for _ in 0..5 + self.below(12) {
            out.push_str(self.pick(WORDS));
            out.push_str(self.pick(&[" ", " ", " ", " ", ", ", "; ", " — ", " (", ") ", "\u{a0}"]));
        }
        out.push_str(self.pick(&[". ", "! ", "?\n", ".\n\n", "...", ":\n- ", "\n\n## "]));
    }

    fn code(&mut self, out: &mut String) {
        out.push_str(&" ".repeat(4 * self.below(5)));
        for _ in 0..1 + self.below(8) {
            out.push_str(self.pick(IDENTIFIERS));
            out.push_str(self.pick(OPERATORS));
        }
        match self.below(6) {
            0 => out.push_str(&format!("0x{:x}", self.next() >> self.below(60))),
            1 => out.push_str(&format!("{}", self.next() >> self.below(60))),
            2 => out.push_str("// ----------------"),
            3 => out.push_str(self.pick(CONTROLS)),
            _ => out.push_str(self.pick(&["{", "}", "();", ")?;", "):"])),
        }
        out.push_str(self.pick(&["\n", "\n", "\n\n", "\r\n", "  \n"]));
    }

    fn json(&mut self, out: &mut String) {
        let space = self.pick(&["", " ", "\n  ", "\n\t"]);
        out.push('{');
        for _ in 0..1 + self.below(5) {
            let (key, value) = (self.pick(IDENTIFIERS), self.pick(WORDS));
            let number = self.next() >> self.below(62);
            out.push_str(&match self.below(5) {
                0 => format!("{space}\"{key}\":{number},"),
                1 => format!("{space}\"{key}\": {}.{},", number % 1_000, number % 97),
                2 => format!("{space}\"{key}\":[null,true,{{}},[]],"),
                3 => format!("{space}\"{key}\":\"{value}\\n\\t\\u00e9 {}\",", self.pick(CYRILLIC)),
                _ => format!("{space}\"{key}\":\"{value} {}\",", self.pick(WORDS)),
            });
        }
        out.push_str(self.pick(&["}", "}\n", "}},", "}]"]));
    }

    fn log(&mut self, out: &mut String) {
        let (hour, line) = (self.below(24), self.below(2_000));
        let (level, place, word) = (self.pick(LEVELS), self.pick(IDENTIFIERS), self.pick(WORDS));
        out.push_str(&match self.below(4) {
            0 => format!(
                "2026-01-{:02}T{hour:02}:{:02}:07.{line}Z {level} {place}: {word}\n",
                line % 28,
                line % 60
            ),
            1 => format!("  at {place} (/usr/src/{word}/{place}.ts:{line}:{hour})\n"),
            2 => format!("test {place}::{word} ... {level}\n"),
            _ => format!("-rw-r--r--  1 root root {line:>8} Jan {hour} {hour:02}:00 {place}-{line}.{word}\n"),
        });
    }

    /// Words of a script that sets no spaces.
    fn run_on(&mut self, words: &[&str], out: &mut String) {
        for _ in 0..10 + self.below(30) {
            out.push_str(self.pick(words));
        }
        out.push_str(self.pick(&["", "", "\n", " "]));
    }

    fn spaced(&mut self, words: &[&str], out: &mut String) {
        for _ in 0..3 + self.below(12) {
            out.push_str(self.pick(words));
            out.push_str(self.pick(&[" ", " ", " ", "", ", ", ". ", "\n", "'s ", "-", "/"]));
        }
    }

    fn odd_white_space(&mut self, out: &mut String) {
        for _ in 0..1 + self.below(6) {
            out.push_str(self.pick(SPACES));
        }
        if self.below(2) == 0 {
            out.push_str(self.pick(&["x", "If", "/", "'s", "1", "!", "字", "end\n"]));
        }
        if self.below(20) == 0 {
            let length = self.below(400);
            out.push_str(&self.pick(SPACES).repeat(length));
        }
    }

    /// Hashes, base64, addresses, and rulers of one character.
    fn encoded(&mut self, out: &mut String) {
        const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        match self.below(5) {
            0 => out.push_str(&format!("{:016x}{:016x} ", self.next(), self.next())),
            1 => {
                for _ in 0..self.below(600) {
                    out.push(char::from(self.pick(BASE64)));
                }
                out.push_str("==\n");
            }
            2 => {
                let (host, path) = (self.pick(WORDS), self.pick(IDENTIFIERS));
                out.push_str(&format!(
                    "https://{host}.example.com/{path}?q={}%20#{path} ",
                    self.next() % 1_000_000
                ));
            }
            3 => {
                let length = self.below(300);
                out.push_str(
                    &self
                        .pick(&["-", "=", "*", "a", "A", "0", "_", "─", "ha", "あ", "é", "🙂"])
                        .repeat(length),
                );
            }
            _ => out.push_str(self.pick(CONTROLS)),
        }
    }

    fn any_characters(&mut self, out: &mut String) {
        for _ in 0..1 + self.below(20) {
            let bound = self.pick(&[0x80, 0x250, 0x3000, 0x1_0000, 0x11_0000]);
            out.extend(char::from_u32(self.below(bound) as u32));
        }
    }
}

/// The texts of a recorded session: the whole file first, then every string in it.
pub(crate) fn texts_of(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).expect("a session can be read");
    let whole = String::from_utf8_lossy(&bytes).into_owned();
    let mut texts = vec![whole.clone()];
    // Recorders die halfway through a line: what cannot be parsed is only counted as a whole.
    for value in serde_json::Deserializer::from_str(&whole).into_iter().map_while(Result::ok) {
        collect_strings(value, &mut texts);
    }
    texts
}

fn collect_strings(value: serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text),
        serde_json::Value::Array(values) => {
            values.into_iter().for_each(|value| collect_strings(value, texts))
        }
        serde_json::Value::Object(fields) => {
            fields.into_iter().for_each(|(_, value)| collect_strings(value, texts))
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}
