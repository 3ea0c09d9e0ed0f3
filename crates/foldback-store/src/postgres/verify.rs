//! Reading everything, and making anew what can be derived.

use deadpool_postgres::Transaction;
use foldback_core::Handle;
use foldback_engine::StoreError;
use foldback_engine::store::{ProblemKind, Repairs, VerifyReport};

use super::blocks::list_handles;
use super::error::Fault;
use super::read::{BodyRow, with_bodies};
use super::sessions::all_loops;
use super::{BODY_LOCK, query, tail};
use crate::body::{self, corrupt};
use crate::rows::{LoopRow, SessionRow, index, miscounted, segments, version};
use crate::verify::{Findings, SoundBlocks};

/// Bodies and items that are read at a time.
const BATCH_ROWS: i64 = 2_000;

pub(super) async fn verify(db: &Transaction<'_>, repairs: Repairs) -> Result<VerifyReport, Fault> {
    query(db, "SELECT pg_advisory_xact_lock($1)", &[&BODY_LOCK]).await?;
    let mut inspection = Inspection { db, findings: Findings::new(repairs) };
    inspection.bodies().await?;
    for row in query(db, "SELECT id, version, name FROM sessions ORDER BY id", &[]).await? {
        let session = SessionRow { key: row.get(0), version: version(row.get(1)) };
        inspection.findings.report.session_count += 1;
        inspection.session(&session, row.get(2)).await?;
    }
    Ok(inspection.findings.report)
}

struct Inspection<'c> {
    db: &'c Transaction<'c>,
    findings: Findings,
}

