//! SQLite files that are of another version, damaged, full or not to be written.

use std::path::Path;
use std::sync::Arc;

use foldback_core::{Handle, Item, LoopId, Metadata, SessionId};
use foldback_engine::store::{
    At, HandleTarget, NewLoop, NewSession, Origin, ProblemKind, Repairs, Retention, Version,
};
use foldback_engine::{Store, StoreError};
use foldback_store::{Access, SqliteOptions, SqliteStore};
use rusqlite::Connection;

use crate::conformance::sqlite::runtime;

/// How often a test looks whether the background has done something.
const LOOKS_MAX: usize = 200_000;

fn ids() -> (SessionId, LoopId) {
    ("session".into(), "main".into())
}

fn items(count: usize) -> Vec<Arc<Item>> {
    (0..count)
        .map(|number| Arc::new(Item::user(format!("u{number}"), format!("sentence {number} ").repeat(40))))
        .collect()
}

/// A store with so many items, settled and closed.
async fn filled(path: &Path, count: usize) -> Version {
    let (store, version) = appended(path, &items(count)).await;
    store.gc(&Retention::default()).await.unwrap();
    version
}

/// A store with these items, as they were appended.
async fn appended(path: &Path, items: &[Arc<Item>]) -> (SqliteStore, Version) {
    let store = SqliteStore::open(path).await.unwrap();
    let (session, loop_id) = ids();
    let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
    let at = At { session: &session, loop_id: &loop_id, version };
    let version = store.append(&at, items).await.unwrap();
    (store, version)
}

#[test]
fn appended_items_that_changed_on_disk_are_never_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        let (store, _) = appended(&path, &items(3)).await;
        drop(store);
        let sql =
            "UPDATE tail SET data = CAST(replace(CAST(data AS TEXT), 'sentence 1', 'sentence 9') AS BLOB)";
        assert_eq!(Connection::open(&path).unwrap().execute(sql, []).unwrap(), 1);
        let store = SqliteStore::open(&path).await.unwrap();
        let (session, loop_id) = ids();
        let read = store.items(&session, &loop_id, 0..3).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        let report = store.verify(Repairs::Derived).await.unwrap();
        assert!(!report.is_clean() && report.problems[0].kind == ProblemKind::Body, "{report:?}");
        let settled = store.gc(&Retention::default()).await;
        assert!(matches!(settled, Err(StoreError::Corrupt { .. })), "{settled:?}");
    });
}

#[test]
fn a_tail_that_became_long_is_settled_and_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        let (store, mut version) = appended(&path, &items(10)).await;
        let (session, loop_id) = ids();
        let long: Vec<Arc<Item>> = (0..250)
            .map(|n| Arc::new(Item::user(format!("long{n}"), format!("line {n}\n").repeat(12_000))))
            .collect();
        for batch in long.chunks(7) {
            version =
                store.append(&At { session: &session, loop_id: &loop_id, version }, batch).await.unwrap();
        }
        let mut expected = items(10);
        expected.extend(long);
        assert!(store.items(&session, &loop_id, 0..999).await.unwrap() == expected);
        let is_settled = || {
            let db = Connection::open(&path).unwrap();
            db.query_row("SELECT EXISTS (SELECT 1 FROM items)", [], |row| row.get::<_, bool>(0)).unwrap()
        };
        assert!((0..LOOKS_MAX).any(|_| is_settled()), "nothing is settled in the background");
        assert!(store.items(&session, &loop_id, 0..999).await.unwrap() == expected);
        for (index, id) in [(3, "u3"), (259, "long249")] {
            let handle = Handle::of_item(index, &id.into());
            let place = store.locate(&session, &loop_id, &handle).await.unwrap();
            assert_eq!(place, HandleTarget::Unit { item_index: index });
        }
        assert!(store.verify(Repairs::None).await.unwrap().is_clean());
    });
}

