//! The tables, and how older ones become the newest.

use deadpool_postgres::Object;
use foldback_engine::StoreError;

use super::error::Fault;

/// The newest version.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// What makes each version out of the one before. Released ones are never changed.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
];

/// Names the lock under which tables are changed: "fold".
const MIGRATION_LOCK: i64 = 0x666f_6c64;

/// Brings the tables up to date, all steps in one transaction. Several processes may try at once:
/// one does it, the others wait and find it done.
pub(super) async fn migrate(connection: &mut Object, schema: &str, target: i64) -> Result<(), Fault> {
    // Looked up first, so that a store that is up to date can be opened by whoever may only read it.
    let table = format!("{schema}.store_version");
    let is_there = connection.query_one("SELECT to_regclass($1::TEXT) IS NOT NULL", &[&table]).await?;
    if is_there.get(0) {
        let found = connection.query_opt("SELECT version FROM store_version", &[]).await?;
        if found.is_some_and(|row| row.get::<_, i64>(0) == target) {
            return Ok(());
        }
    }
    let change = connection.transaction().await?;
    change.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    change
        .batch_execute(&format!(
            "SET LOCAL client_min_messages = warning;
             CREATE SCHEMA IF NOT EXISTS {schema};
             CREATE TABLE IF NOT EXISTS store_version (version BIGINT NOT NULL)"
        ))
        .await?;
    let found = change.query_opt("SELECT version FROM store_version", &[]).await?;
    let version: i64 = found.as_ref().map_or(0, |row| row.get(0));
    if version > target {
        let (found, known) = (version.unsigned_abs() as u32, target.unsigned_abs() as u32);
        return Err(StoreError::TooNew { found, known }.into());
    }
    for migration in &MIGRATIONS[version as usize..target as usize] {
        change.batch_execute(migration).await?;
    }
    if version < target {
        change.execute("DELETE FROM store_version", &[]).await?;
        change.execute("INSERT INTO store_version VALUES ($1)", &[&target]).await?;
    }
    change.commit().await?;
    Ok(())
}
