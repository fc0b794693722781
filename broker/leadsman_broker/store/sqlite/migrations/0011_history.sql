-- When the lease in force was given, so that a history shows every delivery without a row of its own for each.

ALTER TABLE history ADD COLUMN began REAL;
