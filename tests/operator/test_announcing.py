"""Which changes of a pool's conditions make an event."""

from leadsman.reasons import Reason
from leadsman_operator.api import ConditionStatus, ConditionType
from leadsman_operator.reconcile.conditions import Verdict
from leadsman_operator.reconcile.record import PoolRecord, StatusMemory
from leadsman_operator.reconcile.reporting import RELIEF_SECONDS, Reporter

AT_MAX = Verdict(ConditionType.SCALING_LIMITED, ConditionStatus.TRUE, Reason.AT_MAX_REPLICAS, "the work asks for 9")
AT_MIN = Verdict(ConditionType.SCALING_LIMITED, ConditionStatus.TRUE, Reason.AT_MIN_REPLICAS, "the work asks for 0")
FREE = Verdict(ConditionType.SCALING_LIMITED, ConditionStatus.FALSE, Reason.AS_EXPECTED, "no bound is in the way")

READY = Verdict(ConditionType.READY, ConditionStatus.TRUE, Reason.AS_EXPECTED, "spec accepted, Deployment applied")
UNKNOWN = Verdict(ConditionType.READY, ConditionStatus.FALSE, Reason.UNKNOWN_CAPABILITY, "no Capability browser")


class Told:
    """Keeps the reasons of the events that a reporter posts."""

    def __init__(self):
        self.reasons = []
        self.pool = PoolRecord("a-uid", 0.0, StatusMemory(0.0))
        self.reporter = Reporter(None, None, self, None)

    def record(self, _obj, reason, _note, **_more):
        self.reasons.append(str(reason.value))

    def see(self, verdict, now):
        return self.reporter.announce({}, self.pool, (verdict,), now)


def test_a_bound_that_is_met_again_and_again_while_a_queue_drains_is_told_once():
    told = Told()

    for second in range(100, 150):
        told.see((AT_MAX, FREE, AT_MIN)[second % 3], float(second))

    assert told.reasons == ["AtMaxReplicas"]


def test_its_end_is_told_when_it_has_lasted_and_is_asked_for_by_then():
    told = Told()
    told.see(AT_MAX, 100.0)

    assert told.see(FREE, 110.0) == RELIEF_SECONDS
    assert told.see(FREE, 130.0) == RELIEF_SECONDS - 20
    assert told.reasons == ["AtMaxReplicas"]

    assert told.see(FREE, 110.0 + RELIEF_SECONDS) is None
    assert told.reasons == ["AtMaxReplicas", "NotLimited"]


def test_the_time_starts_anew_when_the_bound_was_met_in_between():
    told = Told()
    told.see(AT_MAX, 100.0)
    told.see(FREE, 110.0)
    told.see(AT_MAX, 160.0)

    told.see(FREE, 170.0)

    assert told.see(FREE, 175.0) == RELIEF_SECONDS - 5
    assert told.reasons == ["AtMaxReplicas"]


def test_another_bound_is_told_at_once():
    told = Told()
    told.see(AT_MAX, 100.0)

    told.see(
        Verdict(ConditionType.SCALING_LIMITED, ConditionStatus.TRUE, Reason.QUOTA_EXCEEDED, "exceeded quota"), 101.0
    )

    assert told.reasons == ["AtMaxReplicas", "QuotaExceeded"]


def test_a_new_pool_whose_deployment_was_told_of_is_not_told_to_be_ready_as_well():
    told = Told()
    told.pool.is_made()

    told.see(READY, 100.0)

    assert told.reasons == []


def test_one_that_is_not_ready_after_that_is_told_and_so_is_its_end():
    told = Told()
    told.pool.is_made()

    told.see(UNKNOWN, 100.0)
    told.see(READY, 160.0)

    assert told.reasons == ["UnknownCapability", "Ready"]


def test_one_that_was_not_ready_before_its_deployment_was_made_is_told_to_be_ready():
    told = Told()
    told.see(UNKNOWN, 100.0)
    told.pool.is_made()

    told.see(READY, 110.0)

    assert told.reasons == ["UnknownCapability", "Ready"]


def test_a_pool_that_scales_a_deployment_of_somebody_elses_is_told_to_be_ready():
    told = Told()

    told.see(READY, 100.0)

    assert told.reasons == ["Ready"]
