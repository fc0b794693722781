"""A release without any cluster-wide right: listed namespaces, Roles, tokens from Secrets."""

import json

import pytest
from demo.installation import SYSTEM
from world import capability, pool, until

from leadsman import SyncClient

OPERATOR_TOKEN = "operator-0123456789abcdef"
FLEET_TOKEN = "fleet-0123456789abcdef"


@pytest.fixture
def alone(world):
    """The demo's operator serves every namespace, so it has to step aside."""
    world.kubectl("--namespace", SYSTEM, "scale", "deployment/leadsman-operator", "--replicas=0")
    yield
    world.kubectl("--namespace", SYSTEM, "scale", "deployment/leadsman-operator", "--replicas=2")


def secret(name, key, value):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: value}}


@pytest.mark.usefixtures("alone")
def test_a_fleet_works_with_tokens_from_secrets_and_roles_alone(world):
    with world.namespace() as system, world.namespace() as served:
        fleet = {"name": "fleet", "token": FLEET_TOKEN, "roles": ["producer", "worker"], "namespaces": [served]}
        operator = {"name": "operator", "token": OPERATOR_TOKEN, "roles": ["operator"]}
        tokens = json.dumps({"tokens": [fleet, operator]})
        world.apply(
            system, secret("tokens", "tokens.yaml", tokens), secret("operator-token", "token", OPERATOR_TOKEN)
        )
        world.apply(served, secret("fleet-token", "token", FLEET_TOKEN))
        values = {
            "fullnameOverride": "small",
            "crds": {"install": False},
            "watchNamespaces": [served],
            "broker": {"auth": {"mode": "static", "tokensSecret": "tokens"}, "persistence": {"enabled": False}},
            "operator": {"brokerTokenSecret": "operator-token", "replicas": 1},
        }
        world.helm_in(system, "install", "small", str(world.chart), "--wait", "--timeout", "90s", values=values)
        try:
            rights = world.kubectl("get", "clusterroles,clusterrolebindings", "--output", "name")
            assert "small" not in rights
            worker = {
                "name": "worker",
                "image": world.images.agents,
                "command": ["leadsman", "worker", "handlers:app", "--token-file", "/etc/fleet/token"],
                "volumeMounts": [{"name": "fleet-token", "mountPath": "/etc/fleet", "readOnly": True}],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
            template = {
                "spec": {
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [worker],
                    "volumes": [{"name": "fleet-token", "secret": {"secretName": "fleet-token"}}],
                }
            }
            browsers = pool("browser", "", template=template)
            del browsers["spec"]["image"]
            world.apply(served, capability("browser"), browsers)
            with (
                world.forwarded(system, "small-broker") as url,
                SyncClient(url, namespace=served, token=FLEET_TOKEN) as client,
            ):
                until("the broker has the queue", lambda: client.stats().capabilities)
                submitted = client.submit("browser", {"pages": 1, "seconds_per_page": 0.1})
                assert client.wait(submitted.id, timeout_seconds=60).state == "completed"
        finally:
            world.helm_in(system, "uninstall", "small", "--wait")
