"""A core from a store's rows: what a start does."""

from typing import TYPE_CHECKING

from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import budgets, ledger, openings
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.holding import hold
from leadsman_broker.core.ids import make_token
from leadsman_broker.core.leases import extend
from leadsman_broker.core.openings import OpeningRow
from leadsman_broker.core.picking import look_ahead
from leadsman_broker.core.placement import finish, requeue, watch_delayed, watch_expiry
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.rows import LiveRow, QueueKey, Standing, Stored
from leadsman_broker.core.runs import restore_runs
from leadsman_broker.core.service_times import ServiceTimes
from leadsman_broker.core.tasks import Lease, TaskRow, task_from
from leadsman_broker.core.timers import watch_suspects, watch_workers
from leadsman_broker.core.totals import Totals
from leadsman_broker.core.workers import known_worker

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def restore(state: "State", stored: Stored) -> None:
    """Fill an empty state. Leases are extended: their workers could not renew them while there was no broker."""
    state.next_seq = stored.next_seq
    state.restored_below = stored.restored_below
    for fence in stored.fences:
        state.fences[fence.pod_uid] = fence
        state.alarms.sooner("fences", fence.expires_at)
    for cordon in stored.cordons:
        state.cordons[cordon.pod_uid] = cordon
        state.alarms.sooner("cordons", cordon.expires_at)
    for pause in stored.pauses:
        state.pauses[pause.namespace, pause.capability] = pause
    for namespace in stored.namespaces:
        state.namespaces[namespace.namespace] = namespace
        for rules in namespace.capabilities:
            _queue(state, (namespace.namespace, rules.name), rules, configured=True)
        for rules in namespace.retained:
            _queue(state, (namespace.namespace, rules.name), rules, configured=False)
    for key, dead in stored.dead.items():
        _queue(state, key).dead = dead
    for row in stored.tasks:
        _place(state, row)
    for opening in stored.openings:
        _reopen(state, opening)
    restore_runs(state, stored.runs)
    _restore_usage(state, stored)

    for queue in [*state.queues.values()]:
        key = queue.key
        if not queue.configured and not queue.holds_tasks:
            del state.queues[key]
            continue
        if key in stored.totals:
            queue.totals = Totals(stored.totals[key])
        if key in stored.service_times:
            queue.service_times = ServiceTimes(stored.service_times[key])
        watch_delayed(state, queue)
        watch_suspects(state, queue)
        state.queue_changed(queue)
    watch_workers(state)
    if stored.restoring:
        _let_go_of_all(state)
    for queue in state.queues.values():
        look_ahead(state, queue)


def _reopen(state: "State", opening: OpeningRow) -> None:
    if opening.tenant is not None:
        openings.note(state, opening.at)
    queue = state.queues.get((opening.namespace, opening.capability))
    if queue is None:
        return
    if opening.tenant is None:
        queue.opened_at = queue.kept_at = opening.at
    else:
        queue.line.reopen(opening.tenant, int(opening.interactive), opening.at)


def _let_go_of_all(state: "State") -> None:
    """Make every lease of a backup ready again: its worker finished or gave up long ago. Spends no attempt."""
    for row in [row for row in state.tasks.values() if row.lease is not None]:
        lease = row.lease
        ledger.close(state, row, ledger.LOST)
        state.out.record(row, state.now, "restored", lease.worker.id if lease is not None else None, None)
        if row.cancel:
            finish(state, row, TaskState.CANCELLED, reason=EndReason.CANCELLED)
        else:
            requeue(state, row)
    state.out.restored = True


def _restore_usage(state: "State", stored: Stored) -> None:
    """Give leases back what their attempts said they used; one whose lease did not come back is lost."""
    orphans = []
    for attempt in stored.running:
        row = state.tasks.get(attempt.seq)
        if row is not None and row.lease is not None and row.epoch == attempt.epoch:
            row.lease.usage = attempt.usage
            row.lease.reported = attempt.reported
            row.lease.reserved = attempt.reserved
        else:
            orphans.append(attempt)
    budgets.restore(state, stored.budgets)
    for attempt in orphans:
        ledger.orphaned(state, attempt)


def _queue(
    state: "State", key: QueueKey, rules: CapabilityConfig | None = None, *, configured: bool = False
) -> Queue:
    queue = state.queues.get(key)
    if queue is None:
        rules = rules if rules is not None else CapabilityConfig(name=key[1])
        queue = state.queues[key] = Queue(key, rules, state.tasks, state.now, configured=configured)
        queue.paused = key in state.pauses
    return queue


def _place(state: "State", stored: LiveRow) -> None:
    queue = state.queues.get((stored.namespace, stored.capability))
    if queue is None:
        queue = _queue(state, (stored.namespace, stored.capability))
    row = task_from(stored, queue)
    state.tasks[row.seq] = row
    if row.expires_at is not None:
        watch_expiry(state, row)
    if stored.standing.lease_pod is not None:
        _hold(state, row, stored.standing)
        return
    if queue.sheddable is not None:
        queue.sheddable.add(row, state.tasks)
    if row.due_at > state.now:
        queue.add_delayed(row)
    elif row.epoch == 0 and row.due_at == row.accepted_at:
        queue.add_fresh(row)
    else:
        row.backing_off = False
        queue.add_returned(row)


def _hold(state: "State", row: TaskRow, standing: Standing) -> None:
    queue = row.queue
    worker = known_worker(state, (queue.key[0], standing.lease_pod or "", standing.lease_incarnation or ""))
    worker.pool = standing.lease_pool
    worker.asked_to_drain = worker.cordon is not None and worker.cordon.drain
    started_at = standing.lease_started_at or state.now
    slack = queue.rules.lease_seconds * state.settings.reclaim_jitter * state.rand.random()
    token = make_token(row.id, row.epoch, row.secret)
    expires_at = standing.lease_expires_at or state.now
    lease = Lease(token, worker, standing.lease_attempt_id or "", started_at, expires_at, slack)
    extend(row, lease, state.now)
    lease.wakes_at = lease.expires_at + slack
    if not worker.leases or started_at >= worker.last_end:
        worker.answered = lease.attempt_id
        worker.last_end = started_at  # the newest grant is the best guess at when it was last active
    queue.lend(row)
    hold(state, row, lease)
    worker.slots = max(worker.slots, len(worker.leases))
