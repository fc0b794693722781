"""Namespaces that are being deleted, as far as the API server has told when something was to be made in them.

The operator has no right to read namespaces. In one that ends nothing can be made, and nobody reads what is
written. Two hundred pools whose Deployments, pods or queues went first would try to make them again, and tell what
they lack, in the way of the end of everything.
"""

import asyncio
import datetime as dt
import secrets

from leadsman_operator.kube.client import KubeClient
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.resources import CONTROLLER, Kind

ENDING_SECONDS = 10.0
"""After a refusal nothing is tried in the namespace for so long."""
ASKED_SECONDS = 2.0
"""An answer holds for so long: whatever else went within it went for the same reason.

A namespace is marked as ending five seconds before the first of its objects goes.
"""
_ANSWER_SECONDS = 3.0
"""A look does not wait longer for the answer: it may be about to make room for work."""


class EndingNamespaces:
    """When each was last seen to end, or found to stay."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._seen: dict[str, float] = {}
        self._asked: dict[str, tuple[float, asyncio.Task[bool]]] = {}

    def note(self, namespace: str) -> None:
        """Remember that a write was refused because the namespace is being deleted."""
        now = asyncio.get_running_loop().time()
        self._seen = {other: at for other, at in self._seen.items() if now - at < ENDING_SECONDS}
        self._seen[namespace] = now

    def ends(self, namespace: str) -> bool:
        """Whether it was seen to end a short while ago."""
        seen = self._seen.get(namespace)
        return seen is not None and asyncio.get_running_loop().time() - seen < ENDING_SECONDS

    async def explains(self, namespace: str) -> bool:
        """Whether what went without our doing went because its namespace ends; the API server is asked.

        One request for all who ask within `ASKED_SECONDS`. Without an answer the namespace counts as staying.
        """
        if self.ends(namespace):
            return True
        now = asyncio.get_running_loop().time()
        self._asked = {other: one for other, one in self._asked.items() if now - one[0] < ASKED_SECONDS}
        if namespace not in self._asked:
            name = f"does {namespace} end"
            self._asked[namespace] = now, asyncio.create_task(self._ask(namespace), name=name)
        # Others wait for the same answer: who is cancelled takes it from nobody.
        return await asyncio.shield(self._asked[namespace][1])

    def begins(self, namespace: str) -> None:
        """Something new is in a namespace of this name: none is made in one that ends."""
        self._seen.pop(namespace, None)
        self._asked.pop(namespace, None)

    async def _ask(self, namespace: str) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._client.create(Kind.EVENT, namespace, _probe(namespace), dry_run=True)
        except (UnreachableError, TimeoutError):
            return False
        except ApiError as error:
            if error.terminating:
                self.note(namespace)
            return error.terminating
        return False


def _probe(namespace: str) -> dict[str, object]:
    """Return an event that is never stored; to make events is a right the operator has."""
    name = f"{namespace[:200]}.{secrets.token_hex(8)}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": "probe",
        "action": "Probe",
        "reason": "Probe",
        "regarding": {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "namespace": namespace},
        "type": "Normal",
    }
