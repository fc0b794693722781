"""`leadsman explain pool`: the report is made of what the operator wrote, and says what would change it."""

import datetime as dt
import io

import pytest
from rich.console import Console

from leadsman.cli.pool_report import changes, report
from leadsman.hints import HINTS, hint
from leadsman.reasons import Reason
from leadsman.wire.leases import WorkerState
from leadsman.wire.stats import CapabilityStats, StatsSnapshot, WorkerStats
from leadsman_operator.api import last_decision
from leadsman_operator.scaling.decide import decide
from leadsman_operator.scaling.model import PoolMemory
from scaling_cases import observe, pool, work
from scaling_cases.build import START

MADE_AT = "2026-01-01T00:00:00Z"
NOW = dt.datetime(2026, 1, 1, 0, 0, 12, tzinfo=dt.UTC)


def stored(spec, observation, *conditions):
    """A pool as the API server has it after this decision."""
    decision, _ = decide(spec, observation, PoolMemory(), START)
    shown = last_decision(decision, MADE_AT).model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "metadata": {"name": "browser", "namespace": "agents"},
        "spec": {"minReplicas": spec.min_replicas, "maxReplicas": spec.max_replicas},
        "status": {"lastDecision": shown, "conditions": list(conditions)},
    }


def condition(kind, status, reason, message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def text(found, live=None):
    out = io.StringIO()
    shown = Console(file=out, width=10_000)
    for part in report(found, live, NOW):
        shown.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_the_report_follows_the_number_from_the_work_to_the_bound():
    found = stored(pool(), observe(0, work(200, service_seconds=12.5, oldest_age_seconds=61.0)))

    assert (
        text(found)
        == """\
browser: 0 -> 20: 200 waiting (oldest 61 s), 0 in flight, 84 slots wanted = 84 workers; maxReplicas is 20
ScaleOut because of AtMaxReplicas, 12s ago: 0 replicas, 20 wanted, between 0 and 20; its pods take 30 s to start

What went in
  CAPABILITY  WAITING  LEASABLE  LEASED  SERVICE  OLDEST  SLOTS
  browser         200       200       0    12.5s    1m1s     84

How the number came about
  browser: k = max(1, min(5, 30 s / 12.5 s)) = 2.4; ceil((L 0 + W 200) / k) or, as the oldest is over 60 s, \
L 0 + ceil(200 x 12.5 s / 30 s) = 84; at most L 0 + Q 200 -> 84 slots
  ceil(84 slots / 1 per worker) = 84
  84 -> 20: AtMaxReplicas, maxReplicas is 20

What would change it
  AtMaxReplicas (84 -> 20): raise spec.maxReplicas (or the max of the schedule that is named)"""
    )


def test_what_the_broker_says_now_stands_beside_it():
    live = StatsSnapshot(
        epoch="e",
        sequence=1,
        capabilities=[
            CapabilityStats(
                namespace="agents",
                name="browser",
                ready=7,
                delayed=0,
                leased=3,
                dead=0,
                waiting=7,
                leasable=4,
                due_soon=0,
                oldest_age_seconds=75.0,
                blocked={"TenantCap": 3},
            )
        ],
        workers=[
            WorkerStats(
                id=name,
                pod_uid=name,
                namespace="agents",
                pool="browser",
                capabilities=["browser"],
                slots=1,
                leases=leases,
                idle_seconds=0.0,
                last_heard_seconds=0.0,
                state=state,
            )
            for name, leases, state in (
                ("a", 1, WorkerState.ACTIVE),
                ("b", 0, WorkerState.ACTIVE),
                ("c", 2, WorkerState.CORDONED),
            )
        ],
    )

    shown = text(stored(pool(), observe(3, work(7))), live)

    assert "  browser           7         4       3   1m15s  TenantCap 3" in shown
    assert "workers: 3: 1 busy, 1 idle, 1 cordoned" in shown


def test_every_bound_and_every_bad_condition_says_what_would_change_it():
    found = stored(
        pool(scale_out_max_step=5),
        observe(0, work(50)),
        condition("Ready", "True", "AsExpected"),
        condition("ScalingLimited", "True", "ScaleOutStep"),
        condition("Conflict", "True", "Conflict", "kubectl writes"),
    )

    assert changes(found) == [
        f"AtMaxReplicas (50 -> 20): {HINTS[Reason.AT_MAX_REPLICAS]}",
        f"ScaleOutStep (20 -> 5): {HINTS[Reason.SCALE_OUT_STEP]}",
        f"Conflict: {HINTS[Reason.CONFLICT]}",
    ]


def test_a_pool_without_a_decision_says_so():
    found = {"metadata": {"name": "new", "namespace": "agents"}, "spec": {"maxReplicas": 1}}

    assert text(found) == "new: nothing has been decided yet; is the operator running?"


def test_a_reason_of_a_newer_operator_is_shown_as_it_is():
    found = stored(pool(), observe(0))
    found["status"]["lastDecision"]["reason"] = "FromTheFuture"

    assert hint("FromTheFuture") is None
    assert "FromTheFuture: see docs/troubleshooting.md" in text(found)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_hint(reason):
    assert HINTS[reason]
