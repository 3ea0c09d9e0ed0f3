//! What a summary must not do with what was planted in a session.

use super::planted::{Garden, Plant, Source};
use super::reader::{Line, Voice, ends_line, opened, read};

/// The titles that foldback gives to sections.
const TITLES: [&str; 7] = [
    "An earlier summary: not the user's words",
    "Lines kept word for word",
    "State",
    "What happened, in order",
    "The user said",
    "Files changed",
    "Summary",
];

/// Those under which a model is not asked to write.
const OWN_TITLES: [&str; 5] = [
    "An earlier summary: not the user's words",
    "Lines kept word for word",
    "The user said",
    "Files changed",
    "Summary",
];

/// What stands where text was left out.
const LEFT_OUT: &str = "[…]";

/// The mark of the user's lines, and those of quotations in them.
const USER_MARK_BYTES: usize = 2;
const QUOTATION_MARKS: [char; 2] = ['>', '|'];

/// Everything that is wrong with a summary, a line for each.
pub(super) fn faults(summary: &str, garden: &Garden, typed: &[String]) -> Vec<String> {
    let lines = read(summary);
    let mut faults = titles(&lines);
    let typed: Vec<String> = typed.iter().map(|text| words(text)).collect();
    let mut is_fenced = false;
    for (number, line) in lines.iter().enumerate() {
        let mut fault = |what: String| faults.push(format!("{what}: {:?}", line.text));
        let said = line.text.get(USER_MARK_BYTES..).unwrap_or_default().trim_start();
        if line.voice != Voice::User {
            is_fenced = false;
        } else if said.starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        let is_paste = line.voice == Voice::User && (is_fenced || is_quotation(line));
        if line.voice == Voice::User && line.depth == 0 && !is_paste && !is_typed(said, &typed) {
            fault("the user did not type this".to_owned());
        }
        if let Some(what) = opens_another(line).filter(|_| number > 0) {
            fault(format!("a summary opens {what} in its middle"));
        }
        for plant in garden.found_in(&line.text) {
            if let Some(what) = fault_of(plant, line, is_paste) {
                let place = if line.depth > 0 { " in a quoted summary" } else { "" };
                fault(format!("{plant} {what}{place}"));
            }
        }
    }
    faults
}

/// Each title stands there once.
fn titles(lines: &[Line]) -> Vec<String> {
    let titles = lines.iter().filter(|line| line.voice == Voice::Heading && line.depth == 0);
    let titles: Vec<&str> = titles.map(|line| line.text.trim_start_matches('#').trim()).collect();
    let unknown = titles.iter().filter(|title| !TITLES.contains(title));
    let mut faults: Vec<String> = unknown.map(|title| format!("nobody gave this title: {title:?}")).collect();
    for title in TITLES {
        let count = titles.iter().filter(|found| **found == title).count();
        if count > 1 {
            faults.push(format!("the section {title:?} is opened {count} times"));
        }
    }
    faults
}

/// What only the beginning of a summary may open, or nothing that somebody else wrote.
fn opens_another(line: &Line) -> Option<&'static str> {
    if line.depth > 0 {
        return None;
    }
    let text = line.text.as_str();
    let is_short = text.starts_with('[') && text.contains(" items folded: @");
    if text.starts_with("[Summary of ") || is_short {
        return Some("a summary");
    }
    let is_model = line.voice == Voice::Model;
    let is_title = || OWN_TITLES.iter().any(|title| text.strip_prefix("# ") == Some(title));
    match is_model && (text.starts_with("> ") || is_title()) {
        true => Some("a section or quotation of foldback's in the model's words"),
        false => None,
    }
}

/// What is wrong with an imitation that stands in a line.
fn fault_of(plant: &Plant, line: &Line, is_paste: bool) -> Option<String> {
    let is_shown_as_paste = plant.source == Source::Paste && (is_paste || is_in_quotation(plant, &line.text));
    let is_quoted_summary = plant.source == Source::ModelSummary && line.depth > 0;
    if is_shown_as_paste || is_quoted_summary || line.voice == Voice::Model {
        return None;
    }
    if !may_speak(plant.source, line.voice) {
        return Some(format!("speaks as {:?}", line.voice));
    }
    let is_forged = plant.source != Source::Typed;
    if is_forged && plant.text.split(ends_line).any(|part| part.contains(&plant.word) && begins(line, part)) {
        return Some("begins a line of its own".to_owned());
    }
    let content = line.text.trim_start_matches(['>', '|', ' ']);
    content.starts_with("[folded @").then(|| "opens a placeholder".to_owned())
}

/// Whether a line begins with a line of an imitation, so that it is taken for what is imitated.
fn begins(line: &Line, imitation: &str) -> bool {
    let Some(rest) = line.text.trim_start().strip_prefix(imitation.trim_start()) else { return false };
    let imitated = opened(&line.text[..line.text.len() - rest.len()]);
    line.text.starts_with(imitation) || (line.opens && imitated.is_some_and(|voice| voice != Voice::Other))
}

/// As whom a source may be quoted.
fn may_speak(source: Source, voice: Voice) -> bool {
    let is_remark = matches!(voice, Voice::Aside | Voice::Other | Voice::Earlier);
    match source {
        Source::Typed => is_remark || matches!(voice, Voice::User | Voice::OfUser | Voice::Question),
        Source::Paste => is_remark || voice == Voice::OfUser,
        Source::Reminder | Source::Attached => is_remark || voice == Voice::Output,
        Source::Output | Source::FileContent | Source::WebPage => {
            is_remark || matches!(voice, Voice::Output | Voice::Deed)
        }
        // The agent wrote them.
        Source::ToolName | Source::FilePath | Source::ToolInput => {
            is_remark || matches!(voice, Voice::Output | Voice::Deed | Voice::Written | Voice::Agent)
        }
        Source::Todo => is_remark || matches!(voice, Voice::Plan | Voice::Agent),
        Source::Said | Source::Thought => {
            is_remark || matches!(voice, Voice::Agent | Voice::Question | Voice::Output)
        }
        Source::ModelSummary => is_remark,
    }
}

/// Whether everything between two marks of what was left out was typed, up to where a quotation begins.
fn is_typed(said: &str, typed: &[String]) -> bool {
    let pieces = said.split(LEFT_OUT).map(words).filter(|piece| !piece.is_empty());
    let mut own = pieces.take_while(|piece| !piece.starts_with(QUOTATION_MARKS));
    own.all(|piece| typed.iter().any(|text| text.contains(&piece)))
}

/// The same for what stands behind a mark of what was left out.
fn is_in_quotation(plant: &Plant, text: &str) -> bool {
    let word_at = text.find(&plant.word).unwrap_or_default();
    let pieces =
        text[..word_at].match_indices(LEFT_OUT).map(|(at, mark)| text[at + mark.len()..].trim_start());
    pieces.into_iter().any(|piece| piece.starts_with(QUOTATION_MARKS))
}

/// Whether a line of the user's shows that all of it is a quotation: behind the mark of the line stands another.
fn is_quotation(line: &Line) -> bool {
    let content = line.text.get(USER_MARK_BYTES..).unwrap_or_default();
    content.trim_start().starts_with(QUOTATION_MARKS)
}

/// A text with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
