//! Bodies in packs: storing new ones once, reading them back.

use std::collections::HashMap;
use std::rc::Rc;

use foldback_engine::StoreError;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::error::Fault;
use crate::body::{self, BodyHash, BodyKind, ClosedPack, OpenPack, corrupt};

/// Packs that are kept open while items are read; repeated items lie in old packs.
const PACKS_OPEN_MAX: usize = 32;

/// Stores bodies that are not stored yet, packed together.
pub(super) struct BodyWriter<'c> {
    change: &'c Transaction<'c>,
    kind: BodyKind,
    open: OpenPack,
    /// Bodies of the open pack, which have no row yet.
    pending: HashMap<BodyHash, i64>,
    next_body: i64,
    next_pack: i64,
}

impl<'c> BodyWriter<'c> {
    pub(super) fn new(change: &'c Transaction<'c>, kind: BodyKind) -> Result<Self, Fault> {
        let next = |table: &str| {
            let sql = format!("SELECT coalesce(max(id), 0) + 1 FROM {table}");
            change.prepare_cached(&sql)?.query_row([], |row| row.get::<_, i64>(0))
        };
        Ok(Self {
            change,
            kind,
            open: OpenPack::default(),
            pending: HashMap::new(),
            next_body: next("bodies")?,
            next_pack: next("packs")?,
        })
    }

    /// The number of the body with these bytes.
    pub(super) fn store(&mut self, bytes: &[u8]) -> Result<i64, Fault> {
        let hash = body::hash(bytes);
        if let Some(&id) = self.pending.get(&hash) {
            return Ok(id);
        }
        let stored = self
            .change
            .prepare_cached("SELECT id FROM bodies WHERE prefix = ?1 AND hash = ?2 AND kind = ?3")?
            .query_row(params![body::prefix(&hash), hash, self.kind as i64], |row| row.get(0))
            .optional()?;
        if let Some(id) = stored {
            return Ok(id);
        }
        let id = self.next_body;
        self.next_body += 1;
        self.pending.insert(hash, id);
        self.open.push(id, hash, bytes);
        if self.open.is_full() {
            self.close()?;
        }
        Ok(id)
    }

    /// Writes what is still open.
    pub(super) fn close(&mut self) -> Result<(), Fault> {
        let Some(ClosedPack { data, bodies }) = self.open.close()? else { return Ok(()) };
        let pack = self.next_pack;
        self.next_pack += 1;
        self.change
            .prepare_cached("INSERT INTO packs (id, data) VALUES (?1, ?2)")?
            .execute(params![pack, data])?;
        let mut insert = self.change.prepare_cached(
            "INSERT INTO bodies (id, kind, prefix, hash, pack, start, length) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for body in bodies {
            let prefix = body::prefix(&body.hash);
            insert.execute(params![
                body.id,
                self.kind as i64,
                prefix,
                body.hash,
                pack,
                body.start,
                body.length
            ])?;
        }
        self.pending.clear();
        Ok(())
    }
}

/// Where a body lies.
#[derive(Clone, Debug)]
pub(super) struct BodyRow {
    pub(super) pack: i64,
    pub(super) start: i64,
    pub(super) length: i64,
    pub(super) hash: Vec<u8>,
}

/// Reads bodies, each pack once.
pub(super) struct BodyReader<'c> {
    db: &'c Connection,
    open: HashMap<i64, Rc<Vec<u8>>>,
}

impl<'c> BodyReader<'c> {
    pub(super) fn new(db: &'c Connection) -> Self {
        Self { db, open: HashMap::new() }
    }

    /// Gives the bytes of a body to `use_bytes`, which checks them against the hash.
    pub(super) fn with<T>(
        &mut self,
        row: &BodyRow,
        use_bytes: impl FnOnce(&[u8]) -> Result<T, StoreError>,
    ) -> Result<T, Fault> {
        let pack = self.pack(row.pack)?;
        Ok(use_bytes(body::slice(&pack, row.start, row.length)?)?)
    }

    /// Whether a pack need not be unpacked to read from it.
    pub(super) fn is_open(&self, pack: i64) -> bool {
        self.open.contains_key(&pack)
    }

    fn pack(&mut self, id: i64) -> Result<Rc<Vec<u8>>, Fault> {
        if let Some(pack) = self.open.get(&id) {
            return Ok(Rc::clone(pack));
        }
        let mut statement = self.db.prepare_cached("SELECT data FROM packs WHERE id = ?1")?;
        let mut rows = statement.query([id])?;
        let row = rows.next()?.ok_or_else(|| corrupt(format!("pack {id} is missing")))?;
        let data = row.get_ref(0)?.as_blob().map_err(|_| corrupt(format!("pack {id} is no blob")))?;
        let pack = Rc::new(body::unseal(data)?);
        if self.open.len() >= PACKS_OPEN_MAX {
            self.open.clear();
        }
        self.open.insert(id, Rc::clone(&pack));
        Ok(pack)
    }
}
