//! An agent: a model, tools, and what may change the conversation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use foldback_core::{
    Budget, EstimatingCounter, Item, ItemKind, Meter, SessionId, Text, TokenCounter, Tokens, Transcript, View,
};
use foldback_engine::session::{CompactionConfig, LiveSession, StoredSession};
use foldback_engine::{Clock, SystemClock};
use tokio_util::sync::CancellationToken;

use crate::compaction::COMPACTOR_LABEL;
use crate::error::{AgentBuildError, LoopError};
use crate::event::AgentObserver;
use crate::model::{Model, ToolSpec};
use crate::mutator::LoopMutator;
use crate::session::{AgentSession, Shared};
use crate::state::schema_tokens;
use crate::stored::{Configured, Stored};
use crate::tool::{self, Tool};

/// What a loop may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    /// Answers with calls in one turn.
    pub rounds_max: usize,
    /// Calls that run at the same time.
    pub calls_parallel_max: usize,
    /// How long a call may take, where its tool says nothing.
    pub tool_timeout: Duration,
    /// How long tools and mutators may take to end once a turn is interrupted.
    pub grace: Duration,
    /// How often one request is made shorter after the provider rejected it for its length.
    pub recoveries_max: usize,
    /// How often one request is sent again after a failure that may pass.
    pub retries_max: u32,
    /// How long is waited before the first of those; doubled each time, and shortened by up to half of
    /// it, so that many clients do not come back at once.
    pub backoff_first: Duration,
    /// How long is waited at most, also where the server asks for more.
    pub backoff_max: Duration,
    /// Where chance begins in shortening waits, so that they are the same each time; anew for each
    /// request if there is none.
    pub backoff_seed: Option<u64>,
    /// The longest answer; the provider's own limit if there is none.
    pub answer_tokens_max: Option<Tokens>,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            rounds_max: 200,
            calls_parallel_max: 8,
            tool_timeout: Duration::from_secs(120),
            grace: Duration::from_millis(500),
            recoveries_max: 4,
            retries_max: 3,
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(20),
            backoff_seed: None,
            answer_tokens_max: None,
        }
    }
}

/// Everything that sessions share.
pub(crate) struct Parts {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: BTreeMap<String, Arc<dyn Tool>>,
    pub(crate) specs: Vec<ToolSpec>,
    pub(crate) mutators: Vec<Arc<dyn LoopMutator>>,
    pub(crate) compaction: Option<Configured>,
    pub(crate) observers: Arc<[Arc<dyn AgentObserver>]>,
    pub(crate) system: Option<Text>,
    pub(crate) budget: Option<Budget>,
    pub(crate) limits: AgentLimits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counter: Arc<dyn TokenCounter>,
    pub(crate) cancellation: CancellationToken,
    sessions: Mutex<BTreeMap<SessionId, Weak<Shared>>>,
}

/// A model with tools, ready to be talked to in any number of sessions. Clones are the same agent.
#[derive(Clone)]
pub struct Agent {
    parts: Arc<Parts>,
}

impl Agent {
    /// Starts an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// What the model is told of its tools.
    pub(crate) fn tool_specs(&self) -> &[ToolSpec] {
        &self.parts.specs
    }

    /// The session of this name: the one that is in use, or a new one that begins with the system
    /// prompt. A session lives as long as somebody holds it; one that is to live longer is
    /// [opened](Self::open) in a store.
    pub fn session(&self, id: impl Into<SessionId>) -> AgentSession {
        self.enter(id.into(), || (self.begun(View::of(&self.transcript())), None))
    }

    /// Goes on with a recorded conversation. Calls that still wait for results are answered as
    /// interrupted. If a session of this name is in use, it is that one, and `view` is not looked at.
    pub fn resume(&self, id: impl Into<SessionId>, view: View) -> AgentSession {
        self.enter(id.into(), || (view, None))
    }

