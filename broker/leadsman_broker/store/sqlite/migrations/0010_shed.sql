-- Waiting tasks dropped for others of higher priority.

ALTER TABLE totals ADD COLUMN shed INTEGER NOT NULL DEFAULT 0;
