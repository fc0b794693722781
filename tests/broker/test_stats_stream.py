"""The stream that the operator scales by: a snapshot, then every change, with nothing lost on the way."""

import asyncio
import contextlib
import socket

from broker_process import BrokerClient, eventually, eventually_async
from leadsman.wire.stats import StatsSnapshot


class View:
    """What a reader knows from the events alone."""

    def __init__(self):
        self.queues, self.workers, self.fences = {}, {}, []
        self.epoch, self.sequence, self.kinds = None, None, []

    def take(self, event):
        stats = StatsSnapshot.model_validate(event.data)
        assert event.id == f"{stats.epoch}-{stats.sequence}"
        if event.kind == "snapshot":
            self.queues, self.workers = {}, {}
        elif event.kind == "delta":
            assert stats.epoch == self.epoch
            assert stats.sequence == self.sequence + 1
        else:
            assert (stats.epoch, stats.sequence) == (self.epoch, self.sequence)
            assert stats.capabilities == stats.workers == []
        self.queues |= {(queue.namespace, queue.name): queue for queue in stats.capabilities}
        self.workers |= {worker.id: worker for worker in stats.workers}
        for key in stats.gone_capabilities:
            self.queues.pop(key, None)
        for worker_id in stats.gone_workers:
            self.workers.pop(worker_id, None)
        self.fences = [fence.pod_uid for fence in stats.fences]
        self.epoch, self.sequence = stats.epoch, stats.sequence
        self.kinds.append(event.kind)

    @property
    def work(self):
        return self.queues[("default", "work")]


async def follow(events, view, until):
    """Read events until the view is as wanted."""
    async with asyncio.timeout(60):
        while not until(view):
            view.take(await anext(events))


async def test_a_stream_begins_with_everything(lone_client):
    await lone_client.submit({"capability": "work"}, {"capability": "work"})
    await lone_client.lease("busy")
    view = View()

    async with lone_client.stream() as events:
        view.take(await anext(events))

    assert view.kinds == ["snapshot"]
    assert (view.work.ready, view.work.leased) == (1, 1)
    assert [(worker.pod_uid, worker.leases) for worker in view.workers.values()] == [("busy", 1)]


async def test_edges_are_pushed(lone_client):
    view = View()
    async with lone_client.stream() as events:
        await follow(events, view, lambda view: view.kinds)

        await lone_client.submit({"capability": "work"})
        await follow(events, view, lambda view: view.work.ready == 1)
        (lease,) = (await lone_client.lease("pod"))["leases"]
        await follow(events, view, lambda view: view.workers and view.workers["pod.1"].leases == 1)
        assert (view.work.ready, view.work.leased) == (0, 1)
        await lone_client.ack(lease["token"])
        await follow(events, view, lambda view: view.workers["pod.1"].leases == 0)
        assert (view.work.leased, view.work.completed_total) == (0, 1)
        await lone_client.ok("POST", "/v1/workers/fence", {"operation": "o", "pod_uids": ["pod"]})
        await follow(events, view, lambda view: view.fences == ["pod"])
        assert view.workers["pod.1"].state == "fenced"
        await lone_client.configure({"name": "work"}, {"name": "new"}, generation=2)
        await follow(events, view, lambda view: ("default", "new") in view.queues)
        await lone_client.configure({"name": "work"}, generation=3)
        await follow(events, view, lambda view: ("default", "new") not in view.queues)


async def test_a_stream_ends_up_equal_to_a_sample(lone_client, broker):
    view = View()
    async with lone_client.stream() as events:

        async def churn(number):
            async with BrokerClient(broker.url) as worker:
                for _ in range(30):
                    await worker.submit({"capability": "work"}, {"capability": "work"})
                    leases = (await worker.lease(f"pod-{number}", slots=2))["leases"]
                    await worker.ack(*[lease["token"] for lease in leases][:1] or ["none"])

        await asyncio.gather(*(churn(number) for number in range(4)))
        sample = StatsSnapshot.model_validate(await lone_client.stats())
        (wanted,) = sample.capabilities

        await follow(events, view, lambda view: view.kinds and view.work.accepted_total == 240)
        await follow(events, view, lambda view: view.work.completed_total == wanted.completed_total)

    assert (view.work.ready, view.work.leased) == (wanted.ready, wanted.leased)
    assert {worker.id: worker.leases for worker in view.workers.values()} == {
        worker.id: worker.leases for worker in sample.workers
    }
    assert view.kinds.count("delta") < 240  # gathered, not one event for each of 500 changes


