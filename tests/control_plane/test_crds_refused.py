"""What the API server refuses of the two kinds, and what it says then."""

import copy
import json
from typing import Any

import pytest

from cluster import ControlPlane
from cluster.errors import ClusterError

POOL: dict[str, Any] = {
    "apiVersion": "leadsman.dev/v1alpha1",
    "kind": "WorkerPool",
    "metadata": {"name": "browser"},
    "spec": {"maxReplicas": 20, "image": "agents:1"},
}
CAPABILITY: dict[str, Any] = {
    "apiVersion": "leadsman.dev/v1alpha1",
    "kind": "Capability",
    "metadata": {"name": "browser"},
}
TEMPLATE = {"spec": {"containers": [{"name": "worker", "image": "agents:1"}]}}


def pool(**spec: Any) -> dict[str, Any]:
    found = copy.deepcopy(POOL)
    found["spec"] |= spec
    found["spec"] = {name: value for name, value in found["spec"].items() if value is not None}
    return found


def capability(**spec: Any) -> dict[str, Any]:
    return {**copy.deepcopy(CAPABILITY), "spec": spec}


@pytest.fixture
def apply(crds: ControlPlane, namespace: str) -> Any:
    def run(obj: dict[str, Any], *arguments: str) -> str:
        return crds.kubectl("-n", namespace, "apply", *arguments, "-f", "-", stdin=json.dumps(obj))

    return run


def refusal(apply: Any, obj: dict[str, Any], *arguments: str) -> str:
    with pytest.raises(ClusterError) as caught:
        apply(obj, *arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minReplicas": 21}, "minReplicas may not be above maxReplicas"),
        ({"image": None}, "give exactly one of image, template and deploymentRef"),
        ({"template": TEMPLATE}, "give exactly one of image, template and deploymentRef"),
        ({"deploymentRef": {"name": "mine"}}, "give exactly one of image, template and deploymentRef"),
        (
            {"image": None, "template": TEMPLATE, "command": ["x"]},
            "command, args, env, resources and serviceAccountName go with image only",
        ),
        (
            {"image": None, "deploymentRef": {"name": "mine"}, "resources": {"limits": {"memory": "1Gi"}}},
            "command, args, env, resources and serviceAccountName go with image only",
        ),
        ({"capabilities": ["llm", "llm"]}, 'spec.capabilities[1]: Duplicate value: "llm"'),
        ({"capabilities": []}, "spec.capabilities in body should have at least 1 items"),
        (
            {"capabilities": [f"c{n}" for n in range(17)]},
            "spec.capabilities: Too many: 17: must have at most 16 items",
        ),
        ({"capabilities": ["Browser"]}, "spec.capabilities[0] in body should match"),
        ({"maxReplicas": None}, "spec.maxReplicas: Required value"),
        ({"maxReplicas": 0}, "spec.maxReplicas in body should be greater than or equal to 1"),
        ({"maxReplicas": 10_001}, "spec.maxReplicas in body should be less than or equal to 10000"),
        ({"slotsPerWorker": 0}, "spec.slotsPerWorker in body should be greater than or equal to 1"),
        ({"scaling": {"mode": "Off"}}, 'Unsupported value: "Off": supported values: "Active", "Observe", "Paused"'),
        ({"scaling": {"policy": "Cpu"}}, 'Unsupported value: "Cpu": supported values: "Target", "Step"'),
        ({"scaling": {"step": {"addReplicas": 2}}}, "step is only used with policy Step"),
        ({"scaling": {"targetAgeSeconds": 1.5}}, "must be of type integer"),
        ({"scaling": {"policy": "Step", "headroomSlots": 1}}, "headroomSlots is only used with policy Target"),
        ({"scaling": {"signalLostFloor": 21}}, "scaling.signalLostFloor may not be above maxReplicas"),
        ({"scaling": {"schedules": [{}]}}, "give min, max or both"),
        ({"scaling": {"schedules": [{"min": 2, "max": 1}]}}, "min may not be above max"),
        ({"scaling": {"schedules": [{"max": 21}]}}, "min and max of a schedule may not be above maxReplicas"),
        ({"scaling": {"schedules": [{"min": 1, "from": "08:00", "to": "08:00"}]}}, "are the same time"),
        ({"scaling": {"schedules": [{"min": 1, "from": "8:00"}]}}, "spec.scaling.schedules[0].from in body"),
        ({"scaling": {"schedules": [{"min": 1, "to": "24:30"}]}}, "spec.scaling.schedules[0].to in body"),
        ({"scaling": {"schedules": [{"min": 1, "days": ["Monday"]}]}}, 'Unsupported value: "Monday"'),
        ({"scaling": {"schedules": [{"min": 1, "days": ["Mon", "Mon"]}]}}, "Duplicate value"),
        ({"drain": {"maxDraining": "few"}}, "spec.drain.maxDraining in body should match"),
        ({"drain": {"maxDraining": 0}}, "spec.drain.maxDraining in body should be greater than or equal to 1"),
        ({"drain": {"graceSeconds": 0}}, "spec.drain.graceSeconds in body should be greater than or equal to 1"),
        ({"image": None, "template": {"spec": {}}}, "spec.template.spec.containers: Required value"),
        ({"image": None, "template": {"spec": {"containers": []}}}, "should have at least 1 items"),
        (
            {"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            "give value or valueFrom, not both",
        ),
        ({"env": [{"name": "LEADSMAN_BROKER_URL", "value": "x"}]}, "the operator sets this variable itself"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "Duplicate value"),
        (
            {"env": [{"name": "A", "valueFrom": {}}]},
            "give exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        ),
        ({"resources": {"limits": {"memory": "lots"}}}, "spec.resources.limits.memory in body should match"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused_in_plain_words(apply, changes, message):
    assert message in refusal(apply, pool(**changes))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"lease": {"heartbeatSeconds": 30}}, "heartbeatSeconds must be below seconds"),
        ({"lease": {"seconds": 10, "heartbeatSeconds": 10}}, "heartbeatSeconds must be below seconds"),
        ({"lease": {"attemptTimeoutSeconds": 29}}, "attemptTimeoutSeconds may not be below seconds"),
        ({"lease": {"seconds": 1}}, "spec.lease.seconds in body should be greater than or equal to 2"),
        ({"retry": {"backoffSeconds": 301}}, "backoffSeconds may not be above maxBackoffSeconds"),
        ({"retry": {"maxAttempts": 0}}, "spec.retry.maxAttempts in body should be greater than or equal to 1"),
        ({"admission": {"maxDepth": -1}}, "spec.admission.maxDepth in body should be greater than or equal to 0"),
        ({"budget": {"tokens": 5}}, "spec.budget.estimate: Required value"),
        ({"budget": {"estimate": {"tokens": 5}}}, "a budget caps tokens, money or what each tenant may use"),
        ({"budget": {"tokens": 5, "estimate": {"money": "1"}}}, "a budget of tokens needs estimate.tokens"),
        (
            {"budget": {"perTenant": {"money": "5"}, "estimate": {"tokens": 1}}},
            "a budget of money needs estimate.money",
        ),
        ({"budget": {"tokens": 5, "estimate": {"tokens": 6}}}, "estimate.tokens is above the budget"),
        ({"budget": {"money": "1.5", "estimate": {"money": "1.6"}}}, "estimate.money is above the budget"),
        (
            {"budget": {"money": "9", "perTenant": {"money": "1"}, "estimate": {"money": "2"}}},
            "estimate.money is above the budget",
        ),
        ({"budget": {"money": "0", "estimate": {"money": "1"}}}, "money must be above 0"),
        ({"budget": {"money": "5 EUR", "estimate": {"money": "1"}}}, "spec.budget.money in body should match"),
        ({"budget": {"tokens": 5, "window": "Week", "estimate": {"tokens": 1}}}, 'Unsupported value: "Week"'),
    ],
)
def test_a_capability_that_makes_no_sense_is_refused_in_plain_words(apply, spec, message):
    assert message in refusal(apply, capability(**spec))


