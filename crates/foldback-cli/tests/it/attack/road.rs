//! Five compactions in a chain, and what each makes of the session.

use std::collections::HashSet;
use std::sync::Arc;

use foldback_core::{
    Budget, CompactionReason, EstimatingCounter, Handle, Item, KeepLines, Part, Policy, SummaryPlacement,
    Tokens, View,
};
use foldback_engine::{CompactionContext, CompactionRequest, Outcome, compact, compact_asking};
use foldback_formats::{Format, SessionFile, WrittenAs, write};

use super::agents::with_events;
use super::echo::Echo;
use super::planted::{AROUND, FORGED_HANDLE, Source};
use super::reader::{Voice, read};
use super::scene::{Author, RULES};
use super::verdict::faults;

/// Compactions of one session, one on top of the other.
pub(super) const COMPACTIONS: usize = 5;

/// Policies and the shares of a view's tokens, in percent, that they are asked for: some leave a summary
/// much room, some little.
const WAYS: [(&str, u64); 5] =
    [("goose", 90), ("ladder", 30), ("codex", 60), ("goose", 50), ("opencode", 40)];

/// Below this there is no room for a summary that says anything.
const TARGET_MIN: u64 = 600;

/// Who writes the summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Digest,
    /// A model that repeats what it was shown.
    Echo,
}

/// What is left of a compaction in the file that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// The record, where the format can hold one.
    Record,
    /// Nothing but the text of the summary.
    Text,
}

/// A chain of compactions of a session of this format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Road {
    pub(super) format: Format,
    pub(super) leaves: Leaves,
    pub(super) writer: Writer,
    pub(super) placement: SummaryPlacement,
    /// Where in the list of policies it begins.
    pub(super) way: usize,
    /// Whether everything that was planted is to be kept word for word.
    pub(super) keep: Keep,
}

/// In smaller views, a model's summary may leave a rule out.
const RULES_TOKENS_MIN: Tokens = Tokens(1_000);

/// Which lines the summaries repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    /// Every line with a planted word, and the forms around it.
    Plants,
}

impl Road {
    pub(super) fn of(format: Format, leaves: Leaves) -> Self {
        let (writer, placement) = (Writer::Digest, SummaryPlacement::BeforeKept);
        Self { format, leaves, writer, placement, way: 0, keep: Keep::Nothing }
    }
}

/// What was seen on a road.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) faults: Vec<String>,
    /// The first summary with a fault.
    pub(super) faulty: Option<String>,
    /// All summaries, in order.
    pub(super) summaries: Vec<String>,
    /// Which sources were quoted, and as whom.
    pub(super) quoted: HashSet<(Source, Voice)>,
    /// Summaries that the model wrote.
    pub(super) by_model: usize,
    /// Views of at least so many tokens hold every rule.
    rules_tokens_min: Tokens,
}

impl Seen {
    pub(super) fn fault(&mut self, stage: usize, what: &str) {
        self.faults.push(format!("compaction {stage}: {what}"));
    }

    /// Reads the summaries of a view as somebody who knows what was said and planted.
    pub(super) fn judge(&mut self, stage: usize, summaries: Vec<String>, author: &Author) {
        for summary in summaries {
            for what in faults(&summary, &author.garden, &author.typed) {
                self.fault(stage, &what);
                self.faulty.get_or_insert_with(|| summary.clone());
            }
            for line in read(&summary) {
                let plants = author.garden.found_in(&line.text);
                self.quoted.extend(plants.map(|plant| (plant.source, line.voice)));
            }
            self.summaries.push(summary);
        }
    }

    /// Nothing that was planted recalls anything, and where the record is there, every handle does, and the
    /// rules of the user stand.
    pub(super) fn judge_record(&mut self, stage: usize, view: &View, has_record: bool) {
        let forged = Handle::parse(FORGED_HANDLE).unwrap();
        if view.recall(&forged).is_some() {
            self.fault(stage, "a handle that was planted recalls something");
        }
        if !has_record {
            return;
        }
        let (text, shown) = (text_of(view), summaries(view).join("\n"));
        for handle in handles(&shown).filter(|handle| *handle != forged && view.recall(handle).is_none()) {
            let line = shown.lines().find(|line| line.contains(handle.as_str())).unwrap_or_default();
            self.fault(stage, &format!("the handle of this line recalls nothing: {line:?}"));
        }
        let is_cramped = view.tokens() < self.rules_tokens_min;
        for rule in RULES.iter().filter(|rule| !is_cramped && !text.contains(**rule)) {
            self.fault(
                stage,
                &format!("the user's rule is lost in a view of {} tokens: {rule}", view.tokens()),
            );
        }
    }
}

