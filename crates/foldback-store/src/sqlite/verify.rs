//! Reading everything, and making anew what can be derived.

use foldback_core::Handle;
use foldback_engine::StoreError;
use foldback_engine::store::{ProblemKind, Repairs, VerifyReport};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::blocks::list_handles;
use super::error::Fault;
use super::packs::{BodyReader, BodyRow};
use super::sessions::all_loops;
use super::tail;
use crate::body::{self, corrupt};
use crate::rows::{LoopRow, Loops, SessionRow, index, miscounted, version};
use crate::verify::{Findings, SoundBlocks};

pub(super) fn verify(db: &mut Connection, repairs: Repairs) -> Result<VerifyReport, Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut inspection = Inspection { change: &change, findings: Findings::new(repairs) };
    inspection.database()?;
    inspection.bodies()?;
    let mut statement = change.prepare("SELECT id, version, name FROM live_sessions ORDER BY id")?;
    let rows = statement.query_map([], |row| {
        Ok((SessionRow { key: row.get(0)?, version: version(row.get(1)?) }, row.get::<_, String>(2)?))
    })?;
    for (session, name) in rows.collect::<Result<Vec<_>, _>>()? {
        inspection.findings.report.session_count += 1;
        inspection.session(&session, &name)?;
    }
    let report = inspection.findings.report;
    drop(statement);
    match repairs {
        Repairs::None => change.rollback()?,
        Repairs::Derived => change.commit()?,
    }
    Ok(report)
}

struct Inspection<'c> {
    change: &'c Transaction<'c>,
    findings: Findings,
}

