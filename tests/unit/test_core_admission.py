"""What may enter a queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.fingerprint import fingerprint
from leadsman_broker.core.results import Accepted, Refused, Saturated


def limited(depth: int, **fields) -> Rig:
    return Rig(CapabilityConfig(name=CAPABILITY, max_depth=depth, **fields))


def accepted(outcomes) -> int:
    return sum(isinstance(outcome, Accepted) for outcome in outcomes)


def test_a_queue_takes_tasks_until_its_depth_is_over_the_limit():
    rig = limited(10)
    assert accepted(rig.submit(20)) == 11
    assert rig.submit() == Saturated(30)


def test_earlier_items_of_the_batch_count():
    rig = limited(10)
    outcomes = rig.submit(15)
    assert [type(outcome) for outcome in outcomes] == [Accepted] * 11 + [Saturated] * 4


def test_delayed_tasks_count_and_leased_ones_do_not():
    rig = limited(2)
    rig.submit(3, delay_seconds=60)
    assert isinstance(rig.submit(), Saturated)
    rig.wait(60)
    assert isinstance(rig.submit(), Saturated)
    rig.lease_one()
    assert isinstance(rig.submit(), Accepted)


def test_the_retry_hint_is_the_setting_while_the_drain_rate_is_unknown():
    rig = limited(0, retry_after_seconds=7)
    rig.submit()
    assert rig.submit() == Saturated(7)


def test_the_retry_hint_follows_the_drain_rate():
    rig = limited(100, retry_after_seconds=60)
    rig.submit(101)
    for _ in range(20):
        rig.ack(rig.lease_one())
        rig.wait(1)
    rig.submit(20)
    assert isinstance(rig.submit(), Saturated)
    assert 1 <= rig.submit().retry_after_s <= 2
    rig.configure(CapabilityConfig(name=CAPABILITY, max_depth=91, retry_after_seconds=60))
    assert 9 <= rig.submit().retry_after_s <= 12
    rig.configure(CapabilityConfig(name=CAPABILITY, max_depth=91, retry_after_seconds=5))
    assert rig.submit() == Saturated(5)


def test_an_old_drain_rate_is_forgotten():
    rig = limited(100, retry_after_seconds=60)
    rig.submit(101)
    for _ in range(20):
        rig.ack(rig.lease_one())
    rig.submit(20)
    rig.wait(120)
    assert rig.submit() == Saturated(60)


def test_a_tenant_has_its_own_limit():
    rig = limited(1000, max_depth_per_tenant=2)
    assert accepted(rig.submit(5, tenant="a")) == 3
    assert accepted(rig.submit(5, tenant="b")) == 3
    rig.lease_one()
    assert isinstance(rig.submit(tenant="a"), Accepted)
    assert isinstance(rig.submit(tenant="a"), Saturated)


def test_tasks_without_a_tenant_are_not_one_limited_tenant():
    rig = limited(1000, max_depth_per_tenant=2)
    assert accepted(rig.submit(20)) == 20


def test_an_unknown_capability_is_refused_by_name():
    rig = Rig()
    outcome = rig.submit(1, "nobody")
    assert isinstance(outcome, Refused)
    assert outcome.code == "unknown_capability"
    assert "nobody" in outcome.reason


def test_one_refusal_does_not_touch_the_rest_of_the_batch():
    rig = Rig()
    tasks = (c.NewTask(CAPABILITY), c.NewTask("nobody"), c.NewTask(CAPABILITY))
    outcomes = rig.do(c.Enqueue(NAMESPACE, tasks))
    assert [type(outcome) for outcome in outcomes] == [Accepted, Refused, Accepted]


def test_a_payload_over_the_capabilitys_limit_is_refused_with_both_sizes():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_payload_bytes=100))
    assert isinstance(rig.submit(payload=b"x" * 100), Accepted)
    outcome = rig.submit(payload=b"x" * 101)
    assert outcome.code == "payload_too_large"
    assert "101" in outcome.reason
    assert "100" in outcome.reason


def test_a_refused_task_writes_nothing():
    rig = limited(0)
    rig.submit()
    rig.submit()
    assert not rig.last.changes
    assert rig.stats().refused_total == 1


def test_refusals_are_counted_by_code_and_never_under_the_name_of_a_queue_that_is_not_there():
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=0, max_payload_bytes=10))
    rig.submit(4)
    rig.submit(payload=b"x" * 11)
    rig.submit(capability="nowhere")
    assert rig.core.refusals((NAMESPACE, CAPABILITY)) == {"saturated": 3, "payload_too_large": 1}
    assert rig.core.refusals((NAMESPACE, "nowhere")) == {}


def test_requeues_are_never_refused_for_depth():
    rig = limited(0)
    task = rig.submit()
    granted = rig.lease_one()
    rig.submit()
    rig.nack(granted)
    rig.wait(1)
    assert rig.stats().ready == 2
    assert rig.row(task.id) is not None


def test_the_same_key_and_payload_is_the_same_task():
    rig = Rig()
    first = rig.submit(idempotency_key="k", fingerprint=b"p")
    assert rig.submit(idempotency_key="k", fingerprint=b"p") == Accepted(first.id, TaskState.READY, duplicate=True)
    assert rig.stats().ready == 1


def test_a_duplicate_says_where_its_task_stands():
    rig = Rig()
    rig.submit(idempotency_key="k")
    granted = rig.lease_one()
    assert rig.submit(idempotency_key="k").state is TaskState.LEASED
    rig.ack(granted)
    assert rig.submit(idempotency_key="k").state is TaskState.COMPLETED


def test_the_same_key_with_another_payload_is_refused():
    rig = Rig()
    task = rig.submit(idempotency_key="k", fingerprint=b"p")
    outcome = rig.submit(idempotency_key="k", fingerprint=b"q")
    assert outcome.code == "idempotency_mismatch"
    assert task.id in outcome.reason


def test_a_key_belongs_to_its_namespace_capability_and_tenant():
    rig = Rig(CapabilityConfig(name="a"), CapabilityConfig(name="b"))
    rig.configure(CapabilityConfig(name="a"), namespace="other")
    ids = {
        rig.submit(1, "a", idempotency_key="k").id,
        rig.submit(1, "b", idempotency_key="k").id,
        rig.submit(1, "a", idempotency_key="k", tenant="t").id,
        rig.submit(1, "a", idempotency_key="k", namespace="other").id,
    }
    assert len(ids) == 4


def test_the_same_key_twice_in_one_batch_is_one_task():
    rig = Rig()
    first, second = rig.submit(2, idempotency_key="k")
    assert second == Accepted(first.id, TaskState.READY, duplicate=True)


def test_a_hit_is_answered_before_the_depth_is_looked_at():
    rig = limited(0)
    first = rig.submit(idempotency_key="k")
    assert isinstance(rig.submit(), Saturated)
    assert rig.submit(idempotency_key="k").id == first.id


def test_a_refused_task_uses_up_no_key():
    rig = limited(0)
    rig.submit()
    assert isinstance(rig.submit(idempotency_key="k", fingerprint=b"p"), Saturated)
    rig.lease_one()
    assert rig.submit(idempotency_key="k", fingerprint=b"q") == Accepted(rig.last.results[0][0].id, TaskState.READY)


def test_a_key_is_kept_for_a_day_after_the_end_of_its_task_and_no_longer():
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=60))
    first = rig.submit(idempotency_key="k")
    rig.wait(3 * 86_400)
    rig.ack(rig.lease_one())
    rig.wait(86_399)
    assert rig.submit(idempotency_key="k").id == first.id
    rig.wait(1)
    again = rig.submit(idempotency_key="k")
    assert (again.id != first.id, again.duplicate) == (True, False)


def test_a_key_outlives_a_restart():
    rig = Rig()
    first = rig.submit(idempotency_key="k")
    rig.restart()
    assert rig.submit(idempotency_key="k").id == first.id


def test_a_key_may_be_used_again_after_its_expired_task_although_that_is_still_visible():
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=10 * 86_400))
    first = rig.submit(idempotency_key="k")
    rig.ack(rig.lease_one())
    rig.wait(86_400)
    second = rig.submit(idempotency_key="k")
    assert rig.record(first.id) is not None
    rig.wait(9 * 86_400 + 60)
    assert rig.record(first.id) is None
    assert rig.submit(idempotency_key="k").id == second.id


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_fingerprint_does_not_depend_on_the_order_of_keys(value):
    def turned(part):
        if isinstance(part, dict):
            return {key: turned(part[key]) for key in reversed(part)}
        return [turned(item) for item in part] if isinstance(part, list) else part

    assert fingerprint(turned(value)) == fingerprint(value)


def test_a_fingerprint_takes_what_json_takes_and_refuses_what_it_does_not():
    assert fingerprint("\ud800\x00") != fingerprint("\x00")
    assert fingerprint(10**300) != fingerprint(10**300 + 1)
    assert fingerprint({"a": [1, {"b": None}]}) == fingerprint({"a": [1, {"b": None}]})
    for broken in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            fingerprint(broken)
