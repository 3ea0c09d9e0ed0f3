//! The tool of the agents in these tests: `shell`, which is a function.

use std::fmt;

use async_trait::async_trait;
use foldback_loop::{Tool, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};

type Does = dyn Fn(&Value) -> Result<String, String> + Send + Sync;

pub(crate) struct Shell(Box<Does>);

impl Shell {
    /// Does something with a command.
    pub(crate) fn new(does: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self::of_input(move |input| does(input["command"].as_str().unwrap_or_default()))
    }

    /// Does something with all that it is given.
    pub(crate) fn of_input(does: impl Fn(&Value) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Box::new(does))
    }

    /// Always answers the same.
    pub(crate) fn saying(output: impl Into<String>) -> Self {
        let output = output.into();
        Self::new(move |_| Ok(output.clone()))
    }
}

impl fmt::Debug for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shell")
    }
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn description(&self) -> &str {
        "Runs a command and returns what it printed."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"command": {"type": "string"}, "round": {"type": "integer"}}})
    }

    async fn call(&self, input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        (self.0)(&input).map(ToolOutput::from).map_err(ToolError::new)
    }
}
