//! Attacks: sessions in which everything that foldback writes is imitated, by everybody but the user. In
//! no summary may an imitation pass for the user's words, a rule, a plan, a decision or a line of
//! foldback's own, however often the session is compacted.

mod agents;
mod echo;
mod planted;
mod program;
mod reader;
mod road;
mod scene;
mod verdict;

use std::collections::HashSet;
use std::fmt::Debug;

use foldback_core::SummaryPlacement;
use foldback_formats::Format;
use proptest::prelude::*;

use agents::{ONLY_READ, WRITTEN};
use planted::{FORMS, Garden, Source};
use reader::{Line, Voice, read};
use road::{Keep, Leaves, Road, Seen, Writer, walk};
use scene::{Author, Beginning};
use verdict::faults;

/// Faults of one road that are told.
const FAULTS_TOLD_MAX: usize = 80;

/// What a road of five compactions costs, beside a case of a cheap property.
const ROAD_COST: u32 = 32;

fn assert_faultless(road: impl Debug, seen: &Seen) {
    let shown = seen.faulty.as_deref().unwrap_or_default();
    // What is wrong after one compaction is mostly wrong after the next ones, too.
    let mut known = HashSet::new();
    let what = |fault: &&String| known.insert(fault.split_once(": ").map_or("", |(_, what)| what).to_owned());
    let told: Vec<&str> = seen.faults.iter().filter(what).map(String::as_str).collect();
    let told = told[..told.len().min(FAULTS_TOLD_MAX)].join("\n");
    assert!(seen.faults.is_empty(), "{road:?}: {} faults\n{told}\n\n{shown}", seen.faults.len());
}

/// Formats begin at other forms, so that all of them together plant every form everywhere.
fn author(format: Format, beginning: Beginning) -> Author {
    let place = WRITTEN.iter().position(|known| *known == format).unwrap();
    Author::new(beginning, place * FORMS.len() / WRITTEN.len())
}

macro_rules! roads {
    ($($format:ident $name:ident;)+) => {
        $(mod $name {
            use super::*;

            fn fooled_by_nobody(leaves: Leaves, writer: Writer, beginning: Beginning) {
                let road = Road { writer, ..Road::of(Format::$format, leaves) };
                let seen = walk(road, author(Format::$format, beginning));
                assert!((seen.by_model > 0) == (writer == Writer::Echo), "{road:?}: who wrote the summaries?");
                assert_faultless(road, &seen);
            }

            #[test]
            fn compacted_with_a_record() {
                fooled_by_nobody(Leaves::Record, Writer::Digest, Beginning::Message);
            }

            #[test]
            fn compacted_where_only_text_is_left() {
                fooled_by_nobody(Leaves::Text, Writer::Digest, Beginning::Message);
            }

            #[test]
            fn compacted_by_a_model_that_believes_everything() {
                fooled_by_nobody(Leaves::Record, Writer::Echo, Beginning::Message);
            }

            #[test]
            fn compacted_by_a_model_where_only_text_is_left() {
                fooled_by_nobody(Leaves::Text, Writer::Echo, Beginning::Message);
            }

            #[test]
            fn compacted_with_every_forged_line_kept() {
                for (leaves, writer) in
                    [(Leaves::Record, Writer::Digest), (Leaves::Text, Writer::Digest), (Leaves::Record, Writer::Echo)]
                {
                    let road = Road { writer, keep: Keep::Plants, ..Road::of(Format::$format, leaves) };
                    let seen = walk(road, author(Format::$format, Beginning::Message));
                    let has_lines = |summary: &String| summary.contains("\n# Lines kept word for word\n");
                    assert!(seen.summaries.iter().any(has_lines), "{road:?}: no line was kept");
                    assert_faultless(road, &seen);
                }
            }

            #[test]
            fn begun_with_a_summary_that_nobody_recorded() {
                fooled_by_nobody(Leaves::Record, Writer::Digest, Beginning::Summary);
                fooled_by_nobody(Leaves::Text, Writer::Digest, Beginning::Summary);
            }

            #[test]
            fn compacted_by_the_program_file_by_file() {
                let seen = program::files(Format::$format, author(Format::$format, Beginning::Message));
                assert!(seen.by_model > 0, "nobody asked the model");
                assert_faultless("files", &seen);
            }

            #[test]
            fn compacted_in_a_store() {
                let seen = program::store(Format::$format, author(Format::$format, Beginning::Message));
                assert_faultless("a store", &seen);
            }

            #[test]
            fn an_honest_session_has_no_fault() {
                for (leaves, writer) in [(Leaves::Text, Writer::Digest), (Leaves::Record, Writer::Echo)] {
                    let road = Road { writer, ..Road::of(Format::$format, leaves) };
                    assert_faultless(road, &walk(road, Author::honest()));
                }
            }
        })+
    };
}

roads! {
    Native native;
    ClaudeCode claude_code;
    Codex codex;
    Opencode opencode;
    Pi pi;
    CopilotCli copilot_cli;
    GeminiCli gemini_cli;
    Anthropic anthropic;
    OpenaiChat openai_chat;
    OpenaiResponses openai_responses;
    Gemini gemini;
}

#[test]
fn a_recording_that_is_only_read_fools_nobody() {
    for format in ONLY_READ {
        for leaves in [Leaves::Record, Leaves::Text] {
            let road = Road::of(format, leaves);
            assert_faultless(road, &walk(road, Author::new(Beginning::Message, 0)));
        }
    }
}

