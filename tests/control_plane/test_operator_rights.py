"""What the operator may do: exactly its published rights, in its own namespaces, with roles alone."""

import asyncio
import base64
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_process import BrokerProcess
from cluster import ControlPlane
from fleet import BrokerClient, Kube, OperatorProcess, until
from fleet import kube as paths
from fleet.manifests import capability, pool
from fleet.operator_metrics import metric
from fleet.pools import Pools
from fleet.scene import COST, POOL, Scene
from leadsman.wire.tasks import TaskSubmit

_TEMPLATE = Path(__file__).resolve().parents[2] / "charts" / "leadsman" / "templates" / "_operator-rules.tpl"
_REFUSAL = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[\w/]+)" in API group "(?P<group>[\w.]*)"')

WRITES = "leadsman_operator_status_writes_total"

Rule = dict[str, Any]
Right = tuple[str, str, str]
"""API group, resource and verb."""


def published(name: str) -> list[Rule]:
    """The rules of one of the chart's lists; there is nothing of a template in them."""
    _, _, rest = _TEMPLATE.read_text().partition(f'{{{{- define "leadsman.{name}" -}}}}')
    rules: list[Rule] = yaml.safe_load(rest.partition("{{- end }}")[0])
    return rules


RULES, ELECTION = published("operatorRules"), published("electionRules")


def rights(rules: list[Rule]) -> set[Right]:
    """Every single right in these rules."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def without(rules: list[Rule], resource: str, verb: str) -> list[Rule]:
    """These rules, a rule for each right, but one of them."""
    return [
        {"apiGroups": [group], "resources": [one], "verbs": [allowed]}
        for group, one, allowed in sorted(rights(rules))
        if (one, allowed) != (resource, verb)
    ]


@pytest.fixture
def second_namespace(control_plane: ControlPlane) -> Iterator[str]:
    with control_plane.namespace() as name:
        yield name


async def account(kube: Kube, plane: ControlPlane, folder: Path, home: str) -> Path:
    """A service account in `home` without any right; returns its kubeconfig."""
    await kube.create(f"/api/v1/namespaces/{home}/serviceaccounts", {"metadata": {"name": "operator"}})
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


async def grant(kube: Kube, home: str, namespace: str, name: str, rules: list[Rule]) -> None:
    """Let the account in `home` do these things in a namespace; a second time, these instead."""
    api = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    kinds = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": f"leadsman-{name}"}}
    binding = {
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"leadsman-{name}"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": home}],
    }
    await kube.apply(f"{api}/roles/leadsman-{name}", {**kinds, "kind": "Role", "rules": rules})
    await kube.apply(f"{api}/rolebindings/leadsman-{name}", {**kinds, **binding})


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
    kubeconfig = await account(kube, control_plane, tmp_path, namespace)
    for one in both:
        await grant(kube, namespace, one, "operator", RULES)
    await grant(kube, namespace, namespace, "election", ELECTION)
    operator = await start(tmp_path / "operator", kubeconfig, broker, namespace, both)
    try:
        for one in both:
            pools = Pools(kube, one)
            await pools.apply(capability("browser"), pool("browser", minReplicas=1))
            await pools.until_ready("browser", seconds=60)
            await until("its pod", lambda pools=pools: pools.pods("browser"))  # type: ignore[misc]
            assert await until("an event", lambda pools=pools: pools.events("browser", "DeploymentCreated"))  # type: ignore[misc]
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
async def test_every_single_published_right_is_missed_when_it_is_not_there_and_no_other_is(
    scene: Scene, kube: Kube, control_plane: ControlPlane, tmp_path: Path, broker: BrokerProcess
) -> None:
    """The operator begins without any right and is given one after the other, each when its log says that it is
    refused: so each is seen to be missed while it is the one that lacks, and in the end the fleet works with these.
    """
    namespace = scene.pools.namespace
    kubeconfig = await account(kube, control_plane, tmp_path, namespace)
    operator = await start(tmp_path / "operator", kubeconfig, broker, namespace, [namespace])
    given: set[Right] = set()

    async def give_what_is_missed() -> None:
        missed = refusals(operator) - given
        if missed:
            given.update(missed)
            single = [{"apiGroups": [g], "resources": [r], "verbs": [v]} for g, r, v in sorted(given)]
            await grant(kube, namespace, namespace, "operator", single)

    async def until_given(what: str, check: Callable[[Scene], Awaitable[bool]]) -> None:
        async def look() -> bool:
            await give_what_is_missed()
            return await check(scene)

        await until(what, look, seconds=90)

    try:
        await scene.create()
        await until_given("a pool and a queue that are ready", ready)
        await scene.submit(2, hold=True)
        await until_given("two workers that are marked as busy", marked)
        scene.finish_held()
    finally:
        sys.stdout.write(operator.log[-20_000:])
        operator.close()

    assert given == rights(RULES) | rights(ELECTION)


@pytest.mark.usefixtures("crds")
async def test_a_deployment_that_was_made_is_told_of_though_its_scale_may_not_be_written(
    scene: Scene, kube: Kube, control_plane: ControlPlane, tmp_path: Path, broker: BrokerProcess
) -> None:
    namespace = scene.pools.namespace
    kubeconfig = await account(kube, control_plane, tmp_path, namespace)
    await grant(kube, namespace, namespace, "operator", without(RULES, "deployments/scale", "patch"))
    await grant(kube, namespace, namespace, "election", ELECTION)
    operator = await start(tmp_path / "operator", kubeconfig, broker, namespace, [namespace])
    try:
        await scene.pools.apply(capability(POOL), pool(POOL, minReplicas=2))
        told = await until("its event", lambda: scene.pools.events(POOL, "DeploymentCreated"), seconds=60)
        assert "made with 2 replicas" in told[0]["note"]
    finally:
        sys.stdout.write(operator.log[-20_000:])
        operator.close()


def refusals(operator: OperatorProcess) -> set[Right]:
    """What the API server refused, as the operator's log has its words."""
    lines = (line.replace('\\"', '"') for line in operator.log.splitlines() if "forbidden" in line)
    found = (match for line in lines for match in _REFUSAL.finditer(line))
    return {(match["group"], match["resource"], match["verb"]) for match in found}


