"""Where the harness keeps things: one root outside the checkout, so that every checkout shares one build."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]


def cache_root() -> Path:
    """Return the folder of all that the harness builds or runs; made if missing."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(base) / "leadsman" / "cluster"
    root.mkdir(parents=True, exist_ok=True)
    return root


def runs_root() -> Path:
    """Return the folder that holds one folder per running (or killed) cluster."""
    root = cache_root() / "runs"
    root.mkdir(exist_ok=True)
    return root


def digest(*parts: bytes) -> str:
    """Return a short stable name for these inputs; lengths are hashed too, so parts cannot run together."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()[:16]


@contextmanager
def scratch_in(folder: Path) -> Iterator[Path]:
    """Give a temporary folder on the same file system, so that a rename out of it is whole or not at all.

    The caller holds the folder's lock: what lies there from before is of a killed run, and is removed.
    """
    for left in folder.glob("scratch-*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=folder) as scratch:
        yield Path(scratch)


def on_overlay(folder: Path) -> bool:
    """Tell whether a folder is on an overlay (a harness inside a container): no second one goes on top."""
    stat = shutil.which("stat")
    if sys.platform != "linux" or stat is None:
        return False
    shown = subprocess.run(
        [stat, "--file-system", "--format=%T", str(folder)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() == "overlayfs"
