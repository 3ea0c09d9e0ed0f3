//! What a session is made of: counted here, printed by `commands/stats.rs`, drawn by `svg.rs`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use foldback_core::tokens::media_tokens;
use foldback_core::{Dialect, Edit, Item, ItemKind, Part, ResultPart, ToolCall, ToolResult, View};
use foldback_formats::{MeteredStep, Step, StepAction};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::args::Extent;
use crate::picture::first_line;
use crate::provider::{CalibrationReport, ProviderCounts};
use crate::scene::Scene;
use crate::turns::Turns;

/// Points of the curve over time.
const POINTS_MAX: usize = 120;

/// Compactions that are listed; a session has a few.
const COMPACTIONS_MAX: usize = 1_000;

/// Shorter results are repeated by nature ("ok", "no matches").
const DUPLICATE_CHARACTERS_MIN: usize = 80;

/// Arguments that name the file a tool works on.
const PATH_ARGUMENTS: [&str; 8] =
    ["file_path", "path", "filePath", "absolute_path", "filename", "file", "target_file", "notebook_path"];

/// The composition of one conversation.
#[derive(Debug, Serialize)]
pub(crate) struct Stats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    pub(crate) tokens_view: u64,
    /// Never less than the view: what an agent put in for a past that the file does not have, or has
    /// in part, is held there too.
    pub(crate) tokens_history: u64,
    pub(crate) items_view: usize,
    pub(crate) items_history: usize,
    /// Turns of which something is there.
    pub(crate) turns: usize,
    pub(crate) turns_history: usize,
    pub(crate) calls: usize,
    pub(crate) results: usize,
    pub(crate) unanswered_calls: usize,
    pub(crate) failed_results: usize,
    pub(crate) reasoning_tokens: u64,
    pub(crate) tool_output_tokens: u64,
    /// Those in results, which are tool output as well, too.
    pub(crate) image_tokens: u64,
    pub(crate) by_kind: Vec<Share>,
    pub(crate) by_part: Vec<Share>,
    pub(crate) by_tool: Vec<ToolShare>,
    pub(crate) by_turn: Vec<TurnShare>,
    pub(crate) over_time: Vec<Point>,
    pub(crate) largest: Vec<Large>,
    pub(crate) duplicates: Repeated,
    pub(crate) superseded_reads: Repeated,
    pub(crate) usage: Option<Usage>,
    /// What the provider would count of the view, where reports say how it counts.
    pub(crate) calibrated: Option<Calibrated>,
    pub(crate) compactions: Vec<Compacted>,
}

/// The next request by the provider's count.
#[derive(Debug, Serialize)]
pub(crate) struct Calibrated {
    pub(crate) request_tokens: u64,
    #[serde(flatten)]
    pub(crate) how: CalibrationReport,
}

