"""Running kubectl, helm and the like: what they say on failure becomes the message."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class DemoError(Exception):
    """The demo cannot go on; the message says what is missing or what failed, and what to do."""


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout_seconds: float = 600,
) -> str:
    """Run a program to its end and return its standard output. Raises DemoError with its own words."""
    words = [str(word) for word in command]
    shown = " ".join([Path(words[0]).name, *words[1:]])
    try:
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError as error:
        raise DemoError(f"{words[0]} is not there") from error
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"{shown} did not end within {timeout_seconds:.0f} s") from error
    if done.returncode:
        raise DemoError(f"{shown}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
