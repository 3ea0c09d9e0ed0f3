//! `foldback hook recall`: what an agent asks of its own folded past.

use foldback_loop::RecallTool;
use serde::Serialize;
use serde_json::json;

use super::VERSION;
use super::messages::contents;
use super::request::RecallRequest;
use crate::args::{Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::scene::Scene;
use crate::store;

#[derive(Serialize)]
struct RecallAnswer {
    version: u32,
    result: &'static str,
    /// What was found, without secrets; where nothing was found, it says so.
    text: String,
}

pub(crate) fn run(shared: &Shared) -> Result<Exit, Failure> {
    super::answered(|request: RecallRequest| {
        let contents = contents(shared, request.which())?;
        let conversation = contents.conversation()?;
        let view = Scene::estimated(conversation, contents.dialect()).view(Extent::View);
        let input = json!({"handle": request.handle, "query": request.query, "offset": request.offset});
        let answered = store::block_on(async { Ok(RecallTool::new().answer(&view, None, &input).await) })?;
        // What cannot be found is an answer for the model, which may ask otherwise.
        let text = answered.unwrap_or_else(|error| error.to_string());
        Ok(RecallAnswer { version: VERSION, result: "answered", text })
    })
}
