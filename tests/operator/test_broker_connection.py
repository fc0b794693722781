"""The stream over a real connection: what counts as the broker's word, and what is done about the rest."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator

import pytest

from broker_impostor import NEVER_THE_BROKERS, WORK, Impostor, impostor_for
from fleet.waiting import until
from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.errors import BrokerError
from leadsman_operator.broker.state import BrokerState
from leadsman_operator.broker.stream import StatsStream
from leadsman_operator.broker.token import TokenFile


@contextlib.asynccontextmanager
async def following(impostor: Impostor) -> AsyncIterator[BrokerState]:
    state = BrokerState(stale_seconds=2)
    async with BrokerClient(impostor.url, TokenFile(None)) as client:
        stream = asyncio.create_task(StatsStream(client, state, lambda _: None).run())
        try:
            yield state
        finally:
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)


async def until_heard(state: BrokerState) -> None:
    async def look() -> bool:
        return state.fresh(asyncio.get_running_loop().time())

    await until("a fresh signal", look)


async def until_opened(impostor: Impostor, times: int) -> None:
    async def look() -> bool:
        return impostor.opened >= times

    await until(f"{times} openings", look)


@pytest.mark.parametrize("answer", NEVER_THE_BROKERS)
async def test_what_is_not_the_brokers_word_changes_nothing_and_is_not_heard(answer):
    async with impostor_for("ns") as impostor, following(impostor) as state:
        await until_heard(state)
        opened = impostor.opened

        impostor.turn(answer)
        await until_opened(impostor, opened + 1)
        heard_at = state.heard_at
        await until_opened(impostor, opened + 3)

        assert state.capabilities["ns", "browser"].waiting == WORK["waiting"]
        assert state.heard_at == heard_at

        impostor.turn("right")
        await until_heard(state)


class Away:
    """In the place of a broker's client: nobody answers."""

    url = "http://broker"

    def __init__(self) -> None:
        self.token, self.session = TokenFile(None), self
        self.asked_at: list[float] = []

    def get(self, *_: object, **__: object) -> contextlib.AbstractAsyncContextManager[object]:
        self.asked_at.append(asyncio.get_running_loop().time())
        raise ConnectionRefusedError


def test_operators_do_not_ask_a_broker_that_is_away_in_one_wave(virtual_time):
    operators = [Away() for _ in range(40)]

    async def scenario() -> None:
        streams = [
            asyncio.create_task(
                StatsStream(each, BrokerState(15), lambda _: None, rng=random.Random(number)).run()  # type: ignore[arg-type]
            )
            for number, each in enumerate(operators)
        ]
        await asyncio.sleep(120)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    virtual_time.run(scenario())
    for each in operators:
        assert len(each.asked_at) < 60, "pauses grow"
        assert all(2 < later - earlier < 8 for earlier, later in itertools.pairwise(each.asked_at[10:]))
    tenth = sorted(each.asked_at[10] for each in operators)
    assert tenth[-1] - tenth[0] > 5


@pytest.mark.parametrize("answer", ["another life", "yesterday"])
async def test_a_change_that_does_not_continue_the_stream_is_dropped(answer):
    async with impostor_for("ns") as impostor, following(impostor) as state:
        await until_heard(state)

        impostor.turn(answer)
        await until_opened(impostor, impostor.opened + 3)

        assert state.epoch == "e1"
        assert state.capabilities["ns", "browser"].waiting == WORK["waiting"]


async def test_a_refusal_is_told_with_what_the_other_side_said():
    async with impostor_for("ns") as impostor, BrokerClient(impostor.url, TokenFile(None)) as client:
        with pytest.raises(BrokerError, match="404"):
            await client.fence("operation", ["pod"], 300)


async def test_the_token_is_read_again_when_it_is_old_or_was_not_accepted(tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    token = TokenFile(path)
    assert token.headers() == {"Authorization": "Bearer first"}

    path.write_text("second")
    assert token.headers() == {"Authorization": "Bearer first"}
    token.renew()
    assert token.headers() == {"Authorization": "Bearer second"}

    path.unlink()
    token.renew()
    assert token.headers() == {"Authorization": "Bearer second"}, (
        "replaced by a rename, it may be away for a moment"
    )


async def test_a_token_file_that_never_was_is_an_error(tmp_path):
    with pytest.raises(OSError, match="token"):
        TokenFile(tmp_path / "token").headers()
