"""`leadsman export-trace`: what a running broker did, as a file that a scenario plays."""

import asyncio
import sys
from pathlib import Path

from leadsman.cli.options import connect
from leadsman.cli.output import as_json, say
from leadsman.client import Client
from leadsman.errors import ConfigurationError
from leadsman.wire.tasks import TaskView
from leadsman_local.simulator.trace import recorded

_ALL = 10_000_000
_AT_ONCE = 32
"""Tasks read at a time."""


def run(
    out: Path | None, capability: str | None, broker_url: str | None, namespace: str | None, token_file: str | None
) -> int:
    """Write the trace; return the exit code."""
    views = asyncio.run(_read(connect(broker_url, namespace, token_file), capability))
    lines = "".join(f"{as_json(line)}\n" for line in recorded(views))
    if out is None:
        sys.stdout.write(lines)
        return 0
    try:
        out.write_text(lines, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {out}: {error.strerror}") from error
    say(f"{len(views)} tasks written to {out}")
    return 0


async def _read(client: Client, capability: str | None) -> list[TaskView]:
    """Read every task with its history, which the list leaves out."""
    async with client:
        listed = await client.tasks(capability=capability, limit=_ALL)
        found: list[TaskView] = []
        for start in range(0, len(listed), _AT_ONCE):
            part = listed[start : start + _AT_ONCE]
            found += await asyncio.gather(*(client.get(view.id) for view in part))
        return found
