"""An asyncio client of the API server: plain dicts in, plain dicts out, with the kubeconfig's client certificate.

Not the operator's client on purpose: what a test sees must not pass through the code under test.
"""

import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

PODS = "/api/v1/namespaces/{namespace}/pods"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{namespace}/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/{namespace}/replicasets"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
POOLS = "/apis/leadsman.dev/v1alpha1/namespaces/{namespace}/workerpools"
CAPABILITIES = "/apis/leadsman.dev/v1alpha1/namespaces/{namespace}/capabilities"

Object = dict[str, Any]

_AWAY_SECONDS = 30.0
_NOT_NOW = frozenset({429, 503})


class KubeError(Exception):
    """The API server refused: `code` is the HTTP status, `reason` the Status object's word for it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class Kube:
    """Calls to one API server, which may be away for a while. A context manager: it owns its connections."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self._base = config["clusters"][0]["cluster"]["server"]
        self._ssl = _trust(config)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._ssl, limit=32)
        # On a machine that is full a connection may be lost on its way, and is asked for again.
        timeout = aiohttp.ClientTimeout(total=30, sock_connect=5)
        self._session = aiohttp.ClientSession(self._base, connector=connector, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            # Sockets of aborted watches are closed in the next turns of the loop.
            for _ in range(3):
                await asyncio.sleep(0)

    async def get(self, path: str, **query: str) -> Object:
        """Read one object or a list."""
        return await self._call("GET", path, query=query)

    async def find(self, path: str, **query: str) -> Object | None:
        """Read one object; None when it does not exist."""
        try:
            return await self.get(path, **query)
        except KubeError as error:
            if error.code != 404:
                raise
            return None

    async def create(self, path: str, body: Object) -> Object:
        """POST an object into a collection (or a subresource such as a binding)."""
        return await self._call("POST", path, body=body)

    async def patch(self, path: str, body: Object, kind: str = MERGE, **query: str) -> Object:
        """Change an object; `kind` is the patch's content type."""
        return await self._call("PATCH", path, body=body, content_type=kind, query=query)

    async def apply(self, path: str, body: Object, manager: str = "test") -> Object:
        """Server-side apply, taking fields over from whoever has them."""
        return await self.patch(path, body, APPLY, fieldManager=manager, force="true")

    async def delete(
        self, path: str, *, grace_seconds: int | None = None, uid: str | None = None, missing_ok: bool = True
    ) -> None:
        """Delete an object, only if it still is the one with this UID when one is given."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", path, body=options)
        except KubeError as error:
            gone = error.code == 404 or (uid is not None and error.code == 409)
            if not (missing_ok and gone):
                raise

    async def watch(self, path: str, **query: str) -> AsyncIterator[tuple[str, Object]]:
        """List, then follow for ever: ("ADDED" | "MODIFIED" | "DELETED", object), the list as ADDED first.

        Survives a lost connection. After an expired resource version it lists again: objects that vanished in
        between are reported as DELETED with what was last known of them.
        """
        known: dict[str, Object] = {}
        while True:
            version = None
            async for kind, thing in self._relist(path, query, known):
                if kind == "VERSION":
                    version = thing["resourceVersion"]
                else:
                    yield kind, thing
            assert version is not None
            async for kind, thing in self._follow(path, query, version):
                key = thing["metadata"]["uid"]
                if kind == "DELETED":
                    known.pop(key, None)
                else:
                    known[key] = thing
                yield kind, thing

    async def _relist(
        self, path: str, query: Mapping[str, str], known: dict[str, Object]
    ) -> AsyncIterator[tuple[str, Object]]:
        listing = await self.get(path, **query)
        present = {item["metadata"]["uid"]: item for item in listing["items"]}
        for key in known.keys() - present.keys():
            yield "DELETED", known.pop(key)
        for key, item in present.items():
            first = key not in known
            known[key] = item
            yield ("ADDED" if first else "MODIFIED"), item
        yield "VERSION", {"resourceVersion": listing["metadata"]["resourceVersion"]}

    async def _follow(self, path: str, query: Mapping[str, str], version: str) -> AsyncIterator[tuple[str, Object]]:
        """Watch from a version on, over as many connections as it takes; returns when the version expired."""
        assert self._session is not None
        while True:
            params = {**query, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            try:
                async with self._session.get(
                    path, params=params, timeout=aiohttp.ClientTimeout(total=None, sock_connect=10)
                ) as reply:
                    if reply.status != 200:
                        return
                    try:
                        async for event in _events(reply):
                            if event["type"] == "ERROR":
                                return
                            version = event["object"]["metadata"]["resourceVersion"]
                            if event["type"] != "BOOKMARK":
                                yield event["type"], event["object"]
                    finally:
                        _hang_up(reply)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(0.2)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        assert self._session is not None, "use the client as an async context manager"
        data = None if body is None else json.dumps(body)
        headers = {} if data is None else {"Content-Type": content_type}
        deadline = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                async with self._session.request(method, path, data=data, headers=headers, params=query) as reply:
                    if reply.status not in _NOT_NOW or time.monotonic() > deadline:
                        return _decoded(reply.status, await reply.text())
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                # An API server that a test restarts; only what may be said twice is said again.
                if method == "POST" or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.2)


async def _events(reply: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    """The events of a watch, one JSON document a line."""
    buffered = b""
    async for chunk in reply.content.iter_any():
        *lines, buffered = (buffered + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _hang_up(reply: aiohttp.ClientResponse) -> None:
    """End a watch without TLS's farewell, which would outlive the session and the test's event loop."""
    if reply.connection is not None and reply.connection.transport is not None:
        reply.connection.transport.abort()


def _decoded(code: int, text: str) -> Object:
    if code >= 400:
        # A kind that is not served is answered in plain words.
        status = json.loads(text) if text.startswith("{") else {"message": text.strip()}
        raise KubeError(code, status.get("reason", ""), status.get("message", ""))
    found: Object = json.loads(text)
    return found


def _trust(config: Object) -> ssl.SSLContext:
    """A TLS context from a kubeconfig whose certificates are given as files or inline."""
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"), cadata=_inline(cluster, "certificate-authority-data")
    )
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    else:
        _load_inline(context, user)
    return context


def _inline(part: Object, key: str) -> str | None:
    return base64.b64decode(part[key]).decode() if key in part else None


def _load_inline(context: ssl.SSLContext, user: Object) -> None:
    """The ssl module reads certificates from files only."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:
        pem.write(_inline(user, "client-certificate-data") or "")
        pem.write("\n" + (_inline(user, "client-key-data") or ""))
        pem.flush()
        context.load_cert_chain(pem.name)
