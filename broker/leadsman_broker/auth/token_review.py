"""One question to the API server: whose is this token."""

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp

from leadsman_broker.auth.principal import AuthUnavailableError, NotInClusterError

_SECRETS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=3)
_CONCURRENT = 16
_POD_UID = "authentication.kubernetes.io/pod-uid"


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where the API server is and how the broker presents itself there."""

    url: str
    token_file: Path
    ca_file: Path

    @classmethod
    def find(cls, url: str | None = None, token_file: Path | None = None, ca_file: Path | None = None) -> Self:
        """Take what is given and the rest from where a pod has it. Raises NotInClusterError."""
        if url is None:
            host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
            if not host:
                raise NotInClusterError(
                    "--auth kubernetes needs the API server: run in a pod, or give --kube-api-url, "
                    "--kube-token-file and --kube-ca-file"
                )
            url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        server = cls(url.rstrip("/"), token_file or _SECRETS / "token", ca_file or _SECRETS / "ca.crt")
        for path in (server.token_file, server.ca_file):
            if not path.is_file():
                raise NotInClusterError(
                    f"--auth kubernetes needs the file {path}; mount a service account token, or give "
                    "--kube-token-file and --kube-ca-file"
                )
        return server


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The API server's answer. `username` is None when the token is not good for the audience."""

    username: str | None
    pod_uid: str | None = None
    error: str | None = None


class TokenReviewer:
    """Asks the API server about tokens, at most a few at once."""

    def __init__(self, server: ApiServer, audience: str) -> None:
        self._server = server
        self._audience = audience
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._session: aiohttp.ClientSession | None = None

    async def review(self, token: str) -> Reviewed:
        """Ask about one token. Raises AuthUnavailableError when the API server gives no usable answer."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        async with self._slots:
            try:
                answer = await self._post(body)
            except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError, ValueError) as error:
                raise AuthUnavailableError(
                    f"the Kubernetes API server at {self._server.url} does not answer a TokenReview "
                    f"({type(error).__name__}); try again"
                ) from error
        status = answer.get("status") or {}
        if not status.get("authenticated") or self._audience not in (status.get("audiences") or []):
            return Reviewed(None, error=status.get("error"))
        user = status.get("user") or {}
        pods = (user.get("extra") or {}).get(_POD_UID) or [None]
        return Reviewed(user.get("username"), pods[0])

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._session is None:
            context = ssl.create_default_context(cafile=str(self._server.ca_file))
            connector = aiohttp.TCPConnector(ssl=context, limit=_CONCURRENT)
            self._session = aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT)
        # Read every time: the kubelet replaces the file before the token in it expires.
        own = self._server.token_file.read_text(encoding="utf-8").strip()
        async with self._session.post(
            self._server.url + _PATH, json=body, headers={"Authorization": f"Bearer {own}"}
        ) as response:
            if response.status in {401, 403}:
                raise AuthUnavailableError(
                    f"the API server refuses the broker's TokenReview (HTTP {response.status}): bind the broker's "
                    "service account to the ClusterRole system:auth-delegator"
                )
            if response.status not in {200, 201}:
                raise AuthUnavailableError(f"the API server answers a TokenReview with HTTP {response.status}")
            answer = await response.json()
            if not isinstance(answer, dict):
                raise AuthUnavailableError("the API server answers a TokenReview with something else")
            return answer
