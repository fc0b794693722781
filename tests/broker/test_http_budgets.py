"""Budgets over HTTP: what is refused, what waits, what is shown."""

import asyncio

import pytest

from broker_process import strictly
from leadsman.wire.costs import BudgetView, RemainingBudget
from leadsman.wire.leases import HeartbeatReply, LeaseReply

BUDGET = {"window": "Month", "tokens": 100, "tenant_tokens": 60, "estimate": {"tokens": 40, "cost_micros": 5}}


async def configured(client, **budget):
    await client.configure({"name": "work", "budget": BUDGET | budget}, generation=2)


async def test_a_budget_holds_back_what_it_has_no_room_for_and_says_so(client):
    await configured(client)
    await client.submit(*[{"capability": "work", "tenant": "acme"}] * 3, {"capability": "work"})
    leases = (await client.lease(slots=4))["leases"]
    assert len(leases) == 2
    assert (await client.queue())["blocked"] == {"Budget": 2}

    view = strictly(BudgetView, await client.ok("GET", "capabilities/work/budget"))
    levels = {level.tenant: (level.tokens, level.reserved_tokens, level.max_tokens) for level in view.levels}
    assert levels == {None: (0, 80, 100), "acme": (0, 40, 60)}
    assert view.starts_at <= view.ends_at

    spent = [{"token": lease["token"], "usage": {"tokens": 10}} for lease in leases]
    await client.ok("POST", "leases/ack", {"acks": spent})
    view = strictly(BudgetView, await client.ok("GET", "capabilities/work/budget"))
    assert (view.levels[0].tokens, view.levels[0].reserved_tokens) == (20, 0)
    assert len((await client.lease(slots=4))["leases"]) == 1


async def test_an_attempt_is_told_what_it_may_still_use(client):
    await configured(client)
    task = {"capability": "work", "payload": {}}
    await client.submit(task | {"tenant": "acme"}, task)
    of_tenant, of_queue = strictly(LeaseReply, await client.lease(slots=2)).leases
    assert (of_tenant.remaining_budget, of_queue.remaining_budget) == (
        RemainingBudget(tokens=60),
        RemainingBudget(tokens=60),
    )
    beats = [{"token": of_tenant.token, "usage": {"tokens": 55}}, {"token": of_queue.token}, {"token": "lost"}]
    told = strictly(HeartbeatReply, await client.heartbeat(leases=beats, slots=2))
    left = [None if beat.remaining_budget is None else beat.remaining_budget.tokens for beat in told.leases]
    assert left == [5, 45, None]


async def test_a_task_that_no_window_has_room_for_is_refused(client):
    await configured(client)
    task = {"capability": "work", "estimate": {"tokens": 101}}
    reply = await client.call("POST", "tasks", {"tasks": [task]})
    assert (reply.status, reply.code) == (422, "estimate_too_large")
    assert "101 tokens" in reply.json["detail"]
    (mixed, good) = await client.submit(task, {"capability": "work"})
    assert (mixed["accepted"], mixed["code"], good["accepted"]) == (False, "estimate_too_large", True)


async def test_a_queue_without_a_budget_has_none_to_show(client):
    reply = await client.call("GET", "capabilities/work/budget")
    assert (reply.status, reply.code) == (404, "not_found")
    assert "budget" in reply.json["detail"]


@pytest.mark.parametrize(
    "wrong", [{"estimate": {}}, {"estimate": {"tokens": 61}}, {"window": "Week"}, {"tokens": 0}]
)
async def test_a_budget_that_makes_no_sense_is_refused(client, wrong):
    body = {"generation": 3, "capabilities": [{"name": "work", "budget": BUDGET | wrong}]}
    reply = await client.call("PUT", "capabilities", body)
    assert (reply.status, reply.code) == (422, "invalid_request")


async def test_the_metrics_show_what_is_left(lone_client, broker):
    await configured(lone_client)
    await lone_client.submit({"capability": "work"})
    await lone_client.lease()
    async with lone_client.session.get(broker.ops_url + "/metrics") as response:
        text = await response.text()
    labels = 'capability="work",namespace="default"'
    assert f'leadsman_budget_tokens{{{labels},part="reserved"}} 40.0' in text
    assert f'leadsman_budget_tokens{{{labels},part="max"}} 100.0' in text
    assert "leadsman_budget_cost{" not in text


async def test_a_kill_of_the_broker_forgets_neither_budget_nor_run(lone_client, broker):
    await configured(lone_client)
    await lone_client.ok("PUT", "runs/r", {"max_tokens": 50})
    await lone_client.submit(*[{"capability": "work", "run_id": "r"}] * 4)
    done, held = (await lone_client.lease(slots=4))["leases"]
    spent = [{"token": done["token"], "usage": {"tokens": 15}}]
    await lone_client.ok("POST", "leases/ack", {"acks": spent})
    await lone_client.heartbeat(slots=4, leases=[{"token": held["token"], "usage": {"tokens": 25}}])
    before = [await lone_client.ok("GET", path) for path in ("capabilities/work/budget", "runs/r", "cost")]

    await asyncio.to_thread(broker.restart)
    await lone_client.reconnect()

    after = [await lone_client.ok("GET", path) for path in ("capabilities/work/budget", "runs/r", "cost")]
    assert after[:2] == before[:2]
    assert after[2]["total"] == before[2]["total"]
    assert (after[0]["levels"][0]["tokens"], after[0]["levels"][0]["reserved_tokens"]) == (15, 40)
    beat = {"token": held["token"], "usage": {"tokens": 36}}
    await lone_client.heartbeat(slots=4, leases=[beat])
    (told,) = (await lone_client.heartbeat(slots=4, leases=[beat]))["leases"]
    run = await lone_client.ok("GET", "runs/r")
    assert (told["status"], run["state"], run["reason"]) == ("cancelled", "failed", "used 51 tokens of 50")
    assert (run["tasks"]["cancelled"], run["tasks"]["live"]) == (2, 1)
