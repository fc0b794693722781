"""The broker's stream: events out of bytes, and one state out of events."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.wire.leases import WorkerState
from leadsman.wire.stats import CapabilityStats, FenceStats, StatsSnapshot, WorkerStats
from leadsman_operator.broker.sse import EventParser, ServerEvent
from leadsman_operator.broker.state import BrokerState, OddSignalError


def capability(name, *, namespace="ns", **numbers):
    zero = {"ready": 0, "delayed": 0, "leased": 0, "dead": 0, "waiting": 0, "leasable": 0, "due_soon": 0}
    return CapabilityStats(namespace=namespace, name=name, **{**zero, **numbers})


def worker(uid, pool, *, namespace="ns", leases=0):
    return WorkerStats(
        id=f"{uid}.1",
        pod_uid=uid,
        namespace=namespace,
        pool=pool,
        capabilities=["llm"],
        slots=1,
        leases=leases,
        idle_seconds=0,
        last_heard_seconds=0,
        state=WorkerState.ACTIVE,
    )


def message(sequence, epoch="e1", **content):
    return StatsSnapshot(epoch=epoch, sequence=sequence, **content)


def opened(now=0.0, **content):
    state = BrokerState(stale_seconds=15)
    state.snapshot(message(1, **content), now)
    return state


STREAM = (
    b"event: snapshot\ndata: {1}\n\n: a comment\nevent: delta\r\ndata: one\r\ndata: two\r\nid: 7\r\n\r\n"
    b"data: plain\n\nevent: lonely\n\nevent: tick\ndata:\n\n"
)
EVENTS = [
    ServerEvent("snapshot", "{1}"),
    ServerEvent("delta", "one\ntwo"),
    ServerEvent("message", "plain"),
    ServerEvent("tick", ""),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_events_come_out_whole_wherever_the_bytes_are_cut(cuts):
    parser = EventParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = [event for begin, end in itertools.pairwise(edges) for event in parser.feed(STREAM[begin:end])]
    assert found == EVENTS


def test_a_delta_replaces_what_it_names_and_leaves_the_rest():
    state = opened(capabilities=[capability("llm", waiting=3), capability("web", waiting=1)])
    changed = state.delta(message(2, capabilities=[capability("llm", waiting=9)]), 5.0)
    assert state.capabilities["ns", "llm"].waiting == 9
    assert state.capabilities["ns", "web"].waiting == 1
    assert state.sampled_at == {("ns", "llm"): 5.0, ("ns", "web"): 0.0}
    assert changed.capabilities == {("ns", "llm")}


def test_what_is_gone_goes_and_its_pool_looks_again():
    state = opened(capabilities=[capability("llm")], workers=[worker("p1", "a"), worker("p2", "a")])
    changed = state.delta(message(2, gone_capabilities=[("ns", "llm")], gone_workers=["p1.1"]), 1.0)
    assert state.capabilities == {}
    assert [w.pod_uid for w, _ in state.workers_of("ns", "a")] == ["p2"]
    assert changed.pools == {("ns", "a")}
    assert changed.capabilities == {("ns", "llm")}


def test_a_worker_that_changes_pools_is_counted_once():
    state = opened(workers=[worker("p1", "a")])
    state.delta(message(2, workers=[worker("p1", "b")]), 1.0)
    assert list(state.workers_of("ns", "a")) == []
    assert len(list(state.workers_of("ns", "b"))) == 1


def test_a_fence_that_comes_or_goes_wakes_the_pool_of_its_pod():
    state = opened(workers=[worker("p1", "a")])
    fence = FenceStats(pod_uid="p1", operation="op", expires_in_seconds=300)
    assert state.delta(message(2, fences=[fence]), 1.0).pools == {("ns", "a")}
    assert state.delta(message(3, fences=[fence]), 2.0).pools == frozenset()
    assert state.delta(message(4), 3.0).pools == {("ns", "a")}


def test_ticks_keep_the_signal_fresh_and_silence_makes_it_stale():
    state = opened()
    state.tick(message(1), 10.0)
    assert state.fresh(25.0)
    assert not state.fresh(25.1)


def test_the_first_word_after_a_silence_concerns_every_pool():
    state = opened()
    assert not state.tick(message(1), 15.0).everything
    assert state.tick(message(1), 31.0).everything
    assert not state.delta(message(2), 32.0).everything
    assert state.delta(message(3), 60.0).everything
    assert not state.tick(message(3), 61.0).everything


@pytest.mark.parametrize("hear", [BrokerState.tick, BrokerState.delta, BrokerState.snapshot])
def test_a_silence_breaks_the_signal_also_when_numbers_flow_again(hear):
    state = opened(now=100.0)
    state.tick(message(1), 110.0)
    assert state.unbroken_since == 100.0
    hear(state, message(1), 130.0)
    assert state.unbroken_since == 130.0


def test_a_reconnect_within_the_stale_time_does_not_break_the_signal():
    state = opened(now=100.0)
    state.snapshot(message(9), 110.0)
    assert state.unbroken_since == 100.0


def test_a_restarted_broker_begins_a_new_signal():
    state = opened(now=100.0, workers=[worker("p1", "a")])
    state.snapshot(message(1, epoch="e2"), 101.0)
    assert state.unbroken_since == 101.0
    assert list(state.workers_of("ns", "a")) == []


def test_a_snapshot_of_before_is_no_news():
    state = opened(now=100.0, capabilities=[capability("llm", waiting=6)])
    state.delta(message(7, capabilities=[capability("llm", waiting=9)]), 101.0)

    with pytest.raises(OddSignalError, match="went back"):
        state.snapshot(message(6), 102.0)

    assert state.capabilities["ns", "llm"].waiting == 9
    assert state.heard_at == 101.0
    state.snapshot(message(1, epoch="e2"), 103.0)
    assert not state.capabilities, "another life counts anew"


@pytest.mark.parametrize(
    "odd",
    [
        message(2, epoch="other"),
        message(0),
        message(2, capabilities=[capability("llm", waiting=-1)]),
        message(2, capabilities=[capability("llm", leasable=-5)]),
        message(2, capabilities=[capability("llm", oldest_age_seconds=-3.0)]),
        message(2, capabilities=[capability("llm", service_seconds=float("nan"))]),
        message(2, workers=[worker("p1", "a", leases=-1)]),
    ],
    ids=["another life", "back in time", "waiting", "leasable", "age", "service time", "leases"],
)
def test_numbers_that_cannot_be_true_change_nothing(odd):
    state = opened(capabilities=[capability("llm", waiting=3)])
    with pytest.raises(OddSignalError):
        state.delta(odd, 7.0)
    assert state.capabilities["ns", "llm"].waiting == 3
    assert state.heard_at == 0.0


def test_a_delta_before_the_first_snapshot_is_refused():
    with pytest.raises(OddSignalError):
        BrokerState(stale_seconds=15).delta(message(1), 0.0)
