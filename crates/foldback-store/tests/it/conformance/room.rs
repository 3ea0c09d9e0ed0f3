//! A disk that is really full, and one that is really read-only: a small file system in memory, in a
//! namespace of the test's own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use foldback_core::{Item, LoopId, SessionId};
use foldback_engine::store::{At, NewSession, Repairs, Retention, SearchQuery, Version};
use foldback_engine::{Store, StoreError};
use foldback_store::{Access, PostgresStore, SqliteOptions, SqliteStore};
use foldback_testkit::needs;

use crate::conformance::HandClock;
use crate::conformance::postgres::{options, raw};
use crate::conformance::sqlite::runtime;

/// Set in the namespace: the folder that the small file system is at.
const INSIDE: &str = "FOLDBACK_SMALL_DISK";

/// How large it is.
const SIZE: &str = "size=4m";

/// Bytes that are taken at first, and freed once the rest is full.
const BALLAST_BYTES: usize = 1024 * 1024;

/// Appends that are tried before the disk must be full.
const APPENDS_MAX: usize = 10_000;

/// Runs the test again, inside.
fn run_inside() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        format!("mount -t tmpfs -o {SIZE} tmpfs \"$0\" && exec \"$1\" --include-ignored --exact \"$2\"");
    let this = std::thread::current();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .arg(this.name().unwrap())
        .env(INSIDE, folder.path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn ids() -> (SessionId, LoopId) {
    ("session".into(), "main".into())
}

/// An item that does not get smaller.
fn noise(number: usize) -> Arc<Item> {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mut word = || std::iter::repeat_with(|| random.alphanumeric()).take(4_000).collect::<String>();
    let text: Vec<String> = (0..5).map(|_| word()).collect();
    Arc::new(Item::user(format!("n{number}"), text.join(" ")))
}

async fn begun(path: &Path) -> (SqliteStore, Version) {
    let store = SqliteStore::open(path).await.unwrap();
    let (session, loop_id) = ids();
    let version = store.create(&NewSession::new(session, loop_id)).await.unwrap();
    (store, version)
}

async fn append(store: &dyn Store, version: Version, item: Arc<Item>) -> Result<Version, StoreError> {
    let (session, loop_id) = ids();
    store.append(&At { session: &session, loop_id: &loop_id, version }, &[item]).await
}

/// Appends until the disk is full, which must be said. Answers how many were stored before.
async fn fill(store: &dyn Store, mut version: Version) -> (Version, usize) {
    for stored in 0..APPENDS_MAX {
        match append(store, version, noise(stored)).await {
            Ok(next) => version = next,
            Err(StoreError::Full { .. }) => return (version, stored),
            Err(error) => panic!("{error:?} instead of a full disk"),
        }
    }
    panic!("the disk is never full");
}

#[test]
#[ignore = "needs a small file system"]
fn a_really_full_disk_is_a_typed_error_and_loses_nothing() {
    let Some(folder) = std::env::var_os(INSIDE) else {
        return run_inside();
    };
    let folder = Path::new(&folder);
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![1; BALLAST_BYTES]).unwrap();
    runtime().block_on(async {
        let path = folder.join("store.db");
        let (store, version) = begun(&path).await;
        let (session, loop_id) = ids();
        let (version, stored) = fill(&store, version).await;
        assert!(stored > 10, "{stored} were stored before");
        let expected: Vec<Arc<Item>> = (0..stored).map(noise).collect();
        assert!(store.items(&session, &loop_id, 0..usize::MAX).await.unwrap() == expected);
        for refused in [store.gc(&Retention::default()).await.map(drop), store.index(10).await.map(drop)] {
            assert!(matches!(refused, Ok(()) | Err(StoreError::Full { .. })), "{refused:?}");
        }
        drop(store);
        // Opened again on the full disk, everything that was acknowledged is there.
        let store = SqliteStore::open(&path).await.unwrap();
        assert!(store.items(&session, &loop_id, 0..usize::MAX).await.unwrap() == expected);
        std::fs::remove_file(&ballast).unwrap();
        append(&store, version, noise(stored)).await.unwrap();
        assert_eq!(store.head(&session, &loop_id).await.unwrap().item_count, stored + 1);
        assert!(store.verify(Repairs::None).await.unwrap().is_clean());
    });
}

