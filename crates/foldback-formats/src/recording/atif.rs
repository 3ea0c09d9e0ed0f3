//! Trajectories in ATIF, the agent trajectory interchange format of Harbor (versions 1.0 to 1.7):
//! `steps[]`, each with a source, a message, and for the agent its calls and what they returned.
//!
//! A step of the agent is one answer of the model and the observation after it: an assistant item
//! and one tool item per result. A result names its call with `source_call_id`; where it does not,
//! it answers the first call of its step that no result names, and where there is none, it is
//! something the environment said: context. Trajectories of sub-agents that are embedded are
//! conversations of their own. Steps that a continued trajectory repeats (`is_copied_context`) are
//! read like others, because they are what the model saw.
//!
//! Writers say what a tool returned more than once, and the model saw it once. Harbor's converter for
//! Claude Code puts the output of a command behind itself, and keeps the result as it was recorded
//! beside that. Exporters of events tell a result again as the message of the next step, or as a second
//! observation of the same call. See [`Seen`].

use std::collections::{HashMap, VecDeque};

use foldback_core::{
    Blob, CallId, Item, ItemKind, Media, Opaque, Part, ResultPart, Text, Tokens, ToolCall, ToolResult, Usage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::pieces::{Places, if_understood, input_of, json_of, of_recording, time};
use crate::conversation::{Conversation, FilePlace};
use crate::detect::{Fit, Probe};
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};

pub(crate) struct Atif;

/// How the schema names itself.
const SCHEMA_PREFIX: &str = "ATIF-";

/// Trajectories of sub-agents that are read, one inside another or side by side.
const SUB_AGENT_COUNT_MAX: usize = 1000;

#[derive(Deserialize)]
struct Trajectory<'a> {
    #[serde(default, deserialize_with = "if_understood")]
    session_id: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    trajectory_id: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    agent: Option<Agent>,
    #[serde(borrow)]
    steps: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    subagent_trajectories: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Agent {
    #[serde(default, deserialize_with = "if_understood")]
    name: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    model_name: Option<Text>,
}

#[derive(Deserialize)]
struct Step<'a> {
    source: Text,
    #[serde(default, deserialize_with = "if_understood")]
    timestamp: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    model_name: Option<Text>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    reasoning_content: Option<Text>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow, default)]
    observation: Option<Observation<'a>>,
    #[serde(default, deserialize_with = "if_understood")]
    metrics: Option<Metrics>,
    #[serde(borrow, default)]
    extra: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    tool_call_id: Text,
    function_name: Text,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Observation<'a> {
    #[serde(borrow, default)]
    results: Vec<Returned<'a>>,
}

#[derive(Deserialize)]
struct Returned<'a> {
    #[serde(default)]
    source_call_id: Option<Text>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    subagent_trajectory_ref: Option<&'a RawValue>,
    #[serde(borrow, default)]
    extra: Option<&'a RawValue>,
}

/// What Harbor's converter for Claude Code keeps beside a result, since version 1.7 with the result and
/// before with its step.
#[derive(Deserialize)]
struct Beside<'a> {
    #[serde(borrow, default)]
    tool_result_metadata: Option<ResultMetadata<'a>>,
}

#[derive(Deserialize)]
struct ResultMetadata<'a> {
    #[serde(borrow, default)]
    raw_tool_result: Option<RawResult<'a>>,
}

/// The result as the agent recorded it.
#[derive(Deserialize)]
struct RawResult<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

impl<'a> RawResult<'a> {
    fn beside(extra: Option<&'a RawValue>) -> Option<Self> {
        let beside: Beside<'a> = serde_json::from_str(extra?.get()).ok()?;
        beside.tool_result_metadata?.raw_tool_result.filter(|raw| raw.content.is_some())
    }
}

