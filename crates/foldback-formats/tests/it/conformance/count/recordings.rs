//! Files that foldback only reads.

use serde_json::Value;

use super::Counts;

/// The ids of calls and results, and the number of items, of one conversation.
#[derive(Default)]
struct Tally {
    items: usize,
    calls: Vec<String>,
    results: Vec<String>,
}

impl Tally {
    fn counts(&self) -> Counts {
        Counts::new(self.items, &self.calls, &self.results)
    }

    fn item_if(&mut self, is_item: bool) {
        self.items += usize::from(is_item);
    }

    /// A message of Chat Completions.
    fn chat_message(&mut self, message: &Value) {
        let calls = list(&message["tool_calls"]);
        self.calls.extend(calls.iter().map(|call| text(&call["id"])));
        if message["role"] == "tool" {
            self.items += 1;
            self.results.push(text(&message["tool_call_id"]));
        } else {
            let thinks = message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty());
            self.item_if(says(&message["content"]) || !calls.is_empty() || thinks);
        }
    }

    /// A message of Anthropic's blocks.
    fn blocks_message(&mut self, content: &Value) {
        let blocks = list(content);
        let of_type = |kind: &str| blocks.iter().filter(|block| block["type"] == kind).collect::<Vec<_>>();
        let (calls, results) = (of_type("tool_use"), of_type("tool_result"));
        self.calls.extend(calls.iter().map(|block| text(&block["id"])));
        self.results.extend(results.iter().map(|block| text(&block["tool_use_id"])));
        self.item_if(!results.is_empty());
        self.item_if(blocks.len() > results.len() || content.as_str().is_some_and(|text| !text.is_empty()));
    }
}

