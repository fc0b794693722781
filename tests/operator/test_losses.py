"""Something that a pool rests on went: what waits for whether its namespace ends, and what does not."""

import asyncio
from types import SimpleNamespace

import pytest

from leadsman.wire.stats import CapabilityStats, StatsSnapshot, WorkerStats
from leadsman_operator.kube.ending import ENDING_SECONDS, UNSURE_SECONDS
from leadsman_operator.kube.errors import ApiError
from leadsman_operator.kube.resources import POOL_LABEL, Kind
from leadsman_operator.parts import Parts
from leadsman_operator.settings import OperatorSettings

API = "leadsman.dev/v1alpha1"
ENDS = ApiError(403, "Forbidden", "no", {"causes": [{"reason": "NamespaceTerminating"}]})
LATER = "2026-01-01T00:00:00Z"


class Server:
    """An API server that writes down what is asked of it, and answers dry runs when `reply` is set."""

    def __init__(self):
        self.calls = []
        self.refusal = None
        self.reply = asyncio.Event()
        self.reply.set()

    async def create(self, kind, _namespace, _body, *, dry_run=False):
        if dry_run:
            await self.reply.wait()
            if self.refusal is not None:
                raise self.refusal
        self.calls.append(("dry run" if dry_run else "create", kind))

    async def get(self, kind, _namespace, _name, *, subresource=""):
        raise ApiError(404, "NotFound", f"no {kind.plural}")

    async def apply(self, kind, _namespace, name, body, *, subresource="", force=False):
        self.calls.append((f"apply {subresource}".strip(), kind))
        meta = metadata(name, "deployment", len(self.calls) + 10)
        if subresource:
            return {"metadata": meta, "spec": body["spec"]}
        return {**body, "metadata": {**body["metadata"], **meta, "ownerReferences": owned("WorkerPool", "pool")}}

    async def merge(self, kind, _namespace, _name, _body, *, subresource=""):
        self.calls.append((f"merge {subresource}".strip(), kind))

    def did(self, what):
        return [kind for verb, kind in self.calls if verb == what]


class Scene:
    """A pool of two ready workers, which has been looked at, and a broker that is heard."""

    def __init__(self):
        self.server = Server()
        settings = OperatorSettings(
            broker_url="http://b", worker_broker_url="http://b", identity="me", leader_election=False
        )
        self.parts = Parts(
            settings, client=self.server, lease_client=self.server, broker=None, leadership_changed=lambda _: None
        )
        self.put = self.parts.feed.event
        self.sequence = 0

    async def begin(self, *, leases=0):
        self.parts.controller.lead(asyncio.get_running_loop().time())
        self.put(
            Kind.CAPABILITY, None, {"apiVersion": API, "kind": "Capability", "metadata": metadata("p", "queue")}
        )
        self.put(Kind.WORKER_POOL, None, pool())
        self.hear(leases=leases)
        await self.look()
        self.put(Kind.REPLICA_SET, None, replica_set())
        for name in ("a", "b"):
            self.put(Kind.POD, None, pod(name))
        await self.look()
        await self.look()
        self.server.calls.clear()
        self.server.reply.clear()

    def hear(self, *, waiting=0, leases=0):
        self.sequence += 1
        self.parts.state.snapshot(numbers(self.sequence, waiting, leases), asyncio.get_running_loop().time())

    async def look(self):
        found = await self.parts.controller.look(("ns", "p"))
        # What a look has begun to find out is asked now.
        await asyncio.sleep(0.01)
        return found

    def evictions(self):
        return self.parts.metrics.busy_evictions.labels("ns", "p")._value.get()


def metadata(name, uid, version=1, **fields):
    same = {"namespace": "ns", "generation": 1}
    return {**same, "name": name, "uid": uid, "resourceVersion": str(version), **fields}


def owned(kind, uid):
    return [{"kind": kind, "uid": uid, "controller": True, "apiVersion": "apps/v1", "name": "p"}]


def pool(version=1, **spec):
    meta = metadata("p", "pool", version, generation=version)
    spec = {"minReplicas": 2, "maxReplicas": 9, "image": "any", **spec}
    return {"apiVersion": API, "kind": "WorkerPool", "metadata": meta, "spec": spec}


def replica_set():
    meta = metadata("rs", "rs", labels={POOL_LABEL: "p"}, ownerReferences=owned("Deployment", "deployment"))
    status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}
    return {"metadata": meta, "spec": {"replicas": 2}, "status": status}


def pod(name, version=1, **fields):
    labels = {POOL_LABEL: "p"}
    meta = metadata(name, name, version, labels=labels, ownerReferences=owned("ReplicaSet", "rs"), **fields)
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": meta, "status": {"phase": "Running", "conditions": [ready]}}


