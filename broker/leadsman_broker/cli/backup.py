"""`leadsman-broker backup` and `restore`: a file out of a running broker, and back into a stopped one."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from leadsman_broker.store.errors import StoreError
from leadsman_broker.store.sqlite.backup import Copy, back_up
from leadsman_broker.store.sqlite.backup import restore as put_back

_REPORT_EVERY_SECONDS = 2.0
MIB = 2**20


def backup(
    *,
    data: Annotated[
        Path, typer.Option(envvar="LEADSMAN_SERVE_DATA", help="The broker's data folder; it may be running.")
    ],
    to: Annotated[Path, typer.Option(help="The file to write. Another disk than the data's is best.")],
) -> None:
    """Copy the state of a broker, running or not, as it is at one moment, into one file.

    Prints {"backup": {...}} on standard output when the file is complete, checked and on disk.
    """
    try:
        made = back_up(data, to, _Reporter("copied"))
    except StoreError as error:
        _refuse(str(error))
    print(json.dumps({"backup": _shown(made)}))


def restore(
    *,
    source: Annotated[Path, typer.Option("--from", help="A file that `backup` wrote.")],
    data: Annotated[
        Path, typer.Option(envvar="LEADSMAN_SERVE_DATA", help="The data folder of a broker that is stopped.")
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the store that is there aside, beside the restored one.")
    ] = False,
) -> None:
    """Put a backup in place of a stopped broker's state.

    The broker that starts on it makes its leases ready again, and tells workers that its tasks may have run since.
    Prints {"restored": {...}} on standard output.
    """
    try:
        made, aside = put_back(source, data, _Reporter("restored"), replace=replace)
    except StoreError as error:
        _refuse(str(error))
    shown = _shown(made) | ({"replaced": str(aside)} if aside is not None else {})
    print(json.dumps({"restored": shown}))


class _Reporter:
    """Says on standard error how far a long copy is."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._next = time.monotonic() + _REPORT_EVERY_SECONDS

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _REPORT_EVERY_SECONDS
            print(f"{self._verb} {done // MIB} of {total // MIB} MiB", file=sys.stderr, flush=True)


def _shown(copy: Copy) -> dict[str, object]:
    return {
        "file": str(copy.file),
        "bytes": copy.size_bytes,
        "version": copy.version,
        "generation": copy.generation,
        "live_tasks": copy.live,
        "leased_tasks": copy.leased,
    }


def _refuse(why: str) -> None:
    print(f"leadsman-broker: {why}", file=sys.stderr)
    raise typer.Exit(1)
