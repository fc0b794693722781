"""``python -m cluster``: the test cluster by hand. Results go to standard output, progress to standard error."""

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from . import base_image, debian, doctor, engine, helm, runs, toolchain
from .cluster import Cluster
from .cluster import obstacle as node_obstacle
from .control_plane import ControlPlane
from .errors import ClusterError, UnavailableError
from .images import project_image
from .progress import out, say


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    parsed = _parser().parse_args(arguments)
    # A polite end unwinds like an error, so that a half-started cluster is taken down.
    signal.signal(signal.SIGTERM, _leave)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "build": _build,
        "up": _up,
        "down": _down,
        "env": _env,
        "status": _status,
        "doctor": _doctor,
        "packages": lambda _: _packages(),
        "image": _image,
        "engine": lambda _: _engine(),
    }
    try:
        return commands[parsed.command](parsed)
    except ClusterError as error:
        say(f"{error.code}: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cluster", description="A real Kubernetes for the tests.")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text)

    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default=engine.DEFAULT_NAME, help="which cluster (default: %(default)s)")
    build = command("build", "Get and compile all that the clusters need, so that no test waits for it.")
    up = commands.add_parser("up", parents=[named], help="Start a cluster and leave it running.")
    for one in (build, up):
        one.add_argument("--control-plane-only", action="store_true", help="no node; needs no root")
    down = commands.add_parser("down", parents=[named], help="Take a cluster down; nothing of it is left.")
    down.add_argument("--all", action="store_true", help="every cluster that was left running")
    commands.add_parser("env", parents=[named], help="Print the exports for a shell: eval $(... env)")
    command("status", "List the clusters.").add_argument("--json", action="store_true")
    command("doctor", "Say what each tier lacks on this machine.").add_argument("--json", action="store_true")
    command("packages", "Install the Debian packages that a node and image builds need.")
    image = commands.add_parser("image", parents=[named], help="Build the project's image; import it if up.")
    image.add_argument("--tag", default="leadsman:dev")
    image.add_argument("--dockerfile", type=Path, help="instead of the repository's own")
    image.add_argument("--include", type=Path, action="append", default=[], help="also copy this into the context")
    command("engine", "Say which engine the demo would use, and why not the others.")
    return parser


def _build(parsed: argparse.Namespace) -> int:
    toolchain.build(toolchain.CONTROL_PLANE)
    reason = node_obstacle()
    if parsed.control_plane_only or reason:
        say(f"no node tier: {reason or 'not asked for'}")
    else:
        debian.install(debian.NODE, debian.IMAGES)
        toolchain.build(toolchain.NODE)
        base_image.base_image()
    helm.helm()
    return 0


def _up(parsed: argparse.Namespace) -> int:
    name, wanted = parsed.name, "control-plane" if parsed.control_plane_only else "node"
    run = runs.find(name)
    if run is not None and run.manifest.kind != wanted:
        raise ClusterError(f"cluster {name!r} is up as {run.manifest.kind!r}, not {wanted!r}; take it down first")
    if run is not None:
        say(f"cluster {name!r} is already up")
    elif parsed.control_plane_only:
        ControlPlane.start(name=name, detached=True)
    else:
        Cluster.start(name=name, detached=True)
    return _env(parsed)


def _down(parsed: argparse.Namespace) -> int:
    names = [run.manifest.name for run in runs.all_runs() if run.manifest.detached] if parsed.all else [parsed.name]
    cleared = [name for name in names if runs.clear_named(name)]
    for name in cleared:
        say(f"cluster {name!r} is down")
    if not cleared:
        say("no such cluster is up; what killed runs left is cleared")
    return 0


def _env(parsed: argparse.Namespace) -> int:
    kubeconfig = ControlPlane.attach(parsed.name).kubeconfig
    folders = [str(toolchain.path("kubectl").parent)]
    try:
        folders.append(str(helm.helm().parent))
    except UnavailableError as reason:
        say(f"no helm on the printed PATH: {reason}")
    out(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")
    out(f"export PATH={shlex.quote(os.pathsep.join(folders))}:$PATH")
    return 0


def _status(parsed: argparse.Namespace) -> int:
    rows = [
        {
            "name": run.manifest.name,
            "id": run.id,
            "kind": run.manifest.kind,
            "state": "abandoned" if run.abandoned() else run.manifest.state,
            "addresses": run.manifest.block,
            "kubeconfig": run.manifest.kubeconfig,
            "ended": sorted({one.name for one in run.manifest.processes if not one.alive()}),
        }
        for run in runs.all_runs()
    ]
    if parsed.json:
        out(json.dumps(rows))
        return 0
    for row in rows:
        line = "{name:<16} {kind:<14} {state:<10} {addresses:<16} {kubeconfig}".format(**row)
        out(f"{line}  ended: {', '.join(row['ended'])}" if row["ended"] else line)
    if not rows:
        out("no clusters")
    return 0


def _doctor(parsed: argparse.Namespace) -> int:
    tiers = doctor.examine()
    if parsed.json:
        out(json.dumps([{**asdict(tier), "able": tier.able} for tier in tiers]))
    else:
        for tier in tiers:
            out(f"{tier.name}: {'can run' if tier.able else 'cannot run'}")
            for line in tier.missing:
                out(f"  missing: {line}")
            for line in tier.automatic:
                out(f"  will be fetched or built: {line}")
    return 0 if all(tier.able for tier in tiers) else 1


def _packages() -> int:
    names = debian.install(debian.NODE, debian.IMAGES)
    out(f"installed: {' '.join(names)}" if names else "nothing was missing")
    return 0


def _image(parsed: argparse.Namespace) -> int:
    image = project_image(parsed.tag, dockerfile=parsed.dockerfile, include=parsed.include)
    run = runs.find(parsed.name)
    if run is not None and run.manifest.kind == "node":
        Cluster.attach(parsed.name).load_image(image)
    out(str(image.archive))
    return 0


def _engine() -> int:
    choice = engine.choose()
    out(json.dumps({"engine": choice.engine.kind, "passed_over": choice.passed_over}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
