"""What is remembered of a pool between two looks. Nothing of it has to survive a restart."""

from dataclasses import dataclass, field
from typing import Any

from leadsman.reasons import Reason
from leadsman_operator.api import ConditionStatus, ConditionType, WorkerPool
from leadsman_operator.kube.cache import Object
from leadsman_operator.kube.pods import Pace
from leadsman_operator.reconcile.conditions import said
from leadsman_operator.reconcile.conflict import Contention
from leadsman_operator.scaling.cordons import Cordons
from leadsman_operator.scaling.model import Decision, PoolMemory
from leadsman_operator.scaling.scale_in import Idle, ScaleInState
from leadsman_operator.scaling.startup import StartupTimes

YOUNG_SECONDS = 3.0
"""A pool first looked at so long ago has met its Capability, if there is one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server refused this template; it is not sent again."""

    applied_hash: str
    message: str


@dataclass(slots=True)
class StatusMemory:
    """What was last written to the status, and when."""

    written_at: float
    """When, on the caller's monotonic clock; what an earlier leader wrote counts as written when we began."""
    written: dict[str, Any] | None = None


@dataclass(slots=True)
class PoolRecord:
    """One pool, as long as this process leads and the pool has this UID."""

    uid: str
    since: float
    """When it was first looked at, on the caller's monotonic clock."""
    status: StatusMemory
    memory: PoolMemory = field(default_factory=PoolMemory)
    scale_in: ScaleInState = field(default_factory=Idle)
    cordons: Cordons = field(default_factory=Cordons)
    contention: Contention = field(default_factory=Contention)
    startup: StartupTimes = field(default_factory=StartupTimes)
    pace: Pace = field(default_factory=Pace)
    decision: Decision | None = None
    refusal: Refusal | None = None
    apply_failed: str | None = None
    """Why the last apply of the template failed for the moment."""
    wanted: tuple[WorkerPool, str] | None = None
    """The spec that was read last, and the hash of the Deployment that it asks for."""
    live_template: tuple[Object, str] | None = None
    """The copy of the Deployment that was looked at last, and the hash of its template."""
    settled_template: str | None = None
    """Hash of the live template after our last apply: a different one means that somebody edited it."""
    settled_at: float = float("-inf")
    took_scale: bool = False
    """We have written the scale of the referenced Deployment before; until then its field may be taken."""
    announced: dict[str, str] = field(default_factory=dict)
    """Topic -> what was last said in an event about it."""
    relieved_at: dict[str, float] = field(default_factory=dict)
    """Topic -> since when what was last said about it is no longer so, while its end waits to be told."""
    rests_on: frozenset[str] = frozenset()
    """UIDs, at the last look, of what the pool cannot do without: what of it goes is gone by another's doing."""
    going: frozenset[str] | None = None
    """UIDs of the pods that were being deleted at the last look; None before the first."""
    fenced_at: float | None = None
    """When the scale-in that is under way asked for its fences."""
    signal_arrived_at: float | None = None
    """When the broker's push came that this look answers."""

    def is_made(self) -> None:
        """Remember that an event told of its new Deployment: that the pool is ready need not be told as well."""
        self.announced.setdefault(ConditionType.READY.value, said(ConditionStatus.TRUE, Reason.AS_EXPECTED))

    def young_for(self, now: float) -> float:
        """How much longer it counts as just made, in seconds."""
        return max(0.0, self.since + YOUNG_SECONDS - now)
