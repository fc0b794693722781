"""Shedding: only where the rules say so, only background work that was never leased, only for higher priority."""

from random import Random

from core_simulation.feature import Feature
from leadsman.wire.capabilities import OnFull
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core.core import Step


class Shedding(Feature):
    def rules(self, capability: str, dice: Random):
        return {"on_full": dice.choice([OnFull.REJECT, OnFull.DROP_LOWEST_PRIORITY])}

    def committed(self, step: Step) -> None:
        for ending in step.changes.ended:
            live = ending.ended.live
            if ending.ended.state is not TaskState.SHED:
                continue
            assert self.world.rules[live.capability].on_full is OnFull.DROP_LOWEST_PRIORITY
            assert live.task_class is TaskClass.BACKGROUND
            assert live.standing.epoch == 0, "a task was dropped that had been started"
            came = [row.live for row in step.changes.accepted if row.live.capability == live.capability]
            assert any(new.priority > live.priority for new in came), "nothing of higher priority came"


FEATURE = Shedding
