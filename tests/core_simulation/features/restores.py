"""A restored backup: every lease is let go of without an attempt spent, and workers are told what may have run."""

from random import Random

from core_simulation.feature import Feature
from core_simulation.world import Hand
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.results import Granted


class Restores(Feature):
    """Backups of the very moment: what is lost with an older one is no matter of the core."""

    def actions(self):
        return [(1, self.restore)]

    def restore(self, dice: Random) -> None:
        world = self.world
        world.note("a backup is restored")
        world.turn()
        spent = {row.id: row.spent for row in world.core.state.tasks.values()}
        for hand in world.hands:
            for held in hand.held.values():
                held.expires_at = world.now  # nothing is promised any more
        world.tables.restoring, world.tables.restored_below = True, world.tables.next_seq
        world.restart(dice.choice([0.0, 100.0]))
        world.turn()
        assert not world.tables.restoring
        for row in world.core.state.tasks.values():
            assert row.state is not TaskState.LEASED, "a lease outlived the restore"
            assert row.spent == spent[row.id], "the restore spent an attempt"

    def granted(self, hand: Hand, lease: Granted, *, repeated: bool) -> None:
        below = self.world.tables.restored_below
        (seq,) = [seq for seq, row in self.world.core.state.tasks.items() if row.id == lease.task_id]
        assert lease.maybe_ran == (seq < below)


FEATURE = Restores
