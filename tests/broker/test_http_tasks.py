"""Submitting tasks and reading what became of them."""

import asyncio

import pytest

from broker_process import BrokerClient, eventually_async, strictly
from leadsman.wire.explanations import TaskExplanation
from leadsman.wire.tasks import SubmitReply, TaskList, TaskView


async def test_a_batch_is_answered_in_order(client):
    reply = await client.call(
        "POST",
        "tasks",
        {"tasks": [{"capability": "work"}, {"capability": "nowhere"}, {"capability": "work", "delay_seconds": 60}]},
    )

    assert reply.status == 200
    first, second, third = strictly(SubmitReply, reply.json).results
    assert (first.accepted, first.state) == (True, "ready")
    assert (second.accepted, second.code) == (False, "unknown_capability")
    assert "nowhere" in second.reason
    assert (third.accepted, third.state) == (True, "delayed")
    assert first.id < third.id


async def test_a_full_queue_refuses_word_for_word_as_the_requirement_does(client):
    await client.configure({"name": "work", "max_depth": 100}, generation=2)
    for result in await client.submit(*[{"capability": "work"}] * 101):
        assert result["accepted"]

    reply = await client.call("POST", "tasks", {"tasks": [{"capability": "work"}]})

    assert reply.json == {"results": [{"accepted": False, "reason": "pool saturated", "retry_after_s": 30}]}
    assert reply.status == 429
    assert reply.headers["Retry-After"] == "30"


async def test_a_batch_that_is_refused_in_part_is_not_a_429(client):
    await client.configure({"name": "work", "max_depth": 1}, generation=2)

    results = await client.submit(*[{"capability": "work"}] * 4)

    assert [result["accepted"] for result in results] == [True, True, False, False]


async def test_the_same_key_is_the_same_task(client):
    task = {"capability": "work", "payload": {"a": 1, "b": 2}, "idempotency_key": "k"}
    reordered = {"capability": "work", "payload": {"b": 2, "a": 1}, "idempotency_key": "k"}
    (first,) = await client.submit(task)

    again = await client.submit(reordered, task)

    assert again == [{"accepted": True, "id": first["id"], "state": "ready", "duplicate": True}] * 2
    assert (await client.queue())["ready"] == 1


async def test_the_same_key_with_another_payload_is_refused(client):
    await client.submit({"capability": "work", "payload": 1, "idempotency_key": "k"})

    (second,) = await client.submit({"capability": "work", "payload": 2, "idempotency_key": "k"})

    assert (second["accepted"], second["code"]) == (False, "idempotency_mismatch")


async def test_two_of_the_same_key_in_one_batch_are_one_task(client):
    first, second = await client.submit(*[{"capability": "work", "idempotency_key": "k"}] * 2)

    assert second == {**first, "duplicate": True}


async def test_a_payload_over_the_limit_is_refused_and_the_rest_of_the_batch_is_not(client):
    large, small = await client.submit(
        {"capability": "work", "payload": "x" * 300_000}, {"capability": "work", "payload": "x"}
    )

    assert (large["accepted"], large["code"]) == (False, "payload_too_large")
    assert "262144" in large["reason"]
    assert small["accepted"]


async def test_a_task_can_be_read(client):
    (submitted,) = await client.submit(
        {"capability": "work", "name": "crawl", "class": "interactive", "tenant": "acme", "idempotency_key": "k"}
    )

    view = TaskView.model_validate(await client.task(submitted["id"]))

    assert (view.state, view.name, view.tenant, view.priority) == ("ready", "crawl", "acme", 5)
    assert (view.idempotency_key, view.max_attempts, view.epoch) == ("k", 5, 0)


async def test_a_task_tells_what_happened_to_it(client):
    (submitted,) = await client.submit({"capability": "work", "max_attempts": 1})
    (lease,) = (await client.lease())["leases"]
    await client.nack(lease["token"])

    view = TaskView.model_validate(await client.task(submitted["id"]))

    assert (view.state, view.error.type, view.error.message) == ("dead", "Boom", "it broke")
    assert view.reason
    assert view.settled_at >= view.accepted_at
    failed = next(entry for entry in view.history if "Boom" in (entry.detail or ""))
    assert (failed.epoch, failed.worker) == (1, "pod-1.1")
    assert view.history[-1].event == "dead"


