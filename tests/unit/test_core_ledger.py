"""What an attempt used is booked on its own delivery, once, whatever becomes of it."""

import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman.wire.costs import CostBy
from leadsman_broker.core import commands as c
from leadsman_broker.core.rows import AttemptOutcome
from leadsman_broker.core.usage import Usage
from leadsman_broker.store.cost import CostQuery

FIRST = Usage(100, 2_000)
MORE = Usage(250, 5_000)


def booked(rig: Rig) -> dict[tuple[str, int], tuple[AttemptOutcome, Usage]]:
    """Outcome and usage of every attempt in the ledger, by task and delivery."""
    return {(row.task_id, row.epoch): (row.outcome, row.usage) for row in rig.tables.ledger.values()}


def used(rig: Rig, capability: str = CAPABILITY) -> tuple[Usage, Usage]:
    """Totals of the queue: all, and of lost attempts."""
    totals = rig.core.totals((NAMESPACE, capability))
    return Usage(totals.tokens, totals.cost_micros), Usage(totals.lost_tokens, totals.lost_cost_micros)


def reclaimed(rig: Rig, granted) -> None:
    """Let the lease run out, and the task be ready again."""
    rig.wait(granted.lease_seconds + 1)
    assert rig.row(granted.task_id).lease is None


def test_an_attempt_that_reports_nothing_leaves_no_trace():
    rig = Rig()
    rig.submit()
    rig.ack(rig.lease_one())
    assert booked(rig) == {}


def test_reports_of_an_attempt_are_totals_so_a_repeated_one_is_not_added():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    for usage in (FIRST, FIRST, MORE, FIRST):
        rig.beat("w1", granted.token, usage={granted.token: usage})
    assert booked(rig) == {(task.id, 1): (AttemptOutcome.RUNNING, MORE)}
    rig.do(c.Ack(NAMESPACE, granted.token, usage=Usage(260, 5_000)))
    assert booked(rig) == {(task.id, 1): (AttemptOutcome.COMPLETED, Usage(260, 5_000))}
    assert used(rig) == (Usage(260, 5_000), Usage())


def test_a_heartbeat_writes_only_when_the_usage_has_grown():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    rig.beat("w1", granted.token, usage={granted.token: FIRST})
    commits = rig.commits
    rig.beat("w1", granted.token, usage={granted.token: FIRST})
    rig.beat("w1", granted.token)
    assert rig.commits == commits


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (lambda token: c.Ack(NAMESPACE, token, usage=FIRST), AttemptOutcome.COMPLETED),
        (lambda token: c.Nack(NAMESPACE, token, "Boom", usage=FIRST), AttemptOutcome.FAILED),
        (lambda token: c.Release(NAMESPACE, token, usage=FIRST), AttemptOutcome.RELEASED),
    ],
)
def test_a_settlement_carries_the_last_report_and_repeating_it_books_it_once(command, outcome):
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    for _ in range(2):
        assert rig.do(command(granted.token)).ok
    assert booked(rig) == {(task.id, 1): (outcome, FIRST)}
    assert used(rig) == (FIRST, Usage())


@pytest.mark.parametrize("how", ["heartbeat", "ack", "nack", "release"])
def test_a_superseded_attempt_that_reports_late_is_booked_as_its_own_and_not_on_the_winner(how):
    rig = Rig()
    task = rig.submit()
    evicted = rig.lease_one("w1")
    rig.beat("w1", evicted.token, usage={evicted.token: FIRST})
    reclaimed(rig, evicted)
    winner = rig.lease_one("w2")
    rig.do(c.Ack(NAMESPACE, winner.token, usage=Usage(7, 7)))

    if how == "heartbeat":
        rig.beat("w1", evicted.token, usage={evicted.token: MORE})
    else:
        command = {
            "ack": c.Ack(NAMESPACE, evicted.token, usage=MORE),
            "nack": c.Nack(NAMESPACE, evicted.token, "Boom", usage=MORE),
            "release": c.Release(NAMESPACE, evicted.token, usage=MORE),
        }[how]
        assert rig.do(command).code == "lease_lost"

    assert booked(rig) == {
        (task.id, 1): (AttemptOutcome.LOST, MORE),
        (task.id, 2): (AttemptOutcome.COMPLETED, Usage(7, 7)),
    }
    assert used(rig) == (MORE.plus(Usage(7, 7)), MORE)
    assert rig.record(task.id).usage == MORE.plus(Usage(7, 7))


def test_a_late_report_is_booked_while_the_next_attempt_still_runs():
    rig = Rig()
    task = rig.submit()
    evicted = rig.lease_one("w1")
    reclaimed(rig, evicted)
    winner = rig.lease_one("w2")
    rig.beat("w2", winner.token, usage={winner.token: FIRST})
    rig.beat("w1", evicted.token, usage={evicted.token: MORE})
    assert booked(rig) == {
        (task.id, 1): (AttemptOutcome.LOST, MORE),
        (task.id, 2): (AttemptOutcome.RUNNING, FIRST),
    }


