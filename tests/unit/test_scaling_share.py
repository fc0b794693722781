"""Dividing work over pools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman_operator.scaling.demand import slot_rule
from leadsman_operator.scaling.model import CapabilitySample, ScalingMode
from leadsman_operator.scaling.share import PoolView, related, share
from scaling_cases import observe, pods, pool, workers


def sample(name="browser", waiting=0, **changes):
    return CapabilitySample(**{"name": name, "waiting": waiting, "leasable": waiting, **changes})


def samples(*found):
    return {each.name: each for each in found}


def view(name, replicas=0, observed=None, **spec):
    return PoolView(pool(name=name, **spec), observe(replicas, **(observed or {})))


def given_to(shares, name):
    return {each.name: (each.waiting, each.leasable) for each in shares.work[name]}


def test_one_pool_gets_everything_with_what_is_due_soon():
    shares = share(samples(sample(waiting=7, leasable=4, due_soon=2, oldest_age_seconds=9.0)), [view("a")])

    (work,) = shares.work["a"]
    assert (work.waiting, work.leasable, work.due_soon, work.oldest_age_seconds) == (9, 6, 2, 9.0)
    assert shares.unserved == {}


def test_a_free_slot_takes_its_task_before_anybody_grows():
    """`b` has two idle workers; `a` would otherwise start two new ones."""
    shares = share(samples(sample(waiting=2)), [view("a"), view("b", 2)])

    assert given_to(shares, "a") == {"browser": (0, 0)}
    assert given_to(shares, "b") == {"browser": (2, 2)}


def test_the_first_pool_takes_what_its_maximum_allows_and_the_rest_goes_on():
    shares = share(
        samples(sample(waiting=30)),
        [view("c", max_replicas=20), view("a", max_replicas=5), view("b", max_replicas=2, slots_per_worker=4)],
    )

    assert given_to(shares, "a") == {"browser": (5, 5)}
    assert given_to(shares, "b") == {"browser": (8, 8)}
    assert given_to(shares, "c") == {"browser": (17, 17)}


def test_what_is_too_much_for_all_stays_with_the_last_one():
    shares = share(samples(sample(waiting=30)), [view("a", max_replicas=5), view("b", max_replicas=5)])

    assert given_to(shares, "a") == {"browser": (5, 5)}
    assert given_to(shares, "b") == {"browser": (25, 25)}


def test_a_slot_may_answer_for_several_tasks():
    shares = share(
        samples(sample(waiting=30, service_seconds=3.0)), [view("a", max_replicas=4), view("b", max_replicas=4)]
    )

    assert given_to(shares, "a")["browser"][0] == 20  # four slots, five tasks each
    assert given_to(shares, "b")["browser"][0] == 10


def test_tasks_that_may_not_run_leave_the_slots_of_others_alone():
    """Ten may run at once; each of the two pools needs two slots for its part."""
    shares = share(
        samples(sample(waiting=20, leasable=10, service_seconds=3.0)),
        [view("a", max_replicas=2), view("b", max_replicas=2)],
    )

    assert given_to(shares, "a") == {"browser": (10, 2)}
    assert given_to(shares, "b") == {"browser": (10, 8)}


@pytest.mark.parametrize(
    "cannot_grow",
    [
        {"mode": ScalingMode.PAUSED},
        {"mode": ScalingMode.OBSERVE},
        {"observed": {"conflict": True}},
        {"observed": {"quota_exceeded": True}},
        {"observed": {"pods": (*pods(3), *pods(6, ready=False, failing=True)[3:])}},
    ],
)
def test_a_pool_that_cannot_grow_takes_only_what_its_live_slots_can(cannot_grow):
    shares = share(samples(sample(waiting=10)), [view("a", 3, **cannot_grow), view("b")])

    assert given_to(shares, "a") == {"browser": (3, 3)}
    assert given_to(shares, "b") == {"browser": (7, 7)}


def test_a_pool_that_observes_alone_shows_what_it_would_do():
    alone = share(samples(sample(waiting=10)), [view("a", 3, mode=ScalingMode.OBSERVE)])
    beside = share(
        samples(sample(waiting=10)),
        [
            view("a", 3, mode=ScalingMode.OBSERVE),
            view("b", observed={"conflict": True}),
            view("c", mode=ScalingMode.PAUSED),
        ],
    )

    assert given_to(alone, "a") == given_to(beside, "a") == {"browser": (10, 10)}


def test_a_pool_whose_workers_lack_the_handler_leaves_the_work_to_others():
    lacking = view(
        "a", 3, observed={"workers": workers(0, 0, 0, capability="llm")}, capabilities=("browser", "llm")
    )

    shares = share(samples(sample(waiting=10)), [lacking, view("b")])

    assert given_to(shares, "a") == {"browser": (0, 0)}
    assert given_to(shares, "b") == {"browser": (10, 10)}


def test_work_that_no_pool_may_take_is_counted():
    shares = share(samples(sample(waiting=10), sample("llm", waiting=3)), [view("a", 2, mode=ScalingMode.PAUSED)])

    assert shares.unserved == {"browser": 8, "llm": 3}


def test_a_slot_counts_once_over_all_its_capabilities():
    both = view(
        "a",
        1,
        observed={"workers": workers(0, capability="browser", capabilities=("browser", "llm"))},
        capabilities=("browser", "llm"),
        mode=ScalingMode.PAUSED,
    )

    shares = share(samples(sample(waiting=5), sample("llm", waiting=5)), [both])

    assert given_to(shares, "a") == {"browser": (1, 1), "llm": (0, 0)}


def test_busy_draining_fenced_and_silent_workers_have_no_free_slot():
    observed = {
        "workers": (
            *workers(1),
            *workers(0, 0, draining=True)[1:],
            *workers(0, 0, 0, fenced=True)[2:],
            *workers(0, 0, 0, 0, live=False)[3:],
            *workers(0, 0, 0, 0, 0, cordoned=True)[4:],
            *workers(0, 0, 0, 0, 0, 0)[5:],
        )
    }
    paused = view("b", 6, observed=observed, mode=ScalingMode.PAUSED)

    shares = share(samples(sample(waiting=10)), [view("a"), paused])

    assert given_to(shares, "b") == {"browser": (1, 1)}, "of the last worker, which is free"
    assert given_to(shares, "a") == {"browser": (9, 9)}


def test_numbers_that_make_no_sense_reach_every_pool_so_that_each_holds():
    shares = share(samples(sample(waiting=-1)), [view("a"), view("b")])

    assert given_to(shares, "a") == given_to(shares, "b") == {"browser": (-1, -1)}


def test_pools_that_share_nothing_are_not_related():
    a = view("a", capabilities=("one", "two"))
    b = view("b", capabilities=("two", "three"))
    c = view("c", capabilities=("four",))

    assert {each.spec.name for each in related([a, b, c], ["one"])} == {"a", "b"}
    assert related([a, b, c], ["five"]) == []


names = st.sampled_from(["c1", "c2", "c3"])


@st.composite
def any_samples(draw):
    found = {}
    for name in draw(st.sets(names, min_size=1)):
        waiting = draw(st.integers(0, 500))
        found[name] = CapabilitySample(
            name=name,
            waiting=waiting,
            leasable=draw(st.integers(0, waiting)),
            due_soon=draw(st.integers(0, 20)),
            oldest_age_seconds=draw(st.none() | st.floats(0, 500)),
            service_seconds=draw(st.none() | st.floats(0, 200)),
        )
    return found


@st.composite
def any_views(draw):
    views = []
    for index in range(draw(st.integers(1, 4))):
        replicas = draw(st.integers(0, 5))
        slots = draw(st.integers(1, 4))
        capabilities = tuple(sorted(draw(st.sets(names, min_size=1))))
        found = workers(
            *(draw(st.integers(0, slots)) for _ in range(replicas)),
            slots=slots,
            capability=capabilities[0],
            capabilities=capabilities,
        )
        views.append(
            PoolView(
                pool(
                    name=f"pool-{index}",
                    capabilities=capabilities,
                    max_replicas=draw(st.integers(1, 30)),
                    slots_per_worker=slots,
                    mode=draw(st.sampled_from(list(ScalingMode))),
                    target_tasks_per_slot=draw(st.integers(1, 10)),
                ),
                observe(
                    replicas,
                    workers=found,
                    conflict=draw(st.booleans()),
                    startup_seconds=draw(st.floats(0, 300)),
                ),
            )
        )
    return views


@given(any_samples(), any_views())
def test_shares_add_up_and_nothing_is_stranded(found, views):
    shares = share(found, views)

    for name, capability in found.items():
        parts = [work for works in shares.work.values() for work in works if work.name == name]
        total = capability.waiting + capability.due_soon
        assert sum(part.waiting for part in parts) + shares.unserved.get(name, 0) == total
        assert sum(part.leasable for part in parts) <= capability.leasable + capability.due_soon
        assert all(0 <= part.leasable <= part.waiting for part in parts)
        assert sum(part.due_soon for part in parts) <= capability.due_soon
        growing = [
            each
            for each in views
            if name in each.spec.capabilities
            and each.spec.mode is ScalingMode.ACTIVE
            and not each.observation.conflict
        ]
        if growing:
            assert name not in shares.unserved


@given(any_samples(), any_views())
def test_only_the_last_pool_is_given_more_than_it_may_grow_to(found, views):
    shares = share(found, views)

    for name in found:
        takers = sorted(
            (
                each
                for each in views
                if name in each.spec.capabilities
                and each.spec.mode is ScalingMode.ACTIVE
                and not each.observation.conflict
            ),
            key=lambda each: each.spec.name,
        )
        for each in takers[:-1]:
            work = {part.name: part for part in shares.work[each.spec.name]}[name]
            free = sum(max(0, worker.slots - worker.leases) for worker in each.observation.workers)
            leased = sum(worker.leases_by_capability.get(name, 0) for worker in each.observation.workers)
            rule = slot_rule(
                each.spec, work.service_seconds, work.oldest_age_seconds, each.observation.startup_seconds
            )
            if work.waiting > free:
                assert rule.want(leased, work.waiting) <= each.spec.max_slots


@given(any_samples(), any_views())
def test_a_group_of_related_pools_is_shared_out_as_in_the_whole(found, views):
    whole = share(found, views)

    group = related(views, views[0].spec.capabilities)
    alone = share(found, group)

    for each in group:
        assert alone.work[each.spec.name] == whole.work[each.spec.name]


@given(any_samples(), any_views(), st.randoms())
def test_the_order_in_which_pools_are_listed_does_not_matter(found, views, random):
    shuffled = list(views)
    random.shuffle(shuffled)

    assert share(found, shuffled) == share(found, views)


def test_a_rate_limit_bounds_the_slots_of_all_pools_together():
    sample = CapabilitySample("browser", 100, 100, service_seconds=20.0, leases_per_minute=30)
    views = [
        PoolView(
            pool(name=name, max_replicas=6, target_tasks_per_slot=1), observe(held, workers=workers(*[1] * held))
        )
        for name, held in (("a", 3), ("b", 1))
    ]

    given = share({"browser": sample}, views).work

    assert sum(given[name][0].leasable for name in ("a", "b")) == 10 - 4
    assert sum(given[name][0].waiting for name in ("a", "b")) == 100
    assert {given[name][0].rate_slots for name in ("a", "b")} == {10}
