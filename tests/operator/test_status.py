"""When a status is worth a write, and what is in it."""

import datetime as dt

import pytest

from leadsman.reasons import Reason
from leadsman_operator.api import ConditionStatus, ConditionType, WorkerPoolStatus
from leadsman_operator.reconcile.conditions import Verdict
from leadsman_operator.reconcile.status import (
    FLEET_SECONDS,
    MINUTE_SECONDS,
    condition_list,
    patch_of,
    pool_status,
    rounded,
    write_in,
)
from leadsman_operator.scaling.model import (
    Action,
    CapabilityWork,
    Decision,
    PodSample,
    PoolObservation,
    WorkerSample,
)

NOON = dt.datetime(2026, 5, 4, 12, 0, tzinfo=dt.UTC)
READY = Verdict(ConditionType.READY, ConditionStatus.TRUE, Reason.AS_EXPECTED, "fine")


def decision(**fields):
    base = {
        "action": Action.HOLD,
        "current": 2,
        "replicas": 2,
        "recommended": 2,
        "slots": 2,
        "reason": Reason.STABLE,
        "summary": "stays at 2",
    }
    return Decision(**{**base, **fields})


def status(*, before=None, now=NOON, waiting=0, age=None, leases=0, pods=2, made=None, verdicts=(READY,)):
    observation = PoolObservation(
        replicas=2,
        pods=tuple(PodSample(uid=str(n), name=str(n), ready=True) for n in range(pods)),
        workers=tuple(
            WorkerSample(pod_uid=str(n), slots=1, capabilities=("llm",), leases=int(n < leases))
            for n in range(pods)
        ),
        work=(CapabilityWork(name="llm", waiting=waiting, leasable=waiting, oldest_age_seconds=age),),
    )
    return pool_status(
        name="browser",
        generation=1,
        deployment={"status": {"replicas": pods}},
        observation=observation,
        decision=made or decision(),
        verdicts=verdicts,
        before=before or {},
        now=now,
    )


def test_a_status_says_what_the_fleet_does():
    found = status(waiting=7, age=30.0, leases=1)
    assert found["readyTasks"] == 7
    assert found["busyWorkers"] == 1
    assert found["idleWorkers"] == 1
    assert found["oldestTaskTime"] == "2026-05-04T11:59:30Z"
    assert found["selector"] == "leadsman.dev/pool=browser"
    assert found["lastDecision"]["summary"] == "stays at 2"
    assert WorkerPoolStatus.model_validate(found)


def test_nothing_new_is_never_written():
    before = status()
    assert write_in(before, status(before=before, now=NOON + dt.timedelta(hours=3)), 1e6) is None


def test_the_age_of_a_waiting_task_alone_is_no_news():
    before = status(waiting=5, age=10.0)
    later = NOON + dt.timedelta(seconds=90)
    assert write_in(before, status(before=before, now=later, waiting=5, age=101.0), 1e6) is None


@pytest.mark.parametrize(
    "after",
    [
        {"made": decision(replicas=5, action=Action.SCALE_OUT)},
        {"verdicts": (Verdict(ConditionType.READY, ConditionStatus.FALSE, Reason.SIGNAL_LOST, ""),)},
        {"verdicts": (Verdict(ConditionType.READY, ConditionStatus.TRUE, Reason.STABLE, ""),)},
    ],
    ids=["decision", "status of a condition", "reason of a condition"],
)
def test_a_decision_or_a_condition_that_changes_is_written_at_once(after):
    before = status()
    assert write_in(before, status(before=before, **after), 0.0) == 0.0


def test_a_change_of_the_fleet_waits_a_little():
    before = status()
    assert write_in(before, status(before=before, pods=3), 4.0) == FLEET_SECONDS - 4.0


def test_a_change_of_the_load_waits_a_minute():
    before = status()
    after = status(before=before, waiting=9, age=1.0)
    assert write_in(before, after, 4.0) == MINUTE_SECONDS - 4.0
    assert write_in(before, after, 61.0) == 0.0


def test_large_numbers_are_rounded_so_that_noise_is_no_news():
    assert [rounded(n) for n in (0, 7, 99, 100, 101, 999, 12345, 1_234_567)] == [
        0,
        7,
        99,
        100,
        100,
        990,
        12000,
        1_200_000,
    ]
    before = status(waiting=12_345, age=1.0)
    assert write_in(before, status(before=before, waiting=12_399, age=1.0), 1e6) is None


def test_a_condition_keeps_the_time_at_which_its_status_began():
    first = condition_list([READY], 1, {}, NOON)
    again = Verdict(ConditionType.READY, ConditionStatus.TRUE, Reason.STABLE, "still")
    second = condition_list([again], 2, {"conditions": first}, NOON + dt.timedelta(hours=1))
    assert second[0]["lastTransitionTime"] == first[0]["lastTransitionTime"]
    assert second[0]["observedGeneration"] == 2
    lost = Verdict(ConditionType.READY, ConditionStatus.FALSE, Reason.SIGNAL_LOST, "")
    third = condition_list([lost], 2, {"conditions": second}, NOON + dt.timedelta(hours=2))
    assert third[0]["lastTransitionTime"] == "2026-05-04T14:00:00Z"


def test_a_patch_carries_what_is_new_and_removes_what_is_gone():
    before = status(waiting=5, age=10.0)
    after = status(before=before)
    patch = patch_of(before, after)
    assert patch["oldestTaskTime"] is None
    assert patch["readyTasks"] == 0
    assert "selector" not in patch


def test_a_patch_of_the_last_decision_removes_the_fields_of_the_one_before():
    before = {"lastDecision": {"summary": "old", "formula": "x"}}
    assert patch_of(before, {"lastDecision": {"summary": "new"}}) == {
        "lastDecision": {"summary": "new", "formula": None}
    }
