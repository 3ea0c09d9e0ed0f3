//! `foldback hook shorten`: a tool's output that is shortened as it arrives, so that pressure builds slower.
//!
//! The agent stores and sends the short text from then on: it never changes, and the prompt cache stays warm.
//! All of the output is in a file beside it, which the text names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use foldback_core::tools::Action;
use foldback_core::{EstimatingCounter, Part, TokenCounter};
use serde::Serialize;

use super::VERSION;
use super::request::ShortenRequest;
use crate::args::Shared;
use crate::failure::{Exit, Failure};
use crate::output::{self, Readers};
use crate::store::data_folder;
use crate::terminal::number;

/// Outputs of more than this are shortened, to about the tokens below: their beginning, and twice as much of
/// their end, where programs say how they ended.
const LONG_TOKENS: u64 = 8_000;
const HEAD_BYTES: usize = 2_500;
const TAIL_BYTES: usize = 5_000;

/// In the user's data folder.
const FOLDER: &str = "outputs";

/// How long an output is kept, and how many are looked at for that each time.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const LOOKED_AT_MAX: usize = 1_000;

/// Letters of a file's name: a hash of the output, so that the same output has the same file.
const NAME_CHARACTERS: usize = 20;

#[derive(Serialize)]
struct ShortenAnswer {
    version: u32,
    result: &'static str,
    /// What the model is to read instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Where all of it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

pub(crate) fn run(_shared: &Shared) -> Result<Exit, Failure> {
    super::answered(|request: ShortenRequest| {
        let tokens = EstimatingCounter.count(&request.output).0;
        if tokens <= LONG_TOKENS || is_read(&request) {
            return Ok(ShortenAnswer { version: VERSION, result: "unchanged", output: None, file: None });
        }
        let folder = data_folder("set HOME or XDG_DATA_HOME")?.join(FOLDER);
        let file = kept(&folder, &request.output)?;
        let output = Some(shortened(&request.output, tokens, &file));
        Ok(ShortenAnswer { version: VERSION, result: "shortened", output, file: Some(file) })
    })
}

/// Whether the model asked to see a file: then it wants what is in it.
fn is_read(request: &ShortenRequest) -> bool {
    let Part::ToolCall(call) = Part::call("", request.tool.as_str(), &request.input) else { return false };
    Action::of(&call).iter().any(|action| matches!(action, Action::Read { .. }))
}

/// The file of an output. It is readable by its owner alone.
fn kept(folder: &Path, text: &str) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::Write { path: folder.to_owned(), error, hint: None };
    fs::create_dir_all(folder).map_err(failed)?;
    remove_old(folder);
    let name = &blake3::hash(text.as_bytes()).to_hex()[..NAME_CHARACTERS];
    let file = folder.join(format!("{name}.txt"));
    output::to_file(&file, text.as_bytes(), Readers::Owner)?;
    Ok(file)
}

/// What cannot be removed is tried again next time.
fn remove_old(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_old = |path: &PathBuf| {
        let written = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        written
            .and_then(|written| SystemTime::now().duration_since(written).ok())
            .is_some_and(|age| age > KEPT)
    };
    let paths = entries.take(LOOKED_AT_MAX).filter_map(Result::ok).map(|entry| entry.path());
    paths.filter(is_old).for_each(|path| drop(fs::remove_file(path)));
}

/// Beginning and end in whole lines, where lines are not endless.
fn shortened(text: &str, tokens: u64, file: &Path) -> String {
    let head_end = text.floor_char_boundary(HEAD_BYTES);
    let head_end = text[..head_end].rfind('\n').map_or(head_end, |end| end + 1);
    let tail_start = text.ceil_char_boundary(text.len() - TAIL_BYTES.min(text.len() - head_end));
    let tail_start = text[tail_start..].find('\n').map_or(tail_start, |end| tail_start + end + 1);
    let (head, tail) = (&text[..head_end], &text[tail_start..]);
    let lines = text[head_end..tail_start].lines().count();
    format!(
        "{head}{}[foldback left out {} lines here, of {} tokens in all. The whole output is in {}]\n{tail}",
        if head.ends_with('\n') { "" } else { "\n" },
        number(lines as u64),
        number(tokens),
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(foldback_testkit::config())]
        #[test]
        fn beginning_and_end_are_the_outputs_own(line in "[a-zé漢 ]{0,200}", count in 200usize..900) {
            let text: String = (0..count).map(|n| format!("{n} {line}\n")).collect();
            let short = shortened(&text, 1, Path::new("/f"));
            let (head, rest) = short.split_once("[foldback left out").unwrap();
            let (_, tail) = rest.split_once("]\n").unwrap();
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.len() <= HEAD_BYTES && tail.len() <= TAIL_BYTES);
        }
    }
}
