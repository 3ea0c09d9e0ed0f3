//! Where the writers write.

use std::path::PathBuf;

use foldback_engine::Store;
use foldback_store::{PostgresOptions, PostgresStore, SqliteStore};
use foldback_testkit::needs;

use super::Failure;

/// A store that both processes can open.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Sqlite { path: PathBuf },
    Postgres { schema: String },
}

impl Target {
    pub(crate) fn sqlite() -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        // Kept where a round fails, to be looked at by hand.
        Ok(Self::Sqlite { path: folder.keep().join("store.db") })
    }

    pub(crate) fn postgres() -> Self {
        Self::Postgres { schema: format!("kill_{}", std::process::id()) }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text.split_once(':') {
            Some(("sqlite", path)) => Ok(Self::Sqlite { path: path.into() }),
            Some(("postgres", schema)) => Ok(Self::Postgres { schema: schema.to_owned() }),
            _ => Err(format!("{text} is no store")),
        }
    }

    pub(crate) fn to_argument(&self) -> String {
        match self {
            Self::Sqlite { path } => format!("sqlite:{}", path.display()),
            Self::Postgres { schema } => format!("postgres:{schema}"),
        }
    }

    /// Takes the store away, once nothing was wrong with it.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite { path } => {
                let folder = path.parent().ok_or("the store has no folder")?;
                std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
            }
            // The server's files go with the server.
            Self::Postgres { .. } => Ok(()),
        }
    }

    pub(crate) async fn open(&self) -> Result<Box<dyn Store>, Failure> {
        match self {
            Self::Sqlite { path } => {
                let store = SqliteStore::open(path).await.map_err(|error| error.to_string())?;
                Ok(Box::new(store))
            }
            Self::Postgres { schema } => Ok(Box::new(open_postgres(schema).await?)),
        }
    }
}

pub(crate) async fn open_postgres(schema: &str) -> Result<PostgresStore, Failure> {
    let options = PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
    PostgresStore::open_with(&needs::postgres(), options).await.map_err(|error| error.to_string())
}

/// A connection of our own, beside the store's.
pub(crate) async fn connect(schema: &str) -> Result<tokio_postgres::Client, Failure> {
    let connected = tokio_postgres::connect(&needs::postgres(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let set = client.batch_execute(&format!("SET search_path TO {schema}")).await;
    set.map_err(|error| error.to_string())?;
    Ok(client)
}
