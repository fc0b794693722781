"""Gates: what a task may have to wait for besides a worker and its turn."""

from core_rig import CAPABILITY, NAMESPACE, Rig, check
from leadsman.reasons import Reason
from leadsman.wire.tasks import TaskClass
from leadsman_broker.core import gates
from leadsman_broker.core.gates import Hold


class Purse:
    """A gate that lets so many tasks through, in all or for each tenant."""

    def __init__(self, rig: Rig, left: int, *, whole_queue: bool = True) -> None:
        self.rig = rig
        self.left = left
        self.whole_queue = whole_queue
        self.asked = 0
        rig.core.state.gates = (self,)

    def __call__(self, state, queue, row):
        self.asked += 1
        if row.task_class is TaskClass.INTERACTIVE or row.tenant == "rich":
            return None
        if self.left == 0:
            return Hold(Reason.BUDGET, self.whole_queue)
        self.left -= 1
        return None

    def fill(self, amount: int, tenant: str | None = None) -> None:
        self.left += amount
        state = self.rig.core.state
        gates.lift(state, state.queues[NAMESPACE, CAPABILITY], Reason.BUDGET, tenant=tenant)


def test_what_a_gate_holds_waits_shows_why_and_goes_on_when_it_is_lifted():
    rig = Rig()
    purse = Purse(rig, 2)
    rig.submit(5)
    assert len(rig.lease("w1", slots=4)) == 2
    stats = rig.stats()
    assert (stats.ready, stats.waiting, stats.leasable, stats.oldest_age_seconds) == (3, 0, 0, None)
    assert stats.blocked == {"Budget": 3}
    call = rig.park("w2", slots=9)
    assert rig.got(call) is None
    rig.freeze(7)
    purse.fill(2)
    rig.run()
    assert len(rig.got(call)) == 2
    check(rig.core)


def test_a_gate_is_asked_once_and_not_again_until_it_is_lifted():
    rig = Rig()
    purse = Purse(rig, 0)
    rig.submit(100)
    for number in range(20):
        rig.park(f"w{number}", slots=3)
    rig.submit(100)
    assert purse.asked == 1


def test_a_hold_of_one_class_leaves_the_other_alone():
    rig = Rig()
    Purse(rig, 0)
    rig.submit(3)
    rig.submit(2, task_class=TaskClass.INTERACTIVE, priority=0)
    assert {lease.task_class for lease in rig.lease("w1", slots=9)} == {TaskClass.INTERACTIVE}
    assert rig.stats().blocked == {"Budget": 3}


def test_a_hold_of_one_tenant_leaves_the_others_alone():
    rig = Rig()
    purse = Purse(rig, 0, whole_queue=False)
    rig.submit(3, tenant="poor")
    rig.submit(2, tenant="rich")
    rig.submit(4, tenant="broke")
    assert {lease.tenant for lease in rig.lease("w1", slots=9)} == {"rich"}
    assert rig.stats().blocked == {"Budget": 7}
    purse.fill(9, "poor")
    assert [lease.tenant for lease in rig.lease("w2", slots=9)] == ["poor"] * 3
    assert (rig.stats().waiting, rig.stats().blocked) == (0, {"Budget": 4})
    check(rig.core)


def test_the_age_of_what_was_held_starts_when_the_hold_ends():
    rig = Rig()
    purse = Purse(rig, 0)
    rig.submit(2)
    rig.lease("w1")
    rig.wait(50)
    assert rig.stats().oldest_age_seconds is None
    purse.fill(1)
    rig.freeze(3)
    assert rig.stats().oldest_age_seconds == 3
