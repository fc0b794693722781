-- What a restore leaves for the next start: see store/sqlite/backup.py.

ALTER TABLE meta ADD COLUMN restored_below INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN restoring INTEGER NOT NULL DEFAULT 0;
