//! What PostgreSQL says, as typed errors.

use deadpool_postgres::PoolError;
use foldback_engine::StoreError;
use tokio_postgres::error::SqlState;

/// Something went wrong inside a change, which is rolled back.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Sql(tokio_postgres::Error),
    Pool(PoolError),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<PoolError> for Fault {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl Fault {
    /// The error for whoever asked.
    pub(super) fn at(self, operation: &'static str, location: &str) -> StoreError {
        let location = location.to_owned();
        let error = match self {
            Self::Store(error) => return error,
            Self::Sql(error) | Self::Pool(PoolError::Backend(error)) => error,
            Self::Pool(PoolError::Timeout(_)) => return StoreError::Busy { location },
            Self::Pool(error) => return StoreError::Unreachable { location, why: error.to_string() },
        };
        let why = describe(&error);
        match error.code() {
            None => StoreError::Unreachable { location, why },
            Some(&SqlState::DISK_FULL) => StoreError::Full { location },
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => StoreError::ReadOnly { location },
            Some(
                &SqlState::T_R_DEADLOCK_DETECTED
                | &SqlState::T_R_SERIALIZATION_FAILURE
                | &SqlState::LOCK_NOT_AVAILABLE
                | &SqlState::QUERY_CANCELED,
            ) => StoreError::Busy { location },
            Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => {
                StoreError::Corrupt { what: format!("{location}: {why}") }
            }
            Some(code) if is_about_the_connection(code) => StoreError::Unreachable { location, why },
            Some(_) => StoreError::Failed { operation, why },
        }
    }
}

/// Whether nothing was asked yet: no such database, a wrong password, a server that is going away.
fn is_about_the_connection(code: &SqlState) -> bool {
    ["08", "28", "3D", "53", "57"].iter().any(|class| code.code().starts_with(class))
}

/// The whole story: the outer error often says no more than that there is an inner one.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
