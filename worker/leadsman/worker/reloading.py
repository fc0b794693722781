"""`leadsman worker --reload`: the worker started again whenever a Python file of the project changes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from leadsman.logs import get_logger

_LOOK_SECONDS = 0.5
_DRAIN_SECONDS = 3.0
"""For the running handlers; then a second signal tells them to stop."""
_STOP_SECONDS = 8.0
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


def run_reloading(arguments: Sequence[str], folder: Path) -> int:
    """Run `leadsman` with these arguments in a child until told to stop; return the exit code of the last one.

    A child that ends by itself, as over a syntax error, is started again at the next change.
    """
    return _Reloader([sys.executable, "-m", "leadsman.cli", *arguments], folder).run()


class _Reloader:
    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._log = get_logger("leadsman.worker")
        self._told = threading.Event()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)
        while True:
            seen = _times(self._folder)
            # Python knows a module's age by the second: one saved twice in a second, as long as before, would be
            # taken from what the first was compiled to.
            env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
            child = subprocess.Popen(self._command, env=env)  # noqa: S603  this very program, its own arguments
            changed = self._until_changed(child, seen)
            code = self._stop(child)
            if not changed:
                return code
            self._log.info("a file changed; the worker starts again", files=changed)

    def _until_changed(self, child: "subprocess.Popen[bytes]", seen: dict[Path, int]) -> list[str]:
        """Return the files that changed; none when this process was told to stop."""
        told_ended = False
        while not self._told.wait(_LOOK_SECONDS):
            now = _times(self._folder)
            changed = [path for path in now.keys() | seen.keys() if now.get(path) != seen.get(path)]
            if changed:
                return sorted(str(path.relative_to(self._folder)) for path in changed)
            if child.poll() is not None and not told_ended:
                told_ended = True
                self._log.warning(
                    "the worker ended; it starts again when a file changes", exit_code=child.returncode
                )
        return []

    def _stop(self, child: "subprocess.Popen[bytes]") -> int:
        for seconds in (_DRAIN_SECONDS, _STOP_SECONDS):
            child.terminate()
            try:
                return child.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        child.kill()
        return child.wait()

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._told.set()


def _times(folder: Path) -> dict[Path, int]:
    """Return when each Python file below the folder was last written; hidden and installed ones are left out."""
    times = {}
    pending = [folder]
    while pending:
        try:
            entries = list(pending.pop().iterdir())
        except OSError:  # it was removed in this moment
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            try:
                if entry.is_dir() and not entry.is_symlink():
                    if not (entry / "pyvenv.cfg").exists():
                        pending.append(entry)
                elif entry.suffix == ".py":
                    times[entry] = entry.stat().st_mtime_ns
            except OSError:
                continue
    return times
