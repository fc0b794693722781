"""Stores as released versions of the schema wrote them: files that later programs must be able to go on from.

`python -m frozen_stores` adds one for the present version, to be done once per version at its release. It refuses
to write over one: a frozen file never changes.
"""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from core_rig import CAPABILITY, NAMESPACE, Rig
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.store.sqlite import SqliteStore

FOLDER = Path(__file__).parent


class FrozenStore(NamedTuple):
    """One frozen file, and what whoever wrote it knew: see `write_story`."""

    version: int
    packed: Path

    @property
    def known(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.packed.with_name(f"version-{self.version}.json").read_text())
        return found

    def unpack(self, folder: Path) -> Path:
        """Lay the file where a broker finds it; return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "leadsman.db"
        with gzip.open(self.packed) as packed, path.open("wb") as file:
            shutil.copyfileobj(packed, file)
        return path


def frozen_stores() -> list[FrozenStore]:
    found = [FrozenStore(int(path.name.split("-")[1].split(".")[0]), path) for path in FOLDER.glob("version-*.gz")]
    return sorted(found)


def write_story(store: SqliteStore) -> dict[str, Any]:
    """Fill a store with one task of every fate, and return what its clients know of them."""
    rig = Rig(CapabilityConfig(name=CAPABILITY, max_depth=100), CapabilityConfig(name="llm"), store=store)
    done, dead, cancelled, failed, held = (
        rig.submit(name=name, payload=json.dumps(name).encode(), idempotency_key=name, fingerprint=b"f" * 32)
        for name in ("done", "dead", "cancelled", "failed", "held")
    )
    rig.do(c.Cancel(NAMESPACE, cancelled.id))
    leases = {lease.task_id: lease for lease in rig.lease("w1", slots=4)}
    rig.ack(leases[done.id], b'"result"')
    rig.nack(leases[dead.id], retry=False, error_type="Fatal", error_message="no")
    rig.nack(leases[failed.id], checkpoint=b'{"page": 2}')
    rig.beat("w1", leases[held.id].token, checkpoints={leases[held.id].token: b'{"page": 7}'}, slots=4)
    ready = rig.submit(tenant="acme", priority=7, name="ready", payload=b'"ready"')
    later = rig.submit(delay_seconds=3600.0, name="later", payload=b'"later"')
    rig.do(c.Fence("op", ("gone",), 3600.0))
    return {
        "now": rig.now,
        "ids": {
            "done": done.id,
            "dead": dead.id,
            "cancelled": cancelled.id,
            "failed": failed.id,
            "held": held.id,
            "ready": ready.id,
            "later": later.id,
        },
        "held_token": leases[held.id].token,
        "done_token": leases[done.id].token,
    }


def freeze(scratch: Path) -> Path:
    """Write a frozen file of the present version; `scratch` is an empty folder."""
    store = SqliteStore(scratch)
    known = write_story(store)
    store.close()
    db = apsw.Connection(str(scratch / "leadsman.db"))
    version = int(db.pragma("user_version"))
    db.pragma("journal_mode", "delete")
    db.close()
    packed = FOLDER / f"version-{version}.db.gz"
    if packed.exists():
        raise SystemExit(f"{packed.name} is there, and a frozen file never changes")
    packed.write_bytes(gzip.compress((scratch / "leadsman.db").read_bytes(), mtime=0))
    packed.with_name(f"version-{version}.json").write_text(json.dumps(known, indent=2) + "\n")
    return packed
