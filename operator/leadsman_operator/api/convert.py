"""From custom resources to what the broker and the scaling decision take."""

from collections.abc import Mapping
from decimal import Decimal

from leadsman.wire import capabilities as wire
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.costs import Usage
from leadsman_operator.api.capability import BudgetAmounts, BudgetRules, Capability
from leadsman_operator.api.workerpool import Step, WorkerPool
from leadsman_operator.api.workerpool_status import DecisionClamp, DecisionInput, LastDecision
from leadsman_operator.scaling.model import DEFAULT_STARTUP_SECONDS, Decision, PoolSpec

MAX_STARTUP_SECONDS = 3600.0
"""Pods that take longer than this to start are not waited for by what is due soon."""

MAX_TENANT_LENGTH = 128


def pool_spec(pool: WorkerPool) -> PoolSpec:
    """Give what `decide` needs of a pool's spec."""
    spec = pool.spec
    scaling = spec.scaling
    step = scaling.step or Step()
    return PoolSpec(
        name=pool.metadata.name,
        capabilities=pool.capabilities,
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        slots_per_worker=spec.slots_per_worker,
        mode=scaling.mode,
        policy=scaling.policy,
        target_tasks_per_slot=scaling.target_tasks_per_slot,
        target_age_seconds=scaling.target_age_seconds,
        scale_out_max_step=scaling.scale_out.max_step,
        scale_in_idle_seconds=scaling.scale_in.idle_seconds,
        scale_in_max_step=scaling.scale_in.max_step,
        step_high_water_mark=step.high_water_mark,
        step_add_replicas=step.add_replicas,
        headroom_slots=scaling.headroom_slots,
        signal_lost_floor=scaling.signal_lost_floor,
    )


def max_draining(pool: WorkerPool, replicas: int) -> int:
    """Say how many workers may be stopping with tasks in their hands before no further one is taken away."""
    limit = pool.spec.drain.max_draining
    if isinstance(limit, int):
        return limit
    return max(1, replicas * int(limit.removesuffix("%")) // 100)


def capability_config(
    capability: Capability,
    startup_seconds: float = DEFAULT_STARTUP_SECONDS,
    max_slots: int | None = None,
) -> CapabilityConfig:
    """Give what the broker is told of a capability.

    `startup_seconds`: of the slowest pool that serves it. `max_slots`: what those pools together may grow to; None
    when there is none.
    """
    spec = capability.spec
    return CapabilityConfig(
        name=capability.metadata.name,
        lease_seconds=spec.lease.seconds,
        heartbeat_seconds=spec.lease.heartbeat_seconds,
        attempt_timeout_seconds=spec.lease.attempt_timeout_seconds,
        progress_timeout_seconds=spec.lease.progress_timeout_seconds,
        unreachable_seconds=spec.lease.unreachable_seconds,
        max_attempts=spec.retry.max_attempts,
        backoff_seconds=spec.retry.backoff_seconds,
        max_backoff_seconds=spec.retry.max_backoff_seconds,
        max_reclaims=spec.retry.max_reclaims,
        max_depth=spec.admission.max_depth,
        max_depth_per_tenant=spec.admission.max_depth_per_tenant,
        retry_after_seconds=spec.admission.retry_after_seconds,
        max_payload_bytes=spec.admission.max_payload_bytes,
        on_full=spec.admission.on_full,
        tenant_share_percent=spec.fairness.tenant_share_percent,
        over_cap=spec.fairness.over_cap,
        tenant_from=spec.fairness.tenant_from,
        tenant_weights=_weights(spec.fairness.weights),
        interactive_reserve_percent=spec.fairness.interactive_reserve_percent,
        max_in_flight=spec.limits.max_in_flight,
        leases_per_minute=spec.limits.leases_per_minute,
        max_slots=max_slots,
        lowest_band_every=spec.fairness.lowest_band_every,
        completed_retention_seconds=spec.retention.completed_seconds,
        dead_retention_seconds=spec.retention.dead_seconds,
        budget=_budget(spec.budget),
        ledger_retention_seconds=spec.retention.ledger_seconds,
        startup_seconds=min(startup_seconds, MAX_STARTUP_SECONDS),
    )


def _weights(weights: Mapping[str, int]) -> dict[str, int]:
    """Leave out names that no tenant can have; the broker would refuse the whole set for them."""
    return {
        tenant: weight
        for tenant, weight in weights.items()
        if len(tenant) <= MAX_TENANT_LENGTH and all(letter >= " " for letter in tenant)
    }


def last_decision(decision: Decision, time: str) -> LastDecision:
    """Give a decision as a pool's status shows it, made at `time` (RFC 3339)."""
    return LastDecision(
        time=time,
        summary=decision.summary,
        action=decision.action,
        reason=decision.reason.value,
        current_replicas=decision.current,
        desired_replicas=decision.replicas,
        recommended_replicas=decision.recommended,
        slots=decision.slots,
        startup_seconds=round(decision.startup_seconds),
        formula=decision.formula,
        clamps=tuple(
            DecisionClamp(
                reason=clamp.reason.value, before=clamp.before, after=clamp.after, note=clamp.note or None
            )
            for clamp in decision.clamps
        ),
        inputs=tuple(
            DecisionInput(
                capability=each.name,
                waiting=each.waiting,
                leasable=each.leasable,
                leased=each.leased,
                service_milliseconds=_milliseconds(each.service_seconds),
                oldest_age_seconds=None if each.oldest_age_seconds is None else int(each.oldest_age_seconds),
                slots=each.slots,
                formula=each.formula,
            )
            for each in decision.inputs
        ),
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _budget(budget: BudgetRules | None) -> wire.BudgetRules | None:
    if budget is None:
        return None
    tenant = budget.per_tenant or BudgetAmounts()
    return wire.BudgetRules(
        window=wire.BudgetWindow(budget.window),
        tokens=budget.tokens,
        cost_micros=_micros(budget.money),
        tenant_tokens=tenant.tokens,
        tenant_cost_micros=_micros(tenant.money),
        estimate=Usage(tokens=budget.estimate.tokens or 0, cost_micros=_micros(budget.estimate.money) or 0),
        on_exhausted=wire.OnExhausted(budget.on_exhausted),
    )


def _micros(money: str | None) -> int | None:
    """Return an amount in millionths; the text has at most six decimals."""
    return None if money is None else int(Decimal(money) * 1_000_000)
