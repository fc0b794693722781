-- Which redrive brought a task back last, so that a repeated call gets the answer of the first; and two counters.

CREATE TABLE redriven (seq INTEGER PRIMARY KEY, operation TEXT NOT NULL);
CREATE INDEX redriven_by_operation ON redriven (operation, seq);

ALTER TABLE totals ADD COLUMN redriven INTEGER NOT NULL DEFAULT 0;
ALTER TABLE totals ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;
