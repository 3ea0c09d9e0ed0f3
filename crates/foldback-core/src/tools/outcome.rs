//! What came of a call: its exit code, the tests it ran, whether it failed.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::Action;
use crate::part::{ResultPart, ToolResult};

/// Where an agent says how a command ended: in front of its output, or behind it.
const HEAD_BYTES: usize = 400;
const TAIL_BYTES: usize = 400;

/// Where programs sum up their tests.
const SUMMARY_BYTES: usize = 8 * 1024;

/// An answer that is no longer than this may be nothing but an error.
const ERROR_BYTES_MAX: usize = 300;

/// What came of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How the command ended, where the answer says so.
    pub exit_code: Option<i32>,
    /// The tests that were run, where the answer sums them up.
    pub tests: Option<TestRun>,
    /// Whether it failed.
    pub failed: bool,
}

/// A summary of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestRun {
    /// How many passed.
    pub passed: u32,
    /// How many failed or could not be run.
    pub failed: u32,
    /// How many were left out.
    pub skipped: u32,
}

impl Outcome {
    /// Whether a call that did `actions` failed, by what stands around its answer. Cheaper than
    /// the whole outcome: tests are not counted.
    pub(crate) fn has_failed(result: &ToolResult, actions: &[Action]) -> bool {
        let mut texts = result.content.iter().filter_map(ResultPart::as_text);
        result.is_error
            || match Self::may_be_an_exit_code(actions) {
                true => texts.any(|text| exit_code_in(text).is_some_and(|code| code != 0)),
                false => texts.next().is_some_and(is_error),
            }
    }

    /// What came of a call that did `actions`.
    pub fn of(result: &ToolResult, actions: &[Action]) -> Self {
        if !Self::may_be_an_exit_code(actions) {
            return Self { failed: Self::has_failed(result, actions), ..Self::default() };
        }
        let (mut exit_code, mut tests) = (None, None);
        for text in result.content.iter().filter_map(ResultPart::as_text) {
            exit_code = exit_code.or_else(|| exit_code_in(text));
            tests = tests.or_else(|| tests_in(text));
        }
        let failed = result.is_error
            || exit_code.is_some_and(|code| code != 0)
            || tests.is_some_and(|tests: TestRun| tests.failed > 0);
        Self { exit_code, tests, failed }
    }

    /// Whether an exit code and tests are looked for in the answer to a call that did `actions`; all
    /// that an outcome depends on beside the answer. Nobody knows what unknown tools do.
    pub(crate) fn may_be_an_exit_code(actions: &[Action]) -> bool {
        let is_command = |action: &Action| matches!(action, Action::Run { .. } | Action::Wait { .. });
        actions.is_empty() || actions.iter().any(is_command)
    }
}

/// Whether an answer is nothing but an error. A file that was read may begin like one.
fn is_error(text: &str) -> bool {
    const SIGNS: &[&str] = &[
        "error",
        "<tool_use_error>",
        "failed",
        "apply_patch verification failed",
        "no such file",
        "invalid",
    ];
    let start = text.trim_start();
    let start = &start[..start.floor_char_boundary(40)];
    let is_sign = |sign: &&str| start.get(..sign.len()).is_some_and(|start| start.eq_ignore_ascii_case(sign));
    text.len() <= ERROR_BYTES_MAX && SIGNS.iter().any(is_sign)
}

/// The exit code that an agent wrote around a command's output.
fn exit_code_in(text: &str) -> Option<i32> {
    let head = &text[..text.floor_char_boundary(HEAD_BYTES)];
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES))..];
    let in_head = may_tell_exit_code(head).then(|| head.lines().find_map(exit_code_of_line)).flatten();
    in_head.or_else(|| match may_tell_exit_code(tail) {
        true => tail.lines().rev().find_map(exit_code_of_line),
        false => None,
    })
}

/// Most outputs have none of these words, and looking at each of their lines would take most of the
/// time that a ledger takes.
fn may_tell_exit_code(text: &str) -> bool {
    // A letter that is rare tells where to look, without a copy in lower case.
    let has = |word: &[u8], letter_index: usize| {
        let letter = word[letter_index];
        memchr::memchr2_iter(letter, letter.to_ascii_uppercase(), text.as_bytes()).any(|at| {
            let start = at.checked_sub(letter_index);
            let found = start.and_then(|start| text.as_bytes().get(start..start + word.len()));
            found.is_some_and(|found| found.eq_ignore_ascii_case(word))
        })
    };
    has(b"exit", 1) || has(b"return", 3)
}

fn exit_code_of_line(line: &str) -> Option<i32> {
    const SIGNS: &[&str] = &[
        "exited with code",
        "exit code",
        "exit status",
        "exit_code",
        "exitcode",
        "returncode",
        "return code",
    ];
    let lowered = line.to_ascii_lowercase();
    SIGNS.iter().find_map(|sign| {
        let (_, rest) = lowered.split_once(sign)?;
        let rest = rest.trim_start_matches([' ', ':', '=', '>', '"', '\\', '`']);
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        rest[..rest.len() - digits.len() + length].parse().ok()
    })
}

