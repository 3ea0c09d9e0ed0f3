//! Events of OpenHands before its SDK (V0): actions and observations in one list, an observation
//! tied to its action by `cause`.
//!
//! An agent's action is a call. Actions that came from one answer of the model share the id of its
//! response and are one item, whatever observations stand between them. `finish` and `message` are
//! things the agent says, and OpenHands shows them to the model as text. What the person ran, and
//! what no call asked for, is context. A `condensation` hides events and may put in a summary; as
//! in OpenHands, only the latest summary is seen.

use std::collections::{HashMap, HashSet};

use foldback_core::{
    Dialect, FinishReason, Item, ItemKind, Part, ResultPart, Text, Tokens, ToolCall, ToolInput, ToolResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pieces::{
    Places, ReportedUsage, ThinkingBlock, if_understood, json_of, of_recording, text_part, time,
};
use crate::conversation::{Conversation, FilePlace, Made, Seen, Shown};
use crate::detect::{Fit, Probe};
use crate::dialect::openai_chat::content::{image_at, tool_input};
use crate::dialect::openai_chat::{part_of, read_content};
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};
use crate::lowering::found_summary;

pub(crate) struct OpenHands;

/// Who makes condensations.
const BY: &str = "openhands";

/// Actions and observations that tell the host something and the model nothing.
const STATE: [&str; 12] = [
    "null",
    "agent_state_changed",
    "change_agent_state",
    "condensation_request",
    "loop_recovery",
    "pause",
    "push",
    "recall",
    "resume",
    "send_pr",
    "start",
    "stop",
];

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default)]
    id: Option<i64>,
    #[serde(default, deserialize_with = "if_understood")]
    timestamp: Option<Text>,
    #[serde(default)]
    source: Option<Text>,
    #[serde(default)]
    action: Option<Text>,
    #[serde(default)]
    observation: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    cause: Option<i64>,
    #[serde(default)]
    content: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    success: Option<bool>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    extras: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_call_metadata: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Args<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(deserialize_with = "if_understood")]
    thought: Option<Text>,
    #[serde(deserialize_with = "if_understood")]
    final_thought: Option<Text>,
    #[serde(deserialize_with = "if_understood")]
    image_urls: Option<Vec<Text>>,
    #[serde(deserialize_with = "if_understood")]
    forgotten_event_ids: Option<Vec<i64>>,
    #[serde(deserialize_with = "if_understood")]
    forgotten_events_start_id: Option<i64>,
    #[serde(deserialize_with = "if_understood")]
    forgotten_events_end_id: Option<i64>,
    #[serde(deserialize_with = "if_understood")]
    summary: Option<Text>,
    #[serde(deserialize_with = "if_understood")]
    summary_offset: Option<usize>,
}

