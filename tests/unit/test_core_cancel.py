"""Cancelling a task."""

import pytest

from core_rig import NAMESPACE, Rig
from leadsman.wire.leases import LeaseStatus
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Cancelled


def cancel(rig, task_id, namespace=NAMESPACE):
    return rig.do(c.Cancel(namespace, task_id))


@pytest.mark.parametrize("delay", [0.0, 60.0])
def test_a_queued_task_is_cancelled_at_once(delay):
    rig = Rig()
    task = rig.submit(delay_seconds=delay)
    assert cancel(rig, task.id) == Cancelled(TaskState.CANCELLED)
    assert rig.record(task.id).reason == "Cancelled"
    rig.wait(60)
    assert rig.lease() == []


def test_the_worker_of_a_leased_task_is_told_at_its_next_heartbeat():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    assert cancel(rig, task.id) == Cancelled(TaskState.LEASED, requested=True)
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.CANCELLED


@pytest.mark.parametrize("settle", [Rig.nack, Rig.release])
def test_a_cancelled_lease_that_is_given_back_ends_the_task(settle):
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    cancel(rig, task.id)
    assert settle(rig, granted).state is TaskState.CANCELLED
    assert settle(rig, granted).state is TaskState.CANCELLED
    assert rig.record(task.id).ended.state is TaskState.CANCELLED


def test_an_ack_that_comes_first_completes_a_cancelled_task():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    cancel(rig, task.id)
    assert rig.ack(granted, b"1").state is TaskState.COMPLETED
    assert rig.record(task.id).ended.state is TaskState.COMPLETED


def test_a_cancelled_lease_that_is_lost_ends_the_task_and_a_late_ack_does_not_change_it():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    cancel(rig, task.id)
    rig.wait(30)
    assert rig.record(task.id).ended.state is TaskState.CANCELLED
    assert rig.ack(granted).code == "lease_lost"


def test_a_cancelled_lease_that_was_never_delivered_ends_the_task():
    rig = Rig()
    task = rig.submit()
    rig.lease_one()
    cancel(rig, task.id)
    rig.wait(5)
    rig.beat("w1")
    rig.beat("w1")
    assert rig.record(task.id).ended.state is TaskState.CANCELLED


def test_a_request_to_cancel_outlives_a_restart():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    cancel(rig, task.id)
    rig.restart()
    assert rig.beat("w1", granted.token).leases[0].status is LeaseStatus.CANCELLED


def test_what_has_ended_stays_as_it_ended():
    rig = Rig()
    task = rig.submit()
    rig.ack(rig.lease_one())
    assert cancel(rig, task.id) == Cancelled(TaskState.COMPLETED)


def test_cancelling_twice_is_one_request():
    rig = Rig()
    task = rig.submit()
    rig.lease_one()
    cancel(rig, task.id)
    cancel(rig, task.id)
    assert rig.events(task.id) == ["cancel_requested"]


@pytest.mark.parametrize("task_id", ["", "x", "0" * 20, "\x00", "é" * 20])
def test_an_unknown_task_cannot_be_cancelled(task_id):
    assert cancel(Rig(), task_id) == Cancelled(None)


def test_a_task_of_another_namespace_is_unknown():
    rig = Rig()
    task = rig.submit()
    assert cancel(rig, task.id, "other") == Cancelled(None)
    cancel(rig, task.id)
    assert cancel(rig, task.id, "other") == Cancelled(None)
