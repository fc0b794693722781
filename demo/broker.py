"""The demo's way to the broker: through a port-forward, with service account tokens made for it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from leadsman.wire.stats import StatsSnapshot

from demo.programs import DemoError

_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")


@asynccontextmanager
async def port_forward(
    kubectl: Path, kubeconfig: Path, namespace: str, target: str, port: int
) -> AsyncIterator[str]:
    """Forward a free local port to `target` (as `service/NAME`) and yield the URL; ended on the way out."""
    process = await asyncio.create_subprocess_exec(
        *(str(kubectl), "--kubeconfig", str(kubeconfig), "--namespace", namespace),
        *("port-forward", target, f":{port}", "--address", "127.0.0.1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        found = _FORWARDING.search(line)
        if found is None:
            raise DemoError(f"kubectl port-forward {target}: {(await process.stderr.read()).decode().strip()}")
        yield f"http://127.0.0.1:{int(found[1])}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


class Statistics:
    """Reads the broker's statistics as the operator does."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def sample(self, session: aiohttp.ClientSession) -> StatsSnapshot:
        """Return the whole state now."""
        async with session.get(f"{self._url}/v1/stats", headers=self._headers) as reply:
            reply.raise_for_status()
            return StatsSnapshot.model_validate(await reply.json())

    async def stream(self, session: aiohttp.ClientSession) -> AsyncIterator[tuple[str, StatsSnapshot]]:
        """Yield (kind, sample) as the broker pushes them, for ever; a stream that breaks is opened again."""
        while True:
            try:
                timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
                stream = session.get(f"{self._url}/v1/stats/stream", headers=self._headers, timeout=timeout)
                async with stream as reply:
                    reply.raise_for_status()
                    async for kind, data in _server_sent(reply.content):
                        yield kind, StatsSnapshot.model_validate(json.loads(data))
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError):
                await asyncio.sleep(0.5)  # the port-forward or the broker was away


async def _server_sent(stream: aiohttp.StreamReader) -> AsyncIterator[tuple[str, str]]:
    kind, data = "message", ""
    async for raw in stream:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data:
                yield kind, data
            kind, data = "message", ""
        elif line.startswith("event:"):
            kind = line[6:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