async def test_reading_an_unknown_task_says_so(client):
    reply = await client.call("GET", "tasks/0000000000990000cafe")

    assert (reply.status, reply.code) == (404, "unknown_task")


async def test_a_task_is_unknown_in_another_namespace(client, shared_broker):
    (submitted,) = await client.submit({"capability": "work"})

    async with BrokerClient(shared_broker.url, namespace="other") as stranger:
        reply = await stranger.call("GET", f"tasks/{submitted['id']}")

    assert (reply.status, reply.code) == (404, "unknown_task")


async def test_waiting_for_a_task_ends_when_the_task_does(client):
    (submitted,) = await client.submit({"capability": "work"})
    waiting = asyncio.create_task(client.task(submitted["id"], wait=60))
    (lease,) = (await client.lease())["leases"]
    await client.ack(lease["token"], result={"answer": 42})

    view = await waiting

    assert (view["state"], view["result"]) == ("completed", {"answer": 42})


async def test_waiting_for_a_task_that_has_ended_does_not_wait(client):
    (submitted,) = await client.submit({"capability": "work"})
    await client.call("POST", f"tasks/{submitted['id']}/cancel")

    view = await asyncio.wait_for(client.task(submitted["id"], wait=60), timeout=20)

    assert view["state"] == "cancelled"


async def test_waiting_in_vain_answers_with_what_is(client):
    (submitted,) = await client.submit({"capability": "work"})

    assert (await client.task(submitted["id"], wait=0.05))["state"] == "ready"


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "soon", "1e999"])
async def test_a_wait_out_of_bounds_is_refused(client, wait):
    reply = await client.call("GET", f"tasks/0000000000010000cafe?wait={wait}")

    assert (reply.status, reply.code) == (422, "invalid_request")
    assert "60" in reply.json["detail"]


async def test_a_queued_task_is_cancelled_at_once(client):
    (submitted,) = await client.submit({"capability": "work"})

    reply = await client.call("POST", f"tasks/{submitted['id']}/cancel")

    assert (reply.status, reply.json["state"]) == (200, "cancelled")
    assert (await client.lease())["leases"] == []


async def test_a_leased_task_is_told_of_its_cancel_and_ends_when_its_attempt_does(client):
    (submitted,) = await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    reply = await client.call("POST", f"tasks/{submitted['id']}/cancel")
    beat = await client.heartbeat(leases=[{"token": lease["token"]}])
    await client.release(lease["token"])

    assert reply.json["state"] == "leased"
    assert beat["leases"][0]["status"] == "cancelled"
    assert (await client.task(submitted["id"]))["state"] == "cancelled"


async def test_cancelling_an_unknown_task_says_so(client):
    reply = await client.call("POST", "tasks/0000000000990000cafe/cancel")

    assert (reply.status, reply.code) == (404, "unknown_task")


async def test_tasks_are_listed_page_by_page_in_order_of_acceptance(client):
    submitted = [result["id"] for result in await client.submit(*[{"capability": "work"}] * 7)]
    seen, cursor = [], ""
    for _ in range(4):
        page = TaskList.model_validate(await client.ok("GET", f"tasks?limit=3{cursor}"))
        seen += [item.id for item in page.items]
        if page.next_cursor is None:
            break
        cursor = f"&cursor={page.next_cursor}"

    assert seen == submitted


