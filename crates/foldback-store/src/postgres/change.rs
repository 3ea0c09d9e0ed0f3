//! How the store is changed and read: one transaction each, at a version where it belongs to a session.

use std::sync::atomic::Ordering;

use deadpool_postgres::Transaction;
use foldback_core::{SessionId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{At, Version};
use tokio_postgres::IsolationLevel;

use super::append::SHARE_BODIES;
use super::error::Fault;
use super::{BODY_LOCK, PostgresStore, query, sessions, tail};
use crate::rows::{LoopRow, SessionRow};
use crate::tail::TAIL_BYTES;

/// What a change does with bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bodies {
    Untouched,
    /// It stores some, never while gc looks for those that nothing refers to.
    Stored,
}

impl PostgresStore {
    /// Changes a session at the version that the writer has seen: all of it or nothing.
    pub(super) async fn change(
        &self,
        operation: &'static str,
        session: &SessionId,
        seen: Version,
        work: impl AsyncFnOnce(&Transaction<'_>, &SessionRow) -> Result<(), Fault>,
    ) -> Result<Version, StoreError> {
        self.change_with(operation, session, seen, Bodies::Untouched, work).await
    }

    pub(super) async fn change_with(
        &self,
        operation: &'static str,
        session: &SessionId,
        seen: Version,
        bodies: Bodies,
        work: impl AsyncFnOnce(&Transaction<'_>, &SessionRow) -> Result<(), Fault>,
    ) -> Result<Version, StoreError> {
        self.change_at(operation, session, seen, (bodies, self.options.clock.now()), work).await
    }

    /// The same, at a time that is said.
    pub(super) async fn change_at(
        &self,
        operation: &'static str,
        session: &SessionId,
        seen: Version,
        (bodies, now): (Bodies, Timestamp),
        work: impl AsyncFnOnce(&Transaction<'_>, &SessionRow) -> Result<(), Fault>,
    ) -> Result<Version, StoreError> {
        let changed = async {
            let mut connection = self.connection().await?;
            let change = connection.transaction().await?;
            if bodies == Bodies::Stored {
                query(&change, SHARE_BODIES, &[&BODY_LOCK]).await?;
            }
            let row = sessions::lock(&change, session).await?;
            if row.version != seen {
                let (expected, actual) = (seen, row.version);
                return Err(StoreError::Conflict { session: session.clone(), expected, actual }.into());
            }
            work(&change, &row).await?;
            let sql = "UPDATE sessions SET version = version + 1, updated_at = greatest(updated_at, $2) WHERE id = $1";
            query(&change, sql, &[&row.key, &now.0]).await?;
            change.commit().await?;
            Ok(Version(row.version.0 + 1))
        };
        changed.await.map_err(self.at(operation))
    }

    /// Changes a loop of a session, likewise.
    pub(super) async fn change_loop(
        &self,
        operation: &'static str,
        at: &At<'_>,
        work: impl AsyncFnOnce(&Transaction<'_>, &SessionRow, &LoopRow) -> Result<(), Fault>,
    ) -> Result<Version, StoreError> {
        let find = async |db: &Transaction<'_>, session: &SessionRow| {
            let target = sessions::find_loop(db, session, at.loop_id).await?;
            work(db, session, &target).await
        };
        self.change(operation, at.session, at.version, find).await
    }

    /// Changes what belongs to no version.
    pub(super) async fn write<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let written = async {
            let mut connection = self.connection().await?;
            let change = connection.transaction().await?;
            let answer = work(&change).await?;
            change.commit().await?;
            Ok(answer)
        };
        written.await.map_err(self.at(operation))
    }

    /// Settles the first of what was appended. Answers how many items.
    pub(super) async fn settle_some(&self) -> Result<usize, Fault> {
        let mut connection = self.connection().await?;
        let change = connection.transaction().await?;
        let (settled, freed) = tail::settle_some(&change).await?;
        change.commit().await?;
        // Nothing left: whatever else was counted, somebody else settled.
        let left = |length: u64| Some(if settled == 0 { 0 } else { length.saturating_sub(freed) });
        let _counted = self.tail.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        Ok(settled)
    }

    /// Settles at least so many items, as far as there are any, in several changes. Answers how many.
    pub(super) async fn settle(&self, items_min: usize) -> Result<usize, Fault> {
        let mut settled = 0;
        while settled < items_min {
            match self.settle_some().await? {
                0 => break,
                count => settled += count,
            }
        }
        Ok(settled)
    }

    /// Settles a tail that has become long, in the background and a little at a time.
    pub(super) fn lengthen_tail(&self, bytes: u64) {
        let length = self.tail.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if length < TAIL_BYTES || self.tail.is_settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            if let Err(fault) = store.settle(usize::MAX).await {
                // It stays where it is, and is read from there.
                let error = fault.at("settling", &store.location);
                tracing::warn!(%error, "items that were appended could not be compressed");
            }
            store.tail.is_settling.store(false, Ordering::Release);
        });
    }

    /// Reads, all of one moment.
    pub(super) async fn read<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let answered = async {
            let mut connection = self.connection().await?;
            let read = connection
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()
                .await?;
            let answer = work(&read).await?;
            read.commit().await?;
            Ok(answer)
        };
        answered.await.map_err(self.at(operation))
    }
}
