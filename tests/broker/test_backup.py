"""A backup is one moment of a broker that goes on working; a restore starts from it as from the past it is."""

import asyncio
import copy
import json
import os
import subprocess
import sys

import apsw
import pytest

from broker_process import BrokerClient, BrokerProcess, eventually_async
from core_rig import CAPABILITY, NAMESPACE, Rig, check, picture
from frozen_stores import frozen_stores, write_story
from leadsman_broker.store.errors import (
    BackupError,
    StoreFencedError,
    StoreVersionError,
)
from leadsman_broker.store.sqlite import SqliteStore
from leadsman_broker.store.sqlite import backup as backups
from leadsman_broker.store.sqlite.backup import back_up, restore
from leadsman_broker.store.sqlite.migrations import SCHEMA_VERSION


def quiet(_done, _total):
    """Show no progress."""


@pytest.fixture
def data(tmp_path):
    """The folder of a stopped broker, and what its clients know."""
    store = SqliteStore(tmp_path / "data")
    known = write_story(store)
    store.close()
    return tmp_path / "data", known


def run_cli(*arguments):
    command = [sys.executable, "-m", "leadsman.cli", "broker", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_backup_holds_what_the_store_holds(data, tmp_path):
    folder, known = data
    made = back_up(folder, tmp_path / "copy.db", quiet)

    restore(made.file, tmp_path / "other", quiet, replace=False)

    stores = SqliteStore(folder), SqliteStore(tmp_path / "other")
    try:
        assert (made.live, made.leased, made.version) == (4, 1, SCHEMA_VERSION)
        first, second = (list(store.load().tasks) for store in stores)
        assert first == second
        for task_id in known["ids"].values():
            records = [store.task(NAMESPACE, task_id, known["now"]) for store in stores]
            assert records[0] == records[1]
    finally:
        for store in stores:
            store.close()


def test_a_backup_is_one_plain_file(data, tmp_path):
    (tmp_path / "out").mkdir()
    back_up(data[0], tmp_path / "out" / "copy.db", quiet)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["copy.db"]
    db = apsw.Connection(str(tmp_path / "out" / "copy.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert db.pragma("journal_mode") == "delete"
    db.close()


def test_commits_while_it_is_made_are_not_in_it_and_do_not_disturb_it(tmp_path, monkeypatch):
    monkeypatch.setattr(backups, "PAGES_PER_STEP", 8)
    store = SqliteStore(tmp_path / "data")
    rig = Rig(store=store)
    rig.submit(50, payload=b"x" * 20_000)
    before = copy.deepcopy(picture(rig.core))
    seen = []

    def work(done, total):
        seen.append((done, total))
        for lease in rig.lease("w1", slots=5):
            rig.ack(lease)
        rig.submit(3, payload=b"y" * 20_000)

    made = back_up(tmp_path / "data", tmp_path / "copy.db", work)
    store.close()

    assert len(seen) > 20
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == made.size_bytes
    db = apsw.Connection(str(made.file))
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("SELECT count(*) FROM live").fetchall() == [(50,)]
    db.close()
    restore(made.file, tmp_path / "other", quiet, replace=False)
    other = SqliteStore(tmp_path / "other")
    try:
        again = Rig(store=other, goes_on_at=rig.now)
        check(again.core)
        assert picture(again.core) == before
    finally:
        other.close()


def test_after_a_restore_leases_are_ready_and_old_processes_cannot_write(tmp_path):
    old = SqliteStore(tmp_path / "data")
    rig = Rig(store=old)
    task = rig.submit()
    before = rig.lease_one()
    made = back_up(tmp_path / "data", tmp_path / "copy.db", quiet)
    (tmp_path / "data" / "lock").unlink()  # as on another machine, where the lock is not seen

    restored, aside = restore(made.file, tmp_path / "data", quiet, replace=True)

    with pytest.raises(StoreFencedError):
        rig.submit()
    assert restored.generation > made.generation
    assert aside is not None
    assert aside.exists()
    new = SqliteStore(tmp_path / "data")
    try:
        again = Rig(store=new, goes_on_at=rig.now + 3600.0)
        (lease,) = again.lease("w2")
        assert (lease.task_id, lease.maybe_ran) == (task.id, True)
        assert again.ack(before).code == "lease_lost"
        assert again.ack(lease).ok
        check(again.core)
    finally:
        new.close()
        old.close()


@pytest.mark.parametrize("frozen", frozen_stores(), ids=lambda frozen: f"version-{frozen.version}")
def test_a_backup_of_an_older_version_is_brought_up_to_date(frozen, tmp_path):
    path = frozen.unpack(tmp_path / "old")
    restore(path, tmp_path / "data", quiet, replace=False)
    store = SqliteStore(tmp_path / "data")
    try:
        rig = Rig(store=store, goes_on_at=frozen.known["now"] + 10.0)
        assert {lease.task_id for lease in rig.lease("w2", slots=9)} == {
            frozen.known["ids"][name] for name in ("ready", "failed", "held")
        }
    finally:
        store.close()


def test_the_second_of_two_restores_keeps_both_stores_of_before(data, tmp_path):
    made = back_up(data[0], tmp_path / "copy.db", quiet)
    asides = [restore(made.file, data[0], quiet, replace=True)[1] for _ in range(2)]
    assert len({*asides}) == 2
    assert all(aside.exists() for aside in asides)


def test_a_store_that_is_damaged_can_be_replaced(data, tmp_path):
    made = back_up(data[0], tmp_path / "copy.db", quiet)
    (data[0] / "leadsman.db").write_bytes(b"certainly not a database" * 100)
    (data[0] / "leadsman.db-wal").write_bytes(b"nor is this a log")

    _, aside = restore(made.file, data[0], quiet, replace=True)

    assert aside.read_bytes().startswith(b"certainly not")
    store = SqliteStore(data[0])
    assert len(list(store.load().tasks)) == 4
    store.close()


@pytest.mark.parametrize("what", ["no store", "there already", "no folder"])
def test_a_backup_that_cannot_be_made_says_why(what, data, tmp_path):
    folder, target = data[0], tmp_path / "copy.db"
    if what == "no store":
        folder = tmp_path / "nowhere"
    elif what == "there already":
        target.write_bytes(b"precious")
    else:
        target = tmp_path / "nowhere" / "copy.db"
    with pytest.raises(BackupError, match=what if what != "no store" else "there is no store"):
        back_up(folder, target, quiet)
    assert what != "there already" or target.read_bytes() == b"precious"


def test_a_backup_that_fails_half_way_leaves_nothing_behind(data, tmp_path, monkeypatch):
    monkeypatch.setattr(backups, "PAGES_PER_STEP", 1)

    def fail(done, _total):
        if done > 20_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(data[0], tmp_path / "copy.db", fail)
    assert not [path for path in tmp_path.iterdir() if "copy" in path.name]


def test_a_restore_that_fails_half_way_leaves_the_store_as_it_was(data, tmp_path, monkeypatch):
    made = back_up(data[0], tmp_path / "copy.db", quiet)
    before = (data[0] / "leadsman.db").read_bytes()
    monkeypatch.setattr(backups, "PAGES_PER_STEP", 1)

    def fail(done, _total):
        if done > 20_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(made.file, data[0], fail, replace=True)
    assert (data[0] / "leadsman.db").read_bytes() == before
    assert not list(data[0].glob("*restoring*"))


def test_a_restore_is_refused_without_a_word_while_there_is_a_store(data, tmp_path):
    made = back_up(data[0], tmp_path / "copy.db", quiet)
    with pytest.raises(BackupError, match="--replace"):
        restore(made.file, data[0], quiet, replace=False)


def test_a_restore_is_refused_while_a_broker_runs(data, tmp_path):
    made = back_up(data[0], tmp_path / "copy.db", quiet)
    running = SqliteStore(data[0])
    shown = run_cli("restore", "--from", made.file, "--data", data[0], "--replace")
    running.close()
    assert shown.returncode == 1
    assert f"is in use by process {os.getpid()}" in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("content", [b"certainly not a database" * 100, b""])
def test_a_file_that_is_no_backup_is_refused(content, data, tmp_path):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises((StoreVersionError, BackupError)):
        restore(tmp_path / "other", data[0], quiet, replace=True)


def test_a_backup_of_a_newer_program_or_another_one_is_refused(data, tmp_path):
    made = back_up(data[0], tmp_path / "copy.db", quiet)
    db = apsw.Connection(str(made.file))
    db.pragma("user_version", SCHEMA_VERSION + 1)
    with pytest.raises(StoreVersionError, match="newer leadsman"):
        restore(made.file, tmp_path / "data2", quiet, replace=False)
    db.pragma("application_id", 7)
    db.close()
    with pytest.raises(StoreVersionError, match="another program"):
        restore(made.file, tmp_path / "data2", quiet, replace=False)


def test_a_damaged_backup_is_refused(data, tmp_path):
    made = back_up(data[0], tmp_path / "copy.db", quiet)
    content = bytearray(made.file.read_bytes())
    content[4096 * 3 : 4096 * 9] = os.urandom(4096 * 6)
    made.file.write_bytes(content)
    with pytest.raises(Exception, match=r"damaged|malformed"):
        restore(made.file, tmp_path / "data2", quiet, replace=False)
    assert not (tmp_path / "data2" / "leadsman.db").exists()


@pytest.mark.parametrize("small_disk", [3], indirect=True)
def test_a_copy_that_does_not_fit_is_refused_before_it_begins(small_disk, tmp_path):
    store = SqliteStore(tmp_path / "data")
    Rig(store=store).submit(20, payload=b"x" * 200_000)
    try:
        with pytest.raises(BackupError, match=r"has 3 MiB free.*choose another disk"):
            back_up(tmp_path / "data", small_disk / "copy.db", quiet)
    finally:
        store.close()
    assert not list(small_disk.iterdir())


@pytest.mark.parametrize("small_disk", [3], indirect=True)
def test_a_backup_beside_the_data_must_leave_the_broker_its_reserve(small_disk):
    store = SqliteStore(small_disk / "data", reserve_bytes=65_536)
    try:
        with pytest.raises(BackupError, match="needs its reserve"):
            back_up(small_disk / "data", small_disk / "copy.db", quiet)
    finally:
        store.close()


async def test_a_broker_under_load_is_backed_up_and_the_copy_has_all_that_was_accepted_before(tmp_path):
    """Real process, real clients, the real command; then a real broker on the restored file."""
    broker = BrokerProcess(tmp_path / "broker")
    stop = asyncio.Event()
    accepted, acked = [], set()

    async def produce(client):
        while not stop.is_set():
            results = await client.submit(*[{"capability": CAPABILITY, "payload": "x" * 5_000}] * 10)
            accepted.extend(result["id"] for result in results)

    async def work(client, pod):
        while not stop.is_set():
            leases = (await client.lease(pod, capabilities=[CAPABILITY], slots=10, wait=0.2))["leases"]
            kept, done = leases[:2], leases[2:]
            if done:
                await client.ack(*(lease["token"] for lease in done))
                acked.update(lease["task"]["id"] for lease in done)
            for lease in kept:
                await client.release(lease["token"])

    async def enough_work_done():
        return len(acked) >= 50

    with broker:
        async with BrokerClient(broker.url) as one, BrokerClient(broker.url) as two:
            await one.configure({"name": CAPABILITY})
            held = (await one.submit({"capability": CAPABILITY}))[0]["id"]
            lease = (await one.lease("holder", capabilities=[CAPABILITY]))["leases"][0]
            load = [asyncio.create_task(produce(one)), asyncio.create_task(work(two, "pod-1"))]
            await eventually_async(enough_work_done, what="work that is done")
            before, done_before = [*accepted], set(acked)
            shown = await asyncio.to_thread(run_cli, "backup", "--data", broker.data, "--to", tmp_path / "copy.db")
            during = len(accepted)
            stop.set()
            await asyncio.gather(*load)
        assert broker.terminate() == 0
        assert shown.returncode == 0, shown.stderr
        made = json.loads(shown.stdout)["backup"]
        assert during > len(before), "the broker went on meanwhile"
        assert made["leased_tasks"] >= 1

        shown = await asyncio.to_thread(
            run_cli, "restore", "--from", tmp_path / "copy.db", "--data", broker.data, "--replace"
        )
        assert shown.returncode == 0, shown.stderr
        broker.start()
        async with BrokerClient(broker.url) as client:
            for task_id in before:
                view = await client.task(task_id)
                if task_id in done_before:
                    assert view["state"] == "completed"
                else:
                    assert view["state"] in {"ready", "delayed", "completed"}
            again = (await client.lease("new", capabilities=[CAPABILITY], slots=1000))["leases"]
            assert {held} <= {lease["task"]["id"] for lease in again}
            assert all(lease["task"]["maybe_ran"] for lease in again)
            assert (await client.ack(lease["token"]))[0]["code"] == "lease_lost"
            fresh = (await client.submit({"capability": CAPABILITY, "priority": 9}))[0]["id"]
            (lease,) = (await client.lease("newer", capabilities=[CAPABILITY], slots=1))["leases"]
            assert (lease["task"]["id"], lease["task"].get("maybe_ran")) == (fresh, None)


async def test_nobody_sees_the_leases_of_a_restored_backup(tmp_path):
    broker = BrokerProcess(tmp_path / "broker")
    with broker:
        async with BrokerClient(broker.url) as client:
            await client.configure({"name": CAPABILITY})
            ids = [result["id"] for result in await client.submit(*[{"capability": CAPABILITY}] * 20)]
            await client.lease(capabilities=[CAPABILITY], slots=20)
        broker.kill()
        back_up(broker.data, tmp_path / "copy.db", quiet)
        restore(tmp_path / "copy.db", broker.data, quiet, replace=True)
        broker.start()
        async with BrokerClient(broker.url) as client:
            states = {(await client.task(task_id))["state"] for task_id in ids}
    assert states == {"ready"}
