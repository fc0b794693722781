"""The models of the custom resources: tolerant when read, complete when turned into rules."""

import pytest
import yaml
from pydantic import ValidationError

from leadsman.reasons import Reason
from leadsman.wire.capabilities import CapabilityConfig, OnFull, OverCap, TenantFrom
from leadsman_operator.api import (
    INJECTED_ENV,
    Capability,
    WorkerPool,
    capability_config,
    last_decision,
    max_draining,
    pool_spec,
)
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import PoolMemory, PoolSpec, ScalingMode, ScalingPolicy
from scaling_cases import observe, pool, work
from scaling_cases.build import START

SMALLEST = {"metadata": {"name": "browser"}, "spec": {"maxReplicas": 20, "image": "agents:1"}}

EVERYTHING = yaml.safe_load("""
metadata: {name: llm, namespace: team, uid: u-1, generation: 3, labels: {a: b}}
spec:
  capabilities: [llm, embed]
  minReplicas: 1
  maxReplicas: 40
  slotsPerWorker: 8
  image: agents:1
  scaling:
    mode: Observe
    policy: Step
    targetTasksPerSlot: 7
    targetAgeSeconds: 90
    scaleOut: {maxStep: 4}
    scaleIn: {idleSeconds: 15, maxStep: 2}
    step: {highWaterMark: 9, addReplicas: 3}
""")


def test_the_smallest_pool_has_every_default():
    found = WorkerPool.model_validate(SMALLEST)

    assert found.capabilities == ("browser",)
    assert found.deployment_name == "browser"
    assert pool_spec(found) == PoolSpec(name="browser", capabilities=("browser",), max_replicas=20)


def test_every_field_reaches_the_decision():
    assert pool_spec(WorkerPool.model_validate(EVERYTHING)) == PoolSpec(
        name="llm",
        capabilities=("llm", "embed"),
        max_replicas=40,
        min_replicas=1,
        slots_per_worker=8,
        mode=ScalingMode.OBSERVE,
        policy=ScalingPolicy.STEP,
        target_tasks_per_slot=7,
        target_age_seconds=90,
        scale_out_max_step=4,
        scale_in_idle_seconds=15,
        scale_in_max_step=2,
        step_high_water_mark=9,
        step_add_replicas=3,
    )


def test_a_capability_without_a_spec_has_the_brokers_defaults():
    found = capability_config(Capability.model_validate({"metadata": {"name": "browser"}}))

    assert found == CapabilityConfig(name="browser")


def test_every_field_of_a_capability_reaches_the_broker():
    found = Capability.model_validate(
        yaml.safe_load("""
metadata: {name: code}
spec:
  lease: {seconds: 60, heartbeatSeconds: 10, attemptTimeoutSeconds: 1800, progressTimeoutSeconds: 90,
    unreachableSeconds: 120}
  retry: {maxAttempts: 3, backoffSeconds: 2, maxBackoffSeconds: 120, maxReclaims: 2}
  admission: {maxDepth: 5000, maxDepthPerTenant: 50, retryAfterSeconds: 15, maxPayloadBytes: 1000,
    onFull: DropLowestPriority}
  fairness:
    tenantSharePercent: 40
    overCap: UseIdle
    tenantFrom: Identity
    weights: {acme: 3}
    interactiveReservePercent: 20
    lowestBandEvery: 8
  limits: {maxInFlight: 50, leasesPerMinute: 600}
  retention: {completedSeconds: 100, deadSeconds: 200}
""")
    )

    assert capability_config(found, startup_seconds=12.5, max_slots=40) == CapabilityConfig(
        name="code",
        lease_seconds=60,
        heartbeat_seconds=10,
        attempt_timeout_seconds=1800,
        progress_timeout_seconds=90,
        unreachable_seconds=120,
        max_attempts=3,
        backoff_seconds=2,
        max_backoff_seconds=120,
        max_reclaims=2,
        max_depth=5000,
        max_depth_per_tenant=50,
        retry_after_seconds=15,
        max_payload_bytes=1000,
        on_full=OnFull.DROP_LOWEST_PRIORITY,
        tenant_share_percent=40,
        over_cap=OverCap.USE_IDLE,
        tenant_from=TenantFrom.IDENTITY,
        tenant_weights={"acme": 3},
        interactive_reserve_percent=20,
        max_in_flight=50,
        leases_per_minute=600,
        max_slots=40,
        lowest_band_every=8,
        completed_retention_seconds=100,
        dead_retention_seconds=200,
        startup_seconds=12.5,
    )


