//! `foldback hook compact`: a conversation that an agent is having, compacted.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use foldback_core::{Budget, Level, Policy, Strategy, Tokens, View, check};
use foldback_engine::{CompactionRequest, Outcome, Refusal, compact};
use foldback_formats::{Committed, Conversation, Format, messages};
use serde_json::value::RawValue;

use super::answer::{CompactAnswer, Sizes};
use super::fold;
use super::messages::{Read, contents};
use super::request::{CompactRequest, RecordAt, Takes, WhyNow};
use crate::aim::{Aimed, Target};
use crate::args::chat::Backend;
use crate::args::hook::HookCompact;
use crate::args::{Aim, Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::model::ChosenModel;
use crate::provider::ProviderCounts;
use crate::scene::{pinned, recorded, seen};
use crate::staying::Staying;
use crate::summarizer::Summarizer;
use crate::{counting, store};

/// What a conversation in an agent comes down to where nobody says otherwise: little enough that the next
/// compaction is far, enough for the newest work.
const TARGET_PERCENT: f64 = 20.0;

/// How long a model may take for a summary where nobody says, and at most: a person waits, and modules give up
/// after a little more. Then the digest answers.
const BACKEND_TIMEOUT: Duration = Duration::from_secs(60);
const BACKEND_TIMEOUT_MAX: Duration = Duration::from_secs(75);

/// What a conversation comes down to at most where a person asks, in percent of what it has.
const ASKED_FOR_PERCENT: f64 = 40.0;

pub(crate) fn run(shared: &Shared, arguments: &HookCompact) -> Result<Exit, Failure> {
    super::answered(|request: CompactRequest| {
        let (config, shared) = super::settings(shared.clone())?;
        let arguments = config.hook_under(arguments.clone())?;
        Job::new(&shared, &arguments, &request)?.run()
    })
}

/// One conversation to compact.
struct Job<'a> {
    shared: &'a Shared,
    arguments: &'a HookCompact,
    request: &'a CompactRequest,
    read: Read,
    policy: Policy,
}

impl<'a> Job<'a> {
    fn new(
        shared: &'a Shared,
        arguments: &'a HookCompact,
        request: &'a CompactRequest,
    ) -> Result<Self, Failure> {
        let read = contents(shared, request.which())?;
        Ok(Self { shared, arguments, request, read, policy: arguments.aim.policy()? })
    }

    fn run(&self) -> Result<CompactAnswer, Failure> {
        let conversation = self.read.conversation()?;
        let contents = self.read.contents();
        let model = ChosenModel::of(self.shared, self.request.model.as_deref().or(contents.model()))
            .with_window(contents.context_window());
        let dialect = self.read.dialect().or(model.dialect());
        let counter = counting::counter(self.shared);
        let transcript = counting::transcript(&counter, dialect, &recorded(conversation));
        let staying = Staying::new(&self.arguments.ways)?;
        let mut view = seen(conversation, &transcript, Extent::View);
        // A host that shows a summary and a tail has no place for an item between them.
        if staying.pins() && self.request.takes == Takes::Messages {
            view =
                pinned(conversation, &view, Extent::View, |position, item| staying.is_pinned(position, item));
        }
        let mut provider = ProviderCounts::of(self.shared, conversation, &transcript);
        if let Some(used) = self.request.used() {
            provider = provider.with_used(view.tokens(), used);
        }
        let aimed = self.aimed(&model, &view, &provider)?;
        let target = aimed.budget.target().min(self.asked_for(&view));
        if view.tokens() <= target && self.request.reason != WhyNow::Manual {
            let why = format!("it is within its target of {}", aimed.target());
            return Ok(CompactAnswer::unchanged(why, provider.request(view.tokens()).0));
        }
        let mut asked = CompactionRequest::new("hook", view.clone(), self.request.reason.cause());
        asked.dialect = dialect;
        let focus = self.request.instructions.as_ref().or(self.arguments.ways.focus.as_ref());
        asked.focus = focus.map(|focus| focus.as_str().into());
        asked.keep = staying.lines().cloned();
        let strategy: Arc<dyn Strategy> = match self.request.takes {
            Takes::Messages => {
                asked.budget = Budget::for_target(target).ok();
                self.policy.strategy()
            }
            Takes::Tail => {
                Arc::new(fold::strategy(target, self.tail_max(&view, conversation), asked.focus.clone()))
            }
            Takes::Summary => Arc::new(fold::strategy_without_tail(target, asked.focus.clone())),
        };
        let outcome = self.outcome(strategy, &asked)?;
        let (before, after) = (view.tokens(), outcome.view.tokens());
        if outcome.is_unchanged() || after >= before {
            return Ok(CompactAnswer::unchanged("there is nothing to fold", provider.request(before).0));
        }
        let sizes = Sizes { before: provider.request(before).0, after: provider.request(after).0 };
        let answer = CompactAnswer::compacted(&outcome, sizes);
        match self.request.takes {
            Takes::Messages => {
                let answer = answer.with_messages(self.messages(&outcome.view)?);
                self.keep_record(&outcome.view)?;
                Ok(answer)
            }
            Takes::Tail | Takes::Summary => match fold::shown(&outcome, conversation) {
                Some(shown) => Ok(answer.showing(&shown, self.details(&shown.view)?)),
                None => Ok(CompactAnswer::unchanged("there is nothing to fold", sizes.before)),
            },
        }
    }

