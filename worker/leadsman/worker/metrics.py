"""The worker's own numbers, in the text form that Prometheus reads; a few counters need no library."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from leadsman.worker.holding import Holding, StopReason
from leadsman.worker.standing import Standing

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]

_BUCKETS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
"""Seconds; attempts last from parts of a second to hours."""


class WorkerMetrics:
    """Counts what happens, and reads what stands. Safe to use from every thread."""

    def __init__(self, holding: Holding, standing: Standing) -> None:
        self._holding = holding
        self._standing = standing
        self._lock = threading.Lock()
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._stops: Counter[str] = Counter()
        self._heartbeats: Counter[str] = Counter()

    def attempt_ended(self, capability: str, outcome: str, seconds: float) -> None:
        """Count an attempt that was seen through."""
        with self._lock:
            self._outcomes[capability, outcome] += 1
            self._seconds[capability] += seconds  # type: ignore[assignment]  # a Counter adds floats as well
            for limit in _BUCKETS:
                if seconds <= limit:
                    self._buckets[capability, limit] += 1

    def told_to_stop(self, reason: StopReason) -> None:
        """Count a handler that was told to stop."""
        with self._lock:
            self._stops[str(reason)] += 1

    def heartbeat(self, *, answered: bool) -> None:
        """Count a heartbeat."""
        with self._lock:
            self._heartbeats["answered" if answered else "failed"] += 1

    def render(self) -> str:
        """Return everything as text."""
        taken = Counter(held.facts.capability for held in self._holding.all())
        with self._lock:
            lines = [
                *_gauge("leadsman_worker_slots", "Tasks at once", {(): self._holding.slots}),
                *_gauge(
                    "leadsman_worker_slots_taken",
                    "Slots with a task, by capability",
                    {(("capability", name),): count for name, count in taken.items()},
                ),
                *_gauge("leadsman_worker_ready", "1 when it may be given work", {(): int(self._standing.ready)}),
                *_family(
                    "leadsman_worker_attempts_total",
                    "Attempts that ended, by outcome",
                    "counter",
                    {(("capability", name), ("outcome", how)): n for (name, how), n in self._outcomes.items()},
                ),
                *self._histogram(),
                *_family(
                    "leadsman_worker_handlers_stopped_total",
                    "Handlers that were told to stop, by reason",
                    "counter",
                    {(("reason", reason),): count for reason, count in self._stops.items()},
                ),
                *_family(
                    "leadsman_worker_heartbeats_total",
                    "Heartbeats, by whether the broker answered",
                    "counter",
                    {(("result", result),): count for result, count in self._heartbeats.items()},
                ),
            ]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterable[str]:
        name = "leadsman_worker_attempt_seconds"
        yield f"# HELP {name} How long attempts took, the settlement included"
        yield f"# TYPE {name} histogram"
        for capability, seconds in sorted(self._seconds.items()):
            count = sum(n for (owner, _), n in self._outcomes.items() if owner == capability)
            where = (("capability", capability),)
            for limit in _BUCKETS:
                yield _sample(f"{name}_bucket", (*where, ("le", f"{limit:g}")), self._buckets[capability, limit])
            yield _sample(f"{name}_bucket", (*where, ("le", "+Inf")), count)
            yield _sample(f"{name}_sum", where, round(seconds, 6))
            yield _sample(f"{name}_count", where, count)


def _gauge(name: str, what: str, values: Mapping[Labels, float]) -> list[str]:
    return _family(name, what, "gauge", values)


def _family(name: str, what: str, kind: str, values: Mapping[Labels, float]) -> list[str]:
    samples = [_sample(name, labels, value) for labels, value in sorted(values.items())]
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}", *samples]


def _sample(name: str, labels: Labels, value: float) -> str:
    # Capabilities and reasons are made of letters, digits, '-', '_' and '.': nothing needs escaping.
    shown = ",".join(f'{label}="{text}"' for label, text in labels)
    return f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"
