"""Lifecycles of procrastinate, run by peers.py in an environment that has it: one process defers, another works."""

import asyncio
import json
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection as Pipe

from procrastinate import App, PsycopgConnector

DONE = "SELECT count(*) AS done FROM procrastinate_jobs WHERE status = 'succeeded'"
WAITING = "SELECT count(*) AS waiting FROM procrastinate_jobs WHERE status = 'todo'"


def application(where: str, connections: int) -> App:
    """Return the application with its one task."""
    app = App(connector=PsycopgConnector(conninfo=where, min_size=connections, max_size=connections))

    @app.task(name="noop")
    async def noop(data: str) -> None:
        """Do nothing."""

    return app


async def told(pipe: Pipe) -> None:
    """Return when the other process has sent something."""
    said = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), said.set)
    await said.wait()


def work(where: str, concurrency: int, pipe: Pipe) -> None:
    """Serve until told to stop."""

    async def run() -> None:
        app = application(where, concurrency)
        async with app.open_async():
            serving = asyncio.ensure_future(
                app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)
            )
            pipe.send(None)
            await told(pipe)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(run())


async def defer(where: str, seconds: float, payload: str, concurrency: int, pipe: Pipe) -> float:
    """Keep `concurrency` inserts under way, but never run far ahead of the worker; return tasks done a second."""
    app = application(where, concurrency)
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        pipe.send(None)
        pipe.recv()
        noop = app.tasks["noop"]
        before = (await app.connector.execute_query_one_async(DONE))["done"]
        began = time.perf_counter()
        waiting = 0

        async def run() -> None:
            while time.perf_counter() < began + seconds:
                await noop.defer_async(data=payload)
                if waiting > 4 * concurrency:
                    await asyncio.sleep(0.05)

        async def look() -> None:
            nonlocal waiting
            while True:
                waiting = (await app.connector.execute_query_one_async(WAITING))["waiting"]
                await asyncio.sleep(0.05)

        looking = asyncio.ensure_future(look())
        await asyncio.gather(*(run() for _ in range(concurrency)))
        done = (await app.connector.execute_query_one_async(DONE))["done"] - before
        rate = done / (time.perf_counter() - began)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        return float(rate)


def main() -> None:
    where, seconds, size, concurrency = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=after_schema, args=(where, concurrency, theirs))
    worker.start()
    rate = asyncio.run(defer(where, seconds, "x" * size, concurrency, ours))
    ours.send(None)
    worker.join()
    print(json.dumps({"per_second": rate}))


def after_schema(where: str, concurrency: int, pipe: Pipe) -> None:
    """Work once the tables are there."""
    pipe.recv()
    work(where, concurrency, pipe)


if __name__ == "__main__":
    main()
