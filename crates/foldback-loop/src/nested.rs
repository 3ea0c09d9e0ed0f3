//! A nested agent that writes summaries: [`AgentCompactor`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use foldback_backends::{summary_prompt, summary_prompt_tokens};
use foldback_core::{Item, ItemKind, Metadata, Prices, SessionId, Text, Tokens, Transcript, View};
use foldback_engine::{BackendError, CompactionBackend, SummaryRequest, SummaryResult};
use foldback_formats::answer::ToolSpec;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, AgentBuilder, AgentLimits};
use crate::error::{AgentBuildError, LoopError};
use crate::event::AgentObserver;
use crate::model::Model;
use crate::mutator::LoopMutator;
use crate::session::TurnResult;
use crate::tool::Tool;

/// What nested sessions are named after where nobody says.
const SESSION_ID_DEFAULT: &str = "summary";

/// Answers with calls that a nested agent may give before it has to write.
const NESTED_ROUNDS_MAX: usize = 16;

/// A backend that lets an agent of its own write each summary, in a session of its own. It is shown
/// all of the conversation, tool calls and results included, quoted as data; it may use tools to
/// look things up.
///
/// It is built of what an agent is built of, and not from an agent that is there: what retries, what the
/// sessions begin with and what a request costs beside the items are its own. A model that another agent
/// uses too goes in by [`shared_model`](AgentCompactorBuilder::shared_model).
#[derive(Debug)]
pub struct AgentCompactor {
    agent: Agent,
    name: String,
    system: Option<Text>,
    session_id: SessionId,
    session_count: AtomicU64,
    window: Option<Tokens>,
    /// What its system prompt and its tools cost in every request.
    own_tokens: Tokens,
    prices: Option<&'static Prices>,
}

impl AgentCompactor {
    /// Starts one.
    pub fn builder() -> AgentCompactorBuilder {
        AgentCompactorBuilder {
            agent: Agent::builder(),
            model: None,
            system: None,
            session_id: SESSION_ID_DEFAULT.into(),
            limits: AgentLimits { rounds_max: NESTED_ROUNDS_MAX, ..AgentLimits::default() },
            window: None,
            prices: None,
        }
    }

    /// A fresh session that begins with the rules, and what it is asked.
    fn open(&self, request: &SummaryRequest) -> (crate::AgentSession, Vec<foldback_core::Part>) {
        let number = self.session_count.fetch_add(1, Ordering::Relaxed);
        let session_id = format!("{}-{number}", self.session_id);
        let prompt = summary_prompt(request);
        let mut transcript = Transcript::default();
        if let Some(system) = &self.system {
            transcript.push(Item::text("system", ItemKind::System, system.clone()));
        }
        let (asked, rules): (Vec<_>, Vec<_>) =
            prompt.into_iter().partition(|item| item.kind == ItemKind::User);
        transcript.extend(rules);
        let parts = asked.into_iter().flat_map(|item| item.parts.clone()).collect();
        (self.agent.resume(session_id, View::of(&transcript)), parts)
    }
}

