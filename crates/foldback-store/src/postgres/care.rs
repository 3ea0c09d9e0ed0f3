//! Removing what may go, moving together what was stored apart, and what it all takes.

use deadpool_postgres::Transaction;
use foldback_engine::store::{GcReport, Retention, StoreSize};

use super::error::Fault;
use super::read::{BodyRow, with_bodies};
use super::sessions::remove;
use super::{BODY_LOCK, query, query_opt};
use crate::body::{self, OpenPack, PACK_BYTES, Packed};
use crate::rows::{JOB_RUNNING, index};

/// Small packs that are moved together in one change, so that nobody waits long for it.
const MOVED_PACKS_MAX: i64 = 500;

/// Removes sessions that may go, and then what nothing refers to. Nobody stores bodies meanwhile.
pub(super) async fn sweep(db: &Transaction<'_>, retention: &Retention) -> Result<GcReport, Fault> {
    query(db, "SELECT pg_advisory_xact_lock($1)", &[&BODY_LOCK]).await?;
    let mut report = GcReport::default();
    if let Some(changed_before) = retention.changed_before {
        // FOR UPDATE: a session that is being changed right now is looked at again afterwards.
        let sql = "SELECT s.id, s.name FROM sessions s WHERE s.updated_at < $1 AND NOT EXISTS (
              SELECT 1 FROM jobs j WHERE j.session = s.id AND j.state = $2 AND j.lease_until > clock_timestamp())
            FOR UPDATE";
        for row in query(db, sql, &[&changed_before.0, &JOB_RUNNING]).await? {
            let (key, name): (i64, String) = (row.get(0), row.get(1));
            if !retention.keep.iter().any(|kept| kept.as_str() == name) {
                remove(db, key).await?;
                report.sessions.push(name.into());
            }
        }
    }
    let sql = "DELETE FROM bodies b WHERE CASE b.kind
          WHEN 0 THEN NOT EXISTS (SELECT 1 FROM items i WHERE i.body = b.id)
          ELSE NOT EXISTS (SELECT 1 FROM originals o WHERE o.body = b.id) END
        RETURNING b.id";
    report.body_count = query(db, sql, &[]).await?.len();
    let sql = "DELETE FROM packs p WHERE NOT EXISTS (SELECT 1 FROM bodies b WHERE b.pack = p.id)";
    query(db, sql, &[]).await?;
    Ok(report)
}

/// The last pack there is.
pub(super) async fn last_pack(db: &Transaction<'_>) -> Result<i64, Fault> {
    let row = query_opt(db, "SELECT coalesce(max(id), 0) FROM packs", &[]).await?;
    Ok(row.map_or(0, |row| row.get(0)))
}

/// Moves the bodies of small packs together. Answers how many, and how far it came.
pub(super) async fn gather(db: &Transaction<'_>, after: i64, last: i64) -> Result<(usize, i64), Fault> {
    query(db, "SELECT pg_advisory_xact_lock($1)", &[&BODY_LOCK]).await?;
    let sql = "SELECT pack FROM bodies WHERE pack > $1 AND pack <= $2 AND kind = 0
        GROUP BY pack HAVING sum(length)::BIGINT < $3 ORDER BY pack LIMIT $4";
    let half = (PACK_BYTES / 2) as i64;
    let rows = query(db, sql, &[&after, &last, &half, &MOVED_PACKS_MAX]).await?;
    let small: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let reached =
        if (small.len() as i64) < MOVED_PACKS_MAX { last } else { small.last().copied().unwrap_or(last) };
    if small.len() < 2 {
        return Ok((0, reached));
    }
    let sql = "SELECT id, pack, start, length, hash FROM bodies WHERE pack = ANY ($1) ORDER BY pack, id";
    let rows = query(db, sql, &[&small]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let bodies: Vec<BodyRow> = rows.iter().map(|row| BodyRow::of(row, 1)).collect();
    let (mut open, mut closed) = (OpenPack::default(), Vec::new());
    with_bodies(db, &bodies, |number, bytes, hash| {
        body::check(bytes, hash)?;
        open.push(ids[number], body::hash(bytes), bytes);
        if open.is_full() {
            closed.extend(open.close()?);
        }
        Ok(())
    })
    .await?;
    closed.extend(open.close()?);
    for (data, bodies) in closed {
        write_pack(db, &data, &bodies).await?;
    }
    query(db, "DELETE FROM packs WHERE id = ANY ($1)", &[&small]).await?;
    Ok((bodies.len(), reached))
}

async fn write_pack(db: &Transaction<'_>, data: &[u8], bodies: &[Packed]) -> Result<(), Fault> {
    let row = query_opt(db, "INSERT INTO packs (data) VALUES ($1) RETURNING id", &[&data]).await?;
    let pack: i64 = row.map_or(0, |row| row.get(0));
    let ids: Vec<i64> = bodies.iter().map(|body| body.id).collect();
    let starts: Vec<i64> = bodies.iter().map(|body| body.start).collect();
    let sql = "UPDATE bodies b SET pack = $1, start = u.start
        FROM unnest($2::BIGINT[], $3::BIGINT[]) u (id, start) WHERE b.id = u.id";
    query(db, sql, &[&pack, &ids, &starts]).await?;
    Ok(())
}

pub(super) async fn size(db: &Transaction<'_>) -> Result<StoreSize, Fault> {
    let sql =
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname <> 'search'), 0)::BIGINT,
          coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname = 'search'), 0)::BIGINT
        FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace";
    let row = query_opt(db, sql, &[]).await?;
    let sizes = row.map_or((0, 0), |row| (index(row.get(0)) as u64, index(row.get(1)) as u64));
    Ok(StoreSize { data_bytes: sizes.0, search_bytes: sizes.1 })
}
