"""Whether a namespace ends is found out when something went without our doing: once, for all that went with it."""

import asyncio

import pytest

from leadsman_operator.kube.connection import NoCredentialsError
from leadsman_operator.kube.ending import ASKED_SECONDS, ENDING_SECONDS, EndingNamespaces
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.resources import Kind

ENDS = ApiError(403, "Forbidden", "no", {"causes": [{"reason": "NamespaceTerminating"}]})


class Server:
    """Answers dry runs as it is told to, when `reply` is set."""

    def __init__(self, refusal=None):
        self.refusal = refusal
        self.asked = []
        self.open = 0
        self.reply = asyncio.Event()
        self.reply.set()

    async def create(self, kind, namespace, body, *, dry_run):
        assert dry_run, "the question must not leave an object behind"
        assert kind is Kind.EVENT
        assert body["metadata"]["namespace"] == namespace
        self.asked.append(namespace)
        self.open += 1
        try:
            await self.reply.wait()
        finally:
            self.open -= 1
        if self.refusal is not None:
            raise self.refusal


async def ask(ending, namespace="ns"):
    """Ask and wait for the answer."""
    ending.ask(namespace)
    for _ in range(1000):
        if not ending.unsure(namespace):
            break
        await asyncio.sleep(0.01)
    return ending.ends(namespace)


def test_two_hundred_pools_that_lose_their_pods_at_once_ask_once(virtual_time):
    async def scene():
        server = Server(ENDS)
        server.reply.clear()
        ending = EndingNamespaces(server)
        for _ in range(200):
            ending.ask("ns")
        await asyncio.sleep(0.1)
        unsure = ending.unsure("ns"), ending.unsure("other")
        server.reply.set()
        return unsure, await ask(ending), server.asked, ending.ends("other")

    assert virtual_time.run(scene()) == ((True, False), True, ["ns"], False)


def test_that_it_ends_holds_for_a_while_and_is_then_asked_again(virtual_time):
    async def scene():
        server = Server(ENDS)
        ending = EndingNamespaces(server)
        await ask(ending)
        await asyncio.sleep(ENDING_SECONDS - 1)
        held = await ask(ending), len(server.asked)
        await asyncio.sleep(2)
        return held, ending.ends("ns"), await ask(ending), len(server.asked)

    assert virtual_time.run(scene()) == ((True, 1), False, True, 2)


def test_pods_that_are_drained_one_by_one_cost_a_request_every_five_seconds(virtual_time):
    async def scene():
        server = Server()
        ending = EndingNamespaces(server)
        answers = set()
        for _ in range(50):
            answers.add(await ask(ending))
            await asyncio.sleep(ASKED_SECONDS / 20 + 0.001)
        return answers, len(server.asked)

    assert virtual_time.run(scene()) == ({False}, 3)


@pytest.mark.parametrize(
    "refusal",
    [
        UnreachableError("no route"),
        NoCredentialsError("no longer"),
        ApiError(403, "Forbidden", "may not create events"),
        ApiError(429, "TooManyRequests", "later"),
    ],
)
def test_without_an_answer_the_namespace_stays(virtual_time, refusal):
    async def scene():
        return await ask(EndingNamespaces(Server(refusal)))

    assert virtual_time.run(scene()) is False


def test_an_api_server_that_hangs_is_asked_once_and_holds_nothing_up_for_long(virtual_time):
    async def scene():
        server = Server(ENDS)
        server.reply.clear()
        ending = EndingNamespaces(server)
        began, most = asyncio.get_running_loop().time(), 0
        ending.ask("ns")
        while ending.unsure("ns"):
            await asyncio.sleep(0.1)
            ending.ask("ns")
            most = max(most, server.open)
        took = asyncio.get_running_loop().time() - began
        ending.ask("ns")
        assert not ending.unsure("ns"), "what is to be told has its turn"
        assert took < ASKED_SECONDS
        return most, len(server.asked), ending.ends("ns")

    assert virtual_time.run(scene()) == (1, 1, False)


def test_one_that_hangs_over_forty_namespaces_keeps_few_connections(virtual_time):
    async def scene():
        server = Server()
        server.reply.clear()
        ending = EndingNamespaces(server)
        names = [f"ns-{number}" for number in range(40)]
        for name in names:
            ending.ask(name)
        await asyncio.sleep(1)
        opened = server.open
        await asyncio.sleep(3)
        return opened, [name for name in names if ending.unsure(name)], server.open

    assert virtual_time.run(scene()) == (4, [], 0)


def test_an_answer_about_a_namespace_is_none_about_the_next_of_its_name(virtual_time):
    async def scene():
        server = Server(ENDS)
        server.reply.clear()
        ending = EndingNamespaces(server)
        ending.ask("ns")
        await asyncio.sleep(0.1)
        ending.begins("ns")
        server.reply.set()
        await asyncio.sleep(0.1)
        old = ending.ends("ns")
        server.refusal = None
        return old, await ask(ending), len(server.asked)

    assert virtual_time.run(scene()) == (False, False, 2)
