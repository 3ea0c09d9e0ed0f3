//! The memory as rig's runtimes use it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test says where")]

use std::sync::Arc;

use async_trait::async_trait;
use foldback::engine::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, Compactor, DigestBackend,
    StrategyCompactor,
};
use foldback::{
    CompactionReason, Dialect, EstimatingCounter, Handle, Policy, Precision, Room, SessionId,
    SummarizeOlderStrategy, TokenCounter, Tokens, TriggerContext, TurnId, View,
};
use foldback_rig::{FoldbackMemory, RecallTool};
use rig_core::completion::Message;
use rig_core::id::ConversationId;
use rig_core::memory::{ConversationMemory, InMemoryConversationMemory, MemoryError};
use rig_core::message::UserContent;
use rig_core::test_utils::FailingMemory;
use rig_core::tool::PortableTool;
use serde_json::json;

fn chat() -> ConversationId {
    "chat".into()
}

/// A compactor that summarises what is older than four items, when there are more than ten.
fn summarizing() -> StrategyCompactor {
    let compactor = StrategyCompactor::builder().item_count_trigger(10);
    compactor.strategy(SummarizeOlderStrategy::new(4)).backend(DigestBackend).build().unwrap()
}

fn exchange(number: usize) -> Vec<Message> {
    let question = format!("What does module {number} do? {}", "Be thorough. ".repeat(20));
    vec![
        Message::user(question),
        Message::assistant(format!("Module {number} parses. {}", "It reads. ".repeat(20))),
    ]
}

async fn filled<S: ConversationMemory>(memory: &FoldbackMemory<S>, exchange_count: usize) -> Vec<Message> {
    for number in 0..exchange_count {
        memory.append(&chat(), exchange(number)).await.unwrap();
    }
    (0..exchange_count).flat_map(exchange).collect()
}

fn text(message: &Message) -> &str {
    match message {
        Message::User { content } => match &content[..] {
            [UserContent::Text(text)] => text.text(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn handle(message: &Message) -> Handle {
    foldback::engine::recall::handles_in(text(message)).remove(0)
}

#[tokio::test]
async fn a_short_conversation_is_loaded_as_it_is_stored() {
    let memory = FoldbackMemory::new(InMemoryConversationMemory::new(), summarizing());
    assert!(memory.load(&chat()).await.unwrap().is_empty());
    let said = filled(&memory, 5).await;
    assert_eq!(memory.load(&chat()).await.unwrap(), said);
    assert_eq!(memory.store().load(&chat()).await.unwrap(), said);
}

#[tokio::test]
async fn a_long_conversation_is_loaded_with_a_summary_and_stored_whole() {
    let memory = FoldbackMemory::new(InMemoryConversationMemory::new(), summarizing());
    let said = filled(&memory, 8).await;
    let loaded = memory.load(&chat()).await.unwrap();
    assert_eq!(loaded[1..], said[12..]);
    assert!(text(&loaded[0]).contains("What does module 0 do?"), "the user's words are in the summary");
    assert_eq!(memory.load(&chat()).await.unwrap(), loaded, "a second load changes nothing");
    memory.append(&chat(), exchange(8)).await.unwrap();
    assert_eq!(memory.load(&chat()).await.unwrap(), [loaded, exchange(8)].concat());
    assert_eq!(memory.store().load(&chat()).await.unwrap(), [said, exchange(8)].concat());
}

#[tokio::test]
async fn what_was_folded_is_recalled_by_its_handle() {
    let memory = FoldbackMemory::new(InMemoryConversationMemory::new(), summarizing());
    let said = filled(&memory, 8).await;
    let handle = handle(&memory.load(&chat()).await.unwrap()[0]);
    assert_eq!(memory.recall(&chat(), &handle).unwrap(), said[..12]);
    let tool = RecallTool::new(&memory, chat());
    let answer = tool.call(json!({"handle": handle.as_str()})).await.unwrap();
    assert!(answer.contains("What does module 0 do?"), "{answer}");
    let error = tool.call(json!({"handle": "@0000000000"})).await.unwrap_err();
    assert!(error.to_string().contains("nothing behind"), "{error}");
    let other = RecallTool::new(&memory, "another").call(json!({"handle": handle.as_str()})).await;
    assert!(other.is_err(), "a conversation is not told of another one");
}

/// T6: the store is all that another process needs.
#[tokio::test]
async fn another_process_loads_the_same() {
    let store = InMemoryConversationMemory::new();
    let memory = FoldbackMemory::new(store.clone(), summarizing());
    filled(&memory, 8).await;
    let loaded = memory.load(&chat()).await.unwrap();
    assert_eq!(FoldbackMemory::new(store, summarizing()).load(&chat()).await.unwrap(), loaded);
}

#[tokio::test]
async fn a_conversation_that_was_cleared_is_forgotten() {
    let memory = FoldbackMemory::new(InMemoryConversationMemory::new(), summarizing());
    filled(&memory, 8).await;
    let handle = handle(&memory.load(&chat()).await.unwrap()[0]);
    memory.clear(&chat()).await.unwrap();
    assert!(memory.load(&chat()).await.unwrap().is_empty());
    assert_eq!(memory.recall(&chat(), &handle), None);
}

#[derive(Debug)]
struct Failing;

#[async_trait]
impl Compactor for Failing {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        _context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        Some(CompactionReason::Manual)
    }

    async fn compact(
        &self,
        _request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        Err(CompactionError::Failed("the disk is full".to_owned()))
    }
}

#[tokio::test]
async fn a_compaction_that_fails_loads_the_history_as_it_was() {
    let memory = FoldbackMemory::new(InMemoryConversationMemory::new(), Failing);
    let said = filled(&memory, 8).await;
    assert_eq!(memory.load(&chat()).await.unwrap(), said);
}

#[tokio::test]
async fn a_store_that_fails_is_heard() {
    let memory = FoldbackMemory::new(FailingMemory::default(), summarizing());
    assert!(matches!(memory.load(&chat()).await, Err(MemoryError::Backend(_))));
}

/// Every byte is a token.
#[derive(Debug)]
struct Bytes;

impl TokenCounter for Bytes {
    fn name(&self) -> &str {
        "bytes"
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens(text.len() as u64)
    }

    fn precision(&self) -> Precision {
        Precision::Exact
    }
}

#[tokio::test]
async fn a_conversation_is_counted_as_the_host_counts() {
    for (counter, is_compacted) in
        [(Arc::new(Bytes) as Arc<dyn TokenCounter>, true), (Arc::new(EstimatingCounter), false)]
    {
        let policy = Policy::named("ladder").unwrap();
        let room = Room::new(Tokens(4_000));
        let compactor = StrategyCompactor::builder().policy(&policy, room).build();
        let (store, dialect) = (InMemoryConversationMemory::new(), Some(Dialect::Anthropic));
        let memory = FoldbackMemory::counting(store, compactor.unwrap(), counter, dialect);
        let said = filled(&memory, 8).await;
        assert_eq!(memory.load(&chat()).await.unwrap() != said, is_compacted);
    }
}