def numbers(sequence, waiting, leases):
    none = dict.fromkeys(("delayed", "leased", "dead", "due_soon"), 0)
    queue = CapabilityStats(namespace="ns", name="p", ready=waiting, waiting=waiting, leasable=waiting, **none)
    workers = [
        WorkerStats(
            id=name,
            pod_uid=name,
            namespace="ns",
            pool="p",
            capabilities=["p"],
            slots=1,
            leases=leases,
            leases_by_capability={"p": leases} if leases else {},
            idle_seconds=0.0,
            last_heard_seconds=0.0,
            state="active",
        )
        for name in ("a", "b")
    ]
    return StatsSnapshot(epoch="e", sequence=sequence, capabilities=[queue], workers=workers)


@pytest.fixture
def play(virtual_time):
    """Play `act(scene)` with a pool that has begun, and return what it returns."""

    def played(act, **about):
        async def whole():
            scene = Scene()
            await scene.begin(**about)
            return await act(scene)

        return virtual_time.run(whole())

    return played


def test_the_size_does_not_wait_for_the_answer(play):
    async def act(scene):
        scene.put(Kind.POD, "DELETED", pod("a", 2))
        scene.hear(waiting=60)
        await scene.look()
        return scene.server.did("apply scale")

    assert play(act) == [Kind.DEPLOYMENT]


def test_what_is_to_be_told_waits_for_it(play):
    async def act(scene):
        scene.put(Kind.POD, "DELETED", pod("a", 2))
        scene.hear(waiting=60)
        again = await scene.look()
        before = scene.server.did("merge status")
        scene.server.reply.set()
        await asyncio.sleep(0.01)
        await scene.look()
        return again, before, scene.server.did("merge status")

    assert play(act) == (UNSURE_SECONDS, [], [Kind.WORKER_POOL])


def test_nothing_is_told_or_made_when_the_namespace_ends(play):
    async def act(scene):
        scene.server.refusal = ENDS
        scene.put(Kind.POD, "DELETED", pod("a", 2))
        scene.put(Kind.DEPLOYMENT, "DELETED", {"metadata": metadata("p", "deployment", 90), "spec": {}})
        again = await scene.look()
        scene.server.reply.set()
        await asyncio.sleep(0.01)
        return again, await scene.look(), scene.server.calls

    assert play(act) == (UNSURE_SECONDS, ENDING_SECONDS, [])


def test_a_deployment_that_is_gone_is_made_again_when_the_namespace_stays(play):
    async def act(scene):
        scene.put(Kind.DEPLOYMENT, "DELETED", {"metadata": metadata("p", "deployment", 90), "spec": {}})
        again = await scene.look()
        before = scene.server.did("apply")
        scene.server.reply.set()
        await asyncio.sleep(0.01)
        await scene.look()
        return again, before, scene.server.did("apply")

    assert play(act) == (UNSURE_SECONDS, [], [Kind.DEPLOYMENT])


def test_a_busy_worker_that_ends_before_the_answer_comes_is_told_of(play):
    async def act(scene):
        scene.put(Kind.POD, "MODIFIED", pod("a", 2, deletionTimestamp=LATER))
        await scene.look()
        scene.put(Kind.POD, "DELETED", pod("a", 3))
        await scene.look()
        return scene.evictions()

    assert play(act, leases=1) == 1


def test_a_pool_that_is_paused_before_the_answer_comes_is_left_alone(play):
    async def act(scene):
        scene.put(Kind.DEPLOYMENT, "DELETED", {"metadata": metadata("p", "deployment", 90), "spec": {}})
        await scene.look()
        scene.put(Kind.WORKER_POOL, "MODIFIED", pool(9, scaling={"mode": "Paused"}))
        scene.server.reply.set()
        await asyncio.sleep(0.01)
        await scene.look()
        return scene.server.did("apply")

    assert play(act) == []


def test_that_a_pool_goes_with_its_namespace_is_found_out(play):
    """The others that share its queue are not looked at for each that goes."""

    async def act(scene):
        scene.server.refusal = ENDS
        scene.server.reply.set()
        scene.put(Kind.WORKER_POOL, "DELETED", pool(9))
        await scene.look()
        return scene.parts.ending.ends("ns")

    assert play(act)


def test_a_standby_asks_nothing_when_a_pool_goes(play):
    async def act(scene):
        scene.parts.controller._leadership = SimpleNamespace(holds=lambda: False)
        scene.put(Kind.WORKER_POOL, "DELETED", pool(9))
        await scene.look()
        return scene.parts.ending.unsure("ns")

    assert not play(act)
