"""What Linux can do for parents and children, and other systems cannot: there each call does nothing."""

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9
_MIB = 1 << 20


def die_with_parent() -> None:
    """Be killed when the process that forked this one ends, however it ends."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def give_back_memory() -> None:
    """Return to the system what loading the application took and freed again, where the C library can."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # musl has no such call
            ctypes.CDLL(None).malloc_trim(0)


def children() -> list[int]:
    """Return the children of this process's main thread."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def be_killed_first() -> None:
    """When memory runs out, let the kernel choose this process rather than the worker."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def limit_memory(mib: int) -> None:
    """Allow so much memory beyond what is in use now; every process forked from here may have as much."""
    limit = _data_bytes() + mib * _MIB
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _data_bytes() -> int:
    """Return what counts against RLIMIT_DATA now."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in status.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
