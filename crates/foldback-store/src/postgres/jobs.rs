//! Compactions that wait to be done in the background, for workers on any machine.

use std::time::Duration;

use deadpool_postgres::Transaction;
use foldback_core::Timestamp;
use foldback_engine::StoreError;
use foldback_engine::store::{Job, JobOutcome, JobState, Lease, QueuedJob};

use super::error::Fault;
use super::sessions::{find, find_loop};
use super::{query, query_opt};
use crate::rows::{JOB_FAILED, JOB_IDLE, JOB_RUNNING, JOB_WAITING, read_reason, write_reason};

pub(super) async fn enqueue(db: &Transaction<'_>, job: &Job) -> Result<(), Fault> {
    let session = find(db, &job.session).await?;
    find_loop(db, &session, &job.loop_id).await?;
    let sql =
        "INSERT INTO jobs (session, loop, reason, state, again, token, attempts, enqueued_at, lease_until)
        VALUES ($1, $2, $3, $4, false, 0, 0, clock_timestamp(), to_timestamp(0))
        ON CONFLICT (session) DO UPDATE SET
          again = jobs.state = $5,
          attempts = CASE WHEN jobs.state IN ($4, $5) THEN jobs.attempts ELSE 0 END,
          enqueued_at = CASE WHEN jobs.state IN ($4, $5) THEN jobs.enqueued_at ELSE excluded.enqueued_at END,
          loop = CASE WHEN jobs.state = $5 THEN jobs.loop ELSE excluded.loop END,
          reason = CASE WHEN jobs.state = $5 THEN jobs.reason ELSE excluded.reason END,
          state = CASE WHEN jobs.state = $5 THEN jobs.state ELSE $4::BIGINT END";
    let reason = write_reason(&job.reason);
    query(db, sql, &[&session.key, &job.loop_id.as_str(), &reason, &JOB_WAITING, &JOB_RUNNING]).await?;
    Ok(())
}

pub(super) async fn claim(
    db: &Transaction<'_>,
    worker: &str,
    lease: Duration,
) -> Result<Option<Lease>, Fault> {
    // Workers that were not heard of too often: there is something about the job.
    let give_up = "UPDATE jobs SET state = $1, worker = NULL, failure = 'its workers were not heard of again'
        WHERE session IN (
          SELECT session FROM jobs WHERE state = $2 AND lease_until <= clock_timestamp() AND attempts >= $3
          FOR UPDATE SKIP LOCKED)";
    let attempts_max = i64::from(JobOutcome::ATTEMPTS_MAX);
    query(db, give_up, &[&JOB_FAILED, &JOB_RUNNING, &attempts_max]).await?;
    let take = "UPDATE jobs j SET state = $2, worker = $3, token = j.token + 1, attempts = j.attempts + 1,
          lease_until = clock_timestamp() + $4 * interval '1 millisecond'
        FROM sessions s
        WHERE s.id = j.session AND j.session = (
          SELECT session FROM jobs
          WHERE state = $1 OR (state = $2 AND lease_until <= clock_timestamp())
          ORDER BY enqueued_at, session LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING s.name, j.loop, j.reason, j.token, j.attempts";
    let row = query_opt(db, take, &[&JOB_WAITING, &JOB_RUNNING, &worker, &millis(lease)]).await?;
    let lease = row.map(|row| {
        let (session, loop_id): (String, String) = (row.get(0), row.get(1));
        let job = Job { session: session.into(), loop_id: loop_id.into(), reason: read_reason(row.get(2))? };
        Ok::<_, StoreError>(Lease {
            job,
            token: row.get::<_, i64>(3).unsigned_abs(),
            attempt: row.get::<_, i64>(4).unsigned_abs() as u32,
        })
    });
    Ok(lease.transpose()?)
}

pub(super) async fn renew(db: &Transaction<'_>, lease: &Lease, duration: Duration) -> Result<(), Fault> {
    let session = &lease.job.session;
    let sql = "UPDATE jobs SET lease_until = clock_timestamp() + $4 * interval '1 millisecond'
        WHERE session = (SELECT id FROM sessions WHERE name = $1) AND token = $2 AND state = $3 RETURNING token";
    let token = lease.token as i64;
    let kept = query(db, sql, &[&session.as_str(), &token, &JOB_RUNNING, &millis(duration)]).await?;
    if kept.len() == 1 { Ok(()) } else { Err(StoreError::LeaseLost { session: session.clone() }.into()) }
}

pub(super) async fn finish(db: &Transaction<'_>, lease: &Lease, outcome: &JobOutcome) -> Result<(), Fault> {
    let session = &lease.job.session;
    let (state, failure) = match outcome {
        JobOutcome::Done => (JOB_IDLE, None),
        JobOutcome::Retry { why } if lease.attempt >= JobOutcome::ATTEMPTS_MAX => (JOB_FAILED, Some(why)),
        JobOutcome::Retry { why } => (JOB_WAITING, Some(why)),
    };
    let attempts = if state == JOB_WAITING { i64::from(lease.attempt) } else { 0 };
    let sql = "UPDATE jobs SET
          state = CASE WHEN again THEN $4::BIGINT ELSE $5::BIGINT END,
          attempts = CASE WHEN again THEN 0 ELSE $6::BIGINT END,
          again = false, worker = NULL, enqueued_at = clock_timestamp(), lease_until = to_timestamp(0), failure = $7
        WHERE session = (SELECT id FROM sessions WHERE name = $1) AND token = $2 AND state = $3 RETURNING token";
    let token = lease.token as i64;
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&session.as_str(), &token, &JOB_RUNNING, &JOB_WAITING, &state, &attempts, &failure];
    let ended = query(db, sql, &parameters).await?;
    if ended.len() == 1 { Ok(()) } else { Err(StoreError::LeaseLost { session: session.clone() }.into()) }
}

pub(super) async fn list(db: &Transaction<'_>) -> Result<Vec<QueuedJob>, Fault> {
    let sql = "SELECT s.name, j.loop, j.reason, j.state, j.worker, j.attempts,
          (extract(epoch FROM j.enqueued_at) * 1000)::BIGINT, j.failure
        FROM jobs j JOIN sessions s ON s.id = j.session WHERE j.state <> $1 ORDER BY j.enqueued_at, j.session";
    let mut jobs = Vec::new();
    for row in query(db, sql, &[&JOB_IDLE]).await? {
        let (session, loop_id): (String, String) = (row.get(0), row.get(1));
        let state = match row.get::<_, i64>(3) {
            JOB_RUNNING => JobState::Running,
            JOB_FAILED => JobState::Failed,
            _ => JobState::Waiting,
        };
        jobs.push(QueuedJob {
            job: Job { session: session.into(), loop_id: loop_id.into(), reason: read_reason(row.get(2))? },
            state,
            worker: row.get(4),
            attempts: row.get::<_, i64>(5).unsigned_abs() as u32,
            enqueued_at: Timestamp(row.get(6)),
            failure: row.get(7),
        });
    }
    Ok(jobs)
}

fn millis(duration: Duration) -> f64 {
    duration.as_millis() as f64
}
