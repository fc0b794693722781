"""Ack, nack, release: one settlement per lease, and never a success without an effect."""

import pytest

from core_rig import NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Settled


def settle(rig: Rig, op: str, granted) -> Settled:
    return {"ack": rig.ack, "nack": rig.nack, "release": rig.release}[op](granted)


def test_an_ack_completes_the_task_and_keeps_its_result():
    rig = Rig()
    task = rig.submit()
    answer = rig.ack(rig.lease_one(), b'{"pages":7}')
    assert (answer.ok, answer.state, answer.late) == (True, TaskState.COMPLETED, False)
    record = rig.record(task.id)
    assert record.ended.state is TaskState.COMPLETED
    assert record.result == b'{"pages":7}'
    assert record.live.standing.lease_pod == "w1"


def test_a_nack_brings_the_task_back_later():
    rig = Rig()
    task = rig.submit()
    answer = rig.nack(rig.lease_one(), error_type="Timeout", error_message="no answer")
    assert (answer.ok, answer.state) == (True, TaskState.DELAYED)
    assert rig.lease() == []
    rig.wait(1)
    assert rig.lease_one().attempt == 2
    assert rig.record(task.id).history[0].detail == "Timeout: no answer"


def test_a_nack_without_retry_is_dead_at_once():
    rig = Rig()
    task = rig.submit()
    assert rig.nack(rig.lease_one(), error_type="BadInput", retry=False).state is TaskState.DEAD
    record = rig.record(task.id)
    assert (record.reason, record.error_type) == ("NoRetry", "BadInput")


def test_a_release_brings_the_task_back_at_once_and_spends_no_attempt():
    rig = Rig()
    rig.submit()
    assert rig.release(rig.lease_one()).state is TaskState.READY
    assert rig.lease_one().attempt == 1


def test_a_release_may_ask_for_a_delay():
    rig = Rig()
    rig.submit()
    assert rig.release(rig.lease_one(), delay_seconds=60, reason="429").state is TaskState.DELAYED
    rig.wait(59)
    assert rig.lease() == []
    rig.wait(1)
    assert rig.lease_one().attempt == 1


@pytest.mark.parametrize("op", ["ack", "nack", "release"])
def test_a_repeated_settlement_gets_the_same_answer_and_has_no_second_effect(op):
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    first = settle(rig, op, granted)
    totals = rig.core.totals((NAMESPACE, "browser"))
    events = rig.events(task.id)
    assert settle(rig, op, granted) == first
    assert rig.core.totals((NAMESPACE, "browser")) == totals
    assert rig.events(task.id) == events


@pytest.mark.parametrize("op", ["ack", "nack", "release"])
def test_a_repeated_settlement_gets_the_same_answer_after_a_restart(op):
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    first = settle(rig, op, granted)
    rig.restart()
    assert settle(rig, op, granted) == first


@pytest.mark.parametrize("second", ["ack", "nack", "release"])
@pytest.mark.parametrize("first", ["ack", "nack", "release"])
def test_another_settlement_of_the_same_lease_is_told_that_it_was_settled(first, second):
    if first == second:
        return
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    settle(rig, first, granted)
    answer = settle(rig, second, granted)
    assert (answer.ok, answer.code) == (False, "already_settled")


def test_a_repeated_nack_is_answered_even_after_the_task_has_gone_on():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one("w1")
    first = rig.nack(granted)
    rig.wait(1)
    rig.lease_one("w2")
    assert rig.nack(granted) == first


def test_a_late_ack_completes_the_task_while_nobody_else_has_it():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one("w1")
    rig.wait(40)
    assert rig.row(task.id).lease is None
    answer = rig.ack(granted, b"1")
    assert (answer.ok, answer.late) == (True, True)
    assert rig.core.totals((NAMESPACE, "browser")).late_acks == 1
    assert rig.lease("w2") == []
    assert rig.ack(granted).late


def test_a_late_ack_completes_a_task_that_waits_for_its_backoff():
    rig = Rig()
    rig.submit()
    rig.lease_one("w1")
    rig.wait(30)
    granted = rig.lease_one("w1")
    rig.wait(30)
    assert rig.stats().delayed == 1
    assert rig.ack(granted).late
    assert rig.stats().delayed == 0


