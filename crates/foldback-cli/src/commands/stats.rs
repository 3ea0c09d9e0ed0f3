//! `foldback stats`: what sessions are made of, as a chart, as JSON, as a picture.

use std::path::Path;

use foldback_formats::Contents;
use serde::Serialize;

use crate::args::{Shared, Stats as Arguments};
use crate::failure::{Exit, Failure, at};
use crate::input::{self, Opened};
use crate::output::{self, Readers};
use crate::provider::ProviderCounts;
use crate::scene::Scene;
use crate::stats::{Calibrated, Repeated, Stats};
use crate::terminal::{BLUE, FAINT, STRONG, counted, number, styled, width};
use crate::{counting, svg};

/// Tools and turns that are listed for people; JSON has them all.
const ROWS_MAX: usize = 12;

/// Conversations of one file that are shown in full.
const CONVERSATIONS_MAX: usize = 3;

/// Columns of a bar.
const BAR: usize = 32;

pub(crate) fn run(shared: &Shared, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.svg.is_some() && !input::is_single(&arguments.inputs) {
        return Err(Failure::usage("--svg draws one session", "name one session file"));
    }
    let counter = counting::counter(shared);
    let is_single = input::is_single(&arguments.inputs);
    input::for_each(shared, &arguments.inputs, |opened| {
        let of = |conversation| {
            let scene = Scene::counted(conversation, &counter, opened.session.dialect());
            let provider = ProviderCounts::of(shared, conversation, &scene.transcript);
            let stats = Stats::of(&scene, arguments.from, arguments.top, &provider);
            if is_single {
                // The program ends soon, as where the session is forgotten.
                std::mem::forget(scene);
            }
            stats
        };
        let conversations: Vec<Stats> = opened.session.conversations().iter().map(of).collect();
        let sub_agents =
            opened.sub_agents.iter().map(|path| SubAgent::read(shared, path, &of_session(&counter)));
        let report = StatsReport::new(opened, counter.name(), conversations, sub_agents.collect());
        if let Some(path) = &arguments.svg {
            let title = format!("{} ({})", report.file, report.format);
            let drawn =
                report.conversations.first().map_or_else(String::new, |stats| svg::draw(&title, stats));
            output::to_file(path, drawn.as_bytes(), Readers::Owner)?;
        }
        match shared.json {
            true => output::print_json(&report)?,
            false => output::print(&report.text())?,
        }
        Ok(Exit::Success)
    })
}

type TokensOf<'a> = dyn Fn(&Contents) -> (usize, u64) + 'a;

