"""Looks, after `make demo-down`, whether anything of a cluster of ours is still on this machine."""

from pathlib import Path

from cluster import cgroups, processes, runs
from demo.ground import CLUSTER


def ours() -> list[runs.Run]:
    """Return the clusters of the demo's name that this machine knows, whatever state they are in."""
    return [one for one in runs.all_runs() if one.manifest.name == CLUSTER]


def left_of(gone: list[runs.Run]) -> list[str]:
    """Name every process, mount, link (with its routes), control group and folder that these clusters left."""
    left = []
    for run in gone:
        left += [f"process {one.pid}" for one in processes.marked(run.id)]
        # Identities guard against a process number that something else has by now.
        left += [f"process {one.pid} ({one.name})" for one in run.manifest.processes if one.alive()]
        mounts = Path("/proc/self/mounts")
        left += [f"mount {line.split()[1]}" for line in _lines(mounts) if f" {run.folder}/" in line]
        if run.manifest.link and Path("/sys/class/net", run.manifest.link).exists():
            left.append(f"network link {run.manifest.link}")
        if run.manifest.cgroup and cgroups.exists(run.manifest.cgroup):
            left.append(f"control group {run.manifest.cgroup}")
        if run.folder.exists():
            left.append(f"folder {run.folder}")
    return left


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
