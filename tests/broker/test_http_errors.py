"""Whatever is sent, the answer is a problem document that says what to do, never a 500, and the broker goes on."""

import asyncio
import contextlib

import pytest

from leadsman.wire.problems import Problem


def task(payload: bytes) -> bytes:
    return b'{"tasks":[{"capability":"work","payload":' + payload + b"}]}"


NOT_JSON = {
    "nothing": b"",
    "a half object": b'{"tasks":[',
    "text after the end": task(b"1") + b"x",
    "a byte order mark": b"\xef\xbb\xbf" + task(b"1"),
    "bytes that are not UTF-8": task(b'"\xff\xfe"'),
    "UTF-16": task(b"1").decode().encode("utf-16"),
    "a raw NUL": task(b'"\x00"'),
    "an escaped NUL": task(b'"a\\u0000b"'),
    "an escaped NUL in a key": task(b'{"\\u0000":1}'),
    "a lone high surrogate": task(b'"\\ud800"'),
    "a lone low surrogate": task(b'"\\udc00x"'),
    "NaN": task(b"NaN"),
    "Infinity": task(b"[-Infinity]"),
    "a float beyond range": task(b"1e999"),
    "an integer beyond range": task(b"9" * 400),
    "an integer of ten thousand digits": task(b"9" * 10_000),
    "a key twice": task(b'{"a":1,"a":2}'),
    "a key twice, escaped": task(b'{"a":1,"\\u0061":2}'),
    "deep arrays": task(b"[" * 200 + b"]" * 200),
    "very deep arrays": task(b"[" * 1_000_000 + b"]" * 1_000_000),
    "very deep objects": task(b'{"a":' * 300_000 + b"1" + b"}" * 300_000),
    "a deep half": b"[" * 5_000_000,
}


@pytest.mark.parametrize("case", NOT_JSON)
async def test_json_that_parsers_disagree_about_is_refused(client, case):
    reply = await client.call("POST", "tasks", raw=NOT_JSON[case])

    problem = Problem.model_validate(reply.json)
    assert (reply.status, problem.code) == (400, "invalid_json"), problem
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert problem.detail.startswith("the body is not usable JSON: ")
    assert len(problem.detail) < 400
    assert (await client.submit({"capability": "work"}))[0]["accepted"]


@pytest.mark.parametrize(
    "payload",
    [b'"\\\\u0000"', b'"\\ud83d\\ude00"', b"-0", b"1e308", b"[" * 140 + b"]" * 140, b'{"a":{"a":{"a":1}}}', b'""'],
)
async def test_unusual_json_that_means_one_thing_comes_back_as_it_was(client, payload):
    import json

    await client.call("POST", "tasks", raw=task(payload))

    (lease,) = (await client.lease())["leases"]

    assert lease["task"]["payload"] == json.loads(payload)


WRONG = [
    ({"tasks": []}, "tasks"),
    ({"tasks": [{"capability": "work"}] * 1001}, "tasks"),
    ({"tasks": [{}]}, "tasks.0.capability"),
    ({"tasks": [{"capability": "Work!"}]}, "tasks.0.capability"),
    ({"tasks": [{"capability": "work"}, {"capability": "work", "priority": 10}]}, "tasks.1.priority"),
    ({"tasks": [{"capability": "work", "priorty": 1}]}, "tasks.0.priorty"),
    ({"tasks": [{"capability": "work", "delay_seconds": -1}]}, "tasks.0.delay_seconds"),
    ({"tasks": [{"capability": "work", "ttl_seconds": 0}]}, "tasks.0.ttl_seconds"),
    ({"tasks": [{"capability": "work", "max_attempts": 0}]}, "tasks.0.max_attempts"),
    ({"tasks": [{"capability": "work", "class": "urgent"}]}, "tasks.0.class"),
    ({"tasks": [{"capability": "work", "idempotency_key": ""}]}, "tasks.0.idempotency_key"),
    ({"tasks": [{"capability": "work", "tenant": "a\nb"}]}, "tasks.0.tenant"),
    ({"tasks": [{"capability": "work", "name": "a b"}]}, "tasks.0.name"),
    ([], "the body"),
    ("text", "the body"),
]


@pytest.mark.parametrize(("body", "field"), WRONG, ids=[field for _, field in WRONG])
async def test_a_task_of_the_wrong_shape_is_refused_by_field(client, body, field):
    reply = await client.call("POST", "tasks", body)

    assert (reply.status, reply.code) == (422, "invalid_request")
    assert reply.json["detail"].startswith(field)
    assert (await client.queue())["ready"] == 0


