"""Calls that the protocol makes itself, among requests that go the long way on the same connection."""

import asyncio
import json
import re
import socket
from types import SimpleNamespace

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from uvicorn.server import ServerState

from broker_process import BrokerClient, eventually_async
from leadsman_broker.auth import Open, Principal
from leadsman_broker.http.api import Api
from leadsman_broker.http.direct import DirectProtocol
from leadsman_broker.http.exchange import Response
from leadsman_broker.http.pending import Handled, Pending
from leadsman_broker.http.routing import PRODUCERS, Route
from leadsman_broker.metrics import HttpMetrics
from raw_http import RawConnection, raw_connection, raw_request

LONG_WAIT = 60.0
"""Of a worker's call; what a test waits for comes long before its end."""
NAMESPACE = "/v1/namespaces/default"
LEASE = {"worker": {"pod_uid": "raw", "incarnation": "1"}, "capabilities": ["work"], "slots": 1, "free_slots": 1}


def post(path: str, body: object, *headers: str, chunks: int = 0, namespace: str = NAMESPACE) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return raw_request(f"{namespace}/{path}", *headers, method="POST", body=text, chunks=chunks)


def submit(payload: object = None, *headers: str, chunks: int = 0, namespace: str = NAMESPACE) -> bytes:
    body = {"tasks": [{"capability": "work", "payload": payload}]}
    return post("tasks", body, *headers, chunks=chunks, namespace=namespace)


def lease(attempt: str, wait: float = 0.0) -> bytes:
    return post("leases", {**LEASE, "attempt_id": attempt, "wait_seconds": wait})


async def known(raw: RawConnection, *requests: bytes) -> None:
    """Send each once, so that the connection knows its head."""
    for request in requests:
        await raw.ask(request)


@pytest.fixture
async def space(client):
    """The path of a namespace of the test's own on the shared broker."""
    return f"/v1/namespaces/{client.namespace}"


async def test_a_request_cut_anywhere_is_answered_once(client, space, shared_broker):
    whole = submit("cut", namespace=space)
    async with raw_connection(shared_broker.port) as raw, raw_connection(shared_broker.port) as other:
        await known(raw, whole)
        for cut in range(1, len(whole)):
            raw.send(whole[:cut])
            await other.ask(raw_request("/nothing"))  # what was sent before has been read by then
            assert (await raw.ask(whole[cut:])).status == 200
    assert (await client.queue())["ready"] == len(whole)


async def test_a_request_sent_byte_by_byte_is_answered(space, shared_broker):
    whole = submit("slow", namespace=space)
    async with raw_connection(shared_broker.port) as raw, raw_connection(shared_broker.port) as other:
        await known(raw, whole)
        for at in range(len(whole)):
            raw.send(whole[at : at + 1])
            await other.ask(raw_request("/nothing"))
        assert (await raw.reply()).status == 200
        assert (await raw.ask(whole)).status == 200


KINDS = {
    "task": (submit, 200),
    "chunked": (lambda n: submit(n, chunks=3), 200),
    "other head": (lambda n: submit(n, f"x-trace: {n}"), 200),
    "no work": (lambda n: post("leases/ack", {"acks": [{"token": f"t{n}"}]}), 200),
    "not json": (lambda _: post("tasks", b'{"tasks":'), 400),
    "wrong": (lambda n: post("tasks", {"tasks": [{"capability": "work", "extra": n}]}), 422),
    "empty": (lambda _: post("tasks", b""), 400),
    "get": (lambda n: raw_request(f"{NAMESPACE}/tasks/no-{n}"), 404),
    "nothing": (lambda n: raw_request(f"/nothing/{n}"), 404),
    "wrong method": (lambda _: raw_request(f"{NAMESPACE}/tasks", method="DELETE"), 405),
}


