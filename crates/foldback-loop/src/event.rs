//! What happens in the loop, as it happens.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldback_core::{
    CallId, CompactionReason, FinishReason, Item, Metadata, MutationPoint, SessionId, Text, TokenBounds,
    Tokens, TurnId, Usage,
};

/// One step of a turn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A turn begins.
    TurnStarted {
        /// Its name.
        turn_id: TurnId,
    },
    /// What was said while the agent worked is now part of the conversation.
    InputDelivered {
        /// The item.
        item: Arc<Item>,
    },
    /// The model is asked.
    ModelAsked {
        /// Which round of the turn, from zero.
        round: usize,
        /// How many items it is sent.
        item_count: usize,
        /// What the request costs, tool schemas included.
        tokens: TokenBounds,
    },
    /// A piece of the answer.
    TextDelta {
        /// The piece.
        text: Text,
    },
    /// A piece of the model's thinking.
    ReasoningDelta {
        /// The piece.
        text: Text,
    },
    /// The model begins to write a call.
    CallDelta {
        /// The tool.
        name: Text,
    },
    /// The model did not answer and is asked again; what it streamed before does not count.
    ModelRetried {
        /// Which attempt failed, from one.
        attempt: u32,
        /// Why.
        why: String,
        /// How long it is waited.
        wait: Duration,
    },
    /// The model answered.
    ModelAnswered {
        /// The answer as recorded.
        item: Arc<Item>,
        /// What the provider reported.
        usage: Option<Usage>,
        /// Why it stopped.
        finish: Option<FinishReason>,
        /// What the context costs now.
        context: TokenBounds,
    },
    /// The provider rejected the request for its length.
    RequestRejected {
        /// The window, where it was named.
        limit: Option<Tokens>,
        /// What had been sent, as counted here.
        tokens: TokenBounds,
        /// How many recoveries were made for this request before.
        recovery_count: usize,
    },
    /// A tool is called.
    ToolStarted {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: Text,
        /// What it is given.
        input: Text,
    },
    /// A tool answered, failed, or was stopped.
    ToolFinished {
        /// The call.
        call_id: CallId,
        /// The tool.
        name: Text,
        /// The result as it will be recorded.
        item: Arc<Item>,
        /// How long it took.
        duration: Duration,
    },
    /// A mutator has decided to work and begins. One that looks and leaves everything as it is makes no
    /// events. The loop tells it for the mutator, so that one that fails or panics is heard to end.
    MutationStarted {
        /// The label of the mutator.
        mutator: String,
        /// Where the loop is.
        point: MutationPoint,
        /// Why it works; none for a mutator of the host's own that does not say.
        reason: Option<CompactionReason>,
        /// The strategy it carries out; its label if it does not say.
        strategy: String,
        /// The tokens of the view before.
        tokens: Tokens,
    },
    /// The mutator is done; follows every [`MutationStarted`](Self::MutationStarted).
    MutationFinished {
        /// The label of the mutator.
        mutator: String,
        /// Where the loop is.
        point: MutationPoint,
        /// Why it worked.
        reason: Option<CompactionReason>,
        /// The strategy it carried out.
        strategy: String,
        /// Whether it changed what the model sees.
        dirty: bool,
        /// How many items it removed or changed.
        replaced_items: usize,
        /// What it has to say.
        metadata: Metadata,
        /// Why it did not do what it wanted, where it could not; the view is what it was (T8).
        failure: Option<String>,
        /// The tokens of the view before.
        tokens_before: Tokens,
        /// The tokens of the view now.
        tokens_after: Tokens,
        /// The time it took.
        duration: Duration,
    },
    /// The turn is over.
    TurnEnded {
        /// Its name.
        turn_id: TurnId,
        /// What ended it, as the error says it; none after an answer.
        failure: Option<String>,
        /// What the context costs now.
        context: TokenBounds,
    },
}

/// Sees events as they happen. Called between awaits: it must not block.
pub trait AgentObserver: Send + Sync {
    /// Takes note.
    fn on_event(&self, session_id: &SessionId, event: &AgentEvent);
}

impl<F: Fn(&SessionId, &AgentEvent) + Send + Sync> AgentObserver for F {
    fn on_event(&self, session_id: &SessionId, event: &AgentEvent) {
        self(session_id, event);
    }
}

/// Events that wait to be read from a stream. Filled only while the stream itself is polled, so one
/// poll's worth is all it ever holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sink(Arc<Mutex<VecDeque<AgentEvent>>>);

impl Sink {
    pub(crate) fn pop(&self) -> Option<AgentEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn push(&self, event: AgentEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
    }
}

/// Where the events of one turn go.
#[derive(Clone)]
pub(crate) struct Emitter {
    pub(crate) session_id: SessionId,
    pub(crate) observers: Arc<[Arc<dyn AgentObserver>]>,
    pub(crate) sink: Option<Sink>,
}

impl Emitter {
    pub(crate) fn emit(&self, event: AgentEvent) {
        for observer in self.observers.iter() {
            observer.on_event(&self.session_id, &event);
        }
        if let Some(sink) = &self.sink {
            sink.push(event);
        }
    }
}

impl fmt::Debug for Emitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emitter").field("session_id", &self.session_id).finish_non_exhaustive()
    }
}
