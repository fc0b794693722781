"""The operator's token for the broker, from a file that somebody else replaces."""

import asyncio
from pathlib import Path

_REREAD_SECONDS = 30.0


class TokenFile:
    """Reads the file again when what is known is old; a file that vanishes for a moment changes nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._token: str | None = None
        self._read_at: float | None = None

    def headers(self) -> dict[str, str]:
        """Return the Authorization header, or none when no file was named.

        Raises OSError when the file was never readable.
        """
        if self._path is None:
            return {}
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at >= _REREAD_SECONDS:
            try:
                self._token = self._path.read_text().strip()
            except OSError:
                if self._token is None:
                    raise
            self._read_at = now
        return {"Authorization": f"Bearer {self._token}"}

    def renew(self) -> None:
        """Read it at the next use: the broker did not accept what we know."""
        self._read_at = None
