//! `foldback compact`: brings sessions under a budget.

mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use foldback_core::{CompactionReason, Dialect, Item, Policy, TokenCounter, Transcript, check};
use foldback_engine::{CompactionRequest, Outcome, Refusal, compact};
use foldback_formats::{Committed, Contents, Conversation, Format, Loss, SessionFile, Written, write};
use tokio::runtime::Runtime;

use self::report::{CompactReport, FailedReport, FoldedReport};
use crate::aim::Aimed;
use crate::args::{Compact, Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::model::{ChosenModel, WindowReport};
use crate::output::{Begun, Destination};
use crate::places::Places;
use crate::provider::ProviderCounts;
use crate::scene::{pinned, recorded, seen};
use crate::staying::{KeptReport, Staying};
use crate::summarizer::{Account, Summarizer};
use crate::written::{Fresh, WrittenReport};
use crate::{counting, output, policy, store, terminal};

/// Conversations of one file whose failures are told one by one; the rest are counted.
const FAILED_TOLD_MAX: usize = 10;

pub(crate) fn run(shared: &Shared, arguments: &Compact) -> Result<Exit, Failure> {
    input::look(&arguments.inputs)?;
    let is_single = input::is_single(&arguments.inputs);
    let goes_somewhere = arguments.output.is_some() || arguments.in_place;
    let destination = match arguments.dry_run && !goes_somewhere {
        true => Destination::Nowhere,
        false => Destination::of(shared, arguments.output.as_deref(), arguments.in_place, is_single)?,
    };
    let staying = Staying::new(&arguments.ways)?;
    let policy = arguments.aim.policy()?;
    let counter = counting::counter(shared);
    let summarizer = match Summarizer::new(shared, &arguments.backend)? {
        Some(summarizer) => Some((summarizer, store::runtime()?)),
        None => None,
    };
    if !shared.quiet {
        report::tell_what_is_ignored(arguments, &policy);
        if arguments.dry_run && summarizer.is_some() {
            terminal::note("--dry-run asks no model: the digest stands for its summaries");
        }
    }
    input::for_each(shared, &arguments.inputs, |opened| {
        let (policy, counter, summarizer) = (&policy, &counter, summarizer.as_ref());
        let job = Job { shared, arguments, policy, counter, summarizer, staying: &staying.clone(), opened };
        let (done, written) = job.run_and_write(&destination)?;
        let report = done.report(&job, written);
        match shared.json {
            true => output::print_json(&report)?,
            false if shared.quiet => {}
            false => report::tell(&done, &report),
        }
        done.tell_failed();
        let exit = done.exit();
        if is_single {
            // The program ends now, as where the session is forgotten.
            std::mem::forget(done);
        }
        Ok(exit)
    })
}

/// One session to compact.
struct Job<'a> {
    shared: &'a Shared,
    arguments: &'a Compact,
    policy: &'a Policy,
    counter: &'a Arc<dyn TokenCounter>,
    /// The model that writes summaries, and where it is asked; none for the digest.
    summarizer: Option<&'a (Summarizer, Runtime)>,
    staying: &'a Staying,
    opened: &'a Opened,
}

/// One conversation of it, compacted.
struct Folded<'a> {
    conversation_index: usize,
    /// What it was to come down to.
    aimed: Aimed,
    /// What its provider counts of it.
    provider: ProviderCounts,
    /// The views before and after, and the blocks that were committed.
    outcome: Outcome,
    /// The same, to be written into the session.
    committed: Committed<'a>,
    /// What the model did that wrote summaries, if there was one.
    account: Option<Account>,
    /// What became of the lines that were to be kept.
    kept: Option<KeptReport>,
}

impl Folded<'_> {
    fn is_unchanged(&self) -> bool {
        self.outcome.is_unchanged()
    }
}

/// One conversation of several that stays as it is, because it could not be compacted.
struct Failed {
    name: Option<String>,
    failure: Failure,
}

struct Done<'a> {
    folded: Vec<Folded<'a>>,
    failed: Vec<Failed>,
    dialect: Option<Dialect>,
    model: ChosenModel,
}