#[derive(Deserialize)]
struct Metrics {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl Metrics {
    /// The prompt includes what came from the cache.
    fn usage(&self) -> Usage {
        let cached = self.cached_tokens.unwrap_or(0);
        Usage {
            input_tokens: Tokens(self.prompt_tokens.unwrap_or(0).saturating_sub(cached)),
            cached_tokens: Tokens(cached),
            output_tokens: Tokens(self.completion_tokens.unwrap_or(0)),
            ..Usage::default()
        }
    }
}

impl Codec for Atif {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let version = probe.field("schema_version");
        let version = version.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        match (version, probe.field("steps")) {
            (Some(version), Some(_)) if version.starts_with(SCHEMA_PREFIX) => Fit::Sure,
            _ => Fit::No,
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::Atif)?;
        let main: Trajectory<'_> = document.parse()?;
        let mut reader = Reader {
            document: document.clone(),
            places: Places::new(bytes, document.clone()),
            problems: Vec::new(),
        };
        let mut reading = Reading {
            session_id: main.session_id.clone(),
            model: main.agent.as_ref().and_then(|agent| agent.model_name.clone()),
            ..Reading::default()
        };
        let mut waiting: VecDeque<&RawValue> = main.subagent_trajectories.iter().flatten().copied().collect();
        let (conversation, model) = reader.trajectory(main);
        reading.model = model.or(reading.model);
        reading.conversations.push(conversation);
        while let Some(piece) = waiting.pop_front() {
            match document.read_piece::<Trajectory<'_>>(piece) {
                Ok(sub_agent) if reading.conversations.len() <= SUB_AGENT_COUNT_MAX => {
                    waiting.extend(sub_agent.subagent_trajectories.iter().flatten().copied());
                    let agent_name = sub_agent.agent.as_ref().and_then(|agent| agent.name.clone());
                    let name =
                        sub_agent.trajectory_id.clone().or(sub_agent.session_id.clone()).or(agent_name);
                    let (conversation, _) = reader.trajectory(sub_agent);
                    reading.conversations.push(conversation.named(name.unwrap_or_default()));
                }
                Ok(_) => {}
                Err(problem) => reader.problems.push(problem),
            }
        }
        reading.problems = reader.problems;
        Ok(reading)
    }
}

struct Reader<'a> {
    document: Document<'a>,
    places: Places<'a>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// The conversation, and the model that answered last.
    fn trajectory(&mut self, trajectory: Trajectory<'a>) -> (Conversation, Option<Text>) {
        let mut conversation = Conversation::new();
        let (mut model, mut seen) = (None, Seen::default());
        for (index, piece) in trajectory.steps.into_iter().enumerate() {
            let place = self.places.of(piece);
            match self.document.read_piece::<Step<'a>>(piece) {
                Ok(step) => {
                    model = step.model_name.clone().or(model);
                    push_step(&mut conversation, &mut seen, (index, step), place);
                }
                Err(problem) => self.problems.push(problem),
            }
        }
        (conversation, model)
    }
}

/// What tools returned so far: what is told again is read once.
#[derive(Default)]
struct Seen {
    /// The answer of each call.
    answers: HashMap<CallId, Vec<ResultPart>>,
    /// The texts that were observed since the agent spoke last.
    observed: Vec<Text>,
}

impl Seen {
    /// Takes note of what a call returned. Returns whether it is new.
    fn observe(&mut self, call: Option<&CallId>, content: &[ResultPart]) -> bool {
        if let Some(call) = call {
            if self.answers.get(call).is_some_and(|answer| answer == content) {
                return false;
            }
            self.answers.insert(call.clone(), content.to_vec());
        }
        self.observed.extend(content.iter().filter_map(ResultPart::as_text).map(Text::from));
        true
    }

    fn has_observed(&self, parts: &[Part]) -> bool {
        let is_observed = |text: &str| self.observed.iter().any(|seen| seen.trim() == text.trim());
        matches!(parts, [Part::Text(text)] if is_observed(text))
    }
}

