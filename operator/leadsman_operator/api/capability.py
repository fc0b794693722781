"""The Capability: one queue and its rules."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from leadsman.wire.capabilities import OnFull, OverCap, TenantFrom
from leadsman_operator.api.base import (
    API_VERSION,
    DAY_SECONDS,
    INT32,
    INT64,
    YEAR_SECONDS,
    ApiModel,
    ObjectMeta,
    rules,
)
from leadsman_operator.api.conditions import Conditions

MAX_WEIGHTS = 100
Weight = Annotated[int, Field(ge=1, le=1_000, json_schema_extra=INT32)]
Count = Annotated[int, Field(ge=0, le=2_147_483_647, json_schema_extra=INT32)]


class LeaseRules(ApiModel):
    """How long a worker owns a task, and how it keeps it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.heartbeatSeconds) || self.heartbeatSeconds < self.seconds",
                "heartbeatSeconds must be below seconds: a worker that renews too late is taken for dead",
            ),
            (
                "self.attemptTimeoutSeconds >= self.seconds",
                "attemptTimeoutSeconds may not be below seconds: an attempt lasts at least one lease",
            ),
        )
    )

    seconds: Annotated[int, Field(ge=2, le=DAY_SECONDS, json_schema_extra=INT32)] = 30
    """How long a lease lasts without a heartbeat. A worker that is silent for this long is taken for dead, and its
    task goes to another one. It need not be longer than the task: heartbeats renew it."""
    heartbeat_seconds: Annotated[int, Field(ge=1, le=DAY_SECONDS, json_schema_extra=INT32)] | None = None
    """How often a worker renews its leases. Default: a third of `seconds`, so that two may be lost in a row."""
    attempt_timeout_seconds: Annotated[int, Field(ge=2, le=YEAR_SECONDS, json_schema_extra=INT32)] = 43_200
    """How long one attempt may hold its task in all; no heartbeat renews beyond it."""
    progress_timeout_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS, json_schema_extra=INT32)] | None = None
    """How long an attempt may go without a sign of progress (a growing count or a checkpoint, sent by its handler)
    before its lease is no longer renewed. Default: it need not show any."""
    unreachable_seconds: Annotated[int, Field(ge=0, le=DAY_SECONDS, json_schema_extra=INT32)] = 900
    """How long a worker that cannot reach the broker goes on with its task before it gives up by itself."""


class RetryRules(ApiModel):
    """What happens after a failed attempt."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.backoffSeconds <= self.maxBackoffSeconds", "backoffSeconds may not be above maxBackoffSeconds"),
        )
    )

    max_attempts: Annotated[int, Field(ge=1, le=100, json_schema_extra=INT32)] = 5
    """Failures and reclaims a task may have before it goes to the dead-letter queue."""
    backoff_seconds: Annotated[int, Field(ge=0, le=DAY_SECONDS, json_schema_extra=INT32)] = 1
    """Wait after the first failure; doubled after every further one, with jitter."""
    max_backoff_seconds: Annotated[int, Field(ge=0, le=DAY_SECONDS, json_schema_extra=INT32)] = 300
    """The longest wait between two attempts."""
    max_reclaims: Annotated[int, Field(ge=1, le=100, json_schema_extra=INT32)] = 3
    """Workers in a row that may die with a task before it counts as poison and goes to the dead-letter queue."""


class AdmissionRules(ApiModel):
    """When a new task is refused."""

    max_depth: Annotated[int, Field(ge=0, le=10_000_000, json_schema_extra=INT32)] = 100_000
    """Tasks that may wait. Beyond it a submit is answered "pool saturated", with a time to retry."""
    max_depth_per_tenant: Annotated[int, Field(ge=0, le=10_000_000, json_schema_extra=INT32)] | None = None
    """Tasks of one tenant that may wait. Default: no bound but `maxDepth`."""
    retry_after_seconds: Annotated[int, Field(ge=1, le=DAY_SECONDS, json_schema_extra=INT32)] = 30
    """The longest time to retry that a refusal names; also the one named while the drain rate is unknown."""
    max_payload_bytes: Annotated[int, Field(ge=1, le=10_485_760, json_schema_extra=INT32)] = 262_144
    """Size of a task's payload as JSON. Larger ones are refused."""
    on_full: OnFull = OnFull.REJECT
    """What a submit beyond `maxDepth` does. Reject: it is refused. DropLowestPriority: it takes the place of a
    background task of lower priority that was never started, if one waits; that one ends as `shed`."""


