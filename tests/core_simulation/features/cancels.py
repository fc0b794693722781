"""Cancelling: at once while queued, at the settlement or loss while leased; what has ended stays so."""

from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Cancelled


class Cancels(Feature):
    def actions(self):
        return [(6, self.cancel)]

    def cancel(self, dice: Random) -> None:
        ids = sorted(row.id for row in self.world.tables.live.values())
        ids += sorted(ending.ended.live.id for ending in self.world.tables.ended.values())[:5]
        if not ids:
            return
        task_id = dice.choice(ids)
        before = self.world.store.task(NAMESPACE, task_id, self.world.now)
        results = self.world.turn(c.Cancel(NAMESPACE, task_id), fate=self.world.fate(dice))
        if results is None or before is None:
            return
        (result,) = results
        assert isinstance(result, Cancelled)
        self.world.note(f"cancel {task_id}: {result}")
        if before.ended is not None:
            assert result.state is before.ended.state
        elif before.live.standing.lease_pod is None:
            assert result.state is TaskState.CANCELLED
        else:
            assert (result.state, result.requested) == (TaskState.LEASED, True)


FEATURE = Cancels
