-- Pods whose workers are given nothing new.

CREATE TABLE cordons (
    pod_uid TEXT PRIMARY KEY,
    operation TEXT NOT NULL,
    expires_at REAL NOT NULL,
    drain INTEGER NOT NULL
) WITHOUT ROWID;
