"""What every store must do: ledger, runs, budgets."""

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.costs import CostBy
from leadsman.wire.runs import RunState
from leadsman_broker.core.rows import (
    AttemptOutcome,
    BudgetRow,
    Caps,
    Changes,
    LedgerRow,
    Needs,
    RunRow,
)
from leadsman_broker.core.usage import Usage
from leadsman_broker.store.cost import CostLine, CostQuery
from leadsman_broker.store.interface import RunQuery, TaskQuery
from store_rig import accepted, task_id


def attempt(seq: int, epoch: int = 1, **fields) -> LedgerRow:
    values = {
        "seq": seq,
        "epoch": epoch,
        "task_id": task_id(seq),
        "namespace": NAMESPACE,
        "capability": CAPABILITY,
        "tenant": "",
        "run_id": "",
        "leased_at": 100.0 + seq,
        "outcome": AttemptOutcome.COMPLETED,
        "usage": Usage(10, 2_000),
        "purge_at": 1000.0 + seq,
    }
    return LedgerRow(**{**values, **fields})


def keyed(*rows: LedgerRow) -> dict[tuple[int, int], LedgerRow]:
    return {(row.seq, row.epoch): row for row in rows}


def test_a_ledger_row_comes_back_as_it_was_and_a_newer_one_replaces_it(reopen):
    running = attempt(1, tenant="ü", run_id="r", outcome=AttemptOutcome.RUNNING, usage=Usage(10**12, 0))
    reopen().commit(Changes(ledger=keyed(running, attempt(1, 2), attempt(2))))
    store = reopen()
    assert store.load().running == [running]
    assert store.read(Needs(attempts={(1, 1), (1, 9), (2, 1)})).ledger == keyed(running, attempt(2))
    ended = running._replace(outcome=AttemptOutcome.LOST, usage=Usage(10**12, 5))
    store.commit(Changes(ledger=keyed(ended)))
    store = reopen()
    assert (store.load().running, store.read(Needs(attempts={(1, 1)})).ledger) == ([], keyed(ended))


def test_the_row_of_a_running_attempt_is_not_purged_however_old(store):
    store.commit(Changes(ledger=keyed(attempt(1, outcome=AttemptOutcome.RUNNING), attempt(2))))
    assert store.read(Needs(purge_before=2000.0, purge_limit=9)).ledger_purge == [(2, 1)]


def test_ledger_rows_are_purged_in_portions_the_earliest_first(store):
    store.commit(Changes(ledger=keyed(*(attempt(seq) for seq in (3, 1, 2)))))
    due = store.read(Needs(purge_before=1002.0, purge_limit=1)).ledger_purge
    assert due == [(1, 1)]
    assert store.read(Needs(purge_before=1002.0, purge_limit=9)).ledger_purge == [(1, 1), (2, 1)]
    store.commit(Changes(ledger_purged=due))
    assert store.read(Needs(purge_before=1002.0, purge_limit=9)).ledger_purge == [(2, 1)]


def test_the_cost_is_added_up_by_what_was_asked_for(store):
    store.commit(
        Changes(
            accepted=[accepted(1)],
            ledger=keyed(
                attempt(1, outcome=AttemptOutcome.LOST, usage=Usage(5, 1_000), tenant="a", run_id="r"),
                attempt(1, 2, tenant="a", run_id="r"),
                attempt(2, outcome=AttemptOutcome.RUNNING, tenant="b"),
                attempt(3, outcome=AttemptOutcome.FAILED, capability="llm", usage=Usage(1, 9_000)),
                attempt(4, outcome=AttemptOutcome.RELEASED, usage=Usage()),
                attempt(5, namespace="other", usage=Usage(77, 77)),
            ),
        )
    )
    ask = CostQuery(NAMESPACE, since=0.0, until=1e9, limit=10)
    total = CostLine("", 5, 1, 1, 1, 1, 1, Usage(26, 14_000), Usage(5, 1_000))
    assert store.cost(ask) == [total]
    by = {
        kind: [(line.item, line.attempts, line.usage.cost_micros) for line in store.cost(ask._replace(by=kind))]
        for kind in CostBy
    }
    assert by == {
        CostBy.CAPABILITY: [("llm", 1, 9_000), (CAPABILITY, 4, 5_000)],
        CostBy.TENANT: [("", 2, 9_000), ("a", 2, 3_000), ("b", 1, 2_000)],
        CostBy.RUN: [("", 3, 11_000), ("r", 2, 3_000)],
        CostBy.TASK: [(task_id(3), 1, 9_000), (task_id(1), 2, 3_000), (task_id(2), 1, 2_000), (task_id(4), 1, 0)],
    }
    assert [line.item for line in store.cost(ask._replace(by=CostBy.TASK, limit=1))] == [task_id(3)]
    assert [line.attempts for line in store.cost(ask._replace(tenant="a"))] == [2]
    assert [line.attempts for line in store.cost(ask._replace(run_id="r", capability=CAPABILITY))] == [2]
    assert [line.attempts for line in store.cost(ask._replace(since=102.0, until=104.0))] == [2]
    assert store.cost(ask._replace(namespace="nowhere")) == []
    assert store.task(NAMESPACE, task_id(1), 100.0).usage == Usage(15, 3_000)


