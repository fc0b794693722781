"""The scenes by which fairness is judged, for the tests and for `make bench-fairness`. All on the virtual clock."""

from collections import Counter
from typing import Any

from core_rig.load import Load, jain, p95
from core_rig.rig import CAPABILITY
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskClass

SLOTS = 20


def seconds_of_work(dice) -> float:
    return dice.uniform(2.0, 6.0)


LONGEST_WORK = 6.0


def rules(**fields: Any) -> CapabilityConfig:
    return CapabilityConfig(name=CAPABILITY, **{"max_slots": SLOTS, "lease_seconds": 3600.0, **fields})


def small_beside_large(*, large: int = 10_000, seed: int = 1, **fields: Any) -> Load:
    """One tenant with many tasks, and a little later one with ten."""
    load = Load(rules(**fields), slots=SLOTS, work=seconds_of_work, seed=seed)
    if large:
        load.submit(large, "large")
    load.submit(10, "small", at=30.0)
    load.run(120.0)
    return load


def small_tenant_wait_ratio(seed: int = 1) -> float:
    """How much longer the small tenant's p95 wait is beside the large one than alone, by the default rules."""
    beside = small_beside_large(seed=seed).waits["small", TaskClass.BACKGROUND]
    alone = small_beside_large(large=0, seed=seed).waits["small", TaskClass.BACKGROUND]
    assert len(beside) == len(alone) == 10
    return p95(beside) / p95(alone)


def equal_tenants(count: int = 8, *, seed: int = 1, seconds: float = 300.0, **fields: Any) -> Load:
    """Tenants with more work than can be done, each one's submitted in one piece."""
    load = Load(rules(**fields), slots=SLOTS, per_worker=4, work=seconds_of_work, seed=seed)
    for number in range(count):
        load.submit(1000, f"t{number}")
    load.run(seconds)
    return load


def jain_of(load: Load) -> float:
    return jain([*Counter(load.served).values()])


def interactive_beside_flood(*, seed: int = 1, reserve: int = 20) -> Load:
    """A flood of background work, and an interactive task every few seconds."""
    load = Load(rules(interactive_reserve_percent=reserve), slots=SLOTS, work=seconds_of_work, seed=seed)
    load.submit(5_000, "")
    for number in range(30):
        load.submit(1, "", at=20.0 + 3.0 * number, task_class=TaskClass.INTERACTIVE)
    load.run(150.0)
    return load
