"""The control groups of one node, on hosts with the first version, the second, or both."""

import os
from pathlib import Path

from .errors import UnavailableError
from .waiting import wait_for

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpuset", "cpu", "memory", "pids", "io", "hugetlb")


def _hierarchies() -> list[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in _ROOT.iterdir() if path.is_dir() and not path.is_symlink()] if _ROOT.is_dir() else []


def make(name: str) -> None:
    """Make the group ``name`` in every hierarchy and give it the controllers that a kubelet asks for.

    Raises UnavailableError when this machine does not let us (read-only, or not delegated to a container).
    """
    try:
        for root in _hierarchies():
            _make(root, name)
    except OSError as error:
        remove(name)
        raise UnavailableError(f"control groups cannot be made here: {error}") from error


def _make(root: Path, name: str) -> None:
    if (root / "cgroup.controllers").exists():
        _delegate(root)
    group = root / name
    group.mkdir(exist_ok=True)
    if (group / "cgroup.controllers").exists():
        _delegate(group)
    if (group / "cpuset.cpus").exists() and root != _ROOT:
        # The first version starts a cpuset empty, and nothing can run in an empty one.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            (group / setting).write_text((root / setting).read_text())


def _delegate(group: Path) -> None:
    available = (group / "cgroup.controllers").read_text().split()
    for controller in _CONTROLLERS:
        if controller in available:
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def exists(name: str) -> bool:
    """Tell whether the group exists in any hierarchy."""
    return any((root / name).exists() for root in _hierarchies())


def remove(name: str) -> None:
    """Remove the group and all below it; its processes must have been ended."""
    wait_for("control groups to be removed", lambda: _removed(name), seconds=20, every_seconds=0.05)


def _removed(name: str) -> bool:
    for root in _hierarchies():
        for folder, _, _ in os.walk(root / name, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:
                # Busy while the kernel still ends the last process: the caller asks again.
                continue
    return not exists(name)