impl<'a> Job<'a> {
    fn session(&self) -> &'a Contents {
        &self.opened.session
    }

    /// Compacts the session and writes it. Counting takes all cores; what follows takes one, and
    /// meanwhile another thread writes the records that stay.
    fn run_and_write(&self, destination: &Destination) -> Result<(Done<'a>, Option<WrittenReport>), Failure> {
        if self.summarizer.is_some() {
            // A summary costs money.
            destination.look(self.opened)?;
        }
        thread::scope(|scope| {
            let transcripts = self.transcripts();
            let begun = match self.arguments.fresh || self.arguments.dry_run {
                true => None,
                false => destination.begin(scope, self.opened),
            };
            let done = self.run(&transcripts)?;
            if !self.shared.quiet {
                let kept = done.folded.iter().filter_map(|folded| folded.kept).reduce(KeptReport::plus);
                self.staying.tell_unmatched(&self.opened.path.display().to_string(), kept.as_ref());
            }
            let written = done.write(self, destination, begun)?;
            Ok((done, written))
        })
    }

    fn model(&self) -> ChosenModel {
        ChosenModel::of(self.shared, self.session().model()).with_window(self.session().context_window())
    }

    fn dialect(&self) -> Option<Dialect> {
        self.arguments.ways.dialect.or(self.session().dialect()).or(self.model().dialect())
    }

    fn transcripts(&self) -> Vec<Transcript> {
        let transcript = |one| counting::transcript(self.counter, self.dialect(), &recorded(one));
        self.session().own_conversations().iter().map(transcript).collect()
    }

    fn run(&self, transcripts: &[Transcript]) -> Result<Done<'a>, Failure> {
        let model = self.model();
        let view = |one, transcript| seen(one, transcript, self.arguments.ways.from.unwrap_or_default());
        let aim = |one, transcript, provider: &ProviderCounts| {
            self.arguments.aim.budget(self.policy, &model, view(one, transcript).tokens(), provider)
        };
        let (folded, failed, dialect) = (Vec::new(), Vec::new(), self.dialect());
        let mut done = Done { folded, failed, dialect, model: model.clone() };
        let each = self.session().own_conversations().iter().zip(transcripts).enumerate();
        for (index, (conversation, transcript)) in each {
            let provider = ProviderCounts::of(self.shared, conversation, transcript);
            let aimed = aim(conversation, transcript, &provider)?;
            if index == 0 && !self.shared.quiet {
                model.tell(self.dialect(), aimed.window.as_ref());
            }
            match self.fold(index, conversation, transcript, aimed, provider) {
                Ok(folded) => done.folded.push(folded),
                Err(failure) if transcripts.len() == 1 => return Err(failure),
                Err(failure) => {
                    let name = conversation.name().map(ToOwned::to_owned);
                    done.failed.push(Failed { name, failure });
                }
            }
        }
        Ok(done)
    }

    fn fold(
        &self,
        conversation_index: usize,
        conversation: &'a Conversation,
        transcript: &Transcript,
        aimed: Aimed,
        provider: ProviderCounts,
    ) -> Result<Folded<'a>, Failure> {
        let dialect = self.dialect();
        let mut before = seen(conversation, transcript, self.arguments.ways.from.unwrap_or_default());
        let name = self.named(conversation).display().to_string();
        self.staying.check(&name, before.len(), "foldback show --shape")?;
        if self.staying.pins() {
            let from = self.arguments.ways.from.unwrap_or_default();
            let is_pinned = |position, item: &Item| self.staying.is_pinned(position, item);
            before = pinned(conversation, &before, from, is_pinned);
        }
        let mut request = CompactionRequest::new("compact", before.clone(), CompactionReason::Manual)
            .with_budget(aimed.budget);
        request.dialect = dialect;
        request.focus = self.arguments.ways.focus.as_deref().map(Into::into);
        request.keep = self.staying.lines().cloned();
        let failed = |error| {
            let error = provider.in_error(error);
            let places = Places::new(&self.opened.path, conversation, &before);
            let items = places.to_blame(&error);
            Failure::Compaction { path: self.named(conversation), error: Box::new(error), items }
        };
        let strategy = self.policy.strategy();
        let (outcome, account) = match self.summarizer.filter(|_| !self.arguments.dry_run) {
            None => (compact(request.execution(strategy)).map_err(failed)?, None),
            Some((summarizer, runtime)) => {
                let compacted = runtime.block_on(summarizer.compact(strategy, &request));
                let (outcome, account) = compacted.map_err(failed)?;
                account.warn(&self.named(conversation).display().to_string());
                (outcome, Some(account))
            }
        };
        let keeps = self.arguments.ways.from.unwrap_or_default().keeps(conversation);
        let committed = self.session().committed(conversation, &outcome.view, keeps);
        let violations = check(committed.sent.iter().map(|sent| &sent.item), dialect);
        if !violations.is_empty() {
            let strategy = outcome.strategy.to_string();
            return Err(failed(Refusal::Invalid { strategy, violations }.into()));
        }
        let kept = self.staying.fates(&outcome.view);
        Ok(Folded { conversation_index, aimed, provider, outcome, committed, account, kept })
    }

    /// The file, with the conversation where that has a name.
    fn named(&self, conversation: &Conversation) -> PathBuf {
        match conversation.name() {
            Some(name) => format!("{} ({name})", self.opened.path.display()).into(),
            None => self.opened.path.clone(),
        }
    }
}