fn push_step(
    conversation: &mut Conversation,
    seen: &mut Seen,
    (index, step): (usize, Step<'_>),
    place: FilePlace,
) {
    let id = format!("step-{}", index + 1);
    let created_at = step.timestamp.as_deref().and_then(time);
    let kind = match step.source.as_str() {
        "agent" => ItemKind::Assistant,
        "user" => ItemKind::User,
        // The system speaks first as the prompt, later as whoever runs the agent.
        "system" if conversation.recorded().iter().all(|at| at.item.kind == ItemKind::System) => {
            ItemKind::System
        }
        _ => ItemKind::Notification,
    };
    let mut parts = Vec::new();
    let mut unanswered: VecDeque<CallId> = VecDeque::new();
    if kind == ItemKind::Assistant {
        seen.observed.clear();
        let thinking = step.reasoning_content.filter(|text| !text.is_empty());
        parts.extend(thinking.map(Part::reasoning));
    }
    parts.extend(step.message.into_iter().flat_map(content).map(part_of));
    if kind == ItemKind::Assistant {
        for call in step.tool_calls.into_iter().flatten() {
            let id: CallId = call.tool_call_id.as_str().into();
            seen.answers.remove(&id);
            unanswered.push_back(id.clone());
            let input = input_of(call.arguments);
            parts.push(Part::ToolCall(ToolCall { id, name: call.function_name, input, signature: None }));
        }
    }
    let results = step.observation.map_or_else(Vec::new, |observation| observation.results);
    let of_step = RawResult::beside(step.extra).filter(|_| results.len() == 1);
    let answers = answers(results, of_step, unanswered);
    let own = || answers.iter().flat_map(|answer| &answer.content).filter_map(ResultPart::as_text);
    let is_own = |text: &str| own().any(|observed| observed.trim() == text.trim());
    let is_told = kind != ItemKind::Assistant
        && (seen.has_observed(&parts) || matches!(&parts[..], [Part::Text(text)] if is_own(text)));
    if !parts.is_empty() && !is_told {
        let usage = step.metrics.map(|metrics| metrics.usage());
        let item = Item { created_at, usage, ..Item::new(id.as_str(), kind, parts) };
        conversation.push(of_recording(item), place);
    }
    for (result_index, answer) in answers.into_iter().enumerate() {
        let Answer { call_id, content, is_error } = answer;
        if !seen.observe(call_id.as_ref(), &content) {
            continue;
        }
        let id = format!("{id}-{result_index}");
        let item = match call_id {
            Some(call_id) => Item::tool(id, ToolResult { call_id, content, is_error }),
            None if content.is_empty() => continue,
            None => Item::new(id, ItemKind::Context, content.into_iter().map(part_of).collect()),
        };
        conversation.push(of_recording(Item { created_at, ..item }), place);
    }
}

/// One result of an observation.
struct Answer {
    call_id: Option<CallId>,
    content: Vec<ResultPart>,
    is_error: bool,
}

/// The results of an observation, each with the call that it answers.
fn answers(
    results: Vec<Returned<'_>>,
    of_step: Option<RawResult<'_>>,
    mut unanswered: VecDeque<CallId>,
) -> Vec<Answer> {
    let is_named =
        |call: &CallId| results.iter().any(|result| result.source_call_id.as_deref() == Some(call.as_str()));
    unanswered.retain(|call| !is_named(call));
    let mut of_step = of_step;
    let answer = |result: Returned<'_>| {
        let call_id = result.source_call_id.as_deref().map(CallId::from).or_else(|| unanswered.pop_front());
        let raw = RawResult::beside(result.extra).or_else(|| of_step.take());
        let is_error = raw.as_ref().and_then(|raw| raw.is_error).unwrap_or(false);
        let recorded = raw.and_then(|raw| raw.content).map(content);
        let told = || result.content.into_iter().flat_map(content).map(told_once).collect();
        let mut content: Vec<ResultPart> = recorded.unwrap_or_else(told);
        content.extend(
            result.subagent_trajectory_ref.map(|reference| opaque("subagent_trajectory_ref", reference)),
        );
        Answer { call_id, content, is_error }
    };
    results.into_iter().map(answer).collect()
}

