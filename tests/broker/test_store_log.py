"""A reader that stays open makes the write-ahead log grow: it is said, nobody waits, and it ends with it."""

import contextlib

import aiohttp
import apsw
import pytest
from structlog.testing import capture_logs

from broker_process import BrokerClient, eventually_async
from core_rig import Rig
from leadsman_broker.store.sqlite import SqliteStore
from leadsman_broker.store.sqlite import log as logs

MIB = 2**20


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "data", reserve_bytes=4 * MIB)
    yield opened
    opened.close()


@contextlib.contextmanager
def foreign_reader(folder):
    """Another program that has begun to read and does not go on."""
    db = apsw.Connection(str(folder / "leadsman.db"))
    db.execute("BEGIN")
    db.execute("SELECT * FROM meta").fetchall()
    try:
        yield
    finally:
        db.close()


def log_size(folder):
    return (folder / "leadsman.db-wal").stat().st_size


def test_a_log_that_a_reader_holds_is_reported_and_emptied_when_it_has_gone(store, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LONG_BYTES", 24 * MIB)
    rig = Rig(store=store)
    with capture_logs() as records, foreign_reader(tmp_path / "data"):
        rig.submit(150, payload=b"x" * 200_000)
        for _ in range(3):
            store.tend()
        space = store.space()
        assert space.log_bytes == log_size(tmp_path / "data") > 24 * MIB
        assert space.log_held_seconds > 0
    (warning,) = [record for record in records if record["log_level"] == "warning"]
    assert "another program holds the database open" in warning["event"]
    assert warning["log_bytes"] == space.log_bytes

    with capture_logs() as records:
        store.tend()

    assert log_size(tmp_path / "data") == 0
    assert store.space()[2:] == (0, 0.0)
    assert [record["event"] for record in records] == ["the store's log is short again"]


def test_a_short_log_is_left_alone(store, tmp_path):
    rig = Rig(store=store)
    with foreign_reader(tmp_path / "data"):
        rig.submit(10)
        store.tend()
        assert store.space().log_held_seconds == 0
        assert 0 < store.space().log_bytes == log_size(tmp_path / "data")


def test_a_log_that_is_long_for_no_reader_is_emptied_without_a_word(store, tmp_path):
    Rig(store=store).submit(150, payload=b"x" * 200_000)
    with capture_logs() as records:
        store.tend()
    assert log_size(tmp_path / "data") == 0
    assert records == []


def test_commits_go_on_while_the_log_is_held(store, tmp_path):
    rig = Rig(store=store)
    with foreign_reader(tmp_path / "data"):
        rig.submit(150, payload=b"x" * 200_000)
        store.tend()
        assert rig.ack(rig.lease_one()).ok


@pytest.mark.parametrize("small_disk", [64], indirect=True)
def test_a_disk_that_the_log_has_filled_is_usable_again_when_the_reader_has_gone(small_disk):
    """Without a commit: new work is refused, so that none may come."""
    store = SqliteStore(small_disk / "data", reserve_bytes=16 * MIB)
    try:
        rig = Rig(store=store)
        rig.submit(5, payload=b"x" * 200_000)
        with foreign_reader(small_disk / "data"):
            while not store.space().low:  # what is written and done again leaves the file as it is; the log grows
                rig.submit(5, payload=b"x" * 200_000)
                for lease in rig.lease("w1", slots=5):
                    rig.ack(lease)
            store.tend()
            assert store.space().low
        store.tend()
        assert not store.space().low
    finally:
        store.close()


async def test_a_broker_says_that_a_reader_holds_its_log(broker):
    async def metric(name):
        async with aiohttp.ClientSession() as session, session.get(broker.ops_url + "/metrics") as response:
            lines = (await response.text()).splitlines()
        (line,) = [line for line in lines if line.startswith(name + " ")]
        return float(line.split()[1])

    async with BrokerClient(broker.url) as client:
        await client.configure({"name": "work"})
        with foreign_reader(broker.data):
            for _ in range(5):
                await client.submit(*[{"capability": "work", "payload": "x" * 200_000}] * 20)

            async def held():
                return await metric("leadsman_store_log_held_seconds")

            await eventually_async(held, what="word of the log")
            assert await metric("leadsman_store_log_bytes") > 16 * MIB

        async def free():
            return await metric("leadsman_store_log_bytes") == 0

        await eventually_async(free, what="a short log")
        assert await metric("leadsman_store_log_held_seconds") == 0
