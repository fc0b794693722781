"""The command line on a pseudo-terminal, as a person has it, or on pipes, as a script has it.

from terminal_program import terminal  # noqa: F401  (pytest fixture)

def test_x(terminal):
    shown = terminal("queues")
    assert shown.wait() == 0
    assert "CAPABILITY" in shown.read()
"""

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

_SECONDS = 60.0


class Shown:
    """A running program, and what it has shown so far on whatever it writes to."""

    def __init__(self, process: subprocess.Popen[bytes], reading: list[int]) -> None:
        self.process = process
        self.shown = ""
        self._reading = reading

    def read(self) -> str:
        """Take in what was written since, and return all without colours."""
        while self._reading:
            readable, _, _ = select.select(self._reading, [], [], 0.05)
            if not readable:
                break
            for each in readable:
                try:
                    data = os.read(each, 65_536)
                except OSError:  # how Linux tells the end of a pseudo-terminal
                    data = b""
                if not data:
                    os.close(each)
                    self._reading.remove(each)
                self.shown += data.decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown)

    def wait(self, seconds: float = _SECONDS) -> int:
        """Wait until it ends by itself; return the exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()  # a full terminal would stop the program
            if not self._reading:
                return self.process.wait(max(0.1, deadline - time.monotonic()))
        self.read()
        return self.process.wait(0.1)

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for each in self._reading:
            os.close(each)


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "leadsman.cli", *arguments]


def on_terminal(environment: dict[str, str], *arguments: str) -> Shown:
    """Start it on a terminal of 200 columns."""
    master, slave = pty.openpty()
    environment = {name: value for name, value in environment.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"}
    process = subprocess.Popen(
        _command(arguments), stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    return Shown(process, [master])


def on_pipes(environment: dict[str, str], *arguments: str) -> Shown:
    """Start it with its output going into a pipe, and nothing to read."""
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        _command(arguments),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    return Shown(process, [ours])


@pytest.fixture
def terminal(environment):
    """Start commands on terminals; all are ended with the test."""
    opened = []

    def open_terminal(*arguments):
        opened.append(on_terminal(environment, *arguments))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()
