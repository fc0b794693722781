"""Runs over HTTP."""

import pytest

from broker_process import strictly
from leadsman.wire.leases import SettleReply
from leadsman.wire.runs import RunList, RunView


async def leased(client):
    (lease,) = (await client.lease())["leases"]
    return lease


async def test_a_run_goes_from_its_caps_to_its_end(client):
    strictly(RunView, await client.ok("PUT", "runs/r1", {"max_tokens": 100, "max_seconds": 600}))
    (task,) = await client.submit({"capability": "work", "run_id": "r1"})
    lease = await leased(client)
    assert lease["task"]["run_id"] == "r1"
    body = {
        "acks": [
            {
                "token": lease["token"],
                "usage": {"tokens": 40},
                "tasks": [{"capability": "work"}, {"capability": "work", "run_id": "r2"}],
            }
        ]
    }
    reply = strictly(SettleReply, await client.ok("POST", "leases/ack", body))
    assert [one.accepted for one in reply.results[0].tasks] == [True, True]
    again = strictly(SettleReply, await client.ok("POST", "leases/ack", body))
    assert again == reply

    view = strictly(RunView, await client.ok("GET", "runs/r1"))
    assert (view.state, view.tokens, view.caps.max_tokens) == ("running", 40, 100)
    assert (view.tasks.accepted, view.tasks.live, view.tasks.completed) == (2, 1, 1)
    listed = await client.ok("GET", "tasks?run=r1")
    assert [item["state"] for item in listed["items"]] == ["completed", "ready"]
    assert listed["items"][0]["id"] == task["id"]
    assert (await client.ok("GET", "runs/r2"))["tasks"]["accepted"] == 1


async def test_an_ack_with_a_wrong_follow_up_leaves_the_lease(client):
    await client.submit({"capability": "work"})
    lease = await leased(client)
    body = {"acks": [{"token": lease["token"], "tasks": [{"capability": "nowhere"}]}]}
    result = (await client.ok("POST", "leases/ack", body))["results"][0]
    assert (result["ok"], result["code"]) == (False, "follow_up_refused")
    assert "nowhere" in result["detail"]
    assert (await client.ack(lease["token"]))[0]["ok"]


async def test_a_stopped_run_is_a_conflict_for_whoever_submits_to_it(client):
    await client.submit({"capability": "work", "run_id": "r"})
    cancelled = await client.ok("POST", "runs/r/cancel")
    assert (cancelled["state"], cancelled["tasks"]["cancelled"]) == ("cancelled", 1)
    reply = await client.call("POST", "tasks", {"tasks": [{"capability": "work", "run_id": "r"}]})
    assert (reply.status, reply.code) == (409, "run_ended")
    mixed = await client.submit({"capability": "work", "run_id": "r"}, {"capability": "work"})
    assert [(one["accepted"], one.get("code")) for one in mixed] == [(False, "run_ended"), (True, None)]
    put = await client.call("PUT", "runs/r", {"max_tasks": 5})
    assert (put.status, put.code) == (409, "run_ended")


async def test_runs_are_listed_the_newest_first_in_pages(client):
    for name in ("a", "b", "c"):
        await client.ok("PUT", f"runs/{name}", {})
    await client.ok("POST", "runs/b/cancel")
    first = strictly(RunList, await client.ok("GET", "runs?limit=2"))
    assert [run.id for run in first.items] == ["c", "b"]
    rest = await client.ok("GET", f"runs?limit=2&cursor={first.next_cursor}")
    assert ([run["id"] for run in rest["items"]], "next_cursor" in rest) == (["a"], False)
    assert [run["id"] for run in (await client.ok("GET", "runs?state=cancelled"))["items"]] == ["b"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_run_is_not_found(client, method):
    path = "runs/nobody" if method == "GET" else "runs/nobody/cancel"
    reply = await client.call(method, path)
    assert (reply.status, reply.code) == (404, "unknown_run")


@pytest.mark.parametrize("query", ["state=lost", "limit=0", "cursor=x", "order=old"])
async def test_a_wrong_question_names_the_parameter(client, query):
    reply = await client.call("GET", f"runs?{query}")
    assert (reply.status, reply.code) == (422, "invalid_request")
    assert query.split("=")[0] in reply.json["detail"]


@pytest.mark.parametrize("caps", [{"max_tokens": 0}, {"max_seconds": -1}, {"max_cost_micros": 1.5}, {"budget": 1}])
async def test_wrong_caps_are_refused_by_name(client, caps):
    reply = await client.call("PUT", "runs/r", caps)
    assert (reply.status, reply.code) == (422, "invalid_request")
