-- Ledger, runs and budgets: see statements.sql.

-- name: put_attempt
INSERT INTO ledger (
    seq, epoch, task_id, queue, tenant, run_id, leased_at, outcome, tokens, cost_micros, purge_at,
    reported, reserved_tokens, reserved_cost
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (seq, epoch) DO UPDATE SET
    outcome = excluded.outcome, tokens = excluded.tokens, cost_micros = excluded.cost_micros,
    purge_at = excluded.purge_at, reported = excluded.reported,
    reserved_tokens = excluded.reserved_tokens, reserved_cost = excluded.reserved_cost

-- name: drop_attempt
DELETE FROM ledger WHERE (seq, epoch) IN (VALUES (?, ?))

-- name: read_running
SELECT
    seq, epoch, task_id, queue, tenant, run_id, leased_at, outcome, tokens, cost_micros, purge_at,
    reported, reserved_tokens, reserved_cost
FROM ledger WHERE outcome = 'running'

-- name: read_attempts
SELECT
    ledger.seq, ledger.epoch, task_id, queue, tenant, run_id, leased_at, outcome, tokens, cost_micros, purge_at,
    reported, reserved_tokens, reserved_cost
FROM json_each(?) AS wanted CROSS JOIN ledger ON ledger.seq = wanted.value

-- name: read_ledger_purge
SELECT seq, epoch FROM ledger WHERE purge_at <= ? AND outcome <> 'running' ORDER BY purge_at, seq, epoch LIMIT ?

-- name: read_usage
SELECT sum(tokens), sum(cost_micros) FROM ledger WHERE seq = ? AND reported

-- name: sum_cost
SELECT
    CASE ?1
        WHEN 'capability' THEN queue WHEN 'tenant' THEN tenant WHEN 'run' THEN run_id WHEN 'task' THEN task_id
    END AS item,
    count(*), sum(outcome = 'running'), sum(outcome = 'completed'), sum(outcome = 'failed'),
    sum(outcome = 'released'), sum(outcome = 'lost'), sum(tokens), sum(cost_micros),
    sum(tokens * (outcome = 'lost')), sum(cost_micros * (outcome = 'lost'))
FROM ledger
WHERE queue IN (SELECT value FROM json_each(?2))
    AND leased_at >= ?3 AND leased_at < ?4
    AND (?5 IS NULL OR tenant = ?5)
    AND (?6 IS NULL OR run_id = ?6)
GROUP BY 1 ORDER BY 9 DESC, 8 DESC, 1 LIMIT ?7

-- name: next_task_of_run
SELECT min(seq) FROM (
    SELECT min(seq) AS seq FROM live WHERE run_id = ?2 AND run_id != '' AND seq > ?1
    UNION ALL SELECT min(seq) FROM ended WHERE run_id = ?2 AND run_id != '' AND seq > ?1
)

-- name: put_run
INSERT INTO runs (
    namespace, id, state, reason, created_at, ended_at, max_tokens, max_cost_micros, max_seconds, max_tasks,
    accepted, completed, dead, expired, cancelled, tokens, cost_micros, lost_tokens, lost_cost_micros, purge_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO UPDATE SET
    state = excluded.state, reason = excluded.reason, ended_at = excluded.ended_at,
    max_tokens = excluded.max_tokens, max_cost_micros = excluded.max_cost_micros,
    max_seconds = excluded.max_seconds, max_tasks = excluded.max_tasks,
    accepted = excluded.accepted, completed = excluded.completed, dead = excluded.dead,
    expired = excluded.expired, cancelled = excluded.cancelled,
    tokens = excluded.tokens, cost_micros = excluded.cost_micros,
    lost_tokens = excluded.lost_tokens, lost_cost_micros = excluded.lost_cost_micros,
    purge_at = excluded.purge_at

-- name: drop_run
DELETE FROM runs WHERE (namespace, id) IN (VALUES (?, ?))

-- name: load_runs
SELECT
    namespace, id, state, reason, created_at, ended_at, max_tokens, max_cost_micros, max_seconds, max_tasks,
    accepted, completed, dead, expired, cancelled, tokens, cost_micros, lost_tokens, lost_cost_micros, purge_at
FROM runs WHERE purge_at IS NULL

-- name: read_run
SELECT
    namespace, id, state, reason, created_at, ended_at, max_tokens, max_cost_micros, max_seconds, max_tasks,
    accepted, completed, dead, expired, cancelled, tokens, cost_micros, lost_tokens, lost_cost_micros, purge_at
FROM runs WHERE namespace = ? AND id = ?

-- name: read_run_purge
SELECT namespace, id FROM runs WHERE purge_at <= ? ORDER BY purge_at, namespace, id LIMIT ?

-- name: list_runs
SELECT
    namespace, id, state, reason, created_at, ended_at, max_tokens, max_cost_micros, max_seconds, max_tasks,
    accepted, completed, dead, expired, cancelled, tokens, cost_micros, lost_tokens, lost_cost_micros, purge_at
FROM runs
WHERE namespace = ?1
    AND (?2 IS NULL OR state = ?2)
    AND (?3 IS NULL OR (created_at, id) < (?3, ?4))
ORDER BY created_at DESC, id DESC LIMIT ?5

-- name: turn_budgets
DELETE FROM budgets WHERE namespace = ? AND capability = ? AND starts_at < ?

-- name: put_budget
INSERT INTO budgets (namespace, capability, scope, tenant, starts_at, tokens, cost_micros)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, capability, scope, tenant) DO UPDATE SET
    starts_at = excluded.starts_at, tokens = excluded.tokens, cost_micros = excluded.cost_micros

-- name: load_budgets
SELECT namespace, capability, scope, tenant, starts_at, tokens, cost_micros FROM budgets
