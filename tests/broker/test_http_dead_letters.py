"""The dead-letter queue over HTTP."""

from leadsman.wire.dead_letters import DeadGroups
from leadsman.wire.tasks import TaskList


async def kill(client, count):
    """Let `count` tasks fail for good; returns their ids in order of acceptance."""
    ids = [result["id"] for result in await client.submit(*[{"capability": "work", "payload": "p"}] * count)]
    for lease in (await client.lease(slots=count))["leases"]:
        await client.nack(lease["token"], retry=False)
    return ids


async def test_dead_tasks_are_listed_with_why(client):
    ids = await kill(client, 3)

    page = TaskList.model_validate(await client.ok("GET", "capabilities/work/dead"))

    assert [item.id for item in page.items] == ids
    assert all(item.state == "dead" and item.error.type == "Boom" for item in page.items)
    assert page.next_cursor is None
    assert (await client.queue())["dead"] == 3


async def test_dead_tasks_are_listed_page_by_page(client):
    ids = await kill(client, 5)

    first = await client.ok("GET", "capabilities/work/dead?limit=3")
    second = await client.ok("GET", f"capabilities/work/dead?limit=3&cursor={first['next_cursor']}")

    assert [item["id"] for item in first["items"] + second["items"]] == ids
    assert "next_cursor" not in second


async def test_an_empty_dead_letter_queue_is_an_empty_list(client):
    assert await client.ok("GET", "capabilities/work/dead") == {"items": []}


async def test_a_redriven_task_runs_again_with_its_payload_and_its_history(client):
    (task_id,) = await kill(client, 1)

    reply = await client.ok("POST", "capabilities/work/redrive", {"ids": [task_id]})
    (lease,) = (await client.lease())["leases"]
    await client.ack(lease["token"])

    assert reply == {"results": [{"id": task_id, "redriven": True}], "redriven": 1}
    assert (lease["task"]["id"], lease["task"]["payload"], lease["task"]["attempt"]) == (task_id, "p", 1)
    view = await client.task(task_id)
    assert view["state"] == "completed"
    assert any("Boom" in entry.get("detail", "") for entry in view["history"])
    assert (await client.queue())["dead"] == 0


async def test_what_is_not_dead_is_not_redriven(client):
    (alive,) = await client.submit({"capability": "work"})
    (dead,) = [result["id"] for result in await client.submit({"capability": "work", "priority": 9})]
    (lease,) = (await client.lease())["leases"]
    await client.nack(lease["token"], retry=False)

    reply = await client.ok(
        "POST", "capabilities/work/redrive", {"ids": [alive["id"], "0000000000990000cafe", dead]}
    )

    results = reply["results"]
    assert [result["redriven"] for result in results] == [False, False, True]
    assert [result.get("code") for result in results] == ["not_dead", "unknown_task", None]


async def test_a_redrive_respects_the_depth_of_the_queue(client):
    ids = await kill(client, 3)
    await client.configure({"name": "work", "max_depth": 1}, generation=2)

    results = (await client.ok("POST", "capabilities/work/redrive", {"ids": ids}))["results"]

    assert [result["redriven"] for result in results] == [True, True, False]
    assert results[2]["code"] == "saturated"
    assert results[2]["retry_after_s"] >= 1
    assert (await client.queue())["dead"] == 1


