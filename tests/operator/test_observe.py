"""From cached objects to what the decision reads."""

import pytest

from leadsman.wire.leases import WorkerState
from leadsman.wire.stats import CapabilityStats, FenceStats, StatsSnapshot, WorkerStats
from leadsman_operator.broker.state import BrokerState
from leadsman_operator.kube.cache import Cache
from leadsman_operator.kube.resources import POOL_LABEL, Kind
from leadsman_operator.reconcile.observe import Observer, Surroundings, pod_sample
from leadsman_operator.reconcile.pools import PoolIndex
from leadsman_operator.reconcile.record import PoolRecord, StatusMemory
from leadsman_operator.scaling.startup import PodBirths

LABELS = {POOL_LABEL: "browser"}


def meta(name, uid, version=1, **fields):
    return {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version), **fields}


def owned(kind, uid):
    return [{"kind": kind, "uid": uid, "controller": True, "apiVersion": "apps/v1", "name": "x"}]


def pool(**spec):
    return {
        "apiVersion": "leadsman.dev/v1alpha1",
        "kind": "WorkerPool",
        "metadata": meta("browser", "pool-uid"),
        "spec": {"maxReplicas": 9, "image": "any", **spec},
    }


def deployment(replicas=2, **status):
    template = {"metadata": {"labels": LABELS}, "spec": {}}
    return {
        "metadata": meta("browser", "dep-uid", generation=3),
        "spec": {"replicas": replicas, "template": template},
        "status": {"observedGeneration": 3, "replicas": replicas, "updatedReplicas": replicas, **status},
    }


def replica_set(uid="rs-uid", replicas=2, owner="dep-uid", **status):
    return {
        "metadata": meta(f"rs-{uid}", uid, generation=4, labels=LABELS, ownerReferences=owned("Deployment", owner)),
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 4, "replicas": replicas, "readyReplicas": replicas, **status},
    }


def pod(name, owner="rs-uid", phase="Running", conditions=(), statuses=(), **fields):
    return {
        "metadata": meta(name, f"uid-{name}", labels=LABELS, ownerReferences=owned("ReplicaSet", owner), **fields),
        "status": {"phase": phase, "conditions": list(conditions), "containerStatuses": list(statuses)},
    }


class World:
    def __init__(self, *objects, snapshot=None):
        self.cache, self.index = Cache(), PoolIndex()
        self.state, self.births = BrokerState(stale_seconds=15), PodBirths()
        for kind, obj in objects:
            self.cache.put(kind, obj)
        self.index.put(pool())
        self.pool = self.index.get(("ns", "browser"))
        if snapshot is not None:
            self.state.snapshot(snapshot, 100.0)
        self.observer = Observer(self.cache, self.state, self.births)
        self.record = PoolRecord("pool-uid", 0.0, StatusMemory(0.0))

    def around(self):
        return self.observer.surroundings(self.pool)

    def observation(self, now=100.0, leading_since=0.0):
        return self.observer.observation(
            self.pool, self.record, self.around(), leading_since=leading_since, now=now
        )


def worker(uid, **fields):
    base = {
        "id": f"{uid}.1",
        "pod_uid": uid,
        "namespace": "ns",
        "pool": "browser",
        "capabilities": ["browser"],
        "slots": 1,
        "leases": 0,
        "idle_seconds": 5.0,
        "last_heard_seconds": 0.0,
        "state": WorkerState.ACTIVE,
    }
    return WorkerStats(**{**base, **fields})


def queue(name="browser"):
    zero = {"ready": 0, "delayed": 0, "leased": 0, "dead": 0, "waiting": 0, "leasable": 0, "due_soon": 0}
    return CapabilityStats(namespace="ns", name=name, **zero)


def snapshot(**content):
    return StatsSnapshot(epoch="e1", sequence=1, **content)


def test_only_pods_that_the_deployments_replica_sets_made_are_counted():
    world = World(
        (Kind.DEPLOYMENT, deployment()),
        (Kind.REPLICA_SET, replica_set()),
        (Kind.REPLICA_SET, replica_set("other", owner="other-dep")),
        (Kind.POD, pod("mine")),
        (Kind.POD, pod("not-mine", owner="other")),
        (Kind.POD, pod("ended", phase="Failed")),
    )
    assert [one["metadata"]["name"] for one in world.around().pods] == ["mine"]


def test_a_draining_pod_is_seen_after_its_replica_set_was_cleared_away():
    leaving = pod("leaving", owner="cleared", deletionTimestamp="2026-01-01T00:00:00Z")
    world = World((Kind.DEPLOYMENT, deployment()), (Kind.REPLICA_SET, replica_set()), (Kind.POD, leaving))
    (sample,) = world.observation().pods
    assert sample.terminating


