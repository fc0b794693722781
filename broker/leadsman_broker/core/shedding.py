"""Shedding: a full queue drops waiting work of lower priority for a new task, where its rules say so.

Only background work that was never leased, the lowest priority first and in it what came last: who waited longest
keeps his place. What is dropped ends as `shed`, is listed as that and counted; nothing is ever dropped unseen.
"""

from typing import TYPE_CHECKING

from leadsman.wire.capabilities import OnFull
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.attempts import EndReason
from leadsman_broker.core.placement import finish
from leadsman_broker.core.sheddable import Sheddable
from leadsman_broker.core.tasks import TaskRow

if TYPE_CHECKING:
    from leadsman_broker.core.queues import Queue
    from leadsman_broker.core.state import State

MOST_SHED = 100
"""For one new task. More are over the limit only after it was lowered; then new work waits for the queue."""


def choose(state: "State", queue: "Queue", tenant: str, priority: int) -> list[TaskRow]:
    """Return the tasks that must go for a new one to have its place, as many as the queue is over its depth.

    None when there are not so many, or when the tenant is over its own depth: it gets no place by the loss of
    others. The caller drops them or puts them back.
    """
    rules = queue.rules
    if queue.sheddable is None:
        return []
    limit = rules.max_depth_per_tenant
    if tenant and limit is not None and queue.line.tenant(tenant).depth > limit:
        return []
    over = queue.depth - rules.max_depth
    if not 0 < over <= MOST_SHED:
        return []
    return queue.sheddable.take(priority, over, state.tasks)


def drop(state: "State", rows: list[TaskRow]) -> None:
    """End the tasks that were chosen."""
    for row in rows:
        finish(state, row, TaskState.SHED, reason=EndReason.SHED)


def follow(state: "State", queue: "Queue") -> None:
    """Begin or cease to note what may be dropped, as the queue's rules now say."""
    if queue.rules.on_full is not OnFull.DROP_LOWEST_PRIORITY:
        queue.sheddable = None
    elif queue.sheddable is None:
        queue.sheddable = Sheddable()
        for seq in sorted(seq for seq, row in state.tasks.items() if row.queue is queue):
            queue.sheddable.add(state.tasks[seq], state.tasks)
