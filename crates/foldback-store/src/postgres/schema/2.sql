-- One row for each session that ever had a job: its token only grows, so that a lease that was lost
-- can never be taken for a new one. Leases are by the server's clock, which all workers share.
CREATE TABLE jobs (
    session BIGINT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    loop TEXT NOT NULL,
    reason TEXT NOT NULL,
    state BIGINT NOT NULL,
    again BOOLEAN NOT NULL,
    worker TEXT,
    token BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    enqueued_at TIMESTAMPTZ NOT NULL,
    lease_until TIMESTAMPTZ NOT NULL,
    failure TEXT
);
CREATE INDEX jobs_by_state ON jobs (state, enqueued_at);

-- Numbers of bodies are committed in any order, so each says whether the search index has it.
ALTER TABLE bodies ADD COLUMN is_indexed BOOLEAN NOT NULL DEFAULT false;
CREATE INDEX bodies_to_index ON bodies (id) WHERE kind = 0 AND NOT is_indexed;

CREATE TABLE search (
    body BIGINT PRIMARY KEY REFERENCES bodies (id) ON DELETE CASCADE,
    words TSVECTOR NOT NULL
);
CREATE INDEX search_by_word ON search USING gin (words);