def run_row(run_id: str, **fields) -> RunRow:
    values = {
        "namespace": NAMESPACE,
        "id": run_id,
        "state": RunState.RUNNING,
        "reason": None,
        "created_at": 100.0,
        "ended_at": None,
        "caps": Caps(),
        "accepted": 3,
        "completed": 1,
        "dead": 1,
        "expired": 0,
        "cancelled": 0,
        "usage": Usage(5, 6),
        "lost_usage": Usage(1, 2),
        "purge_at": None,
    }
    return RunRow(**{**values, **fields})


def test_a_run_comes_back_as_it_was_and_a_newer_row_replaces_it(reopen):
    full = run_row("a", reason="why", ended_at=120.5, caps=Caps(1, 2, 3.5, 4), state=RunState.FAILED)
    past = run_row("b", state=RunState.COMPLETED, purge_at=500.0)
    store = reopen()
    store.commit(Changes(runs={(NAMESPACE, row.id): row for row in (full, past)}))
    store = reopen()
    assert store.load().runs == [full]
    assert store.read(Needs(runs={(NAMESPACE, "b"), (NAMESPACE, "c")})).runs == {(NAMESPACE, "b"): past}
    assert (store.run(NAMESPACE, "a"), store.run("other", "a")) == (full, None)
    again = full._replace(accepted=9, purge_at=1.0, usage=Usage(50, 60))
    store.commit(Changes(runs={(NAMESPACE, "a"): again}))
    assert (reopen().load().runs, reopen().run(NAMESPACE, "a")) == ([], again)


def test_runs_are_listed_the_newest_first(store):
    rows = [run_row(name, created_at=at) for name, at in (("a", 1.5), ("c", 2.5), ("b", 2.5), ("d", 3.0))]
    rows.append(run_row("e", created_at=9.0, state=RunState.CANCELLED))
    store.commit(Changes(runs={(NAMESPACE, row.id): row for row in rows}))
    ask = RunQuery(NAMESPACE, 10)
    assert [row.id for row in store.runs(ask)] == ["e", "d", "c", "b", "a"]
    assert [row.id for row in store.runs(ask._replace(before=(2.5, "c")))] == ["b", "a"]
    assert [row.id for row in store.runs(ask._replace(state=RunState.RUNNING, limit=2))] == ["d", "c"]
    assert store.runs(ask._replace(namespace="other")) == []


def test_runs_are_purged_when_due(store):
    rows = [run_row("a", purge_at=10.0), run_row("b", purge_at=5.0), run_row("c")]
    store.commit(Changes(runs={(NAMESPACE, row.id): row for row in rows}))
    due = store.read(Needs(purge_before=20.0, purge_limit=9)).run_purge
    assert due == [(NAMESPACE, "b"), (NAMESPACE, "a")]
    store.commit(Changes(runs_purged=due))
    assert [row.id for row in store.runs(RunQuery(NAMESPACE, 9))] == ["c"]


def test_the_run_of_an_ended_task_comes_with_it(store):
    rig = Rig(store=store)
    task = rig.submit(run_id="r")
    rig.ack(rig.lease_one())
    assert store.read(Needs(ended={task.id})).runs == {(NAMESPACE, "r"): store.run(NAMESPACE, "r")}


def test_tasks_are_listed_by_run(store):
    rig = Rig(store=store)
    ours = [rig.submit(run_id=run_id).id for run_id in ("r", "", "r", "other", "r")][::2]
    rig.ack(rig.lease_one())
    query = TaskQuery(NAMESPACE, 2, run_id="r")
    page = store.tasks(query, rig.now)
    assert [record.live.id for record in page.records] == ours[:2]
    rest = store.tasks(query._replace(after=page.next_after), rig.now)
    assert ([record.live.id for record in rest.records], rest.next_after) == (ours[2:], None)


def test_what_a_budget_reserved_and_whether_its_attempt_reported_come_back(reopen):
    rows = [
        attempt(1, outcome=AttemptOutcome.RUNNING, reported=False, usage=Usage(), reserved=Usage(0, 7)),
        attempt(2, outcome=AttemptOutcome.RUNNING, reported=True, reserved=Usage(5, 0)),
        attempt(3, outcome=AttemptOutcome.RUNNING),
    ]
    reopen().commit(Changes(ledger=keyed(*rows)))
    assert sorted(reopen().load().running) == rows


def test_accounts_of_a_budget_come_back_until_their_window_turns(reopen):
    key, other = (NAMESPACE, CAPABILITY), (NAMESPACE, "llm")
    rows = [
        BudgetRow(*key, None, 3600.0, Usage(5, 6)),
        BudgetRow(*key, "", 3600.0, Usage(1, 1)),
        BudgetRow(*key, "a", 7200.0, Usage(2, 2)),
        BudgetRow(*other, None, 3600.0, Usage(3, 3)),
    ]
    store = reopen()
    store.commit(Changes(budgets=rows))
    store.commit(Changes(budgets=[rows[0]._replace(settled=Usage(9, 9))]))
    store = reopen()
    assert {row.settled for row in store.load().budgets} == {Usage(n, n) for n in (9, 1, 2, 3)}
    store.commit(Changes(budgets_turned={key: 7200.0}))
    store = reopen()
    assert {(row.capability, row.tenant) for row in store.load().budgets} == {(CAPABILITY, "a"), ("llm", None)}
    store.commit(Changes(budgets_turned={key: float("inf"), other: float("inf")}, budgets=rows[:1]))
    assert reopen().load().budgets == rows[:1]
