"""Who acts when several operators run: the holder of a coordination Lease.

Clocks are never compared between machines. A candidate counts a lease as abandoned when it has seen the same record
for the whole lease duration on its own monotonic clock; the holder stops acting, on its own clock too, well before
that, counted from the moment it *sent* its last successful renewal.
"""

import asyncio
import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.resources import Kind

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """Durations of the election, in seconds; each is less than the one before."""

    lease: float = 15.0
    """A lease not renewed for so long may be taken by another."""
    deadline: float = 10.0
    """The holder stops acting when its last renewal is older than this."""
    renew: float = 2.0
    """Between renewals, and between looks of a candidate."""


class NotLeaderError(Exception):
    """This process may not write: it does not hold the lease, or cannot be sure that it still does."""


class Always:
    """The leadership of an operator that runs alone."""

    term = 0

    def holds(self) -> bool:
        """Whether this process may write."""
        return True

    def check(self) -> None:
        """Raise NotLeaderError when this process may not write."""

    async def run(self) -> None:
        """There is nothing to renew."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """There is nothing to give back."""


class Election:
    """Holds or waits for one Lease. `changed(holds)` is called at every change."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        changed: Callable[[bool], None],
        times: ElectionTimes | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._changed = changed
        self._times = times or ElectionTimes()
        self._random = rng or random.Random()  # noqa: S311 - spreads candidates, keeps no secret
        self._renewed_at: float | None = None
        self._held: dict[str, Any] | None = None
        self._seen: tuple[str, float] | None = None
        self._told = False
        self.term = 0
        """How often the lease has changed hands; grows with every new leader."""

    def holds(self) -> bool:
        """Whether this process may write at this moment."""
        if self._renewed_at is None:
            return False
        return asyncio.get_running_loop().time() - self._renewed_at < self._times.deadline

    def check(self) -> None:
        """Raise NotLeaderError when this process may not write."""
        if not self.holds():
            raise NotLeaderError(f"{self._identity} does not hold the lease {self._namespace}/{self._name}")

    async def run(self) -> None:
        """Take the lease when it is free and renew it, until cancelled."""
        while True:
            try:
                await self._round()
            except (ApiError, UnreachableError) as error:
                _log.warning("election round failed", error=str(error), holds=self.holds())
            self._tell()
            await asyncio.sleep(self._times.renew * self._random.uniform(0.9, 1.1))

    async def release(self) -> None:
        """Give the lease back, so that another takes it at once."""
        held, self._held, self._renewed_at = self._held, None, None
        self._tell()
        if held is None:
            return
        held["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=_now())
        try:
            await self._client.replace(Kind.LEASE, self._namespace, self._name, held, timeout_seconds=3.0)
        except (ApiError, UnreachableError) as error:
            _log.warning("lease not given back; it runs out by itself", error=str(error))

    async def _round(self) -> None:
        sent_at = asyncio.get_running_loop().time()
        if self._held is not None:
            try:
                await self._renew(self._held, sent_at)
            except ApiError as error:
                if error.status not in {404, 409}:
                    raise
                self._held = None
            else:
                return
        try:
            found = await self._client.get(Kind.LEASE, self._namespace, self._name)
        except ApiError as error:
            if not error.not_found:
                raise
            await self._create(sent_at)
            return
        holder = found["spec"].get("holderIdentity") or ""
        if holder == self._identity or not holder or self._abandoned(found, sent_at):
            await self._take(found, sent_at)
        elif self._renewed_at is not None:
            self._renewed_at = None

    async def _renew(self, lease: dict[str, Any], sent_at: float) -> None:
        lease["spec"]["renewTime"] = _now()
        self._keep(await self._put(lease), sent_at)

    async def _take(self, lease: dict[str, Any], sent_at: float) -> None:
        lease["spec"] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._times.lease),
            "acquireTime": _now(),
            "renewTime": _now(),
            "leaseTransitions": int(lease["spec"].get("leaseTransitions") or 0) + 1,
        }
        try:
            self._keep(await self._put(lease), sent_at)
        except ApiError as error:
            if not error.conflict:
                raise

    async def _create(self, sent_at: float) -> None:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._times.lease),
                "acquireTime": _now(),
                "renewTime": _now(),
                "leaseTransitions": 1,
            },
        }
        try:
            self._keep(await self._client.create(Kind.LEASE, self._namespace, body), sent_at)
        except ApiError as error:
            if not error.conflict:
                raise

    async def _put(self, lease: dict[str, Any]) -> dict[str, Any]:
        return await self._client.replace(
            Kind.LEASE, self._namespace, self._name, lease, timeout_seconds=self._times.deadline / 2
        )

    def _keep(self, lease: dict[str, Any], sent_at: float) -> None:
        # A lapse that this renewal ends is told all the same: what was to be done in it was dropped, and has to be
        # taken up again.
        self._tell()
        self._held = lease
        self._renewed_at = sent_at
        self.term = int(lease["spec"].get("leaseTransitions") or 0)

    def _abandoned(self, lease: dict[str, Any], now: float) -> bool:
        """Whether the same record has been there for its whole duration by our own clock."""
        version = lease["metadata"]["resourceVersion"]
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
            return False
        duration = float(lease["spec"].get("leaseDurationSeconds") or self._times.lease)
        return now - self._seen[1] >= duration

    def _tell(self) -> None:
        holds = self.holds()
        if holds != self._told:
            self._told = holds
            _log.info("leadership changed", leads=holds, identity=self._identity, term=self.term)
            self._changed(holds)


def _now() -> str:
    """Return the wall clock for people to read; nothing is decided by it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
