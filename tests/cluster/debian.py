"""The Debian packages that a node and image builds need; only what is missing is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .errors import UnavailableError
from .locking import locked
from .places import cache_root
from .progress import step

# A package is there when the file or program that it is needed for is there.
NODE: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "iproute2": "ip",
    "util-linux": "nsenter",
    "mount": "mount",
}
IMAGES: Mapping[str, str] = {
    "mmdebstrap": "mmdebstrap",
    "buildah": "buildah",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
}


def find_program(name: str) -> str | None:
    """Return the path of a program, looking also where an ordinary user's PATH does not."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")


def program(name: str) -> str:
    """Return the path of a program that must be there by now."""
    found = find_program(name)
    if found is None:
        raise UnavailableError(f"{name} is not installed; run: python -m cluster packages")
    return found


def missing(*groups: Mapping[str, str]) -> list[str]:
    """Return the packages of these groups that are not installed."""
    return [
        package
        for group in groups
        for package, evidence in group.items()
        if not (Path(evidence).exists() if evidence.startswith("/") else find_program(evidence))
    ]


def obstacle() -> str | None:
    """Return why packages cannot be installed by this process, or None when they can."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "it needs root"
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    return None


def install(*groups: Mapping[str, str]) -> list[str]:
    """Install what is missing and return the names.

    Raises UnavailableError with the reason and the list when that is not possible.
    """
    if not missing(*groups):
        return []
    with locked(cache_root() / "packages.lock", waiting_for="its installation of packages"):
        names = missing(*groups)
        if not names:
            return []
        reason = obstacle()
        if reason:
            raise UnavailableError(f"not installed: {', '.join(names)} ({reason})")
        with step(f"installing {' '.join(names)}"):
            if not _apt_get("install", names):
                # The package lists may be missing or older than the mirror.
                _apt_get("update", [])
                _apt_get("install", names)
        left = missing(*groups)
        if left:
            raise UnavailableError(f"apt-get could not install {', '.join(left)}; see {_log()}")
        return names


def _apt_get(verb: str, names: list[str]) -> bool:
    options = ["--yes", "--no-install-recommends"] if verb == "install" else []
    with _log().open("ab") as log:
        done = subprocess.run(
            ["apt-get", "--option", "DPkg::Lock::Timeout=300", verb, *options, *names],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode == 0


def _log() -> Path:
    return cache_root() / "packages.log"
