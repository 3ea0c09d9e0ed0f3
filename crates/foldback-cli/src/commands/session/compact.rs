//! `foldback session compact` and `work`: compactions of sessions in the store, now or by a worker.

use std::sync::Arc;
use std::time::Duration;

use foldback_core::{CompactionReason, Room, Tokens};
use foldback_engine::session::{CompactionConfig, SessionCompaction};
use foldback_engine::store::{Job, JobOutcome};
use foldback_engine::{CompactionContext, Store, StrategyCompactor};

use super::counting_session;
use crate::aim::{Aimed, Target};
use crate::args::Shared;
use crate::args::sessions::{HowToCompact, SessionCompact};
use crate::failure::{Exit, Failure};
use crate::model::ChosenModel;
use crate::provider::ProviderCounts;
use crate::store;
use crate::summarizer::Summarizer;
use crate::terminal::number;
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
    let done = compacted(shared, store, &arguments.id, &arguments.how).await?;
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
        let outcome = match compacted(shared, store, &id, how).await {
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

/// What a compaction came to, and what it aimed for, if it aimed at a size.
struct Compacted {
    done: SessionCompaction,
    aimed: Option<Aimed>,
}

/// Compacts as `foldback compact` does with the file of the session.
async fn compacted(
    shared: &Shared,
    store: &Arc<dyn Store>,
    id: &str,
    how: &HowToCompact,
) -> Result<Compacted, Failure> {
    let HowToCompact { aim, dialect, focus, backend } = how;
    let mut session = counting_session(shared, store, id).await?;
    let model = ChosenModel::of(shared, None);
    let dialect = dialect.or(model.dialect());
    let focus = focus.as_deref().map(Into::into);
    let config = CompactionConfig { dialect, focus, ..CompactionConfig::default() };
    let summarizer = Summarizer::new(shared, backend)?;
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
    let done = session.compact_loops_with(&compactor, &config, budget, &context).await?;
    if let Some(summarizer) = &summarizer {
        summarizer.account().warn(id);
    }
    let aimed = policy::aims(&policy).then_some(aimed);
    Ok(Compacted { done, aimed })
}

fn tell(shared: &Shared, id: &str, compacted: &Compacted) -> Result<(), Failure> {
    let Compacted { done, aimed } = compacted;
    if shared.json {
        return output::print_json(&serde_json::json!({
            "session": id,
            "target": aimed.as_ref().map(|aimed| aimed.budget.target()),
            "tokens_before": done.tokens_before,
            "tokens_after": done.tokens_after,
            "loops": done.loops.iter().map(|each| &each.loop_id).collect::<Vec<_>>(),
        }));
    }
    let (before, after) = (number(done.tokens_before.0), number(done.tokens_after.0));
    let target = aimed.as_ref().map(Aimed::target);
    output::print(&match (done.loops.is_empty(), target) {
        (true, Some(target)) => {
            format!("{id} is already under the target: {before} tokens, the target is {target}\n")
        }
        (true, None) => format!("{id} has nothing to compact: {before} tokens\n"),
        (false, Some(target)) => format!("{before} → {after} tokens (target {target})\n"),
        (false, None) => format!("{before} → {after} tokens\n"),
    })
}