impl Done<'_> {
    /// What all conversations were to come down to, where that is the same.
    fn target(&self) -> Option<u64> {
        let mut targets = self.folded.iter().map(|folded| folded.aimed.target_tokens.0);
        let first = targets.next()?;
        targets.all(|target| target == first).then_some(first)
    }

    fn is_unchanged(&self) -> bool {
        self.folded.iter().all(Folded::is_unchanged)
    }

    /// Of several that failed, the worst.
    fn exit(&self) -> Exit {
        self.failed.iter().map(|failed| failed.failure.exit()).max().unwrap_or(Exit::Success)
    }

    fn tell_failed(&self) {
        self.failed.iter().take(FAILED_TOLD_MAX).for_each(|failed| failed.failure.report());
        if self.failed.len() > FAILED_TOLD_MAX {
            let more = terminal::counted(self.failed.len() - FAILED_TOLD_MAX, "more conversation");
            terminal::error(&format!("{more} could not be compacted"));
        }
    }

    /// What to write; none where nothing changes and the bytes stay what they are. `whole` is where the
    /// session is put if all of its bytes are needed for that.
    fn written<'s>(
        &self,
        job: &Job<'_>,
        whole: &'s mut Option<SessionFile>,
    ) -> Result<Option<Written<'s>>, Failure> {
        let session = job.session();
        let ([folded], []) = (&self.folded[..], &self.failed[..]) else {
            if self.is_unchanged() {
                return Ok(None);
            }
            let mut each: Vec<(&Conversation, Option<&Committed<'_>>)> =
                session.conversations().iter().map(|conversation| (conversation, None)).collect();
            for folded in self.folded.iter().filter(|folded| !folded.is_unchanged()) {
                each[folded.conversation_index].1 = Some(&folded.committed);
            }
            return Ok(Some(session.compacted_native(&each)));
        };
        if job.arguments.fresh {
            let format = if session.format().is_writable() { session.format() } else { Format::Native };
            let fresh = write(format, &folded.committed.sent, Some(whole.insert(job.opened.whole()?)));
            return fresh.map(Some).map_err(|error| Failure::Format { path: job.opened.path.clone(), error });
        }
        let from_history = job.arguments.ways.from == Some(Extent::History);
        let was_compacted = folded.committed.conversation.block_count() > 0;
        if folded.is_unchanged() && !(from_history && was_compacted) {
            return Ok(None);
        }
        let file = job.opened.file();
        if let Some(behind) = file.and_then(|file| session.compacted_behind(file, &folded.committed)) {
            return Ok(Some(behind));
        }
        Ok(Some(whole.insert(job.opened.whole()?).compacted(&folded.committed)))
    }

    fn write(
        &self,
        job: &Job<'_>,
        destination: &Destination,
        begun: Option<Begun<'_>>,
    ) -> Result<Option<WrittenReport>, Failure> {
        // Nothing was done: a copy of the input would look as if something were.
        if self.folded.is_empty() && !self.failed.is_empty() {
            return Ok(None);
        }
        let mut whole = None;
        let written = self.written(job, &mut whole)?;
        let is_dry = job.arguments.dry_run;
        let place = match is_dry {
            true => destination.look(job.opened).map(|()| None)?,
            false => destination.write(job.opened, written.as_ref(), begun)?,
        };
        let fresh = if job.arguments.fresh { Fresh::AskedFor } else { Fresh::WhereNeeded };
        let losses = written.as_ref().map_or_else(Vec::new, |written| self.losses(job, &written.losses));
        let report = || WrittenReport::new(place.as_ref(), job.opened, written.as_ref(), losses, fresh);
        Ok((is_dry || place.is_some()).then(report))
    }

    /// What could not be written, with its place; only formats of one conversation lose anything.
    fn losses(&self, job: &Job<'_>, losses: &[Loss]) -> Vec<String> {
        let Some(folded) = self.folded.first().filter(|_| !losses.is_empty()) else { return Vec::new() };
        let conversation = &job.session().conversations()[folded.conversation_index];
        let places = Places::new(&job.opened.path, conversation, &folded.outcome.before);
        losses.iter().map(|loss| format!("{}: {}", places.of(&loss.item_id), places.loss(loss))).collect()
    }

    fn report(&self, job: &Job<'_>, written: Option<WrittenReport>) -> CompactReport {
        let session = job.session();
        let (written, would_write) = match job.arguments.dry_run {
            true => (None, written),
            false => (written, None),
        };
        CompactReport {
            file: job.opened.path.display().to_string(),
            format: session.format().as_str(),
            dialect: self.dialect.map(Dialect::as_str),
            counter: job.counter.name().to_owned(),
            from: job.arguments.ways.from.unwrap_or_default(),
            policy: job.policy.name().to_owned(),
            model: self.model.report(),
            window: self
                .folded
                .first()
                .and_then(|folded| folded.aimed.window.as_ref())
                .map(WindowReport::from),
            target: self.target().filter(|_| policy::aims(job.policy)),
            conversations: self
                .folded
                .iter()
                .map(|folded| FoldedReport::new(folded, job.opened, job.policy))
                .collect(),
            failed: self.failed.iter().map(FailedReport::new).collect(),
            written,
            would_write,
        }
    }
}