/// Words without which there is no summary of tests: most outputs have none of them, and need not be
/// looked at line by line.
struct Signs {
    rust: Finder<'static>,
    /// Any of them.
    counted: [Finder<'static>; 3],
    unittest: Finder<'static>,
    /// Any of them.
    go: [Finder<'static>; 3],
}

static SIGNS: LazyLock<Signs> = LazyLock::new(|| Signs {
    rust: Finder::new("test result: "),
    counted: ["passed", "failed", " pass"].map(Finder::new),
    unittest: Finder::new("Ran "),
    go: ["--- PASS: ", "ok  \t", "FAIL\t"].map(Finder::new),
});

/// The tests that were run, as the program sums them up.
fn tests_in(text: &str) -> Option<TestRun> {
    let has_any =
        |signs: &[Finder<'_>], text: &str| signs.iter().any(|sign| sign.find(text.as_bytes()).is_some());
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(SUMMARY_BYTES))..];
    let counted = || has_any(&SIGNS.counted, tail).then(|| counted_tests(tail)).flatten();
    let unittest = || SIGNS.unittest.find(tail.as_bytes()).and_then(|_| unittest(tail));
    let go = || has_any(&SIGNS.go, text).then(|| go_tests(text)).flatten();
    rust_tests(text).or_else(counted).or_else(unittest).or_else(go)
}

/// One line for each test binary, all of them added up.
fn rust_tests(text: &str) -> Option<TestRun> {
    let mut total: Option<TestRun> = None;
    for start in SIGNS.rust.find_iter(text.as_bytes()) {
        let line = text[start..].lines().next().unwrap_or("");
        let sum = total.get_or_insert_default();
        sum.passed = sum.passed.saturating_add(count_before(line, "passed").unwrap_or(0));
        sum.failed = sum.failed.saturating_add(count_before(line, "failed").unwrap_or(0));
        sum.skipped = sum.skipped.saturating_add(count_before(line, "ignored").unwrap_or(0));
    }
    total
}

/// pytest, jest, vitest, nextest, mocha, bun: counts with a word behind them, in one line or in
/// several. The newest such line that counts tests is the summary.
fn counted_tests(tail: &str) -> Option<TestRun> {
    let in_one_line = |line: &&str| {
        let is_summary = line.contains(" in ")
            || line.contains("tests run")
            || line.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).starts_with("Tests");
        is_summary && (count_before(line, "passed").is_some() || count_before(line, "failed").is_some())
    };
    if let Some(line) = tail.lines().rev().find(in_one_line) {
        let count = |words: &[&str]| words.iter().filter_map(|word| count_before(line, word)).sum();
        return Some(TestRun {
            passed: count(&["passed"]),
            failed: count(&["failed", "error", "errors"]),
            skipped: count(&["skipped", "ignored", "todo"]),
        });
    }
    let count = |word: &str| tail.lines().rev().find_map(|line| leading_count(line, word));
    let of = |passed: &str, failed: &str, skipped: &str| {
        let passed = count(passed)?;
        let (failed, skipped) = (count(failed).unwrap_or(0), count(skipped).unwrap_or(0));
        Some(TestRun { passed, failed, skipped })
    };
    of("passing", "failing", "pending").or_else(|| of("pass", "fail", "skip"))
}

/// Python's own: `Ran 12 tests in 0.1s`, then `OK` or `FAILED (failures=1, errors=2)`.
fn unittest(tail: &str) -> Option<TestRun> {
    let ran =
        tail.lines().rev().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())?;
    let last = tail.lines().rev().find(|line| line.starts_with("OK") || line.starts_with("FAILED ("))?;
    let after = |sign: &str| {
        let digits = last.split_once(sign)?.1.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok()
    };
    let failed = after("failures=").unwrap_or(0).saturating_add(after("errors=").unwrap_or(0));
    let skipped = after("skipped=").unwrap_or(0);
    Some(TestRun { passed: u32::saturating_sub(ran, failed.saturating_add(skipped)), failed, skipped })
}

/// One line for each package, or for each test where it was asked to say more.
fn go_tests(text: &str) -> Option<TestRun> {
    let count = |starts: &[&str]| {
        let is_one = |line: &&str| starts.iter().any(|start| line.trim_start().starts_with(start));
        u32::try_from(text.lines().filter(is_one).count()).unwrap_or(u32::MAX)
    };
    let by_test = TestRun {
        passed: count(&["--- PASS: "]),
        failed: count(&["--- FAIL: "]),
        skipped: count(&["--- SKIP: "]),
    };
    if by_test.passed > 0 {
        return Some(by_test);
    }
    let (passed, failed) = (count(&["ok  \t"]), count(&["FAIL\t"]));
    (passed + failed > 0).then_some(TestRun { passed, failed: failed.max(by_test.failed), skipped: 0 })
}

/// The number directly before a word.
fn count_before(line: &str, word: &str) -> Option<u32> {
    line.match_indices(word).find_map(|(start, _)| {
        let ends = !line[start + word.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
        let before = line[..start].strip_suffix(' ').filter(|_| ends)?;
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    })
}

/// The number at the start of a line that goes on with a word, such as `  12 passing (3s)`.
fn leading_count(line: &str, word: &str) -> Option<u32> {
    let (count, rest) = line.trim_start().split_once(' ')?;
    let rest = rest.strip_prefix(word)?;
    let ends = rest.is_empty() || rest.starts_with(' ');
    if ends { count.parse().ok() } else { None }
}
