"""Dividing each capability's work over the pools that serve it: nothing is counted twice, nothing left to nobody.

Once per sample, capabilities and pools in the order of their names: first one task for every free live slot that
the interactive reserve does not keep free; then to each pool as many tasks as keep its slots, with that reserve,
within `maxReplicas * slotsPerWorker`, and the rest to the next one.
The last that takes new work gets what is left: it is the one that shows `AtMaxReplicas`. A pool that cannot grow -
paused, observing, in conflict, failing, out of quota, or without a handler - gets what its live slots can take. If
there is no other, a pool that observes is given the rest all the same: it shows what it would do with it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leadsman_operator.scaling.census import (
    capabilities_not_served,
    census,
    serving_workers,
)
from leadsman_operator.scaling.demand import SlotRule, rate_slots, slot_rule
from leadsman_operator.scaling.model import (
    CapabilitySample,
    CapabilityWork,
    PoolObservation,
    PoolSpec,
    ScalingMode,
    ScalingPolicy,
)
from leadsman_operator.scaling.trust import plausible


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as `share` sees it; the observation's own `work` is not read."""

    spec: PoolSpec
    observation: PoolObservation


@dataclass(frozen=True, slots=True)
class Shares:
    """Who gets what."""

    work: Mapping[str, tuple[CapabilityWork, ...]]
    """Pool -> its part of each of its capabilities that the sample knows, in the order of the pool's list."""
    unserved: Mapping[str, int]
    """Capability -> waiting tasks that are no pool's."""


@dataclass(slots=True)
class _Pot:
    """What is left of one capability."""

    sample: CapabilitySample
    waiting: int
    leasable: int
    due: int
    """How many of the waiting are due already; they are given out first."""
    may_start: int = 0
    """How many of those due the interactive reserve lets run in the slots that there are."""
    rate_slots: int | None = None
    """The slots that the rate limit can keep busy, if that took from `leasable`."""


@dataclass(slots=True)
class _Part:
    """What one pool has of one capability so far."""

    waiting: int = 0
    leasable: int = 0
    due_soon: int = 0
    held_slots: int = 0


@dataclass(slots=True)
class _Pool:
    """A pool while shares are given out."""

    view: PoolView
    leased: Mapping[str, int]
    takes: frozenset[str]
    would_take: frozenset[str]
    """If it did not only observe."""
    parts: dict[str, _Part] = field(default_factory=dict)
    rules: dict[str, SlotRule] = field(default_factory=dict)

    def want(self, name: str, sample: CapabilitySample, waiting: int) -> int:
        """Give the slots that its leases and so many waiting tasks want."""
        rule = self.rules.get(name)
        if rule is None:
            startup = self.view.observation.startup_seconds
            rule = slot_rule(self.view.spec, sample.service_seconds, sample.oldest_age_seconds, startup)
            self.rules[name] = rule
        return rule.want(self.leased.get(name, 0), waiting)

    def needs(self, name: str, sample: CapabilitySample, waiting: int) -> int:
        """Give the slots that it must have for these, with those that stay free beside background tasks."""
        want = self.want(name, sample, waiting)
        return want + sample.background.reserve(want) if self.view.spec.policy is ScalingPolicy.TARGET else want

    def part(self, name: str) -> _Part:
        return self.parts.setdefault(name, _Part())


def share(capabilities: Mapping[str, CapabilitySample], pools: Sequence[PoolView]) -> Shares:
    """Divide the work of `capabilities` over `pools`, all of one namespace."""
    ordered = [
        _Pool(
            view,
            view.observation.leased,
            takes=may_grow_for(view, ScalingMode.ACTIVE),
            would_take=may_grow_for(view, ScalingMode.OBSERVE),
        )
        for view in sorted(pools, key=_name)
    ]
    pots = {
        name: _Pot(sample, sample.waiting + sample.due_soon, sample.leasable + sample.due_soon, sample.waiting)
        for name, sample in sorted(capabilities.items())
        if plausible(sample)
    }
    for name, pot in pots.items():
        _limit_rate(pot, sum(pool.leased.get(name, 0) for pool in ordered))
    _fill_free_slots(pots, ordered)
    unserved: dict[str, int] = {}
    for name, pot in pots.items():
        takers = [pool for pool in ordered if name in pool.takes]
        # With nobody to do the work, those that only observe show what they would do.
        takers = takers or [pool for pool in ordered if name in pool.would_take]
        for pool in takers:
            _take(pool, name, pot, pots, last=pool is takers[-1])
        if pot.waiting:
            unserved[name] = pot.waiting
    return Shares({pool.view.spec.name: tuple(_work(pool, capabilities, pots)) for pool in ordered}, unserved)