def test_every_rule_of_the_broker_has_a_field_so_none_is_out_of_reach():
    changed = {
        name: field
        for name, field in CapabilityConfig.model_fields.items()
        if name not in {"name", "startup_seconds", "max_slots"}
    }
    spec = {
        "lease": {
            "seconds": 61,
            "heartbeatSeconds": 11,
            "attemptTimeoutSeconds": 1801,
            "progressTimeoutSeconds": 91,
            "unreachableSeconds": 121,
        },
        "retry": {"maxAttempts": 7, "backoffSeconds": 3, "maxBackoffSeconds": 121, "maxReclaims": 4},
        "admission": {
            "maxDepth": 1,
            "maxDepthPerTenant": 2,
            "retryAfterSeconds": 16,
            "maxPayloadBytes": 3,
            "onFull": "DropLowestPriority",
        },
        "fairness": {
            "tenantSharePercent": 26,
            "overCap": "UseIdle",
            "tenantFrom": "Identity",
            "weights": {"acme": 2},
            "interactiveReservePercent": 1,
            "lowestBandEvery": 9,
        },
        "limits": {"maxInFlight": 5, "leasesPerMinute": 6},
        "budget": {"tokens": 5, "estimate": {"tokens": 1}},
        "retention": {"completedSeconds": 101, "deadSeconds": 201, "ledgerSeconds": 301},
    }
    found = capability_config(Capability.model_validate({"metadata": {"name": "c"}, "spec": spec}))

    for name, field in changed.items():
        assert getattr(found, name) != field.default, f"{name} cannot be set by a Capability"


def test_pods_that_take_longer_to_start_than_the_broker_looks_ahead_are_cut_off():
    assert capability_config(Capability.model_validate({"metadata": {"name": "c"}}), 90_000).startup_seconds == 3600


def test_fields_of_a_newer_version_are_ignored():
    newer = {
        "metadata": {"name": "browser", "managedFields": [], "selfLink": "x"},
        "spec": {**SMALLEST["spec"], "scaling": {"ofANewerVersion": 3, "alsoNew": []}},
        "status": {"surprise": 1, "conditions": []},
        "extra": True,
    }

    assert pool_spec(WorkerPool.model_validate(newer)) == pool_spec(WorkerPool.model_validate(SMALLEST))


def test_an_object_that_cannot_be_read_names_the_field():
    with pytest.raises(ValidationError, match="maxReplicas"):
        WorkerPool.model_validate({"metadata": {"name": "browser"}, "spec": {"image": "agents:1"}})


@pytest.mark.parametrize(
    ("limit", "replicas", "expected"),
    [(None, 20, 5), (None, 3, 1), (None, 0, 1), ("50%", 9, 4), ("0%", 100, 1), (7, 100, 7)],
)
def test_how_many_may_be_stopping_with_tasks(limit, replicas, expected):
    spec = {**SMALLEST["spec"], **({} if limit is None else {"drain": {"maxDraining": limit}})}

    assert max_draining(WorkerPool.model_validate({**SMALLEST, "spec": spec}), replicas) == expected


def test_a_referenced_deployment_is_scaled_by_its_own_name():
    spec = {"maxReplicas": 2, "deploymentRef": {"name": "mine"}}

    assert WorkerPool.model_validate({"metadata": {"name": "p"}, "spec": spec}).deployment_name == "mine"


def test_a_decision_is_shown_with_all_its_numbers():
    decision, _ = decide(
        pool(), observe(0, work(200, service_seconds=12.3456, oldest_age_seconds=61.9)), PoolMemory(), START
    )

    shown = last_decision(decision, "2026-01-01T00:00:00Z").model_dump(
        mode="json", by_alias=True, exclude_none=True
    )

    assert shown["summary"] == decision.summary
    assert (shown["action"], shown["reason"]) == ("ScaleOut", Reason.AT_MAX_REPLICAS.value)
    assert (shown["currentReplicas"], shown["desiredReplicas"]) == (0, 20)
    assert shown["clamps"] == [{"reason": "AtMaxReplicas", "before": 83, "after": 20, "note": "maxReplicas is 20"}]
    (inputs,) = shown["inputs"]
    assert inputs["serviceMilliseconds"] == 12346
    assert inputs["oldestAgeSeconds"] == 61
    assert inputs["formula"].startswith("browser: k = ")


def test_what_the_operator_sets_itself_is_a_pinned_list():
    assert INJECTED_ENV == (
        "LEADSMAN_BROKER_URL",
        "LEADSMAN_NAMESPACE",
        "LEADSMAN_POOL",
        "LEADSMAN_CAPABILITIES",
        "LEADSMAN_SLOTS",
        "LEADSMAN_POD_UID",
        "LEADSMAN_POD_NAME",
        "LEADSMAN_TOKEN_FILE",
        "LEADSMAN_DRAIN_SECONDS",
        "LEADSMAN_HEALTH_PORT",
    )


def test_a_budget_reaches_the_broker_in_millionths():
    spec = {
        "budget": {
            "window": "Month",
            "tokens": 1_000_000,
            "money": "50.00",
            "perTenant": {"money": "2.5"},
            "estimate": {"tokens": 2_000, "money": "0.000001"},
            "onExhausted": "PauseAll",
        }
    }
    found = capability_config(Capability.model_validate({"metadata": {"name": "c"}, "spec": spec})).budget
    assert found is not None
    assert found.model_dump(mode="json") == {
        "window": "Month",
        "tokens": 1_000_000,
        "cost_micros": 50_000_000,
        "tenant_tokens": None,
        "tenant_cost_micros": 2_500_000,
        "estimate": {"tokens": 2_000, "cost_micros": 1},
        "on_exhausted": "PauseAll",
    }
