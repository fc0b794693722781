"""promtool: the system's, else out of Debian's package, unpacked and not installed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .debian import find_program
from .errors import ClusterError, UnavailableError
from .locking import locked
from .places import cache_root, scratch_in
from .progress import step

_PACKAGE = "prometheus"
_INSIDE = "usr/bin/promtool"


def promtool() -> Path:
    """Return a promtool, fetching it once if the system has none.

    Raises UnavailableError when there is none for this machine.
    """
    found = find_program("promtool")
    if found is not None:
        return Path(found)
    target = cache_root() / "promtool" / "promtool"
    target.parent.mkdir(exist_ok=True)
    with locked(target.parent / "lock", waiting_for="its promtool"):
        if not target.exists():
            _require("apt-get", "dpkg-deb")
            with step(f"fetching promtool (from Debian's {_PACKAGE})"):
                _fetch(target)
    return target


def _require(*programs: str) -> None:
    lacking = [name for name in programs if shutil.which(name) is None]
    if lacking:
        raise UnavailableError(f"no promtool, and no {' and no '.join(lacking)} to fetch it with")


def _fetch(target: Path) -> None:
    # Not in the cache: apt fetches as a user of its own, who may not look into a home.
    with tempfile.TemporaryDirectory() as name, scratch_in(target.parent) as scratch:
        folder = Path(name)
        folder.chmod(0o777)
        done = _run(folder, "apt-get", "download", _PACKAGE)
        if done.returncode and os.geteuid() == 0:
            # The package lists may be missing or older than the mirror.
            _run(folder, "apt-get", "update")
            done = _run(folder, "apt-get", "download", _PACKAGE)
        if done.returncode:
            raise UnavailableError(f"apt-get cannot fetch {_PACKAGE}: {done.stderr.strip()[-500:]}")
        (archive,) = folder.glob("*.deb")
        unpacked = _run(scratch, "dpkg-deb", "--extract", str(archive), str(scratch))
        if unpacked.returncode:
            raise ClusterError(f"dpkg-deb: {unpacked.stderr.strip()}")
        (scratch / _INSIDE).rename(target)


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