/// A part of the whole.
#[derive(Debug, Serialize)]
pub(crate) struct Share {
    pub(crate) name: &'static str,
    pub(crate) count: usize,
    pub(crate) tokens: u64,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct ToolShare {
    pub(crate) name: String,
    pub(crate) calls: usize,
    pub(crate) failed: usize,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl ToolShare {
    pub(crate) fn tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct TurnShare {
    /// Counted over the history.
    pub(crate) turn: usize,
    pub(crate) line: Option<usize>,
    pub(crate) items: usize,
    pub(crate) tokens: u64,
    pub(crate) prompt: String,
}

/// What the context held after an item of the history, by kind.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) item: usize,
    pub(crate) at: Option<i64>,
    pub(crate) tokens: u64,
    pub(crate) by_kind: [u64; 7],
}

#[derive(Debug, Serialize)]
pub(crate) struct Large {
    pub(crate) position: usize,
    pub(crate) line: Option<usize>,
    pub(crate) kind: &'static str,
    pub(crate) tool: Option<String>,
    pub(crate) tokens: u64,
    pub(crate) first_line: String,
}

/// Something that is there more than once.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Repeated {
    pub(crate) count: usize,
    pub(crate) tokens: u64,
}

/// What providers reported, beside what was counted at the same place.
#[derive(Debug, Serialize)]
pub(crate) struct Usage {
    pub(crate) calls: usize,
    pub(crate) context_tokens_peak: u64,
    pub(crate) context_tokens_last: u64,
    pub(crate) counted_last: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cached_percent: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Compacted {
    pub(crate) line: usize,
    pub(crate) by: String,
    pub(crate) reported_tokens_before: Option<u64>,
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    /// Items that the model did not see any more; what was shown again as a copy is not among them.
    pub(crate) hidden: usize,
    pub(crate) cleared: usize,
}

impl Stats {
    /// The composition of what `from` means; sizes of both are always there.
    pub(crate) fn of(scene: &Scene<'_>, from: Extent, top: usize, provider: &ProviderCounts) -> Self {
        let (view, history) = (scene.view(Extent::View), scene.view(Extent::History));
        let looked_at = if from == Extent::View { &view } else { &history };
        // Reads every result and every input there is, which takes as long as all the rest.
        let repeated = || (duplicates(looked_at), superseded_reads(looked_at));
        let (stats, repeated) = foldback_threads::beside(1, repeated, || {
            Self::without_repeated(scene, &view, &history, looked_at, top)
        });
        let (duplicates, superseded_reads) = repeated.into_iter().next().unwrap_or_default();
        let request_tokens = provider.request(view.tokens()).0;
        let calibrated = provider.report().map(|how| Calibrated { request_tokens, how });
        Self { duplicates, superseded_reads, calibrated, ..stats }
    }

    fn without_repeated(
        scene: &Scene<'_>,
        view: &View,
        history: &View,
        looked_at: &View,
        top: usize,
    ) -> Self {
        let mut sums = Sums { dialect: view.transcript().meter().dialect(), ..Sums::default() };
        for entry in looked_at.iter() {
            sums.add(entry.item(), entry.tokens().parts(), entry.tokens().total.0);
        }
        let turns = Turns::of(scene.conversation);
        let by_turn = by_turn(looked_at, scene, &turns);
        let pending = looked_at.pending_calls().count() + unanswered(looked_at);
        Self {
            name: scene.conversation.name().map(ToOwned::to_owned),
            tokens_view: view.tokens().0,
            tokens_history: history.tokens().max(view.tokens()).0,
            items_view: view.len(),
            items_history: history.len(),
            turns: by_turn.len(),
            turns_history: turns.count(),
            calls: sums.tools.values().map(|tool| tool.calls).sum(),
            results: sums.results,
            unanswered_calls: pending,
            failed_results: sums.tools.values().map(|tool| tool.failed).sum(),
            reasoning_tokens: sums.part("reasoning"),
            tool_output_tokens: sums.part("tool_result"),
            image_tokens: sums.part("media") + sums.media_in_results,
            by_kind: sums.by_kind(),
            by_part: sums.by_part(),
            by_tool: sums.by_tool(),
            by_turn,
            over_time: over_time(scene),
            largest: largest(looked_at, scene, top),
            duplicates: Repeated::default(),
            superseded_reads: Repeated::default(),
            usage: usage(scene, view, history),
            calibrated: None,
            compactions: compactions(scene),
        }
    }
}

fn unanswered(view: &View) -> usize {
    use foldback_core::Anomaly;
    view.anomalies().iter().filter(|anomaly| matches!(anomaly, Anomaly::UnansweredCall { .. })).count()
}

#[derive(Default)]
struct Sums<'v> {
    kinds: BTreeMap<ItemKind, (usize, u64)>,
    parts: BTreeMap<&'static str, (usize, u64)>,
    tools: BTreeMap<&'v str, ToolShare>,
    tool_of_call: HashMap<&'v str, &'v str>,
    results: usize,
    dialect: Option<Dialect>,
    media_in_results: u64,
}

impl<'v> Sums<'v> {
    fn add(&mut self, item: &'v Item, part_tokens: &[u32], total: u64) {
        let kind = self.kinds.entry(item.kind).or_default();
        (kind.0, kind.1) = (kind.0 + 1, kind.1 + total);
        for (part, &tokens) in item.parts.iter().zip(part_tokens) {
            let tokens = u64::from(tokens);
            let share = self.parts.entry(part.kind_name()).or_default();
            (share.0, share.1) = (share.0 + 1, share.1 + tokens);
            match part {
                Part::ToolCall(call) => {
                    self.tool_of_call.insert(&call.id, &call.name);
                    let tool = self.tools.entry(&call.name).or_default();
                    tool.calls += 1;
                    tool.input_tokens += tokens;
                }
                Part::ToolResult(result) => {
                    self.results += 1;
                    self.media_in_results += media_in(result, self.dialect);
                    let name = self.tool_of_call.get(result.call_id.as_str()).copied();
                    let tool = self.tools.entry(name.unwrap_or("(unknown tool)")).or_default();
                    tool.output_tokens += tokens;
                    tool.failed += usize::from(result.is_error);
                }
                _ => {}
            }
        }
    }

