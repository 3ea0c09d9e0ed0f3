-- Items as they were appended, until they are settled: named by their content, compressed, listed one
-- by one. A row holds what was appended together; its id is the loop and the position of its first item
-- in one number, so that an append writes to one tree only.
CREATE TABLE tail (
    id INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    hash BLOB NOT NULL,
    data BLOB NOT NULL
);

-- is_joined: whether it belongs to the same compaction as the block below it.
ALTER TABLE blocks ADD COLUMN is_joined INTEGER NOT NULL DEFAULT 0;

-- Writing without spaces is indexed sign by sign: what was indexed otherwise is indexed anew.
INSERT INTO search (search) VALUES ('delete-all');
UPDATE search_state SET indexed = 0;
