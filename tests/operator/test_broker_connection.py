"""The stream over a real connection: what counts as the broker's word, and what is done about the rest."""

import asyncio
import contextlib
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
