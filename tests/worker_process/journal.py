"""What handlers in other processes leave behind, and what holds them up: files, which survive a kill -9."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def whole_lines(text: str) -> list[str]:
    """Return the lines that are written to their end: who reads a file meanwhile may see half of the last one."""
    return text[: text.rfind("\n") + 1].splitlines()


@dataclass(frozen=True)
class Entry:
    """One thing a handler did."""

    event: str
    task: str
    attempt: int
    pid: int
    detail: Any = None


class Journal:
    """A file that handlers append to, one line each, in the order in which it happened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, task: str, attempt: int, detail: Any = None) -> None:
        """Append one line in one write, so that processes do not mix theirs.

        It begins with a line end too: a kill -9 in the middle of the entry before must not spoil this one.
        """
        entry = {"event": event, "task": task, "attempt": attempt, "pid": os.getpid(), "detail": detail}
        with self.path.open("a") as file:
            file.write(f"\n{json.dumps(entry)}\n")

    def entries(self, event: str | None = None, task: str | None = None) -> list[Entry]:
        """Return what was written so far."""
        if not self.path.exists():
            return []
        lines = [line for line in whole_lines(self.path.read_text()) if line.endswith("}")]
        found = [Entry(**json.loads(line)) for line in lines]
        return [e for e in found if event in {None, e.event} and task in {None, e.task}]

    def details(self, event: str, task: str | None = None) -> list[Any]:
        """Return the details of one kind of event."""
        return [entry.detail for entry in self.entries(event, task)]


class Gate:
    """Holds handlers up until it is opened; a path, so that it can travel in a payload."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    @property
    def is_open(self) -> bool:
        """Whether handlers may pass."""
        return Path(self.path).exists()

    def open(self) -> None:
        """Let handlers pass, now and later."""
        Path(self.path).touch()
