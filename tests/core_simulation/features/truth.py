"""What was committed, kept apart from core and store: nothing is lost, nothing ends twice, sums are right."""

from collections import Counter, defaultdict

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from core_simulation.world import Hand, World
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.core import Step
from leadsman_broker.core.results import Granted

COUNTED_EVENTS = {"failed": "failed", "reclaimed": "reclaimed"}


class Truth(Feature):
    """Recounts every durable change of every step."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.owed: set[str] = set()
        self.finals: dict[str, TaskState] = {}
        """How tasks ended; a dead one may be revived."""
        self.tokens: dict[tuple[str, int], tuple[str, str]] = {}
        """(task, epoch) -> the token and the worker of that delivery."""
        self.counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def committed(self, step: Step) -> None:
        changes = step.changes
        capability_of = {}
        for row in changes.accepted:
            assert row.live.id not in self.owed, "an id was given twice"
            self.owed.add(row.live.id)
            capability_of[row.live.seq] = row.live.capability
            self.counts[NAMESPACE, row.live.capability]["accepted"] += 1
        for live in changes.revived:
            assert self.finals.pop(live.id) is TaskState.DEAD, "only the dead are revived"
        for live in (*changes.updated, *changes.revived, *(ending.ended.live for ending in changes.ended)):
            capability_of[live.seq] = live.capability
        for entry in changes.history:
            if entry.event in COUNTED_EVENTS:
                self.counts[NAMESPACE, capability_of[entry.seq]][COUNTED_EVENTS[entry.event]] += 1
        for ending in changes.ended:
            live, state = ending.ended.live, ending.ended.state
            assert live.id not in self.finals, f"{live.id} ended twice"
            self.finals[live.id] = state
            self.counts[NAMESPACE, live.capability][state.value] += 1
            self.counts[NAMESPACE, live.capability]["late_acks"] += ending.ended.late
        for purged in changes.purged:
            self.owed.remove(purged.task_id)
            del self.finals[purged.task_id]
        for key in changes.forgotten:
            self.counts.pop(key, None)

    def granted(self, hand: Hand, lease: Granted, *, repeated: bool) -> None:
        assert lease.task_id in self.owed, "a task that nobody sent"
        assert lease.task_id not in self.finals, f"{lease.task_id} ran again after it was {self.finals}"
        delivery = (lease.token, f"{hand.pod}.{hand.incarnation}")
        known = self.tokens.setdefault((lease.task_id, lease.epoch), delivery)
        assert known == delivery, "one delivery went to two workers, or has two tokens"
        row = self.world.core.state.tasks[next(iter(self._seqs(lease.task_id)))]
        assert (row.epoch, row.secret) == (lease.epoch, lease.token.rsplit(":", 1)[1]), "a token that is not valid"

    def check(self) -> None:
        tables, core = self.world.tables, self.world.core
        live = {row.id for row in tables.live.values()}
        ended = {ending.ended.live.id: ending.ended.state for ending in tables.ended.values()}
        assert live | ended.keys() == self.owed, "an accepted task is lost, or one came from nowhere"
        assert not live & ended.keys(), "a task is live and ended"
        assert ended == self.finals, "an end changed"
        assert live == {row.id for row in core.state.tasks.values()}, "memory and store differ"
        for key, counts in self.counts.items():
            totals = core.totals(key)._asdict()
            names = ("accepted", "completed", "dead", "expired", "cancelled", "late_acks", "failed", "reclaimed")
            assert {name: totals[name] for name in names} == {name: counts[name] for name in names}, key

    def _seqs(self, task_id: str) -> list[int]:
        return [seq for seq, row in self.world.core.state.tasks.items() if row.id == task_id]


FEATURE = Truth
