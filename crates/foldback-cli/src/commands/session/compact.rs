//! `foldback session compact` and `work`: compactions of sessions in the store, now or by a worker.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use foldback_core::{CompactionReason, Dialect, ItemId, Room, Tokens};
use foldback_engine::session::{CompactionConfig, SessionCompaction, StoredSession};
use foldback_engine::store::{Job, JobOutcome};
use foldback_engine::{CompactionContext, Store, StrategyCompactor};
use foldback_formats::SessionFile;

use super::counting_session;
use super::export::original;
use super::import::{DIALECT_NOTE, MODEL_NOTE};
use crate::aim::{Aimed, Target};
use crate::args::sessions::{HowToCompact, SessionCompact};
use crate::args::{Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::model::ChosenModel;
use crate::provider::ProviderCounts;
use crate::staying::{KeptReport, Staying};
use crate::store;
use crate::summarizer::Summarizer;
use crate::terminal::number;
use crate::values::dialect_named;
use crate::{output, policy};

/// How long a worker has a job for itself before another may take it.
const LEASE: Duration = Duration::from_secs(600);

/// A window that any session fits into.
const TOKENS_ALL: Tokens = Tokens(1 << 40);

/// Jobs that one call does; those that are left wait for the next.
const JOBS_MAX: usize = 1_000;

/// Compacts a session.
pub(super) async fn now(
    shared: &Shared,
    store: &Arc<dyn Store>,
    arguments: &SessionCompact,
) -> Result<(), Failure> {
    let effect = if arguments.dry_run { Effect::Reported } else { Effect::Stored };
    let done = compacted(shared, store, &arguments.id, (&arguments.how, effect)).await?;
    tell(shared, &arguments.id, &done)
}

/// Leaves a compaction to a worker.
pub(super) async fn later(
    shared: &Shared,
    store: &Arc<dyn Store>,
    arguments: &SessionCompact,
) -> Result<(), Failure> {
    let session = store::find(store, &arguments.id).await?;
    let loop_id = store.session(&session).await?.current_loop;
    store.enqueue(&Job { session, loop_id, reason: CompactionReason::Manual }).await?;
    match shared.json {
        true => output::print_json(&serde_json::json!({ "session": arguments.id, "waits": true })),
        false => output::print(&format!("{} waits for `foldback session work`\n", arguments.id)),
    }
}

/// Does the compactions that wait, one after the other. A job that fails is tried again later.
pub(super) async fn work(
    shared: &Shared,
    store: &Arc<dyn Store>,
    how: &HowToCompact,
) -> Result<Exit, Failure> {
    let worker = format!("foldback-{}", std::process::id());
    let mut failed = Vec::new();
    for _ in 0..JOBS_MAX {
        let Some(lease) = store.claim(&worker, LEASE).await? else { break };
        let id = lease.job.session.to_string();
        let outcome = match compacted(shared, store, &id, (how, Effect::Stored)).await {
            Ok(done) => {
                tell(shared, &id, &done)?;
                JobOutcome::Done
            }
            Err(failure) => {
                let why = failure.what();
                failed.push(failure);
                JobOutcome::Retry { why }
            }
        };
        store.finish(&lease, &outcome).await?;
        if !failed.is_empty() {
            // What failed would be the next one again.
            break;
        }
    }
    failed.iter().for_each(Failure::report);
    Ok(failed.first().map_or(Exit::Success, Failure::exit))
}

/// What is done with a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Stored,
    /// Nothing but a report, without a model.
    Reported,
}

/// What a compaction came to, and what it aimed for, if it aimed at a size.
struct Compacted {
    done: SessionCompaction,
    aimed: Option<Aimed>,
    kept: Option<KeptReport>,
    dialect: Option<Dialect>,
    effect: Effect,
}

