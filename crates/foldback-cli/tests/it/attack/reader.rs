//! A reader of summaries, as a person reads them: lines, sections, and who speaks in each line. It knows
//! the rules of the form and nothing of the code that writes it.

/// Who a line claims to be from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Voice {
    /// The line that says what a summary stands for.
    Header,
    /// The title of a section.
    Heading,
    /// The user's own words.
    User,
    /// What is to be done, or was planned.
    Plan,
    /// What the agent said or thought.
    Agent,
    /// What was asked, and the answer.
    Question,
    /// What was done, and to which files.
    Deed,
    /// What a tool answered.
    Output,
    /// What the agent wrote into files.
    Written,
    /// An earlier summary, quoted: its lines are read like those of any summary.
    Earlier,
    /// What a model wrote, in the section that is its own.
    Model,
    /// A remark about what the user said, with words of the user's in it.
    OfUser,
    /// Another remark.
    Aside,
    /// None of these forms.
    Other,
}

/// A line of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Who the entry is from that the line belongs to.
    pub(super) voice: Voice,
    /// Whether the line begins the entry.
    pub(super) opens: bool,
    /// In how many quoted summaries the line stands.
    pub(super) depth: usize,
    /// Without what sets a quoted summary back.
    pub(super) text: String,
}

/// How entries begin. The first that fits decides.
const ENTRIES: &[(&str, Voice)] = &[
    ("> ", Voice::User),
    ("[Summary of ", Voice::Header),
    ("[The user's ", Voice::OfUser),
    ("(here the user said", Voice::OfUser),
    ("(", Voice::Aside),
    ("said: ", Voice::Agent),
    ("thought: ", Voice::Agent),
    ("asked", Voice::Question),
    ("planned", Voice::Plan),
    ("To do", Voice::Plan),
    ("Next", Voice::Plan),
    ("did: ", Voice::Deed),
    ("Left behind", Voice::Deed),
    ("Files changed", Voice::Deed),
    ("Paths are relative", Voice::Deed),
    ("Newest failure", Voice::Output),
    ("Checks", Voice::Output),
    ("earlier summary", Voice::Earlier),
    ("notice: ", Voice::Aside),
    ("pasted by the user: ", Voice::OfUser),
    ("attached by the user: ", Voice::Aside),
    ("given to ", Voice::Agent),
    ("answered by ", Voice::Output),
    ("put in by ", Voice::Aside),
];

/// The section of what an earlier summary says, whose every line has a mark.
const EARLIER: &str = "# An earlier summary";
const EARLIER_MARK: &str = "| ";

/// What stands where lines were left out: who speaks in the next one, nobody knows.
const LEFT_OUT: &str = "[…]";

/// How entries begin that stand below what was done.
const BELOW: &[(&str, Voice)] = &[("wrote in ", Voice::Written), ("the words of the change", Voice::Written)];

/// What such entries have in their first line: behind which sign, and who speaks.
const BELOW_WITHIN: &[(&str, &str, Voice)] = &[
    ("", " failed: ", Voice::Output),
    ("", " failed, put right later: ", Voice::Output),
    ("`", " said: ", Voice::Output),
    (".", " says: ", Voice::Output),
];

/// How the lines of a list of things to do begin, whatever else they hold.
const OF_PLAN: &[&str] = &["in progress: ", "next: ", "given up: ", "done: ", "answered: "];

/// The section of a model's own words; it goes to the end.
const ANSWER: &str = "# Summary";

/// How far the lines of an entry are set back behind its first.
const SET_BACK: &str = "  ";

/// Whether a reader, or a terminal, may take what follows for a new line.
pub(super) fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The lines of a summary; those that are empty separate nothing.
pub(super) fn read(summary: &str) -> Vec<Line> {
    let texts = summary.split(ends_line).filter(|text| !text.trim().is_empty());
    lines(&texts.collect::<Vec<_>>(), 0)
}

fn lines(texts: &[&str], depth: usize) -> Vec<Line> {
    let mut all = Vec::new();
    let mut voice = Voice::Other;
    let mut number = 0;
    while let Some(&text) = texts.get(number) {
        number += 1;
        let is_first = depth == 0 && number == 1 && text.starts_with('[');
        // In a quoted summary the line above may be left out.
        let is_of_plan = (matches!(voice, Voice::Plan | Voice::Question) || depth > 0)
            && OF_PLAN
                .iter()
                .any(|start| text.strip_prefix(SET_BACK).is_some_and(|text| text.starts_with(start)));
        let entry = match (is_first, is_of_plan) {
            (true, _) => Some(Voice::Header),
            (_, true) => None,
            _ => opened(text),
        };
        voice = match text.trim() == LEFT_OUT {
            true => Voice::Other,
            false => entry.unwrap_or(voice),
        };
        all.push(Line { voice, opens: entry.is_some(), depth, text: text.to_owned() });
        let mark = match voice {
            Voice::Earlier => Some(SET_BACK),
            Voice::Heading if text.starts_with(EARLIER) => Some(EARLIER_MARK),
            _ => None,
        };
        if let Some(mark) = mark {
            let quoted: Vec<&str> =
                texts[number..].iter().map_while(|text| text.strip_prefix(mark)).collect();
            number += quoted.len();
            all.extend(lines(&quoted, depth + 1));
        }
        if text == ANSWER {
            let answer = texts[number..].iter();
            let of_model =
                |text: &&str| Line { voice: Voice::Model, opens: false, depth, text: (*text).to_owned() };
            all.extend(answer.map(of_model));
            break;
        }
    }
    all
}

/// Who an entry is from that a line begins; none where the line goes on with the entry before.
pub(super) fn opened(text: &str) -> Option<Voice> {
    if text.starts_with('#') {
        return Some(Voice::Heading);
    }
    if let Some(text) = text.strip_prefix(SET_BACK) {
        let below = BELOW.iter().find(|(start, _)| text.starts_with(start));
        let is_within = |(sign, part, _): &&(&str, &str, Voice)| {
            let before = text.split_once(part).map(|(before, _)| before);
            // A quoted line says nothing itself, whatever it says.
            let is_quoted = text.starts_with(' ') || (text.starts_with('|') && !sign.is_empty());
            !is_quoted && before.is_some_and(|before| before.contains(sign))
        };
        let below = below.map(|(_, voice)| *voice);
        return below.or_else(|| BELOW_WITHIN.iter().find(is_within).map(|(.., voice)| *voice));
    }
    let known = ENTRIES.iter().find(|(start, _)| text.starts_with(start));
    Some(known.map_or(Voice::Other, |(_, voice)| *voice))
}
