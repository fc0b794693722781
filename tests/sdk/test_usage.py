"""What a handler reports reaches the ledger: with heartbeats while it runs, and with its outcome."""

from decimal import Decimal

import pytest

from broker_process import eventually
from leadsman import App, RemainingBudget
from leadsman.amounts import micros_of
from leadsman.errors import InvalidValueError
from leadsman.testing import run_task


def usage_of(client, task):
    usage = client.get(task).usage
    return None if usage is None else (usage.tokens, usage.cost_micros)


def test_usage_is_booked_while_the_handler_runs_and_every_attempt_counts(broker, client, start_worker, gate):
    start_worker(broker.url, capabilities=["echo"])
    payload = {"calls": [[100, "0.01"], [50, 0.005]], "gate": gate.path, "fail": True}
    task = client.submit("echo", payload, name="spend").id
    eventually(lambda: usage_of(client, task) == (150, 15_000), what="the usage of a running attempt")
    gate.open()
    client.result(task, timeout_seconds=60)
    assert usage_of(client, task) == (300, 30_000)


def test_an_isolated_handler_reports_too(broker, client, start_worker):
    start_worker(broker.url, capabilities=["echo"])
    task = client.submit("echo", name="spend-isolated").id
    client.result(task, timeout_seconds=60)
    assert usage_of(client, task) == (3, 250_000)


@pytest.mark.parametrize("name", ["default", "sync", "isolated"])
def test_a_handler_sees_what_it_and_the_others_of_its_run_have_left(broker, client, start_worker, journal, name):
    start_worker(broker.url, capabilities=["paid"], slots=2)
    run = client.run(max_tokens=100, max_cost="5")
    task = run.submit("paid", {"tokens": 10}, name=name).id
    eventually(lambda: journal.entries("used", task), what="a handler that has used some")
    client.result(run.submit("paid", {"tokens": 30}, name="spend").id, timeout_seconds=60)
    assert client.result(task, timeout_seconds=60) == [[100, "5"], [90, "4.75"], [60, "3.75"]]


def test_without_a_limit_there_is_no_budget_to_see(broker, client, start_worker):
    start_worker(broker.url, capabilities=["echo"])
    assert client.result(client.submit("echo", name="facts").id, timeout_seconds=60)["budget"] is None


def test_a_handler_under_test_is_given_a_budget_and_uses_it_up():
    app = App()

    @app.task("llm")
    def handler(ctx):
        left = ctx.remaining_budget
        if left is None:
            return "no limit"
        fits = [left.allows(tokens=8, cost="0.5"), left.allows(tokens=9), left.allows(cost="0.51")]
        ctx.report_usage(tokens=20, cost=0.2)
        left = ctx.remaining_budget
        return [*fits, left.tokens, str(left.cost)]

    budget = RemainingBudget(tokens=8, cost=Decimal("0.5"))
    assert run_task(app, "llm", budget=budget).result == [True, False, False, 0, "0.3"]
    assert run_task(app, "llm", budget=RemainingBudget(tokens=8)).result == [True, False, True, 0, "None"]
    assert run_task(app, "llm").result == "no limit"


@pytest.mark.parametrize(
    ("cost", "micros"),
    [(0, 0), ("0.0125", 12_500), (Decimal("2.5"), 2_500_000), (0.1, 100_000), ("1e-9", 1), (3, 3_000_000)],
)
def test_money_is_counted_in_millionths_and_rounded_up(cost, micros):
    assert micros_of(cost) == micros


@pytest.mark.parametrize(
    "amounts", [{"tokens": -1}, {"tokens": 1.5}, {"cost": "much"}, {"cost": -0.1}, {"cost": "NaN"}]
)
def test_an_amount_that_is_none_is_refused_where_it_is_reported(amounts):
    app = App()

    @app.task("llm")
    def handler(ctx):
        with pytest.raises(InvalidValueError):
            ctx.report_usage(**amounts)

    assert run_task(app, "llm").kind == "done"


def test_the_fake_context_adds_up_what_was_reported():
    app = App()

    @app.task("llm")
    def handler(ctx):
        ctx.report_usage(tokens=5)
        ctx.report_usage(tokens=2, cost=0.5)

    outcome = run_task(app, "llm")
    assert (outcome.tokens, outcome.cost_micros) == (7, 500_000)
