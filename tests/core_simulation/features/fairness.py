"""Fair share and ceilings: no tenant over its cap, no queue over its limits, whatever dies or starts again."""

from collections import Counter, defaultdict

from core_simulation.feature import Feature
from core_simulation.world import World
from leadsman.wire.capabilities import OverCap
from leadsman.wire.leases import WorkerState
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core.core import Step
from leadsman_broker.core.queues import Queue
from leadsman_broker.core.tasks import TaskRow


class Fairness(Feature):
    """Counts what is in flight from the tasks alone."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._seen: set[tuple[str, int]] = set()
        self._leased_at: dict[str, list[float]] = defaultdict(list)

    def rules(self, capability, dice):
        return {
            "max_slots": dice.choice([None, 4, 8, 16]),
            "over_cap": dice.choice([OverCap.WAIT, OverCap.WAIT, OverCap.USE_IDLE]),
            "tenant_weights": dice.choice([{}, {"acme": 3}]),
            "interactive_reserve_percent": dice.choice([0, 0, 50]),
            "max_in_flight": dice.choice([None, None, 2, 5]),
            "leases_per_minute": dice.choice([None, None, 600, 60]),
        }

    def committed(self, step: Step) -> None:
        state = self.world.core.state
        granted: dict[str, list[TaskRow]] = defaultdict(list)
        for row in state.tasks.values():
            if row.lease is not None and (row.id, row.epoch) not in self._seen:
                self._seen.add((row.id, row.epoch))
                granted[row.queue.key[1]].append(row)
        for name, rows in granted.items():
            queue = rows[0].queue
            if any(row.task_class is TaskClass.BACKGROUND for row in rows):
                self._check_reserve(queue)
            if queue.rules.leases_per_minute is not None:
                self._check_rate(name, len(rows), 60 / queue.rules.leases_per_minute)

    def check(self) -> None:
        for queue in self.world.core.state.queues.values():
            leased = self._leased(queue)
            rules = queue.rules
            assert rules.max_in_flight is None or len(leased) <= rules.max_in_flight
            if rules.max_slots is not None and rules.over_cap is OverCap.WAIT:
                cap = max(1, rules.max_slots // 4)
                for tenant, count in Counter(row.tenant for row in leased).items():
                    assert not tenant or count <= cap, f"{tenant} has {count} in flight, over its cap of {cap}"

    def _leased(self, queue: Queue) -> list[TaskRow]:
        tasks = self.world.core.state.tasks.values()
        return [row for row in tasks if row.queue is queue and row.state is TaskState.LEASED]

    def _check_reserve(self, queue: Queue) -> None:
        percent = queue.rules.interactive_reserve_percent
        slots = sum(
            worker.slots
            for worker in self.world.core.state.workers.values()
            if worker.state is WorkerState.ACTIVE and not worker.silent and queue.key[1] in worker.capabilities
        )
        background = sum(row.task_class is TaskClass.BACKGROUND for row in self._leased(queue))
        assert not percent or background <= max(1, slots - slots * percent // 100), "the reserve was used"

    def _check_rate(self, name: str, count: int, gap: float) -> None:
        moments = self._leased_at[name]
        moments += [self.world.core.state.now] * count
        burst = max(1.0, gap) / gap
        for number, since in enumerate(moments):
            most = (moments[-1] - since) / gap + burst + 1e-3
            assert len(moments) - number <= most, "more was leased than the rate allows"


FEATURE = Fairness