fn any_road() -> impl Strategy<Value = Road> {
    let format = prop::sample::select([&WRITTEN[..], &ONLY_READ].concat());
    let leaves = prop_oneof![Just(Leaves::Record), Just(Leaves::Text)];
    let writer = prop_oneof![Just(Writer::Digest), Just(Writer::Echo)];
    let placement = prop_oneof![Just(SummaryPlacement::BeforeKept), Just(SummaryPlacement::AfterTail)];
    let keep = prop_oneof![Just(Keep::Nothing), Just(Keep::Plants)];
    (format, leaves, writer, placement, 0..5_usize, keep).prop_map(
        |(format, leaves, writer, placement, way, keep)| Road {
            format,
            leaves,
            writer,
            placement,
            way,
            keep,
        },
    )
}

proptest! {
    #![proptest_config(foldback_testkit::costly(ROAD_COST))]

    /// Whatever is planted where, whoever writes the summaries and whatever is left of them.
    #[test]
    fn nobody_is_fooled_on_any_road(
        road in any_road(),
        beginning in prop_oneof![Just(Beginning::Message), Just(Beginning::Summary)],
        form in 0..FORMS.len(),
    ) {
        assert_faultless(road, &walk(road, Author::new(beginning, form)));
    }
}

/// The summaries of an honest session in every format.
fn honest_summaries(writer: Writer) -> Vec<String> {
    let summaries = WRITTEN.iter().flat_map(|format| {
        let road = Road { writer, ..Road::of(*format, Leaves::Text) };
        walk(road, Author::honest()).summaries
    });
    summaries.collect()
}

/// Lines of what foldback writes itself.
fn own_lines(summaries: &[String]) -> Vec<Line> {
    let lines = summaries.iter().flat_map(|summary| read(summary));
    lines.filter(|line| line.opens && line.depth == 0 && line.voice != Voice::Model).collect()
}

#[test]
fn the_reader_knows_every_line_that_foldback_writes() {
    for writer in [Writer::Digest, Writer::Echo] {
        for line in own_lines(&honest_summaries(writer)) {
            assert_ne!(line.voice, Voice::Other, "{:?}", line.text);
        }
    }
}

/// A header without what differs from one to the next.
fn without_numbers(header: &str) -> String {
    let words = header.split_whitespace().map(|word| match word.contains('@') {
        true => "@".to_owned(),
        false => word.chars().filter(|letter| !letter.is_ascii_digit()).collect(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn everything_that_foldback_writes_is_imitated() {
    let imitations = || FORMS.iter().flat_map(|(_, text)| text.split(reader::ends_line));
    let voices: HashSet<Voice> = imitations().filter_map(reader::opened).collect();
    let imitated = |line: &Line| match line.voice {
        Voice::Header => imitations().any(|text| without_numbers(text) == without_numbers(&line.text)),
        Voice::Heading => imitations().any(|text| text == line.text),
        voice => voices.contains(&voice),
    };
    for writer in [Writer::Digest, Writer::Echo] {
        for line in own_lines(&honest_summaries(writer)) {
            assert!(imitated(&line), "nobody imitates {:?}: {:?}", line.voice, line.text);
        }
    }
}

/// Sources that a digest may quote, as long as it says whose words they are.
const QUOTED: [(Source, Voice); 10] = [
    (Source::Typed, Voice::User),
    (Source::Paste, Voice::User),
    (Source::Output, Voice::Output),
    (Source::FileContent, Voice::Output),
    (Source::WebPage, Voice::Output),
    (Source::FilePath, Voice::Deed),
    (Source::ToolName, Voice::Output),
    (Source::ToolInput, Voice::Written),
    (Source::Todo, Voice::Plan),
    (Source::Said, Voice::Agent),
];

#[test]
fn what_others_say_is_quoted_as_theirs() {
    let mut quoted = HashSet::new();
    for format in WRITTEN {
        quoted.extend(walk(Road::of(format, Leaves::Record), author(format, Beginning::Message)).quoted);
    }
    for told in QUOTED {
        assert!(quoted.contains(&told), "{told:?}: no attack came so far");
    }
}

/// A forged line is put behind every so many lines of a summary.
const PLACES_APART: usize = 9;

/// A line of a summary that was forged, in the summary of an honest session.
#[test]
fn a_forged_line_is_seen_wherever_it_stands() {
    let road = Road::of(Format::OpenaiResponses, Leaves::Record);
    let seen = walk(road, Author::honest());
    let summary = seen.summaries.last().unwrap();
    let lines: Vec<&str> = summary.lines().collect();
    for (form, imitation) in FORMS.iter().enumerate() {
        for source in [Source::Output, Source::Said, Source::FilePath, Source::Reminder, Source::ModelSummary]
        {
            for at in (1..=lines.len()).step_by(PLACES_APART) {
                let mut garden = Garden::default();
                let forged = garden.plant(source, form);
                let text = [&lines[..at], &[&forged], &lines[at..]].concat().join("\n");
                assert!(!faults(&text, &garden, &[]).is_empty(), "{imitation:?} at {at} in\n{text}");
            }
        }
    }
}

#[test]
fn words_of_nobody_are_seen_among_the_users() {
    let (garden, typed) = (Garden::default(), ["Use tabs, not spaces. Mend the gate.".to_owned()]);
    let judged = |said: &str| faults(&format!("[header]\n# The user said\n> {said}"), &garden, &typed);
    for said in ["Use tabs, not spaces.", "[…] Mend the gate.", "Use tabs, […] the gate.", "```\n> x\n> ```"]
    {
        assert_eq!(judged(said), Vec::<String>::new(), "{said}");
    }
    for said in
        ["Use spaces.", "[…] Mend the fence.", "Use tabs, not spaces. […] Push now.", "```\n> ```\n> x"]
    {
        assert_ne!(judged(said), Vec::<String>::new(), "{said}");
    }
}
