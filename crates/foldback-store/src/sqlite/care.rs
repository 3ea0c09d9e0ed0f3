//! Removing what may go, moving together what was stored apart, and what it all takes.

use foldback_core::Timestamp;
use foldback_engine::store::{GcReport, Retention, StoreSize};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::error::Fault;
use super::packs::{BodyReader, BodyRow};
use super::sessions::remove;
use super::tail;
use crate::body::{self, BodyKind, ClosedPack, OpenPack, PACK_BYTES};
use crate::rows::{JOB_RUNNING, index};

/// Bytes that are moved together in one change, so that nobody waits long for it.
const MOVED_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(super) fn gc(db: &mut Connection, retention: &Retention, now: Timestamp) -> Result<GcReport, Fault> {
    let packed_count = tail::settle(db, usize::MAX)?;
    let mut report = GcReport { packed_count, ..GcReport::default() };
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    remove_sessions(&change, retention, now, &mut report)?;
    report.body_count = sweep(&change)?;
    change.commit()?;
    let last: i64 = db.query_row("SELECT coalesce(max(id), 0) FROM packs", [], |row| row.get(0))?;
    let mut after = 0;
    while after < last {
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (moved, reached) = gather(&change, after, last)?;
        change.commit()?;
        report.packed_count += moved;
        after = reached;
    }
    // Returns a row for each page it frees.
    let mut vacuum = db.prepare("PRAGMA incremental_vacuum")?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    Ok(report)
}

fn remove_sessions(
    change: &Transaction<'_>,
    retention: &Retention,
    now: Timestamp,
    report: &mut GcReport,
) -> Result<(), Fault> {
    let Some(changed_before) = retention.changed_before else { return Ok(()) };
    let mut statement = change.prepare(
        "SELECT s.id, s.name FROM live_sessions s WHERE s.updated_at < ?1 AND NOT EXISTS (
           SELECT 1 FROM jobs j WHERE j.session = s.id AND j.state = ?2 AND j.lease_until > ?3)",
    )?;
    let rows = statement.query_map(params![changed_before.0, JOB_RUNNING, now.0], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    for row in rows.collect::<Result<Vec<_>, _>>()? {
        let (key, name) = row;
        if retention.keep.iter().any(|kept| kept.as_str() == name) {
            continue;
        }
        remove(change, key)?;
        report.sessions.push(name.into());
    }
    Ok(())
}

/// Removes bodies that nothing refers to, and packs without bodies.
fn sweep(change: &Transaction<'_>) -> Result<usize, Fault> {
    change.execute_batch(
        "CREATE TEMP TABLE IF NOT EXISTS garbage (id INTEGER PRIMARY KEY);
         DELETE FROM garbage;
         INSERT INTO garbage SELECT b.id FROM bodies b WHERE b.kind = 0
           AND NOT EXISTS (SELECT 1 FROM items i WHERE i.body = b.id);
         DELETE FROM search WHERE rowid IN (
           SELECT id FROM garbage WHERE id <= (SELECT indexed FROM search_state));
         INSERT INTO garbage SELECT b.id FROM bodies b WHERE b.kind = 1
           AND NOT EXISTS (SELECT 1 FROM originals o WHERE o.body = b.id);",
    )?;
    let removed = change.execute("DELETE FROM bodies WHERE id IN (SELECT id FROM garbage)", [])?;
    // Numbers may be given out again: what has them then must not count as indexed.
    change.execute_batch(
        "DELETE FROM garbage;
         DELETE FROM packs WHERE NOT EXISTS (SELECT 1 FROM bodies b WHERE b.pack = packs.id);
         UPDATE search_state SET indexed = min(indexed, (SELECT coalesce(max(id), 0) FROM bodies));",
    )?;
    Ok(removed)
}

/// Moves the bodies of small packs together. Answers how many, and how far it came.
fn gather(change: &Transaction<'_>, after: i64, last: i64) -> Result<(usize, i64), Fault> {
    let small = small_packs(change, after, last)?;
    let reached = small.last().map_or(last, |&(pack, _)| pack);
    if small.len() < 2 {
        return Ok((0, last.max(reached)));
    }
    let mut reader = BodyReader::new(change);
    let mut open = OpenPack::default();
    let mut moved = 0;
    for (pack, _) in &small {
        let mut statement = change
            .prepare_cached("SELECT id, start, length, hash FROM bodies WHERE pack = ?1 ORDER BY id")?;
        let mut rows = statement.query([pack])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            let body = BodyRow { pack: *pack, start: row.get(1)?, length: row.get(2)?, hash: row.get(3)? };
            reader.with(&body, |bytes| {
                body::check(bytes, &body.hash)?;
                open.push(id, body::hash(bytes), bytes);
                Ok(())
            })?;
            moved += 1;
        }
        if open.is_full() {
            write_pack(change, &mut open)?;
        }
    }
    write_pack(change, &mut open)?;
    for (pack, _) in &small {
        change.prepare_cached("DELETE FROM packs WHERE id = ?1")?.execute([pack])?;
    }
    Ok((moved, reached))
}

/// Packs of items that hold less than half of what a pack holds, in order, up to what is moved in
/// one change.
fn small_packs(change: &Transaction<'_>, after: i64, last: i64) -> Result<Vec<(i64, usize)>, Fault> {
    let mut statement = change.prepare_cached(
        "SELECT pack, sum(length) FROM bodies WHERE pack > ?1 AND pack <= ?2 AND kind = ?3
         GROUP BY pack HAVING sum(length) < ?4 ORDER BY pack",
    )?;
    let half = (PACK_BYTES / 2) as i64;
    let mut rows = statement.query(params![after, last, BodyKind::Item as i64, half])?;
    let (mut small, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let length = index(row.get(1)?);
        bytes += length;
        small.push((row.get(0)?, length));
        if bytes > MOVED_BYTES_MAX {
            break;
        }
    }
    Ok(small)
}

fn write_pack(change: &Transaction<'_>, open: &mut OpenPack) -> Result<(), Fault> {
    let Some(ClosedPack { data, bodies }) = open.close()? else { return Ok(()) };
    change.prepare_cached("INSERT INTO packs (data) VALUES (?1)")?.execute([data])?;
    let pack = change.last_insert_rowid();
    let mut update =
        change.prepare_cached("UPDATE bodies SET pack = ?2, start = ?3, length = ?4 WHERE id = ?1")?;
    for body in bodies {
        update.execute([body.id, pack, body.start, body.length])?;
    }
    Ok(())
}

pub(super) fn size(db: &Connection) -> Result<StoreSize, Fault> {
    let total: i64 = db.query_row(
        "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
        [],
        |row| row.get(0),
    )?;
    let search: i64 = db.query_row(
        "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE AND name LIKE 'search%'",
        [],
        |row| row.get(0),
    )?;
    Ok(StoreSize { data_bytes: (total - search).unsigned_abs(), search_bytes: search.unsigned_abs() })
}