async def ready(scene: Scene) -> bool:
    """Whether the statuses of both say so, and the Deployment is made: what comes next is scaling it."""
    queue = await scene.pools.kube.get(scene.pools.path("Capability", POOL))
    said = queue.get("status", {}).get("conditions", [])
    accepted = any(one["status"] == "True" for one in said) and await scene.pools.events(POOL, "DeploymentCreated")
    return bool(accepted) and await scene.pools.deployment(POOL) is not None


async def marked(scene: Scene) -> bool:
    """Whether the pods of two workers carry their mark, and the event of their coming is written."""
    pods = await scene.pools.pods(POOL)
    costly = [pod for pod in pods if COST in pod["metadata"].get("annotations", {})]
    return len(costly) == 2 and bool(await scene.pools.events(POOL, "ScaledOut"))


async def gone(kube: Kube, namespace: str) -> bool:
    return await kube.find(f"{paths.NAMESPACES}/{namespace}") is None


def reasons(found: dict[str, Any]) -> set[str]:
    """The reasons of a pool's conditions."""
    return {one["reason"] for one in found["status"]["conditions"]}


async def sized(pools: Pools, replicas: int) -> bool:
    found = await pools.deployment("browser")
    return found is not None and found["spec"]["replicas"] == replicas


async def test_a_namespace_full_of_pools_is_deleted_without_anything_left_behind(
    kube: Kube, namespace: str, pools: Pools, operator: OperatorProcess
) -> None:
    names = [f"pool-{number}" for number in range(20)]
    for name in names:
        await pools.apply(capability(name), pool(name, minReplicas=1))
    await pools.until_ready(*names)

    async def settled() -> bool:
        """No node takes their pods; with the number of pods the last is told that was still to be."""
        found = (await kube.get(paths.POOLS.format(namespace=namespace)))["items"]
        return all(one["status"]["replicas"] == 1 and "Unschedulable" in reasons(one) for one in found)

    await until("statuses that stay as they are", settled, seconds=60, every_seconds=1.0)
    written = await metric(operator, WRITES)

    await kube.delete(f"{paths.NAMESPACES}/{namespace}")

    await until("its end", lambda: gone(kube, namespace), seconds=120)
    assert "is being terminated" not in operator.log, "Deployments that went first were missed again and again"
    assert await metric(operator, WRITES) == written, "what is gone was told to nobody"


async def test_pods_and_deployments_that_went_in_a_namespace_that_stays_are_made_again(
    kube: Kube, pools: Pools, operator: OperatorProcess
) -> None:
    await pools.apply(capability("browser"), pool("browser", minReplicas=2))
    await pools.until_ready("browser")
    for pod in await until("its pods", lambda: pools.pods("browser")):
        await kube.delete(f"{paths.PODS.format(namespace=pools.namespace)}/{pod['metadata']['name']}")
    old = await pools.deployment("browser")
    assert old is not None

    await pools.delete("Deployment", "browser")

    async def another() -> bool:
        new = await pools.deployment("browser")
        return new is not None and new["metadata"]["uid"] != old["metadata"]["uid"]

    await until("another Deployment", another)
    await until("two pods of it", lambda: sized(pools, 2))
    assert operator.alive


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
