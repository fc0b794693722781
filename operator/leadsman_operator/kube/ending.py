"""Namespaces that are being deleted, as far as the API server has told when something was to be made in them.

The operator has no right to read namespaces. In one that ends nothing can be made, and nobody reads what is
written. Two hundred pools whose Deployments, pods or queues went first would try to make them again, and tell what
they lack, in the way of the end of everything.
"""

import asyncio
import datetime as dt

from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.connection import NoCredentialsError
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.event_manifest import event_manifest
from leadsman_operator.kube.resources import Kind

ENDING_SECONDS = 10.0
"""After a refusal nothing is tried in the namespace for so long."""
ASKED_SECONDS = 5.0
"""Nothing is asked again for so long: a namespace is marked as ending five seconds before its first object goes."""
UNSURE_SECONDS = 0.25
"""What waits for an answer looks again after so long; most answers take some milliseconds."""
_ANSWER_SECONDS = 3.0
"""Without an answer for so long the namespace counts as one that stays."""
_AT_ONCE = 4
"""Questions that are open at a time: an API server that hangs over them keeps the other connections free."""


class EndingNamespaces:
    """When each was last seen to end, and of which that is being found out."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._seen: dict[str, float] = {}
        self._asked: dict[str, tuple[float, asyncio.Task[None]]] = {}

    def note(self, namespace: str) -> None:
        """Remember that a write was refused because the namespace is being deleted."""
        now = asyncio.get_running_loop().time()
        self._seen = {other: at for other, at in self._seen.items() if now - at < ENDING_SECONDS}
        self._seen[namespace] = now

    def ends(self, namespace: str) -> bool:
        """Whether it was seen to end a short while ago."""
        seen = self._seen.get(namespace)
        return seen is not None and asyncio.get_running_loop().time() - seen < ENDING_SECONDS

    def ask(self, namespace: str) -> None:
        """Begin to find out whether something went because its namespace ends; one request for all that went."""
        now = asyncio.get_running_loop().time()
        self._asked = {
            other: (at, task)
            for other, (at, task) in self._asked.items()
            if not task.done() or now - at < ASKED_SECONDS
        }
        if namespace not in self._asked and not self.ends(namespace):
            task = asyncio.create_task(self._find_out(namespace), name=f"does {namespace} end")
            self._asked[namespace] = now, task

    def unsure(self, namespace: str) -> bool:
        """Whether that is being found out."""
        asked = self._asked.get(namespace)
        return asked is not None and not asked[1].done()

    def begins(self, namespace: str) -> None:
        """Something new is in a namespace of this name: none is made in one that ends."""
        self._seen.pop(namespace, None)
        asked = self._asked.pop(namespace, None)
        if asked is not None:
            asked[1].cancel()

    async def _find_out(self, namespace: str) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._gate:
                await self._client.create(Kind.EVENT, namespace, _probe(namespace), dry_run=True)
        except ApiError as error:
            if error.terminating:
                self.note(namespace)
        except (UnreachableError, NoCredentialsError, TimeoutError):
            pass


def _probe(namespace: str) -> dict[str, object]:
    """Return an event that is never stored; to make events is a right the operator has."""
    regarding = {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "namespace": namespace}
    return event_manifest(regarding, "Probe", at=dt.datetime.now(dt.UTC), action="Probe", instance="probe")
