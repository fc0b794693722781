"""Whether a namespace ends is asked when something went without our doing: once, for all that went with it."""

import asyncio

import pytest

from leadsman_operator.kube.ending import ASKED_SECONDS, ENDING_SECONDS, EndingNamespaces
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.resources import Kind

ENDS = ApiError(403, "Forbidden", "no", {"causes": [{"reason": "NamespaceTerminating"}]})


class Server:
    """Answers dry runs as it is told to, when `reply` is set."""

    def __init__(self, refusal=None):
        self.refusal = refusal
        self.asked = []
        self.reply = asyncio.Event()
        self.reply.set()

    async def create(self, kind, namespace, body, *, dry_run):
        assert dry_run, "the question must not leave an object behind"
        assert kind is Kind.EVENT
        assert body["metadata"]["namespace"] == namespace
        self.asked.append(namespace)
        await self.reply.wait()
        if self.refusal is not None:
            raise self.refusal


def test_two_hundred_pools_that_lose_their_pods_at_once_ask_once(virtual_time):
    async def scene():
        server = Server(ENDS)
        server.reply.clear()
        ending = EndingNamespaces(server)
        asking = [asyncio.create_task(ending.explains("ns")) for _ in range(200)]
        await asyncio.sleep(0.1)
        server.reply.set()
        return await asyncio.gather(*asking), server.asked, ending.ends("ns"), ending.ends("other")

    assert virtual_time.run(scene()) == ([True] * 200, ["ns"], True, False)


def test_an_answer_that_it_ends_holds_for_a_while_and_is_then_asked_for_again(virtual_time):
    async def scene():
        server = Server(ENDS)
        ending = EndingNamespaces(server)
        await ending.explains("ns")
        await asyncio.sleep(ENDING_SECONDS - 1)
        held = await ending.explains("ns"), len(server.asked)
        await asyncio.sleep(2)
        return held, ending.ends("ns"), await ending.explains("ns"), len(server.asked)

    assert virtual_time.run(scene()) == ((True, 1), False, True, 2)


def test_pods_that_are_drained_one_by_one_cost_a_request_every_other_second(virtual_time):
    async def scene():
        server = Server()
        ending = EndingNamespaces(server)
        answers = []
        for _ in range(40):
            answers.append(await ending.explains("ns"))
            await asyncio.sleep(ASKED_SECONDS / 20)
        return set(answers), len(server.asked)

    assert virtual_time.run(scene()) == ({False}, 2)


@pytest.mark.parametrize(
    "refusal",
    [
        UnreachableError("no route"),
        ApiError(403, "Forbidden", "may not create events"),
        ApiError(429, "Busy", "later"),
    ],
)
def test_without_an_answer_what_went_is_seen_to_as_ever(virtual_time, refusal):
    async def scene():
        ending = EndingNamespaces(Server(refusal))
        return await ending.explains("ns"), ending.ends("ns")

    assert virtual_time.run(scene()) == (False, False)


def test_who_is_cancelled_while_he_asks_takes_the_answer_from_nobody(virtual_time):
    async def scene():
        server = Server(ENDS)
        server.reply.clear()
        ending = EndingNamespaces(server)
        first, second = (asyncio.create_task(ending.explains("ns")) for _ in range(2))
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.sleep(0.1)
        server.reply.set()
        return await second, first.cancelled()

    assert virtual_time.run(scene()) == (True, True)


def test_a_namespace_of_the_same_name_that_is_made_anew_is_asked_about_anew(virtual_time):
    async def scene():
        server = Server(ENDS)
        ending = EndingNamespaces(server)
        await ending.explains("ns")
        ending.begins("ns")
        server.refusal = None
        return ending.ends("ns"), await ending.explains("ns"), len(server.asked)

    assert virtual_time.run(scene()) == (False, False, 2)


def test_an_api_server_that_does_not_answer_holds_nobody_up_for_long(virtual_time):
    async def scene():
        server = Server(ENDS)
        server.reply.clear()
        began = asyncio.get_running_loop().time()
        answer = await EndingNamespaces(server).explains("ns")
        return answer, asyncio.get_running_loop().time() - began < 5

    assert virtual_time.run(scene()) == (False, True)
