"""What is special about the SQLite store: the file, the lock, the log, the disk."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.rows import Changes, TotalsRow
from leadsman_broker.core.settings import Settings
from leadsman_broker.store.dead import DeadQuery
from leadsman_broker.store.errors import (
    StoreError,
    StoreFencedError,
    StoreFullError,
    StoreVersionError,
)
from leadsman_broker.store.sqlite import SqliteStore
from leadsman_broker.store.sqlite.migrations import SCHEMA_VERSION

SOME = Changes(totals={(NAMESPACE, CAPABILITY): TotalsRow(accepted=1)})


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(folder):
    opened = SqliteStore(folder)
    yield opened
    opened.close()


def test_every_commit_is_on_disk_before_it_returns(store):
    assert store._writer.pragma("journal_mode") == "wal"
    assert store._writer.pragma("synchronous") == 2
    assert tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) >= (3, 51, 3)


def test_a_second_process_is_refused_with_the_name_of_the_first(store, folder):
    code = (
        "import sys; from pathlib import Path; from leadsman_broker.store.sqlite import SqliteStore\n"
        "from leadsman_broker.store.errors import StoreLockedError\n"
        "try: SqliteStore(Path(sys.argv[1]))\n"
        "except StoreLockedError as error: print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    assert f"process {os.getpid()} on " in shown.stdout
    store.commit(SOME)


def test_the_folder_is_free_again_after_close(folder):
    for _ in range(3):
        SqliteStore(folder).close()


def test_an_old_process_that_a_lock_cannot_see_may_not_write_once_a_new_one_has_started(folder):
    old = SqliteStore(folder)
    rig = Rig(store=old)
    task = rig.submit()
    (folder / "lock").unlink()  # as on another machine, where the lock is not seen
    new = SqliteStore(folder)
    try:
        with pytest.raises(StoreFencedError, match="newer process"):
            rig.lease_one()
        with pytest.raises(StoreError):
            old.commit(SOME)
        (row,) = new.load().tasks
        assert (row.id, row.standing.epoch) == (task.id, 0)
        new.commit(SOME)
    finally:
        old.close()
        new.close()


def test_a_file_of_a_newer_program_is_refused_and_left_as_it_is(folder):
    SqliteStore(folder).close()
    with apsw.Connection(str(folder / "leadsman.db")) as db:
        db.pragma("user_version", SCHEMA_VERSION + 1)
    db.close()
    before = (folder / "leadsman.db").read_bytes()
    with pytest.raises(StoreVersionError, match=f"newer leadsman .file version {SCHEMA_VERSION + 1}"):
        SqliteStore(folder)
    assert (folder / "leadsman.db").read_bytes() == before


def test_a_database_of_another_program_is_refused(folder):
    folder.mkdir()
    db = apsw.Connection(str(folder / "leadsman.db"))
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(StoreVersionError, match="another program"):
        SqliteStore(folder)


def test_a_file_that_is_no_database_is_refused(folder):
    folder.mkdir()
    (folder / "leadsman.db").write_bytes(b"certainly not a database" * 100)
    with pytest.raises(StoreVersionError, match="not a database"):
        SqliteStore(folder)


def test_a_refused_file_does_not_keep_the_folder_locked(folder):
    folder.mkdir()
    (folder / "leadsman.db").write_bytes(b"certainly not a database" * 100)
    for _ in range(2):
        with pytest.raises(StoreVersionError):
            SqliteStore(folder)
    (folder / "leadsman.db").unlink()
    SqliteStore(folder).close()


def test_a_commit_that_fails_leaves_nothing_behind_and_ends_the_store(store):
    rig = Rig(store=store)
    task = rig.submit()
    duplicate = rig.last.changes
    other = Changes(accepted=duplicate.accepted, totals={(NAMESPACE, "x"): TotalsRow(accepted=9)})
    with pytest.raises(StoreError, match="UNIQUE"):
        store.commit(other)
    assert store.load().totals[NAMESPACE, CAPABILITY].accepted == 1
    assert (NAMESPACE, "x") not in store.load().totals
    assert store.task(NAMESPACE, task.id, rig.now) is not None
    with pytest.raises(StoreError, match="must end"):
        store.commit(SOME)


def fill(rig: Rig, size: int) -> list[str]:
    """Enqueue until the store is full; return what was accepted."""
    kept = []

    def accept_for_ever() -> None:
        while True:
            kept.append(rig.submit(payload=b"x" * size).id)

    with pytest.raises(StoreFullError, match="is full"):
        accept_for_ever()
    return kept


def test_a_full_store_is_told_apart_and_nothing_that_was_accepted_is_lost(folder):
    store = SqliteStore(folder)
    store._writer.pragma("max_page_count", 60)
    kept = fill(Rig(store=store), 10_000)
    store.close()
    store = SqliteStore(folder)
    try:
        assert [row.id for row in store.load().tasks] == kept
        rig = Rig(store=store)
        rig.ack(rig.lease_one())
        assert rig.submit(payload=b"x" * 10_000).id not in kept
    finally:
        store.close()


@pytest.mark.parametrize("small_disk", [24], indirect=True)
def test_a_disk_that_fills_up_refuses_new_work_before_settlements_and_takes_it_again_when_work_is_done(small_disk):
    store = SqliteStore(small_disk / "data", reserve_bytes=4 * 2**20)
    try:
        rig = Rig(store=store)
        payload = b"x" * 100_000
        accepted = 0
        while not store.space().low:
            rig.submit(payload=payload)
            accepted += 1
        assert accepted > 10
        for _ in range(accepted - 5):
            granted = rig.lease_one()
            assert rig.beat("w1", granted.token, checkpoints={granted.token: b"1" * 1000}).leases
            assert rig.ack(granted, b"1" * 1000).ok
        assert not store.space().low
        assert rig.submit(payload=payload).id
    finally:
        store.close()


def take_all_space(folder: Path) -> None:
    """Fill a disk to its last byte, as another program might."""
    with (folder / "junk").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert os.statvfs(folder).f_bavail == 0


@pytest.mark.parametrize("small_disk", [96], indirect=True)
def test_a_broker_whose_disk_is_full_to_the_last_byte_starts_again_and_settles(small_disk):
    folder = small_disk / "data"
    store = SqliteStore(folder)
    rig = Rig(store=store)
    first = rig.submit(20, payload=b"x" * 200_000)
    held = rig.lease("w1", slots=10)
    take_all_space(small_disk)
    kept = [*(task.id for task in first), *fill(rig, 200_000)]
    take_all_space(small_disk)  # what the failed commit let go of
    store.close()
    take_all_space(small_disk)
    store = SqliteStore(folder)
    try:
        assert [row.id for row in store.load().tasks] == kept
        rig = Rig(store=store)
        assert store.space().low
        for lease in held:
            assert rig.ack(lease, b"1").ok
    finally:
        store.close()


@pytest.mark.parametrize("small_disk", [4], indirect=True)
def test_a_start_without_any_space_is_told_in_a_clear_line(small_disk):
    folder = small_disk / "data"
    SqliteStore(folder).close()
    take_all_space(small_disk)
    for _ in range(2):
        with pytest.raises(StoreFullError, match=r"disk of .* is full"):
            SqliteStore(folder)
    (small_disk / "junk").unlink()
    SqliteStore(folder).close()


def test_the_log_stays_small_under_steady_work(store, folder):
    rig = Rig(store=store)
    for _ in range(60):
        rig.submit(20, payload=b"x" * 20_000)
        for lease in rig.lease("w1", slots=20):
            rig.ack(lease)
    assert (folder / "leadsman.db-wal").stat().st_size < 24 * 2**20


def test_the_space_of_ended_tasks_is_used_again(store, folder):
    rig = Rig(CapabilityConfig(name=CAPABILITY, completed_retention_seconds=1), store=store)

    def round_of_work() -> int:
        rig.submit(100, payload=b"x" * 20_000)
        for lease in rig.lease("w1", slots=100):
            rig.ack(lease)
        rig.wait(35)
        return (folder / "leadsman.db").stat().st_size

    first = [round_of_work() for _ in range(5)][-1]
    assert [round_of_work() for _ in range(15)][-1] <= first * 1.5


def test_a_listing_that_is_never_finished_holds_no_snapshot(store):
    rig = Rig(store=store)
    rig.submit(50)
    for lease in rig.lease("w1", slots=50):
        rig.nack(lease, retry=False)
    store.dead(DeadQuery(NAMESPACE, CAPABILITY, limit=5), rig.now)
    rig.submit()
    busy, _, _ = store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0


def test_reads_beside_a_commit_see_it_before_or_after_and_never_between(store):
    rig = Rig(store=store)
    failures = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                for row in list(store.load().tasks):
                    record = store.task(NAMESPACE, row.id, rig.now)
                    if record is None:
                        failures.append("a task was nowhere")
        except BaseException as error:  # noqa: BLE001  # reported by the main thread
            failures.append(repr(error))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(100):
            rig.submit(5)
            for lease in rig.lease("w1", slots=5):
                rig.ack(lease)
    finally:
        stop.set()
        reader.join()
    assert failures == []


WRITER = """
import sys
from pathlib import Path
from core_rig import NAMESPACE, Rig
from leadsman_broker.core import commands as c
from leadsman_broker.store.sqlite import SqliteStore

