-- version, appended_at: of the session, once this was appended. So an append writes to this tree only:
-- the rows of its session and its loop are changed when it is settled.
ALTER TABLE tail ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tail ADD COLUMN appended_at INTEGER NOT NULL DEFAULT 0;

-- Loops and sessions as they are with what was not settled: the last row of a loop's tail knows. The number
-- of a row is that of the loop, and 36 bits for the position of its first item.
CREATE VIEW live_loops AS
SELECT l.id, l.session, l.name, l.origin, l.parent, l.shared,
    max(l.item_count, coalesce((t.id & 0xfffffffff) + t.count, 0)) AS item_count,
    l.top, l.tip, l.original_bytes, l.created_at, l.metadata,
    coalesce(t.version, 0) AS tail_version, coalesce(t.appended_at, 0) AS appended_at
FROM loops l LEFT JOIN tail t
    ON t.id = (SELECT max(id) FROM tail WHERE id >= l.id << 36 AND id < (l.id + 1) << 36);

CREATE VIEW live_sessions AS
SELECT s.id, s.name,
    max(s.version, coalesce((SELECT max(l.tail_version) FROM live_loops l WHERE l.session = s.id), 0))
        AS version,
    s.current_loop, s.block_count, s.created_at,
    max(s.updated_at, coalesce((SELECT max(l.appended_at) FROM live_loops l WHERE l.session = s.id), 0))
        AS updated_at,
    s.metadata
FROM sessions s;

-- What is not settled decides about the order too.
DROP INDEX sessions_by_update;
