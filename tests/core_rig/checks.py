"""What must be true of a core after every step, whatever happened. Recounts everything from the tasks alone."""

from collections import Counter
from fractions import Fraction
from typing import Any

from leadsman.wire.capabilities import OverCap
from leadsman.wire.leases import WorkerState
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core import budgets
from leadsman_broker.core.core import Core
from leadsman_broker.core.ids import make_token
from leadsman_broker.core.picking import can_serve
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.rows import QueueKey
from leadsman_broker.core.tasks import DELAYED, LEASED, READY, TaskRow, live_row_of
from leadsman_broker.core.usage import NOTHING, Usage


def heads_of(core: Core, key: QueueKey) -> list[TaskRow]:
    """The first task of every tenant and priority of a queue that is blocked by nothing; suspects left out."""
    lanes = [lane for shelf in core.state.queues[key].line.shelves for lane in shelf.lanes()]
    heads = [lane.head(core.state.tasks) for lane in lanes]
    return [head for head in heads if head is not None and not head.suspect]


def check(core: Core) -> None:
    check_counts(core)
    check_slots(core)
    check_holders(core)
    check_fences(core)
    check_pauses(core)
    check_nothing_waits_in_vain(core)
    check_runs(core)
    check_budgets(core)


def check_counts(core: Core) -> None:
    """Every count kept is the count of the tasks."""
    state = core.state
    by_queue: dict[Queue, list[TaskRow]] = {queue: [] for queue in state.queues.values()}
    for row in state.tasks.values():
        by_queue[row.queue].append(row)
    for queue, rows in by_queue.items():
        line = queue.line
        barred = {seq for tenant in line.tenants.values() for seq in tenant.barred}
        ready = [row for row in rows if row.state is READY and row.seq not in barred]
        delayed = [row for row in rows if row.state is DELAYED]
        assert line.barred == len(barred)
        for seq in barred:
            row = state.tasks[seq]
            assert (row.state, row.queue) == (READY, queue)
            assert budgets.excessive(queue, row.tenant, row.estimate) is not None
        assert line.suspects == sum(row.suspect for row in ready)
        assert line.ordinary == len(ready) - line.suspects
        assert queue.delayed == len(delayed)
        assert queue.backing_off == sum(row.backing_off for row in delayed)
        assert queue.due_soon == sum(row.soon for row in delayed)
        assert queue.leased == sum(row.state is LEASED for row in rows)
        check_tenants(core, queue, rows, ready)
        assert queue.next_due(state.tasks) == min((row.due_at for row in delayed), default=None)


def check_tenants(core: Core, queue: Queue, rows: list[TaskRow], ready: list[TaskRow]) -> None:
    """What is counted by tenant is what its tasks say, and a shelf has just the lanes that may be picked from."""
    state, line, rules = core.state, queue.line, queue.rules
    depth: Counter[str] = Counter()
    in_flight: Counter[str] = Counter()
    by_class, ready_by_class = [0, 0], [0, 0]
    by_lane: dict[tuple[str, int, int, bool], list[TaskRow]] = {}
    for row in rows:
        interactive = int(row.task_class is TaskClass.INTERACTIVE)
        if row.state is LEASED:
            in_flight[row.tenant] += 1
            by_class[interactive] += 1
        else:
            depth[row.tenant] += 1
    for row in ready:
        interactive = int(row.task_class is TaskClass.INTERACTIVE)
        ready_by_class[interactive] += 1
        by_lane.setdefault((row.tenant, interactive, row.priority, row.suspect), []).append(row)
    assert line.in_flight == by_class
    assert line.ready == ready_by_class
    assert depth.keys() | in_flight.keys() <= line.tenants.keys()

    on_shelves = {lane for shelf in line.shelves for lane in shelf.lanes()}
    share = None
    if rules.max_slots is not None:
        share = max(1, int(Fraction(rules.max_slots * rules.tenant_share_percent, 100)))
    pickable = set()
    excess = 0
    since: list[list[float]] = [[], []]
    for name, tenant in line.tenants.items():
        assert tenant.in_flight == in_flight[name]
        assert tenant.depth == depth[name]
        assert tenant.load == tenant.in_flight / rules.tenant_weights.get(name, 1)
        cap = share if name else None
        assert tenant.cap == cap
        assert all(state.tasks[seq].tenant == name for seq in tenant.barred)
        waits = cap is not None and rules.over_cap is OverCap.WAIT
        if waits:
            open_ready = sum(tenant.ready[each] for each in (0, 1) if tenant.held[each] is None)
            excess += max(0, open_ready - max(0, cap - tenant.in_flight))
        counted = [0, 0]
        for lane in tenant.lanes.values():
            mine = by_lane.pop((name, lane.interactive, lane.priority, lane.suspect), [])
            counted[lane.interactive] += len(mine)
            assert lane.ready == len(mine)
            head = lane.head(state.tasks)
            assert (head.seq if head is not None else None) == min((row.seq for row in mine), default=None)
            blocked = tenant.held[lane.interactive] is not None or (waits and tenant.in_flight >= cap)
            if mine and not blocked:
                pickable.add(lane)
                oldest = min(row.due_at for row in mine)
                since[lane.interactive].append(max(oldest, tenant.opened_at[lane.interactive]))
        assert tenant.ready == counted
    assert not by_lane, "a ready task is in no lane"
    assert on_shelves == pickable
    assert line.excess == excess
    assert [line.oldest_since(each) for each in (0, 1)] == [min(each, default=None) for each in since]


