//! A rig agent answers thirty questions, each with a tool, in a window that holds a few of them, and looks up
//! the first answer again.
//!
//! `cargo run --manifest-path adapters/Cargo.toml -p foldback-rig --example rig_chat`
//!
//! The model is a script, so the example runs offline; the agent, its tools and its memory are rig's.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "it shows what happens")]
#![allow(clippy::result_large_err, reason = "the error is rig's")]

use std::error::Error;
use std::sync::{Arc, Mutex};

use foldback::engine::StrategyCompactor;
use foldback::engine::recall::handles_in;
use foldback::{Policy, Room, Tokens};
use foldback_rig::{FoldbackMemory, RecallTool};
use futures::stream;
use rig_agent::AgentBuilder;
use rig_agent::completion::CompletionRequest;
use rig_core::completion::Message;
use rig_core::driver::{Exchange, Model, Opened, Opening, Transport};
use rig_core::memory::{ConversationMemory, InMemoryConversationMemory};
use rig_core::operation::Finish;
use rig_core::test_utils::{MockFrame, MockScript, MockStreamEvent};
use rig_core::tool::PortableTool;
use rig_core::transcript::validate_canonical;
use serde_json::{Value, json};

/// What the model takes.
const WINDOW: usize = 8_000;
const QUESTION_COUNT: usize = 30;
const RULE: &str = "Always answer in French.";
const CHAT: &str = "chat";

/// Tells the weather of any day.
struct Weather;

fn weather(day: &Value) -> String {
    (0..24)
        .map(|hour| format!("day {day} hour {hour:02}: wind from the west, {} degrees, no rain\n", hour % 12))
        .collect()
}

impl PortableTool for Weather {
    const NAME: &'static str = "weather";
    type Args = Value;
    type Output = String;
    type Error = std::convert::Infallible;

    fn description(&self) -> String {
        "The weather of a day, hour by hour.".to_owned()
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]})
    }

    async fn call(&self, input: Value) -> Result<String, Self::Error> {
        Ok(weather(&input["day"]))
    }
}

/// Asks the tool, then answers; and keeps what it was sent.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Vec<Vec<Message>>>>);

impl Transport<MockScript> for Scripted {
    fn send(&self, request: CompletionRequest, _exchange: Exchange) -> Opening<MockFrame> {
        let messages: Vec<Message> = request.chat_history.into_iter().collect();
        let mut requests = self.0.lock().expect("nobody panics while holding it");
        requests.push(messages.clone());
        let number = requests.len() - 1;
        let event = match (number % 2, number / 2) {
            (0, QUESTION_COUNT) => call(number, "recall", json!({"handle": oldest_handle(&messages)})),
            (0, day) => call(number, "weather", json!({ "day": day })),
            _ => MockStreamEvent::text(format!("Il ne pleut pas le jour {}.", number / 2)),
        };
        let events = [event, MockStreamEvent::FinalResponse(Finish::default())];
        Opening::ready(Opened::new(stream::iter(events.map(|event| Ok(MockFrame::Event(event))))))
    }
}

fn call(number: usize, name: &str, input: Value) -> MockStreamEvent {
    MockStreamEvent::tool_call(format!("part-{number}"), name, input).with_call_id(format!("call-{number}"))
}

/// The first name of something hidden, in a summary or in place of a result.
fn oldest_handle(messages: &[Message]) -> String {
    let seen = serde_json::to_string(messages).expect("messages are JSON");
    handles_in(&seen).first().expect("thirty days do not fit").to_string()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let policy = Policy::named("ladder").expect("the default policy");
    // A run adds a question, a call and what is recalled to what was loaded; the window counts JSON.
    let room = Room::new(Tokens(WINDOW as u64)).overhead(Tokens(4_000));
    let compactor = StrategyCompactor::builder().policy(&policy, room).build()?;
    let memory = FoldbackMemory::new(InMemoryConversationMemory::new(), compactor);
    let model = Scripted::default();
    let agent = AgentBuilder::new(Model::new(MockScript::new("scripted"), model.clone()).erase())
        .memory(memory.clone())
        .conversation(CHAT)
        .tool(Weather)
        .tool(RecallTool::new(&memory, CHAT))
        .build();
    for day in 0..=QUESTION_COUNT {
        let question = match day {
            0 => format!("{RULE} Does it rain on day 0?"),
            QUESTION_COUNT => "What was the weather at noon of day 0?".to_owned(),
            _ => format!("Does it rain on day {day}?"),
        };
        let answer = agent.prompt(question).max_turns(3).await?;
        println!("{answer}");
    }
    let stored = memory.store().load(&CHAT.into()).await?;
    assert_eq!(stored.len(), 4 * (QUESTION_COUNT + 1), "the store holds everything");
    check(&model.0.lock().expect("nobody panics"));
    Ok(())
}

/// What has to be true of every request that the model was sent.
fn check(requests: &[Vec<Message>]) {
    assert_eq!(requests.len(), 2 * (QUESTION_COUNT + 1));
    for (number, request) in requests.iter().enumerate() {
        let sent = serde_json::to_string(request).expect("messages are JSON");
        assert!(sent.len() / 4 <= WINDOW, "request {number} is longer than the window");
        assert_eq!(
            validate_canonical(&request[..request.len() - 1]).is_ok(),
            number % 2 == 0,
            "request {number}"
        );
        assert!(sent.contains(RULE), "request {number} lost what the user said");
        if number % 2 == 0 && number > 0 {
            let last = Message::assistant(format!("Il ne pleut pas le jour {}.", number / 2 - 1));
            let newest = &request[request.len() - 2];
            assert_eq!(text(newest), text(&last), "the newest answer is as it was");
        }
    }
    let recalled = requests.last().and_then(|request| request.last()).expect("there were requests");
    let recalled = serde_json::to_string(recalled).expect("messages are JSON");
    assert!(
        recalled.contains("day 0 hour 12: wind from the west"),
        "the first day is read again: {recalled}"
    );
}

fn text(message: &Message) -> String {
    let Message::Assistant(turn) = message else { panic!("{message:?}") };
    turn.content
        .iter()
        .filter_map(|content| match content {
            rig_core::message::AssistantContent::Text(text) => Some(text.text()),
            _ => None,
        })
        .collect()
}
