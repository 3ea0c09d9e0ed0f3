//! Compactions that wait to be done in the background.

use std::time::Duration;

use foldback_core::Timestamp;
use foldback_engine::StoreError;
use foldback_engine::store::{Job, JobOutcome, JobState, Lease, QueuedJob};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::Fault;
use super::sessions::{find, find_loop};
use crate::rows::{JOB_FAILED, JOB_IDLE, JOB_RUNNING, JOB_WAITING, read_reason, write_reason};

pub(super) fn enqueue(db: &mut Connection, job: &Job, now: Timestamp) -> Result<(), Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let session = find(&change, &job.session)?;
    find_loop(&change, &session, &job.loop_id)?;
    change.execute(
        "INSERT INTO jobs (session, loop, reason, state, again, token, attempts, enqueued_at, lease_until)
         VALUES (?1, ?2, ?3, ?4, 0, 0, 0, ?5, 0)
         ON CONFLICT (session) DO UPDATE SET
           again = (state = ?6),
           attempts = iif(state IN (?6, ?4), attempts, 0),
           enqueued_at = iif(state IN (?6, ?4), enqueued_at, excluded.enqueued_at),
           loop = iif(state = ?6, loop, excluded.loop),
           reason = iif(state = ?6, reason, excluded.reason),
           state = iif(state = ?6, state, ?4)",
        params![
            session.key,
            job.loop_id.as_str(),
            write_reason(&job.reason),
            JOB_WAITING,
            now.0,
            JOB_RUNNING
        ],
    )?;
    change.commit()?;
    Ok(())
}

pub(super) fn claim(
    db: &mut Connection,
    worker: &str,
    lease: Duration,
    now: Timestamp,
) -> Result<Option<Lease>, Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    give_up(&change, now)?;
    let found = change
        .prepare_cached(
            "SELECT j.session, s.name, j.loop, j.reason, j.token, j.attempts
             FROM jobs j JOIN sessions s ON s.id = j.session
             WHERE j.state = ?1 OR (j.state = ?2 AND j.lease_until <= ?3)
             ORDER BY j.enqueued_at, j.session LIMIT 1",
        )?
        .query_row(params![JOB_WAITING, JOB_RUNNING, now.0], |row| {
            let names: (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get::<_, i64>(0)?, names, row.get::<_, i64>(4)?, row.get::<_, u32>(5)?))
        })
        .optional()?;
    let Some((key, (session, loop_id, reason), token, attempts)) = found else {
        change.commit()?;
        return Ok(None);
    };
    let (token, attempt) = (token + 1, attempts + 1);
    change.execute(
        "UPDATE jobs SET state = ?2, worker = ?3, token = ?4, attempts = ?5, lease_until = ?6 WHERE session = ?1",
        params![key, JOB_RUNNING, worker, token, attempt, until(now, lease)],
    )?;
    change.commit()?;
    let job = Job { session: session.into(), loop_id: loop_id.into(), reason: read_reason(&reason)? };
    Ok(Some(Lease { job, token: token.unsigned_abs(), attempt }))
}

/// Workers that were not heard of too often: there is something about the job.
fn give_up(change: &Transaction<'_>, now: Timestamp) -> Result<(), Fault> {
    change.execute(
        "UPDATE jobs SET state = ?1, worker = NULL, failure = 'its workers were not heard of again'
         WHERE state = ?2 AND lease_until <= ?3 AND attempts >= ?4",
        params![JOB_FAILED, JOB_RUNNING, now.0, JobOutcome::ATTEMPTS_MAX],
    )?;
    Ok(())
}

pub(super) fn renew(
    db: &mut Connection,
    lease: &Lease,
    duration: Duration,
    now: Timestamp,
) -> Result<(), Fault> {
    let session = &lease.job.session;
    let kept = db.execute(
        "UPDATE jobs SET lease_until = ?4
         WHERE session = (SELECT id FROM sessions WHERE name = ?1) AND token = ?2 AND state = ?3",
        params![session.as_str(), lease.token as i64, JOB_RUNNING, until(now, duration)],
    )?;
    if kept == 1 { Ok(()) } else { Err(StoreError::LeaseLost { session: session.clone() }.into()) }
}

pub(super) fn finish(
    db: &mut Connection,
    lease: &Lease,
    outcome: &JobOutcome,
    now: Timestamp,
) -> Result<(), Fault> {
    let session = &lease.job.session;
    let (idle, failure) = match outcome {
        JobOutcome::Done => (JOB_IDLE, None),
        JobOutcome::Retry { why } if lease.attempt >= JobOutcome::ATTEMPTS_MAX => (JOB_FAILED, Some(why)),
        JobOutcome::Retry { why } => (JOB_WAITING, Some(why)),
    };
    let attempts = if idle == JOB_WAITING { lease.attempt } else { 0 };
    let ended = db.execute(
        "UPDATE jobs SET
           state = iif(again, ?4, ?5), attempts = iif(again, 0, ?6), again = 0, worker = NULL,
           enqueued_at = ?7, lease_until = 0, failure = ?8
         WHERE session = (SELECT id FROM sessions WHERE name = ?1) AND token = ?2 AND state = ?3",
        params![
            session.as_str(),
            lease.token as i64,
            JOB_RUNNING,
            JOB_WAITING,
            idle,
            attempts,
            now.0,
            failure
        ],
    )?;
    if ended == 1 { Ok(()) } else { Err(StoreError::LeaseLost { session: session.clone() }.into()) }
}

pub(super) fn list(db: &Connection) -> Result<Vec<QueuedJob>, Fault> {
    let mut statement = db.prepare(
        "SELECT s.name, j.loop, j.reason, j.state, j.worker, j.attempts, j.enqueued_at, j.failure
         FROM jobs j JOIN sessions s ON s.id = j.session WHERE j.state <> ?1 ORDER BY j.enqueued_at, j.session",
    )?;
    let mut rows = statement.query([JOB_IDLE])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        let (session, loop_id, reason): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let state = match row.get::<_, i64>(3)? {
            JOB_RUNNING => JobState::Running,
            JOB_FAILED => JobState::Failed,
            _ => JobState::Waiting,
        };
        jobs.push(QueuedJob {
            job: Job { session: session.into(), loop_id: loop_id.into(), reason: read_reason(&reason)? },
            state,
            worker: row.get(4)?,
            attempts: row.get(5)?,
            enqueued_at: Timestamp(row.get(6)?),
            failure: row.get(7)?,
        });
    }
    Ok(jobs)
}

fn until(now: Timestamp, lease: Duration) -> i64 {
    now.0.saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
}
