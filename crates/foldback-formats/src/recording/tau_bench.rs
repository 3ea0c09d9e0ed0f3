//! Results of tau-bench: many conversations in one file, each named by its task and trial.
//!
//! The first version is a list of runs with `traj`, messages of Chat Completions. The second
//! (tau2) is an object with `simulations`, whose messages have calls in a shape of their own, and
//! whose simulated person calls tools, too. Such a call is not the model's, and its result answers
//! none of the model's calls: both are notifications, so that calls and results stay paired.

use foldback_core::{
    Dialect, Item, ItemKind, Part, ResultPart, Text, Timestamp, ToolCall, ToolResult, Usage,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pieces::{Places, ReportedUsage, if_understood, input_of, json_of, of_recording, text_part, time};
use crate::conversation::{Conversation, FilePlace};
use crate::detect::{Fit, Probe};
use crate::dialect::openai_chat::read_message;
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};

pub(crate) struct TauBench;

#[derive(Deserialize)]
struct Run<'a> {
    #[serde(borrow, default)]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    trial: Option<&'a RawValue>,
    #[serde(borrow, default)]
    traj: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    messages: Option<Vec<&'a RawValue>>,
}

impl Run<'_> {
    /// The task, and where there are several, the trial.
    fn name(&self) -> String {
        let plain = |raw: &RawValue| raw.get().trim_matches('"').to_owned();
        let task = self.task_id.map_or_else(String::new, plain);
        self.trial.map(plain).map_or_else(|| task.clone(), |trial| format!("{task}/{trial}"))
    }
}

impl Codec for TauBench {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_run = |run: &Value| run.get("task_id").is_some() && run["traj"].is_array();
        let is_simulation = |run: &Value| run.get("task_id").is_some() && run["messages"].is_array();
        let fits =
            probe.elements().iter().any(is_run) || probe.elements_of("simulations").iter().any(is_simulation);
        if fits { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        #[derive(Deserialize)]
        struct Results<'a> {
            #[serde(borrow)]
            simulations: Vec<&'a RawValue>,
            #[serde(borrow, default)]
            info: Option<&'a RawValue>,
        }
        let document = Document::new(bytes, Format::TauBench)?;
        let (runs, info) = match bytes.trim_ascii_start().first() {
            Some(b'[') => (document.parse()?, None),
            _ => {
                let Results { simulations, info } = document.parse()?;
                (simulations, info)
            }
        };
        let mut reader = Reader {
            document: document.clone(),
            places: Places::new(bytes, document.clone()),
            problems: Vec::new(),
        };
        let conversations = runs.into_iter().filter_map(|run| reader.run(run)).collect();
        Ok(Reading {
            conversations,
            problems: reader.problems,
            dialect: Some(Dialect::OpenaiChat),
            model: info.and_then(model_of),
            ..Reading::default()
        })
    }
}

fn model_of(raw: &RawValue) -> Option<Text> {
    let info: Value = serde_json::from_str(raw.get()).ok()?;
    info["agent_info"]["llm"].as_str().map(Text::from)
}

struct Reader<'a> {
    document: Document<'a>,
    places: Places<'a>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn run(&mut self, piece: &'a RawValue) -> Option<Conversation> {
        let run: Run<'a> = match self.document.read_piece(piece) {
            Ok(run) => run,
            Err(problem) => {
                self.problems.push(problem);
                return None;
            }
        };
        let mut conversation = Conversation::new().named(run.name());
        let is_first_version = run.traj.is_some();
        for (index, piece) in run.traj.or(run.messages).into_iter().flatten().enumerate() {
            let place = self.places.of(piece);
            let id = format!("m{index}");
            let read = match is_first_version {
                true => self.document.read_piece::<WithRole>(piece).map(|_| {
                    let item = read_message(piece, id).ok().filter(|item| !item.parts.is_empty());
                    item.into_iter().collect()
                }),
                false => self.document.read_piece::<Message<'a>>(piece).map(|message| message.items(&id)),
            };
            match read {
                Ok(items) => push_all(&mut conversation, items, place),
                Err(problem) => self.problems.push(problem),
            }
        }
        Some(conversation)
    }
}

fn push_all(conversation: &mut Conversation, items: Vec<Item>, place: FilePlace) {
    for item in items {
        conversation.push(of_recording(item), place);
    }
}

/// What every message of the first version has.
#[derive(Deserialize)]
struct WithRole {
    #[serde(rename = "role")]
    _role: Text,
}