    fn part(&self, name: &str) -> u64 {
        self.parts.get(name).map_or(0, |(_, tokens)| *tokens)
    }

    fn by_kind(&self) -> Vec<Share> {
        let shares = self.kinds.iter();
        sorted(shares.map(|(kind, &(count, tokens))| Share { name: kind.as_str(), count, tokens }).collect())
    }

    fn by_part(&self) -> Vec<Share> {
        sorted(self.parts.iter().map(|(&name, &(count, tokens))| Share { name, count, tokens }).collect())
    }

    fn by_tool(self) -> Vec<ToolShare> {
        let named = |(name, tool): (&str, ToolShare)| ToolShare { name: name.to_owned(), ..tool };
        let mut tools: Vec<ToolShare> = self.tools.into_iter().map(named).collect();
        tools.sort_by(|one, other| other.tokens().cmp(&one.tokens()).then(one.name.cmp(&other.name)));
        tools
    }
}

/// What the images, sounds and videos in a result cost.
fn media_in(result: &ToolResult, dialect: Option<Dialect>) -> u64 {
    let media = result.content.iter().filter_map(|part| match part {
        ResultPart::Media(media) => Some(media_tokens(dialect, media).0),
        _ => None,
    });
    media.sum()
}

fn sorted(mut shares: Vec<Share>) -> Vec<Share> {
    shares.sort_by(|one, other| other.tokens.cmp(&one.tokens).then(one.name.cmp(other.name)));
    shares
}

fn by_turn(view: &View, scene: &Scene<'_>, turns: &Turns<'_>) -> Vec<TurnShare> {
    let mut shares: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    for (entry, turn) in view.iter().zip(turns.of_view(view)) {
        let Some(turn) = turn else { continue };
        let share = shares.entry(turn).or_default();
        (share.0, share.1) = (share.0 + 1, share.1 + entry.tokens().total.0);
    }
    let share = |(turn, (items, tokens)): (usize, (usize, u64))| {
        let begun = scene.conversation.recorded().get(turns.start(turn)?)?;
        let prompt = first_line(&begun.item);
        Some(TurnShare { turn, line: Some(begun.place.line), items, tokens, prompt })
    };
    shares.into_iter().filter_map(share).collect()
}

/// What the context held as the session went on: it falls where it was compacted.
fn over_time(scene: &Scene<'_>) -> Vec<Point> {
    let (conversation, transcript) = (scene.conversation, &scene.transcript);
    let mut by_kind = [0; 7];
    let mut points = Vec::new();
    let every = transcript.len().div_ceil(POINTS_MAX).max(1);
    let mut steps = (1..).zip(conversation.steps()).take(POINTS_MAX).peekable();
    for (index, entry) in transcript.iter().enumerate() {
        // The peak before a compaction is shown.
        while let Some((count, step)) = steps.next_if(|(_, step)| step.item_count() <= index) {
            points.push(Point { item: index, at: None, tokens: by_kind.iter().sum(), by_kind });
            by_kind = seen_after(scene, count, step.item_count());
        }
        by_kind[entry.kind() as usize] += entry.tokens().total.0;
        if index % every == 0 || index + 1 == transcript.len() {
            let at = entry.item().created_at.map(|time| time.0);
            points.push(Point { item: index, at, tokens: by_kind.iter().sum(), by_kind });
        }
    }
    for (count, step) in steps {
        let by_kind = seen_after(scene, count, step.item_count());
        points.push(Point { item: transcript.len(), at: None, tokens: by_kind.iter().sum(), by_kind });
    }
    points
}

/// What the context held after so many compactions, of the first so many items.
fn seen_after(scene: &Scene<'_>, step_count: usize, item_count: usize) -> [u64; 7] {
    let view = scene.conversation.view_after(step_count, &scene.transcript);
    let mut by_kind = [0; 7];
    for entry in view.iter().take_while(|entry| entry.anchor() < item_count) {
        by_kind[entry.kind() as usize] += entry.tokens().total.0;
    }
    by_kind
}

fn largest(view: &View, scene: &Scene<'_>, top: usize) -> Vec<Large> {
    let mut positions: Vec<(u64, usize)> =
        view.iter().enumerate().map(|(position, entry)| (entry.tokens().total.0, position)).collect();
    positions.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    let large = |(tokens, position): (u64, usize)| {
        let entry = view.get(position)?;
        let item = entry.item();
        let made = item.calls().next().map(|(_, call)| call.name.to_string());
        let answered = || {
            let (_, result) = item.results().next()?;
            view.call(&result.call_id).map(|call| call.name.to_string())
        };
        Some(Large {
            position,
            line: scene.line(entry.anchor()),
            kind: item.kind.as_str(),
            tool: made.or_else(answered),
            tokens,
            first_line: first_line(item),
        })
    };
    positions.into_iter().take(top).filter_map(large).collect()
}

fn texts(result: &ToolResult) -> impl Iterator<Item = &str> {
    result.content.iter().filter_map(ResultPart::as_text)
}

/// Results that say exactly what an earlier one said.
fn duplicates(view: &View) -> Repeated {
    let results = || {
        view.iter().flat_map(|entry| entry.item().results().map(move |(part, result)| (entry, part, result)))
    };
    let length = |result| texts(result).map(str::len).sum::<usize>();
    // Few are as long as another, and only those are read.
    let mut count_of_length: HashMap<usize, usize> = HashMap::new();
    for (_, _, result) in results() {
        *count_of_length.entry(length(result)).or_default() += 1;
    }
    let mut seen = HashSet::new();
    let mut repeated = Repeated::default();
    for (entry, part_index, result) in results() {
        let length = length(result);
        if length < DUPLICATE_CHARACTERS_MIN || count_of_length[&length] == 1 {
            continue;
        }
        let hash = texts(result).fold(0, |hash, text| xxh3_64_with_seed(text.as_bytes(), hash));
        if !seen.insert(hash) {
            repeated.count += 1;
            repeated.tokens += u64::from(entry.tokens().parts()[part_index]);
        }
    }
    repeated
}

/// Reads of a file that was read again or written later.
fn superseded_reads(view: &View) -> Repeated {
    let mut newest_read: HashMap<String, u64> = HashMap::new();
    let mut path_of_read: HashMap<&str, String> = HashMap::new();
    let mut repeated = Repeated::default();
    for entry in view.iter() {
        for (_, call) in entry.item().calls() {
            let Some(path) = path_of(call) else { continue };
            if let Some(tokens) = newest_read.remove(&path) {
                repeated.count += 1;
                repeated.tokens += tokens;
            }
            if is_read(call) {
                path_of_read.insert(&call.id, path);
            }
        }
        for (part_index, result) in entry.item().results() {
            if let Some(path) = path_of_read.remove(result.call_id.as_str()) {
                newest_read.insert(path, u64::from(entry.tokens().parts()[part_index]));
            }
        }
    }
    repeated
}

fn is_read(call: &ToolCall) -> bool {
    let name = call.name.to_ascii_lowercase();
    ["read", "view", "open", "cat"].iter().any(|word| name.contains(word)) && !name.contains("write")
}

fn path_of(call: &ToolCall) -> Option<String> {
    let PathArguments(paths) = serde_json::from_str(call.input.as_str()).ok()?;
    paths.into_iter().flatten().next()
}

/// The values of [`PATH_ARGUMENTS`]: inputs hold whole files beside them, which are not decoded.
#[derive(Default)]
struct PathArguments([Option<String>; PATH_ARGUMENTS.len()]);

impl<'de> Deserialize<'de> for PathArguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PathArgumentsVisitor)
    }
}

