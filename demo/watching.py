"""Follows the API server with `kubectl get --watch`, as a person would, and feeds the record."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from demo.pods import Pod
from demo.record import Record

_CHUNK = 1 << 16
POOL_LABEL = "leadsman.dev/pool"


async def objects(kubectl: Path, kubeconfig: Path, namespace: str, kind: str) -> AsyncIterator[tuple[str, Any]]:
    """Yield (event type, object) for all of a kind in a namespace, for ever; a watch that ends is begun again."""
    while True:
        process = await asyncio.create_subprocess_exec(
            *(str(kubectl), "--kubeconfig", str(kubeconfig), "--namespace", namespace),
            *("get", kind, "--watch", "--output-watch-events", "--output", "json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            async for event in _documents(process.stdout):
                yield event["type"], event["object"]
            await asyncio.sleep(1)  # the API server was away: do not press it
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _documents(stream: asyncio.StreamReader) -> AsyncIterator[Any]:
    """Yield the JSON documents that follow each other in a stream."""
    decoder, text = json.JSONDecoder(), ""
    while chunk := await stream.read(_CHUNK):
        text += chunk.decode()
        while text := text.lstrip():
            try:
                document, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                break  # the rest of it has not arrived yet
            text = text[end:]
            yield document


async def follow_deployments(source: AsyncIterator[tuple[str, Any]], record: Record) -> None:
    """Note every change of a pool's wanted and ready replicas."""
    async for event, found in source:
        pool = found["metadata"].get("labels", {}).get(POOL_LABEL) or found["metadata"]["name"]
        if event == "DELETED":
            record.deployment(pool, 0, 0)
        else:
            record.deployment(pool, found["spec"].get("replicas", 1), found["status"].get("readyReplicas", 0))


async def follow_pods(
    source: AsyncIterator[tuple[str, Any]], record: Record, left: Callable[[Pod], Awaitable[None]]
) -> None:
    """Note every worker pod, and call `left` at once when one begins to leave."""
    async for event, found in source:
        pod = Pod.read(found)
        if pod.pool and record.pod(pod, gone=event == "DELETED"):
            await left(pod)


async def follow_events(source: AsyncIterator[tuple[str, Any]], record: Record) -> None:
    """Show the events that the operator writes about pools and capabilities."""
    shown: set[tuple[str, int]] = set()
    async for event, found in source:
        about = found.get("regarding") or found.get("involvedObject") or {}
        count = (found.get("series") or {}).get("count") or found.get("deprecatedCount") or found.get("count") or 1
        key = (found["metadata"]["uid"], count)
        if event == "DELETED" or about.get("kind") not in {"WorkerPool", "Capability"} or key in shown:
            continue
        shown.add(key)
        if record.begun:
            note = found.get("note") or found.get("message", "")
            record.tell("event", about["name"], f"{found['reason']}: {note}")
