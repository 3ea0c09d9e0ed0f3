-- Items as they were appended, until they are settled: named by their content, compressed together, listed
-- one by one. A row holds what was appended together, from the position of its first item on.
CREATE TABLE tail (
    loop BIGINT NOT NULL,
    position BIGINT NOT NULL,
    count BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (loop, position)
);
ALTER TABLE tail ALTER COLUMN data SET STORAGE EXTERNAL;

-- Every append changes a row of both. Where no index is on what it changes and the page has room, the new
-- row is written beside the old one and no index learns of it.
DROP INDEX sessions_by_update;
ALTER TABLE sessions SET (fillfactor = 50);
ALTER TABLE loops SET (fillfactor = 50);

-- Bodies are indexed with their buckets: what was indexed without is indexed anew. What waits to be taken
-- into the index is read by every search, so little may wait. is_exact: whether every place of every word
-- is known, so that the server can compare where they stand.
TRUNCATE search;
ALTER TABLE search ADD COLUMN is_exact BOOLEAN NOT NULL;
UPDATE bodies SET is_indexed = false WHERE is_indexed;
ALTER INDEX search_by_word SET (gin_pending_list_limit = 256);
