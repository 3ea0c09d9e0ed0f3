//! What SQLite says, as typed errors.

use foldback_engine::StoreError;
use rusqlite::ErrorCode;

/// Something went wrong inside a change, which is rolled back.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Sql(rusqlite::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// The error for whoever asked.
    pub(super) fn at(self, operation: &'static str, location: &str) -> StoreError {
        let error = match self {
            Self::Store(error) => return error,
            Self::Sql(error) => error,
        };
        let why = error.to_string();
        let location = location.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { location },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { location },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { location },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { what: format!("{location}: {why}") },
            Some(ErrorCode::NotADatabase) => StoreError::NotAStore { location, why },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                StoreError::Unreachable { location, why }
            }
            _ => StoreError::Failed { operation, why },
        }
    }
}
