"""What attempts used, over HTTP: reported with every kind of message, read as sums."""

import pytest

from broker_process import strictly
from leadsman.wire.costs import CostReport


async def settled(client, operation, lease, **more):
    item = {"token": lease["token"], **more}
    body = {{"ack": "acks", "nack": "nacks", "release": "releases"}[operation]: [item]}
    return (await client.ok("POST", f"leases/{operation}", body))["results"][0]


async def leased(client, pod="pod-1"):
    (lease,) = (await client.lease(pod))["leases"]
    return lease


async def test_the_cost_of_a_namespace_counts_attempts_of_every_end(client):
    await client.submit({"capability": "work", "tenant": "acme"})
    lease = await leased(client)
    await client.heartbeat(leases=[{"token": lease["token"], "usage": {"tokens": 10, "cost_micros": 100}}])
    await settled(client, "ack", lease, usage={"tokens": 40, "cost_micros": 400})
    error = {"type": "Boom"}
    await client.submit({"capability": "work", "tenant": "acme"})
    failed = await leased(client)
    await settled(client, "nack", failed, error=error, retry=False, usage={"tokens": 5, "cost_micros": 0})
    await client.submit({"capability": "work", "tenant": "zoo"})
    await settled(client, "release", await leased(client), delay_seconds=60, usage={"cost_micros": 7})

    report = strictly(CostReport, await client.ok("GET", "cost?by=tenant"))

    total = report.total
    assert (total.attempts, total.completed, total.failed, total.released, total.lost) == (3, 1, 1, 1, 0)
    assert (total.tokens, total.cost_micros) == (45, 407)
    assert (total.cost_micros_per_completed, total.duplicate_share, total.reclaim_rate) == (407.0, 0.0, 0.0)
    assert [(line.item, line.cost_micros) for line in report.items] == [("acme", 400), ("zoo", 7)]
    view = await client.task(failed["task"]["id"])
    assert view["usage"] == {"tokens": 5, "cost_micros": 0}
    only = await client.ok("GET", "cost?tenant=zoo&by=task")
    assert [line["cost_micros"] for line in only["items"]] == [7]


async def test_nothing_used_is_an_empty_report(client):
    report = strictly(CostReport, await client.ok("GET", "cost"))
    assert (report.items, report.total.attempts, report.total.duplicate_share) == ([], 0, None)


async def test_a_task_without_usage_shows_none(client):
    (task,) = await client.submit({"capability": "work"})
    assert "usage" not in await client.task(task["id"])


@pytest.mark.parametrize(
    "query", ["by=colour", "since_seconds=-1", "since_seconds=nan", "limit=0", "limit=x", "x=1"]
)
async def test_a_wrong_question_names_the_parameter(client, query):
    reply = await client.call("GET", f"cost?{query}")
    assert (reply.status, reply.code) == (422, "invalid_request")
    assert query.split("=")[0] in reply.json["detail"]


@pytest.mark.parametrize("usage", [{"tokens": -1}, {"cost_micros": 10**13}, {"tokens": 1.5}, {"money": 1}])
async def test_a_wrong_amount_is_refused_by_name(client, usage):
    await client.submit({"capability": "work"})
    lease = await leased(client)
    reply = await client.call("POST", "leases/ack", {"acks": [{"token": lease["token"], "usage": usage}]})
    assert (reply.status, reply.code) == (422, "invalid_request")
    assert next(iter(usage)) in reply.json["detail"]


async def test_the_metrics_count_what_was_used(lone_client, broker):
    await lone_client.submit({"capability": "work"})
    await settled(lone_client, "ack", await leased(lone_client), usage={"tokens": 12, "cost_micros": 2_500_000})
    async with lone_client.session.get(broker.ops_url + "/metrics") as response:
        text = await response.text()
    labels = 'capability="work",namespace="default"'
    assert f"leadsman_usage_tokens_total{{{labels}}} 12.0" in text
    assert f"leadsman_usage_cost_total{{{labels}}} 2.5" in text
    assert 'event="tokens"' not in text
