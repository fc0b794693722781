"""Namespaces that are being deleted, as far as a refused write has told.

The operator has no right to read namespaces. In one that ends nothing can be made, and nobody reads what is
written. Two hundred pools whose Deployments or queues went first would try to make them again, and tell what they
lack, in the way of the end of everything.
"""

import asyncio

ENDING_SECONDS = 10.0
"""After a refusal nothing is tried in the namespace for so long."""


class EndingNamespaces:
    """When each was last seen to end."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def note(self, namespace: str) -> None:
        """Remember that a write was refused because the namespace is being deleted."""
        now = asyncio.get_running_loop().time()
        self._seen = {other: at for other, at in self._seen.items() if now - at < ENDING_SECONDS}
        self._seen[namespace] = now

    def ends(self, namespace: str) -> bool:
        """Whether it was seen to end a short while ago."""
        seen = self._seen.get(namespace)
        return seen is not None and asyncio.get_running_loop().time() - seen < ENDING_SECONDS

    def begins(self, namespace: str) -> None:
        """Something new is in a namespace of this name: none is made in one that ends."""
        self._seen.pop(namespace, None)
