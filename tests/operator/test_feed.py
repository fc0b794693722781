"""What a change leads to: who looks again, and what is forgotten with what is gone."""

import asyncio

import pytest

from leadsman_operator.broker.state import BrokerState
from leadsman_operator.feed import Feed
from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.resources import POOL_LABEL, Kind
from leadsman_operator.reconcile.pools import PoolIndex
from leadsman_operator.scaling.startup import PodBirths
from leadsman_operator.workqueue import WorkQueue


class Scene:
    """A feed whose queues look at nothing."""

    def __init__(self):
        self.cache, self.births = Cache(), PodBirths()

        async def look(_key):
            return None

        self.feed = Feed(
            cache=self.cache,
            index=PoolIndex(),
            state=BrokerState(stale_seconds=15),
            births=self.births,
            controller=None,
            pools=WorkQueue(look),
            namespaces=WorkQueue(look),
            forget_capability=lambda _: None,
        )


def pod(uid, version, name="worker-1"):
    meta = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": {**meta, "labels": {POOL_LABEL: "browser"}}}


@pytest.fixture
def scene(virtual_time):
    found = Scene()

    async def born():
        await asyncio.sleep(1.0)
        found.feed.event(Kind.POD, "ADDED", pod("u1", 5))

    virtual_time.run(born())
    assert len(found.births._seen) == 1
    return found


def test_a_pod_that_was_deleted_before_it_started_is_no_longer_waited_for(scene):
    scene.feed.event(Kind.POD, "DELETED", pod("u1", 6))
    assert not scene.births._seen


def test_nor_one_whose_deletion_only_a_list_shows(scene):
    for gone in scene.cache.prune(Kind.POD, None, [], 9):
        scene.feed.changed(Kind.POD, gone)
    assert not scene.births._seen


def test_nor_one_whose_name_another_has_by_now(scene):
    scene.feed.event(Kind.POD, "MODIFIED", pod("u2", 8))
    scene.feed.event(Kind.POD, "DELETED", pod("u1", 7))
    assert not scene.births._seen