/// A session on its road.
struct Chain {
    road: Road,
    /// What the file is in now.
    format: Format,
    file: Vec<u8>,
    author: Author,
    seen: Seen,
}

/// Compacts a session five times, with something new before each.
pub(super) fn walk(road: Road, author: Author) -> Seen {
    let rules_tokens_min = match road.writer {
        Writer::Digest => Tokens::ZERO,
        Writer::Echo => RULES_TOKENS_MIN,
    };
    let seen = Seen { rules_tokens_min, ..Seen::default() };
    let mut chain = Chain { road, format: road.format, file: Vec::new(), author, seen };
    (0..COMPACTIONS).for_each(|stage| chain.go_on(stage));
    chain.seen
}

impl Chain {
    fn go_on(&mut self, stage: usize) {
        let events = self.author.stage(stage);
        self.file = with_events(self.format, &self.file, &events);
        let session = SessionFile::read_as(self.format, self.file.clone()).unwrap();
        let conversation = &session.conversations()[0];
        let outcome = self.compacted(stage, &session);
        let folded = summaries(&outcome.view);
        assert!(!folded.is_empty(), "{:?}, compaction {stage}: nothing was folded", self.road);
        self.seen.judge(stage, folded, &self.author);
        let committed = session.committed(conversation, &outcome.view, conversation.block_count());
        let written = match self.road.leaves {
            Leaves::Record => session.compacted(&committed),
            Leaves::Text if self.format.is_writable() => {
                write(self.format, &committed.sent, Some(&session)).unwrap()
            }
            Leaves::Text => write(Format::Native, &committed.sent, None).unwrap(),
        };
        let has_record = matches!(written.written_as, WrittenAs::Appended(_));
        let (WrittenAs::Appended(format) | WrittenAs::Fresh(format)) = written.written_as;
        self.format = format;
        self.file = written.to_bytes();
        self.look_again(stage, &outcome.view, has_record);
    }

    fn compacted(&mut self, stage: usize, session: &SessionFile) -> Outcome {
        let view = view_of(session);
        let (policy, percent) = WAYS[(stage + self.road.way) % WAYS.len()];
        let target = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(TARGET_MIN))).unwrap();
        let mut request =
            CompactionRequest::new("attack", view, CompactionReason::Manual).with_budget(target);
        request.dialect = session.dialect();
        if self.road.keep == Keep::Plants {
            request.keep = Some(KeepLines::new(|line| line.find(AROUND).map(|at| at..at + AROUND.len())));
        }
        let policy = Policy::named(policy).unwrap().with_summary_placement(self.road.placement);
        if self.road.writer == Writer::Digest {
            return compact(request.execution(policy.strategy())).unwrap();
        }
        let echo = Echo::new(&self.author.garden);
        let context = CompactionContext::default().with_backend(echo.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = runtime.block_on(compact_asking(policy.strategy(), &request, &context, None)).unwrap();
        self.seen.by_model += asked.written_by().filter(|name| *name == "echo").count();
        echo.faults().iter().for_each(|fault| self.seen.fault(stage, fault));
        asked.outcome
    }

    /// What was written is read as what was committed.
    fn look_again(&mut self, stage: usize, committed: &View, has_record: bool) {
        let session = SessionFile::read_as(self.format, self.file.clone()).unwrap();
        let view = view_of(&session);
        self.seen.judge_record(stage, &view, has_record);
        if has_record && summaries(committed) != summaries(&view) {
            self.seen.fault(stage, "the file shows other summaries than those that were committed");
        }
    }
}

pub(super) fn view_of(session: &SessionFile) -> View {
    let conversation = &session.conversations()[0];
    conversation.view_of(&conversation.transcript(Arc::new(EstimatingCounter), session.dialect()))
}

/// The summaries that a view shows, each as one text.
pub(super) fn summaries(view: &View) -> Vec<String> {
    view.items().filter(|item| item.summary.is_some()).map(|item| texts(item)).collect()
}

fn text_of(view: &View) -> String {
    view.items().map(|item| texts(item)).collect::<Vec<_>>().join("\n")
}

fn texts(item: &Item) -> String {
    let texts = item.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.to_string()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Every handle that a text prints.
fn handles(text: &str) -> impl Iterator<Item = Handle> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '@');
    words.filter(|word| word.starts_with('@')).filter_map(Handle::parse)
}
