//! Not counted yet.

use serde_json::Value;

use super::Counts;

pub(crate) fn anthropic(bytes: &[u8]) -> Vec<Counts> {
    let body: Value = serde_json::from_slice(bytes).expect("the body is JSON");
    let messages = body.as_array().or_else(|| body["messages"].as_array()).expect("the body has messages");
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let system = &body["system"];
    let mut items = usize::from(system.as_str().map_or(system.is_array(), |text| !text.is_empty()));
    for message in messages {
        let Some(blocks) = message["content"].as_array() else {
            items += usize::from(message["content"] != "");
            continue;
        };
        // Tagged texts are items of their own, and so is each run of others between them.
        let is_tagged = |block: &&Value| {
            let text = block["text"].as_str().unwrap_or("");
            ["context", "notification", "conversation_summary"]
                .iter()
                .any(|tag| text.starts_with(&format!("<{tag}>\n")))
        };
        let (answers, others): (Vec<&Value>, Vec<&Value>) =
            blocks.iter().partition(|block| block["type"] == "tool_result");
        let runs = others.chunk_by(|one, next| !is_tagged(one) && !is_tagged(next)).count();
        items += usize::from(!answers.is_empty()) + runs;
        let text = |value: &Value| value.as_str().expect("ids are text").to_owned();
        let called = others.iter().filter(|block| block["type"] == "tool_use");
        calls.extend(called.map(|block| text(&block["id"])));
        results.extend(answers.iter().map(|block| text(&block["tool_use_id"])));
    }
    vec![Counts::new(items, &calls, &results)]
}

pub(crate) fn openai_chat(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn openai_responses(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn gemini(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}
