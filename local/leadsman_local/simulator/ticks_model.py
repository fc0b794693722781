"""The part of a scenario that plays a script in ticks."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from leadsman.wire.tasks import TaskClass
from leadsman_local.simulator.base import ScenarioModel


class Show(StrEnum):
    """What a script prints."""

    LOG = "Log"
    """What happened, a line each."""
    CLOSING = "Closing"
    """What was completed, what is leased, what waits, how many workers there are."""
    FIRST_LEASE = "FirstLease"
    """The first task that was leased."""
    REFUSALS = "Refusals"
    """The answer to every task that was refused."""


class Crash(ScenarioModel):
    """A worker falls silent at the beginning of a tick."""

    tick: Annotated[int, Field(ge=0)]
    worker: str


class TickTask(ScenarioModel):
    """One task, or several equal ones."""

    name: str
    """With a count above 1, the tasks are called name0, name1 and so on."""
    capability: str
    ticks: Annotated[int, Field(ge=1)] = 1
    """How much work it is."""
    priority: Annotated[int, Field(ge=0, le=9)] | None = None
    task_class: Annotated[TaskClass, Field(alias="class")] = TaskClass.BACKGROUND
    tenant: str = ""
    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class Ticks(ScenarioModel):
    """A clock of ticks. In each, the fleet is sized, then each worker, in order, works on or asks for one task.

    Workers ask for one capability after the other in order of their names, every time from the first (no rotation),
    and do not wait for an answer (so nothing is packed).
    """

    count: Annotated[int, Field(ge=1, le=1_000_000)]
    seconds: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    """How long a tick is for the broker and the scaler."""
    pool: str | None = None
    """The fleet, at first of minReplicas workers: w1, w2 and so on. Default: the only one."""
    crashes: tuple[Crash, ...] = ()
    show: tuple[Show, ...] = (Show.LOG, Show.CLOSING)
