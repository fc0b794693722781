"""Within a tenant and a priority the oldest goes first, and no lower priority overtakes."""

from core_simulation.feature import Feature
from core_simulation.world import World
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Step
from leadsman_broker.core.tasks import TaskRow

Lane = tuple[str, str, str]
"""(capability, tenant, class): who may pass whom between tenants is a matter of fairness, not of order.

The class counts only where a reserve or a budget may hold back one of them.
"""


class Order(Feature):
    """Compares what each step gave out with what was ready in front of it and is ready still."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ready: list[TaskRow] = []

    def rules(self, capability, dice):
        return {"lowest_band_every": 0}

    def before(self, commands: list[c.Command]) -> None:
        tasks = self.world.core.state.tasks.values()
        self._ready = [row for row in tasks if row.state is TaskState.READY and not row.suspect]

    def committed(self, step: Step) -> None:
        state = self.world.core.state
        worst: dict[Lane, tuple[int, int]] = {}
        for answer in step.answers:
            for lease in answer.leases:
                row = next((row for row in self._ready if row.id == lease.task_id), None)
                if row is not None and row.epoch == lease.epoch:
                    lane = _lane(row)
                    worst[lane] = max(worst.get(lane, (-99, 0)), (-row.priority, row.seq))
        for row in self._ready:
            if state.tasks.get(row.seq) is row and row.state is TaskState.READY and not row.suspect:
                last = worst.get(_lane(row))
                assert last is None or last < (-row.priority, row.seq), f"{row.id} was passed over"


def _lane(row: TaskRow) -> Lane:
    apart = row.queue.rules.interactive_reserve_percent or row.queue.rules.budget is not None
    return row.queue.key[1], row.tenant, row.task_class.value if apart else ""


FEATURE = Order