class FairnessRules(ApiModel):
    """Whose task goes next: the highest priority, and in it the tenant with least in flight for its weight."""

    tenant_share_percent: Annotated[int, Field(ge=1, le=100, json_schema_extra=INT32)] = 25
    """How much of the slots that the serving pools may grow to one tenant may have in flight, at least one task.
    Tasks without a tenant are under no cap."""
    over_cap: OverCap = OverCap.WAIT
    """What a tenant at its cap gets while slots are idle. Wait: nothing, so that others find them free at once.
    UseIdle: what no tenant under its cap wants at the moment."""
    tenant_from: TenantFrom = TenantFrom.TASK
    """Who says which tenant a task belongs to. Task: whoever submits it. Identity: the broker takes the name it
    knows the caller by, and overwrites what the caller claims."""
    weights: Annotated[dict[str, Weight], Field(max_length=MAX_WEIGHTS)] = {}
    """Tenants that get more turns than others: one of weight 3 has three tasks in flight for every one of a tenant
    of weight 1, while both have some waiting. Tenants that are not listed have weight 1."""
    interactive_reserve_percent: Annotated[int, Field(ge=0, le=100, json_schema_extra=INT32)] = 0
    """How much of the workers' slots background tasks leave free, so that an interactive task finds one at once.
    One background task may always run."""
    lowest_band_every: Annotated[int, Field(ge=0, le=1_000_000, json_schema_extra=INT32)] = 16
    """Every how many picks the oldest task of the lowest waiting priority goes first, so that a flood of high
    priority starves nobody. 0: strict priority."""


class Limits(ApiModel):
    """What the world behind the workers can take: a provider's ceiling, licences."""

    max_in_flight: Annotated[int, Field(ge=1, le=10_000_000, json_schema_extra=INT32)] | None = None
    """Tasks of this queue that may be in flight at once, however many workers there are. Default: no bound."""
    leases_per_minute: Annotated[int, Field(ge=1, le=10_000_000, json_schema_extra=INT32)] | None = None
    """Tasks that may be handed out in a minute, evenly; retries count. Default: no bound."""


