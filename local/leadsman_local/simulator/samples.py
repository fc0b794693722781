"""The workers as decisions read them, built anew only where something changed: a day has many looks."""

from collections.abc import Iterable, Mapping

from leadsman_broker.core.rows import WorkerKey
from leadsman_local.simulator.broker import VirtualBroker
from leadsman_operator.scaling import WorkerSample


class WorkerSamples:
    """Samples by pool. `lease_seconds`: pool -> how long a silent worker counts as live."""

    def __init__(self, broker: VirtualBroker, lease_seconds: Mapping[str, float]) -> None:
        self._broker = broker
        self._lease_seconds = lease_seconds
        self._pools: dict[str, dict[WorkerKey, WorkerSample]] = {}
        self._pool_of: dict[WorkerKey, str] = {}

    def refresh(self, changed: Iterable[WorkerKey]) -> None:
        """Take in which workers changed since the last look."""
        rows = self._broker.core.state.workers
        for key in sorted(changed):
            row = rows.get(key)
            known = self._pool_of.get(key)
            if row is None or row.pool is None:
                if known is not None:
                    del self._pools[known][key], self._pool_of[key]
                continue
            self._pool_of[key] = row.pool
            self._put(row.pool, key)

    def of(self, pool: str) -> tuple[WorkerSample, ...]:
        """Return a pool's workers now. One that is busy and was just heard is the same as at the last look."""
        found = self._pools.get(pool)
        if not found:
            return ()
        rows, now, lease_seconds = self._broker.core.state.workers, self._broker.now, self._lease_seconds[pool]
        for key, sample in found.items():
            heard_seconds = now - rows[key].heard_at
            if not sample.leases:
                found[key] = _aged(sample, now - rows[key].idle_since, heard_seconds, lease_seconds)
            elif heard_seconds > lease_seconds:
                self._put(pool, key)
        return tuple(found.values())

    def _put(self, pool: str, key: WorkerKey) -> None:
        sample = self._broker.worker_sample(key, self._lease_seconds[pool])
        assert sample is not None  # noqa: S101 - the core has just listed it
        self._pools.setdefault(pool, {})[key] = sample


def _aged(sample: WorkerSample, idle: float, heard: float, lease_seconds: float) -> WorkerSample:
    """Return an idle worker with nothing changed but the time; `replace` would take three times as long."""
    return WorkerSample(
        sample.pod_uid, sample.slots, sample.capabilities, 0, sample.leases_by_capability,
        idle, heard, heard <= lease_seconds, sample.draining, sample.fenced, sample.cordoned,
    )  # fmt: skip