/// What Harbor's converter for Claude Code puts between an output and the same output.
const STDOUT_MARK: &str = "\n\n[stdout]\n";

/// A text without what it says twice.
fn told_once(part: ResultPart) -> ResultPart {
    let ResultPart::Text(text) = &part else { return part };
    let repeats = |(place, _): (usize, &str)| {
        let (output, again) = (text[..place].trim(), &text[place + STDOUT_MARK.len()..]);
        let rest = again.trim_start().strip_prefix(output)?;
        (rest.is_empty() || rest.starts_with('\n')).then(|| format!("{}{rest}", &text[..place]))
    };
    match text.match_indices(STDOUT_MARK).next().and_then(repeats) {
        Some(once) => ResultPart::Text(once.into()),
        None => part,
    }
}

#[derive(Deserialize)]
struct ContentPart<'a> {
    #[serde(rename = "type", default)]
    kind: Option<Text>,
    #[serde(default)]
    text: Option<Text>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
}

/// Where an image is, or all of it.
#[derive(Deserialize)]
struct ImageSource {
    media_type: Text,
    #[serde(default)]
    path: Option<Text>,
    #[serde(default)]
    data: Option<Text>,
}

impl ImageSource {
    fn media(self) -> Option<Media> {
        let data = self.path.map(Blob::Url).or_else(|| self.data.map(Blob::Base64))?;
        Some(Media { media_type: self.media_type, data, pixels: None })
    }
}

/// Content is a string, or since version 1.6 a list of text and images.
fn content(raw: &RawValue) -> Vec<ResultPart> {
    if let Ok(text) = serde_json::from_str::<Option<Text>>(raw.get()) {
        return text.filter(|text| !text.is_empty()).map(ResultPart::Text).into_iter().collect();
    }
    match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        Ok(parts) => parts.into_iter().filter_map(content_part).collect(),
        Err(_) => vec![ResultPart::Structured(json_of(raw))],
    }
}

fn content_part(raw: &RawValue) -> Option<ResultPart> {
    let Ok(part) = serde_json::from_str::<ContentPart<'_>>(raw.get()) else {
        return Some(opaque("content", raw));
    };
    let image = || serde_json::from_str::<ImageSource>(part.source?.get()).ok()?.media();
    match (part.kind.as_deref(), part.text.clone()) {
        (Some("text"), Some(text)) => (!text.is_empty()).then_some(ResultPart::Text(text)),
        (Some("image"), _) => Some(image().map_or_else(|| opaque("image", raw), ResultPart::Media)),
        _ => Some(opaque("content", raw)),
    }
}

fn opaque(what: &str, raw: &RawValue) -> ResultPart {
    ResultPart::Opaque(Opaque { source: format!("atif/{what}").into(), json: json_of(raw) })
}

