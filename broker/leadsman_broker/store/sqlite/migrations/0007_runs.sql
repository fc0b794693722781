-- Runs: their caps and counts. One without a time to purge is running or has live tasks.

CREATE TABLE runs (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    created_at REAL NOT NULL,
    ended_at REAL,
    max_tokens INTEGER,
    max_cost_micros INTEGER,
    max_seconds REAL,
    max_tasks INTEGER,
    accepted INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    lost_tokens INTEGER NOT NULL,
    lost_cost_micros INTEGER NOT NULL,
    purge_at REAL,
    PRIMARY KEY (namespace, id)
) WITHOUT ROWID;
CREATE INDEX runs_by_age ON runs (namespace, created_at, id);
CREATE INDEX runs_open ON runs (namespace) WHERE purge_at IS NULL;
CREATE INDEX runs_by_purge ON runs (purge_at) WHERE purge_at IS NOT NULL;

ALTER TABLE totals ADD COLUMN over_limit INTEGER NOT NULL DEFAULT 0;
