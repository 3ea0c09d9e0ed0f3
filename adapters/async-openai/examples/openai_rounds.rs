//! An agent loop of its own, over async-openai's types, reads forty files in a window that holds a few of them.
//!
//! `cargo run --manifest-path adapters/Cargo.toml -p foldback-async-openai --example openai_rounds`
//!
//! The model is a script, so the example runs offline: put `client.chat().create(request)` in its place.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "it shows what happens")]

use std::error::Error;

use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage,
    ChatCompletionRequestSystemMessage, ChatCompletionRequestToolMessage,
    ChatCompletionRequestToolMessageContent, ChatCompletionRequestUserMessage, CreateChatCompletionRequest,
    FunctionCall,
};
use foldback::engine::recall::handles_in;
use foldback::engine::{Execution, compact};
use foldback::{Dialect, Policy, Room, Tokens, View, check_request};
use foldback_async_openai::{Reading, RequestError};

/// What the model takes.
const WINDOW: usize = 12_000;
const FILE_COUNT: usize = 40;
const TASK: &str = "Which of the forty modules opens a socket? Never edit a generated file.";

fn file(number: usize) -> String {
    (0..60)
        .map(|line| format!("src/module_{number}.rs:{line}: let value_{line} = parse(input)?;\n"))
        .collect()
}

/// The model: reads one file after the other, then answers.
fn answer(request: &CreateChatCompletionRequest, number: usize) -> ChatCompletionRequestAssistantMessage {
    let sent = serde_json::to_string(&request.messages).expect("messages are JSON");
    assert!(sent.len() / 4 <= WINDOW, "request {number} is longer than the window");
    if number == FILE_COUNT {
        return "None of them opens a socket.".into();
    }
    let arguments = format!("{{\"path\": \"src/module_{number}.rs\"}}");
    let function = FunctionCall { name: "read_file".to_owned(), arguments };
    let call = ChatCompletionMessageToolCall { id: format!("call-{number}"), function };
    ChatCompletionRequestAssistantMessage { tool_calls: Some(vec![call.into()]), ..Default::default() }
}

/// The result of a call, as a message.
fn result(number: usize) -> ChatCompletionRequestMessage {
    let content = ChatCompletionRequestToolMessageContent::Text(file(number));
    ChatCompletionRequestToolMessage { content, tool_call_id: format!("call-{number}") }.into()
}

fn main() -> Result<(), Box<dyn Error>> {
    let policy = Policy::named("ladder").expect("the default policy");
    let budget = policy.budget(Room::new(Tokens(WINDOW as u64)))?;
    let system = ChatCompletionRequestSystemMessage::from("You read code.").into();
    let task = ChatCompletionRequestUserMessage::from(TASK).into();
    let mut request = CreateChatCompletionRequest {
        model: "gpt-4o".to_owned(),
        messages: vec![system, task],
        ..CreateChatCompletionRequest::default()
    };
    let mut views = Vec::new();
    for number in 0..=FILE_COUNT {
        let reading = Reading::of(&request)?;
        if reading.view().tokens() > budget.trigger() {
            let execution = Execution::new(reading.view().clone(), policy.strategy()).with_budget(budget);
            let outcome = compact(execution.with_dialect(Dialect::OpenaiChat))?;
            let (before, after) = (reading.view().tokens(), outcome.view.tokens());
            println!("file {number}: {before} → {after} tokens");
            request = reading.request(&outcome.view)?.request;
            views.push(outcome.view);
        }
        check(&request, number)?;
        request.messages.push(answer(&request, number).into());
        if number < FILE_COUNT {
            request.messages.push(result(number));
        }
    }
    assert!(views.len() > 1, "forty files do not fit");
    assert!(recalled(&views[0]).contains("src/module_0.rs:0: let value_0"), "the first file is read again");
    Ok(())
}

/// What has to be true of every request.
fn check(request: &CreateChatCompletionRequest, number: usize) -> Result<(), RequestError> {
    let reading = Reading::of(request)?;
    assert_eq!(check_request(reading.view().items(), Some(Dialect::OpenaiChat)), [], "request {number}");
    let sent = serde_json::to_string(&request.messages)?;
    assert!(sent.contains("Never edit a generated file."), "request {number} lost what the user said");
    if let Some(newest) = number.checked_sub(1) {
        assert_eq!(request.messages.last(), Some(&result(newest)), "the newest result is as it was");
    }
    Ok(())
}

/// What stands behind the first name of something hidden in a view.
fn recalled(view: &View) -> String {
    let seen: String = view.items().map(|item| format!("{:?}", item.parts)).collect();
    let handle = handles_in(&seen).into_iter().next().expect("something was hidden");
    view.recall(&handle).as_ref().map(foldback::engine::recall::shown).unwrap_or_default()
}
