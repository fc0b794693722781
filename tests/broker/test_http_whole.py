"""What a caller sees on the socket, whichever way a request and its reply took."""

import asyncio
import contextlib
import json

import pytest

BODY = b'{"tasks":[{"capability":"work"}]}'


@contextlib.asynccontextmanager
async def connection(broker):
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def request(path: str, *headers: str, method: str = "GET", body: bytes = b"", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "host: b", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def head_of(reader) -> tuple[int, dict[str, str]]:
    async with asyncio.timeout(30):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:])


async def reply_of(reader) -> tuple[int, dict[str, str], bytes]:
    status, headers = await head_of(reader)
    return status, headers, await reader.readexactly(int(headers["content-length"]))


def tasks(client) -> str:
    return f"/v1/namespaces/{client.namespace}/tasks"


async def test_replies_on_one_connection_carry_type_length_and_date(client, shared_broker):
    async with connection(shared_broker) as (reader, writer):
        for _ in range(3):
            writer.write(request(tasks(client), method="POST", body=BODY))
            status, headers, body = await reply_of(reader)
            assert (status, headers["content-type"]) == (200, "application/json")
            assert "date" in headers
            assert json.loads(body)["results"][0]["accepted"]


async def test_requests_sent_without_waiting_are_answered_in_order(shared_broker):
    paths = [f"/nothing/{number}" for number in range(5)]
    async with connection(shared_broker) as (reader, writer):
        writer.write(b"".join(request(path) for path in paths))
        for path in paths:
            status, _, body = await reply_of(reader)
            assert status == 404
            assert path in json.loads(body)["detail"]


async def test_a_reply_to_head_has_no_body(shared_broker):
    async with connection(shared_broker) as (reader, writer):
        writer.write(request("/nothing", method="HEAD") + request("/nothing/more"))
        status, headers = await head_of(reader)
        assert (status, int(headers["content-length"]) > 0) == (404, True)
        assert "/nothing/more" in json.loads((await reply_of(reader))[2])["detail"]


@pytest.mark.parametrize(("headers", "version"), [(("connection: close",), "1.1"), ((), "1.0")])
async def test_the_connection_is_closed_when_the_caller_wants_it(shared_broker, headers, version):
    async with connection(shared_broker) as (reader, writer):
        writer.write(request("/nothing", *headers, version=version))
        status, found, _ = await reply_of(reader)
        assert (status, found["connection"]) == (404, "close")
        assert await asyncio.wait_for(reader.read(), 30) == b""


async def test_a_caller_that_asks_first_is_told_to_go_on(client, shared_broker):
    sent = request(tasks(client), "expect: 100-continue", method="POST", body=BODY)
    async with connection(shared_broker) as (reader, writer):
        writer.write(sent.removesuffix(BODY))
        assert (await head_of(reader))[0] == 100
        writer.write(BODY)
        assert (await reply_of(reader))[0] == 200


@pytest.mark.parametrize("path", ["/nothing%20here", "/nothing?limit=1", "/nothing#here"])
async def test_a_path_that_must_be_decoded_is(shared_broker, path):
    async with connection(shared_broker) as (reader, writer):
        writer.write(request(path) + request("/nothing/more"))
        detail = json.loads((await reply_of(reader))[2])["detail"]
        assert "%20" not in detail
        assert "?" not in detail
        assert "/nothing/more" in json.loads((await reply_of(reader))[2])["detail"]