@given(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=20), data=st.data())
@settings(max_examples=60, deadline=None)
def test_requests_of_every_kind_are_answered_in_order_however_they_are_cut(shared_broker, kinds, data):
    stream = b"".join(KINDS[kind][0](number) for number, kind in enumerate(kinds))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))

    async def run():
        async with raw_connection(shared_broker.port) as raw, raw_connection(shared_broker.port) as other:
            await known(raw, *(KINDS[kind][0](0) for kind in KINDS if kind not in {"get", "nothing"}))
            for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
                raw.send(stream[start:end])
                await other.ask(raw_request("/nothing"))
            for number, kind in enumerate(kinds):
                reply = await raw.reply()
                assert reply.status == KINDS[kind][1], (kind, reply)
                if kind in {"get", "nothing"}:
                    assert f"{number}" in reply.json["detail"]
            assert (await raw.ask(raw_request("/nothing/last"))).status == 404

    asyncio.run(run())


async def test_calls_are_counted_whichever_way_they_take(broker):
    async with raw_connection(broker.port) as raw:
        for _ in range(5):
            await raw.ask(submit())
        for _ in range(3):
            assert (await raw.ask(post("tasks", b"{"))).status == 400
    route = '{method="POST",route="/v1/namespaces/{namespace}/tasks"'
    async with raw_connection(broker.ops_port) as raw:
        text = (await raw.ask(raw_request("/metrics"))).body.decode()
    assert _sample(text, f'leadsman_http_requests_total{route[:1]}code="200",{route[1:]}}}') == 5
    assert _sample(text, f'leadsman_http_requests_total{route[:1]}code="400",{route[1:]}}}') == 3
    assert _sample(text, f"leadsman_http_request_seconds_count{route}}}") == 8


def _sample(text: str, name: str) -> float:
    labels = name.partition("{")[2].removesuffix("}")
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
        if found and found[1] == name.partition("{")[0] and {*found[2].split(",")} == {*labels.split(",")}:
            return float(found[3])
    raise AssertionError(f"no {name} in\n{text}")


async def test_a_caller_who_leaves_in_the_middle_of_a_body_is_counted(broker):
    async with raw_connection(broker.port) as raw:
        await known(raw, submit())
        raw.send(submit()[:-5])

    async def counted():
        async with raw_connection(broker.ops_port) as raw:
            return 'code="499"' in (await raw.ask(raw_request("/metrics"))).body.decode()

    await eventually_async(counted)
    async with raw_connection(broker.port) as raw:
        assert (await raw.ask(submit())).status == 200


async def test_a_body_beyond_the_limit_is_refused_on_a_connection_that_goes_on(start_broker):
    broker = start_broker(args=["--max-body-bytes", "65536"])
    async with raw_connection(broker.port) as raw:
        await known(raw, submit())
        large = await raw.ask(submit("x" * 70_000))
        assert (large.status, large.json["code"]) == (413, "body_too_large")
        assert (await raw.ask(submit())).status == 200


@pytest.mark.parametrize(
    "header",
    ["x-length: 5", "x: a length: 5", "content-length-of-old: 5", "x-strength: 5\r\nx-length: 6"],
)
async def test_only_the_length_of_the_body_is_taken_for_it(client, space, shared_broker, header):
    async with raw_connection(shared_broker.port) as raw:
        for number in range(4):
            assert (await raw.ask(submit("x" * number, header, namespace=space))).status == 200
    assert (await client.queue())["ready"] == 4


async def test_requests_that_only_a_lenient_server_would_take_are_refused_every_time(shared_broker):
    usual = submit()
    doubled = usual.replace(b"content-length:", b"content-length: 3\r\ncontent-length:")
    both = usual.replace(b"host:", b"transfer-encoding: chunked\r\nhost:")
    for wrong in (doubled, both, usual.replace(b"content-length: ", b"content-length: +")):
        for after in ((), (usual,)):
            async with raw_connection(shared_broker.port) as raw:
                await known(raw, *after)
                reply = await raw.ask(wrong)
                assert (reply.status, reply.headers["connection"]) == (400, "close")
                assert await raw.end() == b""


