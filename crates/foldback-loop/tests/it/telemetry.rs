//! What a turn and its tools tell OpenTelemetry.

use foldback_backends::{Endpoint, Key, ModelClient, Protocol};
use foldback_loop::{Agent, AgentLimits};
use foldback_testkit::server::{Answer, Said, Server, Spoken};
use foldback_testkit::spans::{FieldValues, Spans};
use serde_json::{Value, json};
use tracing::instrument::WithSubscriber;

use crate::shell::Shell;

const SECRET: &str = "sk-hunter2-hunter2-hunter2";
const SAID: &str = "the colour of the parser is mauve";

/// Does what it is told to.
fn shell() -> Shell {
    Shell::new(|command| if command == "fail" { Err(SAID.to_owned()) } else { Ok(SAID.to_owned()) })
}

/// A turn in which a tool works, one fails, and the model answers.
async fn turn(protocol: Protocol, spoken: Spoken) -> Spans {
    let server = Server::start(move |request| {
        let input = |command: &str| json!({"command": command, "about": SAID});
        let call = |id, input: &Value| spoken.answer(request, &Said::Call { id, name: "shell", input });
        match request.index {
            0 => call("call-one", &input("work")),
            1 => call("call-two", &input("fail")),
            2 => spoken.answer(request, &Said::Text(SAID)),
            _ => Answer::status(401),
        }
    })
    .await;
    let endpoint = Endpoint::new(&server.url()).unwrap().key(Key::new(SECRET));
    let model = ModelClient::new(endpoint, protocol, "asked-for").unwrap();
    let limits = AgentLimits { retries_max: 0, ..AgentLimits::default() };
    let agent = Agent::builder().model(model).tool(shell()).limits(limits).build().unwrap();
    let session = agent.session("session-7");
    let spans = Spans::default();
    session.send(SAID).with_subscriber(spans.clone()).await.unwrap();
    session.send(SAID).with_subscriber(spans.clone()).await.unwrap_err();
    let told = format!("{spans:?}");
    assert!(!told.contains(SECRET) && !told.contains(SAID), "{told}");
    spans
}

fn assert_fields(span: &FieldValues, wanted: &[(&str, &str)]) {
    for (name, value) in wanted {
        assert_eq!(span.get(*name).map(String::as_str), Some(*value), "{name} in {span:?}");
    }
}

#[tokio::test]
async fn a_turn_its_requests_and_its_tools_are_spans_of_the_conventions_and_say_no_content() {
    for protocol in Protocol::ALL {
        let (spoken, provider) = match protocol {
            Protocol::OpenAiChat => (Spoken::Chat, "openai"),
            Protocol::OpenAiResponses => (Spoken::Responses, "openai"),
            Protocol::Anthropic => (Spoken::Messages, "anthropic"),
        };
        let spans = turn(protocol, spoken).await;
        let requests = spans.all_named("chat");
        assert_eq!(requests.len(), 4, "{spans:?}");
        assert_fields(&requests[0], &[("gen_ai.response.finish_reasons", r#"["tool_call"]"#)]);
        let [answered, failed] = &spans.all_named("invoke_agent")[..] else { panic!("{spans:?}") };
        let input: u64 = requests
            .iter()
            .filter_map(|span| span.get("gen_ai.usage.input_tokens")?.parse::<u64>().ok())
            .sum();
        assert_fields(
            answered,
            &[
                ("otel.name", "invoke_agent"),
                ("otel.kind", "internal"),
                ("gen_ai.operation.name", "invoke_agent"),
                ("gen_ai.provider.name", provider),
                ("gen_ai.request.model", "asked-for"),
                ("gen_ai.conversation.id", "session-7"),
                ("gen_ai.usage.input_tokens", &input.to_string()),
            ],
        );
        assert!(!answered.contains_key("error.type"), "{answered:?}");
        assert_fields(failed, &[("error.type", "401"), ("otel.status_code", "ERROR")]);
        let [worked, refused] = &spans.all_named("execute_tool")[..] else { panic!("{spans:?}") };
        for (span, id) in [(worked, "call-one"), (refused, "call-two")] {
            assert_fields(
                span,
                &[
                    ("otel.name", "execute_tool shell"),
                    ("otel.kind", "internal"),
                    ("gen_ai.operation.name", "execute_tool"),
                    ("gen_ai.tool.name", "shell"),
                    ("gen_ai.tool.call.id", id),
                    ("gen_ai.tool.type", "function"),
                ],
            );
        }
        assert!(!worked.contains_key("error.type"), "{worked:?}");
        assert_fields(refused, &[("error.type", "tool_error"), ("otel.status_code", "ERROR")]);
    }
}
