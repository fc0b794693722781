"""The dead-letter queue over HTTP."""

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

    assert reply == {"results": [{"id": task_id, "redriven": True}]}
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