#[test]
#[ignore = "needs a small file system"]
fn a_really_read_only_disk_is_a_typed_error_and_is_read() {
    let Some(folder) = std::env::var_os(INSIDE) else {
        return run_inside();
    };
    let folder = Path::new(&folder);
    let path = folder.join("store.db");
    let remount = |how: &str| {
        let status = Command::new("mount").args(["-o", how]).arg(folder).status().unwrap();
        assert!(status.success(), "{how}");
    };
    runtime().block_on(async {
        let (store, version) = begun(&path).await;
        let version = append(&store, version, noise(1)).await.unwrap();
        store.index(10).await.unwrap();
        drop(store);
        remount("remount,ro");
        let refused = SqliteStore::open(&path).await.map(drop);
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
        let options = SqliteOptions { access: Access::Read, ..SqliteOptions::default() };
        let reader = SqliteStore::open_with(&path, options).await.unwrap();
        let (session, loop_id) = ids();
        assert_eq!(reader.items(&session, &loop_id, 0..9).await.unwrap(), [noise(1)]);
        let text = noise(1);
        let foldback_core::Part::Text(words) = &text.parts[0] else { panic!("it is text") };
        let word = words.split(' ').next().unwrap();
        assert_eq!(reader.search(&SearchQuery::text(word)).await.unwrap().hits.len(), 1);
        let refused = append(&reader, version, noise(2)).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
        let nowhere = SqliteStore::open(folder.join("new.db")).await.map(drop);
        assert!(
            matches!(nowhere, Err(StoreError::ReadOnly { .. } | StoreError::Unreachable { .. })),
            "{nowhere:?}"
        );
        drop(reader);
        remount("remount,rw");
        let (store, version) = (SqliteStore::open(&path).await.unwrap(), version);
        append(&store, version, noise(2)).await.unwrap();
        assert!(store.verify(Repairs::None).await.unwrap().is_clean());
    });
}

/// A small file system at a folder, for as long as it is needed.
struct Mount(tempfile::TempDir);

impl Mount {
    /// A file system that the owner of a folder may write to.
    fn owned_like(data: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let owner = std::fs::metadata(data).expect("the server's files are here, and may be looked at");
        let folder = tempfile::tempdir().unwrap();
        let owned = format!("{SIZE},uid={},gid={},mode=700", owner.uid(), owner.gid());
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &owned, "tmpfs"]).arg(folder.path()).output().unwrap();
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
        Self(folder)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.0.path().display());
    }
}

#[test]
#[ignore = "needs PostgreSQL and a small file system"]
fn a_server_whose_disk_is_really_full_is_a_typed_error_and_loses_nothing() {
    runtime().block_on(async {
        let mut options = options(&HandClock::default());
        let client = raw(&options).await;
        let data: String = client.query_one("SHOW data_directory", &[]).await.unwrap().get(0);
        let mount = Mount::owned_like(Path::new(&data));
        // One connection, so that all that is made is made there.
        let (role, place) = (format!("full_{}", options.schema), mount.0.path().display());
        let made = format!(
            "CREATE TABLESPACE {role} LOCATION '{place}'; CREATE ROLE {role} LOGIN SUPERUSER;
             ALTER ROLE {role} SET default_tablespace = {role};
             CREATE TABLE public.{role} (ballast BYTEA) TABLESPACE {role}"
        );
        for statement in made.split(';') {
            client.batch_execute(statement).await.unwrap();
        }
        let ballast = format!(
            "ALTER TABLE public.{role} ALTER COLUMN ballast SET STORAGE EXTERNAL;
             INSERT INTO public.{role} SELECT decode(repeat('ab', {BALLAST_BYTES}), 'hex')"
        );
        client.batch_execute(&ballast).await.unwrap();
        options.connections_max = 1;
        let address = needs::postgres().replacen("://foldback@", &format!("://{role}@"), 1);
        let store = PostgresStore::open_with(&address, options.clone()).await.unwrap();
        let (session, loop_id) = ids();
        let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
        let (version, stored) = fill(&store, version).await;
        assert!(stored > 10, "{stored} were stored before");
        let expected: Vec<Arc<Item>> = (0..stored).map(noise).collect();
        assert!(store.items(&session, &loop_id, 0..usize::MAX).await.unwrap() == expected);
        client.batch_execute(&format!("DROP TABLE public.{role}; CHECKPOINT")).await.unwrap();
        append(&store, version, noise(stored)).await.unwrap();
        assert_eq!(store.head(&session, &loop_id).await.unwrap().item_count, stored + 1);
        assert!(store.verify(Repairs::None).await.unwrap().is_clean());
        drop(store);
        let gone = [format!("DROP SCHEMA {} CASCADE", options.schema), format!("DROP TABLESPACE {role}")];
        for statement in gone {
            client.batch_execute(&statement).await.unwrap();
        }
    });
}
