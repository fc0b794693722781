"""What an attempt may still use before a cap is reached: of its run, or of a budget of its queue or its tenant."""

from typing import TYPE_CHECKING

from leadsman_broker.core.tasks import Lease, TaskRow
from leadsman_broker.core.usage import NOTHING, Remaining, Usage

if TYPE_CHECKING:
    from leadsman_broker.core.state import State


def remaining(state: "State", row: TaskRow, lease: Lease) -> Remaining | None:
    """Return how much more the attempt may use by the tightest cap, from 0 up; None: it has no cap.

    What its budget set aside for it and it has not used is its own and counts; the rest is shared with whoever else
    runs under the same cap. A budget whose window has turned since the lease does not count it any more.
    """
    rooms = [*_of_run(state, row), *_of_budget(row, lease)]
    tokens = min((room.tokens for room in rooms if room.tokens is not None), default=None)
    cost_micros = min((room.cost_micros for room in rooms if room.cost_micros is not None), default=None)
    return None if tokens is None and cost_micros is None else Remaining(tokens, cost_micros)


def _of_run(state: "State", row: TaskRow) -> list[Remaining]:
    run = state.runs.get((row.queue.key[0], row.run_id)) if row.run_id else None
    return [] if run is None else [_room((run.caps.tokens, run.caps.cost_micros), run.usage)]


def _of_budget(row: TaskRow, lease: Lease) -> list[Remaining]:
    budget = row.queue.budget
    if budget is None or lease.started_at < budget.starts_at:
        return []
    own = NOTHING if lease.reserved is None else lease.usage.raised_to(lease.reserved).less(lease.usage)
    return [
        _room(budget.caps(level), budget.account(level).charged.less(own)) for level in budget.levels(row.tenant)
    ]


def _room(caps: tuple[int | None, int | None], used: Usage) -> Remaining:
    tokens, cost_micros = (
        None if cap is None else max(0, cap - so_far) for cap, so_far in zip(caps, used, strict=True)
    )
    return Remaining(tokens, cost_micros)