Tokens = Annotated[int, Field(ge=1, le=1_000_000_000_000, json_schema_extra=INT64)]
Money = Annotated[str, Field(max_length=16, pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$")]


class BudgetAmounts(ApiModel):
    """Tokens, money, or both."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.tokens) || has(self.money)", "give tokens, money or both"),
            ("!has(self.money) || double(self.money) > 0.0", "money must be above 0"),
        )
    )

    tokens: Tokens | None = None
    """Number of tokens."""
    money: Money | None = None
    """Amount of money as text, in whatever unit the workers report: "0.25"."""


def _caps(field: str) -> str:
    """Return a CEL expression: the budget caps this."""
    return f"(has(self.{field}) || (has(self.perTenant) && has(self.perTenant.{field})))"


def _fits(field: str, number: str) -> str:
    """Return a CEL expression: no cap is below the estimate. `number` makes a number of a value."""
    estimate = number.format(f"self.estimate.{field}")
    return (
        f"!has(self.estimate.{field}) || "
        f"((!has(self.{field}) || {estimate} <= {number.format(f'self.{field}')}) && "
        f"(!has(self.perTenant) || !has(self.perTenant.{field}) || "
        f"{estimate} <= {number.format(f'self.perTenant.{field}')}))"
    )


class BudgetRules(ApiModel):
    """What the attempts of the queue may use in each window. Needs an estimate of one attempt for what it caps."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.tokens) || has(self.money) || has(self.perTenant)",
                "a budget caps tokens, money or what each tenant may use",
            ),
            (
                f"!{_caps('tokens')} || has(self.estimate.tokens)",
                "a budget of tokens needs estimate.tokens: what is reserved when an attempt begins",
            ),
            (
                f"!{_caps('money')} || has(self.estimate.money)",
                "a budget of money needs estimate.money: what is reserved when an attempt begins",
            ),
            (_fits("tokens", "{}"), "estimate.tokens is above the budget: no task could ever begin"),
            (_fits("money", "double({})"), "estimate.money is above the budget: no task could ever begin"),
            ("!has(self.money) || double(self.money) > 0.0", "money must be above 0"),
        )
    )

    window: Literal["Hour", "Day", "Month"] = "Day"
    """The span a budget is for, by UTC; each one starts from zero."""
    tokens: Tokens | None = None
    """Tokens that all attempts of the queue may use in a window."""
    money: Money | None = None
    """Money that all attempts of the queue may use in a window, as text: "50.00"."""
    per_tenant: BudgetAmounts | None = None
    """What the attempts of each tenant may use in a window, besides. Tasks without a tenant have no such cap."""
    estimate: BudgetAmounts
    """What is reserved for an attempt when it begins, unless its task says otherwise. What it used replaces it."""
    on_exhausted: Literal["PauseBackground", "PauseAll"] = "PauseBackground"
    """What waits for the next window when the budget is used up: background tasks (interactive ones go over it and
    are counted), or all."""


class RetentionRules(ApiModel):
    """How long what has ended can still be read."""

    completed_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS, json_schema_extra=INT32)] = 86_400
    """How long a completed, expired or cancelled task and its result stay readable."""
    dead_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS, json_schema_extra=INT32)] = 1_209_600
    """How long a task stays in the dead-letter queue, from where it can be driven again."""
    ledger_seconds: Annotated[int, Field(ge=0, le=YEAR_SECONDS, json_schema_extra=INT32)] = 7_776_000
    """How long what an attempt used can be read, from its lease on."""


class CapabilitySpec(ApiModel):
    """The rules of the queue. Every one has a default that suits agent steps of seconds to minutes."""

    lease: LeaseRules = LeaseRules()
    """How long a worker owns a task, and how it keeps it."""
    retry: RetryRules = RetryRules()
    """What happens after a failed attempt."""
    admission: AdmissionRules = AdmissionRules()
    """When a new task is refused."""
    fairness: FairnessRules = FairnessRules()
    """Whose task goes next: the highest priority, and in it the tenant with least in flight for its weight."""
    limits: Limits = Limits()
    """What the world behind the workers can take: a provider's ceiling, licences."""
    budget: BudgetRules | None = None
    """What its attempts may use in an hour, a day or a month. Default: no budget."""
    retention: RetentionRules = RetentionRules()
    """How long what has ended can still be read."""


class CapabilityStatus(ApiModel):
    """What the broker knows of the queue, rounded to about a minute."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra=INT64)] | None = None
    """The generation of the spec that the broker has."""
    ready_tasks: Count | None = None
    """Tasks that wait for a worker."""
    delayed_tasks: Count | None = None
    """Tasks that wait for their time, or for their next attempt."""
    leased_tasks: Count | None = None
    """Tasks that a worker has."""
    dead_tasks: Count | None = None
    """Tasks in the dead-letter queue."""
    conditions: Conditions = ()
    """Ready: the broker has these rules, and a pool serves the queue."""


class Capability(ApiModel):
    """A queue of tasks that need the same kind of worker, and the rules of that queue."""

    api_version: Literal["leadsman.dev/v1alpha1"] = API_VERSION
    kind: Literal["Capability"] = "Capability"
    metadata: ObjectMeta = ObjectMeta()
    spec: CapabilitySpec = CapabilitySpec()
    """The rules of the queue."""
    status: CapabilityStatus = CapabilityStatus()
    """What the broker knows of the queue."""