async def test_thousands_of_requests_whose_replies_nobody_reads_yet_are_answered_in_order(shared_broker):
    """The replies fill both sockets' buffers, so the broker has to stop in the middle and go on."""
    requests = [post("tasks", b"{" + b" " * (number % 7)) for number in range(8_000)]
    with socket.create_connection(("127.0.0.1", shared_broker.port)) as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=narrow)
        raw = RawConnection(reader, writer)
        raw.send(*requests)
        for _ in requests:
            assert (await raw.reply()).status == 400
        assert (await raw.ask(raw_request("/nothing/last"))).status == 404
        writer.close()


async def test_a_task_is_not_given_to_a_worker_that_is_gone(lone_client, broker):
    async with raw_connection(broker.port) as raw:
        await known(raw, lease("first"))
        raw.send(lease("second", wait=LONG_WAIT))
        await _until_parked(lone_client, 1)
    await _until_parked(lone_client, 0)
    await lone_client.submit({"capability": "work"})
    queue = await lone_client.queue()
    assert (queue["ready"], queue["leased"]) == (1, 0)


async def test_a_worker_that_sends_no_more_is_gone(lone_client, broker):
    async with raw_connection(broker.port) as raw:
        await known(raw, lease("first"))
        raw.send(lease("second", wait=LONG_WAIT))
        await _until_parked(lone_client, 1)
        raw.writer.write_eof()
        assert await raw.end() == b""
        await _until_parked(lone_client, 0)


async def test_what_is_sent_behind_a_waiting_call_waits_with_it(lone_client, broker):
    async with raw_connection(broker.port) as raw:
        await known(raw, lease("first"), submit())
        await raw.ask(lease("second"))
        raw.send(lease("third", wait=LONG_WAIT), raw_request("/nothing/behind"), submit("behind"))
        await _until_parked(lone_client, 1)
        assert (await lone_client.queue())["ready"] == 0
        await lone_client.submit({"capability": "work"})
        assert len((await raw.reply()).json["leases"]) == 1
        assert "/nothing/behind" in (await raw.reply()).json["detail"]
        assert (await raw.reply()).json["results"][0]["accepted"]


@pytest.mark.parametrize("before", [(), (lease("first"),)], ids=["first call", "known head"])
async def test_a_worker_that_is_gone_is_noticed_behind_what_it_sent_after_its_call(lone_client, broker, before):
    async with raw_connection(broker.port) as raw:
        await known(raw, *before)
        raw.send(lease("second", wait=LONG_WAIT), raw_request("/nothing/behind"))
        await _until_parked(lone_client, 1)
    await _until_parked(lone_client, 0)


async def test_a_stop_answers_a_waiting_call_and_closes_its_connection(broker):
    async with raw_connection(broker.port) as raw, BrokerClient(broker.url) as client:
        await client.configure({"name": "work"})
        await known(raw, lease("first"))
        raw.send(lease("second", wait=LONG_WAIT))
        await _until_parked(client, 1)
        ended = asyncio.ensure_future(asyncio.to_thread(broker.terminate))
        reply = await raw.reply()
        assert (reply.status, reply.json) == (200, {"worker": "active", "leases": []})
        assert await raw.end() == b""
        assert await ended == 0


async def test_a_stop_closes_a_connection_whose_last_call_was_answered(broker):
    async with raw_connection(broker.port) as raw:
        await known(raw, submit(), submit())
        ended = asyncio.ensure_future(asyncio.to_thread(broker.terminate))
        assert await raw.end() == b""
        assert await ended == 0