fn part_of(part: ResultPart) -> Part {
    match part {
        ResultPart::Text(text) => Part::Text(text),
        ResultPart::Media(media) => Part::Media(media),
        ResultPart::File(file) => Part::File(file),
        ResultPart::Structured(json) => Part::Structured(json),
        ResultPart::Opaque(opaque) => Part::Opaque(opaque),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(steps: &str) -> Reading {
        Atif.read(format!("{{\"schema_version\":\"ATIF-v1.6\",\"steps\":[\n{steps}]}}").as_bytes()).unwrap()
    }

    #[test]
    fn a_result_without_an_id_answers_the_call_that_no_result_names() {
        let reading = read(
            r#"{"source":"agent","message":"","tool_calls":[
                 {"tool_call_id":"a","function_name":"x","arguments":{}},
                 {"tool_call_id":"b","function_name":"y","arguments":{}}],
               "observation":{"results":[{"content":"1"},{"source_call_id":"a","content":"2"},{"content":"3"}]}}"#,
        );
        let recorded = reading.conversations[0].recorded();
        let answers: Vec<String> = recorded
            .iter()
            .flat_map(|at| at.item.results())
            .map(|(_, result)| format!("{} {}", result.call_id, result.first_line()))
            .collect();
        assert_eq!(answers, ["b 1", "a 2"]);
        assert_eq!(recorded[3].item.kind, ItemKind::Context);
    }

    fn texts(reading: &Reading) -> Vec<(ItemKind, String)> {
        let recorded = reading.conversations[0].recorded();
        let result = |item: &Item| item.results().map(|(_, result)| result.first_line().to_owned()).next();
        let said = |item: &Item| match item.parts.first() {
            Some(Part::Text(text)) => Some(text.to_string()),
            _ => None,
        };
        recorded.iter().filter_map(|at| Some((at.item.kind, result(&at.item).or(said(&at.item))?))).collect()
    }

    #[test]
    fn what_a_tool_returned_is_read_once_however_often_it_is_told() {
        let call = r#"{"source":"agent","message":"I look.","tool_calls":[{"tool_call_id":"a","function_name":"x","arguments":{}}]"#;
        let result = r#""observation":{"results":[{"source_call_id":"a","content":"seven files"}]}"#;
        let again = format!(r#"{{"source":"system","message":"seven files",{result}}}"#);
        let message = r#"{"source":"user","message":"seven files\n"}"#;
        let next = r#"{"source":"user","message":"go on"}"#;
        let reading = read(&[format!("{call},{result}}}"), again, message.into(), next.into()].join(",\n"));
        let said = texts(&reading);
        let kinds: Vec<ItemKind> = said.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [ItemKind::Assistant, ItemKind::Tool, ItemKind::User], "{said:?}");
        assert_eq!(said[2].1, "go on");
    }

    #[test]
    fn the_same_answer_to_another_call_is_another_answer() {
        let step = |id: &str| {
            format!(
                r#"{{"source":"agent","message":"","tool_calls":[{{"tool_call_id":"{id}","function_name":"x","arguments":{{}}}}],
                "observation":{{"results":[{{"source_call_id":"{id}","content":"ok"}}]}}}}"#
            )
        };
        let reading = read(&[step("a"), step("b"), step("b")].join(",\n"));
        assert_eq!(reading.conversations[0].len(), 6, "an id that is used again is a call of its own");
    }

    #[test]
    fn an_output_that_stands_behind_itself_is_read_once() {
        let told = |text: &str| match told_once(ResultPart::Text(text.into())) {
            ResultPart::Text(text) => text.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told("a\nb\n\n[stdout]\na\nb"), "a\nb");
        assert_eq!(told("a\nb\n\n[stdout]\na\nb\n[metadata] {}"), "a\nb\n[metadata] {}");
        for other in ["a\n\n[stdout]\nab", "a\n\n[stdout]\nb", "[stdout]\na", "plain"] {
            assert_eq!(told(other), other);
        }
    }

    #[test]
    fn an_embedded_sub_agent_is_a_conversation_of_its_own() {
        let text = r#"{"schema_version":"ATIF-v1.7","agent":{"name":"lead"},
            "steps":[{"source":"user","message":"go"}],
            "subagent_trajectories":[{"trajectory_id":"sub-1","steps":[{"source":"user","message":"look"}]}]}"#;
        let reading = Atif.read(text.as_bytes()).unwrap();
        let names: Vec<Option<&str>> = reading.conversations.iter().map(Conversation::name).collect();
        assert_eq!(names, [None, Some("sub-1")]);
    }

    #[test]
    fn a_step_without_a_source_is_a_problem_on_its_line() {
        let reading = read("{\"source\":\"user\",\"message\":\"a\"},\n{\"message\":\"b\"}");
        assert_eq!(reading.problems[0].line, 3);
        assert_eq!(reading.conversations[0].len(), 1);
    }
}