rig = Rig(store=SqliteStore(Path(sys.argv[1])))
number = 0
while True:
    number += 1
    tasks = rig.submit(3, idempotency_key=None, payload=b"x" * 3000)
    print("accepted", *(task.id for task in tasks), flush=True)
    held = rig.lease("w1", slots=10_000, free=2)
    if held:
        rig.run([c.Ack(NAMESPACE, lease.token) for lease in held])
        print("completed", *(lease.task_id for lease in held), flush=True)
"""


@pytest.mark.parametrize("after_lines", [1, 7, 40, 150])
def test_kill_9_loses_nothing_that_was_answered(folder, after_lines):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True, env=environment
    )
    said: dict[str, set[str]] = {"accepted": set(), "completed": set()}
    with writer:
        for number, line in enumerate(writer.stdout, start=1):
            word, *ids = line.split()
            said[word].update(ids)
            if number == after_lines:
                writer.send_signal(signal.SIGKILL)
                break
        # what it printed before it died was answered too
        for line in writer.stdout:
            if line.endswith("\n"):
                word, *ids = line.split()
                said[word].update(ids)
    store = SqliteStore(folder)
    try:
        rig = Rig(store=store)
        live = {row.id for row in rig.core.state.tasks.values()}
        completed = {
            task
            for task in said["accepted"] | said["completed"]
            if (record := rig.record(task)) is not None and record.ended is not None
        }
        assert said["completed"] <= completed
        assert said["accepted"] - completed <= live
        assert not live & completed
    finally:
        store.close()


def test_a_copy_of_the_file_made_while_it_was_closed_opens_with_all_that_was_in_it(folder, tmp_path):
    store = SqliteStore(folder)
    rig = Rig(store=store)
    ids = [task.id for task in rig.submit(5)]
    store.close()
    shutil.copytree(folder, tmp_path / "copy")
    copy = SqliteStore(tmp_path / "copy")
    assert [row.id for row in copy.load().tasks] == ids
    copy.close()


def test_thousands_of_rows_due_for_removal_do_not_hold_up_a_step(store):
    rig = Rig(
        CapabilityConfig(name=CAPABILITY, completed_retention_seconds=1),
        store=store,
        settings=Settings(reclaim_jitter=0.0),
    )
    rig.submit(3000)
    rig.run([c.Ack(NAMESPACE, lease.token) for lease in rig.lease("w1", slots=3000)])
    rig.freeze(60)
    sizes = []
    while True:
        rig.run()
        sizes.append(len(rig.last.changes.purged))
        if not sizes[-1]:
            break
    assert sizes == [500] * 6 + [0]
