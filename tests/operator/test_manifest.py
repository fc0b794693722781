"""The generated Deployment, held whole: whatever changes here restarts every worker of every pool."""

import json
from pathlib import Path

import pytest

from leadsman_operator.api import INJECTED_ENV
from leadsman_operator.kube.manifest import APPLIED_ANNOTATION, Injection, Workload, deployment, with_replicas

GOLDEN = Path(__file__).parent / "golden"
INJECTION = Injection(broker_url="http://leadsman-broker.leadsman.svc:8080", audience="leadsman")


def workload(**fields):
    base = {
        "namespace": "agents",
        "pool": "browser",
        "pool_uid": "6f0b1f6e-0000-4000-8000-000000000001",
        "capabilities": ("browser", "llm"),
        "slots": 4,
        "grace_seconds": 3600,
    }
    return Workload(**{**base, **fields})


IMAGE = workload(
    image="registry.example/agents:1.4.0",
    command=("leadsman", "worker"),
    args=("handlers:app",),
    env=({"name": "MODEL", "value": "large"},),
    resources={"requests": {"cpu": "500m", "memory": "1Gi"}},
    service_account="agents",
)
TEMPLATE = workload(
    template={
        "metadata": {"labels": {"team": "search"}, "annotations": {"note": "kept"}},
        "spec": {
            "nodeSelector": {"gpu": "yes"},
            "terminationGracePeriodSeconds": 5,
            "securityContext": {"runAsUser": 1000},
            "containers": [
                {
                    "name": "agent",
                    "image": "registry.example/agents:1.4.0",
                    "env": [
                        {"name": "LEADSMAN_SLOTS", "value": "99"},
                        {"name": "HERE", "value": "$(LEADSMAN_POOL)"},
                    ],
                    "ports": [{"containerPort": 9000}],
                    "readinessProbe": {"exec": {"command": ["true"]}},
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                },
                {"name": "sidecar", "image": "registry.example/proxy:2"},
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    }
)


@pytest.mark.parametrize(("name", "subject"), [("image", IMAGE), ("template", TEMPLATE)])
def test_the_deployment_is_what_it_was_in_every_release(name, subject):
    expected = json.loads((GOLDEN / f"deployment-{name}.json").read_text())
    assert deployment(subject, INJECTION) == expected


def test_exactly_the_published_list_is_injected():
    container = deployment(IMAGE, INJECTION)["spec"]["template"]["spec"]["containers"][0]
    injected = [entry["name"] for entry in container["env"] if entry["name"].startswith("LEADSMAN_")]
    assert injected == list(INJECTED_ENV)


def test_injected_variables_come_first_and_cannot_be_overridden():
    container = deployment(TEMPLATE, INJECTION)["spec"]["template"]["spec"]["containers"][0]
    names = [entry["name"] for entry in container["env"]]
    assert names == [*INJECTED_ENV, "HERE"]
    assert {"name": "LEADSMAN_SLOTS", "value": "4"} in container["env"]


def test_a_users_template_is_not_changed_in_place():
    before = json.dumps(TEMPLATE.template)
    deployment(TEMPLATE, INJECTION)
    assert json.dumps(TEMPLATE.template) == before


def test_replicas_are_no_part_of_what_is_applied_later():
    body = deployment(IMAGE, INJECTION)
    assert "replicas" not in body["spec"]
    created = with_replicas(body, 7)
    assert created["spec"]["replicas"] == 7
    assert created["metadata"]["annotations"] == body["metadata"]["annotations"]
    assert "replicas" not in body["spec"]


def test_the_hash_follows_every_change_of_the_pool_and_nothing_else():
    def digest(subject):
        return deployment(subject, INJECTION)["metadata"]["annotations"][APPLIED_ANNOTATION]

    assert digest(IMAGE) == digest(IMAGE)
    changed = [
        workload(image="registry.example/agents:1.4.1"),
        workload(image="registry.example/agents:1.4.0", slots=5),
        workload(image="registry.example/agents:1.4.0", grace_seconds=60),
        workload(image="registry.example/agents:1.4.0", capabilities=("browser",)),
    ]
    assert len({digest(subject) for subject in [IMAGE, TEMPLATE, *changed]}) == 6


def test_a_malformed_template_is_left_for_the_api_server_to_refuse():
    body = deployment(workload(template={"spec": {"containers": ["not an object"]}}), INJECTION)
    assert body["spec"]["template"]["spec"]["containers"] == ["not an object"]
