"""One candidate and its Lease: what it says about leading, and when."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.election import Election, ElectionTimes

TIMES = ElectionTimes(lease=30.0, deadline=1.0, renew=0.05)


class Lease:
    """The one Lease of an API server."""

    def __init__(self):
        self.stored = None
        self.version = 0

    async def answer(self, request):
        if request.method != "GET":
            self.version += 1
            self.stored = await request.json()
            self.stored["metadata"]["resourceVersion"] = str(self.version)
        if self.stored is None:
            return web.json_response({"kind": "Status", "message": "no lease", "reason": "NotFound"}, status=404)
        return web.json_response(self.stored)


@pytest.fixture
async def told():
    """What a running election says."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Lease().answer)
    async with served(app) as url:
        configuration = Configuration()
        configuration.host = url
        async with KubeClient(configuration) as client:
            said: asyncio.Queue[bool] = asyncio.Queue()
            election = Election(
                client, namespace="here", name="operator", identity="me", changed=said.put_nowait, times=TIMES
            )
            running = asyncio.create_task(election.run())
            yield said
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def served(app):
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def heard(told):
    return await asyncio.wait_for(told.get(), 60)


async def test_a_lapse_is_told_though_the_next_renewal_ends_it(told):
    """What the operator would have done in it was dropped: unless it begins to lead again, nobody takes that up."""
    assert await heard(told)

    # A process that gets no processor for longer than the deadline: stopped, or on a machine that is full.
    asyncio.get_running_loop().call_soon(time.sleep, 2 * TIMES.deadline)

    assert not await heard(told)
    assert await heard(told)
