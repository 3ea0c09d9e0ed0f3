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
