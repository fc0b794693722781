"""The operator, which on SIGUSR1 writes what lives in its memory into the file `LEADSMAN_TEST_CENSUS`.

Nothing else of it is other than in a pod, up to the first count.
"""

import asyncio
import gc
import json
import os
import signal
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leadsman_operator import cli

_CONTAINERS = (dict, set, frozenset, list, deque)


def _count(*_: Any) -> None:
    # What was set aside at the start, the cache among it, is not in the collector's list.
    gc.unfreeze()
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
        "maps": dict(_maps(everything)),
    }
    path = Path(os.environ["LEADSMAN_TEST_CENSUS"])
    written = path.with_suffix(".new")
    written.write_text(json.dumps(found))
    written.replace(path)


def _maps(everything: list[Any]) -> Counter[str]:
    """How much all objects of each of the operator's classes hold in each of their containers.

    The collector does not know of strings and numbers: a set of them that grows shows only here.
    """
    found: Counter[str] = Counter()
    for each in everything:
        kind = type(each)
        if not str(kind.__module__).startswith("leadsman_operator"):
            continue
        for name, value in _attributes(each):
            if isinstance(value, _CONTAINERS):
                found[f"{kind.__qualname__}.{name}"] += _size(value)
    return found


def _attributes(each: Any) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(each, "__dict__", {}).items())
    for kind in type(each).__mro__:
        for name in kind.__dict__.get("__slots__", ()):
            if name not in {"__dict__", "__weakref__"}:
                yield name, getattr(each, name, None)


def _size(container: Any) -> int:
    """Count what is in it and in the containers that it maps to."""
    inner = container.values() if isinstance(container, dict) else ()
    return len(container) + sum(len(value) for value in inner if isinstance(value, _CONTAINERS))


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _count)
    cli.main()
