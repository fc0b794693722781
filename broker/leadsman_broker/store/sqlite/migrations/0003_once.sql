-- What an attempt hands to the attempts after it, and attempts that were refused for want of progress.

CREATE TABLE once (
    seq INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (seq, key)
) WITHOUT ROWID;

ALTER TABLE totals ADD COLUMN no_progress INTEGER NOT NULL DEFAULT 0;
