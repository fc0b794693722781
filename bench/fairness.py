"""How fair the broker core is, on a virtual clock: figures of order, not of speed, the same on every machine.

`make bench-fairness` runs it.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

from core_rig import fairness
from core_rig.load import p95
from figures import Figures
from leadsman.wire.tasks import TaskClass

_FIGURES = Figures("fairness")


def report(metric: str, values: list[float], unit: str, **conditions: Any) -> None:
    conditions = {
        "slots": fairness.SLOTS,
        "task_seconds": "2-6, uniform",
        "seeds": len(values),
        "lowest": round(min(values), 4),
        "highest": round(max(values), 4),
        **conditions,
    }
    _FIGURES.report(metric, statistics.median(values), unit, **conditions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(1, parser.parse_args().seeds + 1)

    def over_seeds(measure: Callable[[int], float]) -> list[float]:
        return [measure(seed) for seed in seeds]

    report(
        "jain_8_tenants",
        over_seeds(lambda seed: fairness.jain_of(fairness.equal_tenants(seed=seed))),
        "1",
        tenants=8,
        tasks_each=1000,
        virtual_seconds=300,
        share_percent=25,
        over_cap="Wait",
    )
    report(
        "small_tenant_wait_ratio",
        over_seeds(fairness.small_tenant_wait_ratio),
        "1",
        large_tasks=10_000,
        small_tasks=10,
        share_percent=25,
        over_cap="Wait",
        of="p95 wait beside the large tenant to p95 wait alone",
    )
    report(
        "small_tenant_wait_p95_s_use_idle",
        over_seeds(
            lambda seed: p95(
                fairness.small_beside_large(seed=seed, over_cap="UseIdle").waits["small", TaskClass.BACKGROUND]
            )
        ),
        "s",
        large_tasks=10_000,
        small_tasks=10,
        share_percent=25,
        over_cap="UseIdle",
    )
    report(
        "interactive_wait_max_s",
        over_seeds(lambda seed: max(fairness.interactive_beside_flood(seed=seed).waits["", TaskClass.INTERACTIVE])),
        "s",
        background_tasks=5_000,
        interactive_tasks=30,
        reserve_percent=20,
    )


if __name__ == "__main__":
    main()
