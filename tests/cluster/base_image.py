"""A Python base image made from the machine's own Debian sources: no registry is asked.

Kept as a docker-archive under the hash of suite, packages and sources' suites; the mirror is whatever
this machine's apt uses.
"""

import json
import platform
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from . import debian
from .docker_archive import wrap_layer
from .errors import ClusterError, UnavailableError
from .locking import locked
from .places import cache_root, digest, scratch_in
from .processes import tied
from .progress import step

PACKAGES = ("python3", "python3-venv", "python-is-python3", "ca-certificates")
_ORIGINS = ("Debian", "Ubuntu")
_CONFIG = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["python3"]}


@dataclass(frozen=True)
class BaseImage:
    """A base image in a file: its name, what Python it has, and a key that changes with its content."""

    archive: Path
    name: str
    python: str
    key: str


def base_image() -> BaseImage:
    """Return the base image, making it if it is not kept yet.

    Raises UnavailableError when this machine's packages cannot make one.
    """
    debian.install(debian.IMAGES)
    suite = _suite()
    key = digest(suite.encode(), platform.machine().encode(), *(name.encode() for name in PACKAGES))
    folder = cache_root() / "base"
    folder.mkdir(exist_ok=True)
    archive, facts = folder / f"{key}.tar", folder / f"{key}.json"
    with locked(folder / "lock", waiting_for="its base image"):
        if not (archive.exists() and facts.exists()):
            with step(f"making a base image from Debian packages ({suite})"):
                _make(suite, archive, facts, key)
    return BaseImage(archive=archive, **json.loads(facts.read_text()))


def _make(suite: str, archive: Path, facts: Path, key: str) -> None:
    sources = _sources(suite)
    with scratch_in(archive.parent) as scratch:
        layer = scratch / "layer.tar"
        done = subprocess.run(
            tied(
                [
                    debian.program("mmdebstrap"),
                    *("--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
                    *(suite, str(layer), "-"),
                ]
            ),
            input="\n".join(sources) + "\n",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ClusterError("mmdebstrap failed:\n" + "\n".join(done.stderr.strip().splitlines()[-15:]))
        python = _python_version(layer)
        name = f"localhost/python:{python}"
        wrap_layer(layer, archive, tag=name, config=_CONFIG)
    facts.write_text(json.dumps({"name": name, "python": python, "key": key}))


def _sources(suite: str) -> list[str]:
    """Return this machine's own sources of the suite, as one-line entries."""
    found = _targets(suite)
    if not found:
        subprocess.run(["apt-get", "update"], capture_output=True, check=False)
        found = _targets(suite)
    if not found:
        raise UnavailableError(f"this machine's apt has no sources of {suite} to make a base image from")
    return found


def _targets(suite: str) -> list[str]:
    found = set()
    for origin in _ORIGINS:
        shown = subprocess.run(
            [
                "apt-get",
                "indextargets",
                "--format",
                "$(RELEASE) deb $(SITE) $(RELEASE) $(COMPONENT)",
                "Created-By: Packages",
                f"Origin: {origin}",
            ],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for line in shown.splitlines():
            release, _, entry = line.partition(" ")
            if release == suite or release.startswith(f"{suite}-"):
                found.add(entry)
    return sorted(found)


def _suite() -> str:
    reason = debian.obstacle()
    if reason:
        raise UnavailableError(f"no base image can be made here: {reason}")
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    suite = release.get("VERSION_CODENAME", "").strip('"')
    if not suite:
        raise UnavailableError("/etc/os-release names no VERSION_CODENAME to make a base image of")
    return suite


def _python_version(layer: Path) -> str:
    with tarfile.open(layer) as archive:
        for name in archive.getnames():
            found = re.fullmatch(r"\./usr/bin/python(3\.\d+)", name)
            if found:
                return found[1]
    raise ClusterError("the base image has no Python")
