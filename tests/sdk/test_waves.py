"""What was sent away together does not come back together: every wait that many may begin at once is spread."""

import asyncio
import json
import time

import pytest

from held_lease import held
from leadsman import App, Client
from leadsman.connection.address import resolve
from leadsman.connection.backoff import jittered, later
from leadsman.connection.http import HttpReply
from leadsman.errors import UnavailableError
from leadsman.worker.heartbeats import Heartbeats
from leadsman.worker.holding import Holding
from leadsman.worker.loop_watch import LoopWatch
from leadsman.worker.metrics import WorkerMetrics
from leadsman.worker.settings import Overrides, worker_settings
from leadsman.worker.settling import Settling
from leadsman.worker.standing import Standing
from leadsman.worker.verdicts import GivenBack

MANY = 100


def spread(waits, least, most):
    """Whether the waits use the whole of what they may be, and none is like another."""
    assert all(least <= wait <= most for wait in waits), (min(waits), max(waits))
    assert max(waits) - min(waits) > 0.6 * (most - least)
    assert len(set(waits)) > 0.9 * len(waits)


@pytest.mark.parametrize(("wait", "least", "most"), [(jittered, 9.0, 11.0), (later, 10.0, 12.5)])
def test_a_wait_of_many_is_spread(wait, least, most):
    spread([wait(10.0) for _ in range(MANY)], least, most)


class WaitedError(Exception):
    def __init__(self, seconds):
        super().__init__(f"{seconds} s")
        self.seconds = seconds


class Refusing:
    """In the place of a client's connection: the broker has no room, or is about to stop."""

    def __init__(self, status):
        self.address = resolve("http://broker", "default", None, None)
        self._status = status

    async def call(self, _method, _path, body, **_):
        if self._status == 429:
            refused = {"accepted": False, "reason": "pool saturated", "retry_after_s": 20}
            return HttpReply(429, json.dumps({"results": [refused] * len(json.loads(body)["tasks"])}).encode())
        raise UnavailableError("away", code="unavailable", status=self._status, errors=[], retry_after_s=20)


@pytest.mark.parametrize("status", [429, 503, 507])
async def test_producers_that_were_told_when_to_come_back_are_not_one_wave(monkeypatch, status):
    async def sleep(seconds):
        raise WaitedError(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    waits = []
    for _ in range(MANY):
        client = Client("http://broker", unreachable_seconds=100)
        client._connection = Refusing(status)
        with pytest.raises(WaitedError) as waited:
            await client.submit("llm", wait_for_room_seconds=100)
        waits.append(waited.value.seconds)
    spread(waits, 20, 25)


class Recording:
    """In the place of a worker's connection: takes every settlement and keeps what was said."""

    def __init__(self):
        self.address = resolve("http://broker", "default", None, None)
        self.released = []

    async def call(self, _method, _path, body, **_):
        releases = json.loads(body)["releases"]
        self.released += releases
        return HttpReply(200, json.dumps({"results": [{"ok": True, "state": "delayed"}] * len(releases)}).encode())


@pytest.mark.parametrize("asked_to_spread", [True, False])
async def test_tasks_that_a_provider_refused_together_are_not_one_wave(asked_to_spread):
    connection = Recording()
    settling = Settling(connection, Standing())
    leases = [held(f"t-{n}") for n in range(MANY)]

    await asyncio.gather(*(settling.settle(each, GivenBack("429", 20.0, asked_to_spread)) for each in leases))

    delays = [each["delay_seconds"] for each in connection.released]
    assert len(delays) == MANY
    if asked_to_spread:
        spread(delays, 20, 25)
    else:
        assert set(delays) == {20.0}, "a delay that a handler chose is kept to"


class OneBeat(Heartbeats):
    """Answered once, and then stopped."""

    def _beat(self, _heartbeat_seconds):
        self.stop()
        return True


async def test_heartbeats_of_many_workers_that_began_together_drift_apart():
    app = App()

    @app.task("llm")
    async def handle(context):
        return context.payload

    settings = worker_settings(app, Overrides(), {"LEADSMAN_BROKER_URL": "http://broker"})
    waits = []
    for _ in range(MANY):
        holding, standing = Holding(1, {}), Standing()
        watch = LoopWatch(asyncio.get_running_loop(), 0)
        metrics = WorkerMetrics(holding, standing)
        heartbeats = OneBeat(settings, holding, standing, watch, pytest.fail, metrics=metrics)
        heartbeats._keep_beating()
        waits.append(heartbeats._next_at - time.monotonic())
    spread([round(wait, 3) for wait in waits], 8.9, 11)