async def test_tasks_are_listed_by_state_queue_and_tenant(client):
    await client.configure({"name": "work"}, {"name": "other"}, generation=2)
    leased, done, late, elsewhere = await client.submit(
        {"capability": "work", "tenant": "a"},
        {"capability": "work", "tenant": "a"},
        {"capability": "work", "tenant": "b", "delay_seconds": 60},
        {"capability": "other"},
    )
    held, finished = (await client.lease(slots=2))["leases"]
    await client.ack(finished["token"])

    async def listed(query):
        return [item["id"] for item in (await client.ok("GET", f"tasks?{query}"))["items"]]

    assert [held["task"]["id"], finished["task"]["id"]] == [leased["id"], done["id"]]
    assert await listed("state=leased") == [leased["id"]]
    assert await listed("state=completed") == [done["id"]]
    assert await listed("state=delayed") == [late["id"]]
    assert await listed("state=ready") == [elsewhere["id"]]
    assert await listed("state=dead") == []
    assert await listed("capability=work") == [leased["id"], done["id"], late["id"]]
    assert await listed("tenant=a") == [leased["id"], done["id"]]
    assert await listed("capability=work&tenant=b&state=delayed") == [late["id"]]


async def test_a_task_becomes_ready_for_readers_when_its_delay_is_over(client):
    (submitted,) = await client.submit({"capability": "work", "delay_seconds": 0.2})

    async def ready():
        return (await client.task(submitted["id"]))["state"] == "ready"

    assert submitted["state"] == "delayed"
    assert await eventually_async(ready)


@pytest.mark.parametrize("query", ["state=lost", "limit=0", "limit=1001", "limit=x", "cursor=-1", "colour=red"])
async def test_a_wrong_query_is_refused_by_name(client, query):
    reply = await client.call("GET", f"tasks?{query}")

    assert (reply.status, reply.code) == (422, "invalid_request")
    assert query.partition("=")[0] in reply.json["detail"]


async def test_a_task_whose_time_to_live_is_over_ends_as_expired(client):
    (submitted,) = await client.submit({"capability": "work", "ttl_seconds": 0.05})

    view = await client.task(submitted["id"], wait=60)

    assert view["state"] == "expired"


async def test_what_a_full_queue_drops_is_listed_as_shed_and_ends_a_wait(lone_client):
    await lone_client.configure({"name": "work", "max_depth": 0, "on_full": "DropLowestPriority"}, generation=2)
    (low,) = await lone_client.submit({"capability": "work"})
    waiting = asyncio.create_task(lone_client.ok("GET", f"tasks/{low['id']}?wait=30"))
    (high,) = await lone_client.submit({"capability": "work", "priority": 1})
    refused = await lone_client.call("POST", "tasks", {"tasks": [{"capability": "work", "priority": 1}]})

    view = await waiting
    listed = await lone_client.ok("GET", "tasks?state=shed")
    assert (high["accepted"], refused.status) == (True, 429)
    assert (view["state"], view["reason"]) == ("shed", "Shed")
    assert [item["id"] for item in listed["items"]] == [low["id"]]
    assert (await lone_client.queue())["shed_total"] == 1


async def test_a_task_is_explained_from_its_wait_to_its_end(client):
    await client.configure({"name": "work", "max_slots": 4}, generation=2)
    first, second = await client.submit(*[{"capability": "work", "tenant": "acme"}] * 2)

    async def explain(task):
        reply = await client.call("GET", f"tasks/{task['id']}/explain")
        assert reply.status == 200
        return strictly(TaskExplanation, reply.json)

    waiting = await explain(second)
    assert (waiting.reason, waiting.ahead.same_tenant) == ("WorkersStarting", 1)

    (lease,) = (await client.lease(slots=2))["leases"]
    capped = await explain(second)
    assert (capped.reason, capped.setting) == ("TenantCap", "fairness.tenantSharePercent")
    assert (capped.tenant_in_flight, capped.tenant_cap, capped.free_slots) == (1, 1, 1)
    assert (await explain(first)).reason is None

    await client.ack(lease["token"])
    ended = await explain(first)
    assert (ended.task.state, ended.summary, ended.reason) == ("completed", "completed", None)


async def test_only_a_known_task_is_explained(client):
    reply = await client.call("GET", "tasks/0000000000010000/explain")

    assert (reply.status, reply.code) == (404, "unknown_task")
