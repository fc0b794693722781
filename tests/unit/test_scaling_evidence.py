"""The scale-in protocol against a ReplicaSet controller, kubelet and caches that lag in every order."""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scaling_cases import World

SCHEDULES = 200


def a_world(seed: int, **options: bool | float) -> World:
    random = Random(seed)
    size = random.randint(2, 8)
    return World(
        random,
        size=size,
        work=random.randint(0, size - 1),
        target=random.randint(0, size - 1),
        **options,
    )


@settings(max_examples=SCHEDULES, deadline=None)
@given(st.integers(min_value=0))
@example(seed=38097)
def test_no_schedule_deletes_a_pod_that_holds_a_lease(seed):
    world = a_world(seed)

    world.run(1500)

    assert world.busy_deleted == []
    assert world.wrong_recorded == []


@settings(max_examples=SCHEDULES, deadline=None)
@given(st.integers(min_value=0))
def test_a_busy_pod_that_fails_its_probe_is_not_taken_for_a_victim(seed):
    world = a_world(seed, flapping=True)

    world.run(1500)

    assert world.busy_deleted == []


@settings(max_examples=SCHEDULES, deadline=None)
@given(st.integers(min_value=0))
def test_demand_that_comes_and_goes_in_the_middle_of_it_costs_no_busy_pod(seed):
    world = a_world(seed, fickle=0.1, flapping=True)

    world.run(1500)

    assert world.busy_deleted == []


@settings(max_examples=SCHEDULES, deadline=None)
@given(st.integers(min_value=0))
def test_lost_answers_of_the_api_server_cost_no_busy_pod(seed):
    world = a_world(seed, fickle=0.1, lossy=0.5)

    world.run(1500)

    assert world.busy_deleted == []


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0))
def test_in_the_end_the_size_is_reached_and_nothing_is_left_fenced_or_marked(seed):
    world = a_world(seed, fickle=0.1, lossy=0.2)

    world.run(800)
    world.settle()

    staying = [pod for pod in world.pods.values() if not pod.terminating]
    assert len(staying) == world.target
    assert world.deployment_replicas == world.target
    assert not [pod.uid for pod in staying if pod.uid in world.fences]
    assert not [pod.uid for pod in staying if pod.cost]
    assert all(pod.ready for pod in staying)


def test_without_fence_and_evidence_busy_pods_are_deleted():
    """The test of the tests: the same world finds what the protocol prevents."""
    deleted = 0
    for seed in range(100):
        world = a_world(seed, bare=True)
        world.run(1500)
        deleted += len(world.busy_deleted)

    assert deleted > 0


def test_most_schedules_do_take_workers_away_while_the_load_goes_on():
    worlds = [World(Random(seed), size=8, work=3, target=4) for seed in range(40)]
    for world in worlds:
        world.run(4000)

    assert sum(world.deployment_replicas < 8 for world in worlds) > 20
    assert all(world.deployment_replicas >= 4 for world in worlds)


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0))
def test_workers_that_always_have_a_task_empty_and_go_and_none_is_deleted_busy(seed):
    """Two slots, so much work that hardly a worker is ever free, and fewer of them wanted than there are."""
    random = Random(seed)
    size = random.randint(3, 8)
    world = World(random, size=size, work=size, target=size // 2, slots=2, max_draining=2, flapping=True)

    world.run(1500)

    assert world.busy_deleted == []
    assert world.wrong_recorded == []
    assert world.most_cordoned <= 2


@settings(max_examples=50, deadline=None)
@given(st.integers(min_value=0))
def test_in_the_end_no_cordon_is_left_whatever_was_wanted_between(seed):
    random = Random(seed)
    size = random.randint(3, 8)
    world = World(random, size=size, work=size, target=size // 2, slots=2, max_draining=2, fickle=0.1, lossy=0.2)

    world.run(800)
    assert world.busy_deleted == []
    world.settle()

    staying = {pod.uid for pod in world.pods.values() if not pod.terminating}
    assert len(staying) == world.target
    assert not staying & world.cordons.keys()
    assert not staying & world.fences.keys()


def test_without_cordons_a_fleet_that_is_never_free_hardly_shrinks():
    """The test of the tests: what cordons are there for."""
    left = {True: 0, False: 0}
    for seed in range(40):
        for cordons in (True, False):
            world = World(Random(seed), size=6, work=9, target=5, slots=2, max_draining=2 if cordons else 0)
            world.run(1500)
            left[cordons] += len([pod for pod in world.pods.values() if not pod.terminating])

    assert left[True] < left[False]
