"""The operator, which on SIGUSR1 writes what lives in its memory into the file `LEADSMAN_TEST_CENSUS`.

Nothing else of it is other than in a pod.
"""

import asyncio
import gc
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from leadsman_operator import cli


def _count(*_: Any) -> None:
    gc.collect()
    everything = gc.get_objects()
    kinds = Counter(type(each).__qualname__ for each in everything)
    tasks = [each.get_name() for each in everything if isinstance(each, asyncio.Task) and not each.done()]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    found = {
        "objects": sum(kinds.values()),
        "tasks": tasks,
        "rss": pages * os.sysconf("SC_PAGE_SIZE"),
        "kinds": dict(kinds),
    }
    path = Path(os.environ["LEADSMAN_TEST_CENSUS"])
    written = path.with_suffix(".new")
    written.write_text(json.dumps(found))
    written.replace(path)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _count)
    cli.main()