def may_grow_for(view: PoolView, mode: ScalingMode) -> frozenset[str]:
    """Give the capabilities for which the pool may grow, if it is in this mode."""
    spec, observation = view.spec, view.observation
    if (
        spec.mode is not mode
        or observation.conflict
        or observation.quota_exceeded
        or census(observation).mostly_failing
    ):
        return frozenset()
    return frozenset(spec.capabilities).difference(capabilities_not_served(spec, observation))


def related(pools: Sequence[PoolView], capabilities: Collection[str]) -> list[PoolView]:
    """Give the pools whose shares a change of these capabilities may change: also those they share others with."""
    names = set(capabilities)
    rest, found = list(pools), list[PoolView]()
    while near := [view for view in rest if not names.isdisjoint(view.spec.capabilities)]:
        found += near
        rest = [view for view in rest if names.isdisjoint(view.spec.capabilities)]
        names = {name for view in near for name in view.spec.capabilities}
    return found


def _limit_rate(pot: _Pot, leased: int) -> None:
    """Take off what could not be handed out in time: more slots than r S are idle between two leases."""
    per_minute, service = pot.sample.leases_per_minute, pot.sample.service_seconds
    if per_minute is None or service is None:
        return
    allowed = rate_slots(per_minute, service)
    room = max(0, allowed - leased)
    if room < pot.leasable:
        pot.leasable, pot.rate_slots = room, allowed


def _fill_free_slots(pots: Mapping[str, _Pot], pools: Sequence[_Pool]) -> None:
    serving = [(pool, list(serving_workers(pool.view.observation))) for pool in pools]
    free = {id(worker): max(0, worker.slots - worker.leases) for _, workers in serving for worker in workers}
    for name, pot in pots.items():
        if not pot.waiting:
            continue
        takers = [
            (pool, [worker for worker in workers if name in worker.capabilities])
            for pool, workers in serving
            if name in pool.view.spec.capabilities
        ]
        slots = sum(worker.slots for _, workers in takers for worker in workers)
        pot.may_start = pot.sample.background.may_start(pot.sample.waiting, slots) + pot.sample.due_soon
        for pool, workers in takers:
            for worker in workers:
                taken = min(free[id(worker)], pot.waiting, pot.leasable, pot.may_start)
                free[id(worker)] -= taken
                pot.may_start -= taken
                _give(pool.part(name), pot, taken, taken)
        if pot.leasable and not pot.may_start:
            for pool, workers in takers:
                pool.part(name).held_slots = sum(free[id(worker)] for worker in workers)


def _take(pool: _Pool, name: str, pot: _Pot, pots: Mapping[str, _Pot], *, last: bool) -> None:
    part = pool.part(name)
    if last:
        _give(part, pot, pot.waiting, min(pot.leasable, pot.waiting))
        return
    others = sum(
        pool.needs(other, pots[other].sample, pool.parts[other].waiting if other in pool.parts else 0)
        for other in pool.view.spec.capabilities
        if other != name and other in pots
    )
    room = pool.view.spec.max_slots - others
    low, high = 0, pot.waiting
    while low < high:
        middle = (low + high + 1) // 2
        if pool.needs(name, pot.sample, part.waiting + middle) <= room:
            low = middle
        else:
            high = middle - 1
    wanted = pool.want(name, pot.sample, part.waiting + low) - pool.leased.get(name, 0) - part.leasable
    _give(part, pot, low, max(0, min(wanted, low, pot.leasable)))


def _give(part: _Part, pot: _Pot, waiting: int, leasable: int) -> None:
    due = min(waiting, pot.due)
    pot.waiting -= waiting
    pot.leasable -= leasable
    pot.due -= due
    part.due_soon += waiting - due
    part.waiting += waiting
    part.leasable += leasable


def _work(
    pool: _Pool, capabilities: Mapping[str, CapabilitySample], pots: Mapping[str, _Pot]
) -> Iterator[CapabilityWork]:
    for name in pool.view.spec.capabilities:
        sample = capabilities.get(name)
        if sample is None:
            continue
        part = pool.part(name)
        if not plausible(sample):  # every pool is to see it, and to hold
            part = _Part(sample.waiting, sample.leasable, sample.due_soon)
        yield CapabilityWork(
            name=name,
            waiting=part.waiting,
            leasable=part.leasable,
            due_soon=part.due_soon,
            oldest_age_seconds=sample.oldest_age_seconds if part.waiting else None,
            service_seconds=sample.service_seconds,
            rate_slots=pots[name].rate_slots if name in pots and part.waiting else None,
            background=sample.background,
            held_slots=part.held_slots,
            elsewhere=sample.waiting + sample.due_soon - part.waiting,
        )


def _name(view: PoolView) -> str:
    return view.spec.name