fn document(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("recordings are JSON documents")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether content is more than an empty string or list.
fn says(content: &Value) -> bool {
    match content {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(parts) => parts.iter().any(|part| part["type"] != "text" || part["text"] != ""),
        _ => true,
    }
}

pub(crate) fn cline(bytes: &[u8]) -> Vec<Counts> {
    const ADDED: [&str; 3] = ["<environment_details>", "[ERROR] You did not use", "[TASK RESUMPTION]"];
    let file = document(bytes);
    let mut tally = Tally::default();
    tally.item_if(file.get("system_prompt").is_some_and(says));
    let messages = if file.is_array() { list(&file) } else { list(&file["messages"]) };
    for message in messages.iter().filter(|message| message["metadata"]["kind"] != "compaction_summary") {
        let mut blocks = list(&message["content"]).to_vec();
        if message["role"] == "assistant" || blocks.is_empty() {
            tally.blocks_message(&message["content"]);
            continue;
        }
        let said = |block: &Value| text(&block["text"]);
        blocks.retain(|block| !said(block).starts_with("<SYSTEM_NOTICE>\nEarlier context was compacted"));
        // Each block that is not the person's is an item of its own.
        let is_result = said(&blocks[0]).starts_with('[') && said(&blocks[0]).contains("] Result:");
        let is_added = |block: &Value| is_result || ADDED.iter().any(|start| said(block).starts_with(start));
        let is_persons = |block: &Value| block["type"] != "tool_result" && !is_added(block);
        tally.items +=
            blocks.iter().filter(|block| block["type"] != "tool_result" && is_added(block)).count();
        let mut is_open = false;
        for block in blocks.iter().filter(|block| block["type"] != "tool_result") {
            tally.item_if(is_persons(block) && !is_open);
            is_open = is_persons(block);
        }
        blocks.retain(|block| block["type"] == "tool_result");
        tally.blocks_message(&Value::Array(blocks));
    }
    vec![tally.counts()]
}

pub(crate) fn swe_agent(bytes: &[u8]) -> Vec<Counts> {
    let file = document(bytes);
    let mut tally = Tally::default();
    for message in list(&file["history"]) {
        match list(&message["tool_call_ids"]) {
            [] => tally.chat_message(message),
            ids => {
                tally.items += 1;
                tally.results.extend(ids.iter().map(text));
            }
        }
    }
    vec![tally.counts()]
}

pub(crate) fn mini_swe_agent(bytes: &[u8]) -> Vec<Counts> {
    let file = document(bytes);
    let mut tally = Tally::default();
    list(&file["messages"]).iter().for_each(|message| tally.chat_message(message));
    vec![tally.counts()]
}

pub(crate) fn openhands(bytes: &[u8]) -> Vec<Counts> {
    const SILENT: [&str; 5] = ["null", "agent_state_changed", "change_agent_state", "recall", "condensation"];
    let file = document(bytes);
    let mut tally = Tally::default();
    let mut answers: Vec<String> = Vec::new();
    let mut calls_by_event: Vec<(i64, String)> = Vec::new();
    let events = if file.is_array() { list(&file) } else { list(&file["trajectory"]) };
    for event in events {
        let event_id = event["id"].as_i64().expect("events are numbered");
        let action = text(&event["action"]);
        let observation = text(&event["observation"]);
        let metadata = &event["tool_call_metadata"];
        let is_agents = event["source"] == "agent";
        if is_agents
            && !["", "message", "finish", "system"].contains(&&*action)
            && !SILENT.contains(&&*action)
        {
            let own_id = metadata["tool_call_id"].as_str().map(str::to_owned);
            let call_id = own_id.unwrap_or_else(|| format!("event-{event_id}"));
            calls_by_event.push((event_id, call_id.clone()));
            tally.calls.push(call_id);
            let answer = text(&metadata["model_response"]["id"]);
            tally.item_if(answer.is_empty() || !answers.contains(&answer));
            answers.push(answer);
        } else if !action.is_empty() {
            tally.item_if(!SILENT.contains(&&*action));
        } else {
            let cause = event["cause"].as_i64();
            match calls_by_event.iter().find(|(event, _)| Some(*event) == cause) {
                Some((_, call_id)) => {
                    tally.items += 1;
                    tally.results.push(call_id.clone());
                }
                None => tally.item_if(observation == "recall" || !SILENT.contains(&&*observation)),
            }
        }
    }
    vec![tally.counts()]
}

pub(crate) fn llm_log(bytes: &[u8]) -> Vec<Counts> {
    let file = document(bytes);
    let mut tally = Tally::default();
    let messages = file.get("raw_messages").unwrap_or(&file["messages"]);
    list(messages).iter().for_each(|message| tally.chat_message(message));
    if let Some(answer) = file.pointer("/response/choices/0/message") {
        tally.chat_message(answer);
    }
    tally.item_if(says(&file["instructions"]));
    for piece in list(&file["input"]).iter().chain(list(&file["response"]["output"])) {
        match piece["type"].as_str() {
            Some("function_call") => tally.calls.push(text(&piece["call_id"])),
            Some("function_call_output") => tally.results.push(text(&piece["call_id"])),
            _ => {}
        }
        tally.items += 1;
    }
    vec![tally.counts()]
}

pub(crate) fn atif(bytes: &[u8]) -> Vec<Counts> {
    let file = document(bytes);
    let mut trajectories = vec![&file];
    trajectories.extend(list(&file["subagent_trajectories"]));
    trajectories.into_iter().map(atif_trajectory).collect()
}

fn atif_trajectory(trajectory: &Value) -> Counts {
    let mut tally = Tally::default();
    // What a call returned, and what was observed since the agent spoke: told again, it counts once.
    let mut answered: Vec<(String, Value)> = Vec::new();
    let mut observed: Vec<String> = Vec::new();
    for step in list(&trajectory["steps"]) {
        let is_agent = step["source"] == "agent";
        if is_agent {
            observed.clear();
        }
        let calls: Vec<String> =
            list(&step["tool_calls"]).iter().map(|call| text(&call["tool_call_id"])).collect();
        answered.retain(|(call, _)| !calls.contains(call));
        let results = list(&step["observation"]["results"]);
        let own = results.iter().filter_map(|result| Some(result["content"].as_str()?.trim().to_owned()));
        let own: Vec<String> = own.collect();
        let message = step["message"].as_str().map(|message| message.trim().to_owned());
        let is_told =
            !is_agent && message.is_some_and(|text| observed.contains(&text) || own.contains(&text));
        let is_item = says(&step["message"]) || says(&step["reasoning_content"]) || !calls.is_empty();
        tally.item_if(is_item && !is_told);
        let name = |result: &Value| result["source_call_id"].as_str().map(str::to_owned);
        let named: Vec<String> = results.iter().filter_map(name).collect();
        let mut left = calls.iter().filter(|call| !named.contains(call)).cloned();
        for result in results {
            let call = name(result).or_else(|| left.next());
            let answer = call.clone().map(|call| (call, result["content"].clone()));
            if answer.as_ref().is_some_and(|answer| answered.contains(answer)) {
                continue;
            }
            answered.extend(answer);
            observed.extend(result["content"].as_str().map(|text| text.trim().to_owned()));
            tally.items += 1;
            tally.results.extend(call);
        }
        tally.calls.extend(calls);
    }
    tally.counts()
}

pub(crate) fn forge(bytes: &[u8]) -> Vec<Counts> {
    let file = document(bytes);
    let mut tally = Tally::default();
    for message in list(&file["context"]["messages"]) {
        tally.items += 1;
        let calls = list(&message["text"]["tool_calls"]);
        tally.calls.extend(calls.iter().map(|call| text(&call["call_id"])));
        tally.results.extend(message.get("tool").map(|tool| text(&tool["call_id"])));
    }
    vec![tally.counts()]
}

pub(crate) fn moatless(bytes: &[u8]) -> Vec<Counts> {
    let file = document(bytes);
    let mut tally = Tally::default();
    tally.item_if(says(&file["agent"]["system_prompt"]));
    let mut built = list(&file["nodes"]).iter().filter_map(|node| node["completions"].get("build_action"));
    let last = built.next_back().expect("some node built an action");
    list(&last["input"]).iter().for_each(|message| tally.blocks_message(&message["content"]));
    tally.blocks_message(&last["response"]["content"]);
    vec![tally.counts()]
}

pub(crate) fn tau_bench(bytes: &[u8]) -> Vec<Counts> {
    let file = document(bytes);
    match file.is_array() {
        true => list(&file).iter().map(|run| tau_run(&run["traj"])).collect(),
        false => list(&file["simulations"]).iter().map(|run| tau2_run(&run["messages"])).collect(),
    }
}

fn tau_run(messages: &Value) -> Counts {
    let mut tally = Tally::default();
    list(messages).iter().for_each(|message| tally.chat_message(message));
    tally.counts()
}

fn tau2_run(messages: &Value) -> Counts {
    let mut tally = Tally::default();
    for message in list(messages) {
        let alone = [message.clone()];
        for message in message["tool_messages"].as_array().map_or(&alone[..], Vec::as_slice) {
            tally.items += 1;
            let is_models = message["requestor"] != "user";
            if message["role"] == "tool" && is_models {
                tally.results.push(text(&message["id"]));
            }
            if message["role"] == "assistant" {
                tally.calls.extend(list(&message["tool_calls"]).iter().map(|call| text(&call["id"])));
            }
        }
    }
    tally.counts()
}
