//! Streams and whole answers of every protocol, valid, cut and hostile.

mod bodies;

use foldback_core::{FinishReason, Part, Reasoning, Timestamp, Tokens, ToolInput, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The answer of a stream, and what was told while it came.
fn stream(protocol: Protocol, events: &[String]) -> (Result<Answer, AnswerError>, Vec<String>) {
    let mut told = Vec::new();
    let mut on_delta = |delta: Delta<'_>| {
        told.push(match delta {
            Delta::Text(text) => format!("text {text}"),
            Delta::Reasoning(text) => format!("reasoning {text}"),
            Delta::Call { name } => format!("call {name}"),
        });
    };
    let mut reader = AnswerReader::new(protocol);
    let mut pushed = Ok(());
    for event in events {
        pushed = reader.push(event, &mut on_delta);
        if pushed.is_err() {
            break;
        }
    }
    (pushed.and_then(|()| reader.finish()), told)
}

fn events(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::to_string).collect()
}

/// Text in pieces, each with how the protocol streams it.
fn text_stream(protocol: Protocol, pieces: &[&str]) -> Vec<String> {
    let deltas = pieces.iter();
    match protocol {
        Protocol::OpenAiChat => {
            let chunk = |delta: Value, finish: Value| json!({"id":"a1","model":"m-7","choices":[{"index":0,"delta":delta,"finish_reason":finish}]});
            let mut values = vec![chunk(json!({"role":"assistant","content":null}), Value::Null)];
            values.extend(deltas.map(|text| chunk(json!({"content":text}), Value::Null)));
            values.push(chunk(json!({}), json!("stop")));
            values.push(
                json!({"id":"a1","model":"m-7","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,
                "prompt_tokens_details":{"cached_tokens":4}}}),
            );
            let mut events = events(&values);
            events.push("[DONE]".to_owned());
            events
        }
        Protocol::OpenAiResponses => {
            let mut values = vec![json!({"type":"response.created","response":{"id":"a1","model":"m-7"}})];
            values.extend(deltas.map(|text| json!({"type":"response.output_text.delta","delta":text})));
            let message = json!({"type":"message","role":"assistant","id":"msg","content":[{"type":"output_text","text":pieces.concat()}]});
            values.push(json!({"type":"response.output_item.done","output_index":0,"item":message}));
            values.push(json!({"type":"response.completed","response":{"id":"a1","model":"m-7","status":"completed","output":[message],
                "usage":{"input_tokens":10,"output_tokens":3,"input_tokens_details":{"cached_tokens":4}}}}));
            events(&values)
        }
        Protocol::Anthropic => {
            let mut values = vec![
                json!({"type":"message_start","message":{"id":"a1","model":"m-7","usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":1}}}),
                json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
                json!({"type":"ping"}),
            ];
            values.extend(deltas.map(|text| json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":text}})));
            values.push(json!({"type":"content_block_stop","index":0}));
            values.push(json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}));
            values.push(json!({"type":"message_stop"}));
            events(&values)
        }
    }
}

/// The same answer in one piece.
fn whole(protocol: Protocol, text: &str) -> Value {
    match protocol {
        Protocol::OpenAiChat => json!({"id":"a1","model":"m-7","choices":[{"index":0,"finish_reason":"stop",
            "message":{"role":"assistant","content":text}}],
            "usage":{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}),
        Protocol::OpenAiResponses => json!({"id":"a1","model":"m-7","status":"completed","error":null,
            "output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":text}]}],
            "usage":{"input_tokens":10,"output_tokens":3,"input_tokens_details":{"cached_tokens":4}}}),
        Protocol::Anthropic => {
            json!({"id":"a1","model":"m-7","type":"message","role":"assistant","stop_reason":"end_turn",
            "content":[{"type":"text","text":text}],
            "usage":{"input_tokens":6,"cache_read_input_tokens":4,"output_tokens":3}})
        }
    }
}

fn usage() -> Usage {
    Usage { input_tokens: Tokens(6), cached_tokens: Tokens(4), output_tokens: Tokens(3), ..Usage::default() }
}

