//! Which store is meant, and how it is talked to.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use foldback_core::{SessionId, Timestamp};
use foldback_engine::session::{SessionError, StoredSession, StoredSessionError};
use foldback_engine::store::{Page, SessionInfo};
use foldback_engine::{CompactionError, Refusal, Store, StoreError};
use foldback_store::{Access, PostgresStore, SqliteOptions, SqliteStore};
use tokio::runtime::Runtime;

use crate::args::sessions::StoreAt;
use crate::failure::Failure;

/// Names the store where no flag does.
const STORE_VARIABLE: &str = "FOLDBACK_STORE";

const FILE_NAME: &str = "sessions.db";

/// Runs a command that waits for the store.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(work)
}

/// A runtime on this thread.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::Read { path: "the runtime".into(), error, hint: None })
}

/// Whether a store that is named may be a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// Something is to be written to it.
    New,
    /// It is read: a name of nothing is a mistake.
    There,
}

/// Opens the store that is named, which may be a new one, or the user's own.
pub(crate) async fn open(at: &StoreAt) -> Result<Arc<dyn Store>, Failure> {
    open_as(at, Named::New).await
}

/// Opens the store that is named, which has to be there, or the user's own.
pub(crate) async fn open_existing(at: &StoreAt) -> Result<Arc<dyn Store>, Failure> {
    open_as(at, Named::There).await
}

async fn open_as(at: &StoreAt, kind: Named) -> Result<Arc<dyn Store>, Failure> {
    let named = at.store.clone().or_else(|| std::env::var(STORE_VARIABLE).ok().filter(|url| !url.is_empty()));
    let path = match named {
        Some(url) if is_postgres(&url) => return Ok(Arc::new(PostgresStore::open(&url).await?)),
        Some(url) => existing(path_in(&url)?, kind)?,
        None => default_path()?,
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let failed = |error| Failure::Write { path: folder.to_owned(), error, hint: None };
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    match SqliteStore::open(&path).await {
        // What only reads works where nothing can be written.
        Err(StoreError::ReadOnly { .. }) => {
            let options = SqliteOptions { access: Access::Read, ..SqliteOptions::default() };
            Ok(Arc::new(SqliteStore::open_with(path, options).await?))
        }
        opened => Ok(Arc::new(opened?)),
    }
}

fn existing(path: PathBuf, kind: Named) -> Result<PathBuf, Failure> {
    if kind == Named::There && !path.exists() {
        let error = std::io::ErrorKind::NotFound.into();
        let hint = Some("there is no store of this name; look at --store and FOLDBACK_STORE, or begin one with `foldback import FILE`".into());
        return Err(Failure::Read { path, error, hint });
    }
    Ok(path)
}

fn is_postgres(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

fn path_in(url: &str) -> Result<PathBuf, Failure> {
    match url.split_once(':') {
        Some(("sqlite", path)) => Ok(path.strip_prefix("//").unwrap_or(path).into()),
        // One letter is a drive.
        Some((scheme, rest)) if scheme.len() > 1 && rest.starts_with("//") => Err(Failure::usage(
            format!("{scheme}: is no kind of store that this program knows"),
            "give a file, sqlite:FILE or postgres://USER@HOST/DATABASE",
        )),
        Some(_) | None => Ok(url.into()),
    }
}

fn default_path() -> Result<PathBuf, Failure> {
    Ok(data_folder("name a file with --store")?.join(FILE_NAME))
}

/// Where the platform keeps a program's data. `hint` says what to name where there is no such place.
pub(crate) fn data_folder(hint: &str) -> Result<PathBuf, Failure> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || folder("HOME");
    let data = match std::env::consts::OS {
        "windows" => folder("LOCALAPPDATA"),
        "macos" => home().map(|home| home.join("Library").join("Application Support")),
        _ => folder("XDG_DATA_HOME").or_else(|| home().map(|home| home.join(".local").join("share"))),
    };
    let found = data.map(|data| data.join("foldback"));
    found.ok_or_else(|| Failure::usage("there is no folder for data", hint))
}

/// Sessions whose ids are compared with a short one.
pub(crate) const SESSIONS_MAX: usize = 10_000;

/// Ids that are named where a short one fits several.
const NAMED_MAX: usize = 5;

/// Opens a session of the store.
pub(crate) async fn session(store: &Arc<dyn Store>, id: &str) -> Result<StoredSession, Failure> {
    Ok(StoredSession::open(Arc::clone(store), &find(store, id).await?).await?)
}

/// The session with this id, or the only one whose id begins with it.
pub(crate) async fn find(store: &Arc<dyn Store>, id: &str) -> Result<SessionId, Failure> {
    let whole = SessionId::from(id);
    let missing = match store.session(&whole).await {
        Ok(_) => return Ok(whole),
        Err(error @ StoreError::NotFound { .. }) => error,
        Err(error) => return Err(error.into()),
    };
    let all = store.sessions(&Page::first(SESSIONS_MAX)).await?;
    let begins = |info: &SessionInfo| !id.is_empty() && info.id.as_str().starts_with(id);
    let mut fitting: Vec<SessionId> = all.into_iter().filter(begins).map(|info| info.id).collect();
    if fitting.len() > 1 {
        let names: Vec<&str> = fitting.iter().take(NAMED_MAX).map(SessionId::as_str).collect();
        let more = if fitting.len() > NAMED_MAX { ", …" } else { "" };
        let what =
            format!("{id} is the beginning of {} session ids: {}{more}", fitting.len(), names.join(", "));
        return Err(Failure::usage(what, "give more of the id"));
    }
    fitting.pop().ok_or_else(|| missing.into())
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store { error: Box::new(error) }
    }
}

impl From<StoredSessionError> for Failure {
    fn from(error: StoredSessionError) -> Self {
        let path = PathBuf::from("session");
        match error {
            StoredSessionError::Store(error) => error.into(),
            StoredSessionError::Session(SessionError::Compaction(error)) => {
                let name = |item: &foldback_core::KernelItem| format!("{} {}", item.kind, item.id);
                let items = match &error {
                    CompactionError::Refused(Refusal::BudgetInfeasible(error)) => {
                        error.kernel.iter().map(name).collect()
                    }
                    _ => Vec::new(),
                };
                Self::Compaction { path, error: Box::new(error), items }
            }
            other => Self::Usage { what: other.to_string(), hint: None },
        }
    }
}

/// A time as people read it: to the second, in UTC.
pub(crate) fn time(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_by_a_file_or_a_url() {
        for (url, path) in
            [("a/b.db", "a/b.db"), ("sqlite:a.db", "a.db"), ("sqlite:///tmp/a.db", "/tmp/a.db")]
        {
            assert_eq!(path_in(url).unwrap(), PathBuf::from(path));
        }
        assert_eq!(path_in("C:\\a.db").unwrap(), PathBuf::from("C:\\a.db"));
        assert!(matches!(path_in("redis://host/1"), Err(Failure::Usage { .. })));
    }
}
