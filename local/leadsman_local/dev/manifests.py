"""The YAML of a cluster, read for one computer: what runs, how much of it, and what a laptop cannot do."""

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from leadsman.errors import ConfigurationError
from leadsman_local.yaml_lines import Document, read
from leadsman_operator.api import Capability, WorkerPool

_SUFFIXES: dict[str, int | Decimal] = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60, "m": Decimal("0.001"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """What stands for a pool's container."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Manifests:
    """All that local mode runs."""

    capabilities: dict[str, Capability]
    pools: dict[str, WorkerPool]
    programs: dict[str, Program]
    notes: tuple[str, ...]
    """What the YAML asks for and a laptop cannot do, a line each."""


def load(paths: Sequence[Path], app: str | None, max_processes: int) -> Manifests:
    """Read the files. Raises ConfigurationError that names file, line and field."""
    capabilities: dict[str, Capability] = {}
    pools: dict[str, tuple[Document, WorkerPool]] = {}
    notes: list[str] = []
    for document in (document for path in paths for document in read(path)):
        kind = document.data.get("kind") if isinstance(document.data, dict) else None
        if kind == "Capability":
            capability = document.parse(Capability)
            capabilities[_named(document, capability.metadata.name, capabilities)] = capability
        elif kind == "WorkerPool":
            pool = document.parse(WorkerPool)
            pools[_named(document, pool.metadata.name, pools)] = (document, pool)
        else:
            notes.append(f"{document.path}:{document.line(())}: a {kind} is left out; only ours run here")
    if not pools:
        raise ConfigurationError(f"{', '.join(map(str, paths))}: there is no WorkerPool to run")
    for document, pool in pools.values():
        missing = [name for name in pool.capabilities if name not in capabilities]
        if missing:
            raise document.wrong(("spec", "capabilities"), f"there is no Capability {', '.join(missing)}")
        if pool.spec.min_replicas > pool.spec.max_replicas:
            raise document.wrong(("spec", "minReplicas"), "minReplicas may not be above maxReplicas")
    programs = {name: _program(document, pool, app, notes) for name, (document, pool) in pools.items()}
    share = max(1, max_processes // len(pools))
    bounded = {name: _bounded(pool, share, notes) for name, (_, pool) in pools.items()}
    return Manifests(capabilities, bounded, programs, tuple(notes))


def quantity(text: str | int) -> int:
    """Return a Kubernetes quantity as a whole number. Raises ValueError."""
    if isinstance(text, int):
        return text
    number = text.rstrip("kMGTPEim")
    try:
        return int(Decimal(number) * _SUFFIXES[text[len(number) :]])
    except (InvalidOperation, KeyError) as error:
        raise ValueError(f"{text!r} is no quantity; say for example 512Mi") from error


def _named(document: Document, name: str, known: Mapping[str, Any]) -> str:
    if not name:
        raise document.wrong(("metadata", "name"), "give it a name")
    if name in known:
        raise document.wrong(("metadata", "name"), f"{name} is given twice")
    return name


def _bounded(pool: WorkerPool, most: int, notes: list[str]) -> WorkerPool:
    spec = pool.spec
    if spec.max_replicas <= most:
        return pool
    notes.append(
        f"pool {pool.metadata.name}: maxReplicas {spec.max_replicas} is {most} here; --max-processes allows more"
    )
    changed = spec.model_copy(update={"max_replicas": most, "min_replicas": min(spec.min_replicas, most)})
    return pool.model_copy(update={"spec": changed})


def _program(document: Document, pool: WorkerPool, app: str | None, notes: list[str]) -> Program:
    name, spec = pool.metadata.name, pool.spec
    given = sum(part is not None for part in (spec.image, spec.template, spec.deployment_ref))
    if given != 1:
        raise document.wrong(("spec",), "give exactly one of image, template and deploymentRef")
    if spec.deployment_ref is not None:
        if app is None:
            raise document.wrong(
                ("spec", "deploymentRef"),
                "a Deployment of yours is not here; say what to run with --app MODULE:APP",
            )
        notes.append(f"pool {name}: its Deployment is not here; {app} runs instead")
        return Program(_worker(app))
    container: Mapping[str, Any]
    if spec.template is not None:
        pod = spec.template.get("spec") or {}
        containers = pod.get("containers") or [{}]
        container = containers[0]
        notes += [
            f"pool {name}: {what} {'is' if what == 'the security context' else 'are'} left out"
            for what, there in (
                ("further containers", len(containers) > 1),
                ("init containers", bool(pod.get("initContainers"))),
                ("volumes", bool(pod.get("volumes"))),
                ("node selectors and tolerations", bool(pod.get("nodeSelector") or pod.get("tolerations"))),
            )
            if there
        ]
    else:
        container = {
            "command": list(spec.command or ()),
            "args": list(spec.args or ()),
            "env": [entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in spec.env or ()],
            "resources": spec.resources.model_dump(mode="json") if spec.resources is not None else {},
        }
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    try:
        memory = None if limit is None else quantity(limit)
    except ValueError as error:
        raise document.wrong(("spec", "resources", "limits", "memory"), str(error)) from error
    return Program(_command(document, name, container, app), _env(name, container, notes), memory)


def _command(document: Document, name: str, container: Mapping[str, Any], app: str | None) -> tuple[str, ...]:
    """Return what to run: --app, else the container's own command where its program is here."""
    if app is not None:
        return _worker(app)
    command = [str(part) for part in (*(container.get("command") or ()), *(container.get("args") or ()))]
    if not command:
        raise document.wrong(
            ("spec",), f"pool {name} has no command, and an image is not started here; say --app MODULE:APP"
        )
    if command[0] == "leadsman":
        return (sys.executable, "-m", "leadsman.cli", *command[1:])
    program = shutil.which(command[0])
    if program is None:
        raise document.wrong(("spec",), f"{shlex.join(command)}: {command[0]} is not here; say --app MODULE:APP")
    return (program, *command[1:])


def _worker(app: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "leadsman.cli", "worker", app)


def _env(name: str, container: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
    found = {}
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            notes.append(
                f"pool {name}: variable {entry.get('name')} comes from the cluster; it is taken from this shell"
            )
        else:
            found[str(entry.get("name"))] = str(entry.get("value", ""))
    return found