#[test]
fn a_store_of_another_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        filled(&path, 1).await;
        for found in [1, 5, 99] {
            Connection::open(&path).unwrap().pragma_update(None, "user_version", found).unwrap();
            let before = std::fs::read(&path).unwrap();
            for access in [Access::Write, Access::Read] {
                let options = SqliteOptions { access, ..SqliteOptions::default() };
                let refused = SqliteStore::open_with(&path, options).await.map(|_| ());
                assert_eq!(refused, Err(StoreError::OtherVersion { found, known: 6 }));
            }
            assert!(std::fs::read(&path).unwrap() == before);
        }
    });
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (text, other) = (folder.path().join("notes.txt"), folder.path().join("other.db"));
    std::fs::write(&text, "not a database, but long enough to have a header\n".repeat(40)).unwrap();
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    runtime().block_on(async {
        for path in [&text, &other] {
            let before = std::fs::read(path).unwrap();
            let refused = SqliteStore::open(path).await.map(|_| ());
            assert!(matches!(refused, Err(StoreError::NotAStore { .. })), "{refused:?}");
            assert!(std::fs::read(path).unwrap() == before);
        }
        let nowhere = SqliteStore::open(folder.path().join("no/such/folder.db")).await.map(|_| ());
        assert!(matches!(nowhere, Err(StoreError::Unreachable { .. })), "{nowhere:?}");
    });
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        let version = filled(&path, 20).await;
        let options = SqliteOptions { bytes_max: Some(400 * 1024), ..SqliteOptions::default() };
        let store = SqliteStore::open_with(&path, options).await.unwrap();
        let (session, loop_id) = ids();
        let noise = |seed: u64| -> String {
            (0..4_000u64)
                .map(|n| format!("{:x}", (n + 1).wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                .collect()
        };
        let large: Vec<Arc<Item>> =
            (0..40).map(|number| Arc::new(Item::user(format!("x{number}"), noise(number * 7_919)))).collect();
        let refused = store.append(&At { session: &session, loop_id: &loop_id, version }, &large).await;
        assert!(matches!(refused, Err(StoreError::Full { .. })), "{refused:?}");
        assert_eq!(store.items(&session, &loop_id, 0..99).await.unwrap(), items(20));
        assert!(store.verify(Repairs::None).await.unwrap().is_clean());
        drop(store);
        let roomy = SqliteStore::open(&path).await.unwrap();
        roomy.append(&At { session: &session, loop_id: &loop_id, version }, &large).await.unwrap();
    });
}

#[test]
fn a_missing_body_is_named_and_verify_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        filled(&path, 5).await;
        Connection::open(&path).unwrap().execute("DELETE FROM bodies WHERE id = 3", []).unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        let (session, loop_id) = ids();
        let read = store.items(&session, &loop_id, 0..5).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        assert_eq!(
            store.items(&session, &loop_id, 3..5).await.unwrap(),
            items(5)[3..],
            "the others are there"
        );
        let report = store.verify(Repairs::Derived).await.unwrap();
        assert!(!report.is_clean() && report.problems[0].kind == ProblemKind::Body, "{report:?}");
    });
}

#[test]
fn a_damaged_page_is_found_and_never_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        filled(&path, 400).await;
        Connection::open(&path)
            .unwrap()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        // The packs are most of the file: somewhere in the middle is one of them.
        let middle = bytes.len() / 2;
        bytes[middle..middle + 2_000].iter_mut().for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, bytes).unwrap();
        let (session, loop_id) = ids();
        let store = SqliteStore::open(&path).await.unwrap();
        match store.items(&session, &loop_id, 0..400).await {
            Ok(read) => assert!(read == items(400)),
            Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}"),
        }
        match store.verify(Repairs::None).await {
            Ok(report) => assert!(!report.is_clean()),
            Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}"),
        }
    });
}

#[test]
fn a_repair_never_forgets_the_items_behind_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        filled(&path, 5).await;
        Connection::open(&path).unwrap().execute("DELETE FROM items WHERE position = 2", []).unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        let report = store.verify(Repairs::Derived).await.unwrap();
        assert!(!report.is_clean() && report.problems[0].kind == ProblemKind::Items, "{report:?}");
        let (session, loop_id) = ids();
        assert_eq!(store.items(&session, &loop_id, 3..5).await.unwrap(), items(5)[3..]);
    });
}

