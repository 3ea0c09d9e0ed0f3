//! Requests of both kinds, there and back.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test says where")]

use async_openai::types::chat::CreateChatCompletionRequest;
use async_openai::types::responses::{
    CreateResponse, EasyInputContent, EasyInputMessage, InputContent, InputItem, InputParam, InputTextContent,
};
use foldback::engine::{Execution, compact};
use foldback::{Budget, Fate, SummarizeOlderStrategy, Tokens, View, check_request};
use foldback_async_openai::{Reading, Request};
use foldback_testkit::strategies;
use proptest::prelude::{
    BoxedStrategy, Just, Strategy as Generator, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Value, json};

const ARGUMENTS: &str = "{\"path\": \"src/lib.rs\"}";
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgo=";

fn words() -> BoxedStrategy<String> {
    prop_oneof!["[ -~\n]{1,40}", (1usize..60).prop_map(|n| "the file was read; ".repeat(n))].boxed()
}

/// What a user says, in Chat Completions.
fn chat_content() -> BoxedStrategy<Value> {
    let part = prop_oneof![
        words().prop_map(|text| json!({"type": "text", "text": text})),
        Just(json!({"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}})),
        Just(json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})),
        Just(json!({"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}})),
    ];
    prop_oneof![words().prop_map(Value::from), prop::collection::vec(part, 1..4).prop_map(Value::from)]
        .boxed()
}

/// Messages that belong together.
fn chat_step() -> BoxedStrategy<Vec<Value>> {
    let instructed = words().prop_map(|text| {
        let content = json!([{"type": "text", "text": text}]);
        vec![json!({"role": "developer", "content": content})]
    });
    let refused = words().prop_map(|text| {
        let content = json!([{"type": "refusal", "refusal": text}]);
        vec![json!({"role": "assistant", "content": content})]
    });
    let said = |role| move |content| vec![json!({"role": role, "content": content, "name": "kim"})];
    let outputs = prop::collection::vec((words(), any::<bool>()), 1..4);
    prop_oneof![
        2 => chat_content().prop_map(said("user")),
        1 => words().prop_map(Value::from).prop_map(said("assistant")),
        1 => words().prop_map(|text| vec![json!({"role": "assistant", "refusal": text})]),
        1 => instructed,
        1 => refused,
        4 => (prop::option::of(words()), outputs).prop_map(|(said, outputs)| chat_round(said, &outputs)),
    ]
    .boxed()
}

/// An answer with calls, some of them of custom tools, and their results.
fn chat_round(said: Option<String>, outputs: &[(String, bool)]) -> Vec<Value> {
    let numbered = || (0..).zip(outputs);
    let call = |(n, (_, is_custom)): (usize, &(String, bool))| match is_custom {
        // As async-openai spells it.
        true => json!({"id": id(n), "type": "custom", "custom_tool": {"name": "run", "input": "ls"}}),
        false => {
            json!({"id": id(n), "type": "function", "function": {"name": "read", "arguments": ARGUMENTS}})
        }
    };
    let mut answer = json!({"role": "assistant", "tool_calls": numbered().map(call).collect::<Vec<_>>()});
    if let Some(said) = said {
        answer["content"] = said.into();
    }
    let results = numbered().map(|(n, (output, is_list))| {
        let content = if *is_list { json!([{"type": "text", "text": output}]) } else { json!(output) };
        json!({"role": "tool", "content": content, "tool_call_id": id(n)})
    });
    std::iter::once(answer).chain(results).collect()
}

/// Items that belong together, in Responses.
fn response_step() -> BoxedStrategy<Vec<Value>> {
    let said = |content| json!({"type": "message", "role": "user", "content": content});
    let shown = words().prop_map(move |text| {
        let picture = json!({"type": "input_image", "image_url": PICTURE, "detail": "auto"});
        vec![said(json!([{"type": "input_text", "text": text}, picture]))]
    });
    let answered = words().prop_map(|text| {
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        let answer = json!({"type": "message", "role": "assistant", "content": content});
        vec![with(answer, &[("id", "msg_1"), ("status", "completed")])]
    });
    prop_oneof![
        2 => words().prop_map(move |text| vec![said(text.into())]),
        1 => shown,
        1 => answered,
        4 => (any::<bool>(), prop::collection::vec(words(), 1..4))
            .prop_map(|(thinks, outputs)| response_round(thinks, &outputs)),
    ]
    .boxed()
}

/// Calls, with thinking before them or not, and their results.
fn response_round(thinks: bool, outputs: &[String]) -> Vec<Value> {
    let thinking = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
    let thinking = with(thinking, &[("id", "rs_1"), ("encrypted_content", "c2VjcmV0")]);
    let call = |n| {
        with(
            json!({"type": "function_call", "call_id": id(n)}),
            &[("name", "read"), ("arguments", ARGUMENTS)],
        )
    };
    let result = |(n, output): (usize, &String)| {
        with(json!({"type": "function_call_output", "call_id": id(n)}), &[("output", output)])
    };
    let calls = thinks.then_some(thinking).into_iter().chain((0..outputs.len()).map(call));
    calls.chain((0..).zip(outputs).map(result)).collect()
}

fn with(mut value: Value, fields: &[(&str, &str)]) -> Value {
    fields.iter().for_each(|(name, text)| value[*name] = json!(text));
    value
}

/// The place of a call's id, until it is known which step it is in.
fn id(n: usize) -> String {
    format!("call-STEP-{n}")
}

/// Steps one after the other, with call ids that are used once.
fn joined(steps: &[Vec<Value>]) -> Vec<Value> {
    let numbered = steps.iter().enumerate().flat_map(|(number, step)| {
        let text = json!(step).to_string().replace("STEP", &number.to_string());
        serde_json::from_str::<Vec<Value>>(&text).unwrap()
    });
    numbered.collect()
}

fn chat(messages: &[Value]) -> CreateChatCompletionRequest {
    let body = json!({
        "model": "gpt-4o", "messages": messages, "temperature": 0.2, "seed": 7, "tools": [
            {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
        ]
    });
    serde_json::from_value(body).unwrap()
}

fn response(items: &[Value]) -> CreateResponse {
    let body = json!({"model": "gpt-5", "input": items, "store": false});
    serde_json::from_value(body).unwrap()
}

/// A request of which nothing is hidden is the request; one that was compacted keeps the rules, and every
/// message that the view shows as it was.
fn holds<R: Request + PartialEq + std::fmt::Debug>(
    request: &R,
    strategy: impl foldback::Strategy,
    percent: u64,
) -> Result<(), proptest::test_runner::TestCaseError>
where
    R::Message: PartialEq + std::fmt::Debug,
{
    let reading = Reading::of(request).unwrap();
    prop_assert_eq!(&reading.request(reading.view()).unwrap().request, request);
    let target = Tokens((reading.view().tokens().0 * percent / 100).max(1));
    let execution =
        Execution::new(reading.view().clone(), strategy).with_budget(Budget::for_target(target).unwrap());
    let Ok(outcome) = compact(execution.with_dialect(R::DIALECT)) else { return Ok(()) };
    let compacted = reading.request(&outcome.view).unwrap();
    let shown = Reading::of(&compacted.request).unwrap();
    prop_assert_eq!(check_request(shown.view().items(), Some(R::DIALECT)), []);
    let kept = kept(&outcome.view, reading.view().len());
    prop_assert_eq!(reading.view().len(), request.messages().len());
    for index in kept.into_iter().flatten() {
        let message = &request.messages()[index];
        prop_assert!(compacted.request.messages().contains(message), "{:?}", message);
    }
    Ok(())
}

/// The messages that a view shows as they were, by their index. None where a repair recorded them again.
fn kept(view: &View, message_count: usize) -> Option<Vec<usize>> {
    let fates = view.fates();
    let is_visible = |index: &usize| matches!(fates[*index], Fate::Visible);
    (fates.len() == message_count).then(|| (0..message_count).filter(is_visible).collect())
}

proptest! {
    #![proptest_config(foldback_testkit::costly(2))]

    #[test]
    fn chat_requests_are_read_and_written(
        steps in prop::collection::vec(chat_step(), 1..12),
        strategy in strategies::strategy(),
        percent in 5u64..100,
    ) {
        holds(&chat(&joined(&steps)), strategy, percent)?;
    }

    #[test]
    fn responses_requests_are_read_and_written(
        steps in prop::collection::vec(response_step(), 1..12),
        strategy in strategies::strategy(),
        percent in 5u64..100,
    ) {
        holds(&response(&joined(&steps)), strategy, percent)?;
    }
}

#[test]
fn an_item_of_a_form_that_reads_as_another_stays_what_it_was() {
    let text = InputContent::InputText(InputTextContent { text: "hello".to_owned(), ..Default::default() });
    let content = EasyInputContent::ContentList(vec![text]);
    let easy = InputItem::EasyMessage(EasyInputMessage { content, ..Default::default() });
    let again: InputItem = serde_json::from_value(serde_json::to_value(&easy).unwrap()).unwrap();
    assert_ne!(again, easy, "async-openai reads it as another form");
    let request = CreateResponse { input: InputParam::Items(vec![easy]), ..Default::default() };
    let reading = Reading::of(&request).unwrap();
    assert_eq!(reading.request(reading.view()).unwrap().request, request);
}

#[test]
fn instructions_stay_where_they_are() {
    let said =
        |n: usize| json!({"type": "message", "role": "user", "content": format!("It is {n}. ").repeat(60)});
    let request = CreateResponse {
        instructions: Some("Be brief.".into()),
        ..response(&(0..20).map(said).collect::<Vec<_>>())
    };
    let reading = Reading::of(&request).unwrap();
    assert_eq!(reading.request(reading.view()).unwrap().request, request);
    let outcome = compact(Execution::new(reading.view().clone(), SummarizeOlderStrategy::new(4))).unwrap();
    let compacted = reading.request(&outcome.view).unwrap().request;
    assert_eq!(compacted.instructions, request.instructions);
    assert_eq!(compacted.messages()[1..], request.messages()[16..]);
}

#[test]
fn a_request_that_is_one_text_stays_one() {
    let input = InputParam::Text("Why is the sky blue?".to_owned());
    let request = CreateResponse { model: Some("gpt-5".to_owned()), input, ..Default::default() };
    let reading = Reading::of(&request).unwrap();
    assert_eq!(reading.view().len(), 1);
    assert_eq!(reading.request(reading.view()).unwrap().request, request);
}

#[test]
fn a_summary_stands_where_the_folded_messages_stood_and_is_known_again() {
    let said = |n: usize| {
        let role = if n.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("It is {n}. ").repeat(60)})
    };
    let request = chat(&(0..20).map(said).collect::<Vec<_>>());
    let reading = Reading::of(&request).unwrap();
    let execution = Execution::new(reading.view().clone(), SummarizeOlderStrategy::new(4));
    let outcome = compact(execution.with_dialect(CreateChatCompletionRequest::DIALECT)).unwrap();
    let compacted = reading.request(&outcome.view).unwrap().request;
    assert_eq!(compacted.messages[1..], request.messages[16..]);
    let again = Reading::of(&compacted).unwrap();
    assert!(again.view().items().next().unwrap().summary.is_some(), "{:?}", compacted.messages[0]);
    assert_eq!((&compacted.tools, compacted.temperature), (&request.tools, request.temperature));
}

/// async-openai names the content of such a call otherwise than the API.
#[test]
fn a_custom_call_and_its_result_are_a_pair() {
    let call = json!({"id": "c1", "type": "custom", "custom_tool": {"name": "run", "input": "ls"}});
    let request = chat(&[
        json!({"role": "user", "content": "go"}),
        json!({"role": "assistant", "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": "a.rs"}),
    ]);
    let reading = Reading::of(&request).unwrap();
    assert_eq!(check_request(reading.view().items(), Some(CreateChatCompletionRequest::DIALECT)), []);
    assert_eq!(reading.request(reading.view()).unwrap().request, request);
}
