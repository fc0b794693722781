"""The pods as they run: no root, nothing to write to, looked at from inside."""

import pytest
from demo.installation import AGENTS, SYSTEM
from world import capability, pool, until

LOOK = """
import os, sys
print("uid", os.getuid())
for path in ("/probe", "/opt/leadsman/probe", "/tmp/probe"):
    try:
        open(path, "w").close()
        print(path, "written")
    except OSError as error:
        print(path, error.strerror)
status = open("/proc/self/status").read()
print("capabilities", next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff")))
print("no new privileges", next(line.split()[1] for line in status.splitlines() if line.startswith("NoNewPrivs")))
"""


def look_from_inside(world, namespace, target):
    shown = world.kubectl("--namespace", namespace, "exec", target, "--", "python3", "-c", LOOK)
    return dict(
        line.rsplit(" ", 1) if line.startswith(("uid", "cap", "no ")) else line.split(" ", 1)
        for line in shown.splitlines()
    )


@pytest.mark.parametrize("target", ["statefulset/leadsman-broker", "deployment/leadsman-operator"])
def test_the_systems_pods_are_not_root_and_write_only_to_their_volumes(world, target):
    seen = look_from_inside(world, SYSTEM, target)
    assert seen["uid"] == "65532"
    assert seen["/probe"] == "Read-only file system"
    assert seen["/opt/leadsman/probe"] == "Read-only file system"
    assert seen["/tmp/probe"] == "written"
    assert int(seen["capabilities"], 16) == 0
    assert seen["no new privileges"] == "1"


def test_a_worker_runs_where_only_restricted_pods_are_admitted(world):
    with world.namespace() as namespace:
        read_only = {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container = {"name": "worker", "image": world.images.agents, "securityContext": read_only}
        fleet = pool("browser", "", minReplicas=1, template={"spec": {"containers": [container]}})
        del fleet["spec"]["image"]
        world.apply(namespace, capability("browser"), fleet)
        until("there is a deployment", lambda: world.get("deployments", "--namespace", namespace)["items"])
        world.kubectl("--namespace", namespace, "rollout", "status", "deployment/browser", "--timeout=60s")
        seen = look_from_inside(world, namespace, "deployment/browser")
        assert seen["uid"] == "65532"
        assert seen["/probe"] == "Read-only file system"
        assert int(seen["capabilities"], 16) == 0


def test_the_examples_workers_came_from_an_image_alone(world):
    deployment = world.get("deployment", "browser", "--namespace", AGENTS)
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert context["runAsNonRoot"] is True


def test_helm_test_reaches_the_broker_as_a_producer_would(world):
    assert "Phase:          Succeeded" in world.helm("test", "leadsman", "--timeout", "60s")