#[test]
fn the_loss_of_what_was_appended_last_is_noticed_and_a_repair_goes_on_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        let (store, version) = appended(&path, &items(3)).await;
        let (session, loop_id) = ids();
        let at = At { session: &session, loop_id: &loop_id, version };
        store.append(&at, &[Arc::new(Item::user("last", "the last word"))]).await.unwrap();
        let lost = "DELETE FROM tail WHERE id = (SELECT max(id) FROM tail)";
        assert_eq!(Connection::open(&path).unwrap().execute(lost, []).unwrap(), 1);
        let read = store.items(&session, &loop_id, 0..9).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        let report = store.verify(Repairs::None).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        let problem = &report.problems[0];
        assert!(
            problem.kind == ProblemKind::Items && problem.what.contains("4 items and has 3"),
            "{problem:?}"
        );
        assert!(store.verify(Repairs::Derived).await.unwrap().is_clean());
        assert!(store.verify(Repairs::None).await.unwrap().problems.is_empty());
        assert_eq!(store.items(&session, &loop_id, 0..9).await.unwrap(), items(3));
        let version = store.session(&session).await.unwrap().version;
        store.append(&At { version, ..at }, &items(1)).await.unwrap();
        assert_eq!(store.items(&session, &loop_id, 3..9).await.unwrap(), items(1));
    });
}

#[test]
fn an_end_that_a_branch_or_a_block_speaks_of_is_not_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        let (store, version) = appended(&path, &items(3)).await;
        let (session, loop_id) = ids();
        let origin = Origin::Branch { parent: loop_id, item_count: 3 };
        let branch = NewLoop { id: "branch".into(), origin, metadata: Metadata::new() };
        store.begin_loop(&session, version, &branch).await.unwrap();
        Connection::open(&path).unwrap().execute("DELETE FROM tail", []).unwrap();
        for repairs in [Repairs::Derived, Repairs::None] {
            let report = store.verify(repairs).await.unwrap();
            assert!(!report.is_clean() && report.problems[0].kind == ProblemKind::Items, "{report:?}");
        }
    });
}

#[test]
fn what_can_be_derived_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        filled(&path, 5).await;
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "UPDATE loops SET item_count = 4, top = 7; UPDATE tail_ends SET item_count = 4;
             UPDATE items SET handle = '@' WHERE position = 1",
        )
        .unwrap();
        drop(db);
        let store = SqliteStore::open(&path).await.unwrap();
        assert!(!store.verify(Repairs::None).await.unwrap().is_clean());
        let repaired = store.verify(Repairs::Derived).await.unwrap();
        let kinds: Vec<ProblemKind> = repaired.problems.iter().map(|problem| problem.kind).collect();
        assert_eq!(kinds, [ProblemKind::Handle, ProblemKind::Items, ProblemKind::Stack]);
        assert!(repaired.is_clean());
        let report = store.verify(Repairs::None).await.unwrap();
        assert_eq!(report.problems, []);
        let (session, loop_id) = ids();
        assert_eq!(store.head(&session, &loop_id).await.unwrap().context(), items(5));
    });
}

#[test]
fn a_store_that_may_only_be_read_refuses_to_write_and_still_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    runtime().block_on(async {
        filled(&path, 2).await;
        let options = SqliteOptions { access: Access::Read, ..SqliteOptions::default() };
        let store = SqliteStore::open_with(&path, options.clone()).await.unwrap();
        let (session, loop_id) = ids();
        let at = At { session: &session, loop_id: &loop_id, version: Version(2) };
        let refused = store.append(&at, &items(1)).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
        assert_eq!(store.items(&session, &loop_id, 0..9).await.unwrap(), items(2));
        let missing = SqliteStore::open_with(folder.path().join("none.db"), options).await.map(|_| ());
        assert!(matches!(missing, Err(StoreError::Unreachable { .. })), "{missing:?}");
    });
}
