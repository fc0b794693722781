"""Worker processes in place of pods: started, probed, bounded in memory, told to end."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

from leadsman_local.dev.manifests import Program

_PROBE_SECONDS = 1.0


class WorkerProcess:
    """One process and the group it leads. Its log goes to a file."""

    def __init__(self, process: asyncio.subprocess.Process, health_port: int, program: Program) -> None:
        self.process = process
        self.health_port = health_port
        self.program = program
        self.was_ready = False
        self.killed_for_memory = False

    @classmethod
    async def start(cls, program: Program, env: Mapping[str, str], log: Path) -> "WorkerProcess":
        """Start it. Raises OSError."""
        port = free_port()
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                env={
                    **os.environ,
                    **program.env,
                    **env,
                    "LEADSMAN_HEALTH_PORT": str(port),
                    "PYTHONDONTWRITEBYTECODE": "1",  # code that changed within a second is never taken from before
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us: workers are told to drain, in our order
            )
        return cls(process, port, program)

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self.process.pid

    async def ready(self) -> bool:
        """Ask its health server whether it is ready."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.health_port)
                try:
                    writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                    return b" 200 " in await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    def within_memory(self) -> bool:
        """Kill it when its group holds more than its limit, as a node would; return False then."""
        limit = self.program.memory_bytes
        if limit is None or resident_bytes(self.pid) <= limit:
            return True
        self.killed_for_memory = True
        self.kill()
        return False

    def drain(self) -> None:
        """Tell it to finish what it holds and end."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and its children at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def resident_bytes(group: int) -> int:
    """Return the memory of a process group; 0 where the system does not tell (no /proc)."""
    total, page = 0, os.sysconf("SC_PAGE_SIZE")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, process group, ..., resident pages.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += int(fields[21]) * page
    return total
