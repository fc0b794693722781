"""What a caller sees on the socket, whichever way a request and its reply took."""

import pytest

from raw_http import raw_connection, raw_request

BODY = b'{"tasks":[{"capability":"work"}]}'


def submit(client, *headers: str) -> bytes:
    return raw_request(f"/v1/namespaces/{client.namespace}/tasks", *headers, method="POST", body=BODY)


async def test_replies_on_one_connection_carry_type_length_and_date(client, shared_broker):
    async with raw_connection(shared_broker.port) as raw:
        for _ in range(3):
            reply = await raw.ask(submit(client))
            assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
            assert "date" in reply.headers
            assert reply.json["results"][0]["accepted"]


async def test_requests_sent_without_waiting_are_answered_in_order(shared_broker):
    paths = [f"/nothing/{number}" for number in range(5)]
    async with raw_connection(shared_broker.port) as raw:
        raw.send(*(raw_request(path) for path in paths))
        for path in paths:
            reply = await raw.reply()
            assert reply.status == 404
            assert path in reply.json["detail"]


async def test_a_reply_to_head_has_no_body(shared_broker):
    async with raw_connection(shared_broker.port) as raw:
        raw.send(raw_request("/nothing", method="HEAD"), raw_request("/nothing/more"))
        head = await raw.head()
        assert (head.status, int(head.headers["content-length"]) > 0) == (404, True)
        assert "/nothing/more" in (await raw.reply()).json["detail"]


@pytest.mark.parametrize(("headers", "version"), [(("connection: close",), "1.1"), ((), "1.0")])
async def test_the_connection_is_closed_when_the_caller_wants_it(shared_broker, headers, version):
    async with raw_connection(shared_broker.port) as raw:
        reply = await raw.ask(raw_request("/nothing", *headers, version=version))
        assert (reply.status, reply.headers["connection"]) == (404, "close")
        assert await raw.end() == b""


async def test_a_caller_that_asks_first_is_told_to_go_on(client, shared_broker):
    sent = submit(client, "expect: 100-continue")
    async with raw_connection(shared_broker.port) as raw:
        for _ in range(2):
            raw.send(sent.removesuffix(BODY))
            assert (await raw.head()).status == 100
            assert (await raw.ask(BODY)).status == 200


@pytest.mark.parametrize("path", ["/nothing%20here", "/nothing?limit=1", "/nothing#here"])
async def test_a_path_that_must_be_decoded_is(shared_broker, path):
    async with raw_connection(shared_broker.port) as raw:
        detail = (await raw.ask(raw_request(path), raw_request("/nothing/more"))).json["detail"]
        assert "%20" not in detail
        assert "?" not in detail
        assert "/nothing/more" in (await raw.reply()).json["detail"]
