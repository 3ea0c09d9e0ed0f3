//! [`RecallTool`]: the tool by which an agentkit agent reads what was folded.

use agentkit_core::{ToolOutput, ToolResultPart};
use agentkit_tools_core::{Tool, ToolAnnotations, ToolContext, ToolError, ToolRequest, ToolResult, ToolSpec};
use async_trait::async_trait;
use foldback::agent::{RecallTool as Recalling, Tool as _};

use crate::FoldbackMutator;

/// Answers with what a compaction has hidden from the agent: by the handle that a summary or a shortened
/// result names, or by words. Keys, tokens and passwords in it are replaced.
#[derive(Clone, Debug)]
pub struct RecallTool {
    mutator: FoldbackMutator,
    recalling: Recalling,
    spec: ToolSpec,
}

impl RecallTool {
    /// Reads the record of this mutator, for the session that calls the tool.
    pub fn new(mutator: &FoldbackMutator) -> Self {
        let recalling = Recalling::new();
        let spec = ToolSpec::new(recalling.name(), recalling.description(), recalling.input_schema())
            .with_annotations(ToolAnnotations::read_only());
        Self { mutator: mutator.clone(), recalling, spec }
    }
}

#[async_trait]
impl Tool for RecallTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn invoke(
        &self,
        request: ToolRequest,
        _context: &mut ToolContext<'_>,
    ) -> Result<ToolResult, ToolError> {
        let view = self
            .mutator
            .view(&request.session_id)
            .unwrap_or_else(|| foldback::View::from(Vec::<foldback::Item>::new()));
        let result = match self.recalling.answer(&view, None, &request.input).await {
            Ok(text) => ToolResultPart::success(request.call_id, ToolOutput::text(text)),
            Err(error) => ToolResultPart::error(request.call_id, ToolOutput::text(error.to_string())),
        };
        Ok(ToolResult::new(result))
    }
}