impl Args<'_> {
    /// What a message says.
    fn said(&self) -> Vec<Part> {
        self.content.map_or_else(Vec::new, read_content).into_iter().map(part_of).collect()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Extras {
    metadata: Option<CommandMetadata>,
    image_urls: Option<Vec<Text>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CommandMetadata {
    prefix: Option<Text>,
    suffix: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CallMetadata {
    function_name: Option<Text>,
    tool_call_id: Option<Text>,
    #[serde(deserialize_with = "if_understood")]
    model_response: Option<ModelResponse>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelResponse {
    id: Option<Text>,
    model: Option<Text>,
    choices: Vec<Choice>,
    #[serde(deserialize_with = "if_understood")]
    usage: Option<ReportedUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice {
    message: Option<Answer>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    content: Option<Text>,
    reasoning_content: Option<Text>,
    #[serde(deserialize_with = "if_understood")]
    thinking_blocks: Option<Vec<ThinkingBlock>>,
    tool_calls: Option<Vec<AnsweredCall>>,
}

#[derive(Deserialize)]
struct AnsweredCall {
    #[serde(default)]
    id: Option<Text>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    arguments: Option<Text>,
}

impl Codec for OpenHands {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_event = |event: &Value| {
            let acts = event["action"].is_string() && event["args"].is_object();
            let observes = event["observation"].is_string() && event["extras"].is_object();
            event["source"].is_string() && event["id"].is_number() && (acts || observes)
        };
        let fits = probe.elements().iter().any(is_event)
            || probe.elements_of("trajectory").iter().any(is_event)
            || probe.elements_of("history").iter().any(is_event);
        if fits { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        #[derive(Deserialize)]
        struct File<'a> {
            #[serde(borrow, default)]
            trajectory: Option<Vec<&'a RawValue>>,
            #[serde(borrow, default)]
            history: Option<Vec<&'a RawValue>>,
        }
        let document = Document::new(bytes, Format::OpenHands)?;
        let is_list = bytes.trim_ascii_start().first() == Some(&b'[');
        let events: Vec<&RawValue> = match is_list {
            true => document.parse()?,
            false => {
                let file: File<'_> = document.parse()?;
                file.trajectory.or(file.history).unwrap_or_default()
            }
        };
        let mut reader = Reader::default();
        let mut places = Places::new(bytes, document.clone());
        for (index, piece) in events.into_iter().enumerate() {
            let place = places.of(piece);
            match document.read_piece::<Event<'_>>(piece) {
                Ok(event) => reader.event(index, &event, place),
                Err(problem) => reader.problems.push(problem),
            }
        }
        Ok(Reading {
            conversations: vec![reader.conversation],
            problems: reader.problems,
            dialect: Some(Dialect::OpenaiChat),
            model: reader.model,
            ..Reading::default()
        })
    }
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    problems: Vec<Problem>,
    model: Option<Text>,
    /// The events that each item was read from.
    events: HashMap<Seen, Vec<i64>>,
    /// The item of each answer, by the id of the response.
    answers: HashMap<Text, usize>,
    /// The id of each event's call.
    calls: HashMap<i64, Text>,
    summary: Option<Seen>,
}

impl Reader {
    fn event(&mut self, index: usize, event: &Event<'_>, place: FilePlace) {
        let event_id = event.id.unwrap_or_else(|| i64::try_from(index).unwrap_or(i64::MAX));
        if let Some(action) = &event.action {
            self.action(event_id, action, event, place);
        } else if let Some(observation) = &event.observation {
            self.observation(event_id, observation, event, place);
        }
    }

    fn action(&mut self, event_id: i64, action: &str, event: &Event<'_>, place: FilePlace) {
        let args: Args<'_> = piece(event.args);
        let is_agent = event.source.as_deref() == Some("agent");
        match action {
            "condensation" => self.condensation(event_id, args, event.timestamp.as_deref(), place),
            _ if STATE.contains(&action) => {}
            "system" => self.say(event_id, ItemKind::System, args.said(), event, place),
            "message" if is_agent => self.say(event_id, ItemKind::Assistant, args.said(), event, place),
            "finish" if is_agent => {
                let said = text_part(args.thought).or_else(|| text_part(args.final_thought));
                self.say(event_id, ItemKind::Assistant, said, event, place);
            }
            "message" => {
                let mut parts = args.said();
                let images = args.image_urls.into_iter().flatten();
                parts.extend(images.map(|url| Part::Media(image_at(&url))));
                let is_person = event.source.as_deref() == Some("user");
                let kind = if is_person { ItemKind::User } else { ItemKind::Context };
                self.say(event_id, kind, parts, event, place);
            }
            _ if is_agent => self.call(event_id, action, args, event, place),
            _ => {
                let ran = event.args.map(|args| Part::Structured(json_of(args)));
                self.say(event_id, ItemKind::Context, ran, event, place);
            }
        }
    }

    fn say(
        &mut self,
        event_id: i64,
        kind: ItemKind,
        parts: impl IntoIterator<Item = Part>,
        event: &Event<'_>,
        place: FilePlace,
    ) {
        let parts: Vec<Part> = parts.into_iter().collect();
        if parts.is_empty() {
            return;
        }
        let created_at = event.timestamp.as_deref().and_then(time);
        let item = Item { created_at, ..Item::new(format!("event-{event_id}"), kind, parts) };
        let index = self.conversation.push(of_recording(item), place);
        self.events.insert(Seen::Item(index), vec![event_id]);
    }

    fn call(&mut self, event_id: i64, action: &str, args: Args<'_>, event: &Event<'_>, place: FilePlace) {
        let metadata: CallMetadata = piece(event.tool_call_metadata);
        let call_id = metadata.tool_call_id.unwrap_or_else(|| format!("event-{event_id}").into());
        let response = metadata.model_response.unwrap_or_default();
        self.model = response.model.or_else(|| self.model.take());
        let answer = response.choices.into_iter().find_map(|choice| choice.message).unwrap_or_default();
        let requested = answer.tool_calls.into_iter().flatten();
        let arguments = requested
            .filter(|call| call.id.as_ref() == Some(&call_id))
            .find_map(|call| call.function.arguments);
        let input = match (arguments, event.args) {
            (Some(arguments), _) => tool_input(&arguments),
            (None, Some(args)) => ToolInput::Json(json_of(args)),
            (None, None) => ToolInput::Text(Text::default()),
        };
        self.calls.insert(event_id, call_id.clone());
        let name = metadata.function_name.unwrap_or_else(|| action.into());
        let id = call_id.as_str().into();
        let call = Part::ToolCall(ToolCall { id, name, input, signature: None });
        if let Some(&index) = response.id.as_ref().and_then(|id| self.answers.get(id)) {
            let Item { parts, .. } = of_recording(Item::assistant("", vec![call]));
            self.conversation.extend_item(index, parts);
            self.events.entry(Seen::Item(index)).or_default().push(event_id);
            return;
        }
        let blocks = answer.thinking_blocks.unwrap_or_default();
        let unsigned = answer.reasoning_content.filter(|text| blocks.is_empty() && !text.is_empty());
        let mut parts: Vec<Part> = unsigned.map(Part::reasoning).into_iter().collect();
        parts.extend(blocks.into_iter().map(Part::from));
        parts.extend(text_part(args.thought).or_else(|| text_part(answer.content)));
        parts.push(call);
        let item = Item {
            created_at: event.timestamp.as_deref().and_then(time),
            usage: response.usage.map(ReportedUsage::disjoint),
            finish_reason: Some(FinishReason::ToolCalls),
            ..Item::assistant(format!("event-{event_id}"), parts)
        };
        let index = self.conversation.push(of_recording(item), place);
        self.events.insert(Seen::Item(index), vec![event_id]);
        if let Some(id) = response.id {
            self.answers.insert(id, index);
        }
    }

    fn observation(&mut self, event_id: i64, observation: &str, event: &Event<'_>, place: FilePlace) {
        let call_id = event.cause.and_then(|cause| self.calls.get(&cause).cloned());
        if call_id.is_none() && observation == "recall" {
            let knowledge = event.extras.map(|extras| Part::Structured(json_of(extras)));
            let parts: Vec<Part> = text_part(event.content.clone()).into_iter().chain(knowledge).collect();
            return self.say(event_id, ItemKind::Context, parts, event, place);
        }
        if call_id.is_none() && STATE.contains(&observation) {
            return;
        }
        let extras: Extras = piece(event.extras);
        let CommandMetadata { prefix, suffix } = extras.metadata.unwrap_or_default();
        let pieces = [prefix, event.content.clone(), suffix].map(Option::unwrap_or_default);
        let text = match &pieces {
            [prefix, content, suffix] if prefix.is_empty() && suffix.is_empty() => content.clone(),
            [prefix, content, suffix] => format!("{prefix}{content}{suffix}").into(),
        };
        let images = extras.image_urls.into_iter().flatten().map(|url| image_at(&url));
        let Some(call_id) = call_id else {
            let kind = if observation == "error" { ItemKind::Notification } else { ItemKind::Context };
            let parts: Vec<Part> = text_part(Some(text)).into_iter().chain(images.map(Part::Media)).collect();
            return self.say(event_id, kind, parts, event, place);
        };
        let has_failed = event.success == Some(false) || ["error", "user_rejected"].contains(&observation);
        let content = std::iter::once(ResultPart::Text(text)).chain(images.map(ResultPart::Media)).collect();
        let result = ToolResult { call_id: call_id.as_str().into(), content, is_error: has_failed };
        let created_at = event.timestamp.as_deref().and_then(time);
        let item = Item { created_at, ..Item::tool(format!("event-{event_id}"), result) };
        let index = self.conversation.push(of_recording(item), place);
        self.events.insert(Seen::Item(index), vec![event_id]);
    }

    fn condensation(&mut self, event_id: i64, args: Args<'_>, timestamp: Option<&str>, place: FilePlace) {
        let listed: HashSet<i64> = args.forgotten_event_ids.into_iter().flatten().collect();
        let range = args.forgotten_events_start_id.zip(args.forgotten_events_end_id);
        let is_forgotten = |event: &i64| {
            listed.contains(event) || range.is_some_and(|(start, end)| (start..=end).contains(event))
        };
        let events_of = |seen: &Seen| self.events.get(seen).map_or(&[][..], Vec::as_slice);
        let visible = self.conversation.visible();
        let kept: Vec<Seen> = visible
            .iter()
            .filter(|&&seen| self.summary != Some(seen) || args.summary.is_none())
            .filter(|seen| events_of(seen).is_empty() || !events_of(seen).iter().all(is_forgotten))
            .copied()
            .collect();
        let mut summary = args.summary.filter(|text| !text.is_empty()).map(|text| {
            let item = Item::text(format!("event-{event_id}"), ItemKind::Context, text);
            let hidden_count = visible.len() - kept.len();
            Shown::New(found_summary(item, BY, hidden_count, Tokens::ZERO))
        });
        // The offset counts events of what is left, and an item may stand for several.
        let offset = args.summary_offset.unwrap_or(0);
        let (mut shown, mut from, mut passed) = (Vec::new(), Vec::new(), 0);
        for seen in kept {
            if passed >= offset
                && let Some(summary) = summary.take()
            {
                shown.push(summary);
                from.push(None);
            }
            passed += events_of(&seen).len();
            shown.push(Shown::Kept(seen));
            from.push(Some(seen));
        }
        if let Some(summary) = summary {
            shown.push(summary);
            from.push(None);
        }
        let mut made = Made::by(BY, place);
        made.created_at = timestamp.and_then(time);
        self.conversation.replace(&made, shown);
        self.follow(&from);
    }

    /// After a compaction, kept items may stand at new places. An answer that goes on behind it is
    /// an item of its own there, because what is recorded before stays as it is.
    fn follow(&mut self, from: &[Option<Seen>]) {
        self.answers.clear();
        for (&new, old) in self.conversation.visible().iter().zip(from) {
            match old {
                Some(old) if *old != new => {
                    if let Some(events) = self.events.remove(old) {
                        self.events.insert(new, events);
                    }
                    self.summary = self.summary.map(|at| if at == *old { new } else { at });
                }
                Some(_) => {}
                None => self.summary = Some(new),
            }
        }
    }
}

/// An object of the event, as far as it is understood: what an action is given differs with the
/// action, and none of it is needed to know that the action happened.
fn piece<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foldback_core::EstimatingCounter;

    use super::*;

    fn read(events: &str) -> Reading {
        OpenHands.read(format!("[\n{events}\n]").as_bytes()).unwrap()
    }

    /// The ids of what the model sees.
    fn seen(conversation: &Conversation) -> Vec<String> {
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), None);
        conversation.view_of(&transcript).items().map(|item| item.id.to_string()).collect()
    }

    const RUNS: &str = r#"{"id":0,"source":"user","action":"message","args":{"content":"build it"}},
        {"id":1,"source":"agent","action":"run","args":{"command":"ls","thought":"look"}},
        {"id":2,"source":"agent","observation":"run","cause":1,"content":"a","extras":{"metadata":{"exit_code":0,"suffix":"\n[done]"}}},
        {"id":3,"source":"agent","action":"run","args":{"command":"make"}},
        {"id":4,"source":"agent","observation":"error","cause":3,"content":"no make","extras":{}}"#;

    #[test]
    fn a_condensation_hides_events_and_shows_its_summary_at_the_offset() {
        let reading = read(&format!(
            "{RUNS},\n{}",
            r#"{"id":5,"source":"agent","action":"condensation","args":{"forgotten_events_start_id":1,
                 "forgotten_events_end_id":2,"summary":"looked around","summary_offset":1}}"#
        ));
        let conversation = &reading.conversations[0];
        assert_eq!(seen(conversation), ["event-0", "event-5", "event-3", "event-4"]);
        assert_eq!(conversation.history().count(), 5);
    }

    #[test]
    fn only_the_latest_summary_is_seen() {
        let reading = read(&format!(
            "{RUNS},\n{}",
            r#"{"id":5,"action":"condensation","args":{"forgotten_event_ids":[1,2],"summary":"one","summary_offset":1}},
               {"id":6,"action":"condensation","args":{"forgotten_event_ids":[3,4],"summary":"two","summary_offset":1}}"#
        ));
        let conversation = &reading.conversations[0];
        assert_eq!(seen(conversation), ["event-0", "event-6"]);
    }

    #[test]
    fn a_result_says_what_the_model_was_shown_and_whether_it_failed() {
        let reading = read(RUNS);
        let recorded = reading.conversations[0].recorded();
        let results: Vec<(String, bool)> = recorded
            .iter()
            .flat_map(|at| at.item.results())
            .map(|(_, result)| (result.content[0].as_text().unwrap().to_owned(), result.is_error))
            .collect();
        assert_eq!(results, [("a\n[done]".to_owned(), false), ("no make".to_owned(), true)]);
    }

    #[test]
    fn an_event_that_is_not_understood_is_a_problem_on_its_line() {
        let reading = read(
            "{\"id\":0,\"source\":\"user\",\"action\":\"message\",\"args\":{\"content\":\"a\"}},\n{\"id\":\"x\"}",
        );
        assert_eq!(reading.problems[0].line, 3);
    }
}