def test_a_late_ack_that_completes_the_task_makes_its_attempt_the_winner():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    rig.beat("w1", granted.token, usage={granted.token: FIRST})
    reclaimed(rig, granted)
    assert booked(rig) == {(task.id, 1): (AttemptOutcome.LOST, FIRST)}
    assert rig.do(c.Ack(NAMESPACE, granted.token, usage=MORE)).late
    assert booked(rig) == {(task.id, 1): (AttemptOutcome.COMPLETED, MORE)}
    everything, lost = used(rig)
    assert everything == MORE
    assert lost.raised_to(FIRST) == lost, "a counter takes nothing back"


def test_a_report_and_the_loss_of_its_lease_in_one_step_are_both_seen():
    rig = Rig(CapabilityConfig(name=CAPABILITY, attempt_timeout_seconds=30))
    task = rig.submit()
    granted = rig.lease_one()
    rig.freeze(31)
    beat = c.Heartbeat(rig.who("w1"), (CAPABILITY,), 1, leases=(c.Beat(granted.token, usage=FIRST),))
    rig.run([beat, c.Ack(NAMESPACE, granted.token, usage=MORE)])
    assert booked(rig) == {(task.id, 1): (AttemptOutcome.COMPLETED, MORE)}


@pytest.mark.parametrize(("epoch", "secret"), [(1, "0" * 20), (2, "0" * 20), (0, "0" * 20), (99, "0" * 20)])
def test_a_token_that_was_never_given_books_nothing(epoch, secret):
    rig = Rig()
    task = rig.submit()
    rig.lease_one()
    forged = f"{task.id}:{epoch}:{secret}"
    rig.beat("w9", forged, usage={forged: MORE})
    rig.do(c.Ack("elsewhere", forged, usage=MORE))
    assert booked(rig) == {}


def test_another_namespace_books_nothing():
    rig = Rig()
    rig.submit()
    granted = rig.lease_one()
    rig.do(c.Ack("elsewhere", granted.token, usage=MORE))
    assert booked(rig) == {}


def test_a_restart_remembers_what_a_running_attempt_has_used():
    rig = Rig()
    task = rig.submit()
    granted = rig.lease_one()
    rig.beat("w1", granted.token, usage={granted.token: MORE})
    rig.restart(1.0)
    rig.do(c.Ack(NAMESPACE, granted.token, usage=FIRST))
    assert booked(rig) == {(task.id, 1): (AttemptOutcome.COMPLETED, MORE)}
    assert used(rig) == (MORE, Usage())


def test_the_cost_of_a_queue_counts_every_attempt_and_says_what_was_in_vain():
    rig = Rig(CapabilityConfig(name=CAPABILITY), CapabilityConfig(name="llm"))
    since = rig.now
    for tenant, usage in (("a", FIRST), ("b", MORE)):
        rig.submit(tenant=tenant)
        rig.do(c.Ack(NAMESPACE, rig.lease_one().token, usage=usage))
    rig.submit(tenant="a")
    lost = rig.lease_one()
    rig.beat("w1", lost.token, usage={lost.token: Usage(1, 1)})
    reclaimed(rig, lost)

    (line,) = rig.store.cost(CostQuery(NAMESPACE, since, rig.now + 1, 10, CostBy.CAPABILITY))
    assert (line.item, line.attempts, line.completed, line.lost) == (CAPABILITY, 3, 2, 1)
    assert (line.usage, line.lost_usage) == (Usage(351, 7_001), Usage(1, 1))
    tenants = rig.store.cost(CostQuery(NAMESPACE, since, rig.now + 1, 10, CostBy.TENANT))
    assert [(line.item, line.usage.tokens) for line in tenants] == [("b", 250), ("a", 101)]


def test_ledger_rows_go_when_their_retention_is_over():
    rig = Rig(CapabilityConfig(name=CAPABILITY, ledger_retention_seconds=1000))
    rig.submit()
    rig.do(c.Ack(NAMESPACE, rig.lease_one().token, usage=FIRST))
    rig.wait(900)
    assert booked(rig)
    rig.wait(200)
    assert booked(rig) == {}


def test_a_report_that_comes_again_after_a_short_retention_is_not_booked_again():
    rig = Rig(CapabilityConfig(name=CAPABILITY, ledger_retention_seconds=0))
    rig.submit()
    granted = rig.lease_one()
    rig.beat("w1", granted.token, usage={granted.token: FIRST})
    reclaimed(rig, granted)
    rig.wait(100)
    rig.beat("w1", granted.token, usage={granted.token: MORE})
    assert used(rig) == (MORE, MORE)
    rig.wait(1_000)
    assert booked(rig) == {}
