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
CREATE INDEX items_by_handle ON items (handle);

-- is_joined, reach: as the block says, to be known without reading it. splice: what it comes to with all
-- blocks below it.
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    loop INTEGER NOT NULL,
    parent INTEGER,
    is_joined INTEGER NOT NULL,
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

-- One row for each session that ever had a job: its token only grows, so that a lease that was lost
-- can never be taken for a new one.
CREATE TABLE jobs (
    session INTEGER PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    loop TEXT NOT NULL,
    reason TEXT NOT NULL,
    state INTEGER NOT NULL,
    again INTEGER NOT NULL,
    worker TEXT,
    token INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    failure TEXT
);
CREATE INDEX jobs_by_state ON jobs (state, enqueued_at);

-- The words of bodies by their number; the text itself is in the bodies.
CREATE VIRTUAL TABLE search USING fts5 (
    text,
    content = '',
    contentless_delete = 1,
    tokenize = 'unicode61 remove_diacritics 2'
);

-- indexed: the last body that the search index has.
CREATE TABLE search_state (indexed INTEGER NOT NULL);
INSERT INTO search_state (indexed) VALUES (0);

-- Items as they were appended, until they are settled: named by their content, compressed, listed one
-- by one. A row holds what was appended together; its id is the loop and the position of its first item
-- in one number, so that an append writes to one tree only. version, appended_at: of the session, once this
-- was appended; the rows of its session and its loop are changed when it is settled.
CREATE TABLE tail (
    id INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    hash BLOB NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    appended_at INTEGER NOT NULL
);

-- How many items a loop has with what was appended last, and what that made of its session. It stands apart
-- from the tail, so that the loss of the tail's last rows is noticed.
CREATE TABLE tail_ends (
    loop INTEGER PRIMARY KEY,
    item_count INTEGER NOT NULL,
    version INTEGER NOT NULL,
    appended_at INTEGER NOT NULL
);

-- Loops and sessions as they are with what was not settled.
CREATE VIEW live_loops AS
SELECT l.id, l.session, l.name, l.origin, l.parent, l.shared,
    max(l.item_count, coalesce(e.item_count, 0)) AS item_count,
    l.top, l.tip, l.original_bytes, l.created_at, l.metadata,
    coalesce(e.version, 0) AS tail_version, coalesce(e.appended_at, 0) AS appended_at
FROM loops l LEFT JOIN tail_ends e ON e.loop = l.id;

CREATE VIEW live_sessions AS
SELECT s.id, s.name,
    max(s.version, coalesce((SELECT max(l.tail_version) FROM live_loops l WHERE l.session = s.id), 0))
        AS version,
    s.current_loop, s.block_count, s.created_at,
    max(s.updated_at, coalesce((SELECT max(l.appended_at) FROM live_loops l WHERE l.session = s.id), 0))
        AS updated_at,
    s.metadata
FROM sessions s;