impl Inspection<'_> {
    fn found(&mut self, kind: ProblemKind, what: String, can_be_repaired: bool) {
        self.findings.found(kind, what, can_be_repaired);
    }

    /// Every body is there, and what its name says.
    async fn bodies(&mut self) -> Result<(), Fault> {
        let mut after = 0_i64;
        loop {
            let sql = "SELECT b.id, b.pack, b.start, b.length, b.hash, p.id FROM bodies b
                LEFT JOIN packs p ON p.id = b.pack WHERE b.id > $1 ORDER BY b.id LIMIT $2";
            let rows = query(self.db, sql, &[&after, &BATCH_ROWS]).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.get(0);
            self.findings.report.body_count += rows.len();
            let (there, gone): (Vec<_>, Vec<_>) =
                rows.iter().partition(|row| row.get::<_, Option<i64>>(5).is_some());
            for row in gone {
                let what = format!("body {}: its pack is missing", row.get::<_, i64>(0));
                self.found(ProblemKind::Body, what, false);
            }
            let bodies: Vec<BodyRow> = there.iter().map(|row| BodyRow::of(row, 1)).collect();
            let mut wrong = Vec::new();
            with_bodies(self.db, &bodies, |number, bytes, hash| {
                wrong.extend(body::check(bytes, hash).err().map(|error| (number, error)));
                Ok(())
            })
            .await?;
            for (number, error) in wrong {
                self.found(
                    ProblemKind::Body,
                    format!("body {}: {error}", there[number].get::<_, i64>(0)),
                    false,
                );
            }
        }
    }

    async fn session(&mut self, session: &SessionRow, name: &str) -> Result<(), Fault> {
        let blocks = self.blocks(session, name).await?;
        let loops = all_loops(self.db, session).await?;
        let mut rows: Vec<&LoopRow> = loops.values().collect();
        rows.sort_by_key(|row| row.key);
        for row in rows {
            let place = format!("session {name}, loop {}", row.name);
            if let Err(error) = segments(&loops, row, &(0..usize::MAX)) {
                self.found(ProblemKind::Items, format!("{place}: {error}"), false);
            }
            self.items(row, &place).await?;
            self.original(row, &place).await?;
            self.stack(row, &blocks, &place).await?;
        }
        Ok(())
    }

    async fn blocks(&mut self, session: &SessionRow, name: &str) -> Result<SoundBlocks, Fault> {
        let mut blocks = SoundBlocks::default();
        let sql = "SELECT number, parent, reach, data, splice FROM blocks WHERE session = $1 ORDER BY number";
        for row in query(self.db, sql, &[&session.key]).await? {
            let number: i64 = row.get(0);
            let place = format!("session {name}, block {number}");
            let columns = (number, row.get(1), row.get(2));
            let looked = blocks.look(&mut self.findings, &place, columns, (row.get(3), row.get(4)))?;
            let Some((block, sealed)) = looked else { continue };
            if let Some(sealed) = sealed {
                let sql = "UPDATE blocks SET splice = $3 WHERE session = $1 AND number = $2";
                query(self.db, sql, &[&session.key, &number, &sealed]).await?;
            }
            if list_handles(self.db, session, number, &block).await? > 0 {
                self.found(ProblemKind::Handle, format!("{place} has handles that are not listed"), true);
            }
        }
        Ok(blocks)
    }

    /// The items that a loop has of its own, without gaps, each with its body and its handle.
    async fn items(&mut self, row: &LoopRow, place: &str) -> Result<(), Fault> {
        let mut expected = row.shared;
        let sql = "SELECT i.position, i.handle, b.pack, b.start, b.length, b.hash FROM items i
            JOIN bodies b ON b.id = i.body JOIN packs p ON p.id = b.pack
            WHERE i.loop = $1 AND i.position >= $2 ORDER BY i.position LIMIT $3";
        loop {
            let rows = query(self.db, sql, &[&row.key, &expected, &BATCH_ROWS]).await?;
            let contiguous =
                rows.iter().zip(expected..).take_while(|(row, at)| row.get::<_, i64>(0) == *at).count();
            let bodies: Vec<BodyRow> = rows[..contiguous].iter().map(|row| BodyRow::of(row, 2)).collect();
            let (mut wrong, mut unreadable) = (Vec::new(), Vec::new());
            with_bodies(self.db, &bodies, |number, bytes, hash| {
                let position: i64 = rows[number].get(0);
                match body::decode_item(bytes, hash) {
                    Ok(item) => {
                        let handle = Handle::of_item(index(position), &item.id).to_string();
                        wrong.extend(
                            (handle != rows[number].get::<_, String>(1)).then_some((position, handle)),
                        );
                    }
                    Err(error) => unreadable.push((position, error)),
                }
                Ok(())
            })
            .await?;
            for (position, handle) in wrong {
                let sql = "UPDATE items SET handle = $3 WHERE loop = $1 AND position = $2";
                query(self.db, sql, &[&row.key, &position, &handle]).await?;
                self.found(ProblemKind::Handle, format!("{place}, item {position}"), true);
            }
            for (position, error) in unreadable {
                self.found(ProblemKind::Body, format!("{place}, item {position}: {error}"), false);
            }
            self.findings.report.item_count += contiguous;
            expected += contiguous as i64;
            if contiguous < rows.len() || (rows.len() as i64) < BATCH_ROWS {
                break;
            }
        }
        let settled = expected;
        let read = tail::each(self.db, row.key, expected..row.item_count, |position, body| {
            body::parse_item(body).map_err(|error| corrupt(format!("item {position}: {error}")))?;
            Ok(())
        });
        match read.await {
            Ok(reached) => expected = reached,
            Err(Fault::Store(StoreError::Corrupt { what })) => {
                self.found(ProblemKind::Body, format!("{place}: {what}"), false);
                return Ok(());
            }
            Err(fault) => return Err(fault),
        }
        self.findings.report.item_count += index(expected - settled);
        if expected != row.item_count {
            // Items behind a gap are no reason to forget them.
            let is_lost = self.is_end_lost(row, expected).await?;
            if is_lost {
                let sql = "UPDATE loops SET item_count = $2 WHERE id = $1";
                query(self.db, sql, &[&row.key, &expected]).await?;
            }
            let what = format!("{place} {}", miscounted(row.item_count, expected, is_lost));
            self.found(ProblemKind::Items, what, is_lost);
        }
        Ok(())
    }

    /// Whether nothing is left of the items from this one on, and nothing speaks of them.
    async fn is_end_lost(&self, row: &LoopRow, position: i64) -> Result<bool, Fault> {
        let sql = "SELECT 1 WHERE EXISTS (SELECT 1 FROM items WHERE loop = $1 AND position >= $2)
            OR EXISTS (SELECT 1 FROM tail WHERE loop = $1 AND position >= $2)
            OR EXISTS (SELECT 1 FROM loops WHERE parent = $1 AND shared > $2)
            OR EXISTS (SELECT 1 FROM blocks WHERE loop = $1 AND reach > $2)";
        Ok(query(self.db, sql, &[&row.key, &position]).await?.is_empty())
    }

    async fn original(&mut self, row: &LoopRow, place: &str) -> Result<(), Fault> {
        let sql =
            "SELECT o.start, o.length FROM originals o JOIN bodies b ON b.id = o.body AND b.length = o.length
            WHERE o.loop = $1 ORDER BY o.start";
        let mut expected = 0;
        for piece in query(self.db, sql, &[&row.key]).await? {
            if piece.get::<_, i64>(0) != expected {
                break;
            }
            expected += piece.get::<_, i64>(1);
        }
        if expected != row.original_bytes {
            let what = format!("{place}: {expected} of {} bytes of its file are there", row.original_bytes);
            self.found(ProblemKind::Original, what, false);
        }
        Ok(())
    }

    async fn stack(&mut self, row: &LoopRow, blocks: &SoundBlocks, place: &str) -> Result<(), Fault> {
        if let Some(kept) = blocks.look_at_stack(&mut self.findings, row, place) {
            query(self.db, "UPDATE loops SET top = $2, tip = $2 WHERE id = $1", &[&row.key, &kept]).await?;
        }
        Ok(())
    }
}
