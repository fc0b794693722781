"""What the handlers of the tests share: a journal of what they did, and gates that they wait at."""

import asyncio
import os
from pathlib import Path

from worker_process.journal import Gate, Journal

journal = Journal(Path(os.environ["AGENTS_JOURNAL"]))

LOOK_SECONDS = 0.02


def note(ctx, event, detail=None):
    journal.write(event, ctx.task_id, ctx.attempt, detail)


async def pass_gate(path):
    while not Gate(Path(path)).is_open:  # noqa: ASYNC110  a file, not an event of this loop
        await asyncio.sleep(LOOK_SECONDS)