def test_a_pod_is_described_by_its_conditions_and_containers():
    conditions = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:07Z"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]
    statuses = [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    sample = pod_sample(
        pod(
            "p",
            conditions=conditions,
            statuses=statuses,
            annotations={"controller.kubernetes.io/pod-deletion-cost": "-1000"},
        )
    )
    assert (sample.ready, sample.unschedulable, sample.failing) == (False, True, True)
    assert (sample.deletion_cost, sample.ready_changed) == (-1000, "2026-01-01T00:00:07Z")


def test_a_container_that_is_only_being_made_does_not_fail():
    statuses = [{"state": {"waiting": {"reason": "ContainerCreating"}}}]
    assert not pod_sample(pod("p", statuses=statuses)).failing


@pytest.mark.parametrize(
    ("restarts", "state", "ready", "since", "crashes"),
    [
        (2, {"running": {"startedAt": "2026-01-01T00:00:07Z"}}, "False", "2026-01-01T00:00:05Z", True),
        (2, {"running": {"startedAt": "2026-01-01T00:00:07Z"}}, "False", "2026-01-01T00:00:09Z", False),
        (2, {"running": {"startedAt": "2026-01-01T00:00:07Z"}}, "True", "2026-01-01T00:00:08Z", False),
        (1, {"running": {"startedAt": "2026-01-01T00:00:07Z"}}, "False", "2026-01-01T00:00:05Z", False),
        (3, {"terminated": {"exitCode": 1}}, "False", "2026-01-01T00:00:09Z", True),
    ],
    ids=["in a short life", "fenced after it was ready", "ready", "one accident", "ended once more"],
)
def test_a_container_that_crashes_again_and_again_fails_until_it_is_ready(restarts, state, ready, since, crashes):
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": since}]
    statuses = [{"restartCount": restarts, "state": state, "lastState": {"terminated": {"exitCode": 1}}}]
    assert pod_sample(pod("p", conditions=conditions, statuses=statuses)).failing is crashes


def test_a_deletion_cost_that_is_no_number_counts_as_none():
    odd = {"controller.kubernetes.io/pod-deletion-cost": "cheap"}
    assert pod_sample(pod("p", annotations=odd)).deletion_cost == 0


def test_two_replica_sets_with_pods_are_a_rollout_without_evidence():
    world = World(
        (Kind.DEPLOYMENT, deployment()),
        (Kind.REPLICA_SET, replica_set("old", replicas=1)),
        (Kind.REPLICA_SET, replica_set("new", replicas=1)),
        (Kind.REPLICA_SET, replica_set("ancient", replicas=0)),
    )
    assert world.around().rollout_in_progress
    assert world.around().replica_set_sample() is None


def test_the_one_replica_sets_status_is_the_evidence():
    world = World((Kind.DEPLOYMENT, deployment()), (Kind.REPLICA_SET, replica_set(readyReplicas=1)))
    sample = world.around().replica_set_sample()
    assert sample is not None
    assert (sample.replicas, sample.current_replicas, sample.ready_replicas, sample.observed) == (2, 2, 1, True)

    stale = World((Kind.DEPLOYMENT, deployment()), (Kind.REPLICA_SET, replica_set(observedGeneration=3)))
    sample = stale.around().replica_set_sample()
    assert sample is not None
    assert not sample.observed


def test_what_stops_the_replica_set_from_making_pods_is_read_from_the_deployment():
    failure = {"type": "ReplicaFailure", "status": "True", "message": "pods is forbidden: exceeded quota: few"}
    world = World((Kind.DEPLOYMENT, deployment(conditions=[failure])))
    assert world.observation().quota_exceeded
    other = {**failure, "message": "violates PodSecurity"}
    world = World((Kind.DEPLOYMENT, deployment(conditions=[other])))
    assert not world.observation().quota_exceeded
    assert world.around().replica_failure == "violates PodSecurity"


def test_workers_age_with_the_time_since_the_broker_spoke_of_them():
    world = World(snapshot=snapshot(workers=[worker("p1"), worker("p2", last_heard_seconds=20.0)]))
    first, second = world.observation(now=112.0).workers
    assert first.idle_seconds == 17.0
    assert first.live
    assert not second.live, "silent for longer than a lease"


def test_the_signal_is_unbroken_since_this_process_leads():
    world = World(snapshot=snapshot(capabilities=[queue()]))
    signal = world.observation(now=130.0, leading_since=120.0).signal
    assert signal is not None
    assert (signal.epoch, signal.age_seconds, signal.unbroken_since) == ("e1", 30.0, 120.0)
    assert World().observation().signal is None


def test_a_capability_is_unknown_without_an_object_and_unreported_without_a_word_of_the_broker():
    capability = {"metadata": meta("browser", "cap-uid"), "spec": {}}
    assert World(snapshot=snapshot()).observation().unknown_capabilities == ("browser",)
    known = World((Kind.CAPABILITY, capability), snapshot=snapshot())
    assert known.observation().unknown_capabilities == ()
    assert known.observation().unreported_capabilities == ("browser",)
    told = World((Kind.CAPABILITY, capability), snapshot=snapshot(capabilities=[queue()]))
    assert told.observation().unreported_capabilities == ()


def test_the_start_up_time_is_measured_from_the_pods_birth_to_its_workers_first_word():
    world = World(snapshot=snapshot(workers=[worker("uid-p1"), worker("uid-p2")]))
    world.births.born("uid-p1", 90.0)
    assert world.observation(now=101.0).startup_seconds == 11.0
    assert world.observation(now=200.0).startup_seconds == 11.0, "a pod starts once"


def test_fences_of_all_pools_are_known_by_pod():
    fence = FenceStats(pod_uid="p9", operation="op", expires_in_seconds=9)
    assert World(snapshot=snapshot(fences=[fence])).observer.fences() == {"p9": "op"}


def test_the_schedulers_words_are_those_of_a_pod_that_is_to_stay():
    def waiting(name, message, **fields):
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        return pod(name, conditions=[said], **fields)

    going = waiting("going", "not this one", deletionTimestamp="2026-01-01T00:00:00Z")
    around = Surroundings(None, (), (pod("fine"), going, waiting("a", "no room"), waiting("b", "no room")))
    assert around.unschedulable == (2, "no room")
    assert Surroundings(None, (), (pod("fine"), going)).unschedulable == (0, "")
