//! A model as the engine's backend: [`ModelBackend`].

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{Item, ItemKind, Metadata, Model, Part, Prices, Tokens, check_request};
use foldback_engine::{BackendError, CompactionBackend, SummaryRequest, SummaryResult, SummaryStage};
use foldback_formats::answer::{Caching, ToolSpec};
use tokio_util::sync::CancellationToken;

use crate::client::ModelClient;
use crate::prompt;
use crate::request::{ModelAnswer, ModelRequest};

/// How far an answer may run past what was asked for before it is cut: one that ends is longer than
/// it should be, one that is cut is worth nothing.
const OUTPUT_PERCENT: u64 = 125;

/// What models that think before they write may spend on it.
const THINKING_TOKENS: Tokens = Tokens(8_192);

/// Bytes of a tool's schema that a token holds, at least.
const TOOL_BYTES_PER_TOKEN: u64 = 3;

/// Servers on which models have the windows that their makers name. Elsewhere, whoever started the
/// server chose one.
const OF_PROVIDERS: [&str; 3] = ["api.anthropic.com", "api.openai.com", "openrouter.ai"];

/// Around the thinking that some models write into their answer.
const THINK: (&str, &str) = ("<think>", "</think>");

/// Summaries from a model.
///
/// One call to [`summarize`](CompactionBackend::summarize) is one request: the engine fits the
/// items, retries, judges and falls back.
#[derive(Clone, Debug)]
pub struct ModelBackend {
    client: ModelClient,
    window: Option<Tokens>,
    prices: Option<&'static Prices>,
    thinking: Tokens,
    asks: Asks,
    tools: Vec<ToolSpec>,
}

/// How the conversation is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// As a quotation.
    Quoting,
    /// As itself, where its prefix is given.
    BehindPrefix,
}

impl ModelBackend {
    /// A backend over a client. Window and prices are known where the model is and the server is
    /// its provider's.
    pub fn new(client: ModelClient) -> Self {
        let is_providers = OF_PROVIDERS.contains(&client.host());
        let model = Model::named(client.model());
        let thinks = model.is_some_and(|model| model.thinks);
        Self {
            window: model.filter(|_| is_providers).map(|model| model.window),
            prices: Prices::of_model(client.model()).filter(|_| is_providers),
            thinking: if thinks { THINKING_TOKENS } else { Tokens::ZERO },
            asks: Asks::Quoting,
            tools: Vec::new(),
            client,
        }
    }

    /// The same, for a model that reads and writes so much together.
    #[must_use]
    pub fn window(mut self, window: Tokens) -> Self {
        self.window = Some(window);
        self
    }

    /// The same, at these prices.
    #[must_use]
    pub fn prices(mut self, prices: &'static Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// The same, for a model that may spend so much on thinking before it writes. Known families
    /// that think have a default.
    #[must_use]
    pub fn thinking(mut self, tokens: Tokens) -> Self {
        self.thinking = tokens;
        self
    }

    /// The same, for the model that holds the conversation itself: where a request has the
    /// conversation's prefix, it is sent as it was, with the instruction behind it, and most of it
    /// is read from the provider's cache.
    ///
    /// Caches begin with the tools, so give [those](Self::tools) of the conversation, too.
    #[must_use]
    pub fn rides_on_prefix(mut self) -> Self {
        self.asks = Asks::BehindPrefix;
        self
    }

    /// The same, with the tools that the conversation was given. Only used on its prefix.
    #[must_use]
    pub fn tools(mut self, tools: Vec<ToolSpec>) -> Self {
        self.tools = tools;
        self
    }

    /// The conversation itself and the instruction behind it, if that is what was asked for and the
    /// provider would take it.
    fn ridden(&self, request: &SummaryRequest) -> Option<Vec<Arc<Item>>> {
        let is_whole = self.asks == Asks::BehindPrefix && request.stage == SummaryStage::Whole;
        let mut items = request.prefix.clone().filter(|prefix| is_whole && !prefix.is_empty())?;
        let newest = items.iter().rposition(|item| !item.parts.is_empty())?;
        if !items.iter().any(|item| item.cache_marker) {
            Arc::make_mut(&mut items[newest]).cache_marker = true;
        }
        items.push(prompt::behind_conversation(request));
        check_request(&items, Some(self.client.protocol().dialect())).is_empty().then_some(items)
    }

    fn output_max(&self, request: &SummaryRequest) -> Option<Tokens> {
        let Tokens(asked) = request.tokens_max?;
        Some(Tokens(asked.saturating_mul(OUTPUT_PERCENT) / 100) + self.thinking)
    }
}

#[async_trait]
impl CompactionBackend for ModelBackend {
    async fn summarize(
        &self,
        request: SummaryRequest,
        cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let ridden = self.ridden(&request);
        let tools = if ridden.is_some() { &self.tools[..] } else { &[] };
        let items = ridden.unwrap_or_else(|| prompt::quoted(&request));
        let asked = ModelRequest {
            items: &items,
            tools,
            tokens_max: self.output_max(&request),
            // A quotation is sent once: writing it to the cache would only cost.
            caching: Caching::AsGiven,
        };
        let answer = self.client.ask(&asked, &mut |_| {}, &cancellation).await?;
        Ok(self.result_of(&answer))
    }

    fn name(&self) -> &str {
        self.client.name()
    }

    fn window(&self) -> Option<Tokens> {
        self.window
    }

    fn prompt_tokens(&self) -> Tokens {
        let tools: usize = self.tools.iter().map(tool_bytes).sum();
        let tools = u64::try_from(tools).unwrap_or(u64::MAX) / TOOL_BYTES_PER_TOKEN;
        prompt::prompt_tokens(self.window) + self.thinking + Tokens(tools)
    }

    fn prices(&self) -> Option<&'static Prices> {
        self.prices
    }
}

impl ModelBackend {
    fn result_of(&self, answer: &ModelAnswer) -> SummaryResult {
        let text = answer_text(answer);
        let items = match text.is_empty() {
            true => Vec::new(),
            false => vec![Item::text(answer.item.id.as_str(), ItemKind::Context, text)],
        };
        let mut metadata = Metadata::new();
        metadata.insert("model".to_owned(), self.client.name().into());
        SummaryResult { items, metadata, usage: answer.usage, finish: answer.finish }
    }
}

fn tool_bytes(tool: &ToolSpec) -> usize {
    let ToolSpec { name, description, input_schema } = tool;
    name.len() + description.len() + input_schema.to_string().len()
}

/// What an answer says, without the thinking that some models write at its beginning.
pub fn answer_text(answer: &ModelAnswer) -> String {
    let texts: Vec<&str> = answer.item.parts.iter().filter_map(text_in).collect();
    without_thinking(&texts.join("\n")).trim().to_owned()
}

/// What a part says. Calls are no part of a summary, and their results are not ours.
fn text_in(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Structured(json) => Some(json.as_str()),
        Part::Reasoning(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Opaque(_) => None,
    }
}

/// The answer behind the thinking at its beginning. Thinking without an end is all there is.
fn without_thinking(text: &str) -> &str {
    let (open, close) = THINK;
    match text.trim_start().strip_prefix(open) {
        Some(thinking) => thinking.split_once(close).map_or("", |(_, answer)| answer),
        None => text,
    }
}

#[cfg(test)]
mod tests;
