"""A broker whose disk fails: the real program on a file system layer that goes wrong from some operation on.

`python -m faulty_disk serve ...` is `leadsman-broker serve ...`; LEADSMAN_TEST_FAULT says what goes wrong, as
"KIND:AFTER": after so many operations of that kind every further one fails, as on a disk that has gone. Without it
nothing does.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import apsw

from broker_process import BrokerProcess

KINDS = ("write", "torn", "full", "sync")
"""A write that fails; one that fails after half of it is on the disk; one for which there is no room; a sync."""

VARIABLE = "LEADSMAN_TEST_FAULT"


@dataclass(frozen=True)
class Fault:
    kind: str
    after: int

    @classmethod
    def drawn(cls, dice: Random) -> "Fault":
        kind = dice.choice(KINDS)
        # A commit syncs once and writes a few pages; a start does a dozen of both.
        return cls(kind, dice.randrange(1, 60 if kind == "sync" else 400))

    def __str__(self) -> str:
        return f"{self.kind}:{self.after}"


class FaultyBroker(BrokerProcess):
    """A `BrokerProcess` whose next start has the fault in `fault`, if there is one."""

    fault: Fault | None = None

    def command(self) -> list[str]:
        return [part if part != "leadsman_broker.cli" else "faulty_disk" for part in super().command()]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), **({VARIABLE: str(self.fault)} if self.fault is not None else {})}


class _Disk:
    """Counts operations and says when they fail."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._left = fault.after

    def fails(self, *kinds: str) -> bool:
        if self.fault.kind not in kinds:
            return False
        self._left -= 1
        return self._left < 0


class _File(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], disk: _Disk) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # the layer's own name
        if self._disk.fails("write", "torn", "full"):
            if self._disk.fault.kind == "torn":
                super().xWrite(bytes(data)[: len(data) // 2], offset)
            raise (apsw.FullError if self._disk.fault.kind == "full" else apsw.IOError)("injected")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.fails("sync"):
            raise apsw.IOError("injected")
        super().xSync(flags)


class _Layer(apsw.VFS):
    def __init__(self, disk: _Disk) -> None:
        super().__init__("faulty", "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802
        return _File(name, flags, self._disk)


def run(main: Callable[[], None]) -> None:
    """Run a program on the faulty layer."""
    said = os.environ.get(VARIABLE)
    layer = None
    if said is not None:
        kind, _, after = said.partition(":")
        layer = _Layer(_Disk(Fault(kind, int(after))))
    main()
    del layer