#[test]
fn a_stream_and_a_whole_answer_of_the_same_text_are_the_same_answer() {
    for protocol in Protocol::ALL {
        let (streamed, told) = stream(protocol, &text_stream(protocol, &["Hel", "lo \"you\""]));
        let streamed = streamed.unwrap();
        assert_eq!(told, ["text Hel", "text lo \"you\""], "{protocol}");
        assert_eq!(streamed.item.parts, [Part::text("Hello \"you\"")], "{protocol}");
        assert_eq!(streamed.usage, Some(usage()), "{protocol}");
        assert_eq!(streamed.finish, Some(FinishReason::Stop), "{protocol}");
        assert_eq!(streamed.model.as_deref(), Some("m-7"), "{protocol}");
        let body = whole(protocol, "Hello \"you\"").to_string();
        assert_eq!(read_answer(protocol, body.as_bytes()).unwrap(), streamed, "{protocol}");
    }
}

#[test]
fn calls_of_a_chat_come_in_pieces_with_or_without_index_and_id() {
    let delta = |calls: Value| json!({"choices":[{"index":0,"delta":{"tool_calls":calls}}]});
    let end = json!({"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]});
    let values = [
        json!({"id":"a1","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}),
        json!({"choices":[{"index":1,"delta":{"content":"another choice"}}]}),
        delta(json!([{"index":0,"id":"c1","function":{"name":"ls","arguments":""}}])),
        delta(
            json!([{"index":0,"function":{"arguments":"{\"a\""}},{"index":1,"id":"","function":{"name":"pwd"}}]),
        ),
        delta(json!([{"index":0,"function":{"arguments":": 1}"}}])),
        delta(json!([{"id":"c3","function":{"name":"cut","arguments":"{\"b\""}}])),
        end,
    ];
    let (answer, told) = stream(Protocol::OpenAiChat, &events(&values));
    let answer = answer.unwrap();
    assert_eq!(told, ["reasoning hm", "call ls", "call pwd", "call cut"]);
    assert_eq!(answer.finish, Some(FinishReason::ToolCalls));
    assert_eq!(answer.item.parts[0], Part::reasoning("hm"));
    let calls: Vec<(&str, &str, &str)> =
        answer.item.calls().map(|(_, call)| (&*call.id, &*call.name, call.input.as_str())).collect();
    assert_eq!(calls, [("c1", "ls", "{\"a\": 1}"), ("a1-call-1", "pwd", "{}"), ("c3", "cut", "{\"b\"")]);
    let (_, last) = answer.item.calls().last().unwrap();
    assert!(matches!(last.input, ToolInput::Text(_)), "arguments that end in the middle are text");
}

#[test]
fn thinking_of_a_chat_is_read_under_either_name_and_once() {
    for message in [
        json!({"role":"assistant","content":"so","reasoning":"hm"}),
        json!({"role":"assistant","content":"so","reasoning":"hm","reasoning_content":"hm"}),
    ] {
        let body = json!({"choices":[{"message":message,"finish_reason":"stop"}]}).to_string();
        let answer = read_answer(Protocol::OpenAiChat, body.as_bytes()).unwrap();
        assert_eq!(answer.item.parts, [Part::reasoning("hm"), Part::text("so")]);
        assert_eq!(answer.item.id.as_str(), "answer");
        let chunk = json!({"choices":[{"delta":message,"finish_reason":"stop"}]});
        assert_eq!(stream(Protocol::OpenAiChat, &events(&[chunk])).0.unwrap().item.parts, answer.item.parts);
    }
}

#[test]
fn thinking_that_must_come_back_is_kept_with_its_seal() {
    let block =
        |index: u64, block: Value| json!({"type":"content_block_start","index":index,"content_block":block});
    let delta = |index: u64, delta: Value| json!({"type":"content_block_delta","index":index,"delta":delta});
    let values = [
        json!({"type":"message_start","message":{"id":"m","usage":{"input_tokens":1,"cache_creation_input_tokens":9}}}),
        block(0, json!({"type":"thinking","thinking":"","signature":""})),
        delta(0, json!({"type":"thinking_delta","thinking":"let me "})),
        delta(0, json!({"type":"thinking_delta","thinking":"see"})),
        delta(0, json!({"type":"signature_delta","signature":"c2ln"})),
        block(1, json!({"type":"redacted_thinking","data":"b3BhcXVl"})),
        block(2, json!({"type":"tool_use","id":"t1","name":"ls","input":{}})),
        delta(2, json!({"type":"input_json_delta","partial_json":"{\"path\":"})),
        delta(2, json!({"type":"input_json_delta","partial_json":" \"/\"}"})),
        block(3, json!({"type":"tool_use","id":"t2","name":"pwd","input":{}})),
        block(4, json!({"type":"web_search_tool_result","tool_use_id":"s","content":[]})),
        json!({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}),
        json!({"type":"message_stop"}),
    ];
    let (answer, told) = stream(Protocol::Anthropic, &events(&values));
    let answer = answer.unwrap();
    assert_eq!(told, ["reasoning let me ", "reasoning see", "call ls", "call pwd"]);
    let thinking =
        Reasoning { text: "let me see".into(), signature: Some("c2ln".into()), ..Reasoning::default() };
    assert_eq!(answer.item.parts[0], Part::Reasoning(thinking));
    let hidden = Reasoning { encrypted: Some("b3BhcXVl".into()), ..Reasoning::default() };
    assert_eq!(answer.item.parts[1], Part::Reasoning(hidden));
    let inputs: Vec<&str> = answer.item.calls().map(|(_, call)| call.input.as_str()).collect();
    assert_eq!(inputs, ["{\"path\": \"/\"}", "{}"]);
    assert!(matches!(&answer.item.parts[4], Part::Opaque(_)), "what is not understood is passed through");
    let usage = answer.usage.unwrap();
    assert_eq!((usage.cache_write_tokens, usage.output_tokens), (Tokens(9), Tokens(7)));
}

#[test]
fn output_items_of_responses_are_one_answer_even_where_the_end_does_not_repeat_them() {
    let reasoning = json!({"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"enc"});
    let call = json!({"type":"function_call","id":"fc_1","call_id":"c1","name":"ls","arguments":"{\"a\":1}"});
    let end = |output: Value| {
        json!({"type":"response.completed","response":{"id":"r","status":"completed","output":output,
            "usage":{"input_tokens":5,"output_tokens":9,"output_tokens_details":{"reasoning_tokens":8}}}})
    };
    let begin = [
        json!({"type":"response.reasoning_summary_text.delta","delta":"hm"}),
        json!({"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"ls"}}),
        json!({"type":"response.output_item.done","output_index":1,"item":call}),
        json!({"type":"response.output_item.done","output_index":0,"item":reasoning}),
    ];
    for last in [end(json!([])), end(json!([reasoning, call]))] {
        let mut values = begin.to_vec();
        values.push(last);
        let (answer, told) = stream(Protocol::OpenAiResponses, &events(&values));
        let answer = answer.unwrap();
        assert_eq!(told, ["reasoning hm", "call ls"]);
        let Part::Reasoning(thinking) = &answer.item.parts[0] else { panic!("{:?}", answer.item) };
        assert_eq!((thinking.encrypted.as_deref(), thinking.id.as_deref()), (Some("enc"), Some("rs_1")));
        assert_eq!(answer.item.calls().count(), 1);
        assert_eq!(answer.finish, Some(FinishReason::ToolCalls));
        assert_eq!(answer.usage.unwrap().reasoning_tokens, Tokens(8));
    }
}

#[test]
fn an_answer_at_its_limit_says_so() {
    let chat = json!({"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"length"}]});
    let responses =
        json!({"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]});
    let messages = json!({"content":[{"type":"text","text":"x"}],"stop_reason":"max_tokens"});
    for (protocol, body) in Protocol::ALL.into_iter().zip([chat, responses, messages]) {
        let answer = read_answer(protocol, body.to_string().as_bytes()).unwrap();
        assert_eq!(answer.finish, Some(FinishReason::Length), "{protocol}");
    }
}

#[test]
fn a_stream_that_ends_too_early_is_no_answer_wherever_it_ends() {
    for protocol in Protocol::ALL {
        let all = text_stream(protocol, &["one", "two"]);
        let last = all.iter().position(|event| event.contains("stop\"") || event.contains("end_turn"));
        let last = last.unwrap_or(all.len() - 1);
        for count in 0..last {
            let (answer, _) = stream(protocol, &all[..count]);
            assert!(
                matches!(answer, Err(AnswerError::Malformed { .. })),
                "{protocol} after {count}: {answer:?}"
            );
        }
    }
}

#[test]
fn errors_within_a_stream_are_told_by_their_name() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#;
    let limited = r#"{"type":"error","code":"rate_limit_exceeded","message":"slow down"}"#;
    let routed = r#"{"error":{"code":502,"message":"upstream went away"}}"#;
    let cases = [
        (Protocol::Anthropic, overloaded, Refusal::Server { status: 529, retry_after: None }),
        (Protocol::OpenAiResponses, failed, Refusal::Overflow { limit: None }),
        (Protocol::OpenAiResponses, limited, Refusal::RateLimited { retry_after: None }),
        (Protocol::OpenAiChat, routed, Refusal::Server { status: 502, retry_after: None }),
    ];
    for (protocol, event, refusal) in cases {
        assert_eq!(stream(protocol, &[event.to_owned()]).0, Err(AnswerError::Refused(refusal)), "{event}");
    }
    let whole = read_answer(Protocol::OpenAiChat, routed.as_bytes());
    assert_eq!(whole, Err(AnswerError::Refused(Refusal::Server { status: 502, retry_after: None })));
}

#[test]
fn a_model_that_speaks_of_errors_has_not_failed() {
    for protocol in Protocol::ALL {
        let text = "the \"error\": {\"type\":\"overloaded_error\"} is in line 3";
        let (answer, _) = stream(protocol, &text_stream(protocol, &[text]));
        assert_eq!(answer.unwrap().item.parts, [Part::text(text)], "{protocol}");
        let body = whole(protocol, text).to_string();
        assert_eq!(read_answer(protocol, body.as_bytes()).unwrap().item.parts, [Part::text(text)]);
    }
}

/// A piece of an event that is more or less what servers send.
fn noise() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "error",
        "response.completed",
        "response.output_item.done",
        "response.failed",
        "function_call",
        "reasoning",
    ]);
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("7".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("\"x\"".to_owned()),
        Just("[{}]".to_owned()),
        Just("[{\"index\":0,\"delta\":{},\"id\":\"\"}]".to_owned()),
        Just("{\"type\":\"tool_use\",\"input\":3}".to_owned()),
        Just("{\"type\":\"text\",\"text\":\"\"}".to_owned()),
        Just("{\"partial_json\":\"{\"}".to_owned()),
        Just("{\"output\":[{\"type\":\"x_output\",\"call_id\":\"c\"}]}".to_owned()),
    ];
    let name = prop::sample::select(vec![
        "choices",
        "delta",
        "usage",
        "id",
        "error",
        "message",
        "content_block",
        "index",
        "item",
        "response",
        "output",
    ]);
    (known, prop::collection::vec((name, value), 0..5)).prop_map(|(kind, fields)| {
        let fields: String = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
        format!("{{\"type\":\"{kind}\"{fields}}}")
    })
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    #[test]
    fn text_in_any_pieces_is_the_same_answer(pieces in prop::collection::vec(".{0,6}", 0..8)) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let all = pieces.concat();
        for protocol in Protocol::ALL {
            let (answer, told) = stream(protocol, &text_stream(protocol, &pieces));
            let once = stream(protocol, &text_stream(protocol, &[&all])).0;
            prop_assert_eq!(&answer, &once);
            let told: String = told.iter().filter_map(|delta| delta.strip_prefix("text ")).collect();
            prop_assert_eq!(&told, &all);
            let parts = answer.expect("the stream is complete").item.parts;
            let expected: Vec<Part> = if all.is_empty() { Vec::new() } else { vec![Part::text(all.as_str())] };
            prop_assert_eq!(parts, expected);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), status in any::<u16>()) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for protocol in Protocol::ALL {
            let _ = stream(protocol, std::slice::from_ref(&text));
            prop_assert!(read_answer(protocol, &bytes).is_err());
        }
        let reply = Reply { status, retry_after: Some(&text), retry_after_ms: Some(&text), now: Timestamp(0), body: &bytes };
        let _ = classify(&reply);
    }

    #[test]
    fn no_events_make_a_reader_panic(events in prop::collection::vec(noise(), 0..12)) {
        for protocol in Protocol::ALL {
            let _ = stream(protocol, &events);
            for event in &events {
                let _ = read_answer(protocol, event.as_bytes());
                let reply = Reply { status: 400, retry_after: None, retry_after_ms: None, now: Timestamp(0), body: event.as_bytes() };
                let _ = classify(&reply);
            }
        }
    }
}
