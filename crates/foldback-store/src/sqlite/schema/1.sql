CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    current_loop INTEGER,
    block_count INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX sessions_by_update ON sessions (updated_at);

-- shared: how many items at its beginning belong to the loop it branched off.
-- top, tip: numbers of blocks.
CREATE TABLE loops (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    origin INTEGER NOT NULL,
    parent INTEGER,
    shared INTEGER NOT NULL,
    item_count INTEGER NOT NULL,
    top INTEGER,
    tip INTEGER,
    original_bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    UNIQUE (session, name)
);

CREATE TABLE packs (id INTEGER PRIMARY KEY, data BLOB NOT NULL);

-- prefix: the first eight bytes of the hash. New hashes fall anywhere in their index, so each entry
-- costs a page of every commit: short entries are a third of the pages.
CREATE TABLE bodies (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    prefix INTEGER NOT NULL,
    hash BLOB NOT NULL,
    pack INTEGER NOT NULL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL
);
CREATE INDEX bodies_by_prefix ON bodies (prefix);
CREATE INDEX bodies_by_pack ON bodies (pack);

CREATE TABLE items (
    loop INTEGER NOT NULL,
    position INTEGER NOT NULL,
    body INTEGER NOT NULL,
    handle TEXT NOT NULL,
    PRIMARY KEY (loop, position)
) WITHOUT ROWID;
CREATE INDEX items_by_body ON items (body);

-- reach: one more than the last item it speaks of.
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    loop INTEGER NOT NULL,
    parent INTEGER,
    reach INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    data BLOB NOT NULL,
    splice BLOB NOT NULL,
    UNIQUE (session, number)
);

CREATE TABLE handles (
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    handle TEXT NOT NULL,
    block INTEGER NOT NULL,
    PRIMARY KEY (session, handle, block)
) WITHOUT ROWID;

CREATE TABLE originals (
    loop INTEGER NOT NULL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL,
    body INTEGER NOT NULL,
    PRIMARY KEY (loop, start)
) WITHOUT ROWID;
CREATE INDEX originals_by_body ON originals (body);
