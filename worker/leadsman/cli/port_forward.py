"""`kubectl leadsman` without an address: the broker of kubectl's current context, through kubectl's own tunnel."""

import atexit
import contextlib
import json
import queue
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from typing import Any

from leadsman.cli.kubectl import KubectlError
from leadsman.errors import ConfigurationError

AUDIENCE = "leadsman"
"""The chart's default for whom tokens are meant."""

_SELECTOR = "app.kubernetes.io/name=leadsman,app.kubernetes.io/component=broker"
_USUAL_NAMESPACE = "leadsman"
_SECONDS = 20
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")
_ADVICE = "say where it is with --broker-url or LEADSMAN_BROKER_URL"


@dataclass(frozen=True, slots=True)
class Found:
    """A broker that can be reached from here until the command ends."""

    url: str
    namespace: str
    token: str | None
    """Of the namespace's default service account; None when the user may not make one."""


def find_broker(namespace: str | None) -> Found:
    """Find the broker and open a tunnel to it. Raises ConfigurationError and KubectlError, which say what to do."""
    program = shutil.which("kubectl")
    if program is None:
        raise ConfigurationError(f"kubectl is not on PATH, and no broker address is given; {_ADVICE}")
    where = namespace or _said(program, "config", "view", "--minify", "--output", "jsonpath={..namespace}")
    where = where or "default"
    service, home, port = _service(program, where)
    local = _tunnel(program, home, service, port)
    token = _said(program, "--namespace", where, "create", "token", "default", "--audience", AUDIENCE)
    return Found(f"http://127.0.0.1:{local}", where, token)


def _service(program: str, namespace: str) -> tuple[str, str, int]:
    """Return the broker's service, its namespace and port."""
    found: list[dict[str, Any]] = []
    # Who may not list services everywhere may do so at home, or where the broker usually is.
    for scope in (["--all-namespaces"], ["--namespace", namespace], ["--namespace", _USUAL_NAMESPACE]):
        said = _said(program, "get", "services", *scope, "--selector", _SELECTOR, "--output", "json")
        if said and (found := json.loads(said)["items"]):
            break
    if not found:
        raise KubectlError(f"kubectl's current context shows no Leadsman broker; {_ADVICE}")
    names = sorted(f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in found)
    if len(found) > 1:
        raise KubectlError(f"kubectl's current context has several brokers ({', '.join(names)}); {_ADVICE}")
    metadata, ports = found[0]["metadata"], found[0]["spec"]["ports"]
    port = next((one["port"] for one in ports if one.get("name") in {"http", "https", "api"}), ports[0]["port"])
    return metadata["name"], metadata["namespace"], port


def _tunnel(program: str, namespace: str, service: str, port: int) -> int:
    """Start kubectl's port-forward for as long as this process lives; return the local port."""
    process = subprocess.Popen(  # noqa: S603  a list of words, no shell
        [program, "--namespace", namespace, "port-forward", f"service/{service}", f":{port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    atexit.register(_end, process)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    said: list[str] = []
    while True:
        try:
            line = lines.get(timeout=_SECONDS)
        except queue.Empty:
            raise KubectlError(f"kubectl port-forward has said nothing for {_SECONDS} s; {_ADVICE}") from None
        if line is None:
            raise KubectlError(f"kubectl port-forward to {namespace}/{service}: {' '.join(said) or 'it ended'}")
        if match := _FORWARDING.search(line):
            return int(match.group(1))
        said.append(line.strip())


def _read(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str | None]") -> None:
    """Read to the end, also what comes after the tunnel is there: a full pipe would stop kubectl."""
    assert process.stdout is not None  # noqa: S101  it was asked for
    with contextlib.suppress(ValueError):  # closed at the end of this process
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    process.wait()


def _said(program: str, *words: str) -> str | None:
    """Return what kubectl prints; None when it fails."""
    try:
        done = subprocess.run(  # noqa: S603  a list of words, no shell
            [program, *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
