"""One asynchronous call to the broker over a kept connection."""

import asyncio
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

import aiohttp
from yarl import URL

from leadsman.connection.address import Address
from leadsman.connection.replies import failure, unreachable

JSON_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply that the caller said it understands."""

    status: int
    body: bytes


class HttpConnection:
    """The connections of one client to one broker, all on one event loop; opened at the first call."""

    def __init__(self, address: Address) -> None:
        self.address = address
        parts = urlsplit(address.url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: dict[str, str] | None = None,
        timeout_seconds: float,
        accept: tuple[int, ...] = (200,),
    ) -> HttpReply:
        """Send one request and return the reply when its status is in `accept`.

        `path` is escaped already. Raises BrokerUnreachableError, BrokerError, ConfigurationError (token file).
        """
        url = self._origin + path + (f"?{urlencode(query)}" if query else "")
        headers = self.address.token.headers()
        if body is not None:
            headers |= JSON_HEADERS
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._opened().request(
                    method, URL(url, encoded=True), data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                content = await response.read()
        except TimeoutError as error:
            raise unreachable(self.address.url, f"no answer within {timeout_seconds:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise unreachable(self.address.url, _reason(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(
                self.address.url, f"the connection broke ({error or type(error).__name__})"
            ) from error
        if response.status in accept:
            return HttpReply(response.status, content)
        raise failure(response.status, response.headers.get("Retry-After"), content, url=self.address.url)

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "leadsman"},
            )
        return self._session


def _reason(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno).lower()
    return str(cause or error)
