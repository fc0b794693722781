"""A thin client of the API server: plain dicts in, plain dicts out.

It is the connection of `kubernetes.aio` without its models: decoding a pod into objects costs a hundred times what
reading the three fields that we look at does.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from leadsman_operator.kube.connection import authorization, load_configuration
from leadsman_operator.kube.errors import ApiError, UnreachableError
from leadsman_operator.kube.resources import FIELD_MANAGER, Kind

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

_CONNECTIONS = 32
"""Calls at once; the others wait in the order in which they came.

When a hundred pools wake together, their writes of replicas come before the statuses that follow from them, and
nobody shakes hands over TLS a hundred times.
"""
_KEPT_SECONDS = 60.0
"""An idle connection; the API server ends one after 90."""
_TIMEOUT_SECONDS = 20.0
PAGE = 100
"""Objects that are listed in one request: five kinds at once are what a start needs the most memory for."""
_USER_AGENT = "leadsman-operator"


class _Connections(RESTClientObject):
    """A pool of our size."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self.ssl_context, keepalive_timeout=_KEPT_SECONDS)


class KubeClient:
    """Calls to one API server. A context manager: it owns its connections.

    Every call raises ApiError when the server refuses and UnreachableError when it does not answer.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._rest = _Connections(configuration)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._rest.close()

    async def get(self, kind: Kind, namespace: str, name: str, *, subresource: str = "") -> Object:
        """Read one object or a subresource of it."""
        return await self._call("GET", kind.path(namespace, name, subresource))

    async def pages(
        self, kind: Kind, namespace: str | None, *, selector: str | None = None
    ) -> AsyncIterator[tuple[list[Object], str]]:
        """List a kind in pages of bounded size, each with the resource version of the whole list."""
        query: dict[str, str] = {"limit": str(PAGE)}
        if selector:
            query["labelSelector"] = selector
        while True:
            page = await self._call("GET", kind.path(namespace), query=query)
            items: list[Object] = page.get("items") or []
            yield items, page["metadata"]["resourceVersion"]
            following = page["metadata"].get("continue")
            if not following:
                return
            query["continue"] = following

    async def apply(
        self, kind: Kind, namespace: str, name: str, body: Object, *, subresource: str = "", force: bool = False
    ) -> Object:
        """Server-side apply as our field manager: the fields in `body` become ours, those left out are given up."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._call(
            "PATCH", kind.path(namespace, name, subresource), body=body, content_type=APPLY, query=query
        )

    async def merge(self, kind: Kind, namespace: str, name: str, body: Object, *, subresource: str = "") -> Object:
        """Merge-patch an object."""
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call(
            "PATCH", kind.path(namespace, name, subresource), body=body, content_type=MERGE, query=query
        )

    async def create(self, kind: Kind, namespace: str, body: Object, *, dry_run: bool = False) -> Object:
        """Create an object; with `dry_run` only find out whether it could be."""
        query = {"fieldManager": FIELD_MANAGER}
        if dry_run:
            query["dryRun"] = "All"
        return await self._call("POST", kind.path(namespace), body=body, query=query)

    async def replace(
        self, kind: Kind, namespace: str, name: str, body: Object, *, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> Object:
        """Write a whole object, only if it still has the resource version in `body`."""
        return await self._call(
            "PUT",
            kind.path(namespace, name),
            body=body,
            query={"fieldManager": FIELD_MANAGER},
            timeout_seconds=timeout_seconds,
        )

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> Object:
        url = self.configuration.host.rstrip("/") + path
        if query:
            url = f"{url}?{urlencode(query)}"
        try:
            return await self._once(method, url, body, content_type, timeout_seconds)
        except ApiError as error:
            if error.status != 401:
                raise
        # A token of an exec plugin or an identity provider ran out: read the credentials again, once.
        await self._renew()
        return await self._once(method, url, body, content_type, timeout_seconds)

    async def _renew(self) -> None:
        old = self._rest
        self.configuration = await load_configuration()
        self._rest = _Connections(self.configuration)
        await old.close()

    async def _once(
        self, method: str, url: str, body: Object | None, content_type: str, timeout_seconds: float
    ) -> Object:
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": _USER_AGENT}
        token = await authorization(self.configuration)
        if token is not None:
            headers["Authorization"] = token
        try:
            async with asyncio.timeout(timeout_seconds):
                reply = await self._rest.request(  # type: ignore[no-untyped-call]
                    method, url, headers=headers, body=body
                )
                raw = await reply.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{method} {url}: {error or type(error).__name__}") from error
        found = _decode(raw)
        if reply.status >= 400:
            raise ApiError.from_body(reply.status, str(reply.reason), found)
        if not isinstance(found, dict):
            raise UnreachableError(f"{method} {url}: the answer is not a JSON object")
        return found


def _decode(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except ValueError:
        return raw[:200].decode(errors="replace")
