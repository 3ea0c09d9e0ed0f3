//! What is known of a model before it is asked.

use super::*;
use crate::{Endpoint, Protocol};
use foldback_core::CompactionReason;

fn backend(base: &str, model: &str) -> ModelBackend {
    ModelBackend::new(ModelClient::new(Endpoint::new(base).unwrap(), Protocol::OpenAiChat, model).unwrap())
}

#[test]
fn the_window_of_a_model_is_only_known_on_its_providers_server() {
    let local = backend("http://127.0.0.1:8080", "gpt-4o");
    assert_eq!((local.window, local.prices), (None, None));
    let told = local.window(Tokens(4_096));
    assert_eq!(CompactionBackend::window(&told), Some(Tokens(4_096)));
}

#[test]
fn models_that_think_get_room_for_it() {
    let request = SummaryRequest {
        tokens_max: Some(Tokens(400)),
        ..SummaryRequest::new("s", Vec::<Item>::new(), CompactionReason::Manual)
    };
    assert_eq!(backend("http://h", "llama-3").output_max(&request), Some(Tokens(500)));
    assert_eq!(backend("http://h", "openai/gpt-5-mini").output_max(&request), Some(Tokens(8_692)));
    assert_eq!(backend("http://h", "qwen3").thinking(Tokens(7)).output_max(&request), Some(Tokens(507)));
    let endless = SummaryRequest { tokens_max: Some(Tokens(u64::MAX)), ..request.clone() };
    assert!(backend("http://h", "x").output_max(&endless).is_some());
    assert_eq!(backend("http://h", "x").output_max(&SummaryRequest { tokens_max: None, ..request }), None);
}

#[test]
fn thinking_is_taken_off_only_at_the_beginning() {
    assert_eq!(without_thinking("a <think>b</think>"), "a <think>b</think>");
    assert_eq!(without_thinking("\n<think>b</think>c"), "c");
    assert_eq!(without_thinking("<think>b"), "");
}
