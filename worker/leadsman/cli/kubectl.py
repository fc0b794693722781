"""Reading objects with the user's own kubectl: its credentials, contexts and plugins are not ours to repeat."""

import json
import shutil
import subprocess
from typing import Any

from leadsman.errors import ConfigurationError, LeadsmanError

_SECONDS = 30


class KubectlError(LeadsmanError):
    """kubectl could not read the object; the message has its words."""

    code = "kubectl"


def get(kind: str, name: str, namespace: str | None) -> dict[str, Any]:
    """Return an object; without a namespace from the one of kubectl's context.

    Raises ConfigurationError without a kubectl, and KubectlError with its own words.
    """
    program = shutil.which("kubectl")
    if program is None:
        raise ConfigurationError("kubectl is not on PATH; it is what reads the pool")
    where = [] if namespace is None else ["--namespace", namespace]
    try:
        done = subprocess.run(  # noqa: S603 - a list of words, no shell
            [program, "get", kind, name, *where, "--output", "json"],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise KubectlError(f"kubectl has not answered within {_SECONDS} s; is the cluster there?") from error
    if done.returncode:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise KubectlError(f"kubectl get {kind} {name}: {words}")
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        raise KubectlError(f"kubectl get {kind} {name} printed no JSON") from error
    if not isinstance(found, dict):
        raise KubectlError(f"kubectl get {kind} {name} printed no object")
    return found
