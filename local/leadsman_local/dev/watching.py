"""Whether files have changed."""

from collections.abc import Iterable
from pathlib import Path

Stamps = dict[Path, tuple[int, int]]


def stamps(paths: Iterable[Path]) -> Stamps:
    """Return when each file was last written, and its size; one that is gone for a moment is left out."""
    found: Stamps = {}
    for path in paths:
        if {".venv", "node_modules", "__pycache__"} & set(path.parts):
            continue
        try:
            stat = path.stat()
        except OSError:
            continue
        found[path] = (stat.st_mtime_ns, stat.st_size)
    return found
