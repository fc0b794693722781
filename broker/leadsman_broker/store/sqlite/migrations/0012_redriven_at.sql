-- When a task was brought back last: its ttl runs from then. Of those brought back before, their history says it.

ALTER TABLE redriven ADD COLUMN at REAL NOT NULL DEFAULT 0.0;
INSERT INTO redriven (seq, operation, at)
SELECT seq, '', max(at) FROM history WHERE event = 'redriven' GROUP BY seq
ON CONFLICT (seq) DO UPDATE SET at = excluded.at;
-- The history of a task is cut at its newest entries; one without its last redrive is taken as of its acceptance.
UPDATE redriven SET at = coalesce(
    (SELECT accepted_at FROM live WHERE live.seq = redriven.seq),
    (SELECT accepted_at FROM ended WHERE ended.seq = redriven.seq),
    0.0
) WHERE at = 0.0;
