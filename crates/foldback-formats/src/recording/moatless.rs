//! Trajectories of Moatless: a tree of nodes, each with the raw requests that it made.
//!
//! The last request that built an action holds the whole prompt of the conversation, and its
//! response the newest answer: those two are read. What stands before them in the file repeats
//! parts of that prompt; requests for `execute_action` are prompts of their own for a tool.

use foldback_core::{Dialect, FinishReason, Item, ItemKind, Text, Tokens, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use super::pieces::{Places, if_understood, items_of_blocks, of_recording};
use crate::conversation::Conversation;
use crate::detect::{Fit, Probe};
use crate::dialect::anthropic::blocks::read_blocks;
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};

pub(crate) struct Moatless;

/// The request that continues the conversation.
const BUILD_ACTION: &str = "build_action";

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    nodes: Vec<&'a RawValue>,
    #[serde(default, deserialize_with = "if_understood")]
    agent: Option<Agent>,
    #[serde(default, deserialize_with = "if_understood")]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Agent {
    #[serde(default)]
    system_prompt: Option<Text>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    instance_id: Option<Text>,
}

#[derive(Deserialize)]
struct Node<'a> {
    #[serde(borrow, default)]
    completions: Option<BTreeMap<String, &'a RawValue>>,
}

#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(default, deserialize_with = "if_understood")]
    model: Option<Text>,
    #[serde(borrow)]
    input: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "if_understood")]
    usage: Option<ReportedUsage>,
}

/// Unlike elsewhere, what the cache gave is not in `prompt_tokens`.
#[derive(Deserialize)]
struct ReportedUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: Text,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default, deserialize_with = "if_understood")]
    id: Option<Text>,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(default, deserialize_with = "if_understood")]
    stop_reason: Option<Text>,
}

impl Codec for Moatless {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let nodes = probe.elements_of("nodes");
        let is_node = |node: &serde_json::Value| {
            node.get("node_id").is_some() && (node["completions"].is_object() || node["action"].is_object())
        };
        if nodes.iter().any(is_node) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::Moatless)?;
        let file: File<'_> = document.parse()?;
        let mut reader = Reader {
            document: document.clone(),
            places: Places::new(bytes, document.clone()),
            conversation: Conversation::new(),
            problems: Vec::new(),
        };
        let prompt = file.agent.and_then(|agent| agent.system_prompt).filter(|prompt| !prompt.is_empty());
        if let Some(prompt) = prompt {
            let item = Item::text("system", ItemKind::System, prompt);
            reader.conversation.push(item, crate::conversation::FilePlace::line(1));
        }
        let last = file.nodes.into_iter().rev().find_map(|node| reader.completion(node));
        let model = last.as_ref().and_then(|completion| completion.model.clone());
        if let Some(completion) = last {
            reader.read(completion);
        }
        Ok(Reading {
            conversations: vec![reader.conversation],
            problems: reader.problems,
            dialect: Some(Dialect::Anthropic),
            model,
            session_id: file.metadata.and_then(|metadata| metadata.instance_id),
            ..Reading::default()
        })
    }
}

struct Reader<'a> {
    document: Document<'a>,
    places: Places<'a>,
    conversation: Conversation,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// The request of a node that continued the conversation.
    fn completion(&mut self, node: &'a RawValue) -> Option<Completion<'a>> {
        let read = self.document.read_piece::<Node<'a>>(node).and_then(|node| {
            let completion = node.completions.unwrap_or_default().remove(BUILD_ACTION);
            completion.map(|completion| self.document.read_piece(completion)).transpose()
        });
        read.unwrap_or_else(|problem| {
            self.problems.push(problem);
            None
        })
    }

    fn read(&mut self, completion: Completion<'a>) {
        for (index, piece) in completion.input.into_iter().enumerate() {
            let place = self.places.of(piece);
            let read = self.document.read_piece::<Message<'a>>(piece);
            let content = read.map(|message| (message.role, read_blocks(message.content)));
            match content {
                Ok((role, Ok(content))) => {
                    let kind = match &*role {
                        "assistant" => ItemKind::Assistant,
                        "system" => ItemKind::System,
                        _ => ItemKind::User,
                    };
                    for item in items_of_blocks(&format!("m{index}"), kind, content.parts) {
                        self.conversation.push(of_recording(item), place);
                    }
                }
                Ok((_, Err(error))) => self.problems.push(Problem::of_json(&error, place.line, 0)),
                Err(problem) => self.problems.push(problem),
            }
        }
        if let Some(response) = completion.response {
            self.response(response, completion.usage);
        }
    }

    fn response(&mut self, piece: &'a RawValue, usage: Option<ReportedUsage>) {
        let place = self.places.of(piece);
        let response: Response<'a> = match self.document.read_piece(piece) {
            Ok(response) => response,
            Err(problem) => return self.problems.push(problem),
        };
        let parts = match read_blocks(response.content) {
            Ok(content) => content.parts,
            Err(error) => return self.problems.push(Problem::of_json(&error, place.line, 0)),
        };
        let id = response.id.unwrap_or_else(|| "response".into());
        let usage = usage.map(|usage| Usage {
            input_tokens: Tokens(usage.prompt_tokens.unwrap_or(0)),
            cached_tokens: Tokens(usage.cached_tokens.unwrap_or(0)),
            output_tokens: Tokens(usage.completion_tokens.unwrap_or(0)),
            ..Usage::default()
        });
        let finish_reason = match response.stop_reason.as_deref() {
            Some("tool_use") => Some(FinishReason::ToolCalls),
            Some("max_tokens") => Some(FinishReason::Length),
            Some("end_turn" | "stop_sequence") => Some(FinishReason::Stop),
            _ => None,
        };
        if !parts.is_empty() {
            let item = Item { usage, finish_reason, ..Item::assistant(id.as_str(), parts) };
            self.conversation.push(of_recording(item), place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = r#"{"agent":{"system_prompt":"be brief"},"nodes":[
        {"node_id":0,"message":"task","completions":{}},
        {"node_id":1,"completions":{"build_action":{"input":[{"role":"user","content":"task"}],
            "response":{"id":"r1","content":[{"type":"text","text":"first"}]}}}},
        {"node_id":2,"completions":{
            "build_action":{"model":"m","input":[{"role":"user","content":"task"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Find","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"found"}]}],
              "response":{"id":"r2","content":[{"type":"text","text":"second"}],"stop_reason":"end_turn"},
              "usage":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":100}},
            "execute_action":{"input":[{"role":"user","content":"pick code"}],"response":{"content":[]}}}}]}"#;

    #[test]
    fn the_last_prompt_and_its_answer_are_the_conversation() {
        let reading = Moatless.read(TREE.as_bytes()).unwrap();
        let recorded = reading.conversations[0].recorded();
        let ids: Vec<&str> = recorded.iter().map(|recorded| recorded.item.id.as_str()).collect();
        assert_eq!(ids, ["system", "m0", "m1", "m2", "r2"]);
        assert_eq!(recorded[4].item.usage.unwrap().prompt_tokens(), Tokens(105));
    }

    #[test]
    fn a_message_that_is_not_understood_is_a_problem_on_its_line() {
        let text = "{\"nodes\":[{\"node_id\":1,\"completions\":{\"build_action\":{\"input\":[\n{\"role\":\"user\"},\n{\"role\":\"user\",\"content\":\"a\"}]}}}]}";
        let reading = Moatless.read(text.as_bytes()).unwrap();
        assert_eq!(reading.problems[0].line, 2);
        assert_eq!(reading.conversations[0].len(), 1);
    }
}
