//! Connections to the file.

use std::path::Path;
use std::time::Duration;

use foldback_engine::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::Fault;
use super::{Access, SqliteOptions, schema};

/// Statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 64;

/// How long a connection waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that a connection keeps of the file.
const CACHE_KIBIBYTES: i64 = 32 * 1024;

/// Opens the file as the options say, and makes the tables where there are none.
pub(super) fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
    if options.access == Access::Read {
        let connection = reading_connection(path)?;
        schema::begin(&connection)?;
        return Ok(connection);
    }
    match connect_to_write(path, options) {
        // Where nothing can be made beside it, SQLite says that it cannot open the file.
        Err(Fault::Sql(error)) if is_unwritable_folder(&error, path) && reading_connection(path).is_ok() => {
            Err(StoreError::ReadOnly { location: path.display().to_string() }.into())
        }
        connected => connected,
    }
}

fn connect_to_write(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
    make_private(path);
    let mut connection = Connection::open(path)?;
    prepare(&connection)?;
    schema::begin(&connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // FULL: what was acknowledged survives a power failure, not only the end of the process.
    connection.pragma_update(None, "synchronous", "FULL")?;
    if let Some(bytes) = options.bytes_max {
        let page_bytes: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        connection.query_row(
            &format!("PRAGMA max_page_count = {}", bytes / page_bytes.unsigned_abs().max(1)),
            [],
            |_| Ok(()),
        )?;
    }
    schema::create(&mut connection)?;
    Ok(connection)
}

/// Makes a new store that its owner alone can read: it holds conversations. What SQLite keeps beside it gets
/// the same mode. Where the file cannot be made, SQLite says why.
fn make_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// Works on a connection that gives up at once where another process writes.
pub(super) fn without_waiting<T>(
    connection: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    connection.busy_timeout(Duration::ZERO)?;
    let worked = work(connection);
    connection.busy_timeout(BUSY_TIMEOUT)?;
    worked
}

/// Opens the file to read.
pub(super) fn reading_connection(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    if let Err(error) = connection.query_row("PRAGMA schema_version", [], |_| Ok(())) {
        if !is_unwritable_folder(&error, path) {
            return Err(error.into());
        }
        connection = Connection::open_with_flags(unchanging(path), flags | OpenFlags::SQLITE_OPEN_URI)?;
    }
    prepare(&connection)?;
    Ok(connection)
}

/// Whether SQLite could not make the files beside the store that readers share, and does not need them:
/// nobody writes there, and nothing was left that is not in the store itself.
fn is_unwritable_folder(error: &rusqlite::Error, path: &Path) -> bool {
    let code = error.sqlite_error_code();
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
        && path.exists()
        && std::fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// The address of a file that nobody changes.
fn unchanging(path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}?immutable=1")
}

fn prepare(connection: &Connection) -> Result<(), Fault> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "cache_size", -CACHE_KIBIBYTES)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}