struct PathArgumentsVisitor;

impl<'de> Visitor<'de> for PathArgumentsVisitor {
    type Value = PathArguments;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<PathArguments, A::Error> {
        let mut paths = PathArguments::default();
        while let Some(name) = input.next_key::<Cow<'de, str>>()? {
            match PATH_ARGUMENTS.iter().position(|argument| *argument == name) {
                Some(index) => {
                    let value: Value = input.next_value()?;
                    paths.0[index] = value.as_str().map(ToOwned::to_owned);
                }
                None => drop(input.next_value::<IgnoredAny>()?),
            }
        }
        Ok(paths)
    }
}

fn usage(scene: &Scene<'_>, view: &View, history: &View) -> Option<Usage> {
    let reported: Vec<_> = history.items().filter_map(|item| item.usage).collect();
    let last = reported.last()?;
    let from_end = scene.transcript.iter().rev().position(|entry| entry.item().usage.is_some());
    let last_index = from_end.map(|from_end| scene.transcript.len() - 1 - from_end);
    let counted_last = last_index.map_or(0, |index| counted_at(scene, view, index + 1));
    let prompt: u64 = reported.iter().map(|usage| usage.prompt_tokens().0).sum();
    let cached: u64 = reported.iter().map(|usage| usage.cached_tokens.0).sum();
    Some(Usage {
        calls: reported.len(),
        context_tokens_peak: reported.iter().map(|usage| usage.context_tokens().0).max().unwrap_or(0),
        context_tokens_last: last.context_tokens().0,
        counted_last,
        output_tokens: reported.iter().map(|usage| usage.output_tokens.0).sum(),
        cached_percent: (cached * 100).checked_div(prompt).unwrap_or(0),
    })
}

