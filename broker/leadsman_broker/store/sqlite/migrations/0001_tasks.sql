-- All tables of tasks have the task's seq as their row id: new work is appended, and rows that are used
-- together lie together. Payloads live apart from the rows that change, so that a lease rewrites little.

CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    last_at REAL NOT NULL
);
INSERT INTO meta (id, generation, next_seq, last_at) VALUES (1, 0, 1, 0.0);

CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    capability TEXT NOT NULL,
    UNIQUE (namespace, capability)
);

CREATE TABLE live (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    queue INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    class TEXT NOT NULL,
    priority INTEGER NOT NULL,
    accepted_at REAL NOT NULL,
    max_attempts INTEGER NOT NULL,
    name TEXT NOT NULL,
    idempotency_key TEXT,
    key_hash BLOB,
    traceparent TEXT,
    due_at REAL NOT NULL,
    backing_off INTEGER NOT NULL,
    expires_at REAL,
    epoch INTEGER NOT NULL,
    secret TEXT NOT NULL,
    failures INTEGER NOT NULL,
    reclaims INTEGER NOT NULL,
    releases INTEGER NOT NULL,
    poison INTEGER NOT NULL,
    suspect INTEGER NOT NULL,
    cancel INTEGER NOT NULL,
    history INTEGER NOT NULL,
    settled_epoch INTEGER NOT NULL,
    settled_op TEXT NOT NULL,
    settled_state TEXT,
    lease_pod TEXT,
    lease_incarnation TEXT,
    lease_pool TEXT,
    lease_attempt_id TEXT,
    lease_started_at REAL,
    lease_expires_at REAL
);

CREATE TABLE ended (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    queue INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    class TEXT NOT NULL,
    priority INTEGER NOT NULL,
    accepted_at REAL NOT NULL,
    max_attempts INTEGER NOT NULL,
    name TEXT NOT NULL,
    idempotency_key TEXT,
    key_hash BLOB,
    traceparent TEXT,
    due_at REAL NOT NULL,
    backing_off INTEGER NOT NULL,
    expires_at REAL,
    epoch INTEGER NOT NULL,
    secret TEXT NOT NULL,
    failures INTEGER NOT NULL,
    reclaims INTEGER NOT NULL,
    releases INTEGER NOT NULL,
    poison INTEGER NOT NULL,
    suspect INTEGER NOT NULL,
    cancel INTEGER NOT NULL,
    history INTEGER NOT NULL,
    settled_epoch INTEGER NOT NULL,
    settled_op TEXT NOT NULL,
    settled_state TEXT,
    lease_pod TEXT,
    lease_incarnation TEXT,
    lease_pool TEXT,
    lease_attempt_id TEXT,
    lease_started_at REAL,
    lease_expires_at REAL,
    state TEXT NOT NULL,
    ended_at REAL NOT NULL,
    visible_until REAL NOT NULL,
    purge_at REAL NOT NULL,
    late INTEGER NOT NULL,
    reason TEXT,
    error_type TEXT,
    error_message TEXT,
    result BLOB
);
CREATE INDEX ended_by_purge ON ended (purge_at);
CREATE INDEX ended_dead ON ended (queue, seq) WHERE state = 'dead';

CREATE TABLE payloads (seq INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE checkpoints (seq INTEGER PRIMARY KEY, checkpoint BLOB NOT NULL);

CREATE TABLE history (
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    event TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT,
    detail TEXT,
    PRIMARY KEY (seq, number)
) WITHOUT ROWID;

CREATE TABLE keys (
    hash BLOB PRIMARY KEY,
    seq INTEGER NOT NULL,
    fingerprint BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE namespaces (
    namespace TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    capabilities TEXT NOT NULL,
    retained TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE fences (
    pod_uid TEXT PRIMARY KEY,
    operation TEXT NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE totals (
    queue INTEGER PRIMARY KEY,
    accepted INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    reclaimed INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    late_acks INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    cancelled INTEGER NOT NULL
);

CREATE TABLE service_times (queue INTEGER PRIMARY KEY, seconds BLOB NOT NULL);
