"""What must be true of a core after every step, whatever happened. Recounts everything from the tasks alone."""

from collections import Counter
from typing import Any

from leadsman.wire.tasks import TaskState
from leadsman_broker.core.core import Core
from leadsman_broker.core.tasks import TaskRow, live_row_of


def order_of(row: TaskRow) -> tuple[int, int]:
    return -row.priority, row.seq


def check(core: Core) -> None:
    check_counts(core)
    check_holders(core)
    check_fences(core)
    check_pauses(core)
    check_nothing_waits_in_vain(core)


def check_counts(core: Core) -> None:
    """Every count kept is the count of the tasks."""
    state = core.state
    for queue in state.queues.values():
        rows = [row for row in state.tasks.values() if row.queue is queue]
        ready = [row for row in rows if row.state is TaskState.READY]
        delayed = [row for row in rows if row.state is TaskState.DELAYED]
        assert queue.open.total == sum(not row.suspect for row in ready)
        assert queue.suspects.total == sum(row.suspect for row in ready)
        assert queue.delayed == len(delayed)
        assert queue.backing_off == sum(row.backing_off for row in delayed)
        assert queue.due_soon == sum(row.soon for row in delayed)
        assert queue.leased == sum(row.state is TaskState.LEASED for row in rows)
        assert queue.depth_by_tenant == Counter(row.tenant for row in (*ready, *delayed))
        oldest = min((row.due_at for row in ready), default=None)
        assert queue.oldest_since(state.tasks) == oldest
        assert queue.next_due(state.tasks) == min((row.due_at for row in delayed), default=None)


def check_holders(core: Core) -> None:
    """A task has one holder at most, and a worker holds exactly what says that it is held by it."""
    state = core.state
    held = [(seq, worker) for worker in state.workers.values() for seq in worker.leases]
    assert len({seq for seq, _ in held}) == len(held)
    for seq, worker in held:
        lease = state.tasks[seq].lease
        assert lease is not None
        assert lease.worker is worker
    for row in state.tasks.values():
        assert (row.lease is not None) == (row.state is TaskState.LEASED)
        if row.lease is not None:
            assert row.seq in row.lease.worker.leases
            assert state.workers[row.lease.worker.key] is row.lease.worker
    for worker in state.workers.values():
        assert len(worker.leases) <= worker.slots
        assert worker.alone == any(state.tasks[seq].suspect for seq in worker.leases)
        assert worker.call is None or state.calls[worker.call.id] is worker.call
    for key in state.workers:
        assert key in state.pods[key[1]]


def check_fences(core: Core) -> None:
    """A fenced pod holds nothing and waits for nothing; a cordoned one waits for nothing."""
    state = core.state
    for worker in state.workers.values():
        assert worker.fence == state.fences.get(worker.key[1])
        assert worker.cordon == state.cordons.get(worker.key[1])
        assert not worker.asked_to_drain or worker.cordon.drain
        if worker.cordon is not None:
            assert worker.call is None
        if worker.fence is not None:
            assert not worker.leases
            assert worker.call is None


def check_pauses(core: Core) -> None:
    """A queue is paused exactly while someone paused it."""
    for key, queue in core.state.queues.items():
        assert queue.paused == (key in core.state.pauses)


def check_nothing_waits_in_vain(core: Core) -> None:
    """No ready task is left beside a waiting call that may take it."""
    state = core.state
    for call in state.calls.values():
        if call.capacity() <= 0:
            continue
        for capability in call.capabilities:
            queue = state.queues.get((call.worker.key[0], capability))
            if queue is not None and not queue.paused and call.takes(capability):
                assert queue.open.total == 0
                assert queue.suspects.total == 0 or call.worker.leases


def picture(core: Core) -> dict[str, Any]:
    """All of a core that a restart must bring back; not how long leases last, which a restart extends."""
    state = core.state
    rows = {}
    for seq, row in state.tasks.items():
        stored = live_row_of(row)
        due_by_now = row.state is not TaskState.DELAYED
        standing = stored.standing._replace(
            lease_expires_at=None, backing_off=stored.standing.backing_off and not due_by_now
        )
        rows[seq] = (row.state, stored._replace(standing=standing))
    queues = {
        key: {
            "counts": (queue.ready, queue.delayed, queue.leased, queue.dead, queue.backing_off),
            "tenants": queue.depth_by_tenant,
            "rules": (queue.configured, queue.rules, queue.paused),
            "totals": queue.totals.row()._replace(refused=0),
        }
        for key, queue in state.queues.items()
    }
    usage = {seq: row.lease.usage for seq, row in state.tasks.items() if row.lease is not None}
    holders = {key: worker.leases for key, worker in state.workers.items() if worker.leases}
    bound = (state.fences, state.cordons)
    return {
        "rows": rows,
        "queues": queues,
        "holders": holders,
        "usage": usage,
        "bound": bound,
        "next": state.next_seq,
    }