/// What the model saw when there were so many items.
fn counted_at(scene: &Scene<'_>, view: &View, len: usize) -> u64 {
    // What came after the last compaction is seen as it is.
    if scene.conversation.steps().iter().all(|step| step.item_count() <= len) {
        let after = scene.transcript.tokens_of(len..scene.transcript.len());
        return view.tokens().saturating_sub(after).0;
    }
    scene.conversation.view_of(&scene.transcript.first(len)).tokens().0
}

/// What changed what the model sees, in the order of the file.
fn compactions(scene: &Scene<'_>) -> Vec<Compacted> {
    let conversation = scene.conversation;
    let steps = conversation.steps().iter().zip(conversation.metered_steps(&scene.transcript));
    let compacted = steps.take(COMPACTIONS_MAX).map(|(step, MeteredStep { blocks, hidden_count })| {
        let edits = blocks.iter().flat_map(|block| &block.edits);
        Compacted {
            line: step.place.line,
            by: by(step),
            reported_tokens_before: step.tokens_before.map(|tokens| tokens.0).filter(|&tokens| tokens > 0),
            tokens_before: blocks.first().map_or(0, |block| block.tokens_before.0),
            tokens_after: blocks.last().map_or(0, |block| block.tokens_after.0),
            hidden: hidden_count,
            cleared: edits.filter(|edit| matches!(edit, Edit::Rewrite(_))).count(),
        }
    });
    compacted.collect()
}

/// Who made a step, and what it was where that was no compaction.
pub(crate) fn by(step: &Step) -> String {
    let by = step.blocks.last().map_or("", |block| &*block.strategy);
    match step.action {
        StepAction::Undo => format!("undo of the compaction by {by}"),
        StepAction::Redo => format!("redo of the compaction by {by}"),
        _ => by.to_owned(),
    }
}
