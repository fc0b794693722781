"""Redrive: only the dead live again, as far as there is room, also when one dies in the same step."""

from random import Random

from core_rig import NAMESPACE
from core_simulation.feature import Feature
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c


class Redrives(Feature):
    def actions(self):
        return [(8, self.redrive), (2, self.purge)]

    def redrive(self, dice: Random) -> None:
        ended = [ending.ended for ending in self.world.tables.ended.values()]
        dead = sorted(row.live.id for row in ended if row.state is TaskState.DEAD)
        others = sorted(row.live.id for row in ended if row.state is not TaskState.DEAD)
        live = sorted(row.id for row in self.world.tables.live.values())
        ids = dice.sample(dead, min(len(dead), 3)) + others[:1] + live[:1]
        capabilities = {row.live.id: row.live.capability for row in ended}
        if not ids:
            return
        capability = capabilities.get(ids[0], "browser")
        commands: list[c.Command] = [c.Redrive(NAMESPACE, capability, tuple(ids))]
        if dice.random() < 0.3:
            for hand in self.world.hands[:1]:
                commands = [*(c.Nack(NAMESPACE, token, "Error", retry=False) for token in hand.held), *commands]
                hand.held.clear()
        results = self.world.turn(*commands, fate=self.world.fate(dice))
        if results is None:
            return
        for task_id, redriven in zip(ids, results[-1], strict=True):
            self.world.note(f"redrive {task_id}: {redriven.code or 'lives'}")
            assert not redriven.redriven or task_id in dead, "something that was not dead was revived"

    def purge(self, dice: Random) -> None:
        """Remove dead tasks for good; what is not dead stays."""
        ended = [ending.ended for ending in self.world.tables.ended.values()]
        ids = sorted(row.live.id for row in ended)
        if not ids:
            return
        task_id = dice.choice(ids)
        (row,) = [row for row in ended if row.live.id == task_id]
        results = self.world.turn(c.Purge(NAMESPACE, row.live.capability, (task_id,)), fate=self.world.fate(dice))
        if results is not None:
            self.world.note(f"purge {task_id}: {results[0][0].code or 'gone'}")
            assert results[0][0].purged == (row.state is TaskState.DEAD)


FEATURE = Redrives
