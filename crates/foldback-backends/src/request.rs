//! What a model is asked and what it answers, whoever carries it there and back.

use std::sync::Arc;

use foldback_core::{Item, Tokens};
use foldback_formats::answer::{Answer, Caching, ToolSpec};

/// What is asked of a model.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ModelRequest<'a> {
    /// The conversation, valid for the protocol's dialect.
    pub items: &'a [Arc<Item>],
    /// What the model may call.
    pub tools: &'a [ToolSpec],
    /// What the answer may cost, thinking included. Without it the server decides.
    pub tokens_max: Option<Tokens>,
    /// Where prompt-cache breakpoints stand, for providers that want to be told.
    pub caching: Caching,
}

impl<'a> ModelRequest<'a> {
    /// A request without tools, with the server's limit.
    pub fn new(items: &'a [Arc<Item>]) -> Self {
        Self { items, tools: &[], tokens_max: None, caching: Caching::default() }
    }

    /// The same, with tools.
    #[must_use]
    pub fn tools(mut self, tools: &'a [ToolSpec]) -> Self {
        self.tools = tools;
        self
    }

    /// The same, with a limit.
    #[must_use]
    pub fn tokens_max(mut self, tokens_max: Option<Tokens>) -> Self {
        self.tokens_max = tokens_max;
        self
    }
}

/// What a model answered: the item is an assistant's, named by the server's id for the answer. Servers
/// may give one id twice or none at all; hosts that need unique ids give their own.
pub type ModelAnswer = Answer;