async def kill_slowly(client, count, **task):
    """Let tasks fail for good a few at a time, so that a shallow queue takes them."""
    ids = []
    for _ in range(count // 10):
        submitted = await client.submit(*[{"capability": "work", **task}] * 10)
        ids += [result["id"] for result in submitted]
        for lease in (await client.lease(slots=10))["leases"]:
            await client.nack(lease["token"], retry=False)
    return ids


async def test_a_large_redrive_goes_in_steps_leaves_room_and_is_told_to_the_last_task(lone_client, broker):
    """The queue is never flooded, a lost answer and a restart change no count, and producers get in meanwhile."""
    await lone_client.configure({"name": "work", "max_depth": 30, "retry_after_seconds": 1}, generation=2)
    ids = await kill_slowly(lone_client, 100)
    request = {"filter": {}, "operation": "op", "limit": 40}
    redriven, deepest, rounds = 0, 0, 0
    while True:
        rounds += 1
        first = await lone_client.ok("POST", "capabilities/work/redrive", request)
        if rounds == 2:
            broker.restart()
            await lone_client.reconnect()
        reply = await lone_client.ok("POST", "capabilities/work/redrive", request)  # the first answer was lost
        assert reply["redriven"] >= first["redriven"]
        redriven += reply["redriven"]
        queue = await lone_client.queue()
        deepest = max(deepest, queue["ready"] + queue["delayed"])
        (new,) = await lone_client.submit({"capability": "work", "priority": 9})
        assert new["accepted"]
        for lease in (await lone_client.lease(slots=40))["leases"]:
            await lone_client.ack(lease["token"])
        if "next_cursor" not in reply:
            break
        request["cursor"] = reply["next_cursor"]
    assert redriven == len(ids)
    assert deepest <= 16
    assert (await lone_client.queue())["dead"] == 0


async def test_dead_tasks_are_filtered_and_grouped(client):
    await client.submit({"capability": "work", "tenant": "a"}, {"capability": "work", "tenant": "b"})
    for lease, kind in zip((await client.lease(slots=2))["leases"], ("Timeout", "Refused"), strict=True):
        error = {"type": kind, "message": f"it was {kind}"}
        await client.nack(lease["token"], retry=False, error=error)

    groups = DeadGroups.model_validate(await client.ok("GET", "capabilities/work/dead/groups"))
    chosen = await client.ok("GET", "capabilities/work/dead?error=Refused&tenant=b")
    nothing = await client.ok("GET", "capabilities/work/dead?error=Refused&tenant=a")
    later = await client.ok("GET", "capabilities/work/dead?died_after=99999999999")
    wrong = await client.call("GET", "capabilities/work/dead?died_after=soon")

    assert groups.tasks == 2
    assert {(group.reason, group.error, group.tasks) for group in groups.groups} == {
        ("NoRetry", "Timeout", 1),
        ("NoRetry", "Refused", 1),
    }
    assert [item["tenant"] for item in chosen["items"]] == ["b"]
    assert nothing["items"] == later["items"] == []
    assert (wrong.status, wrong.json["code"]) == (422, "invalid_request")


async def test_a_dry_run_counts_and_changes_nothing(client):
    ids = await kill(client, 3)
    for call in ("redrive", "purge"):
        by_filter = await client.ok("POST", f"capabilities/work/{call}", {"filter": {}, "dry_run": True})
        by_id = await client.ok("POST", f"capabilities/work/{call}", {"ids": [*ids[:2], "zz"], "dry_run": True})
        assert (by_filter["matched"], by_id["matched"]) == (3, 2)
        assert [result["code"] for result in by_id["results"]] == ["dry_run", "dry_run", "unknown_task"]
    assert (await client.queue())["dead"] == 3


async def test_a_dry_run_of_a_purge_counts_those_of_a_run_that_ended(client):
    await client.submit({"capability": "work", "run_id": "r"}, {"capability": "work", "run_id": "r"})
    (lease,) = (await client.lease())["leases"]
    await client.nack(lease["token"], retry=False)
    await client.ok("POST", "runs/r/cancel", {})
    ids = [lease["task"]["id"]]
    purge = await client.ok("POST", "capabilities/work/purge", {"ids": ids, "dry_run": True})
    redrive = await client.ok("POST", "capabilities/work/redrive", {"ids": ids, "dry_run": True})
    assert (purge["matched"], redrive["matched"]) == (1, 0)
    assert (await client.queue())["dead"] == 1


async def test_a_purge_by_filter_must_be_confirmed(client):
    ids = await kill(client, 3)
    asked = await client.call("POST", "capabilities/work/purge", {"filter": {"error": "Boom"}})
    assert (asked.status, asked.json["code"]) == (409, "confirmation_required")
    assert "3 dead tasks of work" in asked.json["detail"]
    step = await client.ok("POST", "capabilities/work/purge", {"filter": {}, "confirm": True, "limit": 2})
    rest = await client.ok(
        "POST", "capabilities/work/purge", {"filter": {}, "confirm": True, "cursor": step["next_cursor"]}
    )
    assert (step["purged"], rest["purged"], rest.get("next_cursor")) == (2, 1, None)
    assert (await client.call("GET", f"tasks/{ids[0]}")).status == 404
    assert (await client.queue())["dead"] == 0


async def test_a_purge_by_id_says_what_became_of_each(client):
    (dead,) = await kill(client, 1)
    reply = await client.ok("POST", "capabilities/work/purge", {"ids": [dead, dead, "zz"]})
    assert [(one["purged"], one.get("code")) for one in reply["results"]] == [
        (True, None),
        (False, "unknown_task"),
        (False, "unknown_task"),
    ]


async def test_ids_and_a_filter_exclude_each_other(client):
    for body in ({}, {"ids": ["a"], "filter": {}}):
        for call in ("redrive", "purge"):
            reply = await client.call("POST", f"capabilities/work/{call}", body)
            assert (reply.status, reply.json["code"]) == (422, "invalid_request")


async def test_a_dead_task_is_shown_with_its_payload_and_history(client):
    (dead,) = await kill(client, 1)
    view = await client.ok("GET", f"tasks/{dead}?payload=true")
    assert (view["payload"], view["reason"]) == ("p", "NoRetry")
    assert [entry["event"] for entry in view["history"]][-2:] == ["failed", "dead"]
    assert "payload" not in await client.ok("GET", f"tasks/{dead}")
    assert (await client.call("GET", f"tasks/{dead}?payload=yes")).status == 422
