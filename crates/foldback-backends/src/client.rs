//! Asks one model on one server: [`ModelClient`].

mod events;
mod exchange;
mod telemetry;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldback_core::Text;
use foldback_engine::BackendError;
use foldback_formats::answer::{Asked, Delivery, OnDelta, Protocol, request_body};
use reqwest::header::HeaderMap;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use url::Url;

use crate::endpoint::{Endpoint, EndpointError, Key};
use crate::request::{ModelAnswer, ModelRequest};

/// Asks one model on one server. Clones share connections.
#[derive(Clone)]
pub struct ModelClient(Arc<Line>);

/// The line to a server.
#[derive(Clone)]
struct Line {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    /// What no error may repeat.
    secrets: Vec<Key>,
    idle_timeout: Duration,
    endpoint: Endpoint,
    protocol: Protocol,
    model: Text,
    name: String,
    delivery: Delivery,
}

impl ModelClient {
    /// A client for a model. Nothing is sent yet.
    pub fn new(
        endpoint: Endpoint,
        protocol: Protocol,
        model: impl Into<Text>,
    ) -> Result<Self, EndpointError> {
        let model = model.into();
        Ok(Self(Arc::new(Line {
            http: endpoint.connect()?,
            url: endpoint.url_for(protocol),
            headers: endpoint.headers_for(protocol)?,
            secrets: endpoint.secrets(),
            idle_timeout: endpoint.idle(),
            name: format!("{protocol}:{model}"),
            delivery: Delivery::default(),
            endpoint,
            protocol,
            model,
        })))
    }

    /// The same, asking for answers in one piece: for servers that cannot stream.
    #[must_use]
    pub fn whole_answers(mut self) -> Self {
        Arc::make_mut(&mut self.0).delivery = Delivery::Whole;
        self
    }

    /// The protocol and the model, such as `openai:gpt-5-mini`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The model.
    pub fn model(&self) -> &str {
        &self.0.model
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        self.0.protocol
    }

    pub(crate) fn host(&self) -> &str {
        self.0.endpoint.host()
    }

    /// Asks, and tells what is new in the answer while it comes. It is told again from the beginning
    /// only by asking again: nothing is retried here.
    ///
    /// Cancelling closes the connection and is an error, also where part of an answer was there.
    pub async fn ask(
        &self,
        request: &ModelRequest<'_>,
        on_delta: &mut OnDelta<'_>,
        cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        let asked = Asked {
            model: &self.0.model,
            items: request.items,
            tools: request.tools,
            tokens_max: request.tokens_max,
            caching: request.caching,
            delivery: self.0.delivery,
        };
        let body = request_body(self.0.protocol, &asked);
        let span = telemetry::request_span(&self.0, request.tokens_max);
        let answer = self.ask_in_span(body, on_delta, cancellation).instrument(span.clone()).await;
        telemetry::ended(&span, &answer);
        answer
    }

    async fn ask_in_span(
        &self,
        body: Vec<u8>,
        on_delta: &mut OnDelta<'_>,
        cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        tracing::debug!(model = self.name(), host = self.host(), bytes = body.len(), "asking a model");
        let answer = tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(BackendError::Cancelled),
            answer = self.0.exchange(body, on_delta) => answer,
        };
        match &answer {
            Ok(answer) => {
                tracing::debug!(model = self.name(), finish = ?answer.finish, usage = ?answer.usage, "a model answered");
            }
            Err(error) => tracing::debug!(model = self.name(), %error, "no answer from a model"),
        }
        answer
    }
}

impl fmt::Debug for ModelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelClient").field("name", &self.0.name).field("endpoint", &self.0.endpoint).finish()
    }
}