/// A message of the second version.
#[derive(Deserialize)]
struct Message<'a> {
    role: Text,
    #[serde(default)]
    id: Option<Text>,
    #[serde(default)]
    content: Option<Text>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<&'a RawValue>>,
    #[serde(default, deserialize_with = "if_understood")]
    requestor: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    error: Option<bool>,
    #[serde(borrow, default)]
    tool_messages: Option<Vec<Self>>,
    #[serde(default, deserialize_with = "if_understood")]
    timestamp: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Text,
    name: Text,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl Message<'_> {
    /// The message as items: none where it says nothing.
    fn items(self, id: &str) -> Vec<Item> {
        if let Some(messages) = self.tool_messages {
            // Tool messages do not hold others, so one level is all there is.
            let numbered = messages.into_iter().enumerate();
            return numbered.filter_map(|(index, message)| message.item(format!("{id}-{index}"))).collect();
        }
        self.item(id.to_owned()).into_iter().collect()
    }

    fn item(self, id: String) -> Option<Item> {
        let created_at: Option<Timestamp> = self.timestamp.as_deref().and_then(time);
        let usage: Option<Usage> = self.usage.map(ReportedUsage::disjoint);
        let calls = self.tool_calls.unwrap_or_default();
        let is_persons = self.requestor.as_deref() == Some("user");
        let mut parts: Vec<Part> = Vec::new();
        let kind = match &*self.role {
            "tool" if !is_persons => {
                let content = vec![ResultPart::Text(self.content.unwrap_or_default())];
                let call_id = self.id.unwrap_or_default().as_str().into();
                let is_error = self.error == Some(true);
                parts.push(Part::ToolResult(ToolResult { call_id, content, is_error }));
                ItemKind::Tool
            }
            "assistant" => {
                parts.extend(text_part(self.content));
                parts.extend(calls.into_iter().map(call_part));
                ItemKind::Assistant
            }
            role => {
                parts.extend(text_part(self.content));
                parts.extend(calls.iter().map(|call| Part::Structured(json_of(call))));
                match role {
                    "system" => ItemKind::System,
                    "user" if calls.is_empty() => ItemKind::User,
                    _ => ItemKind::Notification,
                }
            }
        };
        (!parts.is_empty()).then(|| Item { created_at, usage, ..Item::new(id, kind, parts) })
    }
}

fn call_part(raw: &RawValue) -> Part {
    match serde_json::from_str::<Call<'_>>(raw.get()) {
        Ok(Call { id, name, arguments }) => {
            let input = input_of(arguments);
            Part::ToolCall(ToolCall { id: id.as_str().into(), name, input, signature: None })
        }
        Err(_) => Part::Structured(json_of(raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: &str = r#"{"info":{"agent_info":{"llm":"gpt-4.1"}},"simulations":[
        {"id":"s","task_id":"mobile","trial":1,"messages":[
        {"role":"assistant","content":"Hi!"},
        {"role":"user","content":null,"tool_calls":[{"id":"u1","name":"check_status","arguments":{},"requestor":"user"}]},
        {"role":"tool","id":"u1","content":"no service","requestor":"user","error":false},
        {"role":"user","content":"No service."},
        {"role":"assistant","content":null,"tool_calls":[{"id":"a1","name":"lookup","arguments":{"n":1.50},"requestor":"assistant"}]},
        {"role":"tool","id":"a1","content":"boom","requestor":"assistant","error":true}]}]}"#;

    #[test]
    fn what_the_simulated_person_runs_is_no_call_of_the_model() {
        let reading = TauBench.read(SECOND.as_bytes()).unwrap();
        let conversation = &reading.conversations[0];
        assert_eq!(conversation.name(), Some("mobile/1"));
        let kinds: Vec<ItemKind> = conversation.recorded().iter().map(|at| at.item.kind).collect();
        use ItemKind::{Assistant, Notification, Tool, User};
        assert_eq!(kinds, [Assistant, Notification, Notification, User, Assistant, Tool]);
        let failed: Vec<bool> = conversation
            .recorded()
            .iter()
            .flat_map(|at| at.item.results())
            .map(|(_, result)| result.is_error)
            .collect();
        assert_eq!(failed, [true]);
    }

    #[test]
    fn a_run_that_is_not_understood_is_a_problem_and_the_others_are_read() {
        let text =
            "[{\"task_id\":0,\"trial\":0,\"traj\":[{\"role\":\"user\",\"content\":\"a\"}]},\n{\"traj\":7}]";
        let reading = TauBench.read(text.as_bytes()).unwrap();
        assert_eq!(reading.conversations.len(), 1);
        assert_eq!(reading.problems[0].line, 2);
    }
}
