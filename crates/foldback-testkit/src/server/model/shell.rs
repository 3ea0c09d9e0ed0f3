//! The shell tool among those that an agent offers, and how it wants to be called.

use serde_json::{Map, Value, json};

use super::super::Spoken;

/// What agents call it, in lower case.
const NAMES: [&str; 2] = ["bash", "shell"];

/// What the command is called among its parameters.
const COMMAND_NAMES: [&str; 2] = ["command", "cmd"];

#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub(super) name: String,
    schema: &'a Value,
}

/// The shell tool that a request offers.
pub(super) fn tool(spoken: Spoken, body: &Value) -> Option<Tool<'_>> {
    let tools = body["tools"].as_array()?.iter().map(|tool| match spoken {
        Spoken::Messages => (&tool["name"], &tool["input_schema"]),
        Spoken::Chat => (&tool["function"]["name"], &tool["function"]["parameters"]),
        Spoken::Responses => (&tool["name"], &tool["parameters"]),
    });
    let mut named = tools.filter_map(|(name, schema)| Some(Tool { name: name.as_str()?.to_owned(), schema }));
    named.find(|tool| NAMES.contains(&tool.name.to_lowercase().as_str()))
}

impl Tool<'_> {
    /// The command, and a text for whatever else the tool insists on.
    pub(super) fn input(&self, command: &str) -> Value {
        let properties = &self.schema["properties"];
        let field = COMMAND_NAMES
            .iter()
            .find(|name| properties.get(name).is_some())
            .expect("a command is a parameter");
        let required = self.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut input: Map<String, Value> =
            required.map(|name| (name.to_owned(), json!("a step of the work"))).collect();
        let is_list = properties[field]["type"] == json!("array");
        let command = if is_list { json!(["bash", "-c", command]) } else { json!(command) };
        input.insert((*field).to_owned(), command);
        Value::Object(input)
    }
}
