"""The broker of local mode: the real one, as a child process on a SQLite file."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path

from leadsman.errors import ConfigurationError

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0


class BrokerChild:
    """The broker process and where it listens."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, ops_port: int, log: Path) -> None:
        self.process = process
        self.url = url
        self.ops_port = ops_port
        self._log = log

    @classmethod
    async def start(cls, folder: Path, port: int) -> "BrokerChild":
        """Start it and wait until it listens; the folder is there. Raises ConfigurationError with what it said."""
        log = folder / "broker.log"
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "leadsman_broker.cli", "serve",
                "--data", str(folder / "broker"), "--port", str(port), "--ops-port", "0",
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            async with asyncio.timeout(_START_SECONDS):
                where = json.loads(await process.stdout.readline() or b"null")
        except TimeoutError:
            where = None
        if where is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise ConfigurationError(f"the broker did not start: {_last_words(log)} ({log})")
        listening = where["listening"]
        return cls(process, f"http://127.0.0.1:{listening['port']}", listening["ops_port"], log)

    async def ended(self) -> ConfigurationError:
        """Wait for its end; return the error that says how it ended, its last words and where the others are."""
        code = await self.process.wait()
        return ConfigurationError(f"the broker ended with {code}: {_last_words(self._log)} ({self._log})")

    async def stop(self) -> None:
        """End it; what it holds is on the disk."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


def _last_words(log: Path) -> str:
    said = log.read_text(errors="replace").strip().splitlines()
    return said[-1] if said else "it said nothing"
