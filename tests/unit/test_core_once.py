"""`once`: what was done is told to the attempts after it, and the first value stays."""

import json

from hypothesis import given
from hypothesis import strategies as st

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c


def handed(rig, granted):
    once = rig.store.deliveries([granted.task_id])[granted.task_id].once
    return None if once is None else json.loads(once)


def test_what_an_attempt_stored_is_handed_to_the_next():
    rig = Rig()
    rig.submit()
    first = rig.lease_one()
    assert handed(rig, first) is None
    assert rig.once(first, "paid", b'{"id":7}').first
    assert rig.once(first, "mailed", b"null").first
    rig.nack(first)
    rig.wait(2)
    assert handed(rig, rig.lease_one()) == {"paid": {"id": 7}, "mailed": None}


def test_the_first_value_stays_and_is_the_answer():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    assert rig.once(granted, "k", b"1").value == b"1"
    again = rig.once(granted, "k", b"2")
    assert (again.ok, again.first, again.value) == (True, False, b"1")
    assert not rig.last.changes


def test_two_calls_in_one_step_store_one_value():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    call = [c.Once(NAMESPACE, granted.token, "k", value) for value in (b"1", b"2")]
    assert [(result.first, result.value) for result in rig.run(call)] == [(True, b"1"), (False, b"1")]


def test_it_outlives_a_restart_and_a_redrive_and_goes_with_the_task():
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=10, backoff_seconds=0))
    rig.submit()
    granted = rig.lease_one()
    rig.once(granted, "k", b"1")
    rig.nack(granted, retry=False)
    rig.restart()
    rig.do(c.Redrive(NAMESPACE, CAPABILITY, (granted.task_id,)))
    granted = rig.lease_one()
    assert handed(rig, granted) == {"k": 1}
    assert rig.once(granted, "k", b"2").value == b"1"
    rig.ack(granted)
    assert rig.tables.once == {}


def test_an_attempt_that_another_has_followed_stores_nothing():
    rig = Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0))
    rig.submit()
    old = rig.lease_one()
    rig.wait(31)
    new = rig.lease_one("w2")
    assert rig.once(old, "k", b"1").code == "lease_lost"
    assert rig.once(new, "k", b"2").first


def test_what_was_done_before_the_reclaim_counts_while_nobody_else_has_the_task():
    rig = Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0))
    rig.submit()
    old = rig.lease_one()
    rig.wait(31)
    assert rig.once(old, "k", b"1").first
    assert handed(rig, rig.lease_one("w2")) == {"k": 1}


def test_a_settled_lease_a_forged_token_and_another_namespace_store_nothing():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    forged = granted.token[:-1] + ("0" if granted.token[-1] != "0" else "1")
    for namespace, token in ((NAMESPACE, forged), ("other", granted.token), (NAMESPACE, "nonsense")):
        assert rig.do(c.Once(namespace, token, "k", b"1")).code == "lease_lost"
    rig.release(granted)
    assert rig.once(granted, "k", b"1").code == "lease_lost"
    assert not rig.last.changes


def test_values_and_their_number_are_bounded():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    assert rig.once(granted, "k", b'"' + b"x" * 16_384 + b'"').code == "value_too_large"
    for number in range(64):
        assert rig.once(granted, str(number), b"1").first
    assert rig.once(granted, "64", b"1").code == "too_many_keys"
    assert rig.once(granted, "63", b"2").value == b"1"


def test_a_value_stored_in_the_step_that_redrives_the_task_does_not_replace_an_older_one():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_reclaims=1))
    rig.submit()
    granted = rig.lease_one()
    rig.once(granted, "k", b"1")
    rig.wait(31)
    redrive = c.Redrive(NAMESPACE, CAPABILITY, (granted.task_id,))
    _, onced = rig.run([redrive, c.Once(NAMESPACE, granted.token, "k", b"2")])
    assert onced.value == b"1"


@given(
    calls=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.sampled_from(["", "lose", "restart"]))),
)
def test_every_answer_and_every_later_attempt_says_the_first_value(calls):
    rig = Rig(CapabilityConfig(name=CAPABILITY, backoff_seconds=0, max_attempts=100, max_reclaims=100))
    rig.submit()
    granted = rig.lease_one()
    first: dict[str, int] = {}
    for key, value, then in calls:
        first.setdefault(key, value)
        assert rig.once(granted, key, str(value).encode()).value == str(first[key]).encode()
        if then == "restart":
            rig.restart()
        if then == "lose":
            rig.wait(31)
            granted = rig.lease_one()
        assert handed(rig, granted) == first
