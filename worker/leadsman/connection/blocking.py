"""One blocking call to the broker over a kept connection, for a thread that shares nothing with an event loop."""

import http.client
import ssl
from urllib.parse import urlsplit

from leadsman.connection.address import Address
from leadsman.connection.replies import failure, unreachable


class BlockingConnection:
    """A connection of one thread. Every call made with it may safely be sent twice."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, timeout_seconds: float) -> bytes:
        """Send one request, return the body of its 200. Raises LeadsmanError."""
        headers = {"Content-Type": "application/json", "User-Agent": "leadsman"} | self._address.token.headers()
        kept = self._connection is not None
        try:
            status, reply_headers, reply = self._exchange(path, body, headers, timeout_seconds)
        except (ConnectionError, http.client.HTTPException) as error:
            self.close()
            if not kept:
                raise unreachable(self._address.url, str(error) or type(error).__name__) from error
            # A kept connection that the other side closed meanwhile says nothing about the broker: ask anew.
            return self.post(path, body, timeout_seconds)
        except OSError as error:
            self.close()
            raise unreachable(self._address.url, str(error.strerror or error).lower()) from error
        if status == http.client.OK:
            return reply
        raise failure(status, reply_headers.get("Retry-After"), reply, url=self._address.url)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(
        self, path: str, body: bytes, headers: dict[str, str], timeout_seconds: float
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self._opened(timeout_seconds)
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.will_close:
            self.close()
        return response.status, response.headers, content

    def _opened(self, timeout_seconds: float) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self._address.url)
            host = parts.hostname or ""
            if parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    host, parts.port, timeout=timeout_seconds, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_seconds)
        self._connection.timeout = timeout_seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_seconds)
        return self._connection
