"""kopf as we use it: it logs in, lists and watches, and hands every event to the feed. It writes nothing.

No handler of ours is one for which kopf would keep state: no finalizers, no annotations, no events, no peering.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import kopf

from leadsman_operator.feed import Feed
from leadsman_operator.kube.client import PAGE
from leadsman_operator.kube.resources import SELECTORS, WATCHED, Kind


class _Backoffs:
    """Pauses before a failed list or watch is tried again: kopf ends the whole operator when they run out.

    A namespace whose roles are gone, or an API server that is away for an hour, must not do that.
    """

    def __iter__(self) -> Iterator[float]:
        pause = 0.5
        while True:
            yield pause * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, keeps no secret
            pause = min(15.0, pause * 2)


class _Nothing(kopf.DiffBaseStorage):
    """The essence of every object is empty: kopf copies and compares none, and has none to keep.

    With a thousand pools the copies were a third of what a change costs; only handlers of ours that do not exist
    would read them.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Write nothing."""


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings for an operator that only watches."""
    found = kopf.OperatorSettings()
    found.posting.enabled = False
    found.scanning.disabled = True
    found.peering.standalone = True
    found.persistence.diffbase_storage = _Nothing()
    found.watching.chunk_size = PAGE
    found.networking.error_backoffs = _Backoffs()
    found.networking.request_timeout = 60.0
    found.networking.connect_timeout = 10.0
    found.process.ultimate_exiting_timeout = 30.0
    for kind, selector in SELECTORS.items():
        found.watching.label_selectors[kind.group or "", kind.version, kind.plural] = selector
    return found


def registry(feed: Feed, login: Callable[[], Awaitable[kopf.ConnectionInfo]]) -> kopf.OperatorRegistry:
    """Return the handlers: one login, and one for the events of every kind in the cache."""
    found = kopf.OperatorRegistry()

    @kopf.on.login(registry=found)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await login()

    for kind in WATCHED:
        _watch(found, feed, kind)
    return found


def _watch(found: kopf.OperatorRegistry, feed: Feed, kind: Kind) -> None:
    @kopf.on.event(kind.group or "", kind.version, kind.plural, registry=found, id=f"store-{kind.plural}")
    async def store(event: kopf.RawEvent, **_: Any) -> None:
        feed.event(kind, event["type"], dict(event["object"]))
