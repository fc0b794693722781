"""Local mode put together: follow the broker's numbers, decide, and let the processes follow the decisions."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leadsman.errors import ConfigurationError, LeadsmanError
from leadsman.wire.workers import FenceOutcome
from leadsman_local.dev.broker import BrokerChild
from leadsman_local.dev.manifests import Manifests, load
from leadsman_local.dev.pool import DevPool
from leadsman_local.dev.telling import Telling
from leadsman_local.dev.watching import stamps
from leadsman_local.scaler import Look, look, scale_in, serving
from leadsman_operator.api import capability_config
from leadsman_operator.broker.client import BrokerClient
from leadsman_operator.broker.errors import BrokerError, BrokerUnreachableError
from leadsman_operator.broker.state import BrokerState
from leadsman_operator.broker.stream import StatsStream
from leadsman_operator.broker.token import TokenFile
from leadsman_operator.event_reasons import EventReason
from leadsman_operator.ops import OpsServer
from leadsman_operator.scaling import Action, PoolObservation, ScalingMode, Signal, capability_sample, worker_sample
from leadsman_operator.scaling.cordons import Cordon, CordonAction, Uncordon
from leadsman_operator.scaling.model import SIGNAL_STALE_SECONDS
from leadsman_operator.scaling.scale_in import (
    ClearCost,
    Fence,
    FenceReplied,
    LowerScale,
    ReadScale,
    RecordWrongVictim,
    ScaleInAction,
    ScaleInEvent,
    ScaleOutcome,
    ScaleRead,
    ScaleReplied,
    SetDeletionCost,
    Unfence,
)
from leadsman_operator.scaling.startup import told_to_broker

_LEAST_SECONDS = 0.02
"""Between two looks: news that comes together is looked at together."""
_LONGEST_SECONDS = 5.0
_FILES_SECONDS = 0.5
_ENDED_SECONDS = 2.0
"""How long a broker that no longer answers may take to end before it is said to run and refuse."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    files: tuple[Path, ...]
    app: str | None
    folder: Path
    namespace: str
    port: int
    ops_port: int
    max_processes: int
    reload: bool


