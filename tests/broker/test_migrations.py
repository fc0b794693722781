"""Files of older versions are brought up to date in one transaction, and go on as if nothing had happened."""

import apsw
import pytest

from core_rig import CAPABILITY, NAMESPACE, Rig, check
from frozen_stores import frozen_stores, write_story
from leadsman.wire.tasks import TaskState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Accepted
from leadsman_broker.store.errors import StoreError, StoreFencedError, StoreFullError, StoreVersionError
from leadsman_broker.store.sqlite import SqliteStore, opening
from leadsman_broker.store.sqlite.migrations import MIGRATIONS, SCHEMA_VERSION, Migration, migrate

FROZEN = frozen_stores()
frozen = pytest.mark.parametrize("frozen", FROZEN, ids=lambda frozen: f"version-{frozen.version}")

NEXT = Migration(SCHEMA_VERSION + 1, "next", "ALTER TABLE live ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';")


def schema_of(db):
    """Tables with their columns, and indexes: what two files must share, however they came to it."""
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    tables = {name: db.execute(f"PRAGMA table_xinfo({name})").fetchall() for name in names}
    indexes = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY name").fetchall()
    return tables, indexes


def version_of(path):
    db = apsw.Connection(str(path))
    try:
        return db.pragma("user_version")
    finally:
        db.close()


def test_there_is_a_frozen_file_of_the_first_version():
    assert FROZEN[0].version == 1


@frozen
def test_a_released_step_has_not_changed_since(frozen, tmp_path):
    kept = apsw.Connection(str(frozen.unpack(tmp_path)))
    made = apsw.Connection(":memory:")
    migrate(made, MIGRATIONS[: frozen.version])
    assert schema_of(made) == schema_of(kept), "a change of the schema is a new file in migrations/"
    kept.close()


@frozen
def test_an_older_file_has_the_schema_of_a_new_one_afterwards(frozen, tmp_path):
    path = frozen.unpack(tmp_path / "old")
    SqliteStore(tmp_path / "old").close()
    SqliteStore(tmp_path / "new").close()
    old, new = (apsw.Connection(str(file)) for file in (path, tmp_path / "new" / "leadsman.db"))
    assert schema_of(old) == schema_of(new)
    assert old.pragma("user_version") == SCHEMA_VERSION
    old.close()
    new.close()


@frozen
def test_work_in_an_older_file_goes_on(frozen, tmp_path):
    frozen.unpack(tmp_path)
    known, ids = frozen.known, frozen.known["ids"]
    store = SqliteStore(tmp_path)
    try:
        rig = Rig(store=store, goes_on_at=known["now"])
        check(rig.core)
        states = {name: rig.record(task_id).state_at(rig.now) for name, task_id in ids.items()}
        assert states == {
            "done": TaskState.COMPLETED,
            "dead": TaskState.DEAD,
            "cancelled": TaskState.CANCELLED,
            "failed": TaskState.DELAYED,
            "held": TaskState.LEASED,
            "ready": TaskState.READY,
            "later": TaskState.DELAYED,
        }
        assert rig.record(ids["done"]).result == b'"result"'
        assert rig.record(ids["dead"]).error_type == "Fatal"
        assert rig.core.state.queues[NAMESPACE, CAPABILITY].rules.max_depth == 100
        assert [fence.pod_uid for fence in rig.core.fence_stats(rig.now)] == ["gone"]

        again = rig.do(c.Ack(NAMESPACE, known["done_token"]))
        late = rig.do(c.Ack(NAMESPACE, known["held_token"], b'"late"'))
        repeat = rig.submit(idempotency_key="done", fingerprint=b"f" * 32)
        (redriven,) = rig.do(c.Redrive(NAMESPACE, CAPABILITY, (ids["dead"],)))
        rig.wait(10.0)
        granted = rig.lease("w2", slots=9)
        delivered = store.deliveries([lease.task_id for lease in granted])

        assert (again.ok, late.ok, redriven.redriven) == (True, True, True)
        assert repeat == Accepted(ids["done"], TaskState.COMPLETED, duplicate=True)
        assert [lease.task_id for lease in granted] == [ids["ready"], ids["dead"], ids["failed"]]
        assert delivered[ids["failed"]].checkpoint == b'{"page": 2}'
        assert delivered[ids["dead"]].payload == b'"dead"'
        check(rig.core)
    finally:
        store.close()


