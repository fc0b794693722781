"""Producers: batches, keys that are sent again, delays, ttls; refused for depth exactly when the queue is full."""

from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from core_simulation.world import CAPABILITIES, World
from leadsman.wire.capabilities import CapabilityConfig, OnFull
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Accepted, Saturated

KeyId = tuple[str, str, str]


class Producers(Feature):
    """Knows which ids it was told, and insists on them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.known: dict[KeyId, str] = {}
        self.unanswered: list[c.Enqueue] = []
        self.told: list[str] = []
        self.listed: dict[str, CapabilityConfig] = {}
        self._unsure: set[KeyId] = set()
        """Sent, and the answer was lost: the task may be there or not."""

    def rules(self, capability, dice):
        return {
            "max_depth": dice.choice([3, 12, 1000]),
            "max_attempts": dice.choice([2, 4, 50]),
            "max_depth_per_tenant": dice.choice([None, 2, 6]),
        }

    def reconfigured(self, rules: dict[str, CapabilityConfig]) -> None:
        self.listed = rules

    def actions(self):
        return [(30, self.submit), (5, self.submit_again)]

    def submit(self, dice: Random) -> None:
        capability = dice.choice(CAPABILITIES)
        tasks = tuple(self._task(dice, capability) for _ in range(dice.choice([1, 1, 2, 5])))
        self._send(c.Enqueue(NAMESPACE, tasks), dice)

    def submit_again(self, dice: Random) -> None:
        if self.unanswered:
            self._send(self.unanswered.pop(dice.randrange(len(self.unanswered))), dice)

    def _task(self, dice: Random, capability: str) -> c.NewTask:
        key = f"k{dice.randrange(6)}" if dice.random() < 0.3 else None
        return c.NewTask(
            capability,
            priority=dice.randrange(3),
            tenant=dice.choice(["", "acme", "globex"]),
            task_class=dice.choice([TaskClass.BACKGROUND, TaskClass.BACKGROUND, TaskClass.INTERACTIVE]),
            idempotency_key=key,
            delay_seconds=dice.choice([0.0, 0.0, 0.0, 5.0, 40.0]),
            ttl_seconds=dice.choice([None, None, None, 8.0]),
        )

    def _send(self, command: c.Enqueue, dice: Random) -> None:
        depth = self._depths(command)
        results = self.world.turn(command, fate=self.world.fate(dice))
        keys = {self._key(task) for task in command.tasks if task.idempotency_key is not None}
        if results is None:
            self.world.note(f"{len(command.tasks)} tasks sent, no answer")
            self._unsure |= keys - self.known.keys()
            self.unanswered.append(command)
            return
        for task, outcome in zip(command.tasks, results[0], strict=True):
            self._judge(task, outcome, depth)

    def _judge(self, task: c.NewTask, outcome: object, depth: dict[str, dict[str | None, int]]) -> None:
        rules = self.listed.get(task.capability)
        if rules is None:
            assert not isinstance(outcome, Accepted), "a queue that is not listed took a task"
            return
        key = self._key(task)
        before = depth[task.capability]
        if isinstance(outcome, Accepted) and outcome.duplicate:
            assert key in self.known or key in self._unsure, "a duplicate of nothing"
            assert self.known.setdefault(key, outcome.id) == outcome.id, "a key stands for two tasks"
            return
        assert task.idempotency_key is None or key not in self.known, "a known key was not found"
        full = before[None] > rules.max_depth or (
            task.tenant != ""
            and rules.max_depth_per_tenant is not None
            and before.get(task.tenant, 0) > rules.max_depth_per_tenant
        )
        drops = rules.on_full is OnFull.DROP_LOWEST_PRIORITY  # then it may be taken all the same
        assert full if isinstance(outcome, Saturated) else drops or not full, (outcome, before)
        if isinstance(outcome, Accepted):
            self.told.append(outcome.id)
            self.world.note(f"{outcome.id} accepted for {task.capability}, {task.tenant or '-'} p{task.priority}")
            before[None] += 1
            before[task.tenant] = before.get(task.tenant, 0) + 1
            if task.idempotency_key is not None:
                self.known[key] = outcome.id

    def _depths(self, command: c.Enqueue) -> dict[str, dict[str | None, int]]:
        """Queued tasks now, in all and by tenant, counted from what is stored."""
        found: dict[str, dict[str | None, int]] = {name: {None: 0} for name in CAPABILITIES}
        for row in self.world.tables.live.values():
            if row.standing.lease_pod is None:
                counts = found[row.capability]
                counts[None] += 1
                counts[row.tenant] = counts.get(row.tenant, 0) + 1
        return found

    def _key(self, task: c.NewTask) -> KeyId:
        return task.capability, task.tenant, task.idempotency_key or ""


FEATURE = Producers