async def test_every_mistake_is_listed_and_no_value_is_echoed(client):
    secret = "hunter2"
    reply = await client.call(
        "POST", "tasks", {"tasks": [{"capability": "work", "priority": secret, "tenant": 5, "colour": secret}]}
    )

    assert {error["field"] for error in reply.json["errors"]} == {
        "tasks.0.priority",
        "tasks.0.tenant",
        "tasks.0.colour",
    }
    assert secret not in reply.body.decode()


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("leases", {"worker": {"pod_uid": "p"}, "capabilities": ["work"], "slots": 1, "free_slots": 1}),
        ("leases/heartbeat", {"worker": {"pod_uid": "p", "incarnation": "1"}, "capabilities": [], "slots": 1}),
        ("leases/ack", {"acks": []}),
        ("leases/nack", {"nacks": [{"token": "x:1:2"}]}),
        ("leases/release", {"releases": [{"token": "x:1:2", "delay_seconds": "soon"}]}),
        ("capabilities/work/redrive", {"ids": ["../etc/passwd"]}),
        ("/v1/workers/fence", {"operation": "o", "pod_uids": [], "ttl_seconds": 10}),
        ("/v1/workers/unfence", {"pod_uids": "all"}),
    ],
)
async def test_every_call_checks_its_body(client, call, body):
    reply = await client.call("POST", call, body)

    assert (reply.status, reply.code) == (422, "invalid_request")
    assert reply.json["errors"]


async def test_a_body_over_the_limit_is_refused_before_it_is_read_as_json(client):
    reply = await client.call("POST", "tasks", raw=b"x" * (17 * 1024 * 1024))

    assert (reply.status, reply.code) == (413, "body_too_large")
    assert "16777216" in reply.json["detail"]


async def test_a_body_over_the_limit_is_refused_when_its_length_is_not_declared(client):
    async def chunks():
        for _ in range(17):
            yield b"x" * (1024 * 1024)

    async with client.session.post(client.url + "/v1/namespaces/default/tasks", data=chunks()) as response:
        assert response.status == 413
        assert (await response.json(content_type=None))["code"] == "body_too_large"


async def test_a_payload_of_ten_megabytes_is_refused_by_its_queue(client):
    reply = await client.call("POST", "tasks", raw=task(b'"' + b"x" * 10_000_000 + b'"'))

    assert reply.json["results"][0]["code"] == "payload_too_large"


async def test_results_and_checkpoints_over_their_limit_are_refused_and_the_lease_stays(client):
    await client.submit({"capability": "work"})
    (lease,) = (await client.lease())["leases"]

    (acked,) = await client.ack(lease["token"], result="x" * 70_000)
    nacked = await client.nack(lease["token"], checkpoint="x" * 70_000)

    assert (acked["ok"], acked["code"]) == (False, "result_too_large")
    assert (nacked["ok"], nacked["code"]) == (False, "checkpoint_too_large")
    assert (await client.ack(lease["token"], result="small"))[0]["ok"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/namespaces/default", 404, "not_found"),
        ("GET", "/v1/namespaces/default/tasks/x/y/z", 404, "not_found"),
        ("DELETE", "/v1/namespaces/default/tasks", 405, "method_not_allowed"),
        ("GET", "/v1/namespaces/default/leases", 405, "method_not_allowed"),
        ("GET", "/v1/namespaces/Not_A_Name/tasks", 422, "invalid_request"),
        ("GET", "/v1/namespaces/default/tasks/%00", 422, "invalid_request"),
        ("GET", "/v1/namespaces/%2e%2e%2f/tasks", 404, "not_found"),
        ("GET", "/v1/namespaces/default/tasks/" + "a" * 65, 422, "invalid_request"),
    ],
)
async def test_a_wrong_address_is_told_apart(client, method, path, status, code):
    import yarl

    async with client.session.request(method, yarl.URL(client.url + path, encoded=True)) as response:
        problem = Problem.model_validate_json(await response.read())
        assert (response.status, problem.code) == (status, code)


async def test_a_method_that_is_not_possible_says_which_are(client):
    reply = await client.call("PATCH", "tasks")

    assert reply.headers["Allow"] == "GET, POST"
    assert "GET, POST" in reply.json["detail"]


async def test_garbage_on_the_socket_is_answered_and_does_no_harm(client, shared_broker):
    for garbage in (b"\x00" * 1000, b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9.9\r\n\r\n", b"A" * 200_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", shared_broker.port)
        with contextlib.suppress(OSError):
            writer.write(garbage)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), timeout=20)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    assert (await client.submit({"capability": "work"}))[0]["accepted"]
    assert shared_broker.alive
