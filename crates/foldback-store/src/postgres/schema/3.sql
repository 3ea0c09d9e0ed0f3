-- is_joined: whether it belongs to the same compaction as the block below it.
ALTER TABLE blocks ADD COLUMN is_joined BOOLEAN NOT NULL DEFAULT false;

-- Writing without spaces is indexed sign by sign: what was indexed otherwise is indexed anew.
TRUNCATE search;
UPDATE bodies SET is_indexed = false WHERE is_indexed;