class System:
    """One run of local mode."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._manifests = load(options.files, options.app, options.max_processes)
        options.folder.mkdir(parents=True, exist_ok=True)
        self._telling = Telling(options.namespace, options.folder)
        self._state = BrokerState(SIGNAL_STALE_SECONDS)
        self._pools: dict[str, DevPool] = {}
        self._news = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._pushing = asyncio.Lock()
        """One after the other: rules that were read first must not be pushed last."""
        self._generation = 0
        self._told: dict[str, float] = {}
        self._leading_since = 0.0

    async def run(self) -> int:
        """Run until Ctrl-C or SIGTERM; return the exit code."""
        loop, options, telling = asyncio.get_running_loop(), self._options, self._telling
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        for note in self._manifests.notes:
            telling.say(f"note: {note}")
        broker = await BrokerChild.start(options.folder, options.port)
        try:
            async with (
                BrokerClient(broker.url, TokenFile(None)) as client,
                OpsServer(
                    "127.0.0.1", options.ops_port, registry=telling.metrics.registry,
                    live=lambda: None, ready=lambda: None, before_scrape=lambda: None,
                ) as ops,
            ):  # fmt: skip
                self._leading_since = loop.time()
                self._make_pools(broker.url)
                await self._push_first(client, broker)
                # Only now: whoever reads where the broker is may submit at once; without rules it refuses.
                telling.say(f"broker     {broker.url}  (its metrics: http://127.0.0.1:{broker.ops_port}/metrics)")
                telling.say(
                    f"scaler     http://127.0.0.1:{ops.port}/metrics, status in {options.folder}/status.json"
                )
                telling.say(
                    f"submit     leadsman submit CAPABILITY --broker-url {broker.url} -n {options.namespace}"
                )
                stream = StatsStream(client, self._state, lambda _: self._news.set())
                tasks = [
                    asyncio.create_task(stream.run()),
                    asyncio.create_task(self._scale(client)),
                    asyncio.create_task(self._watch_files(client, broker.url)),
                    asyncio.create_task(self._watch_broker(broker)),
                ]
                try:
                    await self._until_stopped(tasks)
                finally:
                    for task in tasks[1:3]:
                        task.cancel()
                    await self._drain()
                    tasks[0].cancel()
                    tasks[3].cancel()
        finally:
            await broker.stop()
        telling.say("stopped; what is in the queues is kept")
        return 0

    def _stop(self) -> None:
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def _until_stopped(self, tasks: list[asyncio.Task[None]]) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in done - {stopping}:
            task.result()

    async def _drain(self) -> None:
        self._telling.say("stopping: workers finish what they hold; once more Ctrl-C ends them at once")
        hurry: asyncio.Task[object] = asyncio.create_task(self._hurry.wait())
        closing: asyncio.Task[object] = asyncio.create_task(self._close_pools())
        await asyncio.wait([hurry, closing], return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            for pool in self._pools.values():
                pool.kill()
        hurry.cancel()
        await closing

    async def _close_pools(self) -> None:
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    def _make_pools(self, broker_url: str) -> None:
        for name, model in self._manifests.pools.items():
            self._pools[name] = DevPool(
                model, self._manifests.programs[name], namespace=self._options.namespace, broker_url=broker_url,
                folder=self._options.folder, telling=self._telling, changed=self._news.set,
            )  # fmt: skip

    async def _push_first(self, client: BrokerClient, broker: BrokerChild) -> None:
        """Tell the rules to a broker that has just said where it listens, and may have ended since."""
        try:
            await self._push(client)
        except (BrokerError, BrokerUnreachableError) as error:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ENDED_SECONDS):
                    raise await broker.ended() from error
            raise ConfigurationError(
                f"the broker does not take the rules: {error} ({self._options.folder}/broker.log)"
            ) from error

    async def _push(self, client: BrokerClient) -> None:
        """Tell the broker the rules, with what the pools may grow to and how long their workers take to start."""
        async with self._pushing:
            namespace, scaled = self._options.namespace, [pool.scaled for pool in self._pools.values()]
            configs, told = [], {}
            for name, capability in sorted(self._manifests.capabilities.items()):
                pools = serving(scaled, name)
                told[name] = told_to_broker(pool.startup.seconds for pool in pools)
                max_slots = sum(pool.spec.max_slots for pool in pools) if pools else None
                configs.append(capability_config(capability, told[name], max_slots))
            generation = max(self._generation + 1, int(time.time() * 1000))
            while not (reply := await client.put_capabilities(namespace, generation, configs)).applied:
                # The clock was set back since the last run: go on from its number.
                generation = reply.generation + 1
            self._generation, self._told = generation, told

    async def _scale(self, client: BrokerClient) -> None:
        """Look at the pools whenever something changed, and when a decision asked for it."""
        while True:
            wait = await self._look(client)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(max(wait, _LEAST_SECONDS), _LONGEST_SECONDS)):
                    await self._news.wait()
            await asyncio.sleep(_LEAST_SECONDS)
            self._news.clear()

    async def _look(self, client: BrokerClient) -> float:
        now = asyncio.get_running_loop().time()
        namespace, state = self._options.namespace, self._state
        samples = {
            name: capability_sample(stats, now - state.sampled_at[namespace, name])
            for name in self._manifests.capabilities
            if (stats := state.capabilities.get((namespace, name))) is not None
        }
        observations = {name: self._observation(pool, now) for name, pool in self._pools.items()}
        waits = [_LONGEST_SECONDS]
        for name, found in look({n: p.scaled for n, p in self._pools.items()}, samples, observations, now).items():
            pool = self._pools[name]
            self._telling.looked(found, failing=pool.failing)
            again = await self._step_scale_in(client, pool, found)
            waits += [wait for wait in (found.decision.recheck_seconds, again) if wait is not None]
            if found.decision.action is Action.SCALE_OUT and pool.scaled.spec.mode is ScalingMode.ACTIVE:
                self._telling.event(name, EventReason.SCALED_OUT, found.decision.summary)
                self._telling.metrics.scale_writes.labels(namespace, name, "out", "written").inc()
                pool.fleet.write(found.decision.replicas)
                pool.follow()
        self._telling.workers({name: pool.roster() for name, pool in self._pools.items()})
        scaled = [pool.scaled for pool in self._pools.values()]
        measured = {
            name: told_to_broker(pool.startup.seconds for pool in serving(scaled, name)) for name in self._told
        }
        if measured != self._told:
            with contextlib.suppress(BrokerError, BrokerUnreachableError):
                await self._push(client)
        return min(waits)

    def _observation(self, pool: DevPool, now: float) -> PoolObservation:
        namespace, state = self._options.namespace, self._state
        names = pool.scaled.spec.capabilities
        lease = max([30.0, *(float(self._manifests.capabilities[name].spec.lease.seconds) for name in names)])
        age = state.age_seconds(now)
        signal_now = None
        if age is not None and state.epoch is not None:
            signal_now = Signal(state.epoch, age, max(self._leading_since, state.unbroken_since))
        return PoolObservation(
            replicas=pool.fleet.replicas,
            signal=signal_now,
            workers=tuple(
                worker_sample(stats, lease, now - at) for stats, at in state.workers_of(namespace, pool.scaled.name)
            ),
            pods=pool.fleet.samples(),
            startup_seconds=pool.scaled.startup.seconds,
            unreported_capabilities=tuple(name for name in names if (namespace, name) not in state.capabilities),
        )

    async def _step_scale_in(self, client: BrokerClient, pool: DevPool, found: Look) -> float | None:
        fences = {uid: fence.operation for uid, fence in self._state.fences.items()}
        cordons = {uid: cordon.operation for uid, cordon in self._state.cordons.items()}
        steps = scale_in(found, fences, cordons, asyncio.get_running_loop().time())
        try:
            actions = next(steps)
            while True:
                answers = [await self._carry_out(client, pool, found, action) for action in actions]
                actions = steps.send(tuple(answer for answer in answers if answer is not None))
        except StopIteration as end:
            wait: float | None = end.value
            return wait

    async def _carry_out(
        self, client: BrokerClient, pool: DevPool, found: Look, action: ScaleInAction | CordonAction
    ) -> ScaleInEvent | None:
        name = pool.scaled.name
        try:
            match action:
                case Fence():
                    reply = await client.fence(action.operation, action.pod_uids, action.ttl_seconds)
                    fenced = {each.pod_uid for each in reply.results if each.outcome is FenceOutcome.FENCED}
                    return FenceReplied(action.operation, reply.epoch, frozenset(fenced))
                case Unfence():
                    await client.unfence(action.pod_uids, action.operation)
                case Cordon():
                    await client.cordon(action.operation, action.pod_uids, action.ttl_seconds)
                case Uncordon():
                    await client.uncordon(action.pod_uids, action.operation)
                case SetDeletionCost(pods=pods):
                    pool.fleet.mark(pods, victim=True)
                    self._news.set()
                case ClearCost(pods=pods):
                    pool.fleet.mark(pods, victim=False)
                case ReadScale():
                    return ScaleRead(action.operation, pool.fleet.replicas)
                case LowerScale():
                    if not pool.fleet.lower(action.to_replicas, action.resource_version):
                        return ScaleReplied(action.operation, ScaleOutcome.CONFLICT)
                    note = f"{action.from_replicas} -> {action.to_replicas}; {found.decision.summary}"
                    self._telling.event(name, EventReason.SCALED_IN, note)
                    self._telling.metrics.scale_writes.labels(self._options.namespace, name, "in", "written").inc()
                    pool.follow()
                    return ScaleReplied(action.operation, ScaleOutcome.LOWERED)
                case RecordWrongVictim():
                    self._telling.metrics.wrong_victims.labels(self._options.namespace, name).inc()
                    note = f"{action.pod.name} was taken away although it held {action.leases} tasks"
                    self._telling.event(name, EventReason.WRONG_VICTIM, note)
        except (BrokerError, BrokerUnreachableError) as error:
            self._telling.event(name, "BrokerCallFailed", f"{type(action).__name__}: {error}")
        return None

    async def _watch_broker(self, broker: BrokerChild) -> None:
        error = await broker.ended()
        if not self._stopping.is_set():
            raise error

    async def _watch_files(self, client: BrokerClient, broker_url: str) -> None:
        """Take up changed YAML, and start workers anew on changed code."""
        if not self._options.reload:
            await self._stopping.wait()
            return
        rules, code = stamps(self._options.files), stamps(self._code())
        while True:
            await asyncio.sleep(_FILES_SECONDS)
            if (now := await asyncio.to_thread(stamps, self._options.files)) != rules:
                rules = now
                await self._take_rules(client, broker_url)
            if (now := await asyncio.to_thread(stamps, self._code())) != code:
                code = now
                self._telling.say("code changed: workers finish what they hold and start again")
                for name, pool in self._pools.items():
                    pool.replace(self._manifests.programs[name])

    def _code(self) -> Iterable[Path]:
        return sorted(Path.cwd().glob("**/*.py")) if self._options.app else []

    async def _take_rules(self, client: BrokerClient, broker_url: str) -> None:
        options = self._options
        try:
            fresh = load(options.files, options.app, options.max_processes)
        except LeadsmanError as error:
            self._telling.say(f"the change is not taken: {error}")
            return
        if fresh.pools.keys() != self._pools.keys():
            self._telling.say("the change is not taken: start again to add or remove a pool")
            return
        before, self._manifests = self._manifests, fresh
        for name, pool in self._pools.items():
            pool.scaled.change(fresh.pools[name])
            changed = (before.programs[name], _baked(before, name)) != (fresh.programs[name], _baked(fresh, name))
            if changed:
                pool.replace(fresh.programs[name])
        try:
            await self._push(client)
        except (BrokerError, BrokerUnreachableError) as error:
            self._telling.say(f"the change has not reached the broker: {error}; save the file again")
            return
        self._telling.say("the changed YAML is in force")
        self._news.set()


def _baked(manifests: Manifests, name: str) -> tuple[object, ...]:
    """Return what a running worker has been told and cannot learn anew."""
    pool = manifests.pools[name]
    return pool.capabilities, pool.spec.slots_per_worker, pool.spec.drain.grace_seconds
