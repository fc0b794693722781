"""A worker process: asks for tasks, works on them for as long as chance says, and renews its leases."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TYPE_CHECKING

from leadsman.wire.leases import LeaseStatus, WorkerState
from leadsman_broker.core import commands as c
from leadsman_broker.core.results import Answer, BeatOutcome, Granted
from leadsman_broker.core.usage import Usage
from leadsman_local.simulator.broker import NAMESPACE, Ask
from leadsman_local.simulator.providers import Reply, VirtualProvider

if TYPE_CHECKING:
    from leadsman_local.fleet import Pod
    from leadsman_local.simulator.scenario import Work
    from leadsman_local.simulator.world import World
    from leadsman_operator.scaling import PoolSpec


class Fate(Enum):
    """How an attempt ends."""

    DONE = "done"
    FAILS = "fails"
    CRASHES = "crashes"
    HANGS = "hangs"


@dataclass(slots=True, eq=False)
class Attempt:
    """One task in a worker's hands."""

    granted: Granted
    began_at: float
    provider: VirtualProvider | None = None
    over: bool = False
    crashes_at: float = math.inf
    hangs: bool = False


class VirtualWorker:
    """One life of a worker process. `gone` is called once it holds nothing and was told to stop."""

    def __init__(
        self,
        world: "World",
        pod: "Pod",
        spec: "PoolSpec",
        *,
        life: int,
        factor: float,
        gone: Callable[["VirtualWorker"], None],
    ) -> None:
        self.world = world
        self.pod = pod
        self.who = c.Worker(NAMESPACE, pod.uid, str(life), pool=spec.name, pod_name=pod.name)
        self.capabilities = spec.capabilities
        self.slots = spec.slots_per_worker
        self.factor = factor
        self.held: dict[str, Attempt] = {}
        self.alive = True
        self.draining = False
        self.fenced = False
        self.cordoned = False
        self.killed_at = math.inf
        """When its grace is over, if it is told to end."""
        # A task that comes between two heartbeats and crashes its worker before the second: what else it holds was
        # renewed by the first.
        crashes = any(world.work[name].crashes for name in spec.capabilities)
        self._lazy = world.lazy and not (crashes and self.slots > 1)
        self._safe_until = 0.0
        """It need not be heard before: its leases last until then."""
        self._rng = Random(f"{world.scenario.seed}/{pod.uid}/{life}")  # noqa: S311 - chance, not secrets
        self._gone = gone

    @property
    def key(self) -> tuple[str, str, str]:
        """As the core knows it."""
        return NAMESPACE, self.who.pod_uid, self.who.incarnation

    def ask(self, *before: c.Command) -> None:
        """Ask for as many tasks as there are free slots, after telling what `before` says."""
        free = self.slots - len(self.held)
        if not self.alive or self.draining or self.fenced or self.cordoned or free <= 0:
            if before:
                self.world.broker.send(*before)
            return
        ask = Ask(self.who, self.capabilities, self.slots, free, tuple(self.held))
        self.world.broker.lease(ask, self._answered, *before)

    def must_beat(self, until: float) -> bool:
        """Say whether this heartbeat can make a difference, when the next one would be at `until`.

        One that only moves the end of a lease a little further ahead is left out: nobody can tell, unless the
        worker dies before the next, and then the last one counts.
        """
        if self._safe_until <= until or self.killed_at <= until:
            return True
        world = self.world
        if world.next_loss_at <= until or not self._lazy:
            return True
        return any(attempt.hangs or attempt.crashes_at <= until for attempt in self.held.values())

    def heartbeat(self) -> c.Heartbeat:
        """Return the call that renews everything it holds."""
        return c.Heartbeat(
            self.who, self.capabilities, self.slots, draining=self.draining,
            leases=tuple(c.Beat(token) for token in self.held),
        )  # fmt: skip

    def hear(self, beats: Sequence[BeatOutcome]) -> None:
        """Take in a heartbeat's reply: until when the leases last, and which are lost."""
        self._safe_until = self.world.agenda.now + self.world.shortest_lease
        lost, cancelled = [], []
        for beat in beats:
            if beat.status is LeaseStatus.CANCELLED:
                cancelled.append(beat.token)
            elif beat.status is not LeaseStatus.OK:
                lost.append(beat.token)
            elif beat.expires_at is not None and beat.expires_at < self._safe_until:
                self._safe_until = beat.expires_at
        for token in lost:
            attempt = self.held.get(token)
            if attempt is not None:
                self._end(token, attempt, duplicate=True)
        settled = []
        for token in cancelled:
            attempt = self.held.get(token)
            if attempt is not None:
                usage = self._end(token, attempt, useless=True)
                settled.append(c.Release(NAMESPACE, token, reason="cancelled", usage=usage))
        if lost or settled:
            self._go_on(*settled)

    def follow(self, *, fenced: bool, cordoned: bool) -> None:
        """Follow what the broker wants of it."""
        blocked = self.fenced or self.cordoned
        self.fenced, self.cordoned = fenced, cordoned
        if blocked and not (fenced or cordoned):
            self.ask()

    def drain(self) -> None:
        """Take no more tasks; end when nothing is held."""
        if not self.alive or self.draining:
            return
        self.draining = True
        self.world.broker.send(self.heartbeat())
        if not self.held:
            self._gone(self)

    def die(self) -> None:
        """End without a word: what it holds is found out when the leases run out."""
        if not self.alive:
            return
        self.alive = False
        for attempt in self.held.values():
            self._stop(attempt, duplicate=True)
        self.held.clear()

    def _answered(self, answer: Answer) -> None:
        self.fenced = answer.worker is WorkerState.FENCED
        self.cordoned = answer.worker is WorkerState.CORDONED
        if not self.alive:
            return  # the reply of a process that has died
        for granted in answer.leases:
            self._begin(granted)
        if answer.leases:
            self.ask()

    def _begin(self, granted: Granted) -> None:
        world, now = self.world, self.world.agenda.now
        work = world.work[granted.capability]
        attempt = Attempt(granted, now)
        self.held[granted.token] = attempt
        self._safe_until = min(self._safe_until, granted.expires_at)
        world.recorder.began(granted, now)
        seconds = world.service_seconds(granted, self._rng) * self.factor
        provider = world.providers.get(work.provider) if work.provider is not None else None
        if provider is not None:
            reply = provider.ask(now)
            if reply is Reply.TOO_MANY:
                world.agenda.after(0.0, lambda: self._turned_away(attempt, provider))
                return
            if reply is Reply.DEAD:
                self._later(attempt, provider.rules.fails_after_seconds, Fate.FAILS)
                return
            attempt.provider = provider
        fate = self._fate(work)
        if fate is Fate.CRASHES:
            seconds *= self._rng.random()
            attempt.crashes_at = now + seconds
        attempt.hangs = fate is Fate.HANGS
        if fate is not Fate.HANGS:
            self._later(attempt, seconds, fate)

    def _fate(self, work: "Work") -> Fate:
        chance = self._rng.random()
        for fate, share in ((Fate.CRASHES, work.crashes), (Fate.HANGS, work.hangs), (Fate.FAILS, work.fails)):
            if chance < share:
                return fate
            chance -= share
        return Fate.DONE

    def _later(self, attempt: Attempt, seconds: float, fate: Fate) -> None:
        self.world.agenda.after(seconds, lambda: self._finish(attempt, fate))

    def _turned_away(self, attempt: Attempt, provider: VirtualProvider) -> None:
        if attempt.over:
            return
        token = attempt.granted.token
        usage = self._end(token, attempt, useless=True)
        delay = provider.rules.retry_after_seconds * (1 + 0.25 * self._rng.random())
        self._go_on(c.Release(NAMESPACE, token, delay_seconds=delay, reason="rate limited", usage=usage))

    def _finish(self, attempt: Attempt, fate: Fate) -> None:
        if attempt.over:
            return
        token = attempt.granted.token
        if fate is Fate.CRASHES:
            self.world.crashed(self)
            return
        usage = self._end(token, attempt, useless=fate is Fate.FAILS)
        if fate is Fate.DONE:
            self.world.recorder.done(attempt.granted)
            self._go_on(c.Ack(NAMESPACE, token, usage=usage))
        else:
            self._go_on(c.Nack(NAMESPACE, token, "SimulatedError", usage=usage))

    def _end(self, token: str, attempt: Attempt, *, useless: bool = False, duplicate: bool = False) -> Usage | None:
        del self.held[token]
        return self._stop(attempt, useless=useless, duplicate=duplicate)

    def _stop(self, attempt: Attempt, *, useless: bool = False, duplicate: bool = False) -> Usage | None:
        """End an attempt; return what it has used, None when its tasks use nothing."""
        attempt.over = True
        if attempt.provider is not None:
            attempt.provider.done()
        work = self.world.work[attempt.granted.capability]
        used = Usage(round(work.tokens.draw(self._rng)), round(work.cost_micros.draw(self._rng)))
        self.world.recorder.worked(
            attempt.granted, self.world.agenda.now - attempt.began_at,
            tokens=used.tokens, cost_micros=used.cost_micros, wasted=useless or duplicate,
        )  # fmt: skip
        return used if used.tokens or used.cost_micros else None

    def _go_on(self, *settled: c.Command) -> None:
        self.ask(*settled)
        if self.draining and not self.held and self.alive:
            self._gone(self)
