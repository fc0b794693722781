"""Which of a namespace's many queues a look at it tells about, and what is kept of those that are gone."""

import asyncio
from types import SimpleNamespace

import pytest

from leadsman.wire.stats import CapabilityStats, StatsSnapshot
from leadsman_operator.broker.errors import BrokerError
from leadsman_operator.broker.state import BrokerState
from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.ending import ENDING_SECONDS, UNSURE_SECONDS, EndingNamespaces
from leadsman_operator.kube.errors import ApiError
from leadsman_operator.kube.events import EventRecorder
from leadsman_operator.kube.resources import Kind
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.capabilities import CapabilityController
from leadsman_operator.reconcile.pools import PoolIndex


class Server:
    """Takes statuses and rules, or refuses them as it is told to; may do something meanwhile."""

    def __init__(self):
        self.statuses = []
        self.refuses = None
        self.status_fails = None
        self.ends = None
        self.questions = 0
        self.meanwhile = lambda: None

    async def create(self, _kind, _namespace, _body, *, dry_run):
        assert dry_run
        self.questions += 1
        if self.ends is not None:
            raise self.ends

    async def merge(self, _kind, _namespace, name, _body, *, subresource):
        assert subresource == "status"
        self.meanwhile()
        if self.status_fails is not None:
            raise self.status_fails
        self.statuses.append(name)

    async def put_capabilities(self, _namespace, generation, _configs):
        if self.refuses is not None:
            raise self.refuses
        return SimpleNamespace(applied=True, generation=generation)


class Scene:
    """A namespace with twenty queues, and a controller that begins to lead."""

    def __init__(self):
        self.server, self.cache, self.index = Server(), Cache(), PoolIndex()
        self.state = BrokerState(stale_seconds=15)
        self.asked = []
        self.ending = EndingNamespaces(self.server)
        self.events = EventRecorder(self.server, "me")
        self.controller = CapabilityController(
            client=self.server,
            cache=self.cache,
            index=self.index,
            broker=self.server,
            state=self.state,
            events=self.events,
            leadership=SimpleNamespace(holds=lambda: True, check=lambda: None),
            metrics=Metrics(),
            ending=self.ending,
            startup_seconds=lambda _: None,
            tell_about=self.asked.append,
            scope=lambda _: True,
        )
        for number in range(20):
            self.put(f"queue-{number}")

    def put(self, name, *, generation=1, version=1):
        meta = {"namespace": "ns", "name": name, "uid": f"uid of {name}"}
        meta.update(generation=generation, resourceVersion=str(version))
        api = {"apiVersion": "leadsman.dev/v1alpha1", "kind": "Capability"}
        self.cache.put(Kind.CAPABILITY, {**api, "metadata": meta})

    def remove(self, name):
        self.cache.remove(Kind.CAPABILITY, self.cache.get(Kind.CAPABILITY, "ns", name))
        self.controller.forget(("ns", name))

    async def look(self):
        """Look at the namespace and tell what it asks for; return the names."""
        self.asked.clear()
        await self.controller.look("ns")
        for key in self.asked:
            if await self.controller.tell(key) == UNSURE_SECONDS:
                await asyncio.sleep(0)
                assert await self.controller.tell(key) != UNSURE_SECONDS
        return [name for _, name in self.asked]


def pool(name, capability):
    meta = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1", "generation": 1}
    spec = {"maxReplicas": 3, "image": "any", "capabilities": [capability]}
    return {"apiVersion": "leadsman.dev/v1alpha1", "kind": "WorkerPool", "metadata": meta, "spec": spec}


def numbers(name, *, ready):
    zero = dict.fromkeys(("delayed", "leased", "dead", "waiting", "leasable", "due_soon"), 0)
    one = CapabilityStats(namespace="ns", name=name, ready=ready, **zero)
    return StatsSnapshot(epoch="e1", sequence=1, capabilities=[one])


@pytest.fixture
def scene():
    return Scene()


async def test_a_look_at_a_namespace_in_which_nothing_changed_tells_about_nothing(scene):
    assert len(await scene.look()) == 20
    assert await scene.look() == []
    assert len(scene.server.statuses) == 20


async def test_what_changed_is_told_and_nothing_else(scene):
    await scene.look()
    scene.put("queue-3", generation=2, version=2)
    scene.put("fresh")
    scene.index.put(pool("some", "queue-5"))
    scene.state.snapshot(numbers("queue-7", ready=4), 0.0)

    assert sorted(await scene.look()) == ["fresh", "queue-3", "queue-5", "queue-7"]


async def test_a_status_that_could_not_be_written_is_told_about_again(scene):
    scene.server.status_fails = ApiError(500, "InternalError", "not now")
    with pytest.raises(ApiError):
        await scene.look()
    scene.server.status_fails = None

    assert len(await scene.look()) == 20


async def test_rules_that_the_broker_refuses_are_told_of_every_queue_and_so_is_their_end(scene):
    await scene.look()
    scene.put("fresh")
    scene.server.refuses = BrokerError(422, "invalid", "no such thing")
    with pytest.raises(BrokerError):
        await scene.look()
    assert len(scene.asked) == 21
    for key in scene.asked:
        await scene.controller.tell(key)
    scene.server.refuses = None

    assert len(await scene.look()) == 21


async def test_a_queue_that_goes_while_its_status_is_written_leaves_no_budget_of_events(scene):
    await scene.look()
    scene.put("fresh")
    scene.server.meanwhile = lambda: scene.remove("fresh")
    before = len(scene.events._budgets)

    await scene.look()

    assert len(scene.events._budgets) == before


async def test_what_is_remembered_of_a_queue_goes_with_it_also_when_the_api_server_says_so_first(scene):
    await scene.look()
    scene.put("fresh")
    await scene.look()
    scene.put("fresh", generation=2, version=2)
    scene.server.status_fails = ApiError(404, "NotFound", "gone")
    await scene.look()
    scene.remove("fresh")

    for held in (scene.controller._told, scene.controller._read, scene.events._budgets):
        assert len(held) == 20


async def test_refusals_of_a_namespace_end_with_it(scene):
    scene.server.refuses = BrokerError(422, "invalid", "no such thing")
    with pytest.raises(BrokerError):
        await scene.look()
    for number in range(20):
        scene.remove(f"queue-{number}")

    assert await asyncio.wait_for(scene.controller.look("ns"), 5) is None
    assert not scene.controller._refusals


async def test_nothing_is_told_of_queues_in_a_namespace_that_ends(scene):
    scene.ending.note("ns")

    assert len(await scene.look()) == 20
    assert scene.server.statuses == []
    assert await scene.controller.tell(("ns", "queue-1")) == ENDING_SECONDS


async def test_queues_whose_pools_went_with_their_namespace_are_not_told_of(scene):
    for number in range(20):
        scene.index.put(pool(f"pool-{number}", f"queue-{number}"))
    await scene.look()
    scene.server.statuses.clear()
    scene.server.ends = ApiError(403, "Forbidden", "no", {"causes": [{"reason": "NamespaceTerminating"}]})
    for number in range(20):
        scene.index.remove(("ns", f"pool-{number}"))

    assert len(await scene.look()) == 20
    assert (scene.server.statuses, scene.server.questions) == ([], 1)


async def test_a_queue_that_lost_its_pool_in_a_namespace_that_stays_is_told_of(scene):
    scene.index.put(pool("some", "queue-5"))
    await scene.look()
    scene.server.statuses.clear()
    scene.index.remove(("ns", "some"))

    await scene.look()
    assert (scene.server.statuses, scene.server.questions) == (["queue-5"], 1)
