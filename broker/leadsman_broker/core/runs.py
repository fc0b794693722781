"""Runs: created, capped, completed, stopped.

A run is in memory while it has live tasks, or a deadline to meet; one that has ended, or waits for its first task,
comes from the store when a command names it, and goes from there when its retention is over. Stopping a run cancels
what is queued, a bounded number of tasks in each step, and marks what is leased.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.commands import CancelRun, PutRun
from leadsman_broker.core.results import RunPut
from leadsman_broker.core.rows import Caps, RunKey, RunRow
from leadsman_broker.core.run import Run, run_from
from leadsman_broker.core.tasks import LEASED, TaskRow
from leadsman_broker.core.usage import Usage

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def put_run(state: "State", command: PutRun) -> RunPut:
    """Create a run, or set the caps of one that is running; it fails at once when it is over one of them."""
    key = (command.namespace, command.run_id)
    run = find(state, key)
    if run is None:
        run = _create(state, key, command.caps)
    elif run.stopped:
        return RunPut(run.state)
    else:
        run.caps = command.caps
        _touch(state, run)
    _watch_deadline(state, run)
    check(state, run)
    _let_wait(state, run)
    return RunPut(run.state, changed=True)


def cancel_run(state: "State", command: CancelRun) -> RunPut:
    """Cancel a run; a completed one stays as it is."""
    run = find(state, (command.namespace, command.run_id))
    if run is None:
        return RunPut(None)
    if run.state is not RunState.RUNNING:
        return RunPut(run.state)
    _stop(state, run, RunState.CANCELLED, None)
    return RunPut(run.state, changed=True)


def find(state: "State", key: RunKey) -> Run | None:
    """Return a run, ended or not; None when it is not known."""
    run = state.runs.get(key)
    if run is None:
        row = state.loaded.runs.get(key)
        if row is None:
            return None
        run = state.runs[key] = run_from(row)
        state.passing_runs.append(run)
    return run


def refusal(state: "State", namespace: str, run_id: str, *, joining: bool = False) -> str | None:
    """Say why a run takes no further task; one that is over a cap, or would be by a task `joining`, fails by it.

    Not one that is completed: it stays what it became, whoever comes too late.
    """
    run = find(state, (namespace, run_id))
    if run is None:
        return None
    if not run.stopped:
        excess = run.excess(state.now)
        if excess is None and joining and run.caps.tasks is not None and run.accepted >= run.caps.tasks:
            excess = f"more than {run.caps.tasks} tasks"
        if excess is not None and run.state is RunState.COMPLETED:
            return f"run {run_id} is completed, and has no room for more: {excess}; use another run id"
        if excess is not None:
            _stop(state, run, RunState.FAILED, excess)
    if run.stopped:
        why = f": {run.reason}" if run.reason is not None else ""
        return f"run {run_id} is {run.state.value}{why}; use another run id"
    return None


def joined(state: "State", row: TaskRow, *, redriven: bool = False) -> None:
    """Count a task that has become live; the run is created with it, or goes on."""
    key = (row.queue.key[0], row.run_id)
    run = find(state, key)
    if run is None:
        run = _create(state, key, Caps())
    run.live.add(row.seq)
    if redriven and run.dead:  # none: the run's row is of later, the one that counted this task is gone
        run.count(TaskState.DEAD, -1)
    else:
        run.accepted += 1
    if run.purge_at is not None:  # it was not in memory
        run.state = RunState.RUNNING if run.state is RunState.COMPLETED else run.state
        _watch_deadline(state, run)
    run.ended_at = run.purge_at = None
    _touch(state, run)


def left(state: "State", row: TaskRow, outcome: TaskState) -> None:
    """Count a task that has ended; with its last one the run is complete."""
    run = find(state, (row.queue.key[0], row.run_id))
    if run is None:
        return
    run.live.discard(row.seq)
    run.count(outcome)
    if not run.live:
        if run.state is RunState.RUNNING:
            run.state = RunState.COMPLETED
        run.ended_at = run.ended_at or state.now
        run.purge_at = state.now + state.settings.run_retention_seconds
        state.passing_runs.append(run)
    _touch(state, run)


def used(state: "State", key: RunKey, usage: Usage, lost: Usage) -> None:
    """Add to what a run has used, and stop it when that is over a cap."""
    run = find(state, key)
    if run is not None:
        run.usage = run.usage.plus(usage)
        run.lost_usage = run.lost_usage.plus(lost)
        _touch(state, run)
        check(state, run)


def check(state: "State", run: Run) -> None:
    """Fail a running run that is over a cap."""
    if run.state is RunState.RUNNING and (excess := run.excess(state.now)) is not None:
        _stop(state, run, RunState.FAILED, excess)


def is_doomed(state: "State", row: TaskRow) -> bool:
    """Say whether a queued task belongs to a run that was stopped: it is cancelled instead of being leased."""
    run = state.runs.get((row.queue.key[0], row.run_id))
    return run is not None and run.stopped


def end_overdue(state: "State") -> None:
    """Fail the runs whose time is over."""
    heap = state.run_ends
    while heap and heap[0][0] <= state.now:
        run = state.runs.get(heappop(heap)[1])
        if run is not None:
            check(state, run)


def next_to_cancel(state: "State") -> list[TaskRow]:
    """Return live tasks of stopped runs, at most `timers_per_step`; those that are leased are marked here."""
    found: list[TaskRow] = []
    left_now = state.settings.timers_per_step
    while state.stopping and left_now:
        seqs = state.stopping[-1]
        if not seqs:
            state.stopping.pop()
            continue
        left_now -= 1
        row = state.tasks.get(seqs.pop())
        if row is None or row.cancel:
            continue
        if row.state is LEASED:
            row.cancel = True
            state.out.record(row, state.now, "cancel_requested", None, "its run was stopped")
        else:
            found.append(row)
    return found


def restore_runs(state: "State", rows: list[RunRow]) -> None:
    """Bring runs back after the live tasks; a stop that was under way goes on."""
    for row in rows:
        run = state.runs[row.namespace, row.id] = run_from(row)
        _watch_deadline(state, run)
    for task in state.tasks.values():
        if task.run_id:
            owner = state.runs.get((task.queue.key[0], task.run_id))
            if owner is not None:
                owner.live.add(task.seq)
    for run in state.runs.values():
        if run.stopped and run.live:
            state.stopping.append(sorted(run.live, reverse=True))
        _let_wait(state, run)


def forget_ended(state: "State") -> None:
    """Drop the runs that this step ended, created or only looked at. For the end of a step."""
    for run in state.passing_runs:
        if run.purge_at is not None:
            state.runs.pop(run.key, None)
    state.passing_runs.clear()


def _create(state: "State", key: RunKey, caps: Caps) -> Run:
    run = state.runs[key] = Run(key, caps, state.now)
    _touch(state, run)
    return run


def _stop(state: "State", run: Run, outcome: RunState, reason: str | None) -> None:
    run.state = outcome
    run.reason = reason
    run.ended_at = state.now
    if run.live:
        state.stopping.append(sorted(run.live, reverse=True))
    else:
        run.purge_at = state.now + state.settings.run_retention_seconds
        state.passing_runs.append(run)
    _touch(state, run)


def _let_wait(state: "State", run: Run) -> None:
    """Let a run without tasks wait in the store, and go when none comes; not one whose time is over before that."""
    if run.live or run.state is not RunState.RUNNING:
        return
    goes_at = state.now + state.settings.run_retention_seconds
    run.purge_at = goes_at if run.deadline is None or run.deadline > goes_at else None
    state.passing_runs.append(run)
    _touch(state, run)


def _watch_deadline(state: "State", run: Run) -> None:
    if run.deadline is not None:
        heappush(state.run_ends, (run.deadline, run.key))


def _touch(state: "State", run: Run) -> None:
    state.out.runs[run.key] = run
