//! The tables.

use foldback_engine::StoreError;
use rusqlite::{Connection, TransactionBehavior};

use super::error::Fault;
use crate::rows::SCHEMA_VERSION;

/// Says in the file's header that it is ours: "fold".
const APPLICATION_ID: i32 = 0x666f_6c64;

/// The version of a file without tables.
const NO_TABLES: u32 = 0;

const TABLES: &str = include_str!("schema.sql");

/// Looks at a file before anything in it is changed.
pub(super) fn begin(connection: &Connection) -> Result<(), Fault> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION_ID && tables > 0 {
        let location = connection.path().unwrap_or_default().to_owned();
        let why = "it is a database with other tables".to_owned();
        return Err(StoreError::NotAStore { location, why }.into());
    }
    match version(connection)? {
        SCHEMA_VERSION => Ok(()),
        NO_TABLES if connection.is_readonly("main")? => {
            let location = connection.path().unwrap_or_default().to_owned();
            Err(StoreError::ReadOnly { location }.into())
        }
        // Only possible while the file is empty.
        NO_TABLES => Ok(connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?),
        found => Err(StoreError::OtherVersion { found, known: SCHEMA_VERSION }.into()),
    }
}

/// Makes the tables where there are none, in one transaction: it happens or it does not, whenever the
/// process ends. Several processes may try at once.
pub(super) fn create(connection: &mut Connection) -> Result<(), Fault> {
    if version(connection)? != NO_TABLES {
        return Ok(());
    }
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&change)? == NO_TABLES {
        change.execute_batch(TABLES)?;
        change.pragma_update(None, "application_id", APPLICATION_ID)?;
        change.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        change.commit()?;
    }
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, Fault> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}
