"""The way from this computer to the broker: kubectl port-forward, for as long as a block runs."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

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
