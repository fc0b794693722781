"""kill -9 and failing writes at random moments, round after round, and then every task is accounted for."""

import asyncio
import contextlib
import subprocess
from random import Random

import apsw
import pytest

from broker_load import Seen, cancel, check, drain, produce, work
from broker_process import BrokerClient, BrokerStartError
from core_rig import check as check_core
from faulty_disk import Fault, FaultyBroker
from leadsman_broker.cli.process import EXIT_FAILED
from leadsman_broker.core.core import Core
from leadsman_broker.engine import Clock
from leadsman_broker.store.sqlite import SqliteStore

LEASE_SECONDS = 60
"""Long: what is looked for is a loss by the broker's fault, not by a machine that is busy."""
PRODUCERS, WORKERS = 2, 5
FAULTY = 0.36
"""The share of rounds that a failing disk is to end; the others end with a kill."""


async def until(broker: FaultyBroker, seconds: float) -> bool:
    """Wait until the broker ends by itself, at most so long; say whether it did."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(broker.wait, seconds)
    return not broker.alive


async def busy(broker: FaultyBroker, seen: Seen, before: int) -> bool:
    """Wait until this round has seen work, however slow the machine is; False when the broker ended first."""
    while len(seen.accepted) < before + 6 and broker.alive:  # noqa: ASYNC110  a process, not an event of this loop
        await asyncio.sleep(0.02)
    return broker.alive


async def one_round(broker: FaultyBroker, dice: Random, seen: Seen) -> bool:
    """Start the broker, and end it in one way or the other; say whether it was its disk that ended it."""
    before = len(seen.accepted)
    broker.fault = Fault.drawn(dice) if dice.random() < FAULTY else None
    try:
        await asyncio.to_thread(broker.start)
    except BrokerStartError as error:
        if broker.fault is None or error.exit_code != 1:
            raise
        return True
    if await until(broker, dice.uniform(0.1, 0.8) if broker.fault is None else 15.0) or not await busy(
        broker, seen, before
    ):
        assert broker.fault is not None, broker.log[-2000:]
        assert broker.wait() == EXIT_FAILED
        return True
    await asyncio.to_thread(broker.kill)
    return False


async def run_rounds(broker: FaultyBroker, rounds: int, seed: int) -> tuple[Seen, int]:
    dice = Random(seed)
    broker.start()
    async with BrokerClient(broker.url) as client:
        await client.configure({"name": "work", "lease_seconds": LEASE_SECONDS, "max_attempts": 100})
    seen = Seen()
    broker.kill()
    load = [
        *(asyncio.create_task(produce(broker.url, seen, number)) for number in range(PRODUCERS)),
        *(asyncio.create_task(work(broker.url, seen, number, Random(seed + number))) for number in range(WORKERS)),
        asyncio.create_task(cancel(broker.url, seen, Random(seed))),
    ]
    failed = 0
    for _ in range(rounds):
        failed += await one_round(broker, dice, seen)
        broken = [task for task in load if task.done()]
        assert not broken, broken
        assert not seen.broken, seen.broken
    broker.fault = None
    await asyncio.to_thread(broker.start)
    seen.stop.set()
    await asyncio.gather(*load)
    return seen, failed


async def hold(folder, rounds: int, seed: int) -> None:
    with FaultyBroker(folder) as broker:
        broker.kill()
        seen, failed = await run_rounds(broker, rounds, seed)
        async with BrokerClient(broker.url) as client:
            await check(client, seen, await drain(client))
        assert broker.terminate() == 0

    assert len(seen.accepted) > rounds * 5
    assert seen.repeats > rounds
    assert failed > rounds // 8, "the disk hardly ever failed"
    db = apsw.Connection(str(broker.data / "leadsman.db"))
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    store = SqliteStore(broker.data)
    try:
        stored = store.load()
        check_core(Core(stored, Clock(stored.last_at).now(), Random(1)))
    finally:
        store.close()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [2026, 2027, 2028])  # three, so that processes can share them
async def test_every_task_is_accounted_for_after_kills_and_failing_disks(tmp_path, seed):
    await hold(tmp_path / "broker", 12, seed)  # 23 kills together, and 13 failing disks


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.long_only
@pytest.mark.parametrize("seed", range(5))
async def test_every_task_is_accounted_for_after_five_hundred_rounds(tmp_path, seed):
    await hold(tmp_path / "broker", 100, seed)
