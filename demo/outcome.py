"""What the demo promises and what was counted: pure, so that a broken promise can be shown to be noticed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class ReplicaChange:
    """A pool's Deployment asked for another number of replicas; `at` is seconds since the batch was submitted."""

    pool: str
    replicas: int
    at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The closing numbers. Every one is read from the API server or the broker."""

    submitted: int
    completed: int
    lost: int
    reclaimed: int
    busy_workers_evicted: int
    peak_replicas: int
    final_replicas: int
    enqueue_to_scale_ms: int | None
    """Until the slowest pool's Deployment asked for its highest number of replicas; null when one never scaled."""
    seconds: float
    """From the submit to the last pod gone."""

    def json_line(self) -> str:
        """One line for a program to read."""
        return json.dumps(asdict(self))

    def broken_promises(self) -> list[str]:
        """Say in words what did not hold; empty when all did."""
        checks = {
            f"{self.completed} of {self.submitted} tasks completed": self.completed == self.submitted,
            f"{self.lost} tasks were lost": self.lost == 0,
            "the killed worker's task was never reclaimed": self.reclaimed >= 1,
            f"{self.busy_workers_evicted} busy workers were taken away": self.busy_workers_evicted == 0,
            f"no more than {self.peak_replicas} worker at once": self.peak_replicas > 1,
            f"{self.final_replicas} workers were left at the end": self.final_replicas == 0,
            "a pool never scaled out": self.enqueue_to_scale_ms is not None,
        }
        return [broken for broken, held in checks.items() if not held]


def peak(changes: Sequence[ReplicaChange]) -> int:
    """Return the highest sum of all pools' replicas at any moment."""
    now: dict[str, int] = {}
    highest = 0
    for change in sorted(changes, key=lambda change: change.at):
        now[change.pool] = change.replicas
        highest = max(highest, sum(now.values()))
    return highest


def enqueue_to_scale_ms(changes: Sequence[ReplicaChange], pools: Sequence[str]) -> int | None:
    """Return the milliseconds until the slowest pool first asked for its own highest number, or None."""
    slowest = 0.0
    for pool in pools:
        own = [change for change in changes if change.pool == pool]
        highest = max((change.replicas for change in own), default=0)
        if not highest:
            return None
        slowest = max(slowest, min(change.at for change in own if change.replicas == highest))
    return round(slowest * 1000)


def lost(states: Mapping[str, str | None]) -> int:
    """Count the accepted tasks that the broker does not know any more or that ended unfinished.

    `states` maps each accepted id to the state that the broker gives, None when it knows no such task.
    """
    return sum(state is None or state in {"dead", "expired", "cancelled"} for state in states.values())