async def test_a_reader_that_comes_back_gets_what_it_missed(lone_client):
    view = View()
    async with lone_client.stream() as events:
        await follow(events, view, lambda view: view.kinds)
    last = f"{view.epoch}-{view.sequence}"
    await lone_client.submit({"capability": "work"})

    async with lone_client.stream(last) as events:
        await follow(events, view, lambda view: view.work.ready == 1)

    assert view.kinds == ["snapshot", "delta"]


async def test_a_reader_with_an_unknown_id_gets_a_snapshot(lone_client):
    for unknown in ("", "x", "other-epoch-5", "-1", f"{(await lone_client.stats())['epoch']}-99999"):
        view = View()
        async with lone_client.stream(unknown) as events:
            view.take(await anext(events))
        assert view.kinds == ["snapshot"]


async def test_a_reader_from_before_a_restart_gets_a_snapshot_of_the_new_epoch(lone_client, broker):
    view = View()
    async with lone_client.stream() as events:
        await follow(events, view, lambda view: view.kinds)
    before = view.epoch
    broker.restart()
    await lone_client.reconnect()

    async with lone_client.stream(f"{view.epoch}-{view.sequence}") as events:
        view.take(await anext(events))

    assert view.kinds == ["snapshot", "snapshot"]
    assert view.epoch != before


async def test_an_idle_stream_ticks_and_tells_which_workers_were_heard(lone_client):
    view = View()
    async with lone_client.stream() as events:
        await follow(events, view, lambda view: view.kinds)
        await follow(events, view, lambda view: "tick" in view.kinds)
        await lone_client.heartbeat("pod")
        await follow(events, view, lambda view: "pod.1" in view.workers)
        seen = len(view.kinds)

        async def beats():
            while True:
                await lone_client.heartbeat("pod")
                await asyncio.sleep(0.5)

        beating = asyncio.create_task(beats())
        await follow(events, view, lambda view: len(view.kinds) > seen)
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating

    assert view.kinds[-1] == "delta"
    assert view.workers["pod.1"].last_heard_seconds < 60


async def test_a_reader_that_does_not_read_is_dropped_and_holds_nobody_up(lone_client, broker):
    with socket.socket() as sleeper:
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sleeper.connect(("127.0.0.1", broker.port))
        sleeper.sendall(b"GET /v1/stats/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        names = [f"a-queue-with-a-long-name-{'x' * 150}-{number}" for number in range(2000)]
        generation = 2

        async def dropped():
            nonlocal generation
            generation += 1
            rules = [{"name": name, "max_attempts": generation % 9 + 1} for name in names]
            await lone_client.configure({"name": "work"}, *rules, generation=generation)
            return "did not keep up and was dropped" in broker.log

        await eventually_async(dropped, seconds=120)
        await lone_client.configure({"name": "work"}, generation=generation + 1)  # metrics of thousands take long
        metrics = await _metrics(lone_client, broker)
        assert (metrics["leadsman_stream_readers_dropped_total"], metrics["leadsman_stream_readers"]) == (1, 0)
        assert (await lone_client.submit({"capability": "work"}))[0]["accepted"]


async def test_a_reader_that_leaves_is_forgotten(lone_client, broker):
    async with lone_client.stream() as events:
        await anext(events)
        assert (await _metrics(lone_client, broker))["leadsman_stream_readers"] == 1

    async def forgotten():
        return (await _metrics(lone_client, broker))["leadsman_stream_readers"] == 0

    assert await eventually_async(forgotten)


async def test_streams_end_when_the_broker_does(lone_client, broker):
    async with lone_client.stream() as events:
        await anext(events)
        terminating = asyncio.get_running_loop().run_in_executor(None, broker.terminate)
        with contextlib.suppress(StopAsyncIteration):
            async with asyncio.timeout(60):
                while True:
                    await anext(events)
        assert await terminating == 0
    assert eventually(lambda: not broker.alive)


async def _metrics(client, broker):
    async with client.session.get(broker.ops_url + "/metrics") as response:
        lines = (await response.text()).splitlines()
    return {
        name: float(value)
        for name, _, value in (line.partition(" ") for line in lines if not line.startswith("#"))
        if "{" not in name
    }
