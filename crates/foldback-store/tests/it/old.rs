//! Stores as earlier versions made them.

use std::path::Path;
use std::sync::Arc;

use foldback_core::{Item, Recalled};
use foldback_engine::Store;
use foldback_engine::store::{At, StoredBlock, Version, recall};
use rusqlite::Connection;

use crate::conformance::cases::{begun, fold, folded_handle, main_loop, session};

/// What made each earlier version of a file out of the one before.
pub(crate) const SCHEMAS: [&str; 4] = [
    include_str!("../../src/sqlite/schema/1.sql"),
    include_str!("../../src/sqlite/schema/2.sql"),
    include_str!("../../src/sqlite/schema/3.sql"),
    include_str!("../../src/sqlite/schema/4.sql"),
];

/// Takes away what each version added on a server, the newest first: what is left is what the one before
/// made.
pub(crate) const TAKEN_BACK: [&str; 4] = [
    "DROP INDEX items_by_handle; UPDATE store_version SET version = 4",
    "DROP TABLE tail; CREATE INDEX sessions_by_update ON sessions (updated_at);
     ALTER TABLE search DROP COLUMN is_exact; UPDATE store_version SET version = 3",
    "ALTER TABLE blocks DROP COLUMN is_joined; UPDATE store_version SET version = 2",
    "DROP TABLE jobs, search; DROP INDEX bodies_to_index; ALTER TABLE bodies DROP COLUMN is_indexed;
     UPDATE store_version SET version = 1",
];

/// Makes a file as an earlier version did, and copies into it what it has room for of one of the newest
/// version: all but the search index, which is made anew.
pub(crate) fn file(version: usize, newest: &Path, old: &Path) -> rusqlite::Result<()> {
    let db = Connection::open(old)?;
    db.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")?;
    SCHEMAS[..version].iter().try_for_each(|schema| db.execute_batch(schema))?;
    db.execute_batch("PRAGMA application_id = 0x666f6c64")?;
    db.pragma_update(None, "user_version", version as i64)?;
    db.execute("ATTACH ?1 AS newest", [newest.to_string_lossy()])?;
    let tables = "SELECT t.name, (SELECT group_concat(c.name) FROM pragma_table_info(t.name, 'main') c)
        FROM main.sqlite_schema t
        WHERE t.type = 'table' AND t.name NOT LIKE 'search%' AND t.name NOT LIKE 'sqlite%' ORDER BY t.rowid";
    let mut tables = db.prepare(tables)?;
    let tables = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (table, columns) in tables.collect::<rusqlite::Result<Vec<(String, String)>>>()? {
        let copy = format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM newest.{table}");
        db.execute_batch(&copy)?;
    }
    Ok(())
}

/// Stores a session with something of everything: items, a fold, the file it came from, and an item that
/// was appended after all that.
pub(crate) async fn fill(store: &dyn Store, items: &[Arc<Item>]) {
    let (early, last) = items.split_at(items.len() - 1);
    let version = begun(store, early).await;
    let (version, _) = fold(store, version, early.len() / 2).await;
    let (session, loop_id) = (session(), main_loop());
    let at = At { session: &session, loop_id: &loop_id, version };
    let version = store.append_original(&at, 0, b"\x00\xff bytes \n").await.unwrap();
    store.append(&At { version, ..at }, last).await.unwrap();
}

/// What a store holds of the session that [`fill`] stored.
#[derive(Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) version: Version,
    pub(crate) items: Vec<Arc<Item>>,
    context: Vec<Arc<Item>>,
    blocks: Vec<StoredBlock>,
    recalled: Recalled,
    original: Vec<u8>,
}

impl Held {
    pub(crate) async fn in_store(store: &dyn Store) -> Self {
        let (session, loop_id) = (session(), main_loop());
        let head = store.head(&session, &loop_id).await.unwrap();
        let blocks = store.blocks(&session, &loop_id).await.unwrap();
        let handle = folded_handle(&blocks[0].block);
        Self {
            version: head.version,
            items: store.items(&session, &loop_id, 0..usize::MAX).await.unwrap(),
            context: head.context(),
            blocks,
            recalled: recall(store, &session, &loop_id, &handle).await.unwrap(),
            original: store.original(&session, &loop_id, 0).await.unwrap(),
        }
    }
}