    /// What a tail may have. opencode shows every message from the tail's first one on: where the marker and
    /// the summary of an earlier compaction stand among them, those as well.
    fn tail_max(&self, view: &View, conversation: &Conversation) -> Tokens {
        match self.read.session.format() {
            Format::Opencode => fold::since_newest(view, conversation),
            _ => Tokens(u64::MAX),
        }
    }

    /// What a conversation may have after a compaction that a person asked for.
    fn asked_for(&self, view: &View) -> Tokens {
        match self.request.reason {
            WhyNow::Manual => view.tokens().scaled_down(ASKED_FOR_PERCENT / 100.0),
            WhyNow::Auto | WhyNow::Overflow => Tokens(u64::MAX),
        }
    }

    /// The budget, in the provider's tokens: what the person set counts before what the agent says.
    fn aimed(&self, model: &ChosenModel, view: &View, provider: &ProviderCounts) -> Result<Aimed, Failure> {
        let own = &self.arguments.aim;
        let asked = self.request.target.map(|target| Target::Level(Level::Tokens(Tokens(target))));
        // A policy that the person chose has a target of its own.
        let default = own.policy.is_none().then_some(Target::Level(Level::PercentOfUsable(TARGET_PERCENT)));
        let aim = Aim {
            window: own.window.or(self.request.window()),
            target: own.target.or(asked).or(default),
            ..own.clone()
        };
        aim.budget(&self.policy, model, view.tokens(), provider)
    }

    fn outcome(&self, strategy: Arc<dyn Strategy>, asked: &CompactionRequest) -> Result<Outcome, Failure> {
        let failed = |error| Failure::Compaction {
            path: self.read.path.clone(),
            error: Box::new(error),
            items: Vec::new(),
        };
        let patience = self.arguments.backend.backend_timeout.unwrap_or(BACKEND_TIMEOUT);
        let backend = Backend {
            backend_timeout: Some(patience.min(BACKEND_TIMEOUT_MAX)),
            ..self.arguments.backend.clone()
        };
        let outcome = match Summarizer::new(self.shared, &backend)? {
            None => compact(asked.execution(strategy)).map_err(failed)?,
            Some(summarizer) => {
                store::runtime()?.block_on(summarizer.compact(strategy, asked)).map_err(failed)?.0
            }
        };
        let violations = check(outcome.view.items(), asked.dialect);
        match violations.is_empty() {
            true => Ok(outcome),
            false => {
                let strategy = outcome.strategy.to_string();
                Err(failed(Refusal::Invalid { strategy, violations }.into()))
            }
        }
    }

    /// The conversation in the form in which it was sent.
    fn messages(&self, view: &View) -> Result<Box<RawValue>, Failure> {
        let session = &self.read.session;
        let failed = |error| Failure::Format { path: self.read.path.clone(), error };
        let written = messages(&self.committed(view)?.sent, session).map_err(failed)?;
        let one = |_| {
            let what = format!("{} has no form for a list of messages", session.format().as_str());
            Failure::usage(what, "let `takes` be \"tail\", or send a provider's messages")
        };
        let text = String::from_utf8(written).expect("formats write text");
        RawValue::from_string(text.trim().to_owned()).map_err(one)
    }

    /// Appends the record of the compaction to the session, in one write, where the module asks for that. If
    /// the agent does not take the answer after all, no compaction follows the line and it says nothing.
    fn keep_record(&self, view: &View) -> Result<(), Failure> {
        let line = self.committed(view)?.record_line(&self.read.session);
        let (Some(RecordAt::Session), Some(path), Some(line)) =
            (self.request.record, &self.request.session, line)
        else {
            return Ok(());
        };
        let appended = OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(&line));
        appended.map_err(|error| Failure::Write { path: path.clone(), error, hint: None })
    }

    /// The record of the compaction, for a host that keeps it beside its own.
    fn details(&self, view: &View) -> Result<Box<RawValue>, Failure> {
        let record = self.committed(view)?.record();
        let details = RawValue::from_string(format!("{{\"foldback\":{record}}}"));
        Ok(details.expect("a record is JSON"))
    }

    fn committed(&self, view: &View) -> Result<Committed<'_>, Failure> {
        let conversation = self.read.conversation()?;
        Ok(self.read.session.committed(conversation, view, conversation.block_count()))
    }
}
