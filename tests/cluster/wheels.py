"""The wheels that go into the project's image: the locked runtime closure and the project itself.

Inside the image build there is no network, so everything is fetched here, by hash, for the image's
Python rather than this one.
"""

import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from .errors import ClusterError
from .locking import locked
from .places import REPOSITORY, cache_root, digest, scratch_in
from .progress import step
from .pypi import pip_download

_GLIBC_MINORS = (5, 12, 17, 24, 26, 27, 28, 31, 34, 35, 36)
_OLD_NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


def dependency_wheels(python: str, extras: Sequence[str]) -> Path:
    """Return a folder with every wheel that the project needs with these extras."""
    wanted = locked_closure(
        (REPOSITORY / "requirements.lock").read_text(), (REPOSITORY / "pyproject.toml").read_text(), extras
    )
    key = digest(wanted.encode(), python.encode(), platform.machine().encode())
    folder = cache_root() / "wheels" / key
    folder.parent.mkdir(exist_ok=True)
    if folder.exists():
        return folder
    with locked(folder.parent / "lock", waiting_for="its download of wheels"):
        if folder.exists():
            return folder
        with scratch_in(folder.parent) as scratch, step("fetching the image's wheels"):
            requirements = scratch / "requirements.txt"
            requirements.write_text(wanted)
            target = scratch / "wheels"
            pip_download(
                "--no-deps",
                "--require-hashes",
                "--python-version",
                python,
                "--implementation",
                "cp",
                *(word for tag in _platforms() for word in ("--platform", tag)),
                "--dest",
                str(target),
                "--requirement",
                str(requirements),
            )
            target.replace(folder)
    return folder


def project_wheel(destination: Path) -> Path:
    """Build the project's own wheel from this checkout; the same sources give the same bytes."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--wheel-dir", str(destination), str(REPOSITORY)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ClusterError("the project's wheel was not built:\n" + done.stderr.strip()[-2000:])
    return next(destination.glob("*.whl"))


def locked_closure(lock: str, project: str, extras: Sequence[str]) -> str:
    """Return the part of the lock file that the project needs at run time with these extras.

    The lock file says of every package through which ("# via") it came, so its own graph decides.
    """
    described = tomllib.loads(project)["project"]
    roots = [*described["dependencies"]]
    for extra in extras:
        roots += described["optional-dependencies"][extra]
    entries: dict[str, str] = {}
    parents: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=[a-z0-9])", lock):
        found = re.match(r"([a-z0-9][a-z0-9._-]*)==", block)
        if found:
            name = _normal(found[1])
            entries[name] = "\n".join(line for line in block.splitlines() if not line.lstrip().startswith("#"))
            parents[name] = {
                _normal(via) for via in re.findall(r"^\s+#\s+(?:via )?([a-z0-9][a-z0-9._-]*)$", block, re.MULTILINE)
            }
    wanted = {_normal(re.split(r"[^A-Za-z0-9._-]", root, maxsplit=1)[0]) for root in roots}
    while True:
        more = {name for name, via in parents.items() if via & wanted} - wanted
        if not more:
            break
        wanted |= more
    absent = sorted(wanted - entries.keys())
    if absent:
        raise ClusterError(f"requirements.lock does not pin {', '.join(absent)}; run: make lock")
    return "\n".join(entries[name] for name in sorted(wanted)) + "\n"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _platforms() -> list[str]:
    machine = platform.machine()
    tags = [f"manylinux_2_{minor}_{machine}" for minor in reversed(_GLIBC_MINORS)]
    return [*tags, *(f"{old}_{machine}" for old in _OLD_NAMES.values()), f"linux_{machine}"]