impl Inspection<'_> {
    fn found(&mut self, kind: ProblemKind, what: String, can_be_repaired: bool) {
        self.findings.found(kind, what, can_be_repaired);
    }

    fn database(&mut self) -> Result<(), Fault> {
        let mut statement = self.change.prepare("PRAGMA integrity_check(100)")?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
        for line in lines.into_iter().filter(|line| line != "ok") {
            self.found(ProblemKind::Database, line, false);
        }
        let sound = self.change.execute("INSERT INTO search (search) VALUES ('integrity-check')", []);
        if let Err(error) = sound {
            self.change.execute_batch(
                "INSERT INTO search (search) VALUES ('delete-all'); UPDATE search_state SET indexed = 0;",
            )?;
            self.found(ProblemKind::Search, error.to_string(), true);
        }
        Ok(())
    }

    /// Every body is there, and what its name says.
    fn bodies(&mut self) -> Result<(), Fault> {
        let change = self.change;
        let mut reader = BodyReader::new(change);
        let mut statement =
            change.prepare("SELECT id, pack, start, length, hash FROM bodies ORDER BY pack, start")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.findings.report.body_count += 1;
            let id: i64 = row.get(0)?;
            let body =
                BodyRow { pack: row.get(1)?, start: row.get(2)?, length: row.get(3)?, hash: row.get(4)? };
            match reader.with(&body, |bytes| body::check(bytes, &body.hash)) {
                Ok(()) => {}
                Err(Fault::Store(StoreError::Corrupt { what })) => {
                    self.found(ProblemKind::Body, format!("body {id}: {what}"), false);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn session(&mut self, session: &SessionRow, name: &str) -> Result<(), Fault> {
        let blocks = self.blocks(session, name)?;
        let loops = all_loops(self.change, session)?;
        let mut rows: Vec<&LoopRow> = loops.values().collect();
        rows.sort_by_key(|row| row.key);
        for row in rows {
            self.items(row, name)?;
            self.original(row, name)?;
            self.lineage(row, &loops, name);
            self.stack(row, &blocks, name)?;
        }
        Ok(())
    }

    fn blocks(&mut self, session: &SessionRow, name: &str) -> Result<SoundBlocks, Fault> {
        let change = self.change;
        let mut blocks = SoundBlocks::default();
        let mut statement = change.prepare(
            "SELECT number, parent, reach, data, splice FROM blocks WHERE session = ?1 ORDER BY number",
        )?;
        let mut rows = statement.query([session.key])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let place = format!("session {name}, block {number}");
            let (data, stored): (Vec<u8>, Vec<u8>) = (row.get(3)?, row.get(4)?);
            let columns = (number, row.get(1)?, row.get(2)?);
            let looked = blocks.look(&mut self.findings, &place, columns, (&data, &stored))?;
            let Some((block, sealed)) = looked else { continue };
            if let Some(sealed) = sealed {
                let sql = "UPDATE blocks SET splice = ?3 WHERE session = ?1 AND number = ?2";
                change.execute(sql, params![session.key, number, sealed])?;
            }
            self.handles(session, name, number, &block)?;
        }
        Ok(blocks)
    }

    fn handles(
        &mut self,
        session: &SessionRow,
        name: &str,
        number: i64,
        block: &foldback_core::CompactionBlock,
    ) -> Result<(), Fault> {
        let count = || {
            let sql = "SELECT count(*) FROM handles WHERE session = ?1 AND block = ?2";
            self.change.prepare_cached(sql)?.query_row([session.key, number], |row| row.get::<_, i64>(0))
        };
        let listed = count()?;
        list_handles(self.change, session, number, block)?;
        if count()? != listed {
            let what = format!("session {name}, block {number} has handles that are not listed");
            self.found(ProblemKind::Handle, what, true);
        }
        Ok(())
    }

    /// The items that a loop has of its own, without gaps, each with its body and its handle.
    fn items(&mut self, row: &LoopRow, session: &str) -> Result<(), Fault> {
        let change = self.change;
        let place = format!("session {session}, loop {}", row.name);
        let mut reader = BodyReader::new(change);
        let mut statement = change.prepare_cached(
            "SELECT i.position, i.handle, b.pack, b.start, b.length, b.hash
             FROM items i LEFT JOIN bodies b ON b.id = i.body WHERE i.loop = ?1 ORDER BY i.position",
        )?;
        let mut rows = statement.query([row.key])?;
        let mut expected = row.shared;
        while let Some(item) = rows.next()? {
            let position: i64 = item.get(0)?;
            if position != expected {
                break;
            }
            expected += 1;
            self.findings.report.item_count += 1;
            let Some(pack) = item.get::<_, Option<i64>>(2)? else {
                self.found(
                    ProblemKind::Body,
                    format!("{place}, item {position}: its body is missing"),
                    false,
                );
                continue;
            };
            let body = BodyRow { pack, start: item.get(3)?, length: item.get(4)?, hash: item.get(5)? };
            let handle: String = item.get(1)?;
            match reader.with(&body, |bytes| body::decode_item(bytes, &body.hash)) {
                Ok(item) if Handle::of_item(index(position), &item.id).as_str() == handle => {}
                Ok(item) => {
                    let handle = Handle::of_item(index(position), &item.id);
                    let sql = "UPDATE items SET handle = ?3 WHERE loop = ?1 AND position = ?2";
                    change.execute(sql, params![row.key, position, handle.as_str()])?;
                    self.found(ProblemKind::Handle, format!("{place}, item {position}"), true);
                }
                Err(Fault::Store(error)) => {
                    self.found(ProblemKind::Body, format!("{place}, item {position}: {error}"), false);
                }
                Err(fault) => return Err(fault),
            }
        }
        drop(rows);
        let end = row.item_count.max(expected);
        let read = tail::each(change, row.key, expected..end, |position, body| {
            tail::decode(body).map_err(|error| corrupt(format!("item {position}: {error}")))?;
            Ok(())
        });
        match read {
            Ok(reached) => {
                self.findings.report.item_count += index(reached - expected);
                expected = reached;
            }
            Err(Fault::Store(error)) => {
                self.found(ProblemKind::Body, format!("{place}, behind item {expected}: {error}"), false);
                return Ok(());
            }
            Err(fault) => return Err(fault),
        }
        if expected != row.item_count {
            // Downwards only where nothing is left of what follows: items behind a gap are no reason to
            // forget them.
            let is_lost = expected < row.item_count && self.is_end_lost(row, expected)?;
            let can_be_repaired = expected > row.item_count || is_lost;
            if can_be_repaired {
                change.execute("UPDATE loops SET item_count = ?2 WHERE id = ?1", [row.key, expected])?;
                change
                    .execute("UPDATE tail_ends SET item_count = ?2 WHERE loop = ?1", [row.key, expected])?;
            }
            let what = format!("{place} {}", miscounted(row.item_count, expected, is_lost));
            self.found(ProblemKind::Items, what, can_be_repaired);
        }
        Ok(())
    }

    /// Whether nothing is left of the items from this one on, and nothing speaks of them.
    fn is_end_lost(&self, row: &LoopRow, position: i64) -> Result<bool, Fault> {
        let sql = "SELECT EXISTS (SELECT 1 FROM items WHERE loop = ?1 AND position >= ?2)
            OR EXISTS (SELECT 1 FROM loops WHERE parent = ?1 AND shared > ?2)
            OR EXISTS (SELECT 1 FROM blocks WHERE loop = ?1 AND reach > ?2)";
        let is_left: bool = self.change.query_row(sql, [row.key, position], |row| row.get(0))?;
        Ok(!is_left && !tail::goes_on(self.change, row.key, position)?)
    }

    fn original(&mut self, row: &LoopRow, session: &str) -> Result<(), Fault> {
        let mut statement = self.change.prepare_cached(
            "SELECT o.start, o.length, b.length FROM originals o LEFT JOIN bodies b ON b.id = o.body
             WHERE o.loop = ?1 ORDER BY o.start",
        )?;
        let mut rows = statement.query([row.key])?;
        let mut expected = 0;
        while let Some(piece) = rows.next()? {
            let (start, length): (i64, i64) = (piece.get(0)?, piece.get(1)?);
            if start != expected || piece.get::<_, Option<i64>>(2)? != Some(length) {
                break;
            }
            expected += length;
        }
        if expected != row.original_bytes {
            let place = format!("session {session}, loop {}", row.name);
            let what = format!("{place}: {expected} of {} bytes of its file are there", row.original_bytes);
            self.found(ProblemKind::Original, what, false);
        }
        Ok(())
    }

    fn lineage(&mut self, row: &LoopRow, loops: &Loops, session: &str) {
        if let Err(error) = crate::rows::segments(loops, row, &(0..usize::MAX)) {
            self.found(ProblemKind::Items, format!("session {session}, loop {}: {error}", row.name), false);
        }
    }

    fn stack(&mut self, row: &LoopRow, blocks: &SoundBlocks, session: &str) -> Result<(), Fault> {
        let place = format!("session {session}, loop {}", row.name);
        if let Some(kept) = blocks.look_at_stack(&mut self.findings, row, &place) {
            let sql = "UPDATE loops SET top = ?2, tip = ?2 WHERE id = ?1";
            self.change.execute(sql, params![row.key, kept])?;
        }
        Ok(())
    }
}