def check_slots(core: Core) -> None:
    """The slots offered to each queue are those of the workers that may be given work."""
    state = core.state
    slots: Counter[tuple[str, str]] = Counter()
    for worker in state.workers.values():
        if not worker.silent and worker.state is WorkerState.ACTIVE:
            for capability in worker.capabilities:
                slots[worker.key[0], capability] += worker.slots
    for key in state.queues:
        assert state.fleet.slots(key) == slots[key]


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
    leased = [row for row in state.tasks.values() if row.lease is not None]
    assert state.held == {make_token(row.id, row.epoch, row.secret): row for row in leased}
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
            if queue is not None and call.takes(capability) and queue.key not in state.hot:
                assert not can_serve(state, queue, call.worker)


def check_runs(core: Core) -> None:
    """A run knows exactly its live tasks, and is in memory as long as it has any, or a deadline."""
    state = core.state
    members: dict[tuple[str, str], set[int]] = {}
    for seq, row in state.tasks.items():
        if row.run_id:
            members.setdefault((row.queue.key[0], row.run_id), set()).add(seq)
    assert {key: run.live for key, run in state.runs.items() if run.live} == members
    for run in state.runs.values():
        assert run.row().live == len(run.live)
        assert run.purge_at is None
        assert run.live or (run.state is RunState.RUNNING and run.deadline is not None)


def check_budgets(core: Core) -> None:
    """What is reserved is what live leases of the window reserve, and nobody is held back for a budget in vain."""
    for queue in core.state.queues.values():
        budget = queue.budget
        if budget is None:
            continue
        reserved: dict[str | None, Usage] = {}
        for row in core.state.tasks.values():
            lease = row.lease
            if row.queue is not queue or lease is None or lease.reserved is None:
                continue
            if lease.started_at >= budget.starts_at:
                for level in budget.levels(row.tenant):
                    charge = lease.usage.raised_to(lease.reserved)
                    reserved[level] = reserved.get(level, NOTHING).plus(charge)
        for level, account in budget.accounts().items():
            assert account.reserved == reserved.pop(level, NOTHING)
            assert min(account.settled) >= 0
        assert not reserved


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
            "counts": (queue.ready + queue.line.barred, queue.delayed, queue.leased, queue.dead, queue.backing_off),
            "tenants": {
                name: (tenant.depth, tenant.in_flight, tenant.capped)
                for name, tenant in queue.line.tenants.items()
                if not tenant.idle
            },
            "rules": (queue.configured, queue.rules, queue.paused),
            "totals": queue.totals.row()._replace(refused=0),
        }
        for key, queue in state.queues.items()
    }
    budgets = {
        (key, level): account.charged
        for key, queue in state.queues.items()
        for level, account in (queue.budget.accounts() if queue.budget is not None else {}).items()
        if any(account.charged)
    }
    runs = {key: (run.row(), run.live) for key, run in state.runs.items()}
    usage = {seq: row.lease.usage for seq, row in state.tasks.items() if row.lease is not None}
    holders = {key: worker.leases for key, worker in state.workers.items() if worker.leases}
    bound = (state.fences, state.cordons)
    return {
        "rows": rows,
        "queues": queues,
        "holders": holders,
        "usage": usage,
        "runs": runs,
        "budgets": budgets,
        "bound": bound,
        "next": state.next_seq,
    }
