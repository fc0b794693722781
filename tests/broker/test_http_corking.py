"""A reply leaves in one send, and nothing waits for more than a turn of the loop."""

import asyncio

from leadsman_broker.http.corking import CorkedTransport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire:
    """A transport that notes what each send carried."""

    def __init__(self) -> None:
        self.sends: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.sends.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> str:
        return name


async def test_a_head_leaves_with_its_body():
    wire = Wire()
    corked = CorkedTransport(wire)
    for _ in range(2):
        corked.write(HEAD)
        corked.write(b"{}")
    assert wire.sends == [HEAD + b"{}", HEAD + b"{}"]
    await asyncio.sleep(0)
    assert len(wire.sends) == 2


async def test_the_head_of_a_stream_without_an_event_leaves_at_the_end_of_the_turn():
    wire = Wire()
    corked = CorkedTransport(wire)
    corked.write(HEAD)
    assert wire.sends == []
    await asyncio.sleep(0)
    assert wire.sends == [HEAD]
    corked.write(b"event")
    assert wire.sends == [HEAD, b"event"]


async def test_closing_sends_what_was_held_back():
    wire = Wire()
    corked = CorkedTransport(wire)
    corked.write(HEAD)
    corked.close()
    assert (wire.sends, wire.closed) == ([HEAD], True)
    await asyncio.sleep(0)
    assert wire.sends == [HEAD]


async def test_a_head_for_a_caller_who_is_gone_is_dropped():
    wire = Wire()
    corked = CorkedTransport(wire)
    corked.write(HEAD)
    wire.close()
    await asyncio.sleep(0)
    assert wire.sends == []


async def test_everything_else_is_the_transports_own():
    assert CorkedTransport(Wire()).get_extra_info("peername") == "peername"