    /// Goes on with the current loop of a stored session: what is said is stored before the model is asked,
    /// and compactions are recorded beside it. The model sees the earlier loops in scope before it. An empty
    /// loop begins with the system prompt; calls that still wait for results are answered as interrupted. If
    /// the session is in use, it is that one.
    ///
    /// With [`AgentBuilder::compaction`] the block strategy compacts all loops in scope.
    pub async fn open(&self, session: StoredSession) -> Result<AgentSession, LoopError> {
        let id = session.id().clone();
        if let Some(session) = self.in_use(&id) {
            return Ok(session);
        }
        let session = session.counting_as(&self.transcript());
        let (config, window) = match &self.parts.compaction {
            Some(compaction) => compaction.scope(),
            None => (CompactionConfig::default(), self.parts.budget.map_or(Tokens(u64::MAX), |b| b.window())),
        };
        let (live, view) = LiveSession::open(session, config, window).await?;
        let session = self.enter(id, || (self.begun(view), Some(Arc::new(Stored::new(live)))));
        session.save().await?;
        Ok(session)
    }

    /// An empty transcript that counts as the model does.
    fn transcript(&self) -> Transcript {
        let counter = Arc::clone(&self.parts.counter);
        match self.parts.model.dialect() {
            Some(dialect) => Transcript::for_dialect(counter, dialect),
            None => Transcript::new(counter),
        }
    }

    /// The same view, beginning with the system prompt.
    fn begun(&self, mut view: View) -> View {
        if let Some(system) = self.parts.system.as_ref().filter(|_| view.transcript().is_empty()) {
            view.push(Item::text("system", ItemKind::System, system.clone()));
        }
        view
    }

    fn in_use(&self, id: &SessionId) -> Option<AgentSession> {
        let sessions = self.parts.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(id).and_then(Weak::upgrade).map(AgentSession::of)
    }

    fn enter(&self, id: SessionId, begin: impl FnOnce() -> (View, Option<Arc<Stored>>)) -> AgentSession {
        let mut sessions = self.parts.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = sessions.get(&id).and_then(Weak::upgrade) {
            return AgentSession::of(shared);
        }
        sessions.retain(|_, session| session.strong_count() > 0);
        let (view, stored) = begin();
        let shared = Arc::new(Shared::new(Arc::clone(&self.parts), id.clone(), view, stored));
        sessions.insert(id, Arc::downgrade(&shared));
        AgentSession::opened(shared)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mutators: Vec<&str> = self.parts.mutators.iter().map(|mutator| mutator.label()).collect();
        f.debug_struct("Agent")
            .field("model", &self.parts.model.name())
            .field("tools", &self.parts.tools.keys().collect::<Vec<_>>())
            .field("mutators", &mutators)
            .finish_non_exhaustive()
    }
}

/// Puts an agent together.
#[derive(Default)]
pub struct AgentBuilder {
    model: Option<Arc<dyn Model>>,
    tools: Vec<Arc<dyn Tool>>,
    mutators: Vec<Arc<dyn LoopMutator>>,
    observers: Vec<Arc<dyn AgentObserver>>,
    system: Option<Text>,
    budget: Option<Budget>,
    compaction: Option<(CompactionConfig, Tokens)>,
    limits: AgentLimits,
    clock: Option<Arc<dyn Clock>>,
    counter: Option<Arc<dyn TokenCounter>>,
    cancellation: CancellationToken,
}

impl AgentBuilder {
    /// Who answers.
    #[must_use]
    pub fn model(self, model: impl Model + 'static) -> Self {
        self.shared_model(Arc::new(model))
    }

    /// Who answers, where the host keeps it too.
    #[must_use]
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// What the model may call.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// What may change the conversation; several run in the order they were added.
    #[must_use]
    pub fn mutator(mut self, mutator: impl LoopMutator + 'static) -> Self {
        self.mutators.push(Arc::new(mutator));
        self
    }

