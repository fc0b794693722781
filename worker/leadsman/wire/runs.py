"""Runs: tasks that belong together, with caps on what they may use and one status for all of them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from leadsman.amounts import MAX_USAGE
from leadsman.wire.base import Name, Reply, Request, RunId


class RunState(StrEnum):
    """Where a run stands. A completed one runs again with its next task; `failed` and `cancelled` are final."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """It went over one of its caps."""
    CANCELLED = "cancelled"


Cap = Annotated[int, Field(ge=1, le=1_000 * MAX_USAGE)]


class RunCaps(Request):
    """What a run may use; beyond any of these it fails. Absent: no cap."""

    max_tokens: Cap | None = None
    max_cost_micros: Cap | None = None
    max_seconds: Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False)] | None = None
    """From the creation of the run."""
    max_tasks: Annotated[int, Field(ge=1, le=10_000_000)] | None = None


class RunCounts(Reply):
    """Tasks of a run by what became of them; those that were shed to make room count as cancelled."""

    accepted: int
    live: int
    """Not ended: delayed, ready or leased."""
    completed: int
    dead: int
    expired: int
    cancelled: int


class RunView(Reply):
    """A run as the broker knows it."""

    id: RunId
    namespace: Name
    state: RunState
    reason: str | None = None
    """Why it failed, with the numbers."""
    created_at: float
    """Broker wall clock, seconds since the epoch; so is the next."""
    ended_at: float | None = None
    caps: RunCaps
    tasks: RunCounts
    tokens: int
    """Used by all attempts of its tasks, superseded ones included; so are the next."""
    cost_micros: int
    lost_tokens: int
    """Of these, by attempts that had lost their lease; so is the next."""
    lost_cost_micros: int


class RunList(Reply):
    """A page of runs, the newest first; `next_cursor` is absent on the last page."""

    items: list[RunView]
    next_cursor: str | None = None
