//! [`RecallTool`]: the tool by which a rig agent reads what was folded.

use std::sync::Arc;

use foldback::agent::{RECALL_TOOL_NAME, RecallTool as Recalling, Tool as _, ToolError};
use foldback::engine::messages::MessageCompactor;
use foldback::{SessionId, View};
use rig_core::id::ConversationId;
use rig_core::memory::ConversationMemory;
use rig_core::tool::PortableTool;
use serde_json::Value;

use crate::FoldbackMemory;
use crate::memory::session;
use crate::messages::Told;

/// Answers with what a compaction has hidden from the agent: by the handle that a summary or a shortened
/// result names, or by words. Keys, tokens and passwords in it are replaced.
///
/// rig does not tell a tool which conversation calls it, so there is one for each conversation.
#[derive(Clone, Debug)]
pub struct RecallTool {
    compactor: Arc<MessageCompactor<Told>>,
    session_id: SessionId,
    recalling: Recalling,
}

impl RecallTool {
    /// Reads the record that this memory has of a conversation.
    pub fn new<S: ConversationMemory>(
        memory: &FoldbackMemory<S>,
        conversation_id: impl Into<ConversationId>,
    ) -> Self {
        Self {
            compactor: Arc::clone(memory.compactor()),
            session_id: session(&conversation_id.into()),
            recalling: Recalling::new(),
        }
    }
}

impl PortableTool for RecallTool {
    const NAME: &'static str = RECALL_TOOL_NAME;
    type Args = Value;
    type Output = String;
    type Error = ToolError;

    fn description(&self) -> String {
        self.recalling.description().to_owned()
    }

    fn parameters(&self) -> Value {
        self.recalling.input_schema()
    }

    async fn call(&self, input: Value) -> Result<String, ToolError> {
        let nothing = || View::from(Vec::<foldback::Item>::new());
        let view = self.compactor.view(&self.session_id).unwrap_or_else(nothing);
        self.recalling.answer(&view, None, &input).await
    }
}
