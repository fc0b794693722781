-- One statement per name. Read by statements.py; positional parameters are filled by encoding.py.

-- name: take_over
UPDATE meta SET generation = generation + 1 WHERE id = 1 RETURNING generation

-- name: check_owner
UPDATE meta SET next_seq = max(next_seq, ?), last_at = max(last_at, ?) WHERE id = 1 AND generation = ?

-- name: read_meta
SELECT next_seq, last_at, restored_below, restoring FROM meta WHERE id = ?

-- name: restored
UPDATE meta SET restoring = 0 WHERE id = 1

-- name: mark_restored
UPDATE meta SET generation = max(generation, ?) + 1, restored_below = next_seq, restoring = 1 WHERE id = 1

-- name: read_generation
SELECT generation FROM meta WHERE id = 1

-- name: count_live
SELECT count(*) FROM live

-- name: count_leased
SELECT count(lease_pod) FROM live

-- name: read_queues
SELECT id, namespace, capability FROM queues

-- name: add_queue
INSERT INTO queues (id, namespace, capability) VALUES (?, ?, ?)

-- name: accept
INSERT INTO live (
    seq, id, queue, tenant, class, priority, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    name, idempotency_key, key_hash, traceparent,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: accept_payload
INSERT INTO payloads (seq, payload) VALUES (?, ?)

-- name: accept_key
INSERT INTO keys (hash, seq, fingerprint) VALUES (?, ?, ?)
ON CONFLICT (hash) DO UPDATE SET seq = excluded.seq, fingerprint = excluded.fingerprint

-- name: revive
WITH given (
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    seq
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO live (
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    seq, id, queue, tenant, class, priority, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost, name, idempotency_key, key_hash, traceparent
)
SELECT
    given.due_at, given.backing_off, given.expires_at, given.epoch, given.secret, given.failures, given.reclaims,
    given.releases, given.poison, given.suspect, given.cancel, given.history, given.settled_epoch,
    given.settled_op, given.settled_state, given.lease_pod, given.lease_incarnation, given.lease_pool,
    given.lease_attempt_id, given.lease_started_at, given.lease_expires_at,
    ended.seq, id, queue, tenant, class, priority, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost, name, idempotency_key, key_hash, traceparent
FROM given CROSS JOIN ended ON ended.seq = given.seq

-- name: update
WITH given (
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    seq
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
UPDATE live SET
    due_at = given.due_at, backing_off = given.backing_off, expires_at = given.expires_at,
    epoch = given.epoch, secret = given.secret, failures = given.failures,
    reclaims = given.reclaims, releases = given.releases, poison = given.poison,
    suspect = given.suspect, cancel = given.cancel, history = given.history,
    settled_epoch = given.settled_epoch, settled_op = given.settled_op, settled_state = given.settled_state,
    lease_pod = given.lease_pod, lease_incarnation = given.lease_incarnation, lease_pool = given.lease_pool,
    lease_attempt_id = given.lease_attempt_id, lease_started_at = given.lease_started_at, lease_expires_at = given.lease_expires_at
FROM given WHERE live.seq = given.seq

-- name: save_checkpoint
INSERT INTO checkpoints (seq, checkpoint) VALUES (?, ?)
ON CONFLICT (seq) DO UPDATE SET checkpoint = excluded.checkpoint

-- name: add_once
INSERT INTO once (seq, key, value) VALUES (?, ?, ?)

-- name: put_redriven
INSERT INTO redriven (seq, operation, at) VALUES (?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET operation = excluded.operation, at = excluded.at

-- name: add_history
INSERT INTO history (seq, number, at, event, epoch, worker, detail, began) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: trim_history
DELETE FROM history WHERE seq = ? AND number <= ?

-- name: end
WITH given (
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    state, ended_at, visible_until, purge_at, late, reason, error_type, error_message, result, follow_ups,
    seq
) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO ended (
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    state, ended_at, visible_until, purge_at, late, reason, error_type, error_message, result, follow_ups,
    seq, id, queue, tenant, class, priority, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost, name, idempotency_key, key_hash, traceparent
)
SELECT
    given.due_at, given.backing_off, given.expires_at, given.epoch, given.secret, given.failures, given.reclaims,
    given.releases, given.poison, given.suspect, given.cancel, given.history, given.settled_epoch,
    given.settled_op, given.settled_state, given.lease_pod, given.lease_incarnation, given.lease_pool,
    given.lease_attempt_id, given.lease_started_at, given.lease_expires_at, given.state, given.ended_at,
    given.visible_until, given.purge_at, given.late, given.reason, given.error_type, given.error_message,
    given.result, given.follow_ups,
    live.seq, id, queue, tenant, class, priority, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost, name, idempotency_key, key_hash, traceparent
FROM given CROSS JOIN live ON live.seq = given.seq

-- name: drop_live
DELETE FROM live WHERE seq IN (SELECT value FROM json_each(?))

-- name: drop_ended
DELETE FROM ended WHERE seq IN (SELECT value FROM json_each(?))

-- name: drop_payload
DELETE FROM payloads WHERE seq IN (SELECT value FROM json_each(?))

-- name: drop_checkpoint
DELETE FROM checkpoints WHERE seq IN (SELECT value FROM json_each(?))

-- name: drop_once
DELETE FROM once WHERE seq IN (SELECT value FROM json_each(?))

-- name: drop_redriven
DELETE FROM redriven WHERE seq IN (SELECT value FROM json_each(?))

-- name: drop_history
DELETE FROM history WHERE seq IN (SELECT value FROM json_each(?))

-- name: drop_key
DELETE FROM keys
WHERE (hash, seq) IN (SELECT key_hash, seq FROM ended WHERE seq IN (SELECT value FROM json_each(?)))

-- name: put_namespace
INSERT INTO namespaces (namespace, generation, capabilities, retained) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace) DO UPDATE SET
    generation = excluded.generation, capabilities = excluded.capabilities, retained = excluded.retained

-- name: put_fence
INSERT INTO fences (pod_uid, operation, expires_at) VALUES (?, ?, ?)
ON CONFLICT (pod_uid) DO UPDATE SET operation = excluded.operation, expires_at = excluded.expires_at

-- name: drop_fence
DELETE FROM fences WHERE pod_uid = ?

-- name: put_cordon
INSERT INTO cordons (pod_uid, operation, expires_at, drain) VALUES (?, ?, ?, ?)
ON CONFLICT (pod_uid) DO UPDATE SET
    operation = excluded.operation, expires_at = excluded.expires_at, drain = excluded.drain

-- name: drop_cordon
DELETE FROM cordons WHERE pod_uid = ?

-- name: put_pause
INSERT INTO pauses (namespace, capability, at, reason) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace, capability) DO UPDATE SET at = excluded.at, reason = excluded.reason

-- name: drop_pause
DELETE FROM pauses WHERE namespace = ? AND capability = ?

-- name: put_totals
INSERT INTO totals (
    queue, accepted, completed, failed, reclaimed, refused, late_acks, dead, expired, cancelled, no_progress,
    redriven, purged, shed, tokens, cost_micros, lost_tokens, lost_cost_micros, over_limit, over_budget
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue) DO UPDATE SET
    accepted = excluded.accepted, completed = excluded.completed, failed = excluded.failed,
    reclaimed = excluded.reclaimed, refused = excluded.refused, late_acks = excluded.late_acks,
    dead = excluded.dead, expired = excluded.expired, cancelled = excluded.cancelled,
    no_progress = excluded.no_progress, redriven = excluded.redriven, purged = excluded.purged,
    shed = excluded.shed,
    tokens = excluded.tokens, cost_micros = excluded.cost_micros,
    lost_tokens = excluded.lost_tokens, lost_cost_micros = excluded.lost_cost_micros,
    over_limit = excluded.over_limit, over_budget = excluded.over_budget

-- name: put_service_times
INSERT INTO service_times (queue, seconds) VALUES (?, ?)
ON CONFLICT (queue) DO UPDATE SET seconds = excluded.seconds

-- name: drop_totals
DELETE FROM totals WHERE queue = ?

-- name: drop_service_times
DELETE FROM service_times WHERE queue = ?

-- name: load_live
SELECT
    seq, id, queue, tenant, class, priority, idempotency_key IS NOT NULL, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at
FROM live ORDER BY seq

-- name: count_dead
SELECT queue, count(*) FROM ended WHERE state = 'dead' GROUP BY queue

-- name: load_namespaces
SELECT namespace, generation, capabilities, retained FROM namespaces

-- name: load_fences
SELECT pod_uid, operation, expires_at FROM fences

-- name: load_cordons
SELECT pod_uid, operation, expires_at, drain FROM cordons

-- name: load_pauses
SELECT namespace, capability, at, reason FROM pauses

-- name: load_totals
SELECT
    queue, accepted, completed, failed, reclaimed, refused, late_acks, dead, expired, cancelled, no_progress,
    redriven, purged, shed, tokens, cost_micros, lost_tokens, lost_cost_micros, over_limit, over_budget
FROM totals

-- name: load_service_times
SELECT queue, seconds FROM service_times

-- name: read_keys
SELECT keys.hash, keys.fingerprint, live.id, ended.id, ended.state, ended.ended_at
FROM json_each(?) AS wanted
CROSS JOIN keys ON keys.hash = unhex(wanted.value)
LEFT JOIN live ON live.seq = keys.seq
LEFT JOIN ended ON ended.seq = keys.seq

-- name: read_ended
SELECT
    ended.seq, ended.id, queue, tenant, class, priority, ended.idempotency_key IS NOT NULL, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    state, ended_at, visible_until, purge_at, late, follow_ups
FROM json_each(?) AS wanted CROSS JOIN ended ON ended.seq = wanted.value

-- name: read_purge
SELECT seq, id, queue, state FROM ended WHERE purge_at <= ? ORDER BY purge_at, seq LIMIT ?

-- name: read_once
SELECT once.seq, once.key, once.value
FROM json_each(?) AS wanted CROSS JOIN once ON once.seq = wanted.value

-- name: read_redriven
SELECT redriven.seq, redriven.operation, redriven.at
FROM json_each(?) AS wanted CROSS JOIN redriven ON redriven.seq = wanted.value

-- name: read_deliveries
SELECT
    live.id, live.name, payloads.payload, checkpoints.checkpoint, live.traceparent,
    EXISTS (SELECT 1 FROM once WHERE once.seq = live.seq)
FROM json_each(?) AS wanted
CROSS JOIN live ON live.seq = wanted.value
JOIN payloads ON payloads.seq = live.seq
LEFT JOIN checkpoints ON checkpoints.seq = live.seq

-- name: read_first_deliveries
SELECT live.id, live.name, payloads.payload, live.traceparent
FROM json_each(?) AS wanted
CROSS JOIN live ON live.seq = wanted.value
JOIN payloads ON payloads.seq = live.seq

-- name: read_live_task
SELECT
    seq, id, queue, tenant, class, priority, idempotency_key IS NOT NULL, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    name, idempotency_key, traceparent
FROM live WHERE seq = ?

-- name: read_ended_task
SELECT
    seq, id, queue, tenant, class, priority, idempotency_key IS NOT NULL, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    state, ended_at, visible_until, purge_at, late,
    name, idempotency_key, traceparent, reason, error_type, error_message, result
FROM ended WHERE seq = ?

-- name: read_history
SELECT seq, number, at, event, epoch, worker, detail, began FROM history WHERE seq = ? ORDER BY number

-- name: read_payload
SELECT payload FROM payloads WHERE seq = ?

-- name: next_task
SELECT min(seq) FROM (
    SELECT min(seq) AS seq FROM live WHERE seq > ?1 UNION ALL SELECT min(seq) FROM ended WHERE seq > ?1
)

-- name: list_live
SELECT
    seq, id, queue, tenant, class, priority, idempotency_key IS NOT NULL, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    name, idempotency_key, traceparent
FROM live
WHERE seq BETWEEN ?1 AND ?2
    AND queue IN (SELECT value FROM json_each(?3))
    AND (?4 IS NULL OR tenant = ?4)
    AND (?8 IS NULL OR run_id = ?8)
    AND CASE ?5
        WHEN 'leased' THEN lease_pod IS NOT NULL
        WHEN 'ready' THEN lease_pod IS NULL AND due_at <= ?6
        WHEN 'delayed' THEN lease_pod IS NULL AND due_at > ?6
        ELSE ?5 IS NULL
    END
ORDER BY seq LIMIT ?7

-- name: list_ended
SELECT
    seq, id, queue, tenant, class, priority, idempotency_key IS NOT NULL, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    state, ended_at, visible_until, purge_at, late,
    name, idempotency_key, traceparent, reason, error_type, error_message, result
FROM ended
WHERE seq BETWEEN ?1 AND ?2
    AND queue IN (SELECT value FROM json_each(?3))
    AND (?4 IS NULL OR tenant = ?4)
    AND (?8 IS NULL OR run_id = ?8)
    AND (?5 IS NULL OR state = ?5)
    AND visible_until > ?6
ORDER BY seq LIMIT ?7

-- name: next_dead
SELECT max(seq) FROM (SELECT seq FROM ended WHERE state = 'dead' AND queue = ? AND seq > ? ORDER BY seq LIMIT ?)

-- name: list_dead
SELECT
    seq, id, queue, tenant, class, priority, idempotency_key IS NOT NULL, accepted_at, max_attempts,
    run_id, estimate_tokens, estimate_cost,
    due_at, backing_off, expires_at, epoch, secret, failures, reclaims, releases, poison, suspect, cancel, history,
    settled_epoch, settled_op, settled_state,
    lease_pod, lease_incarnation, lease_pool, lease_attempt_id, lease_started_at, lease_expires_at,
    state, ended_at, visible_until, purge_at, late,
    name, idempotency_key, traceparent, reason, error_type, error_message, result
FROM ended
WHERE state = 'dead' AND queue = ?1 AND seq > ?2 AND seq <= ?3 AND visible_until > ?4
    AND (?5 IS NULL OR coalesce(error_type, '') = ?5)
    AND (?6 IS NULL OR reason = ?6)
    AND (?7 IS NULL OR name = ?7)
    AND (?8 IS NULL OR tenant = ?8)
    AND (?9 IS NULL OR run_id = ?9)
    AND (?10 IS NULL OR ended_at >= ?10)
    AND (?11 IS NULL OR ended_at < ?11)
ORDER BY seq LIMIT ?12

-- name: group_dead
SELECT
    coalesce(reason, ''), coalesce(error_type, ''), count(*), min(ended_at), max(ended_at), max(seq)
FROM ended
WHERE state = 'dead' AND queue = ?1 AND seq > ?2 AND seq <= ?3 AND visible_until > ?4
    AND (?5 IS NULL OR coalesce(error_type, '') = ?5)
    AND (?6 IS NULL OR reason = ?6)
    AND (?7 IS NULL OR name = ?7)
    AND (?8 IS NULL OR tenant = ?8)
    AND (?9 IS NULL OR run_id = ?9)
    AND (?10 IS NULL OR ended_at >= ?10)
    AND (?11 IS NULL OR ended_at < ?11)
GROUP BY 1, 2

-- name: read_sample
SELECT id, error_message FROM ended WHERE seq = ?

-- name: count_redriven
SELECT count(*) FROM redriven WHERE operation = ? AND seq > ?

-- name: put_opening
INSERT INTO openings (namespace, capability, scope, tenant, interactive, at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, capability, scope, tenant, interactive) DO UPDATE SET at = excluded.at

-- name: drop_old_openings
DELETE FROM openings WHERE scope = 1 AND at < ?

-- name: drop_openings
DELETE FROM openings WHERE namespace = ? AND capability = ?

-- name: load_openings
SELECT namespace, capability, scope, tenant, interactive, at FROM openings