#[async_trait]
impl CompactionBackend for AgentCompactor {
    async fn summarize(
        &self,
        request: SummaryRequest,
        cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let (session, asked) = self.open(&request);
        let result = tokio::select! {
            biased;
            () = cancellation.cancelled() => return Err(BackendError::Cancelled),
            result = session.send_parts(asked) => result.map_err(refused)?,
        };
        let TurnResult { text, item, round_count, call_count, usage, .. } = result;
        if text.trim().is_empty() {
            return Err(BackendError::Malformed { why: "the nested agent answered nothing".to_owned() });
        }
        let mut metadata = Metadata::new();
        metadata.insert("nested_session".to_owned(), json!(session.id().as_str()));
        metadata.insert("nested_rounds".to_owned(), json!(round_count));
        metadata.insert("nested_calls".to_owned(), json!(call_count));
        Ok(SummaryResult {
            items: vec![Item::text("summary", ItemKind::Context, text.trim())],
            metadata,
            usage: (usage != foldback_core::Usage::default()).then_some(usage),
            finish: item.finish_reason,
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn window(&self) -> Option<Tokens> {
        self.window
    }

    fn prompt_tokens(&self) -> Tokens {
        summary_prompt_tokens(self.window) + self.own_tokens
    }

    fn prices(&self) -> Option<&'static Prices> {
        self.prices
    }
}

fn refused(error: LoopError) -> BackendError {
    match error {
        LoopError::Model(error) => error,
        LoopError::ContextOverflow { limit, .. } => BackendError::Overflow { limit },
        LoopError::Interrupted | LoopError::Cancelled => BackendError::Cancelled,
        LoopError::Mutator { .. }
        | LoopError::InvalidRequest { .. }
        | LoopError::RoundLimit { .. }
        | LoopError::Session(_)
        | LoopError::QueueFull { .. } => BackendError::Malformed { why: error.to_string() },
    }
}

/// Puts a nested agent together.
#[derive(Debug)]
pub struct AgentCompactorBuilder {
    agent: AgentBuilder,
    model: Option<Arc<dyn Model>>,
    system: Option<Text>,
    session_id: SessionId,
    limits: AgentLimits,
    window: Option<Tokens>,
    prices: Option<&'static Prices>,
}

/// Why there is no nested agent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentCompactorBuildError {
    /// The agent itself cannot be built.
    #[error("the nested agent cannot be built")]
    Agent(#[from] AgentBuildError),
    /// A system prompt that says nothing.
    #[error("the system prompt is blank; leave it out, and the summary's own rules are all there is")]
    BlankSystem,
    /// A name that says nothing.
    #[error("the session id is empty")]
    NoSessionId,
}

impl AgentCompactorBuilder {
    /// Who writes.
    #[must_use]
    pub fn model(self, model: impl Model + 'static) -> Self {
        self.shared_model(Arc::new(model))
    }

    /// Who writes, where the host keeps it too.
    #[must_use]
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// What the nested agent may call.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.agent = self.agent.tool(tool);
        self
    }

    /// What may change the nested agent's own conversation, such as a compactor for long look-ups.
    #[must_use]
    pub fn mutator(mut self, mutator: impl LoopMutator + 'static) -> Self {
        self.agent = self.agent.mutator(mutator);
        self
    }

    /// Who sees what the nested agent does.
    #[must_use]
    pub fn observer(mut self, observer: impl AgentObserver + 'static) -> Self {
        self.agent = self.agent.observer(observer);
        self
    }

    /// What the nested agent is told before the rules for summaries.
    #[must_use]
    pub fn system(mut self, prompt: impl Into<Text>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// What its sessions are named after; each summary has one, numbered.
    #[must_use]
    pub fn session_id(mut self, session_id: impl Into<SessionId>) -> Self {
        self.session_id = session_id.into();
        self
    }

    /// What its loop may take. Failures are not retried in it: the engine does that.
    #[must_use]
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// What its model reads and writes at most together.
    #[must_use]
    pub fn window(mut self, window: Tokens) -> Self {
        self.window = Some(window);
        self
    }

    /// What its tokens cost.
    #[must_use]
    pub fn prices(mut self, prices: &'static Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Checks it all.
    pub fn build(self) -> Result<AgentCompactor, AgentCompactorBuildError> {
        let Self { mut agent, model, system, session_id, limits, window, prices } = self;
        if system.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
            return Err(AgentCompactorBuildError::BlankSystem);
        }
        if session_id.trim().is_empty() {
            return Err(AgentCompactorBuildError::NoSessionId);
        }
        let model = model.ok_or(AgentBuildError::NoModel)?;
        let name = format!("agent:{}", model.name());
        agent = agent.shared_model(model).limits(AgentLimits { retries_max: 0, ..limits });
        let agent = agent.build()?;
        let meter = Transcript::default().meter().clone();
        let of_tool = |tool: &ToolSpec| {
            let texts = [tool.name.as_str(), tool.description.as_str(), &tool.input_schema.to_string()];
            texts.iter().map(|text| meter.text(text)).sum::<u64>()
        };
        let tools: u64 = agent.tool_specs().iter().map(of_tool).sum();
        let own_tokens = Tokens(tools + system.as_ref().map_or(0, |system| meter.text(system)));
        Ok(AgentCompactor {
            agent,
            name,
            own_tokens,
            system,
            session_id,
            session_count: AtomicU64::new(0),
            window,
            prices,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::tokens::Precision;
    use foldback_core::{CompactionReason, Part, SummarizeOlderStrategy, TokenCounter, ToolResult};
    use foldback_engine::{CompactionContext, CompactionRequest, Compactor, StrategyCompactor};
    use foldback_formats::answer::OnDelta;

    use crate::model::{ModelAnswer, ModelRequest};

    /// Answers with a fixed text and keeps every request.
    #[derive(Clone, Debug)]
    struct Fixed {
        answer: &'static str,
        sent: Arc<std::sync::Mutex<Vec<Vec<Arc<Item>>>>>,
    }

    impl Fixed {
        fn new(answer: &'static str) -> Self {
            Self { answer, sent: Arc::default() }
        }
    }

    #[async_trait]
    impl Model for Fixed {
        async fn ask(
            &self,
            request: &ModelRequest<'_>,
            _on_delta: &mut OnDelta<'_>,
            _cancellation: &CancellationToken,
        ) -> Result<ModelAnswer, BackendError> {
            self.sent.lock().unwrap().push(request.items.to_vec());
            let item = Item::assistant("a", vec![Part::text(self.answer)]);
            Ok(ModelAnswer { item, usage: None, finish: None, model: None })
        }

        fn name(&self) -> &str {
            "fixed"
        }
    }

    fn worked() -> Vec<Arc<Item>> {
        let input = json!({"path": "src/parser.rs", "content": "fn parse() {}"});
        vec![
            Arc::new(Item::user("u", "Add error handling")),
            Arc::new(Item::assistant("a", vec![Part::call("c1", "write_file", &input)])),
            Arc::new(Item::tool("t", ToolResult::error("c1", "permission denied: src/parser.rs"))),
        ]
    }

    #[test]
    fn what_every_request_of_a_nested_agent_holds_is_counted() {
        let plain = AgentCompactor::builder().model(Fixed::new("x")).build().unwrap();
        let told = AgentCompactor::builder().model(Fixed::new("x")).system("Be brief. ".repeat(500));
        let told = told.build().unwrap().prompt_tokens();
        assert!(told > plain.prompt_tokens() + Tokens(1_000), "{told}");
        let equipped = AgentCompactor::builder().model(Fixed::new("x")).tool(crate::RecallTool::new());
        assert!(equipped.build().unwrap().prompt_tokens() > plain.prompt_tokens());
    }

    /// As OpenAI counts, so that nothing is left over for estimates that are off.
    #[derive(Debug)]
    struct Exact;

    impl TokenCounter for Exact {
        fn name(&self) -> &str {
            "o200k_base"
        }

        fn count(&self, text: &str) -> Tokens {
            Tokens(bpe_openai::o200k_base().count(text) as u64)
        }

        fn precision(&self) -> Precision {
            Precision::Exact
        }
    }

    /// A nested agent, and what each of its answers may cost.
    #[derive(Debug)]
    struct Watched {
        agent: AgentCompactor,
        answers: Arc<std::sync::Mutex<Vec<Tokens>>>,
    }

    #[async_trait]
    impl CompactionBackend for Watched {
        async fn summarize(
            &self,
            request: SummaryRequest,
            cancellation: CancellationToken,
        ) -> Result<SummaryResult, BackendError> {
            self.answers.lock().unwrap().push(request.tokens_max.unwrap());
            self.agent.summarize(request, cancellation).await
        }

        fn name(&self) -> &str {
            self.agent.name()
        }

        fn window(&self) -> Option<Tokens> {
            self.agent.window()
        }

        fn prompt_tokens(&self) -> Tokens {
            self.agent.prompt_tokens()
        }
    }

    /// What the largest of the calls takes, its answer included, that summarise so many items.
    async fn largest_call(window: Tokens, item_count: usize) -> u64 {
        let (model, answers) = (Fixed::new("## Task: answer many questions"), Arc::default());
        let agent = AgentCompactor::builder().model(model.clone()).window(window).build().unwrap();
        let compactor = StrategyCompactor::builder()
            .item_count_trigger(0)
            .strategy(SummarizeOlderStrategy::new(2))
            .backend(Watched { agent, answers: Arc::clone(&answers) })
            .build()
            .unwrap();
        let mut transcript = Transcript::new(Arc::new(Exact));
        let asked =
            |n: usize| format!("{}is that so?", format!("What does part {n} do, and why, ").repeat(4));
        transcript.extend((0..item_count).map(|n| Item::user(format!("u{n}"), asked(n))));
        let request = CompactionRequest::new("s", View::of(&transcript), CompactionReason::Manual);
        compactor.compact(request, &CompactionContext::default()).await.unwrap();
        let (sent, answers) = (model.sent.lock().unwrap().clone(), answers.lock().unwrap().clone());
        assert_eq!(sent.len(), answers.len());
        let tokens_of = |part| Exact.count(&foldback_core::reading::text_of(part)).0;
        let calls = sent.iter().zip(&answers).map(|(request, answer)| {
            request.iter().flat_map(|item| &item.parts).map(tokens_of).sum::<u64>() + answer.0
        });
        calls.max().unwrap()
    }

    #[tokio::test]
    async fn what_a_nested_agent_is_sent_fits_its_window_with_a_heading_for_every_item() {
        const WINDOW: Tokens = Tokens(40_000);
        let mut most = 0;
        // As many as fill one call, and a few more, which take two.
        for item_count in (600..=760).step_by(10) {
            most = most.max(largest_call(WINDOW, item_count).await);
        }
        assert!(most <= WINDOW.0, "{most} tokens are sent and answered with, the window holds {WINDOW}");
        assert!(most > WINDOW.0 * 9 / 10, "no call is full: {most}");
    }

    #[tokio::test]
    async fn the_nested_agent_is_shown_calls_and_results_too() {
        let model = Fixed::new("## Task: error handling");
        let compactor = AgentCompactor::builder()
            .model(model.clone())
            .system("Be brief.")
            .session_id("nested")
            .build()
            .unwrap();
        let request = SummaryRequest::new("s", worked(), CompactionReason::Manual);
        let result = compactor.summarize(request, CancellationToken::new()).await.unwrap();
        assert_eq!(result.items[0].kind, ItemKind::Context);
        assert_eq!(result.metadata["nested_session"], "nested-0");
        let sent = model.sent.lock().unwrap().clone();
        let text: String =
            sent.iter().flatten().flat_map(|item| &item.parts).map(foldback_core::reading::text_of).collect();
        for shown in [
            "Be brief.",
            "Add error handling",
            "write_file",
            "src/parser.rs",
            "fn parse() {}",
            "permission denied",
        ] {
            assert!(text.contains(shown), "{shown} is missing in {text}");
        }
    }

    /// Adds a word to every conversation that it is asked about.
    #[derive(Debug)]
    struct Reminder;

    #[async_trait]
    impl LoopMutator for Reminder {
        fn label(&self) -> &str {
            "reminder"
        }

        async fn mutate(
            &self,
            staged: &mut crate::Staged,
            _context: &crate::MutationContext<'_>,
        ) -> Result<crate::Mutation, crate::MutatorError> {
            staged.push(Item::text("reminder", ItemKind::Notification, "be brief"));
            Ok(crate::Mutation::done())
        }
    }

    #[tokio::test]
    async fn a_nested_agent_has_mutators_and_observers_of_its_own() {
        let told: Arc<std::sync::Mutex<Vec<(String, String)>>> = Arc::default();
        let log = Arc::clone(&told);
        let observer = move |session_id: &SessionId, event: &crate::AgentEvent| {
            if let crate::AgentEvent::MutationFinished { mutator, dirty: true, .. } = event {
                log.lock().unwrap().push((session_id.to_string(), mutator.clone()));
            }
        };
        let compactor = AgentCompactor::builder()
            .model(Fixed::new("## Task: error handling"))
            .mutator(Reminder)
            .observer(observer)
            .build()
            .unwrap();
        let request = SummaryRequest::new("s", worked(), CompactionReason::Manual);
        compactor.summarize(request, CancellationToken::new()).await.unwrap();
        assert_eq!(*told.lock().unwrap(), [("summary-0".to_owned(), "reminder".to_owned())]);
    }

    #[tokio::test]
    async fn an_empty_answer_is_an_error() {
        for answer in ["", " \n\t"] {
            let compactor = AgentCompactor::builder().model(Fixed::new(answer)).build().unwrap();
            let request = SummaryRequest::new("s", worked(), CompactionReason::Manual);
            let error = compactor.summarize(request, CancellationToken::new()).await.unwrap_err();
            assert!(matches!(error, BackendError::Malformed { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn a_cancelled_summary_ends_as_cancelled() {
        let compactor = AgentCompactor::builder().model(Fixed::new("text")).build().unwrap();
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let error = compactor
            .summarize(SummaryRequest::new("s", worked(), CompactionReason::Manual), cancelled)
            .await
            .unwrap_err();
        assert_eq!(error, BackendError::Cancelled);
    }

    #[test]
    fn what_cannot_write_is_not_built() {
        let error = |builder: AgentCompactorBuilder| builder.build().map(|_| ()).unwrap_err();
        assert_eq!(error(AgentCompactor::builder()), AgentBuildError::NoModel.into());
        let blank = AgentCompactor::builder().model(Fixed::new("")).system(" ");
        assert_eq!(error(blank), AgentCompactorBuildError::BlankSystem);
        let unnamed = AgentCompactor::builder().model(Fixed::new("")).session_id("");
        assert_eq!(error(unnamed), AgentCompactorBuildError::NoSessionId);
    }
}
