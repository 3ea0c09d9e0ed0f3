//! Text as it occurs in agent conversations: prose, code, JSON, logs and CJK, made from word lists.
//!
//! Words are partly composed (prefix, root, suffix, numbers, hexadecimal), because a tokenizer
//! that remembers pieces would otherwise be measured on its memory alone.

use serde_json::{Map, Value, json};

use crate::random::Random;

const COMMON: &[&str] = &[
    "the", "a", "and", "to", "of", "in", "is", "that", "it", "for", "on", "with", "this", "we", "not", "be",
    "should", "when", "from", "but", "as", "which", "if", "then", "there", "because", "before", "after",
    "only", "every", "first", "same", "still", "needs", "does", "has", "was", "must", "can", "already",
];

const TOPICS: &[&str] = &[
    "request",
    "parser",
    "migration",
    "session",
    "table",
    "endpoint",
    "timeout",
    "config",
    "worker",
    "queue",
    "index",
    "schema",
    "client",
    "cursor",
    "release",
    "branch",
    "fixture",
    "snapshot",
    "budget",
    "header",
    "cache",
    "retry",
    "summary",
    "handler",
    "module",
    "policy",
    "signature",
    "replica",
    "buffer",
    "token",
    "customer",
    "invoice",
    "deadline",
    "failure",
    "regression",
    "coverage",
    "warning",
    "decision",
    "context",
];

const PREFIXES: &[&str] = &[
    "re", "un", "pre", "over", "sub", "inter", "de", "non", "multi", "auto", "out", "under", "counter", "co",
    "mis", "fore", "super", "trans",
];

const ROOTS: &[&str] = &[
    "compil",
    "serial",
    "alloc",
    "valid",
    "connect",
    "render",
    "schedul",
    "resolv",
    "normal",
    "partition",
    "comput",
    "register",
    "stream",
    "encod",
    "migrat",
    "replic",
    "commit",
    "balanc",
    "queri",
    "monitor",
    "authoris",
    "publish",
    "transform",
    "measur",
    "observ",
    "truncat",
    "index",
    "merg",
    "select",
    "batch",
];

const SUFFIXES: &[&str] =
    &["e", "ed", "er", "ing", "able", "ation", "s", "ers", "ability", "ment", "ors", "ively", "less"];

const EXTENSIONS: &[&str] = &["rs", "py", "ts", "toml", "sql", "md", "json", "go", "yaml"];
const DIRECTORIES: &[&str] =
    &["src", "tests", "crates", "api", "core", "store", "web", "docs", "internal", "cmd"];
const TYPES: &[&str] =
    &["u64", "String", "Vec<u8>", "Option<usize>", "&str", "bool", "Duration", "Arc<Node>"];
const LEVELS: &[&str] = &["DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR"];

const CJK: &[&str] = &[
    "请检查这个函数的返回值",
    "数据库迁移失败了",
    "我们需要在发布之前修复这个问题",
    "配置文件",
    "并且不要修改测试",
    "超时时间太短",
    "用户会话",
    "重新运行所有测试",
    "この関数は例外を投げます",
    "設定を確認してください",
    "キャッシュが古くなっている",
    "テストがまだ失敗しています",
    "ログを見ると",
    "接続",
    "요청이 시간 초과로 실패했습니다",
    "데이터베이스 연결을 확인하세요",
    "테스트를 다시 실행해 주세요",
    "설정 파일",
];
const CJK_STOPS: &[&str] = &["。", "，", "、", "；", "！", " "];

/// The kinds of text there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    Prose,
    Code,
    Json,
    Logs,
    Cjk,
}

impl Flavour {
    pub(crate) const ALL: [Self; 5] = [Self::Prose, Self::Code, Self::Json, Self::Logs, Self::Cjk];
}

/// Text of one flavour, of about `bytes` bytes: never less, and at most one line or entry more.
pub(crate) fn write(random: &mut Random, flavour: Flavour, bytes: usize) -> String {
    match flavour {
        Flavour::Prose => prose(random, bytes),
        Flavour::Code => lines(random, bytes, code_line),
        Flavour::Json => json_document(random, bytes),
        Flavour::Logs => lines(random, bytes, log_line),
        Flavour::Cjk => cjk(random, bytes),
    }
}

/// A file's path.
pub(crate) fn path(random: &mut Random) -> String {
    let (directory, extension) = (random.pick(DIRECTORIES), random.pick(EXTENSIONS));
    format!("{directory}/{}/{}.{extension}", random.pick(TOPICS), identifier(random))
}

