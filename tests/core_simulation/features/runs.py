"""Runs: their counts are those of their tasks, and one that was stopped stays so. What happens to them: `money`."""

from collections import Counter, defaultdict

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from core_simulation.world import World
from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.core import Step

STOPPED = {RunState.FAILED, RunState.CANCELLED}


class Runs(Feature):
    """Recounts every run from the changes that were committed."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.run_of: dict[int, str] = {}
        self.stopped: set[str] = set()
        """Runs that were seen failed or cancelled: for good."""

    def committed(self, step: Step) -> None:
        changes = step.changes
        for row in changes.accepted:
            if row.live.run_id:
                self.run_of[row.live.seq] = row.live.run_id
                self.counts[row.live.run_id]["accepted"] += 1
        for live in changes.revived:
            if live.run_id:
                self.counts[live.run_id][TaskState.DEAD.value] -= 1
        for ending in changes.ended:
            if ending.ended.live.run_id:
                state = ending.ended.state
                counted = TaskState.CANCELLED if state is TaskState.SHED else state
                self.counts[ending.ended.live.run_id][counted.value] += 1

    def check(self) -> None:
        for run_id, counts in self.counts.items():
            row = self.world.store.run(NAMESPACE, run_id)
            assert row is not None, "a run with tasks is not known"
            known = {
                "accepted": row.accepted,
                "completed": row.completed,
                "dead": row.dead,
                "expired": row.expired,
                "cancelled": row.cancelled,
            }
            assert known == {name: counts[name] for name in known}, run_id
            ended = sum(counts[state] for state in ("completed", "dead", "expired", "cancelled"))
            if row.state is RunState.COMPLETED:
                assert ended == counts["accepted"], f"{run_id} is complete and has work"
            assert run_id not in self.stopped or row.state in STOPPED, "a stopped run came back"
            if row.state in STOPPED:
                self.stopped.add(run_id)
        for row in self.world.tables.live.values():
            assert row.run_id == self.run_of.get(row.seq, "")


FEATURE = Runs
