"""Observations in few words. Time starts at `START`, with a signal that has been good for a day."""

from typing import Any

from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import (
    CapabilityWork,
    Decision,
    PodSample,
    PoolMemory,
    PoolObservation,
    PoolSpec,
    Signal,
    WorkerSample,
)

START = 100_000.0
DAY = 86_400.0


def pool(**changes: Any) -> PoolSpec:
    """A pool `browser` of up to 20 workers, everything else as by default."""
    return PoolSpec(**{"name": "browser", "capabilities": ("browser",), "max_replicas": 20, **changes})


def healthy(age_seconds: float = 0.0) -> Signal:
    return Signal(epoch="epoch-1", age_seconds=age_seconds, unbroken_since=START - DAY)


def work(waiting: int = 0, **changes: Any) -> CapabilityWork:
    """Work of `browser`, all of it leasable."""
    return CapabilityWork(**{"name": "browser", "waiting": waiting, "leasable": waiting, **changes})


def workers(*leases: int, slots: int = 1, capability: str = "browser", **changes: Any) -> tuple[WorkerSample, ...]:
    """One worker for each number, holding that many leases; pods are `pod-0`, `pod-1`, ..."""
    return tuple(
        WorkerSample(
            **{
                "pod_uid": f"pod-{index}",
                "slots": slots,
                "capabilities": (capability,),
                "leases": held,
                "leases_by_capability": {capability: held} if held else {},
                "idle_seconds": 0.0 if held else 1000.0,
                **changes,
            }
        )
        for index, held in enumerate(leases)
    )


def pods(count: int, **changes: Any) -> tuple[PodSample, ...]:
    """Ready pods `pod-0`, `pod-1`, ..."""
    return tuple(
        PodSample(**{"uid": f"pod-{index}", "name": f"browser-{index}", "ready": True, **changes})
        for index in range(count)
    )


def observe(replicas: int = 0, *parts: CapabilityWork, **changes: Any) -> PoolObservation:
    """A pool of so many ready pods, each with an idle worker unless told otherwise."""
    return PoolObservation(
        **{
            "replicas": replicas,
            "signal": healthy(),
            "work": parts,
            "workers": workers(*([0] * replicas)),
            "pods": pods(replicas),
            **changes,
        }
    )


def seen_for(
    seconds: float, spec: PoolSpec, observation: PoolObservation, memory: PoolMemory | None = None
) -> tuple[Decision, PoolMemory]:
    """Decide at `START`, every second after it, and at last after `seconds`, while nothing changes."""
    memory = memory or PoolMemory()
    _, memory = decide(spec, observation, memory, START)
    for second in range(1, int(seconds)):
        _, memory = decide(spec, observation, memory, START + second)
    return decide(spec, observation, memory, START + seconds)