async def test_every_call_is_checked_for_its_own_token(start_broker, tmp_path):
    tokens = [
        {"name": name, "token": f"{name}-0123456789abcdef", "roles": [role], "namespaces": ["default"]}
        for name, role in (("maker", "producer"), ("doer", "worker"))
    ]
    (tmp_path / "tokens.json").write_text(json.dumps({"tokens": tokens}))
    broker = start_broker(auth="static", args=["--tokens-file", str(tmp_path / "tokens.json")])
    async with raw_connection(broker.port) as raw:
        for _ in range(3):
            for header, status in (
                ("authorization: Bearer maker-0123456789abcdef", 200),
                ("authorization: Bearer doer-0123456789abcdef", 403),
                ("authorization: Bearer nobody-0123456789abcd", 401),
                ("x-nothing: 1", 401),
            ):
                reply = await raw.ask(submit(None, header))
                assert reply.status == status, (header, reply)
                assert ("www-authenticate" in reply.headers) == (status == 401)
            elsewhere = submit(
                None, "authorization: Bearer maker-0123456789abcdef", namespace="/v1/namespaces/other"
            )
            assert (await raw.ask(elsewhere)).status == 403
    assert broker.alive


class Timers:
    """A loop whose time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, object]] = []
        self.create_task = asyncio.get_running_loop().create_task

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: object) -> SimpleNamespace:
        timer = (self.now + seconds, callback)
        self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer))

    def pass_until(self, now: float) -> None:
        self.now = now
        due = [timer for timer in self.timers if timer[0] <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        for _, callback in due:
            callback()


class Wire:
    """A transport that notes what was sent, and whether it was closed."""

    def __init__(self) -> None:
        self.closed = False
        self.sent = b""

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _: str) -> None:
        return None


def served(api: Api | None) -> tuple[DirectProtocol, Timers, Wire]:
    """Return the protocol on a connection of which the test is the loop's clock and the socket."""
    options = {"ws": "none", "lifespan": "off", "interface": "asgi3", "proxy_headers": False}
    config = uvicorn.Config("unused", http=DirectProtocol, timeout_keep_alive=120, **options)
    config.load_app = lambda: api
    timers, wire = Timers(), Wire()
    protocol = DirectProtocol(config, ServerState(), {}, timers)
    protocol.connection_made(wire)
    return protocol, timers, wire


async def test_a_body_that_does_not_come_is_not_waited_for_without_end():
    def begin(namespace: str, _: Principal, body: bytes) -> Pending:
        outcome = asyncio.get_running_loop().create_future()
        outcome.set_result(namespace.encode() + b" " + body)
        return Pending(outcome, Response)

    route = Route("POST", "/v1/namespaces/{namespace}/tasks", Handled(begin), PRODUCERS, "")
    api = Api([route], Open(), HttpMetrics(CollectorRegistry()))
    protocol, timers, wire = served(api)
    request = post("tasks", b"0123456789")

    async def sent(end: bytes) -> None:
        async def found() -> bool:
            return wire.sent.endswith(end)

        await eventually_async(found)

    protocol.data_received(request)
    await sent(b"default 0123456789")
    before = len(wire.sent)
    for piece in (request[:-9], request[-9:-4], request[-4:]):
        assert len(wire.sent) == before
        protocol.data_received(piece)
        await asyncio.sleep(0)
    assert wire.sent[before:].endswith(b"default 0123456789")
    protocol.data_received(request[:-1])
    timers.pass_until(29.9)
    assert not wire.closed
    timers.pass_until(30)
    reply = wire.sent.rpartition(b"HTTP/1.1 ")[2]
    assert reply.startswith(b"408 ")
    assert b"connection: close" in reply
    assert wire.closed


async def test_a_connection_ends_when_nothing_came_for_long_since_its_last_reply():
    protocol, timers, wire = served(None)
    protocol.on_response_complete()
    timers.pass_until(100)
    protocol.data_received(b"POST /v1")
    protocol.on_response_complete()
    assert len(timers.timers) == 1, "one timer for all requests"
    timers.pass_until(150)
    protocol.data_received(b"/name")
    timers.pass_until(230)
    assert (wire.closed, timers.timers) == (False, []), "a request is under way"
    protocol.on_response_complete()
    timers.pass_until(349)
    assert not wire.closed
    timers.pass_until(350)
    assert wire.closed


async def _until_parked(client, number):
    async def parked():
        return sum(worker["parked"] for worker in (await client.stats())["workers"]) == number

    await eventually_async(parked, seconds=LONG_WAIT / 2)
