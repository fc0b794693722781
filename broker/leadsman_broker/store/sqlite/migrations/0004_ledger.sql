-- What attempts used, by delivery; most tasks have no row in it. Tasks name their run, and what an attempt may use.

ALTER TABLE live ADD COLUMN run_id TEXT NOT NULL DEFAULT '';
ALTER TABLE live ADD COLUMN estimate_tokens INTEGER;
ALTER TABLE live ADD COLUMN estimate_cost INTEGER;
ALTER TABLE ended ADD COLUMN run_id TEXT NOT NULL DEFAULT '';
ALTER TABLE ended ADD COLUMN estimate_tokens INTEGER;
ALTER TABLE ended ADD COLUMN estimate_cost INTEGER;
CREATE INDEX live_by_run ON live (run_id, seq) WHERE run_id != '';
CREATE INDEX ended_by_run ON ended (run_id, seq) WHERE run_id != '';

ALTER TABLE totals ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN lost_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN lost_cost_micros INTEGER NOT NULL DEFAULT 0;

CREATE TABLE ledger (
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    queue INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    leased_at REAL NOT NULL,
    outcome TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    purge_at REAL NOT NULL,
    PRIMARY KEY (seq, epoch)
) WITHOUT ROWID;
CREATE INDEX ledger_by_time ON ledger (queue, leased_at);
CREATE INDEX ledger_by_purge ON ledger (purge_at);
CREATE INDEX ledger_running ON ledger (seq) WHERE outcome = 'running';
