"""The demo's agents: two kinds of step that spend their time waiting, as real ones do.

Shows an async handler that checkpoints and resumes, and a blocking one that runs in a thread.
"""

import asyncio
import time
from typing import Any

from leadsman import App, Context, SyncContext

app = App()


@app.task("browser")
async def browse(context: Context) -> dict[str, Any]:
    """Visit `pages` pages. Each one visited is a checkpoint, so another worker goes on where this one stopped."""
    first = context.resume or 0
    for page in range(first, context.payload["pages"]):
        await asyncio.sleep(context.payload["seconds_per_page"])
        await context.checkpoint(page + 1)
    return {"pages": context.payload["pages"], "resumed_at_page": first, "attempt": context.attempt}


@app.task("llm")
def complete(context: SyncContext) -> dict[str, Any]:
    """Wait for a model's answer with a client that blocks: the lease is kept all the same."""
    time.sleep(context.payload["seconds"])
    return {"answer": f"{len(context.payload['prompt'])} characters read"}
