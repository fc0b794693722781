"""One folder per run with a manifest of all it owns, so that a killed run can be cleared by the next.

A run is abandoned when nobody holds its lock and it was not handed over as "up and detached" with
something still alive. Clearing goes by recorded identity, never by program name.
"""

import json
import os
import random
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from . import cgroups, network
from .errors import ClusterError
from .locking import FileLock, locked
from .places import runs_root
from .processes import Identity, end, marked
from .progress import say

# Below the usual range of outgoing connections and below the NodePort range.
_PORTS = range(18000, 30000)
STARTING = "starting"
UP = "up"


@dataclass
class Manifest:
    """What a run owns on this machine; written before the thing it names is made."""

    id: str
    name: str
    kind: str
    detached: bool
    state: str
    block: str
    ports: dict[str, int]
    link: str = ""
    cgroup: str = ""
    kubeconfig: str = ""
    processes: list[Identity] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Read a manifest back."""
        data: dict[str, Any] = json.loads(path.read_text())
        data["processes"] = [Identity(**one) for one in data["processes"]]
        return cls(**data)


class Run:
    """One run's folder, lock and manifest."""

    def __init__(self, folder: Path, manifest: Manifest, lock: FileLock | None) -> None:
        self.folder = folder
        self.manifest = manifest
        self._lock = lock

    @classmethod
    def create(cls, *, kind: str, name: str | None, detached: bool, ports: tuple[str, ...]) -> "Run":
        """Clear abandoned runs, then claim a new id, an address block and free ports.

        Raises ClusterError when a run of that name is up.
        """
        with _registry():
            clear_abandoned()
            others = list(_read_all())
            if name and any(run.manifest.name == name for run in others):
                raise ClusterError(f"cluster {name!r} is already up; take it down first, or choose another name")
            identifier = secrets.token_hex(4)
            folder = runs_root() / identifier
            folder.mkdir(mode=0o700)
            lock = FileLock(folder / "lock")
            lock.acquire(wait=False)
            taken_ports = {port for run in others for port in run.manifest.ports.values()}
            manifest = Manifest(
                id=identifier,
                name=name or identifier,
                kind=kind,
                detached=detached,
                state=STARTING,
                block=str(network.free_block({run.manifest.block for run in others})),
                ports=dict(zip(ports, _free_ports(len(ports), taken_ports), strict=True)),
            )
            run = cls(folder, manifest, lock)
            run.save()
            (folder / "logs").mkdir()
            return run

    @property
    def id(self) -> str:
        """The run's short unique id; interface and cgroup names are made from it."""
        return self.manifest.id

    @property
    def plan(self) -> network.AddressPlan:
        """The addresses of this run."""
        return network.AddressPlan.of(self.manifest.block)

    def log(self, name: str) -> Path:
        """Return the log file of one program."""
        return self.folder / "logs" / f"{name}.log"

    def save(self) -> None:
        """Write the manifest whole or not at all."""
        temporary = self.folder / "manifest.json.new"
        temporary.write_text(json.dumps(asdict(self.manifest), indent=1))
        temporary.replace(self.folder / "manifest.json")

    def record(self, identity: Identity) -> None:
        """Add a process to what this run owns."""
        self.manifest.processes.append(identity)
        self.save()

    def hand_over(self) -> None:
        """Mark the run as complete; a detached one outlives this process from here on."""
        self.manifest.state = UP
        self.save()
        if self.manifest.detached:
            self.release()

    def release(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def clear(self) -> None:
        """End every process of the run and remove its link, cgroups, mounts and folder."""
        end(self.living())
        if self.manifest.link:
            network.remove_link(self.manifest.link)
        if self.manifest.cgroup:
            cgroups.remove(self.manifest.cgroup)
        network.unmount_below(self.folder)
        # A killed harness may have spawned between two reads of the process table.
        end(marked(self.id))
        shutil.rmtree(self.folder)
        self.release()

    def living(self) -> list[Identity]:
        """Return the processes of this run that still run."""
        recorded = [one for one in self.manifest.processes if one.alive()]
        known = {one.pid for one in recorded}
        return recorded + [one for one in marked(self.id) if one.pid not in known]

    def abandoned(self) -> bool:
        """Tell whether nobody will ever take this run down."""
        if self._lock is not None:
            return False
        probe = FileLock(self.folder / "lock")
        if not probe.acquire(wait=False):
            return False
        probe.release()
        kept = self.manifest.detached and self.manifest.state == UP
        return not (kept and any(one.alive() for one in self.manifest.processes))


def all_runs() -> list[Run]:
    """Return every run on this machine, abandoned ones included."""
    with _registry():
        return list(_read_all())


def find(name: str) -> Run | None:
    """Return the run of this name that is up, or None."""
    for run in all_runs():
        if run.manifest.name == name and run.manifest.state == UP and not run.abandoned():
            return run
    return None


def clear_named(name: str) -> bool:
    """Clear the run of this name, whatever state it is in; return False when there is none."""
    with _registry():
        clear_abandoned(quiet_about=name)
        for run in _read_all():
            if run.manifest.name == name:
                if run.manifest.state == STARTING:
                    raise ClusterError(f"cluster {name!r} is just being started by another process")
                run.clear()
                return True
    return False


def clear_abandoned(*, quiet_about: str = "") -> list[str]:
    """Clear what killed runs left behind and return their names."""
    cleared = []
    for run in _read_all():
        if run.abandoned():
            if run.manifest.name != quiet_about:
                say(f"clearing what a killed run left: {run.manifest.name}")
            run.clear()
            cleared.append(run.manifest.name)
    return cleared


@contextmanager
def _registry() -> Iterator[None]:
    with locked(runs_root() / "registry.lock", waiting_for="the list of clusters"):
        yield


def _read_all() -> Iterator[Run]:
    for folder in sorted(runs_root().iterdir()):
        if not folder.is_dir():
            continue
        try:
            manifest = Manifest.read(folder / "manifest.json")
        except FileNotFoundError:
            # Killed between making the folder and the first manifest: it owns nothing yet.
            shutil.rmtree(folder)
            continue
        yield Run(folder, manifest, None)


def _free_ports(count: int, taken: set[int]) -> list[int]:
    candidates = [port for port in _PORTS if port not in taken]
    # Not a secret: only two runs at the same moment should rarely try the same numbers.
    random.shuffle(candidates)
    free: list[int] = []
    for port in candidates:
        if len(free) == count:
            return free
        with socket.socket() as probe:
            try:
                probe.bind((str(IPv4Address(0)), port))
            except OSError:
                continue
        free.append(port)
    raise ClusterError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")


def owner_is_root() -> bool:
    """Tell whether this process may make namespaces and cgroups."""
    return os.geteuid() == 0