def test_a_pools_name_must_fit_into_a_label(apply):
    long = copy.deepcopy(POOL)
    long["metadata"]["name"] = "p" * 64

    assert "a pool's name is a label of its pods: 63 characters at most" in refusal(apply, long)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"image": None, "template": TEMPLATE}),
        ({"image": None, "template": TEMPLATE}, {"image": None, "deploymentRef": {"name": "mine"}}),
        ({"image": None, "deploymentRef": {"name": "mine"}}, {}),
    ],
)
def test_what_a_pools_pods_are_cannot_be_exchanged(apply, before, after):
    apply(pool(**before), "--server-side")

    message = refusal(apply, pool(**after), "--server-side")

    assert "the choice between image, template and deploymentRef is immutable: make a new pool instead" in message


def test_a_pool_cannot_be_pointed_at_another_deployment(apply):
    apply(pool(image=None, deploymentRef={"name": "mine"}))

    message = refusal(apply, pool(image=None, deploymentRef={"name": "other"}))

    assert "deploymentRef.name is immutable: make a new pool instead" in message


def test_another_image_and_other_bounds_are_no_other_choice(apply):
    apply(pool())

    assert "configured" in apply(pool(image="agents:2", maxReplicas=3, slotsPerWorker=4))


def test_scaling_a_pool_above_its_maximum_is_refused(apply, crds, namespace):
    apply(pool())

    with pytest.raises(ClusterError, match="minReplicas may not be above maxReplicas"):
        crds.kubectl("-n", namespace, "scale", "wp", "browser", "--replicas=21")


def test_a_refused_change_leaves_what_was_there(apply, crds, namespace):
    apply(pool(maxReplicas=7))

    refusal(apply, pool(maxReplicas=7, minReplicas=8))

    assert crds.get("-n", namespace, "wp", "browser")["spec"]["minReplicas"] == 0
