"""Which changes of a pool's conditions make an event."""

from leadsman.reasons import Reason
from leadsman_operator.api import ConditionStatus, ConditionType
from leadsman_operator.reconcile.conditions import Verdict
from leadsman_operator.reconcile.record import PoolRecord, StatusMemory
from leadsman_operator.reconcile.reporting import RELIEF_SECONDS, Reporter

AT_MAX = Verdict(ConditionType.SCALING_LIMITED, ConditionStatus.TRUE, Reason.AT_MAX_REPLICAS, "the work asks for 9")
AT_MIN = Verdict(ConditionType.SCALING_LIMITED, ConditionStatus.TRUE, Reason.AT_MIN_REPLICAS, "the work asks for 0")
FREE = Verdict(ConditionType.SCALING_LIMITED, ConditionStatus.FALSE, Reason.AS_EXPECTED, "no bound is in the way")


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
