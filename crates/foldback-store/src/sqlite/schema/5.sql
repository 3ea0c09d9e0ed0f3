-- Items are looked up by their handles.
CREATE INDEX items_by_handle ON items (handle);

-- How many items a loop has with what was appended last, and what that made of its session. It stands apart
-- from the tail, so that the loss of the tail's last rows is noticed.
CREATE TABLE tail_ends (
    loop INTEGER PRIMARY KEY,
    item_count INTEGER NOT NULL,
    version INTEGER NOT NULL,
    appended_at INTEGER NOT NULL
);
INSERT INTO tail_ends (loop, item_count, version, appended_at)
SELECT id, item_count, tail_version, appended_at FROM live_loops;

DROP VIEW live_sessions;
DROP VIEW live_loops;

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
