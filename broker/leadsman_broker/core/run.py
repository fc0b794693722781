"""One run in memory: its caps, its counts, and which of its tasks are live."""

from leadsman.wire.runs import RunState
from leadsman.wire.tasks import TaskState
from leadsman_broker.core.rows import Caps, RunKey, RunRow
from leadsman_broker.core.usage import NOTHING


class Run:
    """Field meanings: `rows.RunRow`."""

    __slots__ = (
        "accepted",
        "cancelled",
        "caps",
        "completed",
        "created_at",
        "dead",
        "ended_at",
        "expired",
        "key",
        "live",
        "lost_usage",
        "purge_at",
        "reason",
        "state",
        "usage",
    )

    def __init__(self, key: RunKey, caps: Caps, created_at: float) -> None:
        self.key = key
        self.state = RunState.RUNNING
        self.reason: str | None = None
        self.created_at = created_at
        self.ended_at: float | None = None
        self.caps = caps
        self.accepted = self.completed = self.dead = self.expired = self.cancelled = 0
        self.usage = self.lost_usage = NOTHING
        self.purge_at: float | None = None
        self.live: set[int] = set()
        """seqs of its tasks that have not ended."""

    @property
    def stopped(self) -> bool:
        """Say whether it failed or was cancelled: it takes no task, and those it has are to end."""
        return self.state in {RunState.FAILED, RunState.CANCELLED}

    @property
    def deadline(self) -> float | None:
        """Return when its time is over."""
        return None if self.caps.seconds is None else self.created_at + self.caps.seconds

    def count(self, outcome: TaskState, change: int = 1) -> None:
        """Count an end of a task, or take one back. For a run, one that was shed is as good as cancelled."""
        if outcome is TaskState.COMPLETED:
            self.completed += change
        elif outcome is TaskState.DEAD:
            self.dead += change
        elif outcome is TaskState.EXPIRED:
            self.expired += change
        else:
            self.cancelled += change

    def excess(self, now: float) -> str | None:
        """Say which cap it is over, with the numbers; None when it is over none."""
        caps = self.caps
        if caps.tokens is not None and self.usage.tokens > caps.tokens:
            return f"used {self.usage.tokens} tokens of {caps.tokens}"
        if caps.cost_micros is not None and self.usage.cost_micros > caps.cost_micros:
            return f"used {_money(self.usage.cost_micros)} of {_money(caps.cost_micros)} in money"
        if self.deadline is not None and now >= self.deadline:
            return f"took longer than {caps.seconds:g} s"
        return None

    def row(self) -> RunRow:
        """Return it as stored."""
        return RunRow(
            *self.key,
            self.state,
            self.reason,
            self.created_at,
            self.ended_at,
            self.caps,
            self.accepted,
            self.completed,
            self.dead,
            self.expired,
            self.cancelled,
            self.usage,
            self.lost_usage,
            self.purge_at,
        )


def run_from(row: RunRow) -> Run:
    """Build a run from its stored row, without its live tasks."""
    run = Run((row.namespace, row.id), row.caps, row.created_at)
    run.state = row.state
    run.reason = row.reason
    run.ended_at = row.ended_at
    run.accepted = row.accepted
    run.completed = row.completed
    run.dead = row.dead
    run.expired = row.expired
    run.cancelled = row.cancelled
    run.usage = row.usage
    run.lost_usage = row.lost_usage
    run.purge_at = row.purge_at
    return run


def _money(micros: int) -> str:
    return f"{micros / 1_000_000:.6g}"