/// Compacts as `foldback compact` does with the file of the session.
async fn compacted(
    shared: &Shared,
    store: &Arc<dyn Store>,
    id: &str,
    (how, effect): (&HowToCompact, Effect),
) -> Result<Compacted, Failure> {
    let HowToCompact { aim, ways, backend } = how;
    let staying = Staying::new(ways)?;
    let mut session = counting_session(shared, store, id).await?;
    let spoken = spoken(store, &session).await?;
    let model = ChosenModel::of(shared, spoken.model.as_deref());
    let dialect = ways.dialect.or(spoken.dialect).or(model.dialect());
    let (focus, keep) = (ways.focus.as_deref().map(Into::into), staying.lines().cloned());
    let config = CompactionConfig { dialect, focus, keep, ..CompactionConfig::default() };
    if ways.from == Some(Extent::History) {
        session = session.from_history();
    }
    if staying.pins() {
        session = pinned(session, id, &config, &staying).await?;
    }
    let summarizer = match effect {
        Effect::Stored => Summarizer::new(shared, backend)?,
        Effect::Reported => None,
    };
    let policy = aim.policy()?;
    let before = match aim.target {
        Some(Target::PercentOfSession(_)) => session.context(&config, TOKENS_ALL).await?.tokens,
        _ => Tokens::ZERO,
    };
    let aimed = aim.budget(&policy, &model, before, &ProviderCounts::default())?;
    let budget = aimed.budget;
    if !shared.quiet {
        model.tell(dialect, aimed.window.as_ref());
    }
    let context = summarizer.as_ref().map_or_else(CompactionContext::default, Summarizer::context);
    let compactor = StrategyCompactor::builder()
        .policy(&policy, Room::new(budget.window()))
        .budget(budget)
        .limits(context.limits.clone())
        .build()
        .map_err(|error| Failure::usage(error.to_string(), "look at the policy"))?;
    let done = match effect {
        Effect::Stored => session.compact_loops_with(&compactor, &config, budget, &context).await?,
        Effect::Reported => session.preview_loops_with(&compactor, &config, budget, &context).await?,
    };
    if let Some(summarizer) = &summarizer {
        summarizer.account().warn(id);
    }
    let kept = fates(&session, &done, &staying).await?;
    if !shared.quiet {
        staying.tell_unmatched(id, kept.as_ref());
    }
    let aimed = policy::aims(&policy).then_some(aimed);
    Ok(Compacted { done, aimed, kept, dialect, effect })
}

/// What a session says of the provider that it was recorded with.
struct Spoken {
    dialect: Option<Dialect>,
    model: Option<String>,
}

/// What was noted when the session was imported or, where that was before it was noted, the dialect that
/// its file shows.
async fn spoken(store: &Arc<dyn Store>, session: &StoredSession) -> Result<Spoken, Failure> {
    let notes = store.session(session.id()).await?.metadata;
    let note = |name: &str| notes.get(name).and_then(|note| note.as_str()).map(ToOwned::to_owned);
    let noted = note(DIALECT_NOTE).and_then(|name| dialect_named(&name).ok());
    let dialect = match noted {
        Some(dialect) => Some(dialect),
        None => {
            let file = SessionFile::read(original(store, session).await?).ok();
            file.and_then(|file| file.dialect())
        }
    };
    Ok(Spoken { dialect, model: note(MODEL_NOTE) })
}

/// The session with pins on what is to stay as it is, in the order of `foldback session context`.
async fn pinned(
    session: StoredSession,
    id: &str,
    config: &CompactionConfig,
    staying: &Staying,
) -> Result<StoredSession, Failure> {
    let items = session.context_items(config, TOKENS_ALL).await?;
    staying.check(id, items.len(), "foldback session context")?;
    let stays = items.iter().enumerate().filter(|(position, item)| staying.is_pinned(*position, item));
    let pinned: HashSet<ItemId> = stays.map(|(_, item)| item.id.clone()).collect();
    Ok(session.pinning(move |item| pinned.contains(&item.id)))
}

/// What became of the lines that match `--keep`, in all loops that the model sees.
async fn fates(
    session: &StoredSession,
    done: &SessionCompaction,
    staying: &Staying,
) -> Result<Option<KeptReport>, Failure> {
    if staying.lines().is_none() {
        return Ok(None);
    }
    let views = session.views_after(done).await?;
    Ok(views.iter().filter_map(|view| staying.fates(view)).reduce(KeptReport::plus))
}

fn tell(shared: &Shared, id: &str, compacted: &Compacted) -> Result<(), Failure> {
    let Compacted { done, aimed, kept, dialect, effect } = compacted;
    if shared.json {
        return output::print_json(&serde_json::json!({
            "session": id,
            "target": aimed.as_ref().map(|aimed| aimed.budget.target()),
            "tokens_before": done.tokens_before,
            "tokens_after": done.tokens_after,
            "dialect": dialect.map(Dialect::as_str),
            "kept_lines": kept,
            "stored": *effect == Effect::Stored,
            "loops": done.loops.iter().map(|each| &each.loop_id).collect::<Vec<_>>(),
        }));
    }
    let (before, after) = (number(done.tokens_before.0), number(done.tokens_after.0));
    let target = aimed.as_ref().map(Aimed::target);
    let told = match (done.loops.is_empty(), target) {
        (true, Some(target)) => {
            format!("{id} is already under the target: {before} tokens, the target is {target}\n")
        }
        (true, None) => format!("{id} has nothing to compact: {before} tokens\n"),
        (false, Some(target)) => format!("{before} → {after} tokens (target {target})\n"),
        (false, None) => format!("{before} → {after} tokens\n"),
    };
    let kept = kept.and_then(|kept| kept.told()).map_or_else(String::new, |kept| format!("{kept}\n"));
    let nothing = match effect {
        Effect::Stored => "",
        Effect::Reported => "nothing was stored: --dry-run only reports\n",
    };
    output::print(&format!("{told}{kept}{nothing}"))
}
