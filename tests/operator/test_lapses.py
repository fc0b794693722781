"""What was to be looked at while the lease was unrenewed is looked at afterwards, and nothing else."""

import asyncio

import pytest

from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.ending import EndingNamespaces
from leadsman_operator.kube.resources import Kind
from leadsman_operator.metrics import Metrics
from leadsman_operator.reconcile.controller import PoolController


class Leadership:
    term = 1

    def __init__(self):
        self.ours = False

    def holds(self):
        return self.ours


class Scene:
    """Ten pools and a controller that does not lead for the moment."""

    def __init__(self):
        self.cache, self.leadership = Cache(), Leadership()
        for number in range(10):
            self.cache.put(Kind.WORKER_POOL, pool(number))
        self.controller = PoolController(
            cache=self.cache,
            index=None,
            observer=None,
            workloads=None,
            actor=None,
            reporter=None,
            events=None,
            leadership=self.leadership,
            metrics=Metrics(),
            ending=EndingNamespaces(None),
            conflict_quiet_seconds=300,
        )

    def look(self, number):
        return asyncio.run(self.controller.look(("ns", f"pool-{number}")))


def pool(number):
    meta = {"namespace": "ns", "name": f"pool-{number}", "uid": f"u{number}", "resourceVersion": "1"}
    return {"metadata": meta}


@pytest.fixture
def scene():
    return Scene()


def test_only_pools_that_were_to_be_looked_at_are_due_afterwards_and_only_once(scene):
    assert [scene.look(number) for number in (3, 7, 3)] == [None, None, None]

    assert scene.controller.take_missed() == [("ns", "pool-3"), ("ns", "pool-7")]
    assert scene.controller.take_missed() == []


def test_one_that_went_meanwhile_is_not_remembered(scene):
    scene.look(3)
    scene.cache.remove(Kind.WORKER_POOL, pool(3))
    scene.look(3)

    assert scene.controller.take_missed() == []


def test_a_new_leader_owes_nothing_it_looks_at_everything(scene):
    scene.look(3)
    scene.controller.lead(100.0)

    assert scene.controller.take_missed() == []
