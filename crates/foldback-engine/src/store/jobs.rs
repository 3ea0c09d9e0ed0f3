//! Compactions that wait to be done in the background.

use foldback_core::{CompactionReason, LoopId, SessionId, Timestamp};

/// A compaction somebody asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Of which session.
    pub session: SessionId,
    /// Of which loop.
    pub loop_id: LoopId,
    /// Why.
    pub reason: CompactionReason,
}

/// The right to do a job for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    /// What to do.
    pub job: Job,
    /// Tells this lease from every other on the same session.
    pub token: u64,
    /// How often the job was begun, this time included.
    pub attempt: u32,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// It is done.
    Done,
    /// It should be tried again, by whoever comes next; after [`JobOutcome::ATTEMPTS_MAX`] attempts
    /// it is kept as failed.
    Retry {
        /// What went wrong.
        why: String,
    },
}

impl JobOutcome {
    /// How often a job is begun before it counts as failed.
    pub const ATTEMPTS_MAX: u32 = 5;
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// Nobody has it.
    Waiting,
    /// A worker has it.
    Running,
    /// It was begun too often; asking again starts it anew.
    Failed,
}

/// A job and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedJob {
    /// The job.
    pub job: Job,
    /// What becomes of it.
    pub state: JobState,
    /// Who has it.
    pub worker: Option<String>,
    /// How often it was begun.
    pub attempts: u32,
    /// When it was asked for.
    pub enqueued_at: Timestamp,
    /// What went wrong last.
    pub failure: Option<String>,
}