    /// Who sees what happens.
    #[must_use]
    pub fn observer(mut self, observer: impl AgentObserver + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// What every session begins with.
    #[must_use]
    pub fn system(mut self, prompt: impl Into<Text>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// How much the model's context holds. Compactions are told it, in tokens as they count them:
    /// corrected by what the provider reports, and lowered where it rejects a request.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// When and how conversations are compacted in a window of this size, which takes the place of
    /// [`budget`](Self::budget): one that is [opened](Agent::open) in a store by the block strategy of the
    /// configuration, loop by loop; any other by its in-memory strategy. Runs behind all other mutators.
    #[must_use]
    pub fn compaction(mut self, config: CompactionConfig, max_context_tokens: impl Into<Tokens>) -> Self {
        self.compaction = Some((config, max_context_tokens.into()));
        self
    }

    /// What the loop may take.
    #[must_use]
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// What tells the time; the machine's clock if it is not set.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// What counts tokens; an estimate if it is not set.
    #[must_use]
    pub fn counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = Some(counter);
        self
    }

    /// Ends every turn of every session when it is cancelled.
    #[must_use]
    pub fn cancellation(mut self, cancellation: CancellationToken) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// A label for one more compactor.
    pub(crate) fn compactor_label(&self) -> String {
        free_label(&self.mutators)
    }

    /// Checks it all.
    pub fn build(self) -> Result<Agent, AgentBuildError> {
        let model = self.model.ok_or(AgentBuildError::NoModel)?;
        check_limits(&self.limits)?;
        check_labels(&self.mutators)?;
        let specs = self.tools.iter().map(|tool| spec(&**tool)).collect::<Result<Vec<_>, _>>()?;
        let counter = self.counter.unwrap_or_else(|| Arc::new(EstimatingCounter));
        let mut tools = BTreeMap::new();
        for tool in self.tools {
            let name = tool.name().to_owned();
            if tools.insert(name.clone(), tool).is_some() {
                return Err(AgentBuildError::DuplicateTool { name });
            }
        }
        let compaction = match self.compaction {
            None => None,
            Some((config, window)) => {
                let meter = Meter::new(Arc::clone(&counter), model.dialect());
                let (label, schemas) = (free_label(&self.mutators), schema_tokens(&meter, &specs));
                Some(Configured::new(config, window, label, model.dialect(), schemas)?)
            }
        };
        let parts = Parts {
            budget: compaction.as_ref().map(Configured::budget).or(self.budget),
            compaction,
            model,
            tools,
            specs,
            mutators: self.mutators,
            observers: self.observers.into(),
            system: self.system,
            limits: self.limits,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
            counter,
            cancellation: self.cancellation,
            sessions: Mutex::default(),
        };
        Ok(Agent { parts: Arc::new(parts) })
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("model", &self.model)
            .field("tools", &self.tools)
            .field("mutators", &self.mutators)
            .field("budget", &self.budget)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

fn check_limits(limits: &AgentLimits) -> Result<(), AgentBuildError> {
    match limits {
        AgentLimits { rounds_max: 0, .. } => Err(AgentBuildError::LimitZero { limit: "rounds_max" }),
        AgentLimits { calls_parallel_max: 0, .. } => {
            Err(AgentBuildError::LimitZero { limit: "calls_parallel_max" })
        }
        _ => Ok(()),
    }
}

/// The first label of a compactor that no mutator has.
fn free_label(mutators: &[Arc<dyn LoopMutator>]) -> String {
    let is_taken = |label: &str| mutators.iter().any(|mutator| mutator.label() == label);
    let mut label = COMPACTOR_LABEL.to_owned();
    let mut number = 2;
    while is_taken(&label) {
        label = format!("{COMPACTOR_LABEL}-{number}");
        number += 1;
    }
    label
}

fn check_labels(mutators: &[Arc<dyn LoopMutator>]) -> Result<(), AgentBuildError> {
    for (index, mutator) in mutators.iter().enumerate() {
        let label = mutator.label();
        if mutators[..index].iter().any(|earlier| earlier.label() == label) {
            return Err(AgentBuildError::DuplicateMutator { label: label.to_owned() });
        }
    }
    Ok(())
}

fn spec(tool: &dyn Tool) -> Result<ToolSpec, AgentBuildError> {
    let name = || tool.name().to_owned();
    if !tool::is_name(tool.name()) {
        return Err(AgentBuildError::ToolName { name: name() });
    }
    let input_schema = tool.input_schema();
    if !input_schema.is_object() {
        return Err(AgentBuildError::ToolSchema { name: name() });
    }
    Ok(ToolSpec { name: tool.name().into(), description: tool.description().into(), input_schema })
}
