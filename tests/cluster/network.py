"""Addresses, links and mounts of one run on the host side.

The node lives in namespaces that the kernel drops with its process 1. What can stay behind on the
host is one link (its routes go with it), so that is all there is to remove.
"""

import random
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from .errors import ClusterError


@dataclass(frozen=True)
class AddressPlan:
    """How one /16 is divided: pods, services, and the link between host and node."""

    pods: IPv4Network
    services: IPv4Network
    host: IPv4Address
    node: IPv4Address

    @classmethod
    def of(cls, block: str) -> "AddressPlan":
        """Divide a /16."""
        base = IPv4Network(block).network_address
        return cls(
            pods=IPv4Network((base, 17)),
            services=IPv4Network((base + 0x8000, 18)),
            host=base + 0xFF01,
            node=base + 0xFF02,
        )

    @property
    def kubernetes_service(self) -> IPv4Address:
        """The cluster address of the API server, by rule the first of the range."""
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        """The cluster address of DNS."""
        return self.services[10]


def free_block(taken: Collection[str]) -> IPv4Network:
    """Return a private /16 that neither another run nor a route of this host uses."""
    ten = [IPv4Network((10 << 24 | second << 16, 16)) for second in range(60, 251)]
    # Not a secret: two runs that cannot see each other (two users) should rarely choose the same.
    random.shuffle(ten)
    spare = [IPv4Network(f"172.{second}.0.0/16") for second in range(31, 16, -1)]
    used = [*_routed(), *(IPv4Network(block) for block in taken)]
    for block in ten + spare:
        if not any(block.overlaps(other) for other in used):
            return block
    raise ClusterError("every private address block that the harness may use overlaps a route of this host")


def _routed() -> list[IPv4Network]:
    program = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
    if program is None:
        return []
    shown = subprocess.run(
        [program, "-4", "-o", "route", "show", "table", "all"], capture_output=True, text=True, check=False
    ).stdout
    networks = []
    for line in shown.splitlines():
        words = [word for word in line.split() if word not in {"local", "broadcast", "unreachable", "blackhole"}]
        if words and words[0] != "default":
            try:
                networks.append(IPv4Network(words[0], strict=False))
            except ValueError:
                continue
    return networks


def remove_link(name: str) -> None:
    """Remove the host's end of the pair, and with it the routes; nothing happens when it is gone."""
    if Path("/sys/class/net", name).exists():
        subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)


def unmount_below(folder: Path) -> None:
    """Unmount whatever is mounted below the folder, deepest first.

    Raises ClusterError rather than let a caller delete through a mount that stayed.
    """
    for point in sorted(_mounts_below(folder), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
    left = _mounts_below(folder)
    if left:
        raise ClusterError(f"still mounted: {', '.join(left)}")


def _mounts_below(folder: Path) -> list[str]:
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return []
    points = [line.split()[1].replace("\\040", " ") for line in lines]
    return [point for point in points if point.startswith(f"{folder}/")]
