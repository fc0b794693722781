"""The rules of a namespace's queues, as the operator pushes them to the broker."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from leadsman.amounts import MAX_USAGE
from leadsman.wire.base import MAX_INTEGER, Name, Reply, Request, Tenant
from leadsman.wire.costs import Usage


class OnFull(StrEnum):
    """What happens to a new task when its queue is full."""

    REJECT = "Reject"
    """It is refused."""
    DROP_LOWEST_PRIORITY = "DropLowestPriority"
    """It takes the place of a background task of lower priority that was never leased, if there is one."""


class OverCap(StrEnum):
    """What a tenant at its cap may have while slots are idle."""

    WAIT = "Wait"
    """Nothing: its tasks wait until one of its leases ends."""
    USE_IDLE = "UseIdle"
    """What no tenant under its cap wants at the moment."""


class TenantFrom(StrEnum):
    """Who says which tenant a task belongs to."""

    TASK = "Task"
    """Whoever submits it."""
    IDENTITY = "Identity"
    """The broker, by who submits it; what the caller claims is overwritten."""


Weight = Annotated[int, Field(ge=1, le=1_000)]


class BudgetWindow(StrEnum):
    """What a budget is for: fixed spans of UTC time."""

    HOUR = "Hour"
    DAY = "Day"
    MONTH = "Month"


class OnExhausted(StrEnum):
    """What stops when a budget is used up."""

    PAUSE_BACKGROUND = "PauseBackground"
    """Background tasks wait for the next window; interactive ones go over the budget, and are counted."""
    PAUSE_ALL = "PauseAll"
    """Every task waits for the next window."""


BudgetCap = Annotated[int, Field(ge=1, le=1_000 * MAX_USAGE)]


class BudgetRules(Request):
    """What the attempts of a queue may use in each window; money in millionths of its unit."""

    window: BudgetWindow
    tokens: BudgetCap | None = None
    cost_micros: BudgetCap | None = None
    tenant_tokens: BudgetCap | None = None
    """Of each tenant; tasks without one count for the queue alone. So is the next."""
    tenant_cost_micros: BudgetCap | None = None
    estimate: Usage
    """What is reserved for an attempt when it begins, unless its task says otherwise."""
    on_exhausted: OnExhausted = OnExhausted.PAUSE_BACKGROUND

    @model_validator(mode="after")
    def _estimates_what_it_caps(self) -> Self:
        for name, caps, estimate in (
            ("tokens", (self.tokens, self.tenant_tokens), self.estimate.tokens),
            ("cost_micros", (self.cost_micros, self.tenant_cost_micros), self.estimate.cost_micros),
        ):
            given = [cap for cap in caps if cap is not None]
            if given and not estimate:
                raise ValueError(f"a budget of {name} needs an estimate of {name} for an attempt")
            if given and estimate > min(given):
                raise ValueError(f"the estimate of {name} is above the budget: no task could ever begin")
        return self


class CapabilityConfig(Request):
    """One queue and its rules; defaults suit agent steps of seconds to minutes."""

    name: Name
    lease_seconds: Annotated[float, Field(gt=0, le=86_400)] = 30.0
    heartbeat_seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Default: a third of the lease."""
    attempt_timeout_seconds: Annotated[float, Field(gt=0, le=31_536_000)] = 43_200.0
    progress_timeout_seconds: Annotated[float, Field(gt=0, le=31_536_000)] | None = None
    """How old the last sign of progress may be when a lease is renewed; null: leases need none."""
    unreachable_seconds: Annotated[float, Field(ge=0, le=86_400)] = 900.0
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    backoff_seconds: Annotated[float, Field(ge=0, le=86_400)] = 1.0
    max_backoff_seconds: Annotated[float, Field(ge=0, le=86_400)] = 300.0
    max_reclaims: Annotated[int, Field(ge=1, le=100)] = 3
    max_depth: Annotated[int, Field(ge=0, le=10_000_000)] = 100_000
    max_depth_per_tenant: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    retry_after_seconds: Annotated[int, Field(ge=1, le=86_400)] = 30
    max_payload_bytes: Annotated[int, Field(ge=1, le=10_485_760)] = 262_144
    on_full: OnFull = OnFull.REJECT
    completed_retention_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 86_400.0
    dead_retention_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 1_209_600.0
    ledger_retention_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 7_776_000.0
    """How long what an attempt used can be read, from its lease on."""
    tenant_share_percent: Annotated[int, Field(ge=1, le=100)] = 25
    """How much of `max_slots` one tenant may have in flight, at least one task."""
    over_cap: OverCap = OverCap.WAIT
    tenant_from: TenantFrom = TenantFrom.TASK
    tenant_weights: Annotated[dict[Tenant, Weight], Field(max_length=1_000)] = {}
    """Tenant -> how much of the turns it gets, against 1 of every other tenant."""
    interactive_reserve_percent: Annotated[int, Field(ge=0, le=100)] = 0
    """How much of the workers' slots background tasks leave free."""
    max_in_flight: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    leases_per_minute: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    max_slots: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None
    """What the serving pools may grow to, in slots; unknown: no tenant has a cap."""
    lowest_band_every: Annotated[int, Field(ge=0, le=1_000_000)] = 16
    """Every how many picks the oldest task of the lowest leasable priority goes first; 0: strict priority."""
    budget: BudgetRules | None = None
    startup_seconds: Annotated[float, Field(ge=0, le=3_600)] = 30.0
    """How long the serving pools' pods take to start; delayed work due within it counts as `due_soon`."""


class PauseRequest(Request):
    """Lease nothing of a capability any more, until it is resumed. What is leased goes on; new work is accepted."""

    reason: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")] = ""
    """For whoever wonders later; shown with the queue."""


class PauseReply(Reply):
    """Where a capability stands after a pause or a resume, durable before the reply."""

    name: str
    paused: bool
    changed: bool
    """False when it stood so already; a pause then keeps its reason and time."""
    reason: str = ""
    since: float | None = None
    """Broker wall clock, seconds since the epoch, for people to read."""


class CapabilitiesRequest(Request):
    """The full set of one namespace. An older generation than the one known is ignored."""

    generation: Annotated[int, Field(ge=0, le=MAX_INTEGER)]
    capabilities: Annotated[list[CapabilityConfig], Field(max_length=10_000)]


class CapabilitiesReply(Reply):
    """What the broker now holds for the namespace."""

    generation: int
    applied: bool
    """False when a newer generation was already known."""
    retained: list[str] = []
    """Queues no longer listed that still hold tasks: they stay, and take no new work."""


class CapabilitiesView(Reply):
    """The rules in force in a namespace."""

    generation: int
    capabilities: list[CapabilityConfig]