fn word(random: &mut Random, text: &mut String) {
    match random.below(100) {
        0..55 => text.push_str(random.pick(COMMON)),
        55..80 => text.push_str(random.pick(TOPICS)),
        80..95 => {
            if random.chance(40) {
                text.push_str(random.pick(PREFIXES));
            }
            text.push_str(random.pick(ROOTS));
            text.push_str(random.pick(SUFFIXES));
        }
        95..98 => text.push_str(&random.below(100_000).to_string()),
        _ => {
            text.push('`');
            text.push_str(&identifier(random));
            text.push('`');
        }
    }
}

fn identifier(random: &mut Random) -> String {
    let mut name = String::from(random.pick(ROOTS));
    name.push_str(random.pick(SUFFIXES));
    name.push('_');
    name.push_str(random.pick(TOPICS));
    if random.chance(25) {
        name.push('_');
        name.push_str(&random.below(1000).to_string());
    }
    name
}

fn prose(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 160);
    while text.len() < bytes {
        let start = text.len();
        for position in 0..random.between(5, 18) {
            if position > 0 {
                text.push_str(if random.chance(6) { ", " } else { " " });
            }
            word(random, &mut text);
        }
        if let Some(first) = text.get_mut(start..start + 1) {
            first.make_ascii_uppercase();
        }
        text.push_str(if random.chance(15) { ".\n\n" } else { ". " });
    }
    text
}

fn lines(random: &mut Random, bytes: usize, line: fn(&mut Random, &mut String)) -> String {
    let mut text = String::with_capacity(bytes + 160);
    while text.len() < bytes {
        line(random, &mut text);
        text.push('\n');
    }
    text
}

fn code_line(random: &mut Random, text: &mut String) {
    for _ in 0..random.below(4) {
        text.push_str("    ");
    }
    let (a, b) = (identifier(random), identifier(random));
    let kind = random.pick(TYPES);
    let line = match random.below(8) {
        0 => format!("pub fn {a}({b}: {kind}) -> Result<{kind}, Error> {{"),
        1 => format!("let {a} = {b}.iter().map(|entry| entry.{a}).collect::<Vec<_>>();"),
        2 => format!("if {a} >= {} && !{b}.is_empty() {{", random.below(4096)),
        3 => format!("return Err(Error::new(\"{} failed: {{{a}}}\"));", random.pick(TOPICS)),
        4 => format!("// {} {} {}", random.pick(COMMON), random.pick(TOPICS), random.pick(COMMON)),
        5 => format!("self.{a}.insert({b}, 0x{:x});", random.next() >> 40),
        6 => "}".to_owned(),
        _ => format!("assert_eq!({a}, {b}[{}..{}]);", random.below(10), random.between(10, 99)),
    };
    text.push_str(&line);
}

fn log_line(random: &mut Random, text: &mut String) {
    let time = format!(
        "2026-03-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        random.between(1, 28),
        random.below(24),
        random.below(60),
        random.below(60),
        random.below(1000)
    );
    let (level, topic) = (random.pick(LEVELS), random.pick(TOPICS));
    let line = match random.below(4) {
        0 => format!("{time} {level} {topic}: {} took {}ms", identifier(random), random.below(5000)),
        1 => format!("{time} {level} request_id={:016x} status={}", random.next(), random.between(200, 504)),
        2 => format!("{time} {level} {} line {}: {topic} changed", path(random), random.below(2000)),
        _ => {
            format!(
                "test {}::{} ... {}",
                topic,
                identifier(random),
                random.pick(&["ok", "ok", "ok", "FAILED"])
            )
        }
    };
    text.push_str(&line);
}

fn json_document(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 320);
    text.push('[');
    while text.len() < bytes {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&record(random).to_string());
    }
    text.push(']');
    text
}

/// A JSON object such as tools are given and return.
pub(crate) fn record(random: &mut Random) -> Value {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), json!(random.below(1_000_000)));
    fields.insert("path".to_owned(), json!(path(random)));
    fields.insert(identifier(random), json!({ "enabled": random.chance(50), "limit": random.below(512) }));
    if random.chance(50) {
        fields.insert("sha".to_owned(), json!(format!("{:016x}{:016x}", random.next(), random.next())));
    }
    fields.insert("tags".to_owned(), json!([random.pick(TOPICS), random.pick(TOPICS)]));
    fields.insert("note".to_owned(), json!(prose(random, 40)));
    Value::Object(fields)
}

fn cjk(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 160);
    while text.len() < bytes {
        text.push_str(random.pick(CJK));
        if random.chance(15) {
            text.push_str(&identifier(random));
        }
        if random.chance(10) {
            text.push_str(&random.below(10_000).to_string());
        }
        text.push_str(random.pick(CJK_STOPS));
        if random.chance(5) {
            text.push('\n');
        }
    }
    text
}