def file_of(version, path):
    """A file as an older program made it."""
    path.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(path / "leadsman.db"))
    migrate(db, MIGRATIONS[:version])
    return db


def test_tasks_redriven_before_it_was_kept_when_have_the_time_from_their_history(tmp_path):
    before = file_of(11, tmp_path)
    before.execute("INSERT INTO redriven (seq, operation) VALUES (1, 'fix'), (2, 'fix')")
    entry = "INSERT INTO history (seq, number, at, event, epoch) VALUES (?, ?, ?, ?, 1)"
    for seq, number, at, event in ((1, 1, 50.0, "redriven"), (1, 2, 70.0, "redriven"), (3, 1, 60.0, "redriven")):
        before.execute(entry, (seq, number, at, event))
    before.execute(entry, (4, 1, 80.0, "failed"))
    before.close()
    SqliteStore(tmp_path).close()

    after = apsw.Connection(str(tmp_path / "leadsman.db"))
    rows = after.execute("SELECT seq, operation, at FROM redriven ORDER BY seq").fetchall()
    after.close()
    assert rows == [(1, "fix", 70.0), (2, "fix", 0.0), (3, "", 60.0)]


def test_the_next_version_adds_its_step_and_the_present_one_then_refuses_the_file(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path)
    write_story(store)
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(opening, "MIGRATIONS", (*MIGRATIONS, NEXT))
        patch.setattr(opening, "SCHEMA_VERSION", NEXT.version)
        SqliteStore(tmp_path).close()

    assert version_of(tmp_path / "leadsman.db") == NEXT.version
    with pytest.raises(StoreVersionError, match="newer leadsman"):
        SqliteStore(tmp_path)


@pytest.mark.parametrize(
    "broken",
    [
        "ALTER TABLE live ADD COLUMN colour TEXT; ALTER TABLE nowhere ADD COLUMN x;",
        "ALTER TABLE live ADD COLUMN colour TEXT; INSERT INTO queues SELECT * FROM queues;",
    ],
)
def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch, broken):
    store = SqliteStore(tmp_path)
    ids = write_story(store)["ids"]
    store.close()
    before = schema_of(apsw.Connection(str(tmp_path / "leadsman.db")))
    with monkeypatch.context() as patch:
        patch.setattr(opening, "MIGRATIONS", (*MIGRATIONS, NEXT, Migration(NEXT.version + 1, "broken", broken)))
        with pytest.raises(StoreError):
            SqliteStore(tmp_path)

    assert version_of(tmp_path / "leadsman.db") == SCHEMA_VERSION
    assert schema_of(apsw.Connection(str(tmp_path / "leadsman.db"))) == before
    store = SqliteStore(tmp_path)
    assert ids["held"] in {row.id for row in store.load().tasks}
    store.close()


def test_a_file_without_room_for_its_step_is_told_as_a_full_disk_and_stays_usable(tmp_path, monkeypatch):
    store = SqliteStore(tmp_path)
    write_story(store)
    store.close()
    big = Migration(NEXT.version, "big", "CREATE TABLE big (x BLOB); INSERT INTO big VALUES (zeroblob(100000000));")

    def full(db, steps):
        db.pragma("max_page_count", db.pragma("page_count") + 4)
        return migrate(db, steps)

    with monkeypatch.context() as patch:
        patch.setattr(opening, "MIGRATIONS", (*MIGRATIONS, big))
        patch.setattr(opening, "migrate", full)
        with pytest.raises(StoreFullError, match="full"):
            SqliteStore(tmp_path)
    store = SqliteStore(tmp_path)
    assert len(list(store.load().tasks)) == 4
    store.close()


def test_the_process_before_a_migration_cannot_write_after_it(tmp_path, monkeypatch):
    old = SqliteStore(tmp_path)
    rig = Rig(store=old)
    rig.submit()
    (tmp_path / "lock").unlink()  # as on another machine, where the lock is not seen
    monkeypatch.setattr(opening, "MIGRATIONS", (*MIGRATIONS, NEXT))
    monkeypatch.setattr(opening, "SCHEMA_VERSION", NEXT.version)
    new = SqliteStore(tmp_path)
    try:
        with pytest.raises(StoreFencedError):
            rig.submit()
        assert len(list(new.load().tasks)) == 1
    finally:
        new.close()
        old.close()
