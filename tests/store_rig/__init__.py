"""Every store there is, opened again and again, and rows to put into it. A new one joins by an entry in OPENERS."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core_rig import CAPABILITY, NAMESPACE
from leadsman.wire.tasks import TaskClass, TaskState
from leadsman_broker.core.rows import AcceptedRow, EndedRow, Ending, LiveRow, Standing
from leadsman_broker.store.interface import Store
from leadsman_broker.store.memory import MemoryStore, MemoryTables
from leadsman_broker.store.sqlite import SqliteStore


class Opener:
    """Opens the same store again and again, as one process after another does."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._stores: list[Store] = []

    def __call__(self) -> Store:
        self.close()
        store = self._open()
        self._stores.append(store)
        return store

    def close(self) -> None:
        while self._stores:
            self._stores.pop().close()


def memory(_folder: Path) -> Callable[[], Store]:
    tables = MemoryTables()
    return lambda: MemoryStore(tables)


def sqlite(folder: Path) -> Callable[[], Store]:
    return lambda: SqliteStore(folder / "data")


OPENERS = {"memory": memory, "sqlite": sqlite}


@pytest.fixture(params=sorted(OPENERS))
def reopen(request, tmp_path) -> Iterator[Opener]:
    opener = Opener(OPENERS[request.param](tmp_path))
    yield opener
    opener.close()


@pytest.fixture
def store(reopen) -> Store:
    return reopen()


def standing(**fields) -> Standing:
    values = {
        "due_at": 100.0,
        "backing_off": False,
        "expires_at": None,
        "epoch": 0,
        "secret": "",
        "failures": 0,
        "reclaims": 0,
        "releases": 0,
        "poison": 0,
        "suspect": False,
        "cancel": False,
        "history": 0,
        "settled_epoch": 0,
        "settled_op": "",
        "settled_state": None,
        "lease_pod": None,
        "lease_incarnation": None,
        "lease_pool": None,
        "lease_attempt_id": None,
        "lease_started_at": None,
        "lease_expires_at": None,
    }
    return Standing(**{**values, **fields})


def task_id(seq: int) -> str:
    return f"{seq:012x}{seq:08x}"


def live(seq: int, **fields) -> LiveRow:
    values = {
        "seq": seq,
        "id": task_id(seq),
        "namespace": NAMESPACE,
        "capability": CAPABILITY,
        "tenant": "",
        "task_class": TaskClass.BACKGROUND,
        "priority": 0,
        "keyed": False,
        "accepted_at": 100.0,
        "max_attempts": 5,
        "run_id": "",
        "estimate": None,
        "standing": standing(),
    }
    return LiveRow(**{**values, **fields})


def ending(seq: int, state: TaskState = TaskState.COMPLETED) -> Ending:
    return Ending(EndedRow(live(seq), state, 200.0, 300.0, 300.0, False), None, None, None, None)


def accepted(seq: int, payload: bytes = b"null", key: str | None = None, **fields) -> AcceptedRow:
    return AcceptedRow(live(seq, keyed=key is not None, **fields), "default", payload, key, b"print", None)