def test_an_ack_of_an_older_delivery_cannot_overwrite_the_new_one():
    rig = Rig()
    task = rig.submit()
    old = rig.lease_one("w1")
    rig.wait(30)
    new = rig.lease_one("w2")
    assert rig.ack(old, b'"old"').code == "lease_lost"
    assert rig.ack(new, b'"new"').ok
    assert rig.ack(old, b'"old"').code == "lease_lost"
    assert rig.record(task.id).result == b'"new"'


@pytest.mark.parametrize("op", ["nack", "release"])
def test_a_nack_or_release_after_reclaim_is_a_lost_lease(op):
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one("w1")
    rig.wait(30)
    assert settle(rig, op, granted).code == "lease_lost"
    row = rig.row(task.id)
    assert (row.failures, row.releases, row.reclaims) == (0, 0, 1)


def test_a_checkpoint_of_a_lost_lease_is_not_kept():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one("w1")
    rig.wait(30)
    rig.release(granted, checkpoint=b'"stale"')
    rig.beat("w1", granted.token, checkpoints={granted.token: b'"stale"'})
    assert rig.store.deliveries([task.id])[task.id].checkpoint is None


def test_a_reclaim_and_a_late_ack_in_one_step_have_one_outcome():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one("w1")
    rig.wait(29)
    rig.freeze(1)
    (answer,) = rig.run([c.Ack(NAMESPACE, granted.token)])
    assert (answer.ok, answer.late) == (True, False)
    assert rig.row(task.id) is None
    assert rig.events(task.id) == []


def test_two_acks_in_one_step_complete_the_task_once():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    ack = c.Ack(NAMESPACE, granted.token)
    first, second = rig.run([ack, ack])
    assert first == second
    assert rig.core.totals((NAMESPACE, "browser")).completed == 1


@pytest.mark.parametrize("op", ["ack", "nack", "release"])
@pytest.mark.parametrize("token", ["", "nonsense", "0" * 20 + ":1:" + "0" * 20, "00000000000100000000:1:x", "\x00"])
def test_an_unknown_token_is_an_unknown_task(op, token):
    rig = Rig()
    rig.submit()
    command = {
        "ack": c.Ack(NAMESPACE, token),
        "nack": c.Nack(NAMESPACE, token, "E"),
        "release": c.Release(NAMESPACE, token),
    }[op]
    assert rig.do(command).code == "unknown_task"


def test_a_guessed_secret_settles_nothing():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    forged = granted.token[:-4] + ("0000" if not granted.token.endswith("0000") else "1111")
    assert rig.do(c.Ack(NAMESPACE, forged)).code == "lease_lost"
    rig.ack(granted)
    assert rig.do(c.Ack(NAMESPACE, forged)).code == "lease_lost"
    assert rig.record(task.id).ended is not None


def test_a_token_is_worth_nothing_in_another_namespace():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    assert rig.do(c.Ack("other", granted.token)).code == "unknown_task"
    rig.ack(granted)
    assert rig.do(c.Ack("other", granted.token)).code == "unknown_task"


def test_after_its_retention_a_task_is_unknown():
    rig = Rig(CapabilityConfig(name="browser", completed_retention_seconds=60))
    task = rig.submit(idempotency_key="k")
    granted = rig.lease_one()
    rig.ack(granted)
    rig.wait(60)
    assert rig.ack(granted).code == "unknown_task"
    assert rig.record(task.id) is None


def test_a_result_that_is_too_large_is_refused_and_the_lease_still_holds():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    assert rig.ack(granted, b"x" * 65_537).code == "result_too_large"
    assert rig.ack(granted, b"x" * 65_536).ok


@pytest.mark.parametrize("op", [Rig.nack, Rig.release])
def test_a_checkpoint_that_is_too_large_is_refused_and_the_lease_still_holds(op):
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    assert op(rig, granted, checkpoint=b"x" * 65_537).code == "checkpoint_too_large"
    assert rig.ack(granted).ok


@pytest.mark.parametrize("op", ["ack", "nack", "release"])
def test_a_token_is_good_in_the_one_spelling_it_was_given_in(op):
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    task_id, epoch, secret = granted.token.split(":")
    assert settle(rig, op, granted._replace(token=f"{task_id}:0{epoch}:{secret}")).code == "unknown_task"
    assert settle(rig, op, granted).ok
