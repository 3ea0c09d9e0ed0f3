//! The tables.

use deadpool_postgres::Object;
use foldback_engine::StoreError;

use super::error::Fault;
use crate::rows::SCHEMA_VERSION;

/// Names the lock under which tables are made: "fold".
const SCHEMA_LOCK: i64 = 0x666f_6c64;

const TABLES: &str = include_str!("schema.sql");

/// Makes the tables where there are none, in one transaction, and refuses those of another version. Several
/// processes may try at once: one does it, the others wait and find it done.
pub(super) async fn create(connection: &mut Object, schema: &str) -> Result<(), Fault> {
    // Looked up first, so that a store that is there can be opened by whoever may only read it.
    let table = format!("{schema}.store_version");
    let is_there = connection.query_one("SELECT to_regclass($1::TEXT) IS NOT NULL", &[&table]).await?;
    if !is_there.get::<_, bool>(0) {
        make(connection, schema).await?;
    }
    let found: i64 = connection.query_one("SELECT version FROM store_version", &[]).await?.get(0);
    match u32::try_from(found).unwrap_or(u32::MAX) {
        SCHEMA_VERSION => Ok(()),
        found => Err(StoreError::OtherVersion { found, known: SCHEMA_VERSION }.into()),
    }
}

async fn make(connection: &mut Object, schema: &str) -> Result<(), Fault> {
    let change = connection.transaction().await?;
    change.execute("SELECT pg_advisory_xact_lock($1)", &[&SCHEMA_LOCK]).await?;
    let begun = format!(
        "SET LOCAL client_min_messages = warning;
         CREATE SCHEMA IF NOT EXISTS {schema};
         CREATE TABLE IF NOT EXISTS store_version (version BIGINT NOT NULL)"
    );
    change.batch_execute(&begun).await?;
    if change.query_opt("SELECT version FROM store_version", &[]).await?.is_none() {
        change.batch_execute(TABLES).await?;
        change.execute("INSERT INTO store_version VALUES ($1)", &[&i64::from(SCHEMA_VERSION)]).await?;
    }
    change.commit().await?;
    Ok(())
}