/// How many items and tokens a session holds.
fn of_session(
    counter: &std::sync::Arc<dyn foldback_core::TokenCounter>,
) -> impl Fn(&Contents) -> (usize, u64) + '_ {
    move |session| {
        let views = session.conversations().iter().map(|conversation| {
            let scene = Scene::counted(conversation, counter, session.dialect());
            let view = scene.view(crate::args::Extent::View);
            (view.len(), view.tokens().0)
        });
        views.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

#[derive(Serialize)]
struct StatsReport {
    file: String,
    format: &'static str,
    counter: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_agent_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    dialect: Option<&'static str>,
    /// What the session holds, without its sub-agents; of conversations side by side, the largest.
    tokens_view: u64,
    tokens_history: u64,
    conversations: Vec<Stats>,
    branches: Vec<Branch>,
    sub_agents: Vec<SubAgent>,
    problems: Vec<String>,
}

/// A branch that was left.
#[derive(Serialize)]
struct Branch {
    line: usize,
    items: usize,
}

#[derive(Serialize)]
struct SubAgent {
    file: String,
    agent_id: Option<String>,
    items: usize,
    tokens: u64,
}

impl SubAgent {
    fn read(shared: &Shared, path: &Path, tokens_of: &TokensOf<'_>) -> Self {
        let session = input::look_at(shared, path).ok().map(|opened| opened.session);
        let (items, tokens) = session.as_deref().map_or((0, 0), tokens_of);
        let parent = session.as_deref().and_then(Contents::sub_agent_of);
        let agent_id = parent.map(|parent| parent.agent_id.to_string());
        Self { file: path.display().to_string(), agent_id, items, tokens }
    }
}

impl StatsReport {
    fn new(opened: &Opened, counter: &str, conversations: Vec<Stats>, sub_agents: Vec<SubAgent>) -> Self {
        let session = &opened.session;
        let branches = session.branches().iter().map(|branch| Branch {
            line: branch.recorded().first().map_or(0, |recorded| recorded.place.line),
            items: branch.len(),
        });
        let own = || conversations.iter().take(session.own_conversations().len());
        Self {
            file: opened.path.display().to_string(),
            format: session.format().as_str(),
            counter: counter.to_owned(),
            session_id: session.session_id().map(ToOwned::to_owned),
            sub_agent_of: session.sub_agent_of().map(|parent| parent.session_id.to_string()),
            model: session.model().map(ToOwned::to_owned),
            dialect: session.dialect().map(foldback_core::Dialect::as_str),
            tokens_view: own().map(|stats| stats.tokens_view).max().unwrap_or(0),
            tokens_history: own().map(|stats| stats.tokens_history).max().unwrap_or(0),
            conversations,
            branches: branches.collect(),
            sub_agents,
            problems: session.problems().iter().map(|problem| at(&opened.path, problem)).collect(),
        }
    }

    fn text(&self) -> String {
        let mut page = Page::default();
        let model = self.model.as_deref().map_or_else(String::new, |model| format!(", {model}"));
        page.line(&styled(STRONG, format!("{} ({}{model})", self.file, self.format)));
        if let Some(parent) = &self.sub_agent_of {
            page.line(&format!("sub-agent of session {parent}"));
        }
        for stats in self.conversations.iter().take(CONVERSATIONS_MAX) {
            page.conversation(stats, &self.counter);
        }
        if self.conversations.len() > CONVERSATIONS_MAX {
            let sum: u64 = self.conversations.iter().map(|stats| stats.tokens_view).sum();
            let more = counted(self.conversations.len() - CONVERSATIONS_MAX, "more conversation");
            let (sum, largest) = (number(sum), number(self.tokens_view));
            page.line(&format!("{more}; all hold {sum} tokens, the largest {largest}"));
        }
        for branch in &self.branches {
            let items = counted(branch.items, "item");
            page.line(&format!("a branch that was left: {items} from line {}", branch.line));
        }
        for agent in &self.sub_agents {
            let name = agent.agent_id.as_deref().unwrap_or("unnamed");
            let (items, tokens) = (counted(agent.items, "item"), number(agent.tokens));
            page.line(&format!("sub-agent {name}: {items}, {tokens} tokens, {}", agent.file));
        }
        page.text.push('\n');
        page.text
    }
}

/// Lines of a report for people.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn conversation(&mut self, stats: &Stats, counter: &str) {
        if let Some(name) = &stats.name {
            self.line(&styled(STRONG, name));
        }
        let (view, history) = (number(stats.tokens_view), number(stats.tokens_history));
        self.line(&format!(
            "{} tokens in {} items is what the model saw last; {history} in {} is the history ({counter})",
            styled(STRONG, view),
            stats.items_view,
            stats.items_history
        ));
        let turns = match stats.turns_history {
            all if stats.turns == all => counted(all, "turn"),
            all => format!("{} of {}", number(stats.turns as u64), counted(all, "turn")),
        };
        let (calls, results) = (counted(stats.calls, "call"), counted(stats.results, "result"));
        let (failed, unanswered) = (stats.failed_results, stats.unanswered_calls);
        self.line(&format!("{turns}, {calls}, {results} ({failed} failed), {unanswered} unanswered"));
        let total = stats.by_kind.iter().map(|share| share.tokens).sum::<u64>().max(1);
        let kinds = stats.by_kind.iter().map(|share| (share.name.to_owned(), share.count, share.tokens));
        self.bars("by kind", kinds, total);
        let parts = stats.by_part.iter().map(|share| (share.name.to_owned(), share.count, share.tokens));
        self.bars("by part", parts, total);
        let tools = stats.by_tool.iter().map(|tool| (tool.name.clone(), tool.calls, tool.tokens()));
        self.bars("by tool (calls and results)", tools, total);
        let turns = stats.by_turn.iter().map(|turn| {
            let prompt: String = turn.prompt.chars().take(40).collect();
            (format!("{} {prompt}", turn.turn), turn.items, turn.tokens)
        });
        self.bars("by turn", turns, total);
        self.over_time(stats);
        self.largest(stats);
        self.findings(stats);
    }

    fn bars(&mut self, heading: &str, rows: impl Iterator<Item = (String, usize, u64)>, total: u64) {
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return;
        }
        self.line("");
        self.line(&styled(STRONG, heading));
        for (name, count, tokens) in rows.iter().take(ROWS_MAX) {
            let filled = (tokens * BAR as u64).div_ceil(total).min(BAR as u64) as usize;
            let bar = format!("{}{}", "█".repeat(filled), " ".repeat(BAR - filled));
            let name: String = name.chars().take(44).collect();
            let percent = tokens * 100 / total;
            self.line(&format!(
                "  {} {:>10} {percent:>3}% {:>6}×  {name}",
                styled(BLUE, bar),
                number(*tokens),
                number(*count as u64)
            ));
        }
        if rows.len() > ROWS_MAX {
            self.line(&styled(FAINT, format!("  and {} more", rows.len() - ROWS_MAX)));
        }
    }

    fn over_time(&mut self, stats: &Stats) {
        const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let Some(most) = stats.over_time.iter().map(|point| point.tokens).max().filter(|&most| most > 0)
        else {
            return;
        };
        let columns = (width() - 4).min(stats.over_time.len()).max(1);
        let level = |column: usize| {
            let point = &stats.over_time[column * stats.over_time.len() / columns];
            LEVELS[(point.tokens * 7 / most) as usize]
        };
        let curve: String = (0..columns).map(level).collect();
        self.line("");
        self.line(&styled(
            STRONG,
            format!("what the context held over time (at most {} tokens)", number(most)),
        ));
        self.line(&format!("  {}", styled(BLUE, curve)));
    }

    fn largest(&mut self, stats: &Stats) {
        if stats.largest.is_empty() {
            return;
        }
        self.line("");
        self.line(&styled(STRONG, "largest items"));
        let room = width().saturating_sub(48);
        for large in &stats.largest {
            let line = large.line.map_or_else(String::new, |line| format!("line {line}"));
            let tool = large.tool.as_deref().unwrap_or(large.kind);
            let first: String = large.first_line.chars().take(room).collect();
            self.line(&format!(
                "  {:>9} {line:<11} {tool:<14} {}",
                number(large.tokens),
                styled(FAINT, first)
            ));
        }
    }

    fn findings(&mut self, stats: &Stats) {
        self.line("");
        let mut found = |repeated: &Repeated, what: &str| {
            if repeated.count > 0 {
                self.line(&format!("{} {what}: {} tokens", repeated.count, number(repeated.tokens)));
            }
        };
        found(&stats.duplicates, "results repeat an earlier one");
        found(&stats.superseded_reads, "reads of files that were read again or written later");
        if let Some(usage) = &stats.usage {
            self.line(&format!(
                "the provider reported {} tokens of context last ({} counted here), {} at most, {}% from the cache",
                number(usage.context_tokens_last),
                number(usage.counted_last),
                number(usage.context_tokens_peak),
                usage.cached_percent
            ));
        }
        if let Some(Calibrated { request_tokens, how }) = &stats.calibrated {
            self.line(&format!("the next request: {} tokens by its count, {how}", number(*request_tokens)));
        }
        for made in &stats.compactions {
            let reported = made
                .reported_tokens_before
                .map_or_else(String::new, |tokens| format!(" ({} reported)", number(tokens)));
            let (before, after) = (number(made.tokens_before), number(made.tokens_after));
            let cleared = match made.cleared {
                0 => String::new(),
                count => format!(", {} cleared", counted(count, "part")),
            };
            self.line(&format!(
                "compacted by {} on line {}: {before}{reported} → {after} tokens, {} hidden{cleared}",
                made.by,
                made.line,
                counted(made.hidden, "item")
            ));
        }
    }
}
