//! The tables, and how older ones become the newest.

use foldback_engine::StoreError;
use rusqlite::{Connection, TransactionBehavior};

use super::error::Fault;

/// Says in the file's header that it is ours: "fold".
const APPLICATION_ID: i32 = 0x666f_6c64;

/// The newest version.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// What makes each version out of the one before. Released ones are never changed.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
];

/// Looks at a file before anything in it is changed.
pub(super) fn begin(connection: &Connection) -> Result<(), Fault> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION_ID && tables > 0 {
        let location = connection.path().unwrap_or_default().to_owned();
        let why = "it is a database with other tables".to_owned();
        return Err(StoreError::NotAStore { location, why }.into());
    }
    if tables == 0 && !connection.is_readonly("main")? {
        // Only possible while the file is empty.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    Ok(())
}

/// Brings the tables to a version, all steps in one transaction: it happens or it does not, whenever
/// the process ends. Several processes may try at once.
pub(super) fn migrate(connection: &mut Connection, target: u32) -> Result<(), Fault> {
    if version(connection)? == target {
        return Ok(());
    }
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&change)?;
    if found > target {
        return Err(StoreError::TooNew { found, known: target }.into());
    }
    for migration in &MIGRATIONS[found as usize..target as usize] {
        change.execute_batch(migration)?;
    }
    change.pragma_update(None, "application_id", APPLICATION_ID)?;
    change.pragma_update(None, "user_version", target)?;
    change.commit()?;
    Ok(())
}

/// Refuses a store that would have to be brought up to date first.
pub(super) fn expect_newest(connection: &Connection) -> Result<(), Fault> {
    let location = connection.path().unwrap_or_default().to_owned();
    match version(connection)? {
        VERSION => Ok(()),
        found if found > VERSION => Err(StoreError::TooNew { found, known: VERSION }.into()),
        _ => Err(StoreError::ReadOnly { location }.into()),
    }
}

fn version(connection: &Connection) -> Result<u32, Fault> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}
