"""Lifecycles of arq, run by peers.py in an environment that has it: one process enqueues, another works."""

import asyncio
import json
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection as Pipe
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker


async def noop(_context: dict[str, Any], _data: str) -> None:
    """The task."""


async def told(pipe: Pipe) -> None:
    """Return when the other process has sent something."""
    said = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), said.set)
    await said.wait()


def work(port: int, concurrency: int, pipe: Pipe) -> None:
    """Serve until told to stop; then say how many tasks were done, each marked as such in Redis."""
    done = 0

    async def ready(_context: dict[str, Any]) -> None:
        pipe.send(None)

    async def count(_context: dict[str, Any]) -> None:
        nonlocal done
        done += 1

    async def run() -> None:
        worker = Worker(
            functions=[noop],
            redis_settings=RedisSettings(host="127.0.0.1", port=port),
            max_jobs=concurrency,
            poll_delay=0.01,
            on_startup=ready,
            after_job_end=count,
            handle_signals=False,
        )
        serving = asyncio.ensure_future(worker.async_run())
        await told(pipe)
        pipe.send(done)
        serving.cancel()
        await asyncio.gather(serving, *worker.tasks.values(), return_exceptions=True)

    asyncio.run(run())


async def enqueue(port: int, seconds: float, payload: str, concurrency: int) -> None:
    """Keep `concurrency` enqueues under way, but never run far ahead of the worker."""
    pool = await create_pool(RedisSettings(host="127.0.0.1", port=port))
    until = time.perf_counter() + seconds

    async def run() -> None:
        while time.perf_counter() < until:
            job = await pool.enqueue_job("noop", payload)
            assert job is not None
            if await pool.zcard("arq:queue") > 4 * concurrency:
                await asyncio.sleep(0.01)

    await asyncio.gather(*(run() for _ in range(concurrency)))
    await pool.aclose()


def main() -> None:
    port, seconds, size, concurrency = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=work, args=(port, concurrency, theirs))
    worker.start()
    ours.recv()
    began = time.perf_counter()
    asyncio.run(enqueue(port, seconds, "x" * size, concurrency))
    ours.send(None)
    done = ours.recv()
    print(json.dumps({"per_second": done / (time.perf_counter() - began)}))
    worker.join()


if __name__ == "__main__":
    main()
