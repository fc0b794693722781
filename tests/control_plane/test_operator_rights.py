"""What the operator may do: exactly its published rights, in its own namespaces, with roles alone."""

import asyncio
import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import BrokerClient, Kube, OperatorProcess, until
from fleet import kube as paths
from fleet.manifests import capability, pool
from fleet.pools import Pools
from leadsman.wire.tasks import TaskSubmit

RULES: list[dict[str, Any]] = [
    {
        "apiGroups": ["leadsman.dev"],
        "resources": ["capabilities", "workerpools"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["leadsman.dev"],
        "resources": ["capabilities/status", "workerpools/status"],
        "verbs": ["patch"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["get", "list", "watch", "create", "patch"],
    },
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
    {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]
ELECTION = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
]


@pytest.fixture
def second_namespace(control_plane: ControlPlane) -> Iterator[str]:
    with control_plane.namespace() as name:
        yield name


async def account(
    kube: Kube,
    plane: ControlPlane,
    folder: Path,
    home: str,
    namespaces: list[str],
    *,
    without: dict[str, Any] | None = None,
) -> Path:
    """A service account in `home` with the published rights in these namespaces; returns its kubeconfig.

    `without`: a rule that is left out.
    """
    await kube.create(f"/api/v1/namespaces/{home}/serviceaccounts", {"metadata": {"name": "operator"}})
    for namespace in namespaces:
        await grant(kube, home, namespace, "operator", [rule for rule in RULES if rule is not without])
    await grant(kube, home, home, "election", [rule for rule in ELECTION if rule is not without])
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    reply = await kube.create(f"/api/v1/namespaces/{home}/serviceaccounts/operator/token", request)
    return with_token(plane.kubeconfig, folder / "operator.kubeconfig", reply["status"]["token"])


def with_token(kubeconfig: Path, path: Path, token: str) -> Path:
    """Write the same kubeconfig with a token in place of its user."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    if "certificate-authority" in cluster:
        raw = Path(cluster.pop("certificate-authority")).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(raw).decode()
    config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path


async def grant(kube: Kube, home: str, namespace: str, name: str, rules: list[dict[str, Any]]) -> None:
    api = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    role = {"metadata": {"name": f"leadsman-{name}"}, "rules": rules}
    binding = {
        "metadata": {"name": f"leadsman-{name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"leadsman-{name}"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": home}],
    }
    await kube.create(f"{api}/roles", role)
    await kube.create(f"{api}/rolebindings", binding)


async def start(
    folder: Path, kubeconfig: Path, broker: BrokerProcess, home: str, namespaces: list[str]
) -> OperatorProcess:
    operator = OperatorProcess(
        folder,
        kubeconfig=kubeconfig,
        broker_url=broker.url,
        namespaces=namespaces,
        leader_election=True,
        lease_namespace=home,
    )
    return await asyncio.to_thread(operator.start)


@pytest.mark.usefixtures("crds")
async def test_the_published_rights_are_enough_in_several_namespaces_and_outlive_one_of_them(
    kube: Kube,
    control_plane: ControlPlane,
    namespace: str,
    second_namespace: str,
    tmp_path: Path,
    broker: BrokerProcess,
    client: BrokerClient,
) -> None:
    """Deleting a namespace takes the operator's roles in it away while it still watches there."""
    both = [namespace, second_namespace]
    kubeconfig = await account(kube, control_plane, tmp_path, namespace, both)
    operator = await start(tmp_path / "operator", kubeconfig, broker, namespace, both)
    try:
        for one in both:
            pools = Pools(kube, one)
            await pools.apply(capability("browser"), pool("browser", minReplicas=1))
            await pools.until_ready("browser", seconds=60)
            await until("its pod", lambda pools=pools: pools.pods("browser"))  # type: ignore[misc]
            assert await until("an event", lambda pools=pools: pools.events("browser", "Ready"))  # type: ignore[misc]
        assert "forbidden" not in operator.log.lower()

        await kube.delete(f"{paths.NAMESPACES}/{second_namespace}")
        await until("its end", lambda: gone(kube, second_namespace), seconds=90)

        staying = Pools(kube, namespace)
        await client.submit(namespace, *[TaskSubmit(capability="browser")] * 4)
        await until("four workers", lambda: sized(staying, 4))
        await staying.apply(pool("browser", minReplicas=6))
        await until("six workers", lambda: sized(staying, 6))
        assert operator.alive
    finally:
        sys.stdout.write(operator.log[-20_000:])
        operator.close()


@pytest.mark.usefixtures("crds")
async def test_without_any_one_of_the_rights_something_fails_and_says_which(
    kube: Kube, control_plane: ControlPlane, tmp_path: Path, broker: BrokerProcess
) -> None:
    """None of the rules is there for nothing. Each is left out for an operator of its own, a few at a time."""
    at_once = asyncio.Semaphore(3)
    silent = {}

    async def leave_out(number: int, rule: dict[str, Any]) -> None:
        async with at_once:
            with control_plane.namespace("rights") as namespace:
                folder = tmp_path / str(number)
                folder.mkdir()
                kubeconfig = await account(kube, control_plane, folder, namespace, [namespace], without=rule)
                operator = await start(folder / "operator", kubeconfig, broker, namespace, [namespace])
                try:
                    await Pools(kube, namespace).apply(capability("browser"), pool("browser", minReplicas=1))
                    await until(f"a refusal for want of {rule}", lambda: refused(operator, rule), seconds=60)
                except AssertionError as error:
                    silent[str(rule)] = f"{error}: {operator.log[-3000:]}"
                finally:
                    operator.close()

    await asyncio.gather(*(leave_out(*each) for each in enumerate([*RULES, *ELECTION])))

    assert not silent


async def refused(operator: OperatorProcess, rule: dict[str, Any]) -> bool:
    """Whether the operator's log has the API server's refusal of one of the rule's resources."""
    lines = [line.replace('\\"', '"') for line in operator.log.splitlines() if "forbidden" in line]
    return any(f'resource "{resource}"' in line for line in lines for resource in rule["resources"])


async def gone(kube: Kube, namespace: str) -> bool:
    return await kube.find(f"{paths.NAMESPACES}/{namespace}") is None


async def sized(pools: Pools, replicas: int) -> bool:
    found = await pools.deployment("browser")
    return found is not None and found["spec"]["replicas"] == replicas


@pytest.mark.usefixtures("operator")
async def test_a_namespace_full_of_pools_is_deleted_without_anything_left_behind(
    kube: Kube, namespace: str, pools: Pools
) -> None:
    names = [f"pool-{number}" for number in range(20)]
    for name in names:
        await pools.apply(capability(name), pool(name, minReplicas=1))
    for name in names:
        await pools.until_ready(name)

    await kube.delete(f"{paths.NAMESPACES}/{namespace}")

    await until("its end", lambda: gone(kube, namespace), seconds=120)


async def test_nothing_the_operator_writes_holds_an_object_back(pools: Pools, operator: OperatorProcess) -> None:
    """No finalizer waits for an operator that is gone."""
    await pools.apply(capability("browser"), pool("browser", minReplicas=1))
    await pools.until_ready("browser")
    for kind in ("WorkerPool", "Capability", "Deployment"):
        found = await pools.kube.get(pools.path(kind, "browser"))
        assert "finalizers" not in found["metadata"], json.dumps(found["metadata"])
    operator.kill()

    await pools.delete("WorkerPool", "browser")

    async def everything_gone() -> bool:
        return await pools.deployment("browser") is None and not await pools.pods("browser")

    await until("its end without an operator", everything_gone, seconds=60)
